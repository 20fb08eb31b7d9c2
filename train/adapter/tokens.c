/* train/adapter/tokens.c -- rows of trained tokens in PEFT's format: trainable_token_indices. */
#include <stdio.h>
#include <string.h>

#include <json-c/json_object_iterator.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "models/weights.h"
#include "nn/tokens.h"
#include "train/adapter/adapter.h"

/* ---- from a tree ---------------------------------------------------------------------------- */

typedef struct writing {
    weft__text *out;
    int n; /* modules written so far */
} writing;

static weft_status write_module(void *context, const char *path, weft_module **field)
{
    writing *w = context;
    const weft_nn_tokens *m = (const weft_nn_tokens *)*field;
    if (!weft__is_tokens(*field) || weft__tokens_rows(m) != m->trainable_tokens_delta ||
        weft__nn_slot(*field, "trainable_tokens_delta")->kind == WEFT_SLOT_TIED)
        return WEFT_OK;
    const char *dot = strrchr(path, '.');
    const int64_t n = weft_size(m->token_ids);
    int32_t *ids = weft_malloc((size_t)n * sizeof *ids);
    weft_status status = ids ? weft_read(m->token_ids, WEFT_INT32, ids, n)
                             : weft__out_of_memory("adapter", "a list of tokens");
    weft__text_format(w->out, "%s    ", w->n++ == 0 ? "  \"trainable_token_indices\": {\n" : ",\n");
    weft__text_quote(w->out, dot ? dot + 1 : path);
    for (int64_t i = 0; status == WEFT_OK && i < n; i++)
        weft__text_format(w->out, "%s%d", i == 0 ? ": [" : ", ", (int)ids[i]);
    weft__text_format(w->out, "]");
    weft_free(ids);
    return status;
}

weft_status weft__adapter_write_tokens(weft_module *tree, weft__text *out)
{
    writing w = {.out = out};
    const weft_status status = weft_nn_visit_modules(tree, write_module, &w);
    if (w.n > 0)
        weft__text_format(out, "\n  },\n");
    return status;
}

/* ---- into a tree ---------------------------------------------------------------------------- */

static weft_status train_list(weft_module *tree, const char *module, const weft__json *list)
{
    char path[WEFT_NN_PATH];
    size_t n = 0;
    if (weft__naming_of(module) != &weft__names_text) {
        weft__name_path(module, path, sizeof path);
        module = path;
    }
    weft_status status = weft__json_length(list, &n);
    int32_t *ids = weft_malloc((n + 1) * sizeof *ids);
    if (status == WEFT_OK && ids == NULL)
        status = weft__out_of_memory("adapter", "a list of tokens");
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json at;
        int64_t id = 0;
        status = weft__json_at(list, i, &at);
        if (status == WEFT_OK)
            status = weft__json_as_int(&at, &id);
        if (status == WEFT_OK && (id < 0 || id > INT32_MAX))
            status =
                weft__json_fail(&at, WEFT_INVALID, "expected a token id, got %lld", (long long)id);
        if (status == WEFT_OK)
            ids[i] = (int32_t)id;
    }
    if (status == WEFT_OK)
        status = weft__tokens_put(tree, module, ids, (int)n);
    weft_free(ids);
    return status;
}

weft_status weft__adapter_train_tokens(weft_module *tree, const weft__adapter_config *config)
{
    const weft__json *tokens = &config->tokens;
    if (tokens->value == NULL)
        return WEFT_OK;
    if (json_object_is_type(tokens->value, json_type_array))
        return train_list(tree, "embed_tokens", tokens);
    weft_status status = weft__json_as_object(tokens);
    if (status != WEFT_OK)
        return status;
    struct json_object_iterator at = json_object_iter_begin(tokens->value);
    const struct json_object_iterator end = json_object_iter_end(tokens->value);
    for (; status == WEFT_OK && !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
        weft__json list;
        const char *module = json_object_iter_peek_name(&at);
        status = weft__json_find(tokens, module, &list);
        if (status == WEFT_OK)
            status = train_list(tree, module, &list);
    }
    return status;
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

static weft_status count_tokens(void *context, const char *path, weft_module **field)
{
    int64_t *most = context;
    const bool fits = weft__is_tokens(*field) || weft__adapter_is_suffix(path, "embed_tokens");
    if (!fits || weft_nn_find(*field, "weight") == NULL)
        return WEFT_OK;
    const int64_t n = weft__tokens_count(*field);
    *most = n > *most ? n : *most;
    return WEFT_OK;
}

void weft__adapter_count_tokens(weft_model *model)
{
    int64_t most = 0;
    (void)weft_nn_visit_modules(weft_model_module(model), count_tokens, &most); /* always WEFT_OK */
    if (most > 0)
        weft__model_set_vocabulary(model, most);
}

weft_status weft_adapter_add_tokens(weft_model *model, const int32_t *tokens, int n, int64_t known)
{
    weft_module *tree = weft_model_module(model);
    weft_status status = weft_nn_tokens_add(tree, "embed_tokens", tokens, n, known);
    const weft_model_info *info = weft_model_info_of(model);
    if (status == WEFT_OK && !info->tied && info->n_labels == 0)
        status = weft_nn_tokens_add(tree, "lm_head", tokens, n, known);
    if (status == WEFT_OK)
        weft__adapter_count_tokens(model);
    return status;
}

bool weft__adapter_tokens_path(const char *name, char *out, size_t size)
{
    const size_t start = strlen(WEFT__ADAPTER_PREFIX), m = strlen(WEFT__ADAPTER_TOKENS);
    const size_t n = strlen(name);
    if (n <= start + m || strncmp(name, WEFT__ADAPTER_PREFIX, start) != 0 ||
        strcmp(name + n - m, WEFT__ADAPTER_TOKENS) != 0)
        return false;
    snprintf(out, size, "%.*s%s", (int)(n - m - start), name + start,
             strrchr(WEFT__ADAPTER_TOKENS, '.'));
    return true;
}
