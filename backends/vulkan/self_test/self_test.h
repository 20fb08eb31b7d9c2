/* backends/vulkan/self_test/self_test.h -- compares a few ops on a newly opened device with the
 * host. A device that computes wrong numbers is refused; if only an optional feature is affected,
 * that feature is disabled.
 *
 * Results are stored in ${XDG_CACHE_HOME:-~/.cache}/weft/, one file per device and driver, keyed by
 * driver version, library version, shaders and used features, so the ops run once.
 * WEFT_VULKAN_SELF_TEST=skip disables the test; =force ignores stored results.
 */
#ifndef BACKENDS_VULKAN_SELF_TEST_SELF_TEST_H
#define BACKENDS_VULKAN_SELF_TEST_SELF_TEST_H

#include "backends/vulkan/device.h"

/* Whether the device may be used. WEFT_OK: yes, except for the features in `wrong`; `about`
 * describes the result, for example "self-test passed". Otherwise the message has the op, the
 * expected and the actual value. */
typedef struct weft__vulkan_verdict {
    bool wrong[WEFT__VULKAN_FEATURE_COUNT];
    char about[320];
} weft__vulkan_verdict;

weft_status weft__vulkan_self_test(const weft_device *device, weft__vulkan_device *d,
                                   weft__vulkan_verdict *out);

#endif
