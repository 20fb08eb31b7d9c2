/* tests/ops/test_attention_bounds.c -- attention with a first visible key per query, an end or
 * both, and with windows on both sides: equal to the equivalent mask, alone and with sinks, lengths
 * and masks, long enough for tiles of keys; and refused input. */
#include <math.h>

#include "tests/check.h"
#include "weft/creation.h"
#include "weft/neural.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

enum { B = 2, L = 300, H = 4, HK = 2, D = 16, HALF = L / 2 };

static weft_array *normal(uint64_t seed, weft_dims shape)
{
    return weft_random_normal(weft_random_key(seed), shape, 0, 1, WEFT_FLOAT32);
}

/* Three sequences a row, not in the same places; in row 1 the bounds also fall again. */
static weft_array *first_of(void)
{
    static int32_t first[B * L];
    for (int i = 0; i < L; i++) {
        first[i] = i < 70 ? 0 : i < 201 ? 70 : 201;
        first[L + i] = i < HALF ? i / 2 : i % 7;
    }
    return weft_from_data(first, WEFT_INT32, WEFT_DIMS(B, L));
}

/* Sequences of lengths around those of tiles and panels, of one token too, and in row 1 many short
 * ones. */
static weft_array *packed_first(void)
{
    static const int lengths[] = {1, 1, 2, 71, 15, 16, 17, 96, 33, L};
    static int32_t first[B * L];
    for (int at = 0, i = 0; at < L; at += lengths[i++])
        for (int j = at; j < L && j < at + lengths[i]; j++)
            first[j] = at;
    for (int i = 0; i < L; i++)
        first[L + i] = i - i % 3;
    return weft_from_data(first, WEFT_INT32, WEFT_DIMS(B, L));
}

/* The ends of the sequences of packed_first(), and in row 1 some that rise and fall. */
static weft_array *packed_ends(void)
{
    static const int lengths[] = {1, 1, 2, 71, 15, 16, 17, 96, 33, L};
    static int32_t ends[B * L];
    for (int at = 0, i = 0; at < L; at += lengths[i++])
        for (int j = at; j < L && j < at + lengths[i]; j++)
            ends[j] = at + lengths[i] < L ? at + lengths[i] : L;
    for (int i = 0; i < L; i++)
        ends[L + i] = i + 1 + 37 * i % 101 - i % 2 * 50;
    return weft_from_data(ends, WEFT_INT32, WEFT_DIMS(B, L));
}

/* The keys that the options let each query see, but for causality: (B, 1, L, L). */
static weft_array *mask_of(const weft_attention_options *o)
{
    weft_array *key = weft_arange(0, L, 1, WEFT_INT32), *query = weft_expand_dims(key, 1);
    weft_array *visible = weft_full(WEFT_DIMS(B, 1, L, L), 1, WEFT_BOOL);
    if (o->first)
        visible = weft_logical_and(
            visible, weft_greater_equal(key, weft_reshape(o->first, WEFT_DIMS(B, 1, L, 1))));
    if (o->ends)
        visible =
            weft_logical_and(visible, weft_less(key, weft_reshape(o->ends, WEFT_DIMS(B, 1, L, 1))));
    if (o->window > 0)
        visible = weft_logical_and(
            visible, weft_less(weft_abs(weft_subtract(key, query)),
                               weft_scalar_int(o->window < L ? o->window : L, WEFT_INT32)));
    if (o->lengths && o->window > 0) /* as if the keys ended there */
        visible = weft_logical_and(visible,
                                   weft_less(key, weft_reshape(o->lengths, WEFT_DIMS(B, 1, 1, 1))));
    return visible;
}

static double apart(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

/* in: q, k, v; the sum of the output times fixed numbers. */
static weft_array *loss(void *context, weft_array *const *in, int n)
{
    (void)n;
    weft_array *y = weft_attention(in[0], in[1], in[2], context);
    return weft_sum(weft_multiply(y, normal(9, weft_shape(y))), WEFT_ALL_AXES, false);
}

static void compare_rows(weft_attention_options o, weft_array *mask)
{
    weft_scope_open();
    weft_array *in[] = {normal(1, WEFT_DIMS(B, L, H, D)), normal(2, WEFT_DIMS(B, L, HK, D)),
                        normal(3, WEFT_DIMS(B, L, HK, D))};
    weft_array *one[3], *two[3];
    weft_attention_options other = o;
    weft_array *own = mask_of(&o);
    o.mask = mask;
    other.first = other.ends = NULL;
    if (!o.causal)
        other.window = 0;
    if (o.window > 0 && !o.causal)
        other.lengths = NULL;
    other.mask = mask ? weft_where(own, mask, weft_scalar(-INFINITY, WEFT_FLOAT32)) : own;
    CHECK(apart(weft_attention(in[0], in[1], in[2], &o),
                weft_attention(in[0], in[1], in[2], &other)) < 1e-5);
    CHECK_OK(weft_grad(loss, &o, in, 3, NULL, 0, one));
    CHECK_OK(weft_grad(loss, &other, in, 3, NULL, 0, two));
    for (int i = 0; i < 3; i++)
        CHECK(apart(one[i], two[i]) < 2e-4);
    weft_scope_close(NULL);
}

static void compare(weft_attention_options o, weft_array *mask)
{
    o.first = first_of();
    compare_rows(o, mask);
    o.first = packed_first();
    compare_rows(o, mask);
}

/* Without causality. */
static void bounds_in_both_directions_equal_the_same_mask(void)
{
    weft_scope_open();
    const int32_t lengths[] = {L, L - 31};
    weft_array *ends = packed_ends(), *first = packed_first();
    compare_rows((weft_attention_options){.first = first, .ends = ends}, NULL);
    compare_rows((weft_attention_options){.window = 40}, NULL);
    compare_rows(
        (weft_attention_options){.window = 20,
                                 .lengths = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS(B))},
        NULL);
    if (!check_few()) {
        compare_rows((weft_attention_options){.ends = ends, .softcap = 2},
                     normal(4, WEFT_DIMS(1, H, L, L)));
        compare_rows((weft_attention_options){.causal = true, .first = first, .ends = ends}, NULL);
        compare_rows((weft_attention_options){.window = 1}, NULL);
        compare_rows((weft_attention_options){.window = INT64_MAX}, NULL);
        compare_rows((weft_attention_options){.causal = true, .window = INT64_MAX}, NULL);
    }
    compare_rows(
        (weft_attention_options){
            .first = first, .ends = ends, .window = 9, .sinks = normal(5, WEFT_DIMS(H))},
        NULL);
    weft_scope_close(NULL);
}

static void bounds_equal_the_same_mask(void)
{
    weft_scope_open();
    const int32_t lengths[] = {L, L - 31};
    compare((weft_attention_options){.causal = true, .window = 40}, NULL);
    compare((weft_attention_options){.causal = true}, normal(4, WEFT_DIMS(1, H, L, L)));
    if (!check_few()) {
        compare((weft_attention_options){.causal = true}, NULL);
        compare((weft_attention_options){.softcap = 2}, NULL);
    }
    compare((weft_attention_options){.causal = true, .sinks = normal(5, WEFT_DIMS(H))}, NULL);
    compare((weft_attention_options){.causal = true,
                                     .lengths = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS(B))},
            NULL);
    weft_scope_close(NULL);
}

/* A sequence behind others gives what it gives alone. */
static void other_sequences_are_not_read(void)
{
    weft_scope_open();
    const weft_attention_options o = {.causal = true, .first = first_of()};
    weft_array *q = normal(1, WEFT_DIMS(B, L, H, D)), *k = normal(2, WEFT_DIMS(B, L, HK, D));
    weft_array *v = normal(3, WEFT_DIMS(B, L, HK, D));
    weft_array *whole = weft_attention(q, k, v, &o);
    /* The last sequence of row 0 alone. */
    weft_array *parts[3] = {q, k, v};
    for (int i = 0; i < 3; i++)
        parts[i] = weft_slice_axis(weft_slice_axis(parts[i], 0, 0, 1), 1, 201, L);
    weft_array *alone =
        weft_attention(parts[0], parts[1], parts[2], &(weft_attention_options){.causal = true});
    weft_array *same = weft_slice_axis(weft_slice_axis(whole, 0, 0, 1), 1, 201, L);
    CHECK(apart(same, alone) < 1e-5);
    weft_scope_close(NULL);
}

/* Numbers that int32 does not have. */
static void wide_bounds_are_clipped(void)
{
    weft_scope_open();
    weft_array *q = normal(1, WEFT_DIMS(B, L, H, D)), *k = normal(2, WEFT_DIMS(B, L, HK, D));
    weft_array *v = normal(3, WEFT_DIMS(B, L, HK, D)), *all = weft_attention(q, k, v, NULL);
    const weft_dims one = WEFT_DIMS(1, L);
    weft_array *most = weft_broadcast_to(weft_scalar_int(INT64_MAX, WEFT_INT64), one);
    weft_array *least = weft_broadcast_to(weft_scalar_int(INT64_MIN, WEFT_INT64), one);
    weft_array *unsigned_most = weft_broadcast_to(weft_scalar_int(UINT32_MAX, WEFT_UINT32), one);
    const weft_attention_options o[] = {{.ends = most}, {.first = least}, {.ends = unsigned_most}};
    for (int i = 0; i < 3; i++)
        CHECK(apart(weft_attention(q, k, v, &o[i]), all) == 0);
    weft_scope_close(NULL);
}

static void refuse(weft_array *first, const char *message)
{
    weft_array *q = normal(1, WEFT_DIMS(B, L, H, D));
    weft_array *y =
        weft_attention(q, q, q, &(weft_attention_options){.causal = true, .first = first});
    if (CHECK(!weft_ok(y)))
        CHECK_CONTAINS(weft_error(y), message);
}

static void other_shapes_are_refused(void)
{
    weft_scope_open();
    refuse(weft_zeros(WEFT_DIMS(L), WEFT_INT32), "first: expected integers (B, L) = (2, 300)");
    refuse(weft_zeros(WEFT_DIMS(B, L - 1), WEFT_INT32), "first: expected integers");
    refuse(weft_zeros(WEFT_DIMS(B, L), WEFT_FLOAT32), "first: expected integers");
    weft_array *q = normal(1, WEFT_DIMS(B, L, H, D));
    weft_array *y = weft_attention(
        q, q, q, &(weft_attention_options){.ends = weft_zeros(WEFT_DIMS(L, B), WEFT_INT32)});
    if (CHECK(!weft_ok(y)))
        CHECK_CONTAINS(weft_error(y), "ends: expected integers (B, L) = (2, 300)");
    weft_scope_close(NULL);
}

CHECK_MAIN("attention_bounds", CHECK_CASE(bounds_equal_the_same_mask),
           CHECK_CASE(bounds_in_both_directions_equal_the_same_mask),
           CHECK_CASE(wide_bounds_are_clipped), CHECK_CASE(other_sequences_are_not_read),
           CHECK_CASE(other_shapes_are_refused))
