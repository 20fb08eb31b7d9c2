/* train/adapter/load.c -- loads a PEFT adapter into a model. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/lora.h"
#include "train/adapter/copies.h"
#include "train/adapter/experts.h"
#include "train/adapter/list.h"
#include "weft/nn_tools.h"

/* Maps "base_model.model.P.lora_A.weight" to the parameter P.lora_A,
 * "base_model.model.P.lora_magnitude_vector" to P.lora_magnitude_vector and, if P is trained in
 * full, "base_model.model.P.weight" to P.weight. Drops copies of weights. Keeps any other name,
 * which is then reported as unexpected. */
static bool path_of(void *context, const char *name, char *out, size_t size)
{
    const size_t start = strlen(WEFT__ADAPTER_PREFIX), n = strlen(name), end = strlen(".weight");
    const weft__copies *r = context;
    const bool framed = n > start + end && strncmp(name, WEFT__ADAPTER_PREFIX, start) == 0;
    const bool weight = framed && strcmp(name + n - end, ".weight") == 0;
    if (weft__adapter_is_base_copy(r, name, out, size) || weft__adapter_is_second_copy(r, name))
        return false;
    if (weft__adapter_tokens_path(name, out, size))
        return !weft__adapter_is_tied(r->tree, out);
    if (framed && weft__adapter_is_inside(r->whole, name + start)) {
        snprintf(out, size, "%s", name + start);
        return true;
    }
    if (framed)
        snprintf(out, size, "%.*s", (int)(n - start - (weight ? end : 0)), name + start);
    if (!framed || !weft__adapter_is_part(out))
        snprintf(out, size, "%s", name);
    return true;
}

/* Whether the file has lora_A or lora_B of the linear. */
static bool has_tensor(const weft_safetensors *file, const char *linear)
{
    static const char *const ends[] = {"lora_A.weight", "lora_B.weight", "lora_embedding_A",
                                       "lora_embedding_B"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[WEFT_NN_PATH + 64];
        snprintf(name, sizeof name, WEFT__ADAPTER_PREFIX "%s.%s", linear, ends[i]);
        if (weft_safetensors_find(file, name) >= 0)
            return true;
    }
    return false;
}

/* Whether target_parameters has the weight of the linear. */
static bool is_parameter(const weft__adapter_config *config, const char *linear)
{
    char name[WEFT_NN_PATH + 16];
    snprintf(name, sizeof name, "%s.weight", linear);
    return weft__adapter_config_has(config, name);
}

static weft_status choose_linears(weft_module *tree, const weft__adapter_config *config,
                                  const weft_safetensors *file, weft__names *chosen)
{
    weft__names linears = {0};
    weft_status status = weft__adapter_linears(tree, &linears, NULL);
    for (int i = 0; status == WEFT_OK && i < linears.n; i++) {
        const char *path = linears.at[i];
        const weft_module *m = weft_nn_find_module(tree, path);
        if (config->all_linear && m->type != &weft_nn_linear_type)
            continue;
        bool fits = is_parameter(config, path) || (config->by_tensors && has_tensor(file, path));
        if (!config->by_tensors && !fits)
            status = weft__adapter_config_fits(config, path, &fits);
        if (status == WEFT_OK && fits)
            status = weft__names_add(chosen, path);
    }
    weft__names_free(&linears);
    return status;
}

/* Checks that every target_parameter matches a parameter of experts or the weight of a linear. */
static weft_status check_parameters(const weft__adapter_config *config, const weft__names *all)
{
    const size_t n =
        config->parameters.value ? json_object_array_length(config->parameters.value) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *target =
            json_object_get_string(json_object_array_get_idx(config->parameters.value, i));
        bool fits = false;
        for (int k = 0; k < all->n; k++) {
            char name[WEFT_NN_PATH];
            weft__name_in(config->naming, all->at[k], name, sizeof name);
            fits = fits || weft__adapter_is_suffix(name, target);
        }
        if (!fits)
            return weft__json_fail(&config->parameters, WEFT_UNSUPPORTED,
                                   "'%s' fits no parameter of experts or linears in the model",
                                   weft_printable(target));
    }
    return WEFT_OK;
}

static weft_status add_weights(weft_module *tree, weft__names *out)
{
    weft__names linears = {0};
    weft_status status = weft__adapter_linears(tree, &linears, NULL);
    for (int i = 0; status == WEFT_OK && i < linears.n; i++) {
        char name[WEFT_NN_PATH + 16];
        snprintf(name, sizeof name, "%s.weight", linears.at[i]);
        status = weft__names_add(out, name);
    }
    weft__names_free(&linears);
    return status;
}

/* Adds the stacks that the configuration adapts to `chosen`; *out is their number. */
static weft_status choose_stacks(weft_module *tree, const weft__adapter_config *config,
                                 weft__names *chosen, int *out)
{
    weft__names stacks = {0}, parameters = {0}, none = {0};
    const int before = chosen->n;
    weft_status status = weft__adapter_stacks(tree, &stacks, NULL);
    if (status == WEFT_OK)
        status = weft__adapter_parameters(tree, &parameters, &none);
    if (status == WEFT_OK)
        status = add_weights(tree, &parameters);
    if (status == WEFT_OK)
        status = check_parameters(config, &parameters);
    for (int i = 0; status == WEFT_OK && i < stacks.n; i++) {
        char name[WEFT_NN_PATH];
        if (weft__nn_stack_name(stacks.at[i], true, name, sizeof name) &&
            weft__adapter_config_has(config, name))
            status = weft__names_add(chosen, stacks.at[i]);
    }
    *out = chosen->n - before;
    weft__names_free(&stacks);
    weft__names_free(&parameters);
    weft__names_free(&none);
    if (status == WEFT_OK && chosen->n == 0)
        status = weft_fail(WEFT_INVALID, "%s: its targets fit no linear or embedding of the model",
                           config->doc.name);
    return status;
}

typedef struct following {
    weft_module *tree;
    weft__names *modules;
} following;

/* Adds a module whose weight is that of one of the modules. */
static weft_status follow_tie(void *context, const char *path, weft_module **field)
{
    const following *f = context;
    const weft_slot *slot = weft__nn_slot(*field, "weight");
    if (slot == NULL || slot->kind != WEFT_SLOT_TIED || weft__names_have(f->modules, path))
        return WEFT_OK;
    for (int i = 0; i < f->modules->n; i++) {
        weft_module *m = weft_nn_find_module(f->tree, f->modules->at[i]);
        const weft_slot *owner = weft__nn_slot(m, "weight");
        if (owner && owner->address == slot->owner)
            return weft__names_add(f->modules, path);
    }
    return WEFT_OK;
}

static weft_status add_tied(weft_module *tree, weft__names *modules)
{
    return weft_nn_visit_modules(tree, follow_tie, &(following){tree, modules});
}

typedef struct search {
    const weft__json *list;
    const weft__naming *naming;
    weft__names *out;
} search;

/* Adds modules by suffix, as PEFT does. A suffix need not start at a dot. */
static weft_status choose_whole(void *context, const char *path, weft_module **field)
{
    const search *s = context;
    char module[WEFT_NN_PATH];
    weft__name_in(s->naming, path, module, sizeof module);
    const size_t n = strlen(module), count = json_object_array_length(s->list->value);
    for (size_t i = 0; (*field)->parent && i < count; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(s->list->value, i));
        const size_t m = strlen(name);
        if (m > 0 && n >= m && strcmp(module + n - m, name) == 0)
            return weft__names_add(s->out, path);
    }
    return WEFT_OK;
}

/* Resolves rank_pattern and alpha_pattern: one entry for each linear with a different rank or
 * alpha. */
static weft_status find_patterns(const weft__adapter_config *config, const weft__names *chosen,
                                 weft_nn_lora_pattern *out, int *n)
{
    weft_status status = WEFT_OK;
    *n = 0;
    for (int i = 0; status == WEFT_OK && i < chosen->n; i++) {
        double rank, alpha = 0;
        char parameter[WEFT_NN_PATH + 16], name[WEFT_NN_PATH + 16];
        if (!weft__nn_stack_name(chosen->at[i], true, parameter, WEFT_NN_PATH))
            snprintf(parameter, sizeof parameter, "%s%s", chosen->at[i],
                     is_parameter(config, chosen->at[i]) ? ".weight" : "");
        weft__name_in(config->naming, parameter, name, sizeof name);
        status = weft__adapter_pattern_find(&config->ranks, name, &rank);
        if (status == WEFT_OK)
            status = weft__adapter_pattern_find(&config->alphas, name, &alpha);
        if (rank != 0 || alpha != 0)
            out[(*n)++] = (weft_nn_lora_pattern){chosen->at[i], (int64_t)rank, alpha};
    }
    return status;
}

static weft_status inject_with(weft_module *tree, const weft__adapter_config *config,
                               const weft__names *chosen, const weft__names *whole,
                               const weft_nn_lora_pattern *patterns, int n_patterns,
                               const weft_adapter_options *options)
{
    const weft_nn_lora_options lora = {
        .rank = config->rank,
        .alpha = config->alpha,
        .rslora = config->rslora,
        .dora = config->dora,
        .dropout = config->dropout,
        .dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32,
        .targets = (const char *const *)chosen->at,
        .n_targets = chosen->n,
        .patterns = patterns,
        .n_patterns = n_patterns,
        .whole = (const char *const *)whole->at,
        .n_whole = whole->n,
    };
    return weft_nn_lora_inject(tree, &lora);
}

static weft_status inject(weft_module *tree, const weft__adapter_config *config,
                          const weft__names *chosen, const weft__names *whole,
                          const weft_adapter_options *options)
{
    int n = 0;
    weft_nn_lora_pattern *patterns = weft_calloc((size_t)chosen->n, sizeof *patterns);
    weft_status status = patterns ? find_patterns(config, chosen, patterns, &n)
                                  : weft__out_of_memory(config->doc.name, "its patterns");
    if (status == WEFT_OK)
        status = inject_with(tree, config, chosen, whole, patterns, n, options);
    weft_free(patterns);
    return status;
}

/* Loads the adapter's tensors. For experts they are converted from PEFT's layout first. */
static weft_status load_tensors(weft_module *tree, const weft_safetensors *file,
                                const weft__names *whole, int n_stacks,
                                const weft_adapter_options *options)
{
    weft__copies names = {tree, whole};
    weft_nn_load_options o = {
        .trainable_only = true,
        .dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32,
        .rename = path_of,
        .context = &names,
    };
    if (n_stacks == 0)
        return weft_nn_load(tree, file, &o);
    weft__adapter_tensors tensors = {.arrays = NULL};
    o.where = weft_safetensors_at(file, 0)->path;
    weft_scope_open();
    weft_status status = weft__adapter_read_tensors(tree, file, &tensors);
    if (status == WEFT_OK) {
        const weft_named_arrays named = {
            .n = tensors.names.n, .names = tensors.names.at, .arrays = tensors.arrays};
        status = weft_nn_load_arrays(tree, &named, &o);
    }
    weft_scope_close(NULL);
    weft__adapter_tensors_free(&tensors);
    return status;
}

typedef struct dtypes {
    weft_dtype *at; /* of the parameters that are trained in full */
    int n;
} dtypes;

static weft_status note_dtype(void *context, const weft_nn_item *item)
{
    dtypes *d = context;
    if (item->slot->frozen || weft__adapter_is_part(item->path))
        return WEFT_OK;
    if (d->at)
        d->at[d->n] = weft_dtype_of(*item->slot->address);
    d->n++;
    return WEFT_OK;
}

static weft_status restore_dtype(void *context, const weft_nn_item *item)
{
    dtypes *d = context;
    if (item->slot->frozen || weft__adapter_is_part(item->path))
        return WEFT_OK;
    weft_array **slot = item->slot->address;
    weft_scope_open_lean();
    weft_array *value = weft_astype(*slot, d->at[d->n++]);
    const weft_status status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    return status;
}

/* Adapters get the options' dtype; modules that are trained in full keep the dtype of the base. */
static weft_status load_and_cast(weft_module *tree, const weft_safetensors *file,
                                 const weft__names *whole, int n_stacks,
                                 const weft_adapter_options *options)
{
    dtypes d = {0};
    if (whole->n == 0)
        return load_tensors(tree, file, whole, n_stacks, options);
    weft_status status = weft_nn_visit(tree, note_dtype, &d);
    if (status != WEFT_OK)
        return status;
    d.at = weft_calloc((size_t)d.n + 1, sizeof *d.at);
    if (d.at == NULL)
        return weft__out_of_memory("adapter", "a list of dtypes");
    d.n = 0;
    status = weft_nn_visit(tree, note_dtype, &d);
    if (status == WEFT_OK)
        status = load_tensors(tree, file, whole, n_stacks, options);
    d.n = 0;
    if (status == WEFT_OK)
        status = weft_nn_visit(tree, restore_dtype, &d);
    weft_free(d.at);
    return status;
}

static weft_status load(weft_module *tree, const weft__adapter_config *config,
                        const weft_safetensors *file, const weft_adapter_options *options)
{
    weft__names chosen = {0}, whole = {0};
    int n_stacks = 0;
    weft_status status = choose_linears(tree, config, file, &chosen);
    if (status == WEFT_OK)
        status = choose_stacks(tree, config, &chosen, &n_stacks);
    if (status == WEFT_OK && config->whole.value)
        status = weft_nn_visit_modules(tree, choose_whole,
                                       &(search){&config->whole, config->naming, &whole});
    if (status == WEFT_OK && config->whole.value && whole.n == 0 &&
        json_object_array_length(config->whole.value) > 0)
        status = weft__json_fail(&config->whole, WEFT_INVALID, "the model has no such module");
    if (status == WEFT_OK && config->tying)
        status = add_tied(tree, &chosen);
    if (status == WEFT_OK && config->tying)
        status = add_tied(tree, &whole);
    const weft__copies copies = {tree, &whole};
    if (status == WEFT_OK)
        status = weft__adapter_check_copies(&copies, file);
    if (status == WEFT_OK)
        status = weft__adapter_grow_whole(&copies, file);
    if (status == WEFT_OK)
        status = inject(tree, config, &chosen, &whole, options);
    if (status == WEFT_OK) {
        status = weft__adapter_train_tokens(tree, config);
        if (status == WEFT_OK)
            status = load_and_cast(tree, file, &whole, n_stacks, options);
        if (status == WEFT_OK)
            status = weft__lora_settle(tree);
        if (status == WEFT_OK)
            status = weft__adapter_add_copied_rows(&copies, file);
        if (status != WEFT_OK)
            weft_nn_lora_remove(tree);
    }
    weft__names_free(&chosen);
    weft__names_free(&whole);
    return status;
}

/* Loads from a folder in PEFT's format. `model` is the model of the tree, or NULL. */
static weft_status load_folder(weft_model *model, weft_module *tree, const char *folder,
                               const weft_adapter_options *options)
{
    weft__adapter_config config;
    weft_status status = weft__adapter_config_read(folder, &config);
    if (status != WEFT_OK)
        return status;
    weft_safetensors *file = NULL;
    status = weft__adapter_open(folder, &file);
    if (status == WEFT_OK && model)
        status = weft__adapter_use_paths(file, &config.naming);
    if (status == WEFT_OK && model)
        status = weft__adapter_classify(model, folder, file);
    const bool parts = status == WEFT_OK && model && weft__adapter_has_parts(tree, file);
    if (status == WEFT_OK)
        status = parts ? weft__adapter_load_parts(tree, &config, file, folder, options)
                 : weft__adapter_has_expert_linears(file)
                     ? weft__adapter_load_expert_linears(tree, &config, file, folder, options)
                     : load(tree, &config, file, options);
    weft_safetensors_close(file);
    weft__adapter_config_free(&config);
    return status;
}

static weft_status check_tree(weft_module *tree, const char *path, weft_adapter_format *format)
{
    if (weft_nn_lora_count(tree) > 0)
        return weft_fail(WEFT_INVALID, "%s: the model has an adapter already", path);
    return weft_adapter_format_of(path, format, NULL);
}

/* Refuses NaN and infinite values in everything that the adapter has: what is computed with them
 * would be NaN. */
static weft_status check_finite(void *context, const weft_nn_item *item)
{
    if (item->slot->frozen || !weft_dtype_is_float(weft_dtype_of(*item->slot->address)))
        return WEFT_OK;
    weft_scope_open();
    weft_array *fine = weft_isfinite(weft_flatten(*item->slot->address, 0, -1));
    weft_array *all = weft_all(fine, WEFT_ALL_AXES, false);
    weft_status status = weft_eval(all);
    if (status == WEFT_OK && weft_item_int(all) == 0)
        status = weft_fail(
            WEFT_INVALID, "%s: %s: value %lld of the adapter is NaN or infinite",
            (const char *)context, item->path,
            (long long)weft_item_int(weft_argmin(weft_astype(fine, WEFT_INT32), -1, false)));
    weft_scope_close(NULL);
    return status;
}

static weft_status load_any(weft_model *model, const char *folder,
                            const weft_adapter_options *options)
{
    weft_module *tree = weft_model_module(model);
    weft_adapter_format format;
    weft_status status = check_tree(tree, folder, &format);
    if (status != WEFT_OK)
        return status;
    if (format != WEFT_ADAPTER_PEFT)
        return weft__adapter_load_list(model, folder, format, options);
    status = load_folder(model, tree, folder, options);
    weft__adapter_count_tokens(model);
    if (status == WEFT_OK) {
        status = weft__adapter_add_eos(model, folder);
        if (status != WEFT_OK)
            weft_nn_lora_remove(tree);
    }
    return status;
}

weft_status weft_adapter_load(weft_model *model, const char *folder,
                              const weft_adapter_options *options)
{
    weft_module *tree = weft_model_module(model);
    weft_status status = load_any(model, folder, options);
    if (status == WEFT_OK) {
        status = weft_nn_visit(tree, check_finite, (void *)folder);
        if (status != WEFT_OK)
            weft_nn_lora_remove(tree);
    }
    return status;
}

weft_status weft_adapter_load_module(weft_module *module, const char *folder,
                                     const weft_adapter_options *options)
{
    weft_adapter_format format;
    const weft_status status = check_tree(module, folder, &format);
    if (status != WEFT_OK)
        return status;
    if (format != WEFT_ADAPTER_PEFT)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: expected an adapter in PEFT's format, got mlx-lm's or llama.cpp's, "
                         "whose names are those of a model's family: use weft_adapter_load",
                         folder);
    return load_folder(NULL, module, folder, options);
}
