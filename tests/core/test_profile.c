/* tests/core/test_profile.c -- calls, operations and bytes that a profile counts, against numbers
 * derived by hand; errors of traces. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/gguf.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/timeline.h"

enum { MOST = 64, MOST_INPUTS = 9 };

/* ---- Each op's own count --------------------------------------------------------------------- */

/* A call, and its work by hand: operations, and bytes of its operands that need not be read. */
typedef struct counted {
    const char *op;
    const void *params;
    double flops, unread;
    weft_dims in[MOST_INPUTS]; /* float32 */
    int n_inputs;
    weft_dims out;    /* of the first output */
    weft_dtype dtype; /* of the first output */
    int32_t last[8];  /* elements of the last input */
    bool has_last;    /* whether the host has them */
} counted;

/* A float32 output, and a last input that only the device has. */
#define NO_LAST WEFT_FLOAT32, {0}, false
#define D4(A, B, C, D)                                                                             \
    {                                                                                              \
        .n = 4, .at = { A, B, C, D }                                                               \
    }
#define D3(A, B, C)                                                                                \
    {                                                                                              \
        .n = 3, .at = { A, B, C }                                                                  \
    }
#define D2(A, B)                                                                                   \
    {                                                                                              \
        .n = 2, .at = { A, B }                                                                     \
    }
#define D1(A)                                                                                      \
    {                                                                                              \
        .n = 1, .at = { A }                                                                        \
    }

static const weft_attention_params plain = {.scale = 1};
static const weft_attention_params causal = {.scale = 1, .causal = true};
static const weft_attention_params windowed = {.scale = 1, .causal = true, .window = 2};
static const weft_attention_params to_lengths = {.scale = 1, .causal = true, .has_lengths = true};
static const weft_attention_append_params append = {
    .attention = {.scale = 1, .causal = true, .has_lengths = true}, .rope = {.amplitude = 1}};
static const weft_attention_params from_first = {.scale = 1, .causal = true, .has_first = true};
static const weft_linear_params forward = {.transposed = false}, backward = {.transposed = true};
static const weft_linear_cross_entropy_params losses = {.with_gradient = false};
static const weft_linear_cross_entropy_params gradients = {.with_gradient = true};
static const weft_gather_mm_params sums = {.count = 4};
static const weft_quantized_params pairs = {
    .mode = WEFT_ENCODING_AFFINE, .bits = 4, .group = 64, .transposed = true};
static const weft_quantized_params gathered = {
    .mode = WEFT_ENCODING_AFFINE, .bits = 4, .group = 64, .transposed = true, .gathered = true};

static const counted calls[] = {
    /* 12 outputs of 4 terms; with 2 groups, 12 outputs of 2 terms. */
    {"conv", NULL, 2 * 12 * 4, 0, {D3(1, 5, 2), D3(3, 2, 2)}, 2, D3(1, 4, 3), NO_LAST},
    {"conv", NULL, 2 * 12 * 2, 0, {D3(1, 4, 2), D3(4, 2, 1)}, 2, D3(1, 3, 4), NO_LAST},
    /* Each of 12 cotangents meets the 4 elements of a filter. */
    {"conv_weight_grad", NULL, 2 * 12 * 4, 0, {D3(1, 5, 2), D3(1, 4, 3)}, 2, D3(3, 2, 2), NO_LAST},
    {"matmul", NULL, 2 * 30 * 4, 0, {D3(2, 3, 4), D3(2, 4, 5)}, 2, D3(2, 3, 5), NO_LAST},
    /* A complex multiplication and addition are 8 operations. */
    {"matmul", NULL, 8 * 15 * 4, 0, {D2(3, 4), D2(4, 5)}, 2, D2(3, 5), WEFT_COMPLEX64, {0}, false},
    {"linear", &forward, 2 * 6 * 64 * 10, 0, {D2(6, 64), D2(10, 64)}, 2, D2(6, 10), NO_LAST},
    {"linear", &backward, 2 * 6 * 64 * 10, 0, {D2(6, 10), D2(10, 64)}, 2, D2(6, 64), NO_LAST},
    {"linear_sum",
     NULL,
     2 * 6 * (64 + 4) * 10,
     0,
     {D2(6, 64), D2(10, 64), D2(6, 4), D2(10, 4)},
     4,
     D2(6, 10),
     NO_LAST},
    {"linear_cross_entropy",
     &losses,
     2 * 3 * 4 * 7,
     0,
     {D2(3, 4), D2(7, 4), D1(3)},
     3,
     D1(3),
     NO_LAST},
    {"linear_cross_entropy",
     &gradients,
     4 * 3 * 4 * 7, /* the gradient is a second product */
     0,
     {D2(3, 4), D2(7, 4), D1(3)},
     3,
     D1(3),
     NO_LAST},
    {"linear_cross_entropy_weight_grad",
     NULL,
     4 * 3 * 4 * 7,
     0,
     {D2(3, 4), D2(7, 4), D1(3), D1(3), D1(3)},
     5,
     D2(7, 4),
     NO_LAST},
/* Three queries, 4 heads, 2 sequences, scores and values of 8 elements. All 5 keys; then the
 * last query sees all and each before it one less; then 2 keys each. */
#define QKV D4(2, 3, 4, 8), D4(2, 5, 2, 8), D4(2, 5, 2, 8)
    {"attention", &plain, 2 * 2 * (3 * 5) * 4 * 16, 0, {QKV}, 3, D4(2, 3, 4, 8), NO_LAST},
    {"attention", &causal, 2 * 2 * (3 + 4 + 5) * 4 * 16, 0, {QKV}, 3, D4(2, 3, 4, 8), NO_LAST},
    {"attention", &windowed, 2 * 2 * (2 + 2 + 2) * 4 * 16, 0, {QKV}, 3, D4(2, 3, 4, 8), NO_LAST},
    {"attention_sinks",
     &causal,
     2 * 2 * (3 + 4 + 5) * 4 * 16,
     0,
     {QKV, D1(4)},
     4,
     D4(2, 3, 4, 8),
     NO_LAST},
    /* Of 4 keys the queries see 2, 3 and 4; of 2 keys 0, 1 and 2. 4 of 10 keys and values of
     * 2 x 8 elements are not read. */
    {"attention",
     &to_lengths,
     2 * (2 + 3 + 4 + 0 + 1 + 2) * 4 * 16,
     4 * 2 * 16 * 4,
     {QKV, D1(2)},
     4,
     D4(2, 3, 4, 8),
     WEFT_FLOAT32,
     {4, 2},
     true},
    /* Lengths that only the device has: all keys count. */
    {"attention",
     &to_lengths,
     2 * 2 * (3 + 4 + 5) * 4 * 16,
     0,
     {QKV, D1(2)},
     4,
     D4(2, 3, 4, 8),
     NO_LAST},
    /* Sequences of 1 and 2 tokens in a row: 1, 1 and 2 keys. */
    {"attention",
     &from_first,
     2 * (1 + 1 + 2) * 4 * 16,
     0,
     {D4(1, 3, 4, 8), D4(1, 3, 2, 8), D4(1, 3, 2, 8), D2(1, 3)},
     4,
     D4(1, 3, 4, 8),
     WEFT_FLOAT32,
     {0, 1, 1},
     true},
/* Codes, steps and minima of 4 keys and values are not read: here all of them float32. */
#define CODES D4(2, 5, 2, 8), D4(2, 5, 2, 1), D4(2, 5, 2, 1)
    {"attention_codes",
     &to_lengths,
     2 * (2 + 3 + 4 + 0 + 1 + 2) * 4 * 16,
     4 * 2 * (16 + 2 + 2) * 4,
     {D4(2, 3, 4, 8), CODES, CODES, D1(2)},
     8,
     D4(2, 3, 4, 8),
     WEFT_FLOAT32,
     {4, 2},
     true},
    /* 4 of the 10 keys and values are not read, and 8 are not written. */
    {"attention_append",
     &append,
     2 * (4 + 2) * 4 * 16,
     4 * 2 * 16 * 4 + 8 * 2 * 16 * 4,
     {D4(2, 1, 4, 8), D4(2, 5, 2, 8), D4(2, 5, 2, 8), D4(2, 1, 2, 8), D4(2, 1, 2, 8), D1(1), D1(4),
      D1(1), D1(2)},
     9,
     D4(2, 1, 4, 8),
     WEFT_FLOAT32,
     {4, 2},
     true},
    /* 4 of the 10 keys and values of 5 pages are not read. */
    {"attention_pages",
     &to_lengths,
     2 * (2 + 3 + 4 + 0 + 1 + 2) * 4 * 16,
     4 * 2 * 16 * 4,
     {D4(2, 3, 4, 8), D4(5, 2, 2, 8), D4(5, 2, 2, 8), D2(2, 3), D1(2)},
     5,
     D4(2, 3, 4, 8),
     WEFT_FLOAT32,
     {4, 2},
     true},
    /* 6 pairs, 2 heads: scores, dq and dk of 4 elements, dv and the scores' gradient of 5. */
    {"attention_vjp",
     &causal,
     2 * 6 * 2 * (3 * 4 + 2 * 5),
     0,
     {D4(1, 3, 2, 4), D4(1, 3, 2, 4), D4(1, 3, 2, 5), D4(1, 3, 2, 5), D3(1, 3, 2), D4(1, 3, 2, 5)},
     6,
     D4(1, 3, 2, 4),
     NO_LAST},
    /* Three pairs of (3, 4) and (4, 6); at least 2 of 5 matrices are not selected. */
    {"gather_mm",
     NULL,
     2 * 3 * 18 * 4,
     2 * 24 * 4,
     {D3(2, 3, 4), D3(5, 4, 6), D1(3), D1(3)},
     4,
     D3(3, 3, 6),
     NO_LAST},
    {"gather_mm_sums",
     &sums,
     2 * 5 * 3 * 4 * 6, /* 5 pairs of (3, 4) and (3, 6) */
     0,
     {D3(2, 3, 4), D3(5, 3, 6), D1(5), D1(5)},
     4,
     D3(4, 4, 6),
     NO_LAST},
    {"gather_linear",
     NULL,
     2 * 2 * 6 * 4,
     1 * 24 * 4, /* 2 rows select at most 2 of 3 matrices */
     {D2(5, 4), D3(3, 6, 4), D1(2), D1(2)},
     4,
     D2(2, 6),
     NO_LAST},
    {"gather_linear",
     NULL,
     2 * 7 * 6 * 4,
     0,
     {D2(5, 4), D3(3, 6, 4), D1(7), D1(7)},
     4,
     D2(7, 6),
     NO_LAST},
    {"quantized_matmul",
     &pairs,
     2 * 30 * 64,
     0,
     {D3(2, 3, 64), D3(2, 5, 8), D3(2, 5, 1), D3(2, 5, 1)},
     4,
     D3(2, 3, 5),
     NO_LAST},
    {"quantized_matmul",
     &gathered,
     2 * 6 * 64,
     2 * (16 + 2 + 2) * 4, /* codes, scales and biases of 2 of 3 matrices */
     {D3(2, 3, 64), D3(3, 2, 8), D3(3, 2, 1), D3(3, 2, 1), D1(1), D1(1)},
     6,
     D3(1, 3, 2),
     NO_LAST},
    /* Segments of 3, 5 and no terms; unknown ones count as all 8 terms each. */
    {"segmented_mm",
     NULL,
     2 * 3 * 2 * (3 + 5),
     0,
     {D2(3, 8), D2(8, 2), D2(3, 2)},
     3,
     D3(3, 3, 2),
     WEFT_FLOAT32,
     {0, 3, 3, 8, 5, 5},
     true},
    {"segmented_mm",
     NULL,
     2 * 3 * 2 * 24,
     0,
     {D2(3, 8), D2(8, 2), D2(3, 2)},
     3,
     D3(3, 3, 2),
     NO_LAST},
    {"segmented_mm_grad",
     NULL,
     2 * 3 * 2 * (3 + 5),
     0,
     {D3(3, 3, 2), D2(8, 2), D2(3, 2)},
     3,
     D2(3, 8),
     WEFT_FLOAT32,
     {0, 3, 3, 8, 5, 5},
     true},
    /* 2 sequences of 5 tokens and 2 heads; a state of (2, 3), 7 operations an element. */
    {"gated_delta",
     NULL,
     7 * 2 * 5 * 2 * (2 * 3),
     0,
     {D4(2, 5, 1, 3), D4(2, 5, 1, 3), D4(2, 5, 2, 2), D3(2, 5, 2), D3(2, 5, 2), D4(2, 2, 2, 3)},
     6,
     D4(2, 5, 2, 2),
     NO_LAST},
    {"state_space",
     NULL,
     5 * 2 * 5 * 2 * (2 * 3),
     0,
     {D4(2, 5, 1, 3), D4(2, 5, 1, 3), D4(2, 5, 2, 2), D3(2, 5, 2), D4(2, 2, 2, 3)},
     5,
     D4(2, 5, 2, 2),
     NO_LAST},
};

static weft_tensor row_major(weft_dims shape, weft_dtype dtype)
{
    weft_tensor t = {.dtype = dtype, .shape = shape};
    int64_t stride = 1;
    for (int axis = shape.n - 1; axis >= 0; axis--) {
        t.strides[axis] = stride;
        stride *= shape.at[axis];
    }
    return t;
}

static void check_count(const counted *c, int number)
{
    const double whole = 1 << 20;
    const weft_op *op = weft_op_find(c->op);
    weft_tensor in[MOST_INPUTS];
    weft_work work = {.bytes = whole};
    int32_t last[8];
    if (!CHECK(op != NULL && op->work != NULL))
        return;
    for (int i = 0; i < c->n_inputs; i++)
        in[i] = row_major(c->in[i], WEFT_FLOAT32);
    if (c->has_last) {
        memcpy(last, c->last, sizeof last);
        in[c->n_inputs - 1].dtype = WEFT_INT32;
        in[c->n_inputs - 1].data = last;
    }
    const weft_tensor out = row_major(c->out, c->dtype);
    const weft_call call = {.op = op,
                            .params = c->params,
                            .n_inputs = c->n_inputs,
                            .n_outputs = 1,
                            .in = in,
                            .out = &out};
    op->work(&call, &work);
    if (!CHECK_CLOSE(work.flops, c->flops, 0) || !CHECK_CLOSE(whole - work.bytes, c->unread, 1e-9))
        printf("    call %d, %s\n", number, c->op);
}

/* Every op that counts its work has a call in the table. */
static void counts_equal_those_by_hand(void)
{
    const int n = (int)(sizeof calls / sizeof *calls);
    for (int i = 0; i < n; i++)
        check_count(&calls[i], i);
    for (int i = 0; i < weft_op_count(); i++) {
        int found = 0;
        while (found < n && strcmp(calls[found].op, weft_op_at(i)->name) != 0)
            found++;
        if (weft_op_at(i)->work != NULL && found == n)
            CHECK_FAIL("%s counts its work, and no call is tested", weft_op_at(i)->name);
    }
}

/* ---- Evaluations ----------------------------------------------------------------------------- */

static weft_kernel_report kernels[MOST];
static int n_kernels;

static weft_array *normal(weft_dims shape, weft_dtype dtype)
{
    weft_array *x = weft_random_normal(weft_random_key(1), shape, 0, 1, dtype);
    CHECK_OK(weft_eval(x));
    return x;
}

/* Evaluates under a profile of the CPU. */
static void measure(weft_array *a)
{
    weft_device *cpu = weft_device_get("cpu");
    CHECK_OK(weft_device_profile(cpu, true));
    CHECK_OK(weft_eval(a));
    n_kernels = weft_device_kernels(cpu, kernels, MOST);
    CHECK_OK(weft_device_profile(cpu, false));
    CHECK_EQ_INT(weft_device_kernels(cpu, kernels + n_kernels, 1), 0);
}

static void expect(const char *op, const char *variant, int count, double flops, double bytes)
{
    for (int i = 0; i < n_kernels; i++) {
        const weft_kernel_report *k = &kernels[i];
        if (strcmp(k->op, op) == 0 && strcmp(k->variant, variant) == 0) {
            CHECK_EQ_INT(k->calls, count);
            CHECK_CLOSE(k->work.flops, flops, 0);
            CHECK_CLOSE(k->work.bytes, bytes, 0);
            CHECK(k->nanoseconds > 0);
            return;
        }
    }
    CHECK_FAIL("no kernel %s %s was run", op, variant);
}

static void products(void)
{
    weft_scope_open();
    measure(weft_matmul(normal(WEFT_DIMS(2, 3, 4), WEFT_FLOAT32),
                        normal(WEFT_DIMS(2, 4, 5), WEFT_FLOAT32)));
    expect("matmul", "float32", 1, 2 * 2 * 3 * 4 * 5, 4 * (2 * 12 + 2 * 20 + 2 * 15));
    weft_array *x = normal(WEFT_DIMS(6, 64), WEFT_FLOAT32);
    weft_array *w = normal(WEFT_DIMS(10, 64), WEFT_FLOAT32);
    weft_array *b = normal(WEFT_DIMS(10), WEFT_FLOAT32);
    measure(weft_linear(x, w, b));
    expect("linear", "float32", 1, 2 * 6 * 64 * 10, 4 * (6 * 64 + 10 * 64 + 10 + 6 * 10));
    weft_array *half = weft_astype(w, WEFT_BFLOAT16);
    CHECK_OK(weft_eval(half));
    measure(weft_linear(x, half, NULL));
    expect("linear", "bfloat16", 1, 2 * 6 * 64 * 10, 4 * (6 * 64 + 6 * 10) + 2 * 10 * 64);
    weft_array *blocks = weft_encode(w, weft_gguf_encoding("Q8_0")); /* 34 bytes for 32 elements */
    CHECK_OK(weft_eval(blocks));
    measure(weft_linear(x, blocks, NULL));
    expect("linear", "q8_0", 1, 2 * 6 * 64 * 10, 4 * (6 * 64 + 6 * 10) + 10 * 2 * 34);
    weft_scope_close(NULL);
}

/* Three queries at the end of five keys see 3, 4 and 5 of them. */
static void attention_counts_visible_pairs(void)
{
    weft_scope_open();
    weft_array *q = normal(WEFT_DIMS(2, 3, 4, 8), WEFT_FLOAT32);
    weft_array *k = normal(WEFT_DIMS(2, 5, 2, 8), WEFT_FLOAT32);
    weft_array *v = normal(WEFT_DIMS(2, 5, 2, 8), WEFT_FLOAT32);
    measure(weft_attention(q, k, v, &(weft_attention_options){.causal = true}));
    for (int i = 0; i < n_kernels; i++) {
        if (strcmp(kernels[i].op, "attention") == 0)
            CHECK_CLOSE(kernels[i].work.flops, 2 * 2 * (3 + 4 + 5) * 4 * (8 + 8), 0);
    }
    CHECK(n_kernels > 0);
    measure(weft_attention(q, k, v, &(weft_attention_options){.causal = true, .window = 2}));
    CHECK_STR(kernels[0].op, "attention");
    CHECK_CLOSE(kernels[0].work.flops, 2 * 2 * (2 + 2 + 2) * 4 * (8 + 8), 0);
    measure(weft_attention(q, k, v, NULL));
    CHECK_CLOSE(kernels[0].work.flops, 2 * 2 * 3 * 5 * 4 * (8 + 8), 0);
    weft_scope_close(NULL);
}

/* A merged chain is one kernel with the steps of all its formulas; of a large table, what is taken
 * from it counts; a broadcast element counts once. */
static void elements(void)
{
    weft_scope_open();
    weft_array *x = normal(WEFT_DIMS(8, 4), WEFT_FLOAT32), *y = normal(WEFT_DIMS(4), WEFT_FLOAT32);
    measure(weft_add(x, y));
    expect("add", "float32", 1, 32, 4 * (32 + 4 + 32));
    measure(weft_multiply(weft_add(x, x), x));
    expect("multiply", "float32", 1, 64, 4 * (32 + 32)); /* x is one operand of the chain */
    weft_array *table = normal(WEFT_DIMS(1000, 16), WEFT_FLOAT32);
    weft_array *ids = weft_arange(0, 3, 1, WEFT_INT32);
    CHECK_OK(weft_eval(ids));
    measure(weft_take(table, ids, 0));
    double bytes = 0;
    for (int i = 0; i < n_kernels; i++)
        bytes += kernels[i].work.bytes;
    CHECK(bytes >= 2 * 3 * 16 * 4 && bytes <= 2 * 3 * 16 * 4 + 200);
    weft_scope_close(NULL);
}

/* ---- Traces ---------------------------------------------------------------------------------- */

static void nothing_is_recorded(void)
{
    CHECK(!weft_timeline_is_on());
    CHECK_EQ_INT(weft_timeline_save(check_temporary("trace.json")), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "weft_timeline_start");
    weft_timeline_add(&(weft_span){.name = "x", .category = "y"});
    weft_timeline_start();
    CHECK(weft_timeline_is_on());
    CHECK_EQ_INT(weft_timeline_save(check_temporary("nowhere/trace.json")), WEFT_IO);
    CHECK(!weft_timeline_is_on());
    weft_timeline_start();
    weft_timeline_stop();
    CHECK(!weft_timeline_is_on());
    CHECK_STR(weft_kernel_variant(), "");
    CHECK_STR(weft_timeline_kernel(), "");
}

CHECK_MAIN("profile", CHECK_CASE(counts_equal_those_by_hand), CHECK_CASE(products),
           CHECK_CASE(attention_counts_visible_pairs), CHECK_CASE(elements),
           CHECK_CASE(nothing_is_recorded))
