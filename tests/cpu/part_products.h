/* tests/cpu/part_products.h -- random products for tests of bfloat16 parts, and their elements in
 * float64. */
#ifndef TESTS_CPU_PART_PRODUCTS_H
#define TESTS_CPU_PART_PRODUCTS_H

#include "backends/cpu/gemm.h"
#include "tests/cpu/tensors.h"

enum { SIDES = 2 };

/* One pair of a sum. The parts of an operand are a hint; its elements have exactly that many
 * parts. */
typedef struct pair_case {
    int64_t k;
    weft_dtype dtype[SIDES];
    lie layout[SIDES];
    int parts[SIDES];
    const char *encoding; /* of B, which then has no layout */
    bool code_terms;      /* the rows of the codes are rows of B, not columns */
} pair_case;

typedef struct product_case {
    int64_t m, n, batch; /* batch 0: without */
    bool shared_b;
    weft_dtype c;
    bool bias, accumulate, coarse;
    int pairs;
    pair_case pair[CPU_MOST_PAIRS];
} product_case;

/* An operand, and its values as (batch, rows, k) or (batch, columns, k). */
typedef struct operand {
    owned_tensor t;
    char *blocks;
    cpu_codes codes;
    double *values;
    bool shared;
} operand;

typedef struct product {
    product_case c;
    operand operand[CPU_MOST_PAIRS][SIDES];
    cpu_pair more[CPU_MOST_PAIRS];
    owned_tensor out, before;
    float *bias;
    cpu_gemm g;
} product;

/* Draws the operands. The structure refers to itself, so it is filled where it stays. */
void make_product(product *p, const product_case *c);
void free_product(product *p);

/* Runs weft__cpu_by_parts (`parts`) or weft__cpu_gemm with a workspace that is checked for writes
 * beyond its end. Returns what weft__cpu_by_parts does, else true. */
bool run_with_guard(const cpu_gemm *g, bool parts);
/* Computes the result by weft__cpu_by_parts. */
bool run_parts(product *p);

/* An element of the result, and the sum of the magnitudes of its terms. */
double exact_element(const product *p, int64_t item, int64_t i, int64_t j, double *magnitude);

/* Describes the product, until the next call. */
const char *label_of(const product_case *c);

#endif
