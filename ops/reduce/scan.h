/* ops/reduce/scan.h -- what the running sums, products and extremes share. */
#ifndef OPS_REDUCE_SCAN_H
#define OPS_REDUCE_SCAN_H

#include "ops/reduce/reduce.h"

/* The table of weft_scan_params, and the cases that every scan has: the inclusive ones first, as
 * the exclusive ones of some begin with an infinity, of which there are no finite differences. */
extern const weft_field weft__scan_fields[];
enum { SCAN_CASES = 7, INCLUSIVE_CASES = 4 };
extern const weft_case weft__scan_cases[SCAN_CASES];

/* Infer: the input's shape and dtype; running sums and products of bool are int32. */
bool weft__infer_running_sum(const weft_array *node, weft_spec *out, weft_why *why);
bool weft__infer_scan(const weft_array *node, weft_spec *out, weft_why *why);

/* Applies the op along an axis, which may be WEFT_FLATTENED. */
weft_array *weft__scan(const weft_op *op, weft_array *x, int axis, bool reverse, bool inclusive);

/* x one place on along the axis, in the direction of the scan (`on`) or against it; `fill` comes in
 * at the end that is left free. */
weft_array *weft__shift(weft_array *x, const weft_scan_params *p, bool on, double fill);

/* In at least float32, where intermediate results must not be rounded to 16 bits. */
weft_array *weft__wide(weft_array *x);

#endif
