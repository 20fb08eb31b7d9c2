/* tests/nn/test_images.c -- convolution, pooling and upsampling layers against PyTorch. */
#include <math.h>

#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/layers.h"

static const double near = 4e-6; /* sums of some dozens of terms in float32 */

static void convolutions_equal_pytorch(void)
{
    const weft_nn_conv_options one = {.stride = WEFT_DIMS(2), .padding = WEFT_DIMS(1)};
    const weft_nn_conv_options two = {.stride = WEFT_DIMS(2, 1),
                                      .padding = WEFT_DIMS(1, 2),
                                      .dilation = WEFT_DIMS(1, 2),
                                      .groups = 2};
    const weft_nn_conv_options bare = {.no_bias = true};
    if (!golden_open("nn/images"))
        return;
    against_module("conv1d", weft_nn_conv1d_new(3, 4, WEFT_DIMS(3), &one), NULL, near);
    against_module("conv2d", weft_nn_conv2d_new(4, 4, WEFT_DIMS(3, 2), &two), NULL, near);
    against_module("conv3d", weft_nn_conv3d_new(2, 4, WEFT_DIMS(2), &bare), NULL, near);
    golden_close();
}

static void transposed_convolutions_equal_pytorch(void)
{
    const weft_nn_conv_options one = {
        .stride = WEFT_DIMS(2), .padding = WEFT_DIMS(1), .output_padding = WEFT_DIMS(1)};
    const weft_nn_conv_options two = {
        .stride = WEFT_DIMS(2, 1), .padding = WEFT_DIMS(0, 1), .dilation = WEFT_DIMS(1, 2)};
    const weft_nn_conv_options three = {.stride = WEFT_DIMS(2)};
    if (!golden_open("nn/images"))
        return;
    against_module("conv_transpose1d", weft_nn_conv_transpose1d_new(3, 4, WEFT_DIMS(3), &one), NULL,
                   near);
    against_module("conv_transpose2d", weft_nn_conv_transpose2d_new(2, 4, WEFT_DIMS(3, 2), &two),
                   NULL, near);
    against_module("conv_transpose3d", weft_nn_conv_transpose3d_new(2, 4, WEFT_DIMS(2), &three),
                   NULL, near);
    golden_close();
}

static void pools_equal_pytorch(void)
{
    const weft_dims none = WEFT_SCALAR, two = WEFT_DIMS(2), three = WEFT_DIMS(3),
                    one = WEFT_DIMS(1);
    if (!golden_open("nn/images"))
        return;
    against_module("max_pool1d", weft_nn_max_pool1d_new(three, two, one), NULL, near);
    against_module("max_pool2d", weft_nn_max_pool2d_new(WEFT_DIMS(3, 3), two, one), NULL, near);
    against_module("max_pool3d", weft_nn_max_pool3d_new(three, two, one), NULL, near);
    against_module("avg_pool1d", weft_nn_avg_pool1d_new(three, two, one), NULL, near);
    against_module("avg_pool2d", weft_nn_avg_pool2d_new(three, two, one), NULL, near);
    against_module("avg_pool3d", weft_nn_avg_pool3d_new(three, two, one), NULL, near);
    against_module("max_pool1d_plain", weft_nn_max_pool1d_new(two, none, none), NULL, near);
    against_module("max_pool2d_plain", weft_nn_max_pool2d_new(two, none, none), NULL, near);
    against_module("max_pool3d_plain", weft_nn_max_pool3d_new(two, none, none), NULL, near);
    against_module("avg_pool1d_plain", weft_nn_avg_pool1d_new(two, none, none), NULL, near);
    against_module("avg_pool2d_plain", weft_nn_avg_pool2d_new(two, none, none), NULL, near);
    against_module("avg_pool3d_plain", weft_nn_avg_pool3d_new(two, none, none), NULL, near);
    golden_close();
}

static void upsampling_equals_pytorch(void)
{
    static const struct {
        const char *name;
        double scale[3];
        int n;
        weft_nn_upsample_options options;
    } rows[] = {
        {"nearest", {3, 2}, 2, {0}},
        {"nearest_more", {1.4}, 1, {0}},
        {"nearest_less", {0.5}, 1, {0}},
        {"linear", {2, 3}, 2, {.mode = WEFT_UPSAMPLE_LINEAR}},
        {"linear_corners", {1.5, 2}, 2, {.mode = WEFT_UPSAMPLE_LINEAR, .align_corners = true}},
        {"linear_antialias", {0.5, 1 / 3.}, 2, {.mode = WEFT_UPSAMPLE_LINEAR, .antialias = true}},
        {"cubic", {2, 3}, 2, {.mode = WEFT_UPSAMPLE_CUBIC}},
        {"cubic_corners", {1.5, 2}, 2, {.mode = WEFT_UPSAMPLE_CUBIC, .align_corners = true}},
        {"cubic_antialias", {0.5, 1 / 3.}, 2, {.mode = WEFT_UPSAMPLE_CUBIC, .antialias = true}},
        {"linear1d", {2}, 1, {.mode = WEFT_UPSAMPLE_LINEAR}},
        {"linear3d", {2}, 1, {.mode = WEFT_UPSAMPLE_LINEAR}},
    };
    if (!golden_open("nn/images"))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        against_module(rows[i].name,
                       weft_nn_upsample_new(rows[i].scale, rows[i].n, &rows[i].options), NULL,
                       near);
    golden_close();
}

static void initial_weights_and_refusals(void)
{
    weft_scope_open();
    weft_random_seed(3);
    const weft_nn_conv_options groups = {.groups = 2};
    weft_module *m = weft_nn_conv2d_new(8, 16, WEFT_DIMS(5), &groups);
    if (CHECK(m != NULL)) { /* within 1 / sqrt(4 * 25) */
        weft_array *w = *weft_nn_find(m, "weight");
        const double most = weft_item(weft_max(weft_abs(w), WEFT_ALL_AXES, false));
        CHECK(most <= 0.1 && most > 0.099);
        CHECK(!weft_ok(weft_nn_call(m, weft_zeros(WEFT_DIMS(1, 9, 8), WEFT_FLOAT32))));
    }
    weft_nn_free(m);
    CHECK(weft_nn_conv2d_new(3, 4, WEFT_DIMS(3), &groups) == NULL);
    CHECK(weft_nn_conv1d_new(3, 4, WEFT_DIMS(3, 3), NULL) == NULL);
    CHECK(weft_nn_max_pool2d_new(WEFT_DIMS(1, 2, 3), WEFT_SCALAR, WEFT_SCALAR) == NULL);
    m = weft_nn_avg_pool2d_new(WEFT_DIMS(2), WEFT_SCALAR, WEFT_SCALAR);
    if (CHECK(m != NULL))
        CHECK(!weft_ok(weft_nn_call(m, weft_zeros(WEFT_DIMS(1, 9, 8), WEFT_FLOAT32))));
    weft_nn_free(m);
    const weft_nn_upsample_options wrong = {.antialias = true},
                                   linear = {.mode = WEFT_UPSAMPLE_LINEAR};
    CHECK(weft_nn_upsample_new((double[]){2}, 1, &wrong) == NULL);
    CHECK(weft_nn_upsample_new((double[]){-2}, 1, NULL) == NULL);
    m = weft_nn_upsample_new((double[]){2}, 1, &linear);
    if (CHECK(m != NULL)) {
        CHECK(!weft_ok(weft_nn_call(m, weft_zeros(WEFT_DIMS(1, 9), WEFT_FLOAT32))));
        weft_array *empty = weft_nn_call(m, weft_zeros(WEFT_DIMS(1, 3, 0), WEFT_FLOAT32));
        CHECK_EQ_INT(weft_dim(empty, 1), 6);
        CHECK_EQ_INT(weft_dtype_of(weft_nn_call(m, weft_zeros(WEFT_DIMS(1, 3, 1), WEFT_BFLOAT16))),
                     WEFT_BFLOAT16);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

CHECK_MAIN("images", CHECK_CASE(convolutions_equal_pytorch),
           CHECK_CASE(transposed_convolutions_equal_pytorch), CHECK_CASE(pools_equal_pytorch),
           CHECK_CASE(upsampling_equals_pytorch), CHECK_CASE(initial_weights_and_refusals))
