/* tests/compile/values.h -- arguments and results of functions of lengths. */
#ifndef TESTS_COMPILE_VALUES_H
#define TESTS_COMPILE_VALUES_H

#include "weft/array.h"

/* An evaluated float32 array of the sines of 0, step, 2 step, ... */
weft_array *numbers(weft_dims shape, double step);

/* Whether two arrays have the same dtype, shape and bytes. */
bool same_elements(weft_array *a, weft_array *b);

#endif
