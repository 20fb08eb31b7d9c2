/* generate/caches/store.c -- storage of keys or values in a cache. */
#include "generate/caches/store.h"

#include "core/shape.h"

enum {
    GROUP = 64,     /* most elements that share a step */
    LEAST_GROUP = 8 /* smaller groups cost more than they save */
};

static const double FLOAT16_MOST = 65504;

static bool quantizes(int bits)
{
    return bits == 8 || bits == 4;
}

/* The dtype of unquantized parts: float16 for `bits` 16, unless the input has 16 bits. */
static weft_dtype dtype_of(int bits, weft_dtype dtype)
{
    return bits == 16 && weft_dtype_size(dtype) > 2 ? WEFT_FLOAT16 : dtype;
}

int weft__store_parts(const weft__store *store)
{
    return store->none ? 0 : quantizes(store->bits) ? WEFT__PARTS : 1;
}

weft__parts weft__store_held(const weft__store *store)
{
    weft__parts parts = {.n = weft__store_parts(store)};
    for (int i = 0; i < parts.n; i++)
        parts.at[i] = store->held[i];
    return parts;
}

/* The number of elements of a head per byte. */
static int64_t packed(int bits)
{
    return bits == 4 ? 2 : 1;
}

/* The largest group size that divides the elements of each half of the bytes. */
static int64_t group_of(int bits, int64_t D)
{
    const int64_t n = D / packed(bits);
    int64_t group = n < GROUP ? n : GROUP;
    while (group > 1 && n % group != 0)
        group--;
    return group;
}

int64_t weft__store_bytes(int bits, int64_t D, weft_dtype dtype)
{
    if (!quantizes(bits))
        return D * (int64_t)weft_dtype_size(dtype_of(bits, dtype));
    const int64_t group = group_of(bits, D);
    return D * bits / 8 + 2 * (int64_t)sizeof(float) * (group > 0 ? D / group : D);
}

static weft_array *check_codes(const weft__store *store, weft_array *x)
{
    const int64_t D = weft_dim(x, -1);
    if (!weft_dtype_is_float(weft_dtype_of(x)))
        return weft_error_array("cache: codes hold floats, got %s",
                                weft_dtype_name(weft_dtype_of(x)));
    if (D % packed(store->bits) == 0 && group_of(store->bits, D) >= LEAST_GROUP)
        return NULL;
    return weft_error_array("cache: heads of %lld elements have no groups of %d to %d for codes of "
                            "%d bits",
                            (long long)D, LEAST_GROUP, GROUP, store->bits);
}

weft_array *weft__store_check(const weft__store *store, weft_array *x)
{
    char expected[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
    if (store->none != (x == NULL))
        return weft_error_array("cache: expected %s, got %s",
                                store->none ? "no values, which are a part of the keys" : "values",
                                store->none ? "values" : "none");
    if (store->none)
        return NULL;
    if (!weft_ok(x))
        return x;
    if (store->held[0] && !weft_ok(store->held[0]))
        return store->held[0];
    const weft_dims shape = weft_shape(x);
    const weft_dtype dtype = weft_dtype_of(x);
    if (store->held[0] == NULL && shape.n == 4)
        return quantizes(store->bits) ? check_codes(store, x) : NULL;
    if (store->held[0] == NULL)
        return weft_error_array("cache: expected (B, L, Hk, D), got %s",
                                weft__shape_text(&shape, got));
    weft_dims fit = weft_shape(store->held[0]);
    fit.at[0] = store->paged ? shape.at[0] : fit.at[0];
    fit.at[1] = shape.n == 4 ? shape.at[1] : -1;
    fit.at[3] *= packed(store->bits);
    if (weft__shape_equal(&fit, &shape) && (int64_t)dtype == store->dtype)
        return NULL;
    return weft_error_array("cache: expected %s %s, got %s %s", weft__shape_text(&fit, expected),
                            weft_dtype_name((weft_dtype)store->dtype),
                            weft__shape_text(&shape, got), weft_dtype_name(dtype));
}

bool weft__store_fits(const weft__store *store)
{
    const weft_dtype dtype = (weft_dtype)store->dtype;
    const weft__parts held = weft__store_held(store);
    if (store->none)
        return true;
    if (store->dtype < 0 || store->dtype > WEFT_COMPLEX64 || !weft_dtype_is_float(dtype))
        return false;
    for (int i = 0; i < held.n; i++) {
        if (held.at[i] == NULL || weft_ndim(held.at[i]) != 4)
            return false;
    }
    if (!quantizes(store->bits))
        return weft_dtype_of(held.at[0]) == dtype_of(store->bits, dtype);
    const int64_t D = weft_dim(held.at[0], 3) * packed(store->bits);
    weft_dims groups = weft_shape(held.at[0]);
    if (D < 1 || group_of(store->bits, D) < LEAST_GROUP)
        return false;
    groups.at[3] = D / group_of(store->bits, D);
    const weft_dims step = weft_shape(held.at[1]), least = weft_shape(held.at[2]);
    return weft_dtype_of(held.at[0]) == WEFT_UINT8 && weft_dtype_of(held.at[1]) == WEFT_FLOAT32 &&
           weft_dtype_of(held.at[2]) == WEFT_FLOAT32 && weft__shape_equal(&step, &groups) &&
           weft__shape_equal(&least, &groups);
}

/* Packs numbers below 16 (.., 2, G, g) to bytes (.., G, g), the first half in the low bits. */
static weft_array *pack(weft_array *codes)
{
    weft_array *low = weft_slice_axis(codes, -3, 0, 1), *high = weft_slice_axis(codes, -3, 1, 2);
    high = weft_left_shift(high, weft_scalar_int(4, WEFT_UINT8));
    return weft_squeeze(weft_bitwise_or(low, high), -3);
}

weft_array *weft__store_rounded(weft_array *x, weft_dtype dtype)
{
    if (!weft_ok(x) || weft_dtype_of(x) == dtype)
        return x;
    if (dtype == WEFT_FLOAT16)
        x = weft_clip_scalar(x, -FLOAT16_MOST, FLOAT16_MOST);
    return weft_astype(x, dtype);
}

weft__parts weft__store_encode(const weft__store *store, weft_array *x)
{
    if (store->none)
        return (weft__parts){.n = 0};
    if (!quantizes(store->bits))
        return (weft__parts){{weft__store_rounded(x, dtype_of(store->bits, weft_dtype_of(x)))}, 1};
    const weft_dims shape = weft_shape(x);
    const int64_t B = shape.at[0], L = shape.at[1], Hk = shape.at[2], D = shape.at[3];
    const int64_t P = packed(store->bits), g = group_of(store->bits, D), G = D / P / g;
    x = weft_reshape(weft_astype(x, WEFT_FLOAT32), WEFT_DIMS(B, L, Hk, P, G, g));
    weft_array *least = weft_min(x, WEFT_DIMS(-1), true); /* (B, L, Hk, P, G, 1) */
    weft_array *step = weft_subtract(weft_max(x, WEFT_DIMS(-1), true), least);
    step = weft_divide_scalar(step, (double)((1 << store->bits) - 1));
    weft_array *by = weft_where_scalar(weft_greater_scalar(step, 0), step, 1);
    weft_array *codes = weft_round(weft_divide(weft_subtract(x, least), by));
    codes = weft_astype(codes, WEFT_UINT8);
    if (P == 2)
        codes = pack(codes);
    return (weft__parts){{weft_reshape(codes, WEFT_DIMS(B, L, Hk, D / P)),
                          weft_reshape(step, WEFT_DIMS(B, L, Hk, P * G)),
                          weft_reshape(least, WEFT_DIMS(B, L, Hk, P * G))},
                         WEFT__PARTS};
}

weft_kv_codes weft__store_codes(const weft__store *store, const weft__parts *parts)
{
    if (!quantizes(store->bits))
        return (weft_kv_codes){0};
    return (weft_kv_codes){parts->at[0], parts->at[1], parts->at[2]};
}

weft_array *weft__store_decode(const weft__store *store, const weft__parts *parts)
{
    const weft_kv_codes codes = weft__store_codes(store, parts);
    return quantizes(store->bits) ? weft_kv_decode(&codes, store->bits, (weft_dtype)store->dtype)
                                  : parts->at[0];
}

weft__parts weft__parts_with_room(const weft__parts *held, const weft__parts *like, int64_t room)
{
    weft__parts out = {.n = like->n};
    for (int i = 0; i < out.n; i++) {
        weft_array *x = held->at[i];
        weft_dims shape = weft_shape(x ? x : like->at[i]);
        if (x == NULL) {
            shape.at[1] = room;
            out.at[i] = weft_zeros(shape, weft_dtype_of(like->at[i]));
        } else {
            out.at[i] = room > shape.at[1] ? weft_pad(x, 1, 0, room - shape.at[1], 0) : x;
        }
    }
    return out;
}

weft__parts weft__parts_slice(const weft__parts *parts, int64_t from, int64_t to)
{
    weft__parts out = {.n = parts->n};
    for (int i = 0; i < out.n; i++)
        out.at[i] = weft_slice_axis(parts->at[i], 1, from, to);
    return out;
}

weft__parts weft__parts_concatenate(const weft__parts *parts, int n)
{
    enum { MOST = 4 };
    weft__parts out = {.n = parts[0].n};
    for (int i = 0; i < out.n; i++) {
        weft_array *all[MOST] = {NULL};
        for (int k = 0; k < n; k++)
            all[k] = parts[k].at[i];
        out.at[i] = n > 1 ? weft_concatenate(all, n, 1) : all[0];
    }
    return out;
}

weft__parts weft__parts_pages(const weft__parts *parts, int64_t page)
{
    weft__parts out = {.n = parts->n};
    for (int i = 0; i < out.n; i++) {
        const weft_dims shape = weft_shape(parts->at[i]);
        out.at[i] = weft_reshape(parts->at[i],
                                 WEFT_DIMS(shape.at[1] / page, page, shape.at[2], shape.at[3]));
    }
    return out;
}

/* x (B, S, ...) with `fresh` (B, 1, ...) at index starts[b] of row b, or x (1, S, ...) with it at
 * these indices of its only row. */
static weft_array *with_tokens(weft_array *x, weft_array *fresh, weft_array *starts)
{
    const int64_t B = weft_dim(fresh, 0), one = weft_dim(x, 0) == 1 ? 1 : B;
    weft_array *at = weft_reshape(starts, WEFT_DIMS(one, B / one, 1, 1));
    fresh = one == 1 ? weft_swapaxes(fresh, 0, 1) : fresh;
    return weft_put_along_axis(x, weft_broadcast_to(at, weft_shape(fresh)), fresh, 1);
}

weft__parts weft__parts_write(const weft__parts *into, const weft__parts *from, weft_array *start)
{
    weft__parts out = {.n = into->n};
    for (int i = 0; i < out.n; i++)
        out.at[i] = weft_dim(start, 0) == 1
                        ? weft_slice_update(into->at[i], from->at[i], start, WEFT_DIMS(1))
                        : with_tokens(into->at[i], from->at[i], start);
    return out;
}
