/* tests/nn/test_lora_change.c -- what adapters change, against PEFT
 * (tests/golden/inspect/README.md). */
#include <math.h>
#include <stdio.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/adapter.h"

static double number(json_object *of, const char *key)
{
    return json_object_get_double(json_object_object_get(of, key));
}

/* The largest difference, relative to the reference's norm. */
static double change_gap(json_object *expected, const weft_nn_lora_change *c)
{
    json_object *singular = json_object_object_get(expected, "singular");
    const double norm = number(expected, "norm"), weight = number(expected, "weight_norm");
    double gap = fmax(fabs(c->norm - norm) / norm, fabs(c->weight_norm - weight) / weight);
    CHECK_EQ_INT(c->rank, json_object_get_int64(json_object_object_get(expected, "rank")));
    CHECK_EQ_INT(c->n * c->rank, (int64_t)json_object_array_length(singular));
    for (size_t i = 0; i < (size_t)(c->n * c->rank); i++) {
        const double s = json_object_get_double(json_object_array_get_idx(singular, i));
        gap = fmax(gap, fabs(c->singular[i] - s) / norm);
    }
    return fmax(gap,
                fabs(c->effective_rank - number(expected, "effective_rank")) / (double)c->rank);
}

static weft_nn_lora_change *changes_of(const char *base, const char *adapter, size_t *n)
{
    char path[256];
    weft_nn_lora_change *changes = NULL;
    weft_model *model = fixture_model(base);
    snprintf(path, sizeof path, "lora/%s/final", adapter);
    if (CHECK(model != NULL) && CHECK_OK(weft_adapter_load(model, check_fixture(path), NULL)))
        CHECK_OK(weft_nn_lora_changes(weft_model_module(model), &changes, n));
    weft_model_free(model);
    return changes;
}

static void changes_are_those_of_peft(void)
{
    static const struct {
        const char *adapter, *base;
        int n;
    } all[] = {{"lora-qwen3", "qwen3", 14},          {"lora-qwen3-rs", "qwen3", 6},
               {"lora-qwen3-dora", "qwen3", 6},      {"lora-qwen3-patterns", "qwen3", 6},
               {"lora-qwen3-pissa", "qwen3", 6},     {"lora-gemma2", "gemma2", 12},
               {"lora-llama-embeddings", "llama", 4}};
    json_object *golden = json_object_from_file(check_fixture("inspect/changes.json"));
    if (!CHECK(golden != NULL))
        return;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        json_object *adapter = json_object_object_get(golden, all[k].adapter);
        size_t n = 0;
        double most = 0;
        weft_nn_lora_change *changes = changes_of(all[k].base, all[k].adapter, &n);
        CHECK_EQ_INT(n, all[k].n);
        for (size_t i = 0; i < n; i++) {
            json_object *expected = json_object_object_get(adapter, changes[i].path);
            if (CHECK(expected != NULL))
                most = fmax(most, change_gap(expected, &changes[i]));
        }
        printf("  %s: %.3g\n", all[k].adapter, most);
        CHECK_CLOSE(most, 0, 2e-7);
        weft_nn_lora_changes_free(changes, n);
    }
    json_object_put(golden);
}

/* PEFT has one matrix for an expert's gate and up projection. */
static void changes_of_experts_are_those_of_peft(void)
{
    json_object *golden = json_object_from_file(check_fixture("inspect/changes.json"));
    json_object *adapter = json_object_object_get(golden, "lora-mixtral");
    json_object *expected =
        json_object_object_get(adapter, "model.layers.1.mlp.experts.gate_up_proj");
    size_t n = 0;
    weft_nn_lora_change *changes = changes_of("mixtral", "lora-mixtral", &n);
    if (CHECK_EQ_INT(n, 2) && CHECK(expected != NULL)) {
        const double norm = hypot(changes[0].norm, changes[1].norm);
        const double weight = hypot(changes[0].weight_norm, changes[1].weight_norm);
        CHECK_CLOSE(norm, number(expected, "norm"), 1e-5);
        CHECK_CLOSE(weight, number(expected, "weight_norm"), 1e-4);
        CHECK(changes[0].n > 1);
    }
    weft_nn_lora_changes_free(changes, n);
    json_object_put(golden);
}

/* A new adapter changes nothing, and a merged one is part of the weight. */
static void changes_of_other_adapters(void)
{
    weft_nn_lora_change *changes = NULL;
    size_t n = 0;
    weft_model *model = fixture_model("qwen3");
    if (model == NULL)
        return;
    CHECK_OK(weft_nn_lora_changes(weft_model_module(model), &changes, &n));
    CHECK_EQ_INT(n, 0);
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), NULL));
    CHECK_OK(weft_nn_lora_changes(weft_model_module(model), &changes, &n));
    CHECK_EQ_INT(n, 4);
    for (size_t i = 0; i < n; i++) {
        CHECK_CLOSE(changes[i].norm, 0, 0);
        CHECK_CLOSE(changes[i].effective_rank, 0, 0);
        CHECK_EQ_INT(changes[i].rank, 8);
    }
    weft_nn_lora_changes_free(changes, n);
    CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
    CHECK_STATUS(weft_nn_lora_changes(weft_model_module(model), &changes, &n), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "q_proj is merged");
    CHECK(changes == NULL);
    weft_model_free(model);
}

CHECK_MAIN("lora_change", CHECK_CASE(changes_are_those_of_peft),
           CHECK_CASE(changes_of_experts_are_those_of_peft), CHECK_CASE(changes_of_other_adapters))
