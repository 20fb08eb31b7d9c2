/* tests/nn/test_layers.c -- the layers' values, their first parameters, and dropout. */
#include <math.h>

#include "tests/check.h"
#include "weft/layers.h"
#include "weft/nn.h"

static void set(weft_module *m, const char *name, const float *values, weft_dims shape)
{
    CHECK_OK(weft_set(weft_nn_find(m, name), weft_from_data(values, WEFT_FLOAT32, shape)));
}

static void values(weft_array *y, const float *expected, int n)
{
    float got[16];
    if (!CHECK_OK(weft_read(y, WEFT_FLOAT32, got, n)))
        return;
    for (int i = 0; i < n; i++)
        CHECK_CLOSE(got[i], expected[i], 1e-5);
}

static void linear_is_x_w_transposed_plus_b(void)
{
    weft_scope_open();
    weft_module *m = weft_nn_linear_new(3, 2, true);
    if (CHECK(m != NULL)) {
        set(m, "weight", (float[]){1, 2, 3, 4, 5, 6}, WEFT_DIMS(2, 3));
        set(m, "bias", (float[]){10, 20}, WEFT_DIMS(2));
        weft_array *x = weft_from_data((float[]){1, 0, -1, 2, 2, 2}, WEFT_FLOAT32, WEFT_DIMS(2, 3));
        values(weft_nn_call(m, x), (float[]){8, 18, 22, 50}, 4);
        CHECK(weft_nn_find(m, "bias") != NULL);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void embedding_takes_rows_and_is_a_head(void)
{
    weft_scope_open();
    weft_module *m = weft_nn_embedding_new(3, 2);
    if (CHECK(m != NULL)) {
        set(m, "weight", (float[]){1, 2, 3, 4, 5, 6}, WEFT_DIMS(3, 2));
        const int32_t ids[] = {2, 0};
        weft_array *x = weft_nn_call(m, weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2)));
        values(x, (float[]){5, 6, 1, 2}, 4);
        values(weft_nn_embedding_head(m, x), (float[]){17, 39, 61, 5, 11, 17}, 6);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void norms(void)
{
    weft_scope_open();
    weft_module *rms = weft_nn_rms_norm_new(2, 1e-6), *ln = weft_nn_layer_norm_new(2, 1e-6, true);
    weft_module *bare = weft_nn_layer_norm_new(2, 1e-6, false);
    weft_array *x = weft_from_data((float[]){1, 7}, WEFT_FLOAT32, WEFT_DIMS(1, 2));
    if (CHECK(rms && ln && bare)) {
        values(weft_nn_call(rms, x), (float[]){0.2f, 1.4f}, 2);
        set(rms, "weight", (float[]){10, 1}, WEFT_DIMS(2));
        values(weft_nn_call(rms, x), (float[]){2, 1.4f}, 2);
        values(weft_nn_call(ln, x), (float[]){-1, 1}, 2);
        set(ln, "weight", (float[]){2, 3}, WEFT_DIMS(2));
        set(ln, "bias", (float[]){0.5f, 0}, WEFT_DIMS(2));
        values(weft_nn_call(ln, x), (float[]){-1.5f, 3}, 2);
        CHECK(weft_nn_find(bare, "bias") == NULL);
        values(weft_nn_call(bare, x), (float[]){-1, 1}, 2);
    }
    weft_nn_free(rms);
    weft_nn_free(ln);
    weft_nn_free(bare);
    weft_scope_close(NULL);
}

/* Moments of a large parameter: mean, and the largest magnitude or the deviation. */
static void initial_parameters_follow_their_distributions(void)
{
    weft_scope_open();
    weft_random_seed(7);
    weft_module *m = weft_nn_linear_new(64, 200, false), *e = weft_nn_embedding_new(300, 64);
    if (CHECK(m && e)) {
        weft_array *w = *weft_nn_find(m, "weight"), *t = *weft_nn_find(e, "weight");
        CHECK_CLOSE(weft_item(weft_mean(w, WEFT_ALL_AXES, false)), 0, 0.003);
        const double most = weft_item(weft_max(weft_abs(w), WEFT_ALL_AXES, false));
        CHECK(most <= 0.125 && most > 0.1245);
        CHECK_CLOSE(weft_item(weft_mean(t, WEFT_ALL_AXES, false)), 0, 0.004);
        CHECK_CLOSE(sqrt(weft_item(weft_mean(weft_square(t), WEFT_ALL_AXES, false))), 0.125, 0.003);
    }
    weft_nn_free(m);
    weft_nn_free(e);
    weft_scope_close(NULL);
}

static void dropout_acts_only_in_training(void)
{
    weft_scope_open();
    weft_module *m = weft_nn_dropout_new(0.25);
    weft_array *x = weft_ones(WEFT_DIMS(10000), WEFT_FLOAT32);
    CHECK_OK(weft_eval(x));
    if (CHECK(m != NULL)) {
        CHECK(weft_nn_call(m, x) == x);
        weft_nn_train(m, true);
        weft_random_seed(3);
        weft_array *y = weft_nn_call(m, x), *again = weft_nn_call(m, x);
        weft_array *arrays[] = {y, again};
        CHECK_OK(weft_eval_n(arrays, 2));
        CHECK_CLOSE(weft_item(weft_max(y, WEFT_ALL_AXES, false)), 4.0 / 3.0, 1e-6);
        CHECK_CLOSE(weft_item(weft_mean(y, WEFT_ALL_AXES, false)), 1, 0.02);
        weft_array *zeros = weft_equal(y, weft_scalar(0, WEFT_FLOAT32));
        CHECK_CLOSE(weft_item(weft_mean(zeros, WEFT_ALL_AXES, false)), 0.25, 0.02);
        weft_array *differ = weft_any(weft_not_equal(y, again), WEFT_ALL_AXES, false);
        CHECK_EQ_INT(weft_item_int(differ), 1);
        weft_random_seed(3);
        weft_array *repeated = weft_nn_call(m, x);
        CHECK_EQ_INT(weft_item_int(weft_any(weft_not_equal(y, repeated), WEFT_ALL_AXES, false)), 0);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static weft_array *dropped(weft_module *m, weft_array *x)
{
    weft_random_seed(7);
    weft_array *y = weft_nn_call(m, x);
    CHECK_OK(weft_eval(y));
    return y;
}

static bool equal(weft_array *a, weft_array *b)
{
    return weft_item_int(weft_array_equal(a, b, false)) == 1;
}

/* Row keys move with their rows, and hold for the tree of their root, not for another one. */
static void dropout_keys_belong_to_a_tree(void)
{
    enum { WIDTH = 64 };
    const uint32_t forward[] = {0, 1, 0, 2, 0, 3}, backward[] = {0, 3, 0, 2, 0, 1};
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_DIMS(3, WIDTH), WEFT_FLOAT32);
    weft_module *root = weft_nn_sequential_of((weft_module *[]){weft_nn_dropout_new(0.5)}, 1);
    weft_module *other = weft_nn_dropout_new(0.5);
    if (CHECK(root != NULL && other != NULL)) {
        weft_nn_train(root, true);
        weft_nn_train(other, true);
        weft_array *without = dropped(other, x);
        CHECK(equal(dropped(root, x), without));
        root->row_keys = weft_from_data(forward, WEFT_UINT32, WEFT_DIMS(3, 2));
        weft_array *y = dropped(root, x);
        CHECK(!equal(y, without));
        CHECK(equal(dropped(other, x), without));
        root->row_keys = weft_from_data(backward, WEFT_UINT32, WEFT_DIMS(3, 2));
        CHECK(equal(weft_flip(dropped(root, x), WEFT_DIMS(0)), y));
        root->row_keys = NULL;
        root->vector_keys = weft_from_data(forward, WEFT_UINT32, WEFT_DIMS(3, 2));
        y = dropped(root, x);
        CHECK(!equal(y, without));
        CHECK(equal(dropped(other, x), without));
        CHECK(
            equal(weft_slice_axis(dropped(root, weft_reshape(x, WEFT_DIMS(1, 3, WIDTH))), 0, 0, 1),
                  weft_expand_dims(y, 0))); /* one mask, whatever the axes in front */
    }
    weft_nn_free(root);
    weft_nn_free(other);
    weft_scope_close(NULL);
}

CHECK_MAIN("layers", CHECK_CASE(linear_is_x_w_transposed_plus_b),
           CHECK_CASE(embedding_takes_rows_and_is_a_head), CHECK_CASE(norms),
           CHECK_CASE(initial_parameters_follow_their_distributions),
           CHECK_CASE(dropout_acts_only_in_training), CHECK_CASE(dropout_keys_belong_to_a_tree))
