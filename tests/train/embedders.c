/* tests/train/embedders.c -- models and examples of the tests of objectives that compare vectors.
 */
#include "tests/train/embedders.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

const golden embed_goldens[] = {
    {"ranking", "ranking", NULL, {.scale = 0}},
    {"negatives", "ranking", NULL, {.scale = 0}},
    {"equal", "ranking", NULL, {.scale = 0}},
    {"cached", "ranking", NULL, {.scale = 0}},
    {"triplet", "triplet", NULL, {.scale = 0}},
    {"cosent", "cosent", NULL, {.scale = 0}},
    {"cosine", "cosine", NULL, {.scale = 0}},
    {"dimensions", "ranking", NULL, {.dimensions = {.n = 3, .at = {32, 16, 8}}}},
    {"decoder", "ranking", "embedder-qwen3", {.scale = 0}},
};

bool read_golden(const char *name, numbers *out)
{
    char path[128];
    weft_safetensors *file;
    snprintf(path, sizeof path, "train/embed/%s.safetensors", name);
    if (!CHECK_OK(weft_safetensors_open(check_fixture(path), &file)))
        return false;
    weft_scope_open();
    weft_array *ids = weft_safetensors_get(file, "ids"); /* (STEPS, rows, length) */
    weft_array *lengths = weft_safetensors_get(file, "lengths");
    out->texts = (int)weft_dim(ids, 1) / EXAMPLES;
    out->length = weft_dim(ids, 2);
    bool good =
        CHECK(out->texts <= MOST_TEXTS && out->length <= MOST_LENGTH) &&
        CHECK_OK(weft_read(ids, WEFT_INT32, out->ids, weft_size(ids))) &&
        CHECK_OK(weft_read(lengths, WEFT_INT32, out->lengths, weft_size(lengths))) &&
        CHECK_OK(weft_read(weft_safetensors_get(file, "loss"), WEFT_FLOAT64, out->loss, STEPS)) &&
        CHECK_OK(
            weft_read(weft_safetensors_get(file, "grad_norm"), WEFT_FLOAT64, out->norm, STEPS));
    out->scored = weft_safetensors_find(file, "scores") >= 0;
    if (good && out->scored)
        good = CHECK_OK(weft_read(weft_safetensors_get(file, "scores"), WEFT_FLOAT32, out->scores,
                                  STEPS * EXAMPLES));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return good;
}

weft_status add_example(weft_dataset *d, const numbers *n, int64_t first, const float *score)
{
    int32_t ids[MOST_TEXTS][MOST_LENGTH + 1] = {{0}};
    float weights[MOST_TEXTS][MOST_LENGTH + 1] = {{0}};
    weft_sample texts[MOST_TEXTS];
    for (int k = 0; k < n->texts; k++) {
        const int64_t row = first + (int64_t)k * EXAMPLES;
        const int32_t length = n->lengths[row];
        memcpy(ids[k], n->ids + row * n->length, (size_t)length * sizeof(int32_t));
        weights[k][length] = 1;
        texts[k] = (weft_sample){ids[k], weights[k], length + 1, 0};
    }
    return weft_dataset_add_texts(d, texts, n->texts, score);
}

weft_dataset *dataset_of(const numbers *n, int step)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(0, &d));
    for (int64_t e = 0; d && e < EXAMPLES; e++)
        CHECK_OK(add_example(d, n, (int64_t)step * n->texts * EXAMPLES + e,
                             n->scored ? &n->scores[step * EXAMPLES + e] : NULL));
    return d;
}

bool open_model(setting *s)
{
    char path[128];
    snprintf(path, sizeof path, "models/%s", s->g->model ? s->g->model : "bert");
    if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &s->model)) ||
        !CHECK_OK(weft_embed_settings_load(check_fixture(path), NULL, &s->embed)))
        return false;
    weft_module *tree = weft_model_module(s->model);
    if (!s->adapter) {
        weft_nn_unfreeze(tree);
        return true;
    }
    weft_random_seed(5);
    return CHECK_OK(weft_nn_lora_inject(
        tree, &(weft_nn_lora_options){.rank = 4,
                                      .alpha = 8,
                                      .dropout = 0.3,
                                      .targets = (const char *[]){WEFT_LORA_ALL_LINEAR},
                                      .n_targets = 1}));
}

weft_status open_trainer(setting *s, weft_group *group)
{
    weft_trainer_options o = {.objective = weft_objective_named(s->g->objective),
                              .objective_options = s->g->options,
                              .micro_batch = s->micro,
                              .group = group,
                              .lr = 1e-3,
                              .weight_decay = 0.01};
    o.objective_options.embed = &s->embed;
    return weft_trainer_new(s->model, &o, &s->trainer);
}

bool open_setting(const golden *g, int64_t micro, bool adapter, setting *s)
{
    *s = (setting){.g = g, .micro = micro, .adapter = adapter};
    return open_model(s) && CHECK_OK(open_trainer(s, NULL));
}

void close_setting(setting *s)
{
    weft_trainer_free(s->trainer);
    weft_embed_settings_free(&s->embed);
    weft_model_free(s->model);
}

weft_status update(setting *s, const weft_dataset *data, weft_train_report *report)
{
    weft_batches *batches = NULL;
    weft_batch batch[EXAMPLES] = {{0}};
    int n = 0;
    weft_status status = weft_batches_new(data, s->size ? s->size : EXAMPLES, 0, &batches);
    for (; status == WEFT_OK && n < weft_batches_count(batches); n++)
        status = weft_batches_at(batches, n, &batch[n]);
    if (status == WEFT_OK)
        status = weft_trainer_step(s->trainer, batch, n, 1, report);
    for (int i = 0; i < n; i++)
        weft_batch_free(&batch[i]);
    weft_batches_free(batches);
    return status;
}
