/* tests/models/test_narrow.c -- models in bfloat16 against transformers in bfloat16, whose routers
 * compute in float32 (tests/golden/models/narrow.py). Both are compared with float32. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/cache.h"
#include "weft/nn_tools.h"
#include "weft/ops.h"

enum { OFFSET = 8, LAYERS = 8 };

/* One of the models, in bfloat16, and a tensor of the file for it. */
typedef struct setup {
    weft_model *model;
    weft_safetensors *file;
    const char *name;
} setup;

static weft_array *expected(const setup *s, const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", s->name, what);
    return weft_safetensors_get(s->file, name);
}

static weft_status shift(void *context, const weft_nn_item *item)
{
    (void)context;
    weft_array **slot = item->slot->address;
    if (strstr(item->path, "e_score_correction_bias") == NULL)
        return WEFT_OK;
    weft_scope_open();
    const weft_status status = weft_set(slot, weft_add_scalar(*slot, OFFSET));
    weft_scope_close(NULL);
    return status;
}

static bool open_model(const char *name, setup *s)
{
    char path[256];
    snprintf(path, sizeof path, "models/%s", name);
    *s = (setup){.name = name};
    if (!CHECK_OK(weft_safetensors_open(check_fixture("models/narrow.safetensors"), &s->file)) ||
        !CHECK_OK(weft_model_load(check_fixture(path), NULL, &s->model)))
        return false;
    weft_module *module = weft_model_module(s->model);
    return CHECK_OK(weft_nn_visit(module, shift, NULL)) &&
           CHECK_OK(weft_nn_cast(module, WEFT_BFLOAT16));
}

static void close_model(setup *s)
{
    weft_model_free(s->model);
    weft_safetensors_close(s->file);
}

static double mean_apart(weft_array *a, weft_array *b)
{
    a = weft_abs(weft_subtract(weft_astype(a, WEFT_FLOAT32), weft_astype(b, WEFT_FLOAT32)));
    return weft_item(weft_mean(a, WEFT_ALL_AXES, false));
}

/* The share of the experts (T, k) that transformers does not choose, whatever their order. */
static double other_experts(weft_array *ids, weft_array *of_transformers)
{
    weft_array *both = weft_equal(weft_expand_dims(ids, 2), weft_expand_dims(of_transformers, 1));
    both = weft_any(both, WEFT_DIMS(2), false); /* (T, k) */
    return 1 - weft_item(weft_mean(weft_astype(both, WEFT_FLOAT32), WEFT_ALL_AXES, false));
}

/* In bfloat16 the biases, which are near 8, would be multiples of 1/16, and 2 to 5% of the experts
 * others. Some scores are so close that other roundings before them decide; one such token
 * moves the mean by up to a third. */
static void routers_choose_as_in_transformers(void)
{
    static const char *const names[] = {"glm4-moe-lite", "glm4-moe-lite-groups", "nemotron-h",
                                        "nemotron-h-latent"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setup s;
        weft_layer_summary layers[LAYERS] = {{0}};
        if (open_model(names[i], &s)) {
            weft_scope_open();
            const weft_model_call call = {.summaries = layers};
            weft_array *logits = weft_model_forward(s.model, expected(&s, "ids"), &call);
            weft_array *wide = expected(&s, "wide"), *experts = expected(&s, "experts");
            const double own = mean_apart(logits, wide),
                         theirs = mean_apart(expected(&s, "logits"), wide);
            double other = 0;
            int n = 0;
            for (int l = 0; l < weft_model_info_of(s.model)->n_layers; l++) {
                if (layers[l].experts == NULL)
                    continue;
                weft_array *at = weft_squeeze(weft_slice_axis(experts, 0, n, n + 1), 0);
                other += other_experts(layers[l].experts, at);
                n++;
            }
            CHECK_EQ_INT(n, weft_dim(experts, 0));
            printf("  %s: from float32 %.3g (transformers %.3g), other experts %.3g\n", names[i],
                   own, theirs, other / n);
            CHECK(own < 1.35 * theirs);
            CHECK_CLOSE(other / n, 0, 0.02);
            weft_scope_close(NULL);
        }
        for (int l = 0; l < LAYERS; l++) {
            weft_drop(layers[l].rms);
            weft_drop(layers[l].experts);
            weft_drop(layers[l].weights);
        }
        close_model(&s);
    }
}

/* Casts and loading in 16 bits keep the dtype of routers' parameters in the file. */
static void routers_stay_in_float32(void)
{
    static const char *const paths[] = {"model.layers.1.mlp.gate.weight",
                                        "model.layers.1.mlp.gate.e_score_correction_bias"};
    const weft_model_options narrow = {.dtype = WEFT_BFLOAT16};
    weft_model *model = NULL;
    if (!CHECK_OK(weft_model_load(check_fixture("models/glm4-moe-lite"), &narrow, &model)))
        return;
    weft_module *module = weft_model_module(model);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 2; i++)
            CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(module, paths[i])), WEFT_FLOAT32);
        CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(module, "model.norm.weight")),
                     pass == 0 ? WEFT_BFLOAT16 : WEFT_FLOAT16);
        CHECK_OK(weft_nn_cast(module, WEFT_FLOAT16));
    }
    CHECK_OK(weft_nn_cast(module, WEFT_FLOAT64));
    CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(module, paths[0])), WEFT_FLOAT64);
    weft_model_free(model);
}

/* Decoding one token at a time, which multiplies queries by kv_b_proj: as near to float32 as
 * transformers, which computes keys and values. */
static void latents_are_absorbed_in_16_bits(void)
{
    static const char *const names[] = {"glm4-moe-lite", "minicpm3"};
    enum { START = 8, END = 36 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setup s;
        if (open_model(names[i], &s)) {
            weft_cache **caches = weft_model_new_caches(s.model, NULL);
            weft_array *parts[END];
            int n = 0;
            weft_scope_open();
            const weft_model_call call = {.caches = caches};
            weft_array *ids = expected(&s, "ids");
            for (int64_t at = 0; at < END; at = at == 0 ? START : at + 1) {
                weft_array *piece = weft_slice_axis(ids, 1, at, at == 0 ? START : at + 1);
                parts[n] = weft_model_forward(s.model, piece, &call);
                CHECK_OK(weft_eval(parts[n++]));
            }
            weft_array *wide = weft_slice_axis(expected(&s, "wide"), 1, 0, END),
                       *theirs = weft_slice_axis(expected(&s, "logits"), 1, 0, END);
            const double own = mean_apart(weft_concatenate(parts, n, 1), wide),
                         other = mean_apart(theirs, wide);
            printf("  %s: from float32 %.3g (transformers %.3g)\n", names[i], own, other);
            CHECK(own < 1.25 * other);
            weft_scope_close(NULL);
            weft_model_free_caches(s.model, caches);
        }
        close_model(&s);
    }
}

CHECK_MAIN("narrow", CHECK_CASE(routers_choose_as_in_transformers),
           CHECK_CASE(routers_stay_in_float32), CHECK_CASE(latents_are_absorbed_in_16_bits))
