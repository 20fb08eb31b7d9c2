/* tests/vulkan/test_structure.c -- structural ops, indexing and random words on the Vulkan device
 * against the CPU's, on shapes that the op table does not cover. */
#include <math.h>
#include <stdio.h>

#include "tests/vulkan/both.h"
#include "weft/op.h"
#include "weft/op_params.h"
#include "weft/random.h"

static const weft_dtype sizes[] = {WEFT_INT8,     WEFT_UINT8,   WEFT_BOOL,
                                   WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_INT64,
                                   WEFT_INT16,    WEFT_FLOAT64, WEFT_COMPLEX64};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Each problem for every size of element; context points to the dtype. */
static void for_sizes(both_make *make, const char *what)
{
    for (int i = 0; i < SIZES; i++) {
        char label[80];
        snprintf(label, sizeof label, "%s %s", what, weft_dtype_name(sizes[i]));
        both_same(make, &sizes[i], 0, label);
    }
}

static weft_dtype dtype_of(const void *context)
{
    return *(const weft_dtype *)context;
}

static weft_array *numbers(const void *context, weft_dims shape)
{
    return both_draw(shape, dtype_of(context), 0, 100);
}

/* ---- Moves ---------------------------------------------------------------------------------- */

static weft_array *make_joined(const void *context)
{
    weft_array *a = numbers(context, WEFT_DIMS(3, 5, 7)),
               *b = numbers(context, WEFT_DIMS(3, 7, 11));
    weft_array *parts[] = {a, weft_transpose(b, WEFT_DIMS(0, 2, 1)), weft_slice_axis(a, 1, 2, 2),
                           weft_slice(a, WEFT_DIMS(1, 2), WEFT_DIMS(4, 6),
                                      WEFT_DIMS(INT64_MIN, INT64_MIN), WEFT_DIMS(-2, -1))};
    return weft_concatenate(parts, 4, 1);
}

static weft_array *make_many_joined(const void *context)
{
    weft_array *parts[70];
    weft_array *a = numbers(context, WEFT_DIMS(3, 80));
    for (int i = 0; i < 70; i++) {
        parts[i] = weft_slice_axis(a, 1, i, i + 1 + i % 4);
    }
    return weft_concatenate(parts, 70, -1);
}

static weft_array *make_padded(const void *context)
{
    weft_array *a = weft_transpose(numbers(context, WEFT_DIMS(6, 5, 4)), WEFT_DIMS(2, 0, 1));
    weft_array *b = weft_pad(weft_pad(a, 0, 0, 3, 1), 2, 5, 0, 2);
    return weft_pad(weft_pad(b, 1, 2, 7, 1), 1, 0, 1, 0);
}

static weft_array *make_reshaped(const void *context)
{
    weft_array *a = numbers(context, WEFT_DIMS(4, 6, 10));
    weft_array *turned = weft_slice(weft_transpose(a, WEFT_DIMS(2, 0, 1)), WEFT_DIMS(0, 2),
                                    WEFT_DIMS(8, 5), WEFT_DIMS(1, INT64_MIN), WEFT_DIMS(-1, -1));
    return weft_reshape(turned, WEFT_DIMS(6, -1));
}

/* More axes than push constants hold, none of which continues another. */
static weft_array *make_turned(const void *context)
{
    weft_array *a = numbers(context, WEFT_DIMS(2, 3, 2, 3, 2, 2, 3, 2, 2, 2));
    return weft_flatten(weft_transpose(a, WEFT_DIMS(9, 8, 7, 6, 5, 4, 3, 2, 1, 0)), 0, -1);
}

static weft_array *make_slice_grad(const void *context)
{
    weft_array *ct = numbers(context, WEFT_DIMS(3, 6));
    weft_slice_grad_params p = {
        {WEFT_DIMS(-1, -2), WEFT_DIMS(10, 1), WEFT_DIMS(6, 3), WEFT_DIMS(-2, 2)}, WEFT_DIMS(8, 13)};
    return weft_apply(weft_op_find("slice_grad"), &ct, 1, &p);
}

static void moves_of_every_size(void)
{
    if (!both_there()) {
        return;
    }
    for_sizes(make_joined, "concatenate");
    for_sizes(make_many_joined, "many parts");
    for_sizes(make_padded, "pad");
    for_sizes(make_reshaped, "reshape");
    for_sizes(make_turned, "ten axes");
    for_sizes(make_slice_grad, "slice_grad");
}

/* ---- Windows -------------------------------------------------------------------------------- */

typedef struct window {
    weft_dtype dtype, start_dtype;
    double start[2];
} window;

static weft_array *start_of(const window *w)
{
    return both_list(w->start, WEFT_DIMS(2), w->start_dtype);
}

static weft_array *make_window(const void *context)
{
    const window *w = context;
    weft_array *x = weft_transpose(numbers(&w->dtype, WEFT_DIMS(9, 4, 8)), WEFT_DIMS(1, 2, 0));
    weft_array *y =
        weft_slice(x, WEFT_DIMS(1), WEFT_DIMS(INT64_MAX), WEFT_DIMS(INT64_MIN), WEFT_DIMS(-1));
    weft_array *a = weft_dynamic_slice(y, start_of(w), WEFT_DIMS(-1, -2), WEFT_DIMS(4, 6));
    /* A start in memory with a negative stride. */
    weft_array *back = weft_slice(start_of(w), WEFT_DIMS(0), WEFT_DIMS(INT64_MAX),
                                  WEFT_DIMS(INT64_MIN), WEFT_DIMS(-1));
    weft_array *b = weft_dynamic_slice(y, back, WEFT_DIMS(-1, -2), WEFT_DIMS(4, 6));
    weft_array *parts[] = {a, b};
    return weft_stack(parts, 2, 0);
}

static weft_array *make_update(const void *context)
{
    const window *w = context;
    weft_array *x = numbers(&w->dtype, WEFT_DIMS(4, 8, 10));
    weft_array *update = weft_transpose(numbers(&w->dtype, WEFT_DIMS(3, 2, 4)), WEFT_DIMS(2, 1, 0));
    /* Separate from x, and then in place. */
    weft_array *y = weft_slice_update(x, update, start_of(w), WEFT_DIMS(2, 1));
    weft_array *again =
        weft_slice_update(y, update, weft_full(WEFT_DIMS(1), 3, WEFT_INT16), WEFT_DIMS(-2));
    weft_array *parts[] = {x, y, again};
    return weft_concatenate(parts, weft_ok(again) ? 3 : 2, 0);
}

static void windows_are_clipped(void)
{
    static const double starts[][2] = {{0, 0}, {3, 1}, {100, -5}, {-1, 200}};
    if (!both_there()) {
        return;
    }
    for (int i = 0; i < SIZES; i++) {
        for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
            window w = {sizes[i], k % 2 ? WEFT_INT64 : WEFT_INT32, {starts[k][0], starts[k][1]}};
            w.start_dtype = k == 1 ? WEFT_UINT8 : w.start_dtype;
            both_same(make_window, &w, 0, "dynamic_slice");
            both_same(make_update, &w, 0, "slice_update");
        }
    }
    window far = {WEFT_FLOAT32, WEFT_INT64, {0x1p40, -0x1p40}};
    both_same(make_window, &far, 0, "far away");
}

/* ---- Creation ------------------------------------------------------------------------------- */

static weft_array *make_full(const void *context)
{
    return weft_full(WEFT_DIMS(70001), 3, dtype_of(context));
}

static weft_array *make_large(const void *context)
{
    return weft_full(WEFT_DIMS(3, 1 << 24), 1, dtype_of(context));
}

typedef struct line {
    double start, stop, step;
    weft_dtype dtype;
} line;

static weft_array *make_line(const void *context)
{
    const line *l = context;
    return weft_arange(l->start, l->stop, l->step, l->dtype);
}

static void fills_and_lines(void)
{
    static const line lines[] = {{0, 70000, 1, WEFT_INT32},
                                 {5, -3000, -3, WEFT_INT64},
                                 {0.1, 700, 0.3, WEFT_FLOAT32},
                                 {0, 3, 0.001, WEFT_BFLOAT16},
                                 {-1e19, 1e19, 1e16, WEFT_INT64},
                                 {0, 200, 1.5, WEFT_UINT8},
                                 {-100, 100, 1, WEFT_INT8},
                                 {0, 1, 1e-4, WEFT_FLOAT64},
                                 {0, 60000, 7, WEFT_FLOAT16},
                                 {-4.7, 4, 0.5, WEFT_INT16},
                                 {0x1p33, 0x1p33 + 50, 1, WEFT_UINT64}};
    if (!both_there()) {
        return;
    }
    for_sizes(make_full, "full");
    both_same(make_large, &(weft_dtype){WEFT_UINT8}, 0, "48 million bytes");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char label[80];
        snprintf(label, sizeof label, "arange %zu", i);
        both_same(make_line, &lines[i], 0, label);
    }
}

/* ---- Indexing ------------------------------------------------------------------------------- */

typedef struct indexing {
    weft_dtype dtype, index_dtype;
    weft_dims x, indices; /* taken along the middle axis of x */
    double lo, hi;
} indexing;

static weft_array *make_taken(const void *context)
{
    const indexing *k = context;
    weft_array *x = numbers(&k->dtype, k->x);
    return weft_take(x, both_draw(k->indices, k->index_dtype, k->lo, k->hi), 1);
}

static weft_dims beside(const indexing *k, int64_t count)
{
    return WEFT_DIMS(k->x.at[0], count, k->x.at[2]);
}

static weft_array *make_taken_along(const void *context)
{
    const indexing *k = context;
    weft_array *x = numbers(&k->dtype, k->x);
    return weft_take_along_axis(x, both_draw(beside(k, 37), k->index_dtype, k->lo, k->hi), 1);
}

static void reading_at_indices(void)
{
    static const weft_dtype index_dtypes[] = {WEFT_INT8,  WEFT_UINT8,  WEFT_INT16, WEFT_UINT16,
                                              WEFT_INT32, WEFT_UINT32, WEFT_INT64, WEFT_UINT64};
    if (!both_there()) {
        return;
    }
    for (int i = 0; i < SIZES; i++) {
        for (size_t j = 0; j < sizeof index_dtypes / sizeof *index_dtypes; j++) {
            bool negative = weft_dtype_is_signed(index_dtypes[j]);
            indexing k = {sizes[i],         index_dtypes[j],    WEFT_DIMS(3, 19, 6),
                          WEFT_DIMS(11, 5), negative ? -19 : 0, 19};
            both_same(make_taken, &k, 0, "take");
            both_same(make_taken_along, &k, 0, "take_along_axis");
            k.x.at[2] = 1;
            both_same(make_taken, &k, 0, "take of single elements");
        }
    }
    indexing table = {WEFT_BFLOAT16, WEFT_INT32, WEFT_DIMS(1, 5000, 130), WEFT_DIMS(2000), 0, 5000};
    both_same(make_taken, &table, 0, "rows of a table");
}

/* indices.at[0] of them along the axis: for each value, or (indices.n is 0) for each row of x. */
static weft_array *make_put_few(const void *context)
{
    const indexing *k = context;
    const int64_t n = k->indices.at[0];
    const weft_dims shape = beside(k, n);
    weft_array *x = numbers(&k->dtype, k->x), *values = weft_slice_axis(x, 1, 7, 7 + n);
    const weft_dims drawn = k->indices.n == 0 ? WEFT_DIMS(k->x.at[0], n, 1) : shape;
    weft_array *indices = both_draw(drawn, k->index_dtype, k->lo, k->hi);
    return weft_put_along_axis(x, weft_broadcast_to(indices, shape), values, 1);
}

/* One, some, as many as one shader takes, and one more, among which are equal ones. */
static void putting_few_for_each_row(void)
{
    static const int64_t counts[] = {1, 16, 64, 65};
    if (!both_there()) {
        return;
    }
    for (int i = 0; i < SIZES; i++) {
        for (int each = 0; each < 8; each++) {
            const indexing k = {.dtype = sizes[i],
                                .index_dtype = i % 2 ? WEFT_INT64 : WEFT_INT32,
                                .x = WEFT_DIMS(5, 300, 24),
                                .indices = {.n = each % 2, .at = {counts[each / 2]}},
                                .lo = i % 2 ? -300 : 0,
                                .hi = i % 3 ? 300 : 20};
            both_same(make_put_few, &k, 0, each % 2 ? "an index a value" : "an index a row");
        }
    }
}

static weft_array *make_scattered(const void *context)
{
    const indexing *k = context;
    weft_array *x = both_draw(k->x, k->dtype, -50, 50);
    weft_dims shape = {.n = 2 + k->indices.n, .at = {k->x.at[0]}};
    for (int i = 0; i < k->indices.n; i++) {
        shape.at[i + 1] = k->indices.at[i];
    }
    shape.at[shape.n - 1] = k->x.at[2];
    weft_array *in[] = {x, both_draw(k->indices, k->index_dtype, k->lo, k->hi),
                        both_draw(shape, k->dtype, -50, 50)};
    weft_axis_params p = {.axis = -2};
    return weft_apply(weft_op_find("scatter_add"), in, 3, &p);
}

static weft_array *make_scattered_along(const void *context)
{
    const indexing *k = context;
    int64_t count = k->indices.at[0];
    weft_array *x = both_draw(k->x, k->dtype, -50, 50);
    weft_array *indices = both_draw(beside(k, count), k->index_dtype, k->lo, k->hi);
    return weft_scatter_add_along_axis(x, indices, both_draw(beside(k, count), k->dtype, -50, 50),
                                       1);
}

/* The CPU adds float32 along an axis in float32, and rounds each time. */
static double along_tolerance(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 ? 1e-5 : 0;
}

static void adding_at_indices(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT64,
                                        WEFT_INT8,    WEFT_UINT16,  WEFT_INT32,    WEFT_INT64};
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        /* Many items for an index, few, one, none. */
        indexing many = {dtypes[i], WEFT_INT32, WEFT_DIMS(3, 5, 7), WEFT_DIMS(40, 25), -5, 5};
        indexing few = {dtypes[i], WEFT_UINT16, WEFT_DIMS(2, 3000, 4), WEFT_DIMS(900), 0, 3000};
        indexing one = {dtypes[i], WEFT_INT64, WEFT_DIMS(3, 5, 7), WEFT_DIMS(1), 0, 5};
        indexing none = {dtypes[i], WEFT_INT64, WEFT_DIMS(3, 5, 7), WEFT_DIMS(0), 0, 5};
        const indexing *all[] = {&many, &few, &one, &none};
        for (int k = 0; k < 4; k++) {
            char label[80];
            snprintf(label, sizeof label, "scatter %d %s", k, weft_dtype_name(dtypes[i]));
            both_same(make_scattered, all[k], 0, label);
            both_same(make_scattered_along, all[k], along_tolerance(dtypes[i]), label);
        }
    }
    indexing table = {WEFT_FLOAT32, WEFT_INT32, WEFT_DIMS(1, 5000, 64), WEFT_DIMS(4096), 0, 5000};
    both_same(make_scattered, &table, 0, "the gradient of a table");
    table.hi = 1;
    both_same(make_scattered, &table, 0, "one row of a table");
}

static weft_array *make_infinite_sums(const void *context)
{
    static const double x[] = {1, INFINITY, 3, 0}, at[] = {0, 1, 2, 0, 1, 3},
                        values[] = {INFINITY, -INFINITY, NAN, 5, 2, -0.0};
    (void)context;
    return weft_scatter_add_along_axis(both_list(x, WEFT_DIMS(4), WEFT_FLOAT32),
                                       both_list(at, WEFT_DIMS(6), WEFT_INT32),
                                       both_list(values, WEFT_DIMS(6), WEFT_FLOAT32), 0);
}

static void sums_that_are_not_finite(void)
{
    if (both_there()) {
        both_same(make_infinite_sums, NULL, 1e-6, "infinite sums");
    }
}

/* In place, and without changing its operand. */
static weft_array *make_kept(const void *context)
{
    weft_array *x = numbers(context, WEFT_DIMS(6, 3)), *v = numbers(context, WEFT_DIMS(2, 3));
    static const double at[] = {4, 4};
    weft_array *in[] = {x, both_list(at, WEFT_DIMS(2), WEFT_INT32), v};
    weft_axis_params p = {.axis = -2};
    weft_array *y = weft_apply(weft_op_find("scatter_add"), in, 3, &p);
    in[0] = y;
    weft_array *parts[] = {x, y, weft_apply(weft_op_find("scatter_add"), in, 3, &p)};
    return weft_concatenate(parts, 3, 0);
}

static void inputs_are_not_changed(void)
{
    if (both_there()) {
        both_same(make_kept, &(weft_dtype){WEFT_FLOAT32}, 0, "kept");
        both_same(make_kept, &(weft_dtype){WEFT_INT16}, 0, "kept");
    }
}

static void indices_out_of_range_fail(void)
{
    if (!both_there()) {
        return;
    }
    indexing k = {WEFT_FLOAT32, WEFT_INT64, WEFT_DIMS(2, 9, 3), WEFT_DIMS(1), 9, 10};
    both_fail(make_taken, &k, "take: index 9 is out of range for an axis of size 9");
    both_fail(make_scattered, &k, "scatter_add: index 9 is out of range for an axis of size 9");
    k.lo = -10;
    k.hi = -9;
    both_fail(make_taken_along, &k,
              "take_along_axis: index -10 is out of range for an axis of size 9");
    both_fail(make_put_few, &k, "put_along_axis: index -10 is out of range for an axis of size 9");
    both_fail(make_scattered_along, &k,
              "scatter_add_along_axis: index -10 is out of range for an axis of size 9");
    k.lo = 0x1p33;
    k.hi = 0x1p33 + 1;
    both_fail(make_taken, &k, "take: index 8589934592 is out of range");
}

/* ---- Random words and magnitudes ------------------------------------------------------------ */

typedef struct random_words {
    uint64_t seed;
    int64_t n;
    int width;
} random_words;

static weft_array *make_words(const void *context)
{
    const random_words *r = context;
    return weft_random_bits(weft_random_key(r->seed), WEFT_DIMS(r->n), r->width);
}

static void random_words_are_the_same(void)
{
    static const int64_t counts[] = {1, 2, 3, 5, 511, 1026, 99999};
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int width = 1; width <= 4; width *= 2) {
            random_words r = {(uint64_t)i << 40 | 7, counts[i], width};
            both_same(make_words, &r, 0, "words");
        }
    }
}

static weft_array *make_magnitudes(const void *context)
{
    static const float scales[] = {1, 5e36F, 1e-41F, 0};
    weft_complex64 z[1003];
    (void)context;
    for (int i = 0; i < 1000; i++) {
        float scale = scales[i % 4];
        z[i] = (weft_complex64){scale * (float)(i * 37 % 101 - 50), scale * (float)(i % 23 - 11)};
    }
    z[1000] = (weft_complex64){NAN, -INFINITY};
    z[1001] = (weft_complex64){NAN, 1};
    z[1002] = (weft_complex64){3e38F, -3e38F};
    return weft_abs(weft_from_data(z, WEFT_COMPLEX64, WEFT_DIMS(1003)));
}

static void magnitudes(void)
{
    if (both_there()) {
        both_same(make_magnitudes, NULL, 1e-6, "magnitudes");
    }
}

CHECK_MAIN("vulkan_structure", CHECK_CASE(moves_of_every_size), CHECK_CASE(windows_are_clipped),
           CHECK_CASE(fills_and_lines), CHECK_CASE(reading_at_indices),
           CHECK_CASE(putting_few_for_each_row), CHECK_CASE(adding_at_indices),
           CHECK_CASE(sums_that_are_not_finite), CHECK_CASE(inputs_are_not_changed),
           CHECK_CASE(indices_out_of_range_fail), CHECK_CASE(random_words_are_the_same),
           CHECK_CASE(magnitudes))
