/* backends/vulkan/self_test/trial.h -- runs one op on inputs from the host and compares with
 * expected values. */
#ifndef BACKENDS_VULKAN_SELF_TEST_TRIAL_H
#define BACKENDS_VULKAN_SELF_TEST_TRIAL_H

#include "backends/vulkan/device.h"

enum {
    WEFT__TRIAL_NEEDED = WEFT__VULKAN_FEATURE_COUNT
}; /* a device that fails such a trial is
    * refused */

/* A device under test, and the first wrong value: "exp(2.3) is 9.88, expected 9.97". */
typedef struct weft__trials {
    const weft_device *device;
    weft__vulkan_device *state;
    char wrong[256];
} weft__trials;

/* A reproducible number in [-1, 1] for each i. */
double weft__trial_sample(uint32_t i);

/* A row-major tensor over host memory. */
weft_tensor weft__trial_tensor(weft_dtype dtype, weft_dims shape, void *data);

/* Runs the call, whose operands are on the host, on the device: the tape or, if that is NULL, the
 * backend's own row for the op. Results go to the output tensors. WEFT_UNSUPPORTED: no row accepts
 * it. */
weft_status weft__trial_run(weft__trials *t, weft_call *call, const weft_tape *tape);

/* Compares element by element: |actual - expected| <= tolerance |expected|, or both below
 * `smallest`; infinities and NaN must be where they are expected. The first difference goes into
 * t->wrong; `label` (NULL: "op, element i") names the computed element. */
typedef void weft__trial_label(const void *context, int64_t i, char *out, size_t size);
void weft__trial_compare(weft__trials *t, const char *op, const weft_tensor *actual,
                         const double *expected, double tolerance, double smallest,
                         weft__trial_label *label, const void *context);

/* A trial. `run` returns a failure only if the device could not compute; differences go into
 * t->wrong. Trials of a feature run if it is used. */
typedef struct weft__trial {
    const char *name;
    int feature; /* WEFT__VULKAN_..., or WEFT__TRIAL_NEEDED */
    weft_status (*run)(weft__trials *t);
} weft__trial;

extern const weft__trial weft__trials_all[];
extern const int weft__trials_count;

weft_status weft__trial_real(weft__trials *t);    /* trials_elementwise.c */
weft_status weft__trial_float64(weft__trials *t); /* needs FLOAT64 */
weft_status weft__trial_int32(weft__trials *t);
weft_status weft__trial_int64(weft__trials *t);      /* needs INT64 */
weft_status weft__trial_subnormals(weft__trials *t); /* needs SUBNORMALS */
weft_status weft__trial_bytes(weft__trials *t);      /* needs STORAGE8 */
weft_status weft__trial_casts(weft__trials *t);
weft_status weft__trial_core_products(weft__trials *t); /* trials_cores.c; needs MATRIX */
weft_status weft__trial_core_bfloat16(weft__trials *t);
weft_status weft__trial_core_attention(weft__trials *t);

#endif
