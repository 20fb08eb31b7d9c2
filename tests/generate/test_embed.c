/* tests/generate/test_embed.c -- weft_embed against transformers' hidden states pooled in float64
 * (tests/golden/generate/embed.py), and prompts in batches and pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/io.h"

enum { LONG = 40, SHORT = 7 };

static const char *const families[] = {"llama", "qwen3", "gemma3", "gemma2"};
enum { N_FAMILIES = sizeof families / sizeof *families };
static const char *const poolings[] = {"mean", "last", "cls"};

/* The expected (2, E) of a family. */
static weft_array *expected(weft_safetensors *golden, const char *family, int pooling,
                            bool normalize)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s%s", family, poolings[pooling],
             normalize ? "/normalized" : "");
    return weft_safetensors_get(golden, name);
}

static void compare(weft_model *model, const weft_prompt prompts[2], const weft_embed_options *o,
                    weft_array *golden, double tolerance)
{
    const int64_t E = weft_model_info_of(model)->hidden_size;
    weft_embedded results[2];
    double *numbers = weft_malloc((size_t)(2 * E) * sizeof *numbers);
    CHECK_OK(weft_embed(model, prompts, 2, o, results));
    if (CHECK_EQ_INT(weft_size(golden), 2 * E) &&
        CHECK_OK(weft_read(golden, WEFT_FLOAT64, numbers, 2 * E))) {
        for (int i = 0; i < 2; i++) {
            double worst = 0;
            if (!CHECK_OK(results[i].status) || !CHECK(results[i].values != NULL))
                continue;
            for (int64_t e = 0; e < E; e++)
                worst = fmax(worst, fabs((double)results[i].values[e] - numbers[i * E + e]));
            CHECK_CLOSE(worst, 0, tolerance);
        }
    }
    weft_embedded_free(results, 2);
    weft_free(numbers);
}

/* Each pooling, in one batch, one by one, and a prompt in pieces of 16 tokens. */
static void embeddings_are_the_reference(void)
{
    static const weft_batch_options batches[] = {{0}, {.invariant = true}, {.tokens = 16}};
    weft_safetensors *golden = NULL;
    if (!CHECK_OK(weft_safetensors_open(check_fixture("generate/embed.safetensors"), &golden)))
        return;
    for (int f = 0; f < N_FAMILIES; f++) {
        char name[64];
        int32_t ids[2 * LONG];
        weft_model *model = fixture_model(families[f]);
        weft_scope_open();
        snprintf(name, sizeof name, "%s/ids", families[f]);
        if (model != NULL &&
            CHECK_OK(weft_read(weft_safetensors_get(golden, name), WEFT_INT32, ids, 2 * LONG))) {
            const weft_prompt prompts[] = {{ids, LONG}, {ids + LONG, SHORT}};
            for (int i = 0; i < 3 * 3 * 2; i++) {
                const weft_embed_options o = {.pooling = (weft_pooling)(i % 3),
                                              .normalize = i / 9,
                                              .batch = batches[i / 3 % 3]};
                weft_array *x = expected(golden, families[f], o.pooling, o.normalize);
                compare(model, prompts, &o, x, o.normalize ? 2e-6 : 2e-5);
            }
        }
        weft_scope_close(NULL);
        weft_model_free(model);
    }
    weft_safetensors_close(golden);
}

static void bad_prompts_fail_alone(void)
{
    weft_model *model = fixture_model("llama");
    if (model == NULL)
        return;
    const int32_t ids[] = {3, 4, 5}, wrong[] = {3, 1 << 20};
    const weft_prompt prompts[] = {{ids, 0}, {ids, 3}, {wrong, 2}};
    weft_embedded results[3];
    CHECK_OK(weft_embed(model, prompts, 3, NULL, results));
    CHECK_STATUS(results[0].status, WEFT_INVALID);
    CHECK_CONTAINS(results[0].message, "no tokens");
    CHECK_OK(results[1].status);
    CHECK(results[1].values != NULL && results[1].message == NULL);
    CHECK_STATUS(results[2].status, WEFT_INVALID);
    CHECK_CONTAINS(results[2].message, "prompt id 1");
    CHECK(results[2].values == NULL);
    weft_embedded_free(results, 3);
    CHECK_STATUS(
        weft_embed(model, prompts, 3, &(weft_embed_options){.pooling = (weft_pooling)4}, results),
        WEFT_INVALID);
    CHECK_STATUS(weft_embed(model, prompts, 3, &(weft_embed_options){.batch.tokens = -1}, results),
                 WEFT_INVALID);
    CHECK_OK(weft_embed(model, prompts, 0, NULL, results));
    weft_model_free(model);
}

/* Hidden states of NaN are a failure of their prompt; the others' embeddings stay. */
static void vectors_that_are_not_finite_are_a_failure(void)
{
    weft_model *model = fixture_model("llama");
    if (model == NULL)
        return;
    const int64_t E = weft_model_info_of(model)->hidden_size;
    weft_array **slot = weft_nn_find(weft_model_module(model), "model.embed_tokens.weight");
    weft_scope_open();
    if (CHECK(slot != NULL)) {
        float *row = weft_malloc((size_t)E * sizeof *row);
        for (int64_t e = 0; e < E; e++)
            row[e] = NAN;
        weft_array *table =
            weft_concatenate((weft_array *[]){weft_slice_axis(*slot, 0, 0, 5),
                                              weft_from_data(row, WEFT_FLOAT32, WEFT_DIMS(1, E)),
                                              weft_slice_axis(*slot, 0, 6, weft_dim(*slot, 0))},
                             3, 0);
        weft_free(row);
        CHECK_OK(weft_set(slot, table));
    }
    weft_scope_close(NULL);
    const int32_t ids[] = {3, 4, 5};
    const weft_prompt prompts[] = {{ids, 3}, {ids, 2}};
    weft_embedded results[2];
    CHECK_OK(weft_embed(model, prompts, 2, NULL, results));
    CHECK_STATUS(results[0].status, WEFT_INVALID);
    CHECK_CONTAINS(results[0].message, "NaN");
    CHECK_OK(results[1].status);
    weft_embedded_free(results, 2);
    weft_model_free(model);
}

CHECK_MAIN("embed", CHECK_CASE(embeddings_are_the_reference), CHECK_CASE(bad_prompts_fail_alone),
           CHECK_CASE(vectors_that_are_not_finite_are_a_failure))
