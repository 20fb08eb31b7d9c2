/* tests/vulkan/test_prologues.c -- norms that the kernels that read them compute themselves, of
 * rows before products and of heads before rotations: the same bits as ops one by one. */
#include <stdio.h>
#include <string.h>

#include "tests/vulkan/both.h"
#include "weft/op_params.h"
#include "weft/weft.h"

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};

/* ---- Norms before products ------------------------------------------------------------------- */

enum { READERS = 4, MATRICES = 5 };

typedef struct normed {
    weft_dtype dtype, gain_dtype; /* of everything else, and of the norm's weight */
    const char *encoding;         /* of the matrices, or NULL */
    int64_t rows, terms;
    int64_t skipped; /* elements between the beginning of an allocation and x */
    bool gain;
    double offset;
    bool taken; /* products of this many rows and terms compute the norm */
} normed;

typedef struct operands {
    weft_array *x, *gain, *w[MATRICES], *bias, *residual;
} operands;

static operands operands_of(const normed *e)
{
    static const int64_t columns[MATRICES] = {70, 256, 96, 96, 129};
    operands o = {0};
    weft_array *all[MATRICES + 4];
    int n = 0;
    weft_array *row = both_draw(WEFT_DIMS(e->skipped + e->rows * e->terms), e->dtype, -2, 2);
    CHECK_OK(weft_eval(row));
    row = weft_slice_axis(row, 0, e->skipped, INT64_MAX);
    all[n++] = o.x = weft_reshape(row, WEFT_DIMS(1, e->rows, e->terms));
    if (e->gain)
        all[n++] = o.gain = both_draw(WEFT_DIMS(e->terms), e->gain_dtype, -1, 1);
    for (int i = 0; i < MATRICES; i++) {
        o.w[i] = both_draw(WEFT_DIMS(columns[i], e->terms), e->dtype, -1, 1);
        if (e->encoding)
            o.w[i] = weft_encode(o.w[i], weft_encoding_find(e->encoding));
        all[n++] = o.w[i];
    }
    all[n++] = o.bias = both_draw(WEFT_DIMS(columns[0]), e->dtype, -1, 1);
    all[n++] = o.residual = both_draw(WEFT_DIMS(1, e->rows, columns[4]), e->dtype, -1, 1);
    CHECK_OK(weft_eval_n(all, n));
    return o;
}

/* Four readers of a norm: products with a bias, without one, with a gate and with a residual. */
static void read_norm(const normed *e, const operands *o, bool one_by_one, weft_array **out)
{
    weft_array *x = both_apart(weft_rms_norm(o->x, o->gain, 1e-5, e->offset), one_by_one),
               *y[MATRICES];
    for (int i = 0; i < MATRICES; i++)
        y[i] = both_apart(weft_linear(x, o->w[i], i == 0 ? o->bias : NULL), one_by_one);
    out[0] = y[0];
    out[1] = y[1];
    out[2] = weft_swiglu(y[2], y[3]);
    out[3] = weft_add(o->residual, y[4]);
}

static void norms_give_the_same_bits(const normed *e)
{
    char label[160];
    weft_array *one[READERS], *other[READERS];
    snprintf(label, sizeof label, "%s, gain of %s, %s: %lld x %lld after %lld%s, offset %g",
             weft_dtype_name(e->dtype), weft_dtype_name(e->gain_dtype),
             e->encoding ? e->encoding : "dense", (long long)e->rows, (long long)e->terms,
             (long long)e->skipped, e->gain ? "" : ", no gain", e->offset);
    weft_scope_open();
    const operands o = operands_of(e);
    weft_scope_open_lean();
    const int64_t before = both_fused();
    read_norm(e, &o, false, one);
    CHECK_OK(weft_eval_n(one, READERS));
    const int64_t joins = both_fused() - before;
    read_norm(e, &o, true, other);
    CHECK_OK(weft_eval_n(other, READERS));
    check_that(joins == 2 + e->taken, __FILE__, __LINE__, "%s: %lld ops joined", label,
               (long long)joins);
    for (int i = 0; i < READERS; i++)
        check_that(both_equal(one[i], other[i]), __FILE__, __LINE__, "%s: other bits of %d", label,
                   i);
    weft_scope_close(NULL);
    weft_scope_close(NULL);
}

static void products_normalize_their_rows(void)
{
    static const struct {
        int64_t rows, terms;
        bool taken;
    } sizes[] = {{1, 64, true},   {1, 1024, true},  {3, 96, true},  {1, 2080, true},
                 {2, 2048, true}, {2, 4096, false}, {1, 70, false}, {8, 256, true}};
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (both_few() && i % 3 != d)
                continue;
            normed e = {.dtype = dtypes[d],
                        .gain_dtype = i % 2 ? WEFT_FLOAT32 : dtypes[d],
                        .rows = sizes[i].rows,
                        .terms = sizes[i].terms,
                        .gain = i != 2,
                        .offset = i % 3 ? 0 : 1,
                        .taken = sizes[i].taken};
            const bool half = d > 0; /* 16 KiB of rows are the most */
            e.taken = e.taken || (half && i == 5);
            norms_give_the_same_bits(&e);
            e.skipped = 1; /* no longer aligned pieces */
            norms_give_the_same_bits(&e);
            e.skipped = 0;
            static const char *const encodings[] = {"q8_0", "q4_k", "affine-4-64-bfloat16"};
            e.encoding = i < 2 ? encodings[0] : e.terms % 256 == 0 ? encodings[i % 2 + 1] : NULL;
            if (e.encoding && e.rows <= 2)
                norms_give_the_same_bits(&e);
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

/* Readers of x (1, 1, 256) that cannot normalize it: w (256, 256). */
static weft_array *other_reader(weft_array *x, weft_array *w, int which)
{
    static const weft_linear_params transposed = {.transposed = true};
    switch (which) {
    case 0:
        return weft_exp(x);
    case 1:
        return weft_matmul(w, weft_reshape(x, WEFT_DIMS(256, 1)));
    case 2:
        return weft_add(x, weft_linear(x, w, NULL));
    default:
        return weft_apply(weft_op_find("linear"), (weft_array *[]){x, w}, 2, &transposed);
    }
}

/* A norm with another reader is computed once, even if products could compute it. */
static void norms_with_other_readers_are_stored(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    const normed e = {
        .dtype = WEFT_BFLOAT16, .gain_dtype = WEFT_BFLOAT16, .rows = 1, .terms = 256, .gain = true};
    weft_scope_open();
    const operands o = operands_of(&e);
    for (int which = 0; which < 4; which++) {
        weft_scope_open_lean();
        const int64_t before = both_fused();
        weft_array *x = weft_rms_norm(o.x, o.gain, 1e-5, 0);
        weft_array *y = weft_linear(x, o.w[1], NULL);
        weft_array *z = other_reader(x, o.w[1], which), *both[] = {y, z};
        CHECK_OK(weft_eval_n(both, 2));
        CHECK_EQ_INT(both_fused() - before, which == 2); /* the sum */
        weft_array *n = both_apart(weft_rms_norm(o.x, o.gain, 1e-5, 0), true);
        weft_array *want = weft_linear(n, o.w[1], NULL);
        CHECK_OK(weft_eval(want));
        CHECK(both_equal(y, want));
        weft_scope_close(NULL);
    }
    weft_array *x = weft_rms_norm(o.x, o.gain, 1e-5, 0); /* readable here */
    const int64_t before = both_fused();
    CHECK_OK(weft_eval(weft_linear(x, o.w[1], NULL)));
    CHECK_EQ_INT(both_fused(), before);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

/* ---- Norms before rotations ------------------------------------------------------------------ */

typedef struct rotation {
    normed norm; /* terms: of a head; rows: elements that are copied, half of them */
    bool write, interleaved;
    weft_array *x, *gain, *positions, *frequencies, *cache, *start;
} rotation;

static weft_array *rotate(const rotation *r, bool one_by_one)
{
    weft_array *x = weft_rms_norm(r->x, r->gain, 1e-5, r->norm.offset);
    x = both_apart(x, one_by_one);
    weft_array *y = weft_rope(x, r->positions, r->frequencies, r->interleaved, 0.5);
    if (!r->write)
        return y;
    return weft_slice_update(r->cache, both_apart(y, one_by_one), r->start, WEFT_DIMS(1));
}

static void make_heads(rotation *r)
{
    static const int32_t at[] = {3, 4, 7}, start = 5;
    const normed *n = &r->norm;
    const int64_t width = 5 * n->terms;
    weft_array *wide = both_draw(WEFT_DIMS(2, 3, width + 8), n->dtype, -2, 2);
    CHECK_OK(weft_eval(wide));
    wide = weft_slice_axis(wide, 2, n->skipped, n->skipped + width);
    r->x = weft_reshape(wide, WEFT_DIMS(2, 3, 5, n->terms));
    r->cache = both_draw(WEFT_DIMS(2, 64, 5, n->terms), n->dtype, -2, 2);
    r->frequencies = both_draw(WEFT_DIMS(n->terms / 2 - n->rows), WEFT_FLOAT32, 0, 1);
    r->positions = weft_from_data(at, WEFT_INT32, WEFT_DIMS(3));
    r->start = weft_from_data(&start, WEFT_INT32, WEFT_DIMS(1));
    if (n->gain)
        r->gain = both_draw(WEFT_DIMS(n->terms), n->gain_dtype, -1, 1);
    weft_array *all[] = {r->x, r->cache, r->frequencies, r->positions, r->start, r->gain};
    CHECK_OK(weft_eval_n(all, n->gain ? 6 : 5));
}

static void check_rotation(const normed *n, bool write)
{
    rotation r = {.norm = *n, .write = write, .interleaved = n->terms == 64};
    char label[120];
    snprintf(label, sizeof label, "heads of %lld, %s, skipping %lld%s", (long long)n->terms,
             weft_dtype_name(n->dtype), (long long)n->skipped, write ? ", written" : "");
    weft_scope_open();
    make_heads(&r);
    weft_scope_open_lean();
    const int64_t before = both_fused();
    weft_array *one = rotate(&r, false);
    CHECK_OK(weft_eval(one));
    const int64_t joins = both_fused() - before;
    weft_array *other = rotate(&r, true);
    CHECK_OK(weft_eval(other));
    check_that(joins == write + n->taken, __FILE__, __LINE__, "%s: %lld joined", label,
               (long long)joins);
    check_that(both_equal(one, other), __FILE__, __LINE__, "%s: other bits", label);
    weft_scope_close(NULL);
    weft_scope_close(NULL);
}

static void rotations_normalize_their_heads(void)
{
    static const int64_t widths[] = {128, 64, 256, 20};
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            if (both_few() && i % 3 != d)
                continue;
            const normed n = {.dtype = dtypes[d],
                              .gain_dtype = d == 1 ? WEFT_FLOAT32 : dtypes[d],
                              .gain = i != 1,
                              .offset = i % 2 ? 1 : 0,
                              .rows = i == 2 ? 16 : 0,
                              .skipped = i == 0 && d > 0 ? 3 : 0, /* pieces are not aligned */
                              .terms = widths[i],
                              .taken = widths[i] % 8 == 0 || d == 0};
            check_rotation(&n, true);
            check_rotation(&n, false);
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_prologues", CHECK_CASE(products_normalize_their_rows),
           CHECK_CASE(norms_with_other_readers_are_stored),
           CHECK_CASE(rotations_normalize_their_heads))
