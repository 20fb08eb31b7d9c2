/* core/compile/numbers.h -- the numbers in a trace, in one order: of its scalar constants, then of
 * its nodes' parameters. */
#ifndef CORE_COMPILE_NUMBERS_H
#define CORE_COMPILE_NUMBERS_H

#include "core/compile/trace.h"

typedef enum weft__number_kind {
    WEFT__NUMBER_WHOLE,
    WEFT__NUMBER_DOUBLE,
    WEFT__NUMBER_FLOAT, /* rounded to float32 */
    WEFT__NUMBER_OTHER  /* a scalar of another float dtype: not fitted unless it is whole */
} weft__number_kind;

typedef struct weft__number {
    weft__number_kind kind;
    int64_t whole;
    double real; /* of the kinds that are not whole */
} weft__number;

typedef struct weft__numbers {
    weft__number *at;
    int64_t n, capacity;
} weft__numbers;

weft_status weft__numbers_of(const weft__trace *t, weft__numbers *out);
/* Writes them into a trace with as many; constants that change are made anew. */
weft_status weft__numbers_set(weft__trace *t, const weft__numbers *numbers);
void weft__numbers_free(weft__numbers *numbers);

bool weft__number_equal(weft__number a, weft__number b);
/* `value` as a number of that kind holds it. */
double weft__number_real(weft__number_kind kind, double value);
/* "reshape (node 12): shape" into text. */
void weft__number_text(const weft__trace *t, int64_t number, char *text, size_t size);

/* WEFT_OK if the traces differ in numbers alone, else the difference in words. */
weft_status weft__same_structure(const weft__trace *a, const weft__trace *b);

#endif
