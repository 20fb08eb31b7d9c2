/* backends/vulkan/self_test/self_test.h -- a few ops on a device that was just opened, compared
 * with the host. A device that computes wrong numbers is refused, or loses the optional feature
 * that only the failing op needs.
 *
 * Results are kept in ${XDG_CACHE_HOME:-~/.cache}/weft/, one file for each device and driver, by
 * driver version, library version, shaders and features in use, so that the ops run once.
 * WEFT_VULKAN_SELF_TEST=skip tests nothing; =force ignores what is kept. */
#ifndef BACKENDS_VULKAN_SELF_TEST_SELF_TEST_H
#define BACKENDS_VULKAN_SELF_TEST_SELF_TEST_H

#include "backends/vulkan/device.h"

/* Whether the device may be used. WEFT_OK: it may, but for the features in `wrong`; `about` says
 * what was found, "self-test passed" for example. Otherwise the message has the op, the expected
 * value and the actual one. */
typedef struct weft__vulkan_verdict {
    bool wrong[WEFT__VULKAN_FEATURE_COUNT];
    char about[320];
} weft__vulkan_verdict;

weft_status weft__vulkan_self_test(const weft_device *device, weft__vulkan_device *d,
                                   weft__vulkan_verdict *out);

#endif
