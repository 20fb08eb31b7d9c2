/* tests/support/cases.h -- walks the op table: every op, its test cases, their inputs. */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "weft/op.h"

typedef enum case_layout {
    CASE_PLAIN,
    CASE_TRANSPOSED, /* the same elements with the axes' strides reversed */
    CASE_FLIPPED     /* the same elements with a negative stride on the last axis */
} case_layout;

/* Cases of an op: its own, or for elementwise ops without any, two plain shapes and an empty one.
 */
int case_count(const weft_op *op);
weft_case case_at(const weft_op *op, int i);

/* Whether the op is to be tried with this dtype. */
bool case_takes(const weft_op *op, weft_dtype dtype);

/* The case's inputs on the thread's default device, drawn from a fixed seed, so that equal
 * arguments give equal elements: `values_as` is the dtype that the elements are rounded to, `dtype`
 * the one that the arrays have. False when an array failed. */
bool case_inputs(const weft_op *op, const weft_case *c, weft_dtype values_as, weft_dtype dtype,
                 case_layout layout, weft_array **in);

/* The same with the caller's seed, which gives other elements. */
bool case_inputs_from(const weft_op *op, const weft_case *c, weft_dtype values_as, weft_dtype dtype,
                      case_layout layout, uint64_t seed, weft_array **in);

/* Applies the op and sets its outputs; returns their number, or -1 if the op refused the inputs. */
int case_apply(const weft_op *op, const weft_case *c, weft_array *const *in,
               weft_array *out[WEFT_MAX_OUTPUTS]);

/* A case as a function of some of its inputs, the arguments. */
typedef struct case_subject {
    const weft_op *op;
    const weft_case *c;
    weft_array *const *fixed; /* the case's inputs; the arguments replace some of them */
    int argument[WEFT_MAX_OPERANDS];
    int n_arguments;
} case_subject;

/* A weft_function whose context is the case. */
int case_call(void *subject, weft_array *const *in, int n_in, weft_array **out, int room);

/* The error allowed for rounding to `dtype`, relative to max(1, |value|). */
double case_tolerance(const weft_op *op, weft_dtype dtype);

#endif
