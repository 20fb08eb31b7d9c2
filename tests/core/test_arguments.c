/* tests/core/test_arguments.c -- arguments that no valid call has: a dtype out of range and a
 * weft_dims of more than WEFT_MAX_DIMS numbers in every array function that takes one, and names of
 * enum values that do not exist. */
#include <limits.h>
#include <string.h>

#include "tests/check.h"
#include "weft/tool/options.h"
#include "weft/weft.h"

typedef struct arguments {
    weft_array *x, *i, *k; /* floats (2, 2), indices (1,), a random key */
    weft_dims D;
    weft_dtype T;
} arguments;

typedef weft_array *call(const arguments *a);

/* Each function once. */
#define DIMS_FUNCTIONS(F)                                                                          \
    F(from_data, buffer, a->T, a->D)                                                               \
    F(conv2d, a->x, a->x, a->D, a->D, a->D, 1)                                                     \
    F(conv3d, a->x, a->x, a->D, a->D, a->D, 1)                                                     \
    F(conv_transpose2d, a->x, a->x, a->D, a->D, a->D, a->D, 1)                                     \
    F(conv_transpose3d, a->x, a->x, a->D, a->D, a->D, a->D, 1)                                     \
    F(sliding_window_view, a->x, a->D, a->D)                                                       \
    F(max_pool, a->x, a->D, a->D, a->D)                                                            \
    F(avg_pool, a->x, a->D, a->D, a->D)                                                            \
    F(zeros, a->D, a->T)                                                                           \
    F(ones, a->D, a->T)                                                                            \
    F(full, a->D, 1, a->T)                                                                         \
    F(full_complex, a->D, 1, 1)                                                                    \
    F(full_array, a->D, a->x, a->T)                                                                \
    F(fft2, a->x, a->D, a->D, 0)                                                                   \
    F(ifft2, a->x, a->D, a->D, 0)                                                                  \
    F(fftn, a->x, a->D, a->D, 0)                                                                   \
    F(ifftn, a->x, a->D, a->D, 0)                                                                  \
    F(rfft2, a->x, a->D, a->D, 0)                                                                  \
    F(rfftn, a->x, a->D, a->D, 0)                                                                  \
    F(irfft2, a->x, a->D, a->D, 0)                                                                 \
    F(irfftn, a->x, a->D, a->D, 0)                                                                 \
    F(fftshift, a->x, a->D)                                                                        \
    F(ifftshift, a->x, a->D)                                                                       \
    F(gather, a->x, &a->i, 1, a->D, a->D)                                                          \
    F(scatter, a->x, &a->i, 1, a->x, a->D)                                                         \
    F(scatter_add, a->x, &a->i, 1, a->x, a->D)                                                     \
    F(scatter_prod, a->x, &a->i, 1, a->x, a->D)                                                    \
    F(scatter_max, a->x, &a->i, 1, a->x, a->D)                                                     \
    F(scatter_min, a->x, &a->i, 1, a->x, a->D)                                                     \
    F(init_constant, a->D, 1, a->T)                                                                \
    F(init_identity, a->D, a->T)                                                                   \
    F(init_normal, a->k, a->D, 1, 1, a->T)                                                         \
    F(init_uniform, a->k, a->D, 1, 1, a->T)                                                        \
    F(init_glorot_normal, a->k, a->D, 1, a->T)                                                     \
    F(init_glorot_uniform, a->k, a->D, 1, a->T)                                                    \
    F(init_he_normal, a->k, a->D, 0, 1, a->T)                                                      \
    F(init_he_uniform, a->k, a->D, 0, 1, a->T)                                                     \
    F(init_sparse, a->k, a->D, 1, 1, 1, a->T)                                                      \
    F(init_orthogonal, a->k, a->D, 1, a->T)                                                        \
    F(norm, a->x, a->D, false)                                                                     \
    F(norm_p, a->x, 0.5, a->D, false)                                                              \
    F(norm_nuclear, a->x, a->D, false)                                                             \
    F(tensordot, a->x, a->x, a->D, a->D)                                                           \
    F(random_bits, a->k, a->D, 1)                                                                  \
    F(random_uniform, a->k, a->D, 1, 1, a->T)                                                      \
    F(random_normal, a->k, a->D, 1, 1, a->T)                                                       \
    F(random_bernoulli, a->k, a->D, 0.5)                                                           \
    F(random_uniform_array, a->k, a->D, a->x, a->x, a->T)                                          \
    F(random_normal_array, a->k, a->D, a->x, a->x, a->T)                                           \
    F(random_bernoulli_array, a->k, a->D, a->x)                                                    \
    F(random_truncated_normal, a->k, a->D, 1, 1, a->T)                                             \
    F(random_truncated_normal_array, a->k, a->D, a->x, a->x, a->T)                                 \
    F(random_gumbel, a->k, a->D, a->T)                                                             \
    F(random_laplace, a->k, a->D, 1, 1, a->T)                                                      \
    F(random_multivariate_normal, a->k, a->D, a->x, a->x, 0, a->T)                                 \
    F(random_randint, a->k, a->D, 1, 1, a->T)                                                      \
    F(random_randint_array, a->k, a->D, a->x, a->x, a->T)                                          \
    F(random_categorical_shape, a->k, a->x, -1, a->D)                                              \
    F(sum, a->x, a->D, false)                                                                      \
    F(mean, a->x, a->D, false)                                                                     \
    F(prod, a->x, a->D, false)                                                                     \
    F(max, a->x, a->D, false)                                                                      \
    F(min, a->x, a->D, false)                                                                      \
    F(all, a->x, a->D, false)                                                                      \
    F(any, a->x, a->D, false)                                                                      \
    F(logsumexp, a->x, a->D, false)                                                                \
    F(count_nonzero, a->x, a->D, false)                                                            \
    F(var, a->x, a->D, false, 0)                                                                   \
    F(std, a->x, a->D, false, 0)                                                                   \
    F(median, a->x, a->D, false)                                                                   \
    F(softmax_axes, a->x, a->D)                                                                    \
    F(reshape, a->x, a->D)                                                                         \
    F(unflatten, a->x, -1, a->D)                                                                   \
    F(transpose, a->x, a->D)                                                                       \
    F(flip, a->x, a->D)                                                                            \
    F(expand_dims_axes, a->x, a->D)                                                                \
    F(squeeze_axes, a->x, a->D)                                                                    \
    F(broadcast_to, a->x, a->D)                                                                    \
    F(as_strided, a->x, a->D, a->D, 1)                                                             \
    F(number_of_elements, a->x, a->D, false, a->T)                                                 \
    F(slice, a->x, a->D, a->D, a->D, a->D)                                                         \
    F(dynamic_slice, a->x, a->x, a->D, a->D)                                                       \
    F(slice_update, a->x, a->x, a->x, a->D)                                                        \
    F(slice_update_static, a->x, a->x, a->D, a->D, a->D, a->D)                                     \
    F(slice_update_add, a->x, a->x, a->D, a->D, a->D, a->D)                                        \
    F(slice_update_prod, a->x, a->x, a->D, a->D, a->D, a->D)                                       \
    F(slice_update_max, a->x, a->x, a->D, a->D, a->D, a->D)                                        \
    F(slice_update_min, a->x, a->x, a->D, a->D, a->D, a->D)                                        \
    F(tile, a->x, a->D)                                                                            \
    F(roll, a->x, a->D, a->D)                                                                      \
    F(pad_axes, a->x, a->D, a->D, a->D, 0, 1)                                                      \
    F(pad_with, a->x, a->D, a->D, a->D, a->x)

/* Each function once. */
#define DTYPE_FUNCTIONS(F)                                                                         \
    F(from_data, buffer, a->T, a->D)                                                               \
    F(scalar, 1, a->T)                                                                             \
    F(scalar_int, 1, a->T)                                                                         \
    F(zeros, a->D, a->T)                                                                           \
    F(ones, a->D, a->T)                                                                            \
    F(full, a->D, 1, a->T)                                                                         \
    F(full_array, a->D, a->x, a->T)                                                                \
    F(arange, 1, 1, 1, a->T)                                                                       \
    F(arange_int, 1, 1, 1, a->T)                                                                   \
    F(linspace, 1, 1, 1, false, a->T)                                                              \
    F(eye, 1, 1, 1, a->T)                                                                          \
    F(identity, 1, a->T)                                                                           \
    F(tri, 1, 1, 1, a->T)                                                                          \
    F(astype, a->x, a->T)                                                                          \
    F(init_constant, a->D, 1, a->T)                                                                \
    F(init_identity, a->D, a->T)                                                                   \
    F(init_normal, a->k, a->D, 1, 1, a->T)                                                         \
    F(init_uniform, a->k, a->D, 1, 1, a->T)                                                        \
    F(init_glorot_normal, a->k, a->D, 1, a->T)                                                     \
    F(init_glorot_uniform, a->k, a->D, 1, a->T)                                                    \
    F(init_he_normal, a->k, a->D, 0, 1, a->T)                                                      \
    F(init_he_uniform, a->k, a->D, 0, 1, a->T)                                                     \
    F(init_sparse, a->k, a->D, 1, 1, 1, a->T)                                                      \
    F(init_orthogonal, a->k, a->D, 1, a->T)                                                        \
    F(alibi, 1, 1, 1, 1, a->T)                                                                     \
    F(causal_mask, 1, a->T)                                                                        \
    F(dequantize, a->x, a->x, a->x, a->T, NULL)                                                    \
    F(from_fp8, a->x, a->T)                                                                        \
    F(from_fp8_e5m2, a->x, a->T)                                                                   \
    F(join_encoded, a->x, a->x, a->x, a->T, NULL)                                                  \
    F(random_uniform, a->k, a->D, 1, 1, a->T)                                                      \
    F(random_normal, a->k, a->D, 1, 1, a->T)                                                       \
    F(random_uniform_array, a->k, a->D, a->x, a->x, a->T)                                          \
    F(random_normal_array, a->k, a->D, a->x, a->x, a->T)                                           \
    F(random_truncated_normal, a->k, a->D, 1, 1, a->T)                                             \
    F(random_truncated_normal_array, a->k, a->D, a->x, a->x, a->T)                                 \
    F(random_gumbel, a->k, a->D, a->T)                                                             \
    F(random_laplace, a->k, a->D, 1, 1, a->T)                                                      \
    F(random_multivariate_normal, a->k, a->D, a->x, a->x, 0, a->T)                                 \
    F(random_randint, a->k, a->D, 1, 1, a->T)                                                      \
    F(random_randint_array, a->k, a->D, a->x, a->x, a->T)                                          \
    F(trace_as, a->x, 1, 0, 1, a->T)                                                               \
    F(cumsum_as, a->x, -1, false, false, a->T)                                                     \
    F(cumprod_as, a->x, -1, false, false, a->T)                                                    \
    F(view, a->x, a->T)                                                                            \
    F(number_of_elements, a->x, WEFT_DIMS(0), false, a->T)

static const double buffer[64];

#define DEFINE(name, ...)                                                                          \
    static weft_array *with_##name(const arguments *a)                                             \
    {                                                                                              \
        return weft_##name(__VA_ARGS__);                                                           \
    }
DIMS_FUNCTIONS(DEFINE)
#define DEFINE_DTYPE(name, ...)                                                                    \
    static weft_array *dtype_##name(const arguments *a)                                            \
    {                                                                                              \
        return weft_##name(__VA_ARGS__);                                                           \
    }
DTYPE_FUNCTIONS(DEFINE_DTYPE)

#define ROW(name, ...) {"weft_" #name, with_##name},
#define DTYPE_ROW(name, ...) {"weft_" #name, dtype_##name},

typedef struct row {
    const char *name;
    call *fn;
} row;

static const row dims_rows[] = {DIMS_FUNCTIONS(ROW)};
static const row dtype_rows[] = {DTYPE_FUNCTIONS(DTYPE_ROW)};

static void check_refused(const row *r, weft_dims dims, weft_dtype dtype, const char *message)
{
    weft_scope_open();
    arguments a = {.x = weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32),
                   .i = weft_zeros(WEFT_DIMS(1), WEFT_INT32),
                   .k = weft_random_key(1),
                   .D = dims,
                   .T = dtype};
    weft_array *y = r->fn(&a);
    if (weft_ok(y))
        CHECK_FAIL("%s: accepted", r->name);
    else if (message && !strstr(weft_error(y), message))
        CHECK_FAIL("%s: %s", r->name, weft_error(y));
    else
        CHECK(!weft_ok(y));
    weft_scope_close(NULL);
}

static void more_than_16_axes(void)
{
    static const int counts[] = {WEFT_MAX_DIMS + 1, 1000, INT_MAX};
    for (size_t i = 0; i < sizeof dims_rows / sizeof *dims_rows; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            for (int64_t length = 0; length < 3; length++) {
                weft_dims dims = {.n = counts[k]};
                for (int d = 0; d < WEFT_MAX_DIMS; d++)
                    dims.at[d] = length;
                check_refused(&dims_rows[i], dims, WEFT_FLOAT32, NULL);
            }
}

/* Functions that return no array. */
static void other_functions_with_lists(void)
{
    weft_dims many = {.n = 1000}, out = WEFT_DIMS(7);
    weft_array *parts[WEFT_MAX_DIMS + 1];
    weft_scope_open();
    weft_split_at(weft_ones(WEFT_DIMS(4), WEFT_FLOAT32), many, 0, parts);
    for (int i = 0; i <= WEFT_MAX_DIMS; i++)
        CHECK_CONTAINS(weft_error(parts[i]), "split: expected at most 16 numbers, got 1000");
    CHECK(!weft_broadcast_shapes((weft_dims[]){many, many}, 2, &out));
    CHECK(out.n == 1 && out.at[0] == 7);
    weft_array *y = weft_from_memory((void *)(uintptr_t)buffer, WEFT_FLOAT32, many, NULL, NULL);
    CHECK_CONTAINS(weft_error(y), "from_memory: expected up to 16");
    y = weft_from_memory((void *)(uintptr_t)buffer, (weft_dtype)99, WEFT_DIMS(2), NULL, NULL);
    CHECK_CONTAINS(weft_error(y), "from_memory: there is no dtype 99");
    CHECK(!weft_nn_conv2d_new(2, 2, many, NULL));
    CHECK(!weft_nn_max_pool2d_new(many, WEFT_DIMS(1), WEFT_DIMS(0)));
    weft_scope_close(NULL);
}

static void dtypes_out_of_range(void)
{
    static const int dtypes[] = {WEFT_DTYPE_COUNT, 99, INT_MAX, -1};
    for (size_t i = 0; i < sizeof dtype_rows / sizeof *dtype_rows; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
            check_refused(&dtype_rows[i], WEFT_DIMS(2, 2), (weft_dtype)dtypes[k], "dtype");
}

static void names_of_values_that_do_not_exist(void)
{
    static const int values[] = {50, 1000, INT_MAX, -1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const int v = values[i];
        CHECK_STR(weft_dtype_name((weft_dtype)v), "no dtype");
        CHECK_STR(weft_data_format_name((weft_data_format)v), "none");
        CHECK_STR(weft_row_kind_name((weft_row_kind)v), "none");
        CHECK_STR(weft_rule_name((weft_rule)v), "none");
        CHECK_STR(weft_finish_name((weft_finish)v), "none");
        CHECK_STR(weft_finish_detail_name((weft_finish_detail)v), "");
        CHECK(weft_status_name((weft_status)v) != NULL);
        CHECK_EQ_INT(weft_dtype_size((weft_dtype)v), 1);
        CHECK(!weft_dtype_is_float((weft_dtype)v) && !weft_dtype_is_integer((weft_dtype)v));
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
            (void)weft_promote((weft_dtype)v, (weft_dtype)d);
            (void)weft_promote((weft_dtype)d, (weft_dtype)v);
        }
    }
    CHECK_STR(weft_tape_code_name((weft_tape_code)1000), "none");
    CHECK_EQ_INT(weft_tape_arity((weft_tape_code)-1), 0);
}

/* Lists with valid numbers of axes still work. */
static void sixteen_axes_are_accepted(void)
{
    weft_dims sixteen = {.n = WEFT_MAX_DIMS};
    for (int d = 0; d < WEFT_MAX_DIMS; d++)
        sixteen.at[d] = 1;
    weft_scope_open();
    CHECK_CLOSE(weft_item(weft_reshape(weft_full(sixteen, 3, WEFT_FLOAT32), WEFT_DIMS(1))), 3, 0);
    CHECK_EQ_INT(weft_ndim(weft_broadcast_to(weft_scalar(1, WEFT_FLOAT32), sixteen)), 16);
    weft_scope_close(NULL);
}

CHECK_MAIN("arguments", CHECK_CASE(more_than_16_axes), CHECK_CASE(other_functions_with_lists),
           CHECK_CASE(dtypes_out_of_range), CHECK_CASE(names_of_values_that_do_not_exist),
           CHECK_CASE(sixteen_axes_are_accepted))
