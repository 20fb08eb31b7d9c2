/* ops/reduce/scan.h -- functions shared by the scans (cumulative sums, products and extremes). */
#ifndef OPS_REDUCE_SCAN_H
#define OPS_REDUCE_SCAN_H

#include "ops/reduce/reduce.h"

/* The field table of weft_scan_params, and the test cases of all scans. Inclusive cases come first:
 * some exclusive scans start with an infinity, which rules out finite differences. */
extern const weft_field weft__scan_fields[];
enum { SCAN_CASES = 7, INCLUSIVE_CASES = 4 };
extern const weft_case weft__scan_cases[SCAN_CASES];

/* Infer: shape and dtype of the input; for bool input, running sums and products are int32. */
bool weft__infer_running_sum(const weft_array *node, weft_spec *out, weft_why *why);
bool weft__infer_scan(const weft_array *node, weft_spec *out, weft_why *why);

/* Applies the op along an axis, which may be WEFT_FLATTENED. */
weft_array *weft__scan(const weft_op *op, weft_array *x, int axis, bool reverse, bool inclusive);

/* Shifts x by one position along the axis, in the direction of the scan (`on`) or against it.
 * `fill` enters at the free end. */
weft_array *weft__shift(weft_array *x, const weft_scan_params *p, bool on, double fill);

/* Converts to at least float32, for intermediate results that must not be rounded to 16 bits. */
weft_array *weft__wide(weft_array *x);

#endif
