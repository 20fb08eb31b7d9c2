/* tests/nn/test_images.c -- convolution, pooling and upsampling layers against PyTorch. */
#include <math.h>

#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/layers.h"

static const double near = 4e-6; /* sums of some dozens of terms in float32 */

static void upsampling_is_pytorchs(void)
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

static void edges(void)
{
    weft_scope_open();
    const weft_nn_upsample_options wrong = {.antialias = true},
                                   linear = {.mode = WEFT_UPSAMPLE_LINEAR};
    CHECK(weft_nn_upsample_new((double[]){2}, 1, &wrong) == NULL);
    CHECK(weft_nn_upsample_new((double[]){-2}, 1, NULL) == NULL);
    weft_module *m = weft_nn_upsample_new((double[]){2}, 1, &linear);
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

CHECK_MAIN("images", CHECK_CASE(upsampling_is_pytorchs), CHECK_CASE(edges))
