/* tests/support/golden.h -- reference arrays computed by other libraries:
 * tests/golden/NAME.safetensors, made by tests/golden/NAME.py. Tensors are called "case/in0",
 * "case/out0". */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include "weft/array.h"

/* Opens the file for the functions below ("ops/scans": tests/golden/ops/scans.safetensors); false,
 * and a failed check, when that fails. Opening another one closes it. */
bool golden_open(const char *name);
void golden_close(void);

bool golden_has(const char *tensor);

/* The tensor in its own dtype, or converted to `dtype`. NULL and a failed check when absent. */
weft_array *golden_get(const char *tensor);
weft_array *golden_as(const char *tensor, weft_dtype dtype);

/* Checks shape and elements of `actual` against the tensor, in float64 (complex64 by parts):
 * |a - e| <= tolerance * max(1, |e|); NaN and infinities must agree; tolerance 0: equal. */
bool golden_check(weft_array *actual, const char *tensor, double tolerance);

/* The same in units in the last place of actual's dtype (float16, bfloat16, float32, float64) at
 * the expected value. */
bool golden_check_ulp(weft_array *actual, const char *tensor, double ulps);

#endif
