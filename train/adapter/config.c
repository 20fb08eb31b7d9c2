/* train/adapter/config.c -- reads PEFT's adapter_config.json. */
#include <math.h>
#include <string.h>

#include <json-c/json_object_iterator.h>

#include "core/failure.h"
#include "train/adapter/adapter.h"

/* Fields that are read below, and fields that do not change the result. Any other field must be
 * null, false, empty or 0, since it would change the adapter in a way that LoRA does not cover. */
static const char *const harmless[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "target_parameters",
    "task_type",
    "trainable_token_indices",
    "use_dora",
    "use_rslora",
};

/* Initializations that leave the base weights unchanged. The others (PiSSA, OLoRA, ...) change
 * them, so their adapters cannot be used with the original base. */
static const char *const plain_starts[] = {"gaussian", "eva", "orthogonal"};

static bool is_among(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, list[i]) == 0)
            return true;
    }
    return false;
}

static bool is_trivial(const json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return true;
    case json_type_boolean:
        return !json_object_get_boolean(value);
    case json_type_int:
    case json_type_double:
        return json_object_get_double(value) == 0;
    case json_type_string:
        return json_object_get_string_len(value) == 0;
    case json_type_array:
        return json_object_array_length(value) == 0;
    case json_type_object:
        return json_object_object_length(value) == 0;
    }
    return false;
}

static weft_status refuse(const weft__json *root, const char *field)
{
    weft__json at;
    const weft_status status = weft__json_find(root, field, &at);
    if (status != WEFT_OK)
        return status;
    return weft__json_fail(&at, WEFT_UNSUPPORTED, "unsupported: only LoRA and DoRA adapters load");
}

/* "bias" may only be "none"; any other value is refused. */
static bool is_known(const char *field, const json_object *value)
{
    if (is_among(field, harmless, sizeof harmless / sizeof *harmless) || is_trivial(value))
        return true;
    const char *text = weft__json_plain(value);
    return strcmp(field, "bias") == 0 && text && strcmp(text, "none") == 0;
}

static weft_status check_fields(const weft__json *root)
{
    struct json_object_iterator at = json_object_iter_begin(root->value);
    const struct json_object_iterator end = json_object_iter_end(root->value);
    for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
        const char *field = json_object_iter_peek_name(&at);
        if (!is_known(field, json_object_iter_peek_value(&at)))
            return refuse(root, field);
    }
    return WEFT_OK;
}

static weft_status check_kind(const weft__json *root)
{
    const char *kind = NULL;
    const weft_status status = weft__json_find_string(root, "peft_type", &kind);
    if (status != WEFT_OK)
        return status;
    if (kind == NULL)
        return weft__json_fail(root, WEFT_UNSUPPORTED,
                               "no peft_type: expected an adapter in PEFT's format");
    if (strcmp(kind, "LORA") != 0)
        return weft__json_fail(root, WEFT_UNSUPPORTED, "peft_type: expected LORA, got %s", kind);
    return WEFT_OK;
}

static weft_status check_start(const weft__json *root)
{
    weft__json at;
    weft_status status = weft__json_find(root, "init_lora_weights", &at);
    if (status != WEFT_OK || at.value == NULL || json_object_is_type(at.value, json_type_boolean))
        return status;
    const char *name = NULL;
    status = weft__json_as_string(&at, &name, NULL);
    if (status != WEFT_OK)
        return status;
    if (is_among(name, plain_starts, sizeof plain_starts / sizeof *plain_starts))
        return WEFT_OK;
    return weft__json_fail(&at, WEFT_UNSUPPORTED,
                           "unsupported: '%s' changes the base model that the adapter goes with",
                           weft_printable(name));
}

static weft_status read_numbers(const weft__json *root, weft__adapter_config *c)
{
    weft_status status = weft__json_get_int(root, "r", &c->rank);
    if (status == WEFT_OK)
        status = weft__json_get_number(root, "lora_alpha", &c->alpha);
    if (status == WEFT_OK)
        status = weft__json_find_number(root, "lora_dropout", &c->dropout);
    if (status == WEFT_OK)
        status = weft__json_find_bool(root, "use_rslora", &c->rslora);
    if (status == WEFT_OK)
        status = weft__json_find_bool(root, "use_dora", &c->dora);
    if (status == WEFT_OK)
        status = weft__json_find_bool(root, "ensure_weight_tying", &c->tying);
    if (status != WEFT_OK)
        return status;
    if (c->rank < 1 || c->rank > WEFT__MOST_RANK)
        return weft__json_fail(root, WEFT_INVALID, "r: expected 1 to %d, got %lld", WEFT__MOST_RANK,
                               (long long)c->rank);
    if (c->alpha == 0 || !isfinite(c->alpha))
        return weft__json_fail(root, WEFT_INVALID, "lora_alpha: expected a number other than 0");
    if (!(c->dropout >= 0 && c->dropout < 1))
        return weft__json_fail(root, WEFT_INVALID, "lora_dropout: expected [0, 1), got %g",
                               c->dropout);
    return WEFT_OK;
}

/* Checks that every element has the type. */
static weft_status check_list(const weft__json *list, json_type type)
{
    size_t n;
    weft_status status = weft__json_length(list, &n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json at;
        int64_t number;
        const char *text;
        status = weft__json_at(list, i, &at);
        if (status == WEFT_OK)
            status = type == json_type_int ? weft__json_as_int(&at, &number)
                                           : weft__json_as_string(&at, &text, NULL);
    }
    return status;
}

static weft_status read_targets(const weft__json *root, weft__adapter_config *c)
{
    weft_status status = weft__json_find(root, "target_modules", &c->targets);
    if (status != WEFT_OK)
        return status;
    if (c->targets.value && json_object_is_type(c->targets.value, json_type_string)) {
        const char *text = NULL;
        status = weft__json_as_string(&c->targets, &text, NULL);
        c->all_linear = text && strcmp(text, WEFT_LORA_ALL_LINEAR) == 0;
        c->by_tensors = !c->all_linear;
    } else if (c->targets.value) {
        status = check_list(&c->targets, json_type_string);
    }
    if (status == WEFT_OK)
        status = weft__json_find(root, "exclude_modules", &c->exclude);
    if (status == WEFT_OK && c->exclude.value)
        status = json_object_is_type(c->exclude.value, json_type_string)
                     ? weft__adapter_regex_fits(&c->exclude, "", &(bool){false})
                     : check_list(&c->exclude, json_type_string);
    if (status == WEFT_OK)
        status = weft__json_find(root, "layers_to_transform", &c->layers);
    if (status == WEFT_OK && c->layers.value &&
        !json_object_is_type(c->layers.value, json_type_int))
        status = check_list(&c->layers, json_type_int);
    return status;
}

static weft_status read_root(const weft__json *root, weft__adapter_config *c)
{
    weft_status status = weft__json_as_object(root);
    if (status == WEFT_OK)
        status = check_kind(root);
    if (status == WEFT_OK)
        status = check_fields(root);
    if (status == WEFT_OK)
        status = check_start(root);
    if (status == WEFT_OK)
        status = read_numbers(root, c);
    if (status == WEFT_OK)
        status = weft__adapter_pattern_read(root, "rank_pattern", true, &c->ranks);
    if (status == WEFT_OK)
        status = weft__adapter_pattern_read(root, "alpha_pattern", false, &c->alphas);
    if (status == WEFT_OK)
        status = weft__json_find(root, "modules_to_save", &c->whole);
    if (status == WEFT_OK && c->whole.value)
        status = check_list(&c->whole, json_type_string);
    if (status == WEFT_OK)
        status = weft__json_find(root, "target_parameters", &c->parameters);
    if (status == WEFT_OK && c->parameters.value)
        status = check_list(&c->parameters, json_type_string);
    if (status == WEFT_OK)
        status = weft__json_find(root, "trainable_token_indices", &c->tokens);
    return status == WEFT_OK ? read_targets(root, c) : status;
}

/* Takes ownership of the document, also on failure. */
static weft_status use_doc(weft__json_doc doc, weft__adapter_config *out)
{
    *out = (weft__adapter_config){.doc = doc, .naming = &weft__names_text};
    const weft__json root = weft__json_root(&out->doc);
    const weft_status status = read_root(&root, out);
    if (status != WEFT_OK)
        weft__adapter_config_free(out);
    return status;
}

weft_status weft__adapter_config_parse(const char *text, size_t length, const char *name,
                                       weft__adapter_config *out)
{
    weft__json_doc doc;
    *out = (weft__adapter_config){0};
    const weft_status status = weft__json_parse(text, length, name, &doc);
    return status == WEFT_OK ? use_doc(doc, out) : status;
}

weft_status weft__adapter_config_read(const char *folder, weft__adapter_config *out)
{
    weft__json_doc doc;
    *out = (weft__adapter_config){0};
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_CONFIG);
    if (path == NULL)
        return weft__out_of_memory(folder, "reading the adapter");
    const weft_status status = weft__json_read(path, &doc);
    weft_free(path);
    return status == WEFT_OK ? use_doc(doc, out) : status;
}

void weft__adapter_config_free(weft__adapter_config *config)
{
    weft__json_free(&config->doc);
    *config = (weft__adapter_config){0};
}

/* ---- choosing ------------------------------------------------------------------------------- */

static bool list_fits(const weft__json *list, const char *path)
{
    const size_t n = json_object_array_length(list->value);
    for (size_t i = 0; i < n; i++) {
        json_object *at = json_object_array_get_idx(list->value, i);
        if (weft__adapter_is_suffix(path, json_object_get_string(at)))
            return true;
    }
    return false;
}

bool weft__adapter_config_has(const weft__adapter_config *c, const char *parameter)
{
    char name[WEFT_NN_PATH];
    weft__name_in(c->naming, parameter, name, sizeof name);
    return c->parameters.value && list_fits(&c->parameters, name);
}

/* layers_to_transform is a list or a number. It excludes modules that are not in a layer. */
static bool layer_fits(const weft__json *layers, const char *path)
{
    const int64_t layer = weft__adapter_layer(path);
    if (json_object_is_type(layers->value, json_type_int))
        return json_object_get_int64(layers->value) == layer;
    const size_t n = json_object_array_length(layers->value);
    for (size_t i = 0; i < n; i++) {
        if (json_object_get_int64(json_object_array_get_idx(layers->value, i)) == layer)
            return true;
    }
    return n == 0;
}

static weft_status is_excluded(const weft__adapter_config *c, const char *path, bool *out)
{
    *out = false;
    if (c->exclude.value && json_object_is_type(c->exclude.value, json_type_string))
        return weft__adapter_regex_fits(&c->exclude, path, out);
    *out = c->exclude.value && list_fits(&c->exclude, path);
    return WEFT_OK;
}

static bool is_target(const weft__adapter_config *c, const char *path)
{
    if (c->all_linear)
        return !weft__adapter_is_suffix(path, "lm_head");
    if (c->layers.value && !layer_fits(&c->layers, path))
        return false;
    if (c->targets.value || c->parameters.value)
        return c->targets.value && list_fits(&c->targets, path);
    return weft__adapter_is_suffix(path, "q_proj") || weft__adapter_is_suffix(path, "v_proj");
}

weft_status weft__adapter_config_fits(const weft__adapter_config *c, const char *path, bool *out)
{
    char name[WEFT_NN_PATH];
    bool excluded;
    weft__name_in(c->naming, path, name, sizeof name);
    const weft_status status = is_excluded(c, name, &excluded);
    *out = status == WEFT_OK && !excluded && is_target(c, name);
    return status;
}
