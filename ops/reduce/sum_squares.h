/* ops/reduce/sum_squares.h -- the sum of the squares of several arrays. */
#ifndef OPS_REDUCE_SUM_SQUARES_H
#define OPS_REDUCE_SUM_SQUARES_H

#include "weft/array.h"

/* The sum of the squares of all elements of n >= 1 float arrays of any shapes, on one device:
 * 0-d, in their common dtype, at least float32. The sums of the arrays are added in order. */
weft_array *weft__sum_squares(weft_array *const *arrays, int n);

#endif
