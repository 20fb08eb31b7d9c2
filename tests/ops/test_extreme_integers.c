/* tests/ops/test_extreme_integers.c -- every public function of arrays with an integer argument,
 * called with the ends of int64 and int32 and numbers around 0: each call gives a result of a
 * representable size or an error, and computes it if it is small. The sanitizers find what
 * overflows on the way. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/conv.h"
#include "weft/fft.h"
#include "weft/indexing.h"
#include "weft/losses.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { MOST = 1 << 16 }; /* elements of a result that is computed */

/* What the functions are called with: arrays of a few shapes, and the numbers under test. */
typedef struct call {
    weft_array *vector, *matrix, *cube; /* (5), (3, 4), (2, 3, 4); float32 */
    weft_array *index;                  /* int64 (2) */
    weft_array *signal, *taps;          /* (1, 9, 2), (2, 3, 2) */
    weft_array *key;
    int64_t a, b, c;
    int i, j; /* a and b as int */
} call;

#define D1(x) WEFT_DIMS(x)
#define D2(x, y) WEFT_DIMS(x, y)
#define F32 WEFT_FLOAT32

/* FUNCTION(name, expression): one array; the expression may use the call as c. */
#define FUNCTIONS(FUNCTION)                                                                        \
    FUNCTION(full, weft_full(D2(c->a, c->b), 1, F32))                                              \
    FUNCTION(full_complex, weft_full_complex(D1(c->a), 1, 2))                                      \
    FUNCTION(full_array, weft_full_array(D2(c->a, 5), c->vector, F32))                             \
    FUNCTION(arange_int, weft_arange_int(c->a, c->b, c->c, WEFT_INT64))                            \
    FUNCTION(arange_float, weft_arange((double)c->a, (double)c->b, (double)c->c, F32))             \
    FUNCTION(arange_narrow, weft_arange_int(c->a, c->b, c->c, WEFT_INT8))                          \
    FUNCTION(linspace, weft_linspace(0, 1, c->a, c->b > 0, F32))                                   \
    FUNCTION(linspace_whole, weft_linspace((double)c->a, (double)c->b, 5, true, WEFT_INT64))       \
    FUNCTION(eye, weft_eye(3, 4, c->a, F32))                                                       \
    FUNCTION(eye_sizes, weft_eye(c->a, c->b, c->c, F32))                                           \
    FUNCTION(identity, weft_identity(c->a, F32))                                                   \
    FUNCTION(tri, weft_tri(3, 4, c->a, F32))                                                       \
    FUNCTION(tri_sizes, weft_tri(c->a, c->b, c->c, F32))                                           \
    FUNCTION(tril, weft_tril(c->cube, c->a))                                                       \
    FUNCTION(triu, weft_triu(c->cube, c->a))                                                       \
    FUNCTION(diagonal, weft_diagonal(c->cube, c->a, 1, 2))                                         \
    FUNCTION(diagonal_axes, weft_diagonal(c->cube, 0, c->i, c->j))                                 \
    FUNCTION(diag, weft_diag(c->vector, c->a))                                                     \
    FUNCTION(diag_of_matrix, weft_diag(c->matrix, c->a))                                           \
    FUNCTION(trace, weft_trace(c->matrix, c->a, 0, 1))                                             \
    FUNCTION(trace_axes, weft_trace(c->cube, 0, c->i, c->j))                                       \
    FUNCTION(hanning, weft_hanning(c->a))                                                          \
    FUNCTION(hamming, weft_hamming(c->a))                                                          \
    FUNCTION(blackman, weft_blackman(c->a))                                                        \
    FUNCTION(bartlett, weft_bartlett(c->a))                                                        \
    FUNCTION(reshape, weft_reshape(c->cube, D2(c->a, c->b)))                                       \
    FUNCTION(reshape_empty, weft_reshape(weft_zeros(D1(0), F32), WEFT_DIMS(c->a, c->b, 0)))        \
    FUNCTION(flatten, weft_flatten(c->cube, c->i, c->j))                                           \
    FUNCTION(unflatten, weft_unflatten(c->cube, 2, D2(c->a, c->b)))                                \
    FUNCTION(unflatten_axis, weft_unflatten(c->cube, c->i, D2(2, -1)))                             \
    FUNCTION(transpose, weft_transpose(c->matrix, D2(c->a, c->b)))                                 \
    FUNCTION(swapaxes, weft_swapaxes(c->cube, c->i, c->j))                                         \
    FUNCTION(moveaxis, weft_moveaxis(c->cube, c->i, c->j))                                         \
    FUNCTION(flip, weft_flip(c->cube, D1(c->a)))                                                   \
    FUNCTION(expand_dims, weft_expand_dims(c->cube, c->i))                                         \
    FUNCTION(expand_dims_axes, weft_expand_dims_axes(c->cube, D2(c->a, c->b)))                     \
    FUNCTION(squeeze, weft_squeeze(c->cube, c->i))                                                 \
    FUNCTION(squeeze_axes, weft_squeeze_axes(c->cube, D2(c->a, c->b)))                             \
    FUNCTION(broadcast_to, weft_broadcast_to(c->vector, D2(c->a, c->b)))                           \
    FUNCTION(as_strided, weft_as_strided(c->matrix, D2(2, 2), D2(c->a, c->b), c->c))               \
    FUNCTION(as_strided_shape, weft_as_strided(c->matrix, D2(c->a, c->b), D2(c->c, 0), 0))         \
    FUNCTION(number_of_elements, weft_number_of_elements(c->cube, D1(c->a), false, WEFT_INT64))    \
    FUNCTION(slice, weft_slice(c->cube, D1(2), D1(c->a), D1(c->b), D1(c->c)))                      \
    FUNCTION(slice_axes, weft_slice(c->cube, D1(c->a), D1(0), D1(1), D1(1)))                       \
    FUNCTION(slice_axis, weft_slice_axis(c->cube, 1, c->a, c->b))                                  \
    FUNCTION(slice_axis_axis, weft_slice_axis(c->cube, c->i, 0, 1))                                \
    FUNCTION(dynamic_slice, weft_dynamic_slice(c->matrix, c->index, D2(0, 1), D2(c->a, c->b)))     \
    FUNCTION(slice_update, weft_slice_update(c->cube, c->matrix, c->index, D2(c->a, c->b)))        \
    FUNCTION(slice_update_static, weft_slice_update_static(c->vector, weft_scalar(1, F32), D1(0),  \
                                                           D1(c->a), D1(c->b), D1(c->c)))          \
    FUNCTION(slice_update_add, weft_slice_update_add(c->vector, weft_scalar(1, F32), D1(0),        \
                                                     D1(c->a), D1(c->b), D1(c->c)))                \
    FUNCTION(slice_update_prod, weft_slice_update_prod(c->vector, weft_scalar(1, F32), D1(0),      \
                                                       D1(c->a), D1(c->b), D1(c->c)))              \
    FUNCTION(slice_update_max, weft_slice_update_max(c->vector, weft_scalar(1, F32), D1(0),        \
                                                     D1(c->a), D1(c->b), D1(c->c)))                \
    FUNCTION(slice_update_min, weft_slice_update_min(c->vector, weft_scalar(1, F32), D1(0),        \
                                                     D1(c->a), D1(c->b), D1(c->c)))                \
    FUNCTION(concatenate, weft_concatenate((weft_array *[]){c->matrix, c->matrix}, 2, c->i))       \
    FUNCTION(stack, weft_stack((weft_array *[]){c->matrix, c->matrix}, 2, c->i))                   \
    FUNCTION(repeat, weft_repeat(c->matrix, c->a, 1))                                              \
    FUNCTION(repeat_axis, weft_repeat(c->matrix, 2, c->i))                                         \
    FUNCTION(tile, weft_tile(c->matrix, D2(c->a, c->b)))                                           \
    FUNCTION(roll, weft_roll(c->cube, D2(c->a, c->b), D2(1, 1)))                                   \
    FUNCTION(roll_all, weft_roll(c->cube, D1(c->a), WEFT_ALL_AXES))                                \
    FUNCTION(roll_axes, weft_roll(c->cube, D1(1), D1(c->a)))                                       \
    FUNCTION(diff, weft_diff(c->matrix, c->i, 1, NULL, NULL))                                      \
    FUNCTION(diff_axis, weft_diff(c->matrix, 1, c->i, NULL, NULL))                                 \
    FUNCTION(pad, weft_pad(c->matrix, 1, c->a, c->b, 0))                                           \
    FUNCTION(pad_axis, weft_pad(c->matrix, c->i, 1, 1, 0))                                         \
    FUNCTION(pad_axes, weft_pad_axes(c->matrix, D2(0, 1), D2(c->a, c->b), D2(c->b, c->c),          \
                                     WEFT_PAD_CONSTANT, 0))                                        \
    FUNCTION(pad_edge, weft_pad_axes(c->matrix, D1(1), D1(c->a), D1(c->b), WEFT_PAD_EDGE, 0))      \
    FUNCTION(pad_reflect,                                                                          \
             weft_pad_axes(c->matrix, D1(1), D1(c->a), D1(c->b), WEFT_PAD_REFLECT, 0))             \
    FUNCTION(pad_with, weft_pad_with(c->matrix, D1(1), D1(c->a), D1(c->b), weft_scalar(1, F32)))   \
    FUNCTION(take, weft_take(c->matrix, weft_scalar_int(c->a, WEFT_INT64), 1))                     \
    FUNCTION(take_axis, weft_take(c->matrix, c->index, c->i))                                      \
    FUNCTION(take_flat, weft_take_flat(c->matrix, weft_scalar_int(c->a, WEFT_INT64)))              \
    FUNCTION(take_along_axis, weft_take_along_axis(c->vector, weft_full_int(D1(2), c->a), 0))      \
    FUNCTION(put_along_axis,                                                                       \
             weft_put_along_axis(c->vector, weft_full_int(D1(1), c->a), weft_ones(D1(1), F32), 0)) \
    FUNCTION(scatter_add_along_axis,                                                               \
             weft_scatter_add_along_axis(c->vector, weft_full_int(D1(1), c->a),                    \
                                         weft_ones(D1(1), F32), 0))                                \
    FUNCTION(gather,                                                                               \
             weft_gather(c->matrix, (weft_array *[]){c->index}, 1, D1(c->a), D2(c->b, c->c)))      \
    FUNCTION(scatter, weft_scatter(c->vector, (weft_array *[]){weft_full_int(D1(1), c->a)}, 1,     \
                                   weft_ones(D2(1, 1), F32), D1(c->b)))                            \
    FUNCTION(scatter_prod,                                                                         \
             weft_scatter_prod(c->vector, (weft_array *[]){weft_full_int(D1(1), c->a)}, 1,         \
                               weft_ones(D2(1, 1), F32), D1(0)))                                   \
    FUNCTION(clip_indices, weft_clip_indices(weft_scalar_int(c->b, WEFT_INT64), c->a))             \
    FUNCTION(wrap_indices, weft_wrap_indices(weft_scalar_int(c->b, WEFT_INT64), c->a))             \
    FUNCTION(sum, weft_sum(c->cube, D2(c->a, c->b), false))                                        \
    FUNCTION(max, weft_max(c->cube, D2(c->a, c->b), true))                                         \
    FUNCTION(var, weft_var(c->cube, D1(1), false, c->a))                                           \
    FUNCTION(std, weft_std(c->cube, D1(c->b), false, c->a))                                        \
    FUNCTION(median, weft_median(c->cube, D1(c->a), false))                                        \
    FUNCTION(argmax, weft_argmax(c->cube, c->i, false))                                            \
    FUNCTION(softmax, weft_softmax(c->cube, c->i))                                                 \
    FUNCTION(softmax_axes, weft_softmax_axes(c->cube, D2(c->a, c->b)))                             \
    FUNCTION(log_softmax, weft_log_softmax(c->cube, c->i))                                         \
    FUNCTION(cumsum, weft_cumsum(c->cube, c->i, false, true))                                      \
    FUNCTION(logcumsumexp, weft_logcumsumexp(c->cube, c->i, false, false))                         \
    FUNCTION(linear_scan, weft_linear_scan(c->cube, c->cube, c->i, false))                         \
    FUNCTION(sort, weft_sort(c->cube, c->i))                                                       \
    FUNCTION(argsort, weft_argsort(c->cube, c->i))                                                 \
    FUNCTION(topk, weft_topk(c->vector, c->a, 0))                                                  \
    FUNCTION(topk_axis, weft_topk(c->cube, 1, c->i))                                               \
    FUNCTION(argtopk, weft_argtopk(c->vector, c->a, 0))                                            \
    FUNCTION(partition, weft_partition(c->vector, c->a, 0))                                        \
    FUNCTION(argpartition, weft_argpartition(c->vector, c->a, 0))                                  \
    FUNCTION(tensordot, weft_tensordot(c->matrix, c->matrix, D1(c->a), D1(c->b)))                  \
    FUNCTION(tensordot_n, weft_tensordot_n(c->matrix, c->matrix, c->i))                            \
    FUNCTION(vecdot, weft_vecdot(c->matrix, c->matrix, c->i))                                      \
    FUNCTION(block_masked_mm, weft_block_masked_mm(c->matrix, weft_swapaxes(c->matrix, 0, 1),      \
                                                   c->a, NULL, NULL, NULL))                        \
    FUNCTION(conv1d, weft_conv1d(c->signal, c->taps, c->a, c->b, c->c, 1))                         \
    FUNCTION(conv1d_groups, weft_conv1d(c->signal, c->taps, 1, 0, 1, c->a))                        \
    FUNCTION(conv_transpose1d, weft_conv_transpose1d(c->signal, c->taps, c->a, c->b, c->c, 0, 1))  \
    FUNCTION(conv_transpose1d_output, weft_conv_transpose1d(c->signal, c->taps, 2, 0, 1, c->a, 1)) \
    FUNCTION(sliding_window_view, weft_sliding_window_view(c->matrix, D1(c->a), D1(c->b)))         \
    FUNCTION(max_pool, weft_max_pool(c->signal, D1(c->a), D1(c->b), D1(c->c)))                     \
    FUNCTION(avg_pool, weft_avg_pool(c->signal, D1(c->a), D1(c->b), D1(c->c)))                     \
    FUNCTION(norm, weft_norm(c->matrix, D1(c->a), false))                                          \
    FUNCTION(norm_p, weft_norm_p(c->matrix, 2, D2(c->a, c->b), false))                             \
    FUNCTION(norm_nuclear, weft_norm_nuclear(c->matrix, D2(c->a, c->b), false))                    \
    FUNCTION(cross, weft_cross(weft_ones(D1(3), F32), weft_ones(D1(3), F32), c->i))                \
    FUNCTION(fft, weft_fft(c->matrix, c->a, 1, WEFT_FFT_BACKWARD))                                 \
    FUNCTION(ifft, weft_ifft(c->matrix, c->a, c->j, WEFT_FFT_ORTHO))                               \
    FUNCTION(rfft, weft_rfft(c->matrix, c->a, c->j, WEFT_FFT_FORWARD))                             \
    FUNCTION(irfft, weft_irfft(c->matrix, c->a, 1, WEFT_FFT_BACKWARD))                             \
    FUNCTION(fftn, weft_fftn(c->matrix, D2(c->a, c->b), D2(0, 1), WEFT_FFT_BACKWARD))              \
    FUNCTION(irfftn, weft_irfftn(c->matrix, D2(c->a, c->b), D2(0, 1), WEFT_FFT_BACKWARD))          \
    FUNCTION(rfft2, weft_rfft2(c->matrix, D2(3, 4), D2(c->a, c->b), WEFT_FFT_BACKWARD))            \
    FUNCTION(fftfreq, weft_fftfreq(c->a, 0.5))                                                     \
    FUNCTION(rfftfreq, weft_rfftfreq(c->a, 0.5))                                                   \
    FUNCTION(fftshift, weft_fftshift(c->matrix, D1(c->a)))                                         \
    FUNCTION(ifftshift, weft_ifftshift(c->matrix, D1(c->a)))                                       \
    FUNCTION(random_split, weft_random_split(c->key, c->a))                                        \
    FUNCTION(random_bits, weft_random_bits(c->key, D2(c->a, c->b), 4))                             \
    FUNCTION(random_bits_width, weft_random_bits(c->key, D1(3), c->i))                             \
    FUNCTION(random_uniform, weft_random_uniform(c->key, D2(c->a, c->b), 0, 1, F32))               \
    FUNCTION(random_normal, weft_random_normal(c->key, D1(c->a), 0, 1, F32))                       \
    FUNCTION(random_bernoulli, weft_random_bernoulli(c->key, D1(c->a), 0.5))                       \
    FUNCTION(random_randint, weft_random_randint(c->key, D1(3), c->a, c->b, WEFT_INT64))           \
    FUNCTION(random_randint_narrow, weft_random_randint(c->key, D1(3), c->a, c->b, WEFT_INT8))     \
    FUNCTION(random_randint_unsigned, weft_random_randint(c->key, D1(3), c->a, c->b, WEFT_UINT64)) \
    FUNCTION(random_randint_shape, weft_random_randint(c->key, D2(c->a, c->b), 0, 9, WEFT_INT64))  \
    FUNCTION(random_randint_array,                                                                 \
             weft_random_randint_array(c->key, D1(3), weft_scalar_int(c->a, WEFT_INT64),           \
                                       weft_scalar_int(c->b, WEFT_INT64), WEFT_INT64))             \
    FUNCTION(random_permutation, weft_random_permutation(c->key, c->a))                            \
    FUNCTION(random_permute, weft_random_permute(c->key, c->matrix, c->i))                         \
    FUNCTION(random_categorical, weft_random_categorical(c->key, c->matrix, c->i))                 \
    FUNCTION(random_categorical_n, weft_random_categorical_n(c->key, c->matrix, c->i, c->b))       \
    FUNCTION(random_categorical_shape,                                                             \
             weft_random_categorical_shape(c->key, c->matrix, c->i, D2(c->b, 3)))                  \
    FUNCTION(round_decimals, weft_round_decimals(c->matrix, c->i))                                 \
    FUNCTION(round_decimals_whole, weft_round_decimals(weft_full_int(D1(2), c->b), c->i))          \
    FUNCTION(round_decimals_unsigned,                                                              \
             weft_round_decimals(weft_astype(weft_full_int(D1(2), c->b), WEFT_UINT64), c->i))      \
    FUNCTION(loss_cross_entropy, weft_loss_cross_entropy(c->matrix, weft_zeros(D1(3), WEFT_INT32), \
                                                         NULL, c->i, 0, WEFT_REDUCTION_MEAN))      \
    FUNCTION(loss_nll,                                                                             \
             weft_loss_nll(c->matrix, weft_zeros(D1(3), WEFT_INT32), c->i, WEFT_REDUCTION_MEAN))   \
    FUNCTION(loss_kl_div, weft_loss_kl_div(c->matrix, c->matrix, c->i, WEFT_REDUCTION_MEAN))       \
    FUNCTION(loss_cosine_similarity,                                                               \
             weft_loss_cosine_similarity(c->matrix, c->matrix, c->i, 1e-8, WEFT_REDUCTION_MEAN))   \
    FUNCTION(floor_divide, weft_floor_divide(weft_scalar_int(c->a, WEFT_INT64),                    \
                                             weft_scalar_int(c->b, WEFT_INT64)))                   \
    FUNCTION(remainder,                                                                            \
             weft_remainder(weft_scalar_int(c->a, WEFT_INT64), weft_scalar_int(c->b, WEFT_INT64))) \
    FUNCTION(power,                                                                                \
             weft_power(weft_scalar_int(c->a, WEFT_INT64), weft_scalar_int(c->b, WEFT_INT64)))     \
    FUNCTION(multiply,                                                                             \
             weft_multiply(weft_scalar_int(c->a, WEFT_INT64), weft_scalar_int(c->b, WEFT_INT64)))  \
    FUNCTION(left_shift, weft_left_shift(weft_scalar_int(c->a, WEFT_INT64),                        \
                                         weft_scalar_int(c->b, WEFT_INT64)))                       \
    FUNCTION(right_shift, weft_right_shift(weft_scalar_int(c->a, WEFT_INT64),                      \
                                           weft_scalar_int(c->b, WEFT_INT64)))                     \
    FUNCTION(negative, weft_negative(weft_scalar_int(c->a, WEFT_INT64)))                           \
    FUNCTION(absolute, weft_abs(weft_scalar_int(c->a, WEFT_INT64)))                                \
    FUNCTION(scalar_int, weft_scalar_int(c->a, WEFT_INT8))                                         \
    FUNCTION(index_single, weft_index(c->matrix, (weft_index_item[]){weft_at(c->a)}, 1))           \
    FUNCTION(index_slice,                                                                          \
             weft_index(c->matrix, (weft_index_item[]){weft_from_to_by(c->a, c->b, c->c)}, 1))     \
    FUNCTION(index_update,                                                                         \
             weft_index_update(c->matrix, (weft_index_item[]){weft_from_to_by(c->a, c->b, c->c)},  \
                               1, weft_scalar(1, F32)))

static weft_array *weft_full_int(weft_dims shape, int64_t value)
{
    return weft_broadcast_to(weft_scalar_int(value, WEFT_INT64), shape);
}

#define FUNCTION(name, expression)                                                                 \
    static weft_array *call_##name(const call *c)                                                  \
    {                                                                                              \
        return expression;                                                                         \
    }
FUNCTIONS(FUNCTION)
#undef FUNCTION

#define FUNCTION(name, expression) {#name, call_##name},
static const struct {
    const char *name;
    weft_array *(*run)(const call *c);
} functions[] = {FUNCTIONS(FUNCTION)};
#undef FUNCTION

static const int64_t ends[] = {INT64_MIN,
                               INT64_MIN + 1,
                               -(INT64_C(1) << 62),
                               INT32_MIN,
                               -2,
                               -1,
                               0,
                               1,
                               2,
                               INT32_MAX,
                               INT64_C(1) << 31,
                               INT64_C(1) << 32,
                               INT64_C(1) << 53,
                               INT64_C(1) << 62,
                               INT64_MAX - 1,
                               INT64_MAX};
enum { ENDS = sizeof ends / sizeof *ends };

static int as_int(int64_t x)
{
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int)x;
}

/* A result has a size that int64 can hold, in elements and in bytes; a small one is computed, but
 * of pools only with windows that are not padded to gigabytes; what fails has a message. */
static void check_call(const char *name, weft_array *(*run)(const call *c), const call *c)
{
    weft_scope_open();
    weft_array *y = run(c);
    if (!weft_ok(y)) {
        CHECK(strlen(weft_error(y)) > 10);
    } else if (weft_size(y) < 0 || weft_nbytes(y) < 0) {
        CHECK_FAIL("%s(%lld, %lld, %lld): %lld elements", name, (long long)c->a, (long long)c->b,
                   (long long)c->c, (long long)weft_size(y));
    } else if (weft_size(y) <= MOST && !(strstr(name, "_pool") && c->a > MOST)) {
        (void)weft_eval(y); /* an error about an index is accepted */
    }
    weft_scope_close(NULL);
}

static weft_array *some(weft_dims shape)
{
    return weft_random_uniform(weft_random_key(5), shape, -1, 1, F32);
}

static void extreme_integers_give_a_result_or_an_error(void)
{
    weft_scope_open();
    call c = {.vector = some(D1(5)), .matrix = some(D2(3, 4)), .cube = some(WEFT_DIMS(2, 3, 4))};
    c.index = weft_zeros(D1(2), WEFT_INT64);
    c.signal = some(WEFT_DIMS(1, 9, 2));
    c.taps = some(WEFT_DIMS(2, 3, 2));
    c.key = weft_random_key(9);
    weft_array *all[] = {c.vector, c.matrix, c.cube, c.index, c.signal, c.taps, c.key};
    CHECK_OK(weft_eval_n(all, 7));
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        for (int k = 0; k < ENDS * ENDS; k++) {
            c.a = ends[k % ENDS];
            c.b = ends[k / ENDS];
            c.c = ends[(k * 7 + k / ENDS + 3) % ENDS];
            c.i = as_int(c.a);
            c.j = as_int(c.b);
            check_call(functions[f].name, functions[f].run, &c);
        }
    }
    weft_scope_close(NULL);
}

/* The meaning of offsets far outside of the array. */
static void offsets_beyond_the_array_mean_what_they_do_elsewhere(void)
{
    weft_scope_open();
    weft_array *m = weft_ones(D2(3, 4), F32);
    CHECK_OK(weft_eval(m));
    static const int64_t far[] = {INT64_MIN, INT64_MIN + 1, -100, 100, INT64_MAX};
    for (int i = 0; i < 5; i++) {
        double all = far[i] > 0 ? 12 : 0;
        CHECK_EQ_INT(weft_size(weft_diagonal(m, far[i], 0, 1)), 0);
        CHECK_EQ_INT(weft_size(weft_diag(m, far[i])), 0);
        CHECK_CLOSE(weft_item(weft_trace(m, far[i], 0, 1)), 0, 0);
        CHECK_CLOSE(weft_item(weft_sum(weft_eye(3, 4, far[i], F32), WEFT_ALL_AXES, false)), 0, 0);
        CHECK_CLOSE(weft_item(weft_sum(weft_tri(3, 4, far[i], F32), WEFT_ALL_AXES, false)), all, 0);
        CHECK_CLOSE(weft_item(weft_sum(weft_tril(m, far[i]), WEFT_ALL_AXES, false)), all, 0);
        CHECK_CLOSE(weft_item(weft_sum(weft_triu(m, far[i]), WEFT_ALL_AXES, false)), 12 - all, 0);
    }
    weft_array *v = weft_arange(0, 5, 1, WEFT_INT32);
    CHECK_OK(weft_eval(v));
    weft_array *rolled = weft_roll(v, D1(INT64_MIN), D1(0));              /* -2^63 mod 5 = 2 */
    weft_array *twice = weft_roll(v, D2(INT64_MAX, INT64_MAX), D2(0, 0)); /* 2 (2^63 - 1) mod 5 */
    int32_t got[5];
    CHECK_OK(weft_read(rolled, WEFT_INT32, got, 5));
    CHECK_EQ_INT(got[0], 3);
    CHECK_OK(weft_read(twice, WEFT_INT32, got, 5));
    CHECK_EQ_INT(got[0], 1);
    weft_array *one = weft_slice(v, D1(0), D1(3), D1(INT64_MAX), D1(INT64_MAX));
    CHECK_EQ_INT(weft_size(one), 1);
    CHECK_CLOSE(weft_item(one), 3, 0);
    one = weft_slice(v, D1(0), D1(INT64_MAX), D1(INT64_MIN), D1(INT64_MIN));
    CHECK_EQ_INT(weft_size(one), 1);
    CHECK_CLOSE(weft_item(one), 4, 0);
    CHECK(!weft_ok(weft_diag(v, INT64_MAX)));
    CHECK_CONTAINS(weft_error(weft_diag(v, INT64_MAX)), "diag");
    weft_scope_close(NULL);
}

CHECK_MAIN("extreme_integers", CHECK_CASE(extreme_integers_give_a_result_or_an_error),
           CHECK_CASE(offsets_beyond_the_array_mean_what_they_do_elsewhere))
