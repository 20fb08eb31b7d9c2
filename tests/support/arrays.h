/* tests/support/arrays.h -- named arrays from a text file of tests/golden: a line is a name, the
 * number of elements, and the elements. */
#ifndef TESTS_SUPPORT_ARRAYS_H
#define TESTS_SUPPORT_ARRAYS_H

#include "weft/array.h"

/* Reads the fixture `file` for the functions below; false when that fails. Reading it again, or
 * another one, replaces what was read. */
bool arrays_load(const char *file);
void arrays_unload(void);

/* The elements of an array; NULL (and a failed check) for an unknown name. */
const double *arrays_find(const char *name, int64_t *n);

/* The same as an array of the given dtype and shape. */
weft_array *arrays_make(const char *name, weft_dtype dtype, weft_dims shape);

/* sin(start), sin(start + 1), ...: numbers without symmetries that could hide errors. */
weft_array *arrays_sine(weft_dims shape, double start, weft_dtype dtype);

/* Checks that both have the same rank and size, and elements with |a - b| <= tolerance * max(1,
 * |b|). */
bool arrays_agree(weft_array *a, weft_array *b, double tolerance, const char *label);

/* Checks the elements of `a`: |a - expected| <= tolerance * max(1, |expected|). `label`
 * identifies the check in the failure message. */
bool arrays_check(weft_array *a, const char *name, double tolerance, const char *label);

#endif
