/* ops/random/choices.c -- random integers, permutations and choices. */
#include "ops/kernel.h"
#include "ops/random/random.h"

/* ---- integers ------------------------------------------------------------------------------- */

/* The dtype of the words from which integers are made: at least 32 bits. */
static weft_dtype words_for(weft_dtype dtype)
{
    return weft_dtype_size(dtype) == 8 ? WEFT_UINT64 : WEFT_UINT32;
}

/* Returns NULL, or an error array if the dtype is not an integer or the number of words overflows.
 */
static weft_array *check_draw(const weft_dims *shape, weft_dtype dtype)
{
    char text[WEFT_SHAPE_TEXT];
    int64_t size = weft__shape_size(shape);
    if (!weft_dtype_is_integer(dtype)) {
        return weft_error_array("randint: expected an integer dtype or bool, got %s",
                                weft_dtype_name(dtype));
    }
    bool fits = size >= 0 && size <= INT64_MAX / 2;
    for (int i = 0; i < shape->n; i++) {
        fits = fits && shape->at[i] >= 0;
    }
    return fits ? NULL
                : weft_error_array("randint: expected dimensions of 0 or more, got %s",
                                   weft__shape_text(shape, text));
}

/* 64-bit words combine a word of the first half (high bits) with one of the second half. */
static weft_array *words_of(weft_array *key, weft_dims shape, weft_dtype dtype)
{
    if (dtype == WEFT_UINT32) {
        return weft_random_bits(key, shape, 4);
    }
    weft_dims halves = {.n = 1, .at = {2 * weft__shape_size(&shape)}};
    weft_array *words = weft_astype(weft_random_bits(key, halves, 4), WEFT_UINT64);
    words = weft_reshape(words, WEFT_DIMS(2, weft__shape_size(&shape)));
    weft_array *high =
        weft_left_shift(weft_slice_axis(words, 0, 0, 1), weft_scalar_int(32, WEFT_UINT64));
    return weft_reshape(weft_bitwise_or(high, weft_slice_axis(words, 0, 1, 2)), shape);
}

static weft_array *key_at(weft_array *keys, int i)
{
    return weft_reshape(weft_slice_axis(keys, 0, i, i + 1), WEFT_DIMS(2));
}

/* Offsets below `span` (0: no bound) from two draws: (high 2^bits + low) mod span, as in JAX. The
 * bias is that of a draw with twice as many bits. */
static weft_array *offsets(weft_array *key, weft_dims shape, weft_array *span, weft_dtype dtype)
{
    weft_array *keys = weft_random_split(key, 2);
    weft_array *high = words_of(key_at(keys, 0), shape, dtype);
    weft_array *low = words_of(key_at(keys, 1), shape, dtype);
    if (!span) {
        return low;
    }
    int64_t half = INT64_C(1) << 4 * weft_dtype_size(dtype);
    weft_array *factor = weft_remainder(weft_scalar_int(half, dtype), span);
    factor = weft_remainder(weft_multiply(factor, factor), span);
    high = weft_multiply(weft_remainder(high, span), factor);
    return weft_remainder(weft_add(high, weft_remainder(low, span)), span);
}

weft_array *weft_random_randint(weft_array *key, weft_dims shape, int64_t low, int64_t high,
                                weft_dtype dtype)
{
    const bool boolean = dtype == WEFT_BOOL; /* false and true are 0 and 1 */
    dtype = boolean ? WEFT_UINT8 : dtype;
    weft_array *failed = check_draw(&shape, dtype);
    if (failed) {
        return failed;
    }
    int bits = 8 * (int)weft_dtype_size(dtype);
    bool is_signed = weft_dtype_is_signed(dtype);
    int64_t least = !is_signed ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
    int64_t most = bits == 64 ? INT64_MAX : (INT64_C(1) << (is_signed ? bits - 1 : bits));
    most = boolean ? 2 : most;
    if (low >= high || low < least || high > most) {
        return weft_error_array("randint: expected low < high in %s, got %lld and %lld",
                                weft_dtype_name(boolean ? WEFT_BOOL : dtype), (long long)low,
                                (long long)high);
    }
    weft_dtype words = words_for(dtype);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    bool all = bits == 32 && span >> 32 != 0;
    weft_scope_open();
    weft_array *bound = all ? NULL : weft_scalar_int((int64_t)span, words);
    weft_array *x = weft_astype(offsets(key, shape, bound, words), dtype); /* wraps */
    x = low == 0 ? x : weft_add(x, weft_scalar_int(low, dtype));
    return weft_scope_close(boolean ? weft_astype(x, WEFT_BOOL) : x);
}

weft_array *weft_random_randint_array(weft_array *key, weft_dims shape, weft_array *low,
                                      weft_array *high, weft_dtype dtype)
{
    const bool boolean = dtype == WEFT_BOOL;
    dtype = boolean ? WEFT_UINT8 : dtype;
    weft_array *failed = check_draw(&shape, dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_dtype words = words_for(dtype);
    low = weft_broadcast_to(weft_astype(low, dtype), shape);
    high = weft_broadcast_to(weft_astype(high, dtype), shape);
    weft_array *span = weft_subtract(weft_astype(high, words), weft_astype(low, words));
    span = weft_where(weft_less(low, high), span, weft_scalar_int(1, words));
    weft_array *x = weft_astype(offsets(key, shape, span, words), dtype);
    x = weft_add(x, low);
    return weft_scope_close(boolean ? weft_astype(x, WEFT_BOOL) : x);
}

/* ---- permutations --------------------------------------------------------------------------- */

weft_array *weft_random_permutation(weft_array *key, int64_t n)
{
    if (n < 0) {
        return weft_error_array("permutation: expected n >= 0, got %lld", (long long)n);
    }
    weft_scope_open();
    return weft_scope_close(weft_argsort(weft_random_bits(key, WEFT_DIMS(n), 4), 0));
}

weft_array *weft_random_permute(weft_array *key, weft_array *x, int axis)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("permute", x, axis, &from_end, &failed)) {
        return failed;
    }
    weft_scope_open();
    weft_array *order = weft_random_permutation(key, weft_dim(x, (int)from_end));
    return weft_scope_close(weft_take(x, order, (int)from_end));
}

/* ---- categorical ---------------------------------------------------------------------------- */

/* The Gumbel-max trick: argmax of logits - log(-log(u)) is i with probability softmax(logits)_i. */
static weft_array *choose(weft_array *key, weft_array *logits, weft_dims shape, int axis)
{
    weft_array *noise = weft_random_gumbel(key, shape, WEFT_FLOAT32);
    return weft_argmax(weft_add(weft_astype(logits, WEFT_FLOAT32), noise), axis, false);
}

weft_array *weft_random_categorical(weft_array *key, weft_array *logits, int axis)
{
    if (!weft_ok(logits)) {
        return logits;
    }
    weft_dims shape = weft_shape(logits);
    if (key != NULL && weft_ok(key) && weft_ndim(key) == 2) { /* each makes the noise of a row */
        if (shape.n != 2 || weft_dim(key, 0) != shape.at[0] || (axis != 1 && axis != -1)) {
            return weft_error_array("categorical: keys (%lld, 2): expected logits (%lld, V) and "
                                    "their last axis",
                                    (long long)weft_dim(key, 0), (long long)weft_dim(key, 0));
        }
        shape = WEFT_DIMS(shape.at[1]);
    }
    weft_scope_open();
    return weft_scope_close(choose(key, logits, shape, axis));
}

weft_array *weft_random_categorical_n(weft_array *key, weft_array *logits, int axis, int64_t n)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("categorical", logits, axis, &from_end, &failed)) {
        return failed;
    }
    if (n < 0 || weft_ndim(logits) == WEFT_MAX_DIMS) {
        return weft_error_array("categorical: %lld samples of an array of rank %d", (long long)n,
                                weft_ndim(logits));
    }
    weft_dims shape = weft_shape(logits);
    shape.at[shape.n++] = n;
    weft_scope_open();
    logits = weft_expand_dims(logits, -1);
    return weft_scope_close(choose(key, logits, shape, (int)from_end - 1));
}

weft_array *weft_random_categorical_shape(weft_array *key, weft_array *logits, int axis,
                                          weft_dims shape)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("categorical", logits, axis, &from_end, &failed)) {
        return failed;
    }
    int behind = (int)(-from_end - 1), at = shape.n - behind;
    if (shape.n >= WEFT_MAX_DIMS || shape.n < weft_ndim(logits) - 1) {
        return weft_error_array("categorical: a shape of rank %d for logits of rank %d", shape.n,
                                weft_ndim(logits));
    }
    weft_dims drawn = {.n = shape.n + 1};
    for (int i = 0; i < drawn.n; i++) {
        drawn.at[i] = i < at    ? shape.at[i]
                      : i == at ? weft_dim(logits, (int)from_end)
                                : shape.at[i - 1];
    }
    weft_scope_open();
    return weft_scope_close(choose(key, weft_broadcast_to(logits, drawn), drawn, (int)from_end));
}
