/* tests/nn/test_tools.c -- module tools: choosing, applying, setting, npz, gradients,
 * quantizing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/layers.h"
#include "weft/nn_tools.h"

static weft_module *net(void)
{
    weft_random_seed(2);
    return weft_nn_sequential_of((weft_module *[]){weft_nn_linear_new(64, 32, true),
                                                   weft_nn_batch_norm_new(32, NULL),
                                                   weft_nn_linear_new(32, 3, true)},
                                 3);
}

static int trainable(weft_module *m)
{
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_trainable(m, &slots)))
        return -1;
    const int n = slots.n;
    weft_nn_slots_free(&slots);
    return n;
}

static bool is_matrix(void *context, const weft_nn_item *item)
{
    (void)context;
    return weft_ndim(*item->slot->address) == 2;
}

static void freezing_by_path_key_and_predicate(void)
{
    static const char *const keys[] = {"bias", "weight"}, *const wrong[] = {"bias", "gain"};
    weft_module *m = net();
    if (!CHECK(m != NULL))
        return;
    CHECK_EQ_INT(trainable(m), 6);
    CHECK_OK(weft_nn_freeze_some(m, &(weft_nn_choice){.keys = keys, .n_keys = 1}));
    CHECK_EQ_INT(trainable(m), 3);
    CHECK_OK(weft_nn_unfreeze_some(m, &(weft_nn_choice){.path = "layers.0"}));
    CHECK_EQ_INT(trainable(m), 4);
    CHECK_OK(weft_nn_unfreeze_some(m, NULL));
    CHECK_EQ_INT(trainable(m), 6); /* running statistics are not */
    CHECK_OK(weft_nn_freeze_some(m, &(weft_nn_choice){.accepts = is_matrix}));
    CHECK_EQ_INT(trainable(m), 4);
    CHECK_OK(weft_nn_freeze_some(m, &(weft_nn_choice){.path = "layers", .shallow = true}));
    CHECK_EQ_INT(trainable(m), 4);
    CHECK_OK(weft_nn_freeze_some(
        m, &(weft_nn_choice){.path = "layers.2", .keys = keys, .n_keys = 2, .strict = true}));
    CHECK_EQ_INT(trainable(m), 3);
    weft_nn_unfreeze(m);
    weft_nn_choice strict = {.keys = wrong, .n_keys = 2, .strict = true};
    CHECK_STATUS(weft_nn_freeze_some(m, &strict), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "'gain'");
    CHECK_STATUS(weft_nn_freeze_some(m, &(weft_nn_choice){.path = "layers.7", .strict = true}),
                 WEFT_INVALID);
    CHECK_EQ_INT(trainable(m), 6);
    CHECK_OK(weft_nn_cast_some(m, WEFT_BFLOAT16, &(weft_nn_choice){.path = "layers.0"}));
    CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(m, "layers.0.bias")), WEFT_BFLOAT16);
    CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(m, "layers.2.bias")), WEFT_FLOAT32);
    weft_nn_free(m);
}

static weft_array *filled(void *context, const weft_nn_item *item, weft_array *value)
{
    (*(int *)context)++;
    if (strcmp(item->path, "layers.2.bias") == 0)
        return weft_error_array("enough");
    return weft_full(weft_shape(value), 3, weft_dtype_of(value));
}

static weft_status count(void *context, const char *path, weft_module **field)
{
    (void)path;
    *(int *)context += (*field)->n_slots > 0;
    return WEFT_OK;
}

static double sum_of(weft_module *m, const char *path)
{
    return weft_item(weft_sum(*weft_nn_find(m, path), WEFT_ALL_AXES, false));
}

/* A path ends where a name does. */
static void names_match_as_a_whole(void)
{
    weft_module *m = net();
    if (!CHECK(m != NULL))
        return;
    CHECK(weft_nn_find_module(m, "layers") != NULL);
    CHECK(weft_nn_find_module(m, "layers.2") != NULL);
    CHECK(weft_nn_find_module(m, "layersx") == NULL);
    CHECK(weft_nn_find_module(m, "layers.2x") == NULL);
    CHECK(weft_nn_find_module(m, "layer") == NULL);
    CHECK(weft_nn_find(m, "layers.2.weight") != NULL);
    CHECK(weft_nn_find(m, "layers.2xweight") == NULL);
    CHECK(weft_nn_find(m, "layers.2.weights") == NULL);
    CHECK(weft_nn_find(m, "layers.2.weigh") == NULL);
    weft_nn_free(m);
}

/* Weights are within 1 / sqrt(inputs) and fill that range, also with one input. */
static void linear_weights_fill_their_range(void)
{
    static const int64_t sizes[] = {1, 2, 16};
    for (int i = 0; i < 3; i++) {
        weft_module *m = weft_nn_linear_new(sizes[i], 512, true);
        if (!CHECK(m != NULL))
            return;
        weft_scope_open();
        const double bound = 1 / sqrt((double)sizes[i]);
        static const char *const names[] = {"weight", "bias"};
        for (int k = 0; k < 2; k++) {
            weft_array *w = *weft_nn_find(m, names[k]);
            CHECK(weft_item(weft_max(w, WEFT_ALL_AXES, false)) <= bound);
            CHECK(weft_item(weft_max(w, WEFT_ALL_AXES, false)) > 0.95 * bound);
            CHECK(weft_item(weft_min(w, WEFT_ALL_AXES, false)) < -0.95 * bound);
        }
        weft_scope_close(NULL);
        weft_nn_free(m);
    }
}

static void applying_and_setting(void)
{
    static const char *const weights[] = {"weight"};
    static const char *const paths[] = {"layers.2.bias", "nowhere"};
    int calls = 0, leaves = 0;
    weft_module *m = net();
    if (!CHECK(m != NULL))
        return;
    weft_scope_open();
    weft_array *mine = weft_add(weft_ones(WEFT_SCALAR, WEFT_FLOAT32), weft_scalar(1, WEFT_FLOAT32));
    CHECK_OK(weft_nn_apply(m, filled, &calls, &(weft_nn_choice){.keys = weights, .n_keys = 1}));
    CHECK_CLOSE(weft_item(mine), 2, 0); /* the caller's scope is as it was */
    CHECK_EQ_INT(calls, 3);
    CHECK_CLOSE(sum_of(m, "layers.2.weight"), 3 * 96, 0);
    CHECK_STATUS(weft_nn_apply(m, filled, &calls, NULL), WEFT_INVALID);
    CHECK_OK(weft_nn_visit_leaves(m, count, &leaves));
    CHECK_EQ_INT(leaves, 3);

    weft_array *values[] = {weft_full(WEFT_DIMS(3), 2, WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32)};
    CHECK_STATUS(weft_nn_update(m, paths, values, 2, true), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "'nowhere'");
    CHECK(sum_of(m, "layers.2.bias") != 6);
    CHECK_OK(weft_nn_update(m, paths, values, 2, false));
    CHECK_CLOSE(sum_of(m, "layers.2.bias"), 6, 0);
    values[0] = weft_zeros(WEFT_DIMS(4), WEFT_FLOAT32);
    CHECK_STATUS(weft_nn_update(m, paths, values, 1, true), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "layers.2.bias: expected (3,), got (4,)");
    CHECK_OK(weft_nn_eval(m));
    weft_scope_close(NULL);
    weft_nn_free(m);
}

/* Everything that was saved is loaded, running statistics too. */
static void npz_files_are_written_and_read(void)
{
    const char *file = check_temporary("nn_tools.npz");
    weft_module *m = net(), *other = net();
    weft_scope_open();
    if (CHECK(m && other)) {
        CHECK_OK(weft_set(weft_nn_find(m, "layers.1.running_mean"),
                          weft_full(WEFT_DIMS(32), 5, WEFT_FLOAT32)));
        CHECK_OK(weft_set(weft_nn_find(other, "layers.0.bias"),
                          weft_zeros(WEFT_DIMS(32), WEFT_FLOAT32)));
        weft_status status = weft_nn_save_npz(m, file, NULL);
        if (status == WEFT_UNSUPPORTED) {
            check_skip("no libzip in this build");
        } else if (CHECK_OK(status) && CHECK_OK(weft_nn_load_npz(other, file, NULL))) {
            CHECK_CLOSE(sum_of(other, "layers.1.running_mean"), 160, 0);
            CHECK_CLOSE(sum_of(other, "layers.0.bias"), sum_of(m, "layers.0.bias"), 0);
        }
        weft_nn_free(other);
        other = weft_nn_linear_new(3, 3, false);
        if (status == WEFT_OK && CHECK(other != NULL)) {
            CHECK_STATUS(weft_nn_load_npz(other, file, NULL), WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), "1 missing: weight; 8 unexpected");
        }
    }
    weft_scope_close(NULL);
    weft_nn_free(m);
    weft_nn_free(other);
}

typedef struct problem {
    weft_module *m;
    weft_array *x;
    bool checkpoint;
} problem;

static weft_array *loss(void *context)
{
    const problem *p = context;
    weft_array *y = p->checkpoint ? weft_nn_checkpoint(p->m, p->x) : weft_nn_call(p->m, p->x);
    return weft_sum(weft_square(y), WEFT_ALL_AXES, false);
}

/* Gradients of trainable parameters only, by path; the same through a checkpoint. */
static void gradients_of_trainable_parameters(void)
{
    problem p = {.m = net()};
    weft_nn_gradients plain, again;
    if (!CHECK(p.m != NULL))
        return;
    weft_scope_open();
    p.x = weft_random_normal(weft_random_key(4), WEFT_DIMS(5, 64), 0, 1, WEFT_FLOAT32);
    CHECK_OK(weft_nn_freeze_some(p.m, &(weft_nn_choice){.path = "layers.0"}));
    weft_array *value = weft_nn_value_and_grad(p.m, loss, &p, &plain);
    p.checkpoint = true;
    weft_array *same = weft_nn_value_and_grad(p.m, loss, &p, &again);
    if (CHECK_EQ_INT(plain.parameters.n, 4) && CHECK_EQ_INT(again.parameters.n, 4)) {
        CHECK_STR(plain.parameters.paths[0], "layers.1.bias");
        weft_array *equal = weft_equal(value, same);
        for (int i = 0; i < 4; i++)
            equal =
                weft_logical_and(equal, weft_array_equal(plain.arrays[i], again.arrays[i], false));
        CHECK_EQ_INT(weft_item_int(equal), 1);
    }
    weft_nn_gradients_free(&plain);
    weft_nn_gradients_free(&again);
    weft_scope_close(NULL);
    weft_nn_free(p.m);
}

/* ---- quantizing ----------------------------------------------------------------------------- */

static bool is_first(void *context, const char *path, const weft_module *m)
{
    (void)context, (void)m;
    return strcmp(path, "layers.0") == 0;
}

/* The layer computes with the decoded weight, is frozen, and passes gradients on. */
static void quantized_layers_use_the_stored_values(void)
{
    const weft_nn_quantize_options eight = {.format = {.bits = 8, .group_size = 32}};
    weft_module *m = weft_nn_linear_new(64, 32, true), *embedding = weft_nn_embedding_new(7, 64);
    weft_scope_open();
    if (CHECK(m && embedding)) {
        weft_array *dense = weft_keep(*weft_nn_find(m, "weight"));
        CHECK_OK(weft_eval(dense));
        CHECK_OK(weft_nn_quantize(m, &eight));
        CHECK_OK(weft_nn_quantize(embedding, &eight));
        weft_array *stored = weft_decode(*weft_nn_find(m, "weight"));
        weft_array *off = weft_max(weft_abs(weft_subtract(stored, dense)), WEFT_ALL_AXES, false);
        const double error = weft_item(off);
        CHECK(error > 0 && error < 2 * 0.125 / 255 + 0.125 / 256); /* a step, and bfloat16 */
        CHECK_EQ_INT(trainable(m), 0);
        weft_array *x =
            weft_random_normal(weft_random_key(1), WEFT_DIMS(3, 64), 0, 1, WEFT_FLOAT32);
        weft_array *y = weft_nn_call(m, x);
        weft_array *expected = weft_add(
            weft_linear(x, weft_astype(weft_decode(*weft_nn_find(m, "weight")), WEFT_FLOAT32),
                        NULL),
            *weft_nn_find(m, "bias"));
        CHECK_EQ_INT(weft_item_int(weft_allclose(y, expected, 1e-2, 1e-2, false)), 1);
        weft_array *ids = weft_from_data((int32_t[]){6, 0}, WEFT_INT32, WEFT_DIMS(2));
        weft_array *rows = weft_nn_call(embedding, ids);
        weft_array *whole = weft_decode(*weft_nn_find(embedding, "weight"));
        CHECK_EQ_INT(weft_item_int(weft_array_equal(rows, weft_take(whole, ids, 0), false)), 1);
        weft_drop(dense);
    }
    weft_scope_close(NULL);
    weft_nn_free(m);
    weft_nn_free(embedding);
}

static void quantizing_selects_layers(void)
{
    const weft_nn_quantize_options first = {.accepts = is_first};
    weft_module *m = net();
    if (!CHECK(m != NULL))
        return;
    CHECK_OK(weft_nn_quantize(m, &first)); /* groups of 64: layers.2 has rows of 32 */
    CHECK_EQ_INT(trainable(m), 4);
    weft_nn_unfreeze(m);
    CHECK_OK(weft_nn_quantize(m, &(weft_nn_quantize_options){.format.mode = WEFT_MXFP8}));
    CHECK_EQ_INT(trainable(m), 2);
    CHECK_OK(weft_nn_save(m, check_temporary("nn_tools.safetensors"), NULL));
    CHECK_STATUS(weft_nn_quantize(m, &(weft_nn_quantize_options){.format.bits = 7}), WEFT_INVALID);
    weft_nn_free(m);
}

/* ---- quantized trees in files --------------------------------------------------------------- */

static weft_module *quantized_net(void)
{
    weft_module *parts[] = {weft_nn_embedding_new(9, 64), weft_nn_linear_new(64, 96, true),
                            weft_nn_linear_new(96, 5, true)};
    return weft_nn_sequential_of(parts, 3);
}

static bool same_storage(weft_array *a, weft_array *b)
{
    weft_array *x[3], *y[3];
    bool same = CHECK(weft_encoding_of(a) == weft_encoding_of(b)) &&
                CHECK_EQ_INT(weft_dtype_of(a), weft_dtype_of(b));
    if (weft_encoding_of(a) == NULL)
        return same && weft_item_int(weft_array_equal(a, b, false));
    weft_split_encoded(a, x);
    weft_split_encoded(b, y);
    for (int i = 0; i < 3 && same && x[i]; i++)
        same = weft_item_int(weft_array_equal(x[i], y[i], false));
    return same;
}

static void same_parameters(weft_module *m, weft_module *other)
{
    weft_nn_slots a, b;
    if (CHECK_OK(weft_nn_parameters(m, &a)) && CHECK_OK(weft_nn_parameters(other, &b))) {
        for (int i = 0; i < a.n; i++) {
            if (!same_storage(*a.slots[i], *b.slots[i]))
                CHECK_FAIL("%s differs", a.paths[i]);
        }
        weft_nn_slots_free(&a);
        weft_nn_slots_free(&b);
    }
}

static weft_status save_and_load(weft_module *m, weft_module *fresh, bool npz,
                                 const weft_nn_load_options *options)
{
    const char *path = check_temporary(npz ? "quantized.npz" : "quantized.safetensors");
    weft_safetensors *file;
    weft_status status = npz ? weft_nn_save_npz(m, path, NULL) : weft_nn_save(m, path, NULL);
    if (status != WEFT_OK || npz)
        return status != WEFT_OK ? status : weft_nn_load_npz(fresh, path, options);
    status = weft_safetensors_open(path, &file);
    if (status == WEFT_OK) {
        status = weft_nn_load(fresh, file, options);
        weft_safetensors_close(file);
    }
    return status;
}

/* Every format, into a tree that is dense or of another format: bit for bit, and frozen as the
 * quantized tree is. */
static void quantized_trees_stay_quantized(void)
{
    static const weft_quantize_options formats[] = {
        {.bits = 2, .group_size = 32}, {.bits = 3, .group_size = 32}, {.bits = 4, .group_size = 32},
        {.bits = 5, .group_size = 32}, {.bits = 6, .group_size = 32}, {.bits = 8, .group_size = 64},
        {.mode = WEFT_MXFP4},          {.mode = WEFT_MXFP8},          {.mode = WEFT_NVFP4}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        weft_module *m = quantized_net(), *fresh = quantized_net();
        weft_scope_open();
        if (CHECK(m && fresh) &&
            CHECK_OK(weft_nn_quantize(m, &(weft_nn_quantize_options){.format = formats[i]}))) {
            if (i % 2)
                CHECK_OK(weft_nn_quantize(fresh, NULL));
            CHECK_OK(save_and_load(m, fresh, false, NULL));
            same_parameters(m, fresh);
            CHECK_EQ_INT(trainable(m), trainable(fresh));
            weft_array *ids = weft_from_data((int32_t[]){8, 0, 3}, WEFT_INT32, WEFT_DIMS(3));
            weft_array *same =
                weft_array_equal(weft_nn_call(m, ids), weft_nn_call(fresh, ids), false);
            CHECK_EQ_INT(weft_item_int(same), 1);
        }
        weft_scope_close(NULL);
        weft_nn_free(m);
        weft_nn_free(fresh);
    }
}

static void quantized_trees_in_other_forms(void)
{
    weft_module *m = quantized_net(), *fresh = quantized_net(), *dense = quantized_net();
    const char *path = check_temporary("quantized_dense.safetensors");
    weft_safetensors *file;
    weft_scope_open();
    if (CHECK(m && fresh && dense) &&
        CHECK_OK(weft_nn_quantize(m, &(weft_nn_quantize_options){.format.mode = WEFT_MXFP4}))) {
        const weft_status status = save_and_load(m, fresh, true, NULL);
        if (status != WEFT_UNSUPPORTED && CHECK_OK(status))
            same_parameters(m, fresh);
        CHECK_OK(save_and_load(m, fresh, false, &(weft_nn_load_options){.dtype = WEFT_FLOAT16}));
        CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(fresh, "layers.1.weight")), WEFT_FLOAT16);
        CHECK_OK(weft_nn_cast(fresh, WEFT_BFLOAT16));
        CHECK_OK(weft_nn_cast(m, WEFT_FLOAT16)); /* the biases round twice too */
        CHECK_OK(weft_nn_cast(m, WEFT_BFLOAT16));
        same_parameters(m, fresh);
        CHECK_OK(weft_nn_save(m, path, &(weft_nn_save_options){.dense = true}));
        if (CHECK_OK(weft_safetensors_open(path, &file))) {
            CHECK_EQ_INT(weft_safetensors_count(file), 5);
            CHECK_OK(weft_nn_load(dense, file, NULL));
            weft_safetensors_close(file);
            weft_array *stored = weft_decode(*weft_nn_find(m, "layers.1.weight"));
            CHECK(same_storage(stored, *weft_nn_find(dense, "layers.1.weight")));
        }
    }
    weft_scope_close(NULL);
    weft_nn_free(m);
    weft_nn_free(fresh);
    weft_nn_free(dense);
}

/* Codes without scales, with another number of groups, and for modules that cannot have codes. */
static void wrong_parts_are_reported(void)
{
    const char *path = check_temporary("wrong_parts.safetensors");
    const char *names[] = {"layers.0.weight", "layers.1.weight", "layers.1.scales",
                           "layers.1.bias",   "layers.2.weight", "layers.2.bias"};
    weft_safetensors *file;
    weft_module *m = quantized_net();
    weft_scope_open();
    weft_array *arrays[] = {
        weft_zeros(WEFT_DIMS(9, 8), WEFT_UINT32),   weft_zeros(WEFT_DIMS(96, 8), WEFT_UINT32),
        weft_zeros(WEFT_DIMS(96, 3), WEFT_UINT8),   weft_zeros(WEFT_DIMS(12), WEFT_UINT32),
        weft_zeros(WEFT_DIMS(5, 96), WEFT_FLOAT32), weft_zeros(WEFT_DIMS(5), WEFT_FLOAT32)};
    CHECK_OK(weft_safetensors_save(path, names, arrays, 6, NULL, 0));
    if (CHECK(m != NULL) && CHECK_OK(weft_safetensors_open(path, &file))) {
        CHECK_STATUS(weft_nn_load(m, file, NULL), WEFT_INVALID);
        const char *message = weft_error_message();
        CHECK_CONTAINS(message, "3 of another shape or dtype");
        CHECK_CONTAINS(message, "layers.0.weight: expected (9, 64) float32, found (9, 8) uint32");
        CHECK_CONTAINS(message, "layers.1.weight: expected (96, 64) float32, found (96, 8) uint32");
        weft_safetensors_close(file);
    }
    weft_scope_close(NULL);
    weft_nn_free(m);
}

CHECK_MAIN("nn_tools", CHECK_CASE(freezing_by_path_key_and_predicate),
           CHECK_CASE(names_match_as_a_whole), CHECK_CASE(linear_weights_fill_their_range),
           CHECK_CASE(applying_and_setting), CHECK_CASE(npz_files_are_written_and_read),
           CHECK_CASE(gradients_of_trainable_parameters),
           CHECK_CASE(quantized_layers_use_the_stored_values),
           CHECK_CASE(quantizing_selects_layers), CHECK_CASE(quantized_trees_stay_quantized),
           CHECK_CASE(quantized_trees_in_other_forms), CHECK_CASE(wrong_parts_are_reported))
