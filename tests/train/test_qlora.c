/* tests/train/test_qlora.c -- adapters over weights of every encoding: losses and gradients against
 * the same model with decoded weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/nn_tools.h"
#include "weft/optim.h"
#include "weft/quantize.h"
#include "weft/train.h"
#include "weft/transforms.h"

/* DRAWN: different blocks of an encoding that has no encoder. STEPS: updates. N_SLOTS:
 * two factors of seven linears. */
enum { DRAWN = 64, STEPS = 3, N_SLOTS = 14, VOCABULARY = 64 };

/* A model of one layer. Its rows have 256 numbers, the largest block, except those of o_proj and
 * down_proj, which have 32. */
static weft_model *model_new(void)
{
    static const char text[] =
        "{\"model_type\": \"qwen3\", \"hidden_size\": 256, \"intermediate_size\": 32, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
        "\"head_dim\": 16, \"vocab_size\": 64, \"rms_norm_eps\": 1e-6, "
        "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true}";
    weft_config *config = NULL;
    weft_model *model = NULL;
    if (CHECK_OK(weft_config_parse(text, "tiny", &config)))
        CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    return model;
}

/* ---- encoded weights ------------------------------------------------------------------------ */

/* Draws random bytes until they are a block of finite elements of a weight's usual size. */
static void draw_block(const weft_encoding *e, uint32_t *state, uint8_t *block)
{
    float values[WEFT_MAX_BLOCK], largest;
    do {
        for (int64_t i = 0; i < e->block_bytes; i++) {
            *state = *state * 1664525u + 1013904223u;
            block[i] = (uint8_t)(*state >> 24);
        }
        e->decode(e, block, e->block, values);
        largest = 0;
        for (int64_t i = 0; i < e->block; i++)
            largest = fabsf(values[i]) <= largest ? largest : fabsf(values[i]); /* or NaN */
    } while (!(largest > 0x1p-5f && largest < 0x1p-3f));
}

static weft_array *drawn(const weft_encoding *e, weft_dims shape)
{
    const int64_t blocks = shape.at[0] * shape.at[1] / e->block;
    const size_t size = (size_t)e->block_bytes;
    uint8_t *some = malloc(DRAWN * size), *all = malloc((size_t)blocks * size);
    uint32_t state = 7;
    for (int i = 0; i < DRAWN; i++)
        draw_block(e, &state, some + (size_t)i * size);
    for (int64_t i = 0; i < blocks; i++) {
        state = state * 1664525u + 1013904223u;
        memcpy(all + (size_t)i * size, some + (state >> 16) % DRAWN * size, size);
    }
    free(some);
    weft_array *there = weft_from_blocks(all, e, WEFT_FLOAT32, shape, free, all);
    return weft_to(there, weft_default_device());
}

static weft_array *encoded(void *context, const weft_nn_item *item, weft_array *value)
{
    const weft_encoding *e = context;
    if (!strstr(item->path, "_proj.weight") || weft_dim(value, 1) % e->block != 0)
        return value;
    return e->encode ? weft_encode(value, e) : drawn(e, weft_shape(value));
}

static weft_array *decoded(void *context, const weft_nn_item *item, weft_array *value)
{
    (void)context;
    (void)item;
    return weft_decode(value);
}

static weft_array *narrowed(void *context, const weft_nn_item *item, weft_array *value)
{
    (void)context;
    return weft_encoding_of(value) || strstr(item->path, "lora_")
               ? value
               : weft_astype(value, WEFT_BFLOAT16);
}

/* ---- losses and gradients ------------------------------------------------------------------- */

/* Tokens of each of two samples: products of many rows and of few have different kernels. */
static const int64_t lengths[] = {40, 2};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

typedef struct run {
    weft_model *model;
    weft_nn_slots slots;
    weft_batch batch;
    weft_array *gradients[N_LENGTHS][N_SLOTS]; /* of the caller's scope */
    double losses[N_LENGTHS + STEPS];
} run;

/* Adapters without zero factors. */
static weft_array *filled(void *context, const weft_nn_item *item, weft_array *value)
{
    (void)context;
    return strstr(item->path, "lora_B")
               ? weft_random_normal(NULL, weft_shape(value), 0, 0.1, WEFT_FLOAT32)
               : value;
}

/* The base and its adapters. */
static bool make(run *r, const weft_encoding *e, bool decodes)
{
    static const char *const all = WEFT_LORA_ALL_LINEAR;
    const weft_nn_lora_options lora = {.targets = &all, .n_targets = 1, .rank = 4};
    weft_random_seed(5);
    r->model = model_new();
    weft_module *tree = r->model ? weft_model_module(r->model) : NULL;
    bool ok = tree && CHECK_OK(weft_nn_apply(tree, encoded, (void *)e, NULL)) &&
              (!decodes || CHECK_OK(weft_nn_apply(tree, decoded, NULL, NULL)));
    weft_array **weight = ok ? weft_nn_find(tree, "model.layers.0.mlp.up_proj.weight") : NULL;
    weft_random_seed(6);
    return weight && CHECK(weft_encoding_of(*weight) == (decodes ? NULL : e)) &&
           CHECK_OK(weft_nn_lora_inject(tree, &lora)) &&
           CHECK_OK(weft_nn_apply(tree, filled, NULL, NULL)) &&
           CHECK_OK(weft_nn_trainable(tree, &r->slots)) && CHECK_EQ_INT(r->slots.n, N_SLOTS);
}

static void set_batch(run *r, int64_t length)
{
    const weft_dims shape = WEFT_DIMS(2, length);
    weft_random_seed(7);
    r->batch = (weft_batch){.n_tokens = 2 * length, .n_targets = (double)(2 * length)};
    r->batch.tokens = weft_random_randint(NULL, shape, 0, VOCABULARY, WEFT_INT32);
    r->batch.targets = weft_random_randint(NULL, shape, 0, VOCABULARY, WEFT_INT32);
}

static weft_array *loss_of(void *context)
{
    run *r = context;
    return weft_next_token_loss(r->model, &r->batch, 1 / r->batch.n_targets, false);
}

static void differentiate(run *r, int k)
{
    set_batch(r, lengths[k]);
    weft_array *loss =
        weft_value_and_grad_slots(loss_of, r, r->slots.slots, r->slots.n, r->gradients[k]);
    CHECK_OK(weft_eval_n(r->gradients[k], r->slots.n));
    r->losses[k] = weft_item(loss);
}

static void train(run *r)
{
    const weft_trainer_options o = {.lr = 0.1, .optimizer = &weft_optim_sgd};
    weft_trainer *trainer = NULL;
    weft_train_report report = {0};
    set_batch(r, lengths[0]);
    CHECK_OK(weft_trainer_new(r->model, &o, &trainer));
    for (int s = 0; s < STEPS && trainer; s++) {
        CHECK_OK(weft_trainer_step(trainer, &r->batch, 1, 1, &report));
        r->losses[N_LENGTHS + s] = report.loss;
    }
    weft_trainer_free(trainer);
}

static double norm(weft_array *a)
{
    return sqrt(weft_item(weft_sum(weft_square(a), WEFT_ALL_AXES, false)));
}

/* The decoded elements are the same numbers in both models, and the CPU's kernels of many rows add
 * their products in the same order. Kernels of few rows apply the scale of a group to its sum, and
 * a device may choose another kernel for encoded weights. */
static void compare(const weft_encoding *e)
{
    run runs[2] = {{.model = NULL}};
    const bool on_cpu = weft_default_device() == weft_device_get("cpu");
    bool same = true;
    weft_scope_open();
    if (make(&runs[0], e, false) && make(&runs[1], e, true)) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < N_LENGTHS; k++)
                differentiate(&runs[i], k);
            train(&runs[i]);
        }
        for (int k = 0; k < N_LENGTHS + STEPS; k++)
            same &= CHECK_RELATIVE(runs[0].losses[k], runs[1].losses[k], 1e-6);
        for (int k = 0; k < N_LENGTHS * N_SLOTS; k++) {
            weft_array *own = runs[0].gradients[k / N_SLOTS][k % N_SLOTS];
            weft_array *other = runs[1].gradients[k / N_SLOTS][k % N_SLOTS];
            const double bound = on_cpu && k < N_SLOTS ? 1e-6 : 1e-5;
            same &= CHECK(norm(weft_subtract(own, other)) <= bound * norm(other));
        }
        CHECK(runs[0].losses[N_LENGTHS + STEPS - 1] < 0.95 * runs[0].losses[N_LENGTHS]);
        if (!same)
            CHECK_FAIL("%s", e->name);
    }
    for (int i = 0; i < 2; i++) {
        weft_nn_slots_free(&runs[i].slots);
        weft_model_free(runs[i].model);
    }
    weft_scope_close(NULL);
}

/* All encodings; with check_few() one of eight, since a software driver takes seconds to compile a
 * kernel. */
static bool is_tried(int i)
{
    return !check_few() || i % 8 == 0;
}

static void adapters_learn_over_every_encoding(void)
{
    for (int i = 0; weft_encoding_at(i); i++) {
        if (is_tried(i))
            compare(weft_encoding_at(i));
    }
}

/* In bfloat16 the products of an adapted layer are summed in float32: kernels multiply the encoded
 * weights for that, too. The reference decodes a block for every product, and takes hours on a
 * model. */
static void no_product_in_bfloat16_takes_the_reference(void)
{
    weft_device *device = weft_default_device();
    if (check_in_software() && !check_exhaustive()) {
        check_skip("kernels of so many formats take minutes in software");
        return;
    }
    for (int i = 0; weft_encoding_at(i); i++) {
        const weft_encoding *e = weft_encoding_at(i);
        run r = {.model = NULL};
        weft_scope_open();
        if (make(&r, e, false) &&
            CHECK_OK(weft_nn_apply(weft_model_module(r.model), narrowed, NULL, NULL))) {
            const int64_t before = weft_device_counts(device).references;
            for (int k = 0; k < N_LENGTHS; k++)
                differentiate(&r, k);
            check_that(weft_device_counts(device).references == before, __FILE__, __LINE__,
                       "%s: computed by the reference", e->name);
        }
        weft_nn_slots_free(&r.slots);
        weft_model_free(r.model);
        weft_scope_close(NULL);
    }
}

CHECK_MAIN("qlora", CHECK_CASE(no_product_in_bfloat16_takes_the_reference),
           CHECK_CASE(adapters_learn_over_every_encoding))
