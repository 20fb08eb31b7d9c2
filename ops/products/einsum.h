/* ops/products/einsum.h -- a parsed einsum, and the order of its contractions. */
#ifndef OPS_PRODUCTS_EINSUM_H
#define OPS_PRODUCTS_EINSUM_H

#include "ops/common.h"

/* Labels are numbers: A-Z, a-z (in alphabetical order, as in NumPy), then the axes of the ellipsis,
 * counted from its last. Sets of labels are bit masks. */
enum { EINSUM_LETTERS = 52, EINSUM_LABELS = 64 };

typedef struct einsum {
    int n;
    weft_dims *terms; /* the labels of each operand's axes */
    weft_dims output;
    int64_t sizes[EINSUM_LABELS];
} einsum;

/* Parses the subscripts for operands of these shapes. Call weft__einsum_free also after a failure.
 */
bool weft__einsum_parse(const char *subscripts, const weft_dims *shapes, int n, einsum *e,
                        weft_why *why);
void weft__einsum_free(einsum *e);

static inline uint64_t label_bit(int64_t label)
{
    return UINT64_C(1) << label;
}

static inline uint64_t label_set(const weft_dims *labels)
{
    uint64_t set = 0;
    for (int i = 0; i < labels->n; i++) {
        set |= label_bit(labels->at[i]);
    }
    return set;
}

/* A contraction: operands a < b are removed from the list, and the result is appended. */
typedef struct einsum_step {
    int a, b;
    uint64_t left, right, result; /* labels */
    double flops;
} einsum_step;

/* Fills n - 1 steps (none for one operand). */
weft_status weft__einsum_plan(const einsum *e, einsum_step *steps);

#endif
