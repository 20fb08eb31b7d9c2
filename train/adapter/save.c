/* train/adapter/save.c -- saves a model's adapters as PEFT's two files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/text.h"
#include "core/list.h"
#include "models/save.h"
#include "nn/lora.h"
#include "nn/tokens.h"
#include "train/adapter/experts.h"
#include "train/adapter/list.h"
#include "train/run/number.h"

/* The rank and alpha of an adapted linear. */
typedef struct size {
    int64_t rank;
    double alpha;
} size;

/* The contents of adapter_config.json for a tree. */
typedef struct profile {
    const weft__naming *naming; /* of the modules that the adapter is for */
    bool by_suffix;             /* `targets` are last components, of modules in all layers */
    size *sizes;                /* one for each of `names` */
    size usual;                 /* the most frequent rank and alpha */
    int n_sizes;
    weft__names names; /* the adapted linears, and the adapted parameters of experts */
    double dropout;
    bool dora;
    weft__names linears, adapted;
    weft__names parameters, adapted_parameters; /* of experts */
    weft__names targets, target_parameters;
    weft__names whole; /* modules that are trained in full */
    int64_t *layers;   /* NULL: all */
    int n_layers;
} profile;

static void profile_free(profile *p)
{
    weft__names_free(&p->linears);
    weft__names_free(&p->adapted);
    weft__names_free(&p->names);
    weft__names_free(&p->parameters);
    weft__names_free(&p->adapted_parameters);
    weft__names_free(&p->targets);
    weft__names_free(&p->target_parameters);
    weft__names_free(&p->whole);
    weft_free(p->layers);
    weft_free(p->sizes);
}

/* ---- ranks and scales ----------------------------------------------------------------------- */

/* The rank in the file: for PiSSA, the initial values are saved as additional ranks. */
static int64_t saved_rank(const weft_nn_lora_linear *m)
{
    return weft__lora_rank(m) + (m->start_A ? weft_dim(m->start_A, 0) : 0);
}

/* Computes alpha from the scale. Removes the rounding error if alpha was an integer. */
static double alpha_of(double scale, int64_t rank)
{
    const double alpha = scale * (double)rank, whole = nearbyint(alpha);
    return fabs(alpha - whole) <= 1e-12 * fabs(alpha) ? whole : alpha;
}

static weft_status add_size(profile *p, const char *name, int64_t rank, double scale)
{
    p->sizes[p->n_sizes++] = (size){rank, alpha_of(scale, rank)};
    return weft__names_add(&p->names, name);
}

static weft_status add_adapter(void *context, const char *path, weft_module **field)
{
    profile *p = context;
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)*field;
    if (!weft__is_lora(*field) || (*field)->type == &weft_nn_lora_stack_type)
        return WEFT_OK;
    char name[WEFT_NN_PATH + 16];
    const int64_t rank = saved_rank(m);
    snprintf(name, sizeof name, "%s.weight", path);
    const bool parameter = weft__names_have(&p->adapted_parameters, name);
    const bool dora = m->lora_magnitude_vector != NULL;
    if (p->n_sizes == 0) {
        p->dropout = ((const weft_nn_dropout *)m->lora_dropout)->p;
        p->dora = dora;
    }
    if (dora != p->dora)
        return weft_fail(WEFT_INVALID,
                         "adapter: %s is %s, others are not: PEFT has one kind in an adapter", path,
                         dora ? "DoRA" : "plain LoRA");
    return add_size(p, parameter ? name : path, rank, m->scale);
}

static weft_status add_experts(weft_module *tree, profile *p)
{
    weft__names stacks = {0};
    weft_status status = weft__adapter_stacks(tree, NULL, &stacks);
    weft_scope_open();
    for (int i = 0; status == WEFT_OK && i < stacks.n; i++) {
        weft__adapter_parameter e;
        status = weft__adapter_parameter_of(tree, stacks.at[i], &e);
        if (status == WEFT_OK && e.first)
            status = add_size(p, e.name, e.rank, e.scale);
    }
    weft_scope_close(NULL);
    weft__names_free(&stacks);
    return status;
}

/* Finds the most frequent rank and alpha. Of equally frequent ones, the first is used. */
static void find_usual(profile *p)
{
    int most_ranks = 0, most_alphas = 0;
    for (int i = 0; i < p->n_sizes; i++) {
        int ranks = 0, alphas = 0;
        for (int k = 0; k < p->n_sizes; k++) {
            ranks += p->sizes[k].rank == p->sizes[i].rank;
            alphas += p->sizes[k].alpha == p->sizes[i].alpha;
        }
        if (ranks > most_ranks) {
            most_ranks = ranks;
            p->usual.rank = p->sizes[i].rank;
        }
        if (alphas > most_alphas) {
            most_alphas = alphas;
            p->usual.alpha = p->sizes[i].alpha;
        }
    }
}

static weft_status find_sizes(weft_module *tree, profile *p)
{
    const int n = p->adapted.n + p->adapted_parameters.n;
    p->sizes = weft_calloc((size_t)n, sizeof *p->sizes);
    if (p->sizes == NULL)
        return weft__out_of_memory("adapter", "a list of ranks");
    weft_status status = weft_nn_visit_modules(tree, add_adapter, p);
    if (status == WEFT_OK)
        status = add_experts(tree, p);
    find_usual(p);
    return status;
}

/* ---- which linears -------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static bool has_layer(const profile *p, int64_t layer)
{
    for (int i = 0; i < p->n_layers; i++) {
        if (p->layers[i] == layer)
            return true;
    }
    return false;
}

/* Finds the last components of the adapted linears' paths, and their layers. */
static weft_status find_suffixes(profile *p)
{
    p->layers = weft_calloc((size_t)p->adapted.n + 1, sizeof *p->layers);
    if (p->layers == NULL)
        return weft__out_of_memory("adapter", "a list of layers");
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < p->adapted.n; i++) {
        const char *path = p->adapted.at[i];
        const int64_t layer = weft__adapter_layer(path);
        if (!has_layer(p, layer))
            p->layers[p->n_layers++] = layer;
        if (!weft__names_have(&p->targets, last_part(path)))
            status = weft__names_add(&p->targets, last_part(path));
    }
    return status;
}

/* Whether the suffixes select exactly the adapted linears, in all layers or only in the found ones.
 */
static bool is_exact(const profile *p, bool all_layers)
{
    if (!all_layers && has_layer(p, -1))
        return false; /* PEFT's layers_to_transform excludes modules that are not in a layer */
    int n = 0;
    for (int i = 0; i < p->linears.n; i++) {
        const char *path = p->linears.at[i];
        n += weft__names_have(&p->targets, last_part(path)) &&
             (all_layers || has_layer(p, weft__adapter_layer(path)));
    }
    return n == p->adapted.n;
}

static void forget_layers(profile *p)
{
    weft_free(p->layers);
    p->layers = NULL;
    p->n_layers = 0;
}

static int compare_layers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static weft_status find_targets(profile *p)
{
    weft_status status = find_suffixes(p);
    if (status != WEFT_OK)
        return status;
    p->by_suffix = is_exact(p, true);
    if (p->by_suffix) {
        forget_layers(p);
    } else if (p->naming == &weft__names_text && is_exact(p, false)) {
        qsort(p->layers, (size_t)p->n_layers, sizeof *p->layers, compare_layers);
    } else {
        forget_layers(p);
        weft__names_free(&p->targets);
        for (int i = 0; status == WEFT_OK && i < p->adapted.n; i++)
            status = weft__names_add(&p->targets, p->adapted.at[i]);
    }
    weft__names_sort(&p->targets);
    return status;
}

/* Collects the modules of trained parameters that are not part of an adapter; of a head for labels
 * the whole head, as PEFT does for SEQ_CLS. */
static weft_status add_whole(void *context, const weft_nn_item *item)
{
    profile *p = context;
    char path[WEFT_NN_PATH];
    if (item->slot->frozen || weft__adapter_is_part(item->path) || weft__is_tokens(item->module))
        return WEFT_OK;
    snprintf(path, sizeof path, "%s", item->path);
    char *dot = weft__is_label_head(path) ? strchr(path, '.') : strrchr(path, '.');
    if (dot)
        *dot = '\0';
    return weft__names_have(&p->whole, path) ? WEFT_OK : weft__names_add(&p->whole, path);
}

/* Replaces complete paths in the list by the names of modules. */
static weft_status use_names(const profile *p, weft__names *list)
{
    for (int i = 0; i < list->n; i++) {
        char name[WEFT_NN_PATH + 64];
        weft__name_in(p->naming, list->at[i], name, sizeof name);
        char *copy = weft_strdup(name);
        if (copy == NULL)
            return weft__out_of_memory("adapter", "a name");
        weft_free(list->at[i]);
        list->at[i] = copy;
    }
    return WEFT_OK;
}

static weft_status find_profile(weft_module *tree, profile *p)
{
    weft_status status = weft__adapter_linears(tree, &p->linears, &p->adapted);
    if (status == WEFT_OK)
        status = weft__adapter_parameters(tree, &p->parameters, &p->adapted_parameters);
    const bool wrapped = p->naming != &weft__names_text; /* PEFT replaces no names there */
    if (status == WEFT_OK)
        status = weft__adapter_move_linears(tree, wrapped, &p->adapted, &p->parameters,
                                            &p->adapted_parameters);
    if (status == WEFT_OK && p->adapted.n + p->adapted_parameters.n == 0)
        status = weft_fail(WEFT_INVALID, "adapter: the model has none");
    if (status == WEFT_OK)
        status = weft__adapter_parameter_targets(&p->parameters, &p->adapted_parameters,
                                                 &p->target_parameters);
    if (status == WEFT_OK)
        status = find_sizes(tree, p);
    if (status == WEFT_OK)
        status = weft_nn_visit(tree, add_whole, p);
    if (status == WEFT_OK)
        status = find_targets(p);
    weft__names *const lists[] = {&p->names, &p->targets, &p->target_parameters, &p->whole};
    for (int i = 0; i < 4 && status == WEFT_OK; i++)
        status = use_names(p, lists[i]);
    return status;
}

/* ---- adapter_config.json -------------------------------------------------------------------- */

/* A property of an adapter that is written where it differs from the usual value. */
typedef double number_of(const size *of);

static double rank_of(const size *of)
{
    return (double)of->rank;
}

static double alpha_of_size(const size *of)
{
    return of->alpha;
}

/* Whether all adapters with the same last component as name i have the same number. */
static bool is_of_suffix(const profile *p, int i, number_of *number)
{
    for (int k = 0; k < p->n_sizes; k++) {
        if (strcmp(last_part(p->names.at[k]), last_part(p->names.at[i])) == 0 &&
            number(&p->sizes[k]) != number(&p->sizes[i]))
            return false;
    }
    return true;
}

/* Writes a pattern. A key is the last component if that is unambiguous, else the complete path. */
static void write_pattern(weft__text *t, const profile *p, const char *name, number_of *number)
{
    char text[WEFT__NUMBER_TEXT];
    const char *before = "\n";
    weft__names keys = {0};
    weft__text_format(t, "  \"%s\": {", name);
    for (int i = 0; i < p->n_sizes; i++) {
        const char *path = p->names.at[i];
        const char *key = is_of_suffix(p, i, number) ? last_part(path) : path;
        if (number(&p->sizes[i]) == number(&p->usual) || weft__names_have(&keys, key))
            continue;
        t->failed = t->failed || weft__names_add(&keys, key) != WEFT_OK;
        weft__text_format(t, "%s    ", before);
        weft__text_quote(t, key);
        weft__text_format(t, ": %s", weft__number(number(&p->sizes[i]), text));
        before = ",\n";
    }
    weft__text_format(t, "%s},\n", keys.n > 0 ? "\n  " : "");
    weft__names_free(&keys);
}

static void write_list(weft__text *t, const char *name, const weft__names *list)
{
    weft__text_format(t, "  \"%s\": [\n", name);
    for (int i = 0; i < list->n; i++) {
        weft__text_format(t, "    ");
        weft__text_quote(t, list->at[i]);
        weft__text_format(t, "%s\n", i + 1 < list->n ? "," : "");
    }
    weft__text_format(t, "  ],\n");
}

/* Writes target_modules. Suffixes would match modules of a multimodal model's towers too, so there
 * they become a regular expression for modules of the text model. */
static void write_targets(weft__text *t, const profile *p)
{
    weft__text regex = {0};
    bool head = false;
    if (p->naming == &weft__names_text || p->naming == &weft__names_bare || !p->by_suffix ||
        p->targets.n == 0) {
        write_list(t, "target_modules", &p->targets);
        return;
    }
    for (const char *at = p->naming->body; *at; at++)
        weft__text_format(&regex, *at == '.' ? "\\%c" : "%c", *at);
    weft__text_format(&regex, "(.*\\.)?(");
    for (int i = 0, n = 0; i < p->targets.n; i++) {
        const bool is_head = strcmp(p->targets.at[i], "lm_head") == 0;
        head |= is_head;
        if (!is_head)
            weft__text_format(&regex, "%s%s", n++ > 0 ? "|" : "", p->targets.at[i]);
    }
    weft__text_format(&regex, ")%s", head ? "|lm_head" : "");
    weft__text_format(t, "  \"target_modules\": ");
    weft__text_quote(t, regex.failed ? "" : regex.at);
    weft__text_format(t, ",\n");
    t->failed |= regex.failed;
    weft_free(regex.at);
}

static void write_layers(weft__text *t, const profile *p)
{
    if (p->layers == NULL) {
        weft__text_format(t, "  \"layers_to_transform\": null,\n");
        return;
    }
    weft__text_format(t, "  \"layers_to_transform\": [");
    for (int i = 0; i < p->n_layers; i++)
        weft__text_format(t, "%s%lld", i == 0 ? "" : ", ", (long long)p->layers[i]);
    weft__text_format(t, "],\n");
}

/* Writes the fields that every PEFT version since 0.9 accepts, in PEFT's order. */
static weft_status write_config(weft__text *t, weft_module *tree, const profile *p,
                                const char *base_name, const char *task)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "{\n");
    write_pattern(t, p, "alpha_pattern", alpha_of_size);
    weft__text_format(t, "  \"auto_mapping\": null,\n  \"base_model_name_or_path\": ");
    weft__text_quote(t, base_name ? base_name : "");
    weft__text_format(t, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                         "  \"inference_mode\": true,\n  \"init_lora_weights\": true,\n"
                         "  \"layer_replication\": null,\n  \"layers_pattern\": null,\n");
    write_layers(t, p);
    weft__text_format(t, "  \"loftq_config\": {},\n  \"lora_alpha\": %s,\n",
                      weft__number(p->usual.alpha, number));
    /* PEFT refuses dropout beside target_parameters. */
    weft__text_format(t, "  \"lora_dropout\": %s,\n",
                      weft__number(p->target_parameters.n > 0 ? 0 : p->dropout, number));
    weft__text_format(t, "  \"megatron_config\": null,\n"
                         "  \"megatron_core\": \"megatron.core\",\n");
    if (p->whole.n > 0)
        write_list(t, "modules_to_save", &p->whole);
    else
        weft__text_format(t, "  \"modules_to_save\": null,\n");
    weft__text_format(t, "  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n", (long long)p->usual.rank);
    write_pattern(t, p, "rank_pattern", rank_of);
    weft__text_format(t, "  \"revision\": null,\n");
    write_targets(t, p);
    if (p->target_parameters.n > 0) /* PEFT accepts this field since version 0.17 */
        write_list(t, "target_parameters", &p->target_parameters);
    weft__text_format(t, "  \"task_type\": %s,\n", task);
    const weft_status status = weft__adapter_write_tokens(tree, t);
    weft__text_format(t, "  \"use_dora\": %s,\n  \"use_rslora\": false\n}\n",
                      p->dora ? "true" : "false");
    return status;
}

static weft_status save_config(const char *folder, weft_module *tree, const profile *p,
                               const char *base_name, const char *task)
{
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_CONFIG);
    weft__text t = {0};
    weft_status status = write_config(&t, tree, p, base_name, task);
    if (status == WEFT_OK && (path == NULL || t.failed))
        status = weft__out_of_memory(folder, "the adapter's configuration");
    if (status == WEFT_OK)
        status = weft_file_write(path, t.at, t.n);
    weft_free(t.at);
    weft_free(path);
    return status;
}

/* ---- adapter_model.safetensors -------------------------------------------------------------- */

typedef struct tensors {
    const weft__naming *naming;
    weft__names names;
    weft_array **arrays;
} tensors;

/* The array to save. For PiSSA, additional ranks subtract the initial values: [A; A0] and [B, -B0].
 */
static weft_array *saved_array(const weft_nn_item *item)
{
    weft_array *own = *item->slot->address;
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)item->module;
    if (m->start_A == NULL || own == m->lora_magnitude_vector)
        return own;
    const bool is_A = own == m->lora_A;
    weft_array *both[] = {own, is_A ? m->start_A : weft_negative(m->start_B)};
    return weft_concatenate(both, 2, is_A ? 0 : 1);
}

/* Adds the tensor `end` of the module at a path. */
static weft_status put_tensor(tensors *t, const char *path, const char *end, weft_array *a)
{
    char module[WEFT_NN_PATH + 64], name[sizeof module + 96];
    if (!weft__list_more(t->arrays, t->names.n))
        return weft__out_of_memory("adapter", "a list of tensors");
    t->arrays[t->names.n] = a;
    weft__name_in(t->naming, path, module, sizeof module);
    snprintf(name, sizeof name, WEFT__ADAPTER_PREFIX "%s%s", module, end);
    return weft__names_add(&t->names, name);
}

static weft_status add_tensor(void *context, const weft_nn_item *item)
{
    char path[WEFT_NN_PATH];
    if (item->module->type == &weft_nn_lora_stack_type)
        return WEFT_OK;
    if (weft__is_tokens(item->module)) {
        snprintf(path, sizeof path, "%.*s", (int)(strrchr(item->path, '.') - item->path),
                 item->path);
        return put_tensor(context, path, WEFT__ADAPTER_TOKENS, *item->slot->address);
    }
    const bool part = weft__is_lora(item->module) && weft__adapter_is_part(item->path);
    if (!part && item->slot->frozen)
        return WEFT_OK;
    const bool framed = part && !weft__adapter_is_bare(item->path);
    return put_tensor(context, item->path, framed ? ".weight" : "",
                      part ? saved_array(item) : *item->slot->address);
}

static weft_status add_expert_tensors(weft_module *tree, tensors *t)
{
    weft__names stacks = {0};
    weft_status status = weft__adapter_stacks(tree, NULL, &stacks);
    for (int i = 0; status == WEFT_OK && i < stacks.n; i++) {
        weft__adapter_parameter e;
        char end[64];
        status = weft__adapter_parameter_of(tree, stacks.at[i], &e);
        *strrchr(e.name, '.') = '\0'; /* the module of the parameter */
        for (int k = 0; status == WEFT_OK && e.first && k < 2; k++) {
            snprintf(end, sizeof end, "%s.lora_%c.weight", e.inner ? ".base_layer" : "", "AB"[k]);
            status = put_tensor(t, e.name, end, k == 0 ? e.A : e.B);
        }
    }
    weft__names_free(&stacks);
    return status;
}

static weft_status save_tensors(const char *folder, weft_module *tree, const weft__naming *naming)
{
    tensors t = {.naming = naming};
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_TENSORS);
    weft_scope_open();
    weft_status status =
        path ? weft_nn_visit(tree, add_tensor, &t) : weft__out_of_memory(folder, "the adapter");
    if (status == WEFT_OK)
        status = add_expert_tensors(tree, &t);
    if (status == WEFT_OK)
        status = weft_safetensors_save(path, (const char *const *)t.names.at, t.arrays, t.names.n,
                                       NULL, 0);
    weft_scope_close(NULL);
    weft__names_free(&t.names);
    weft_free(t.arrays);
    weft_free(path);
    return status;
}

/* `task` is the JSON value of task_type. */
static weft_status save(weft_module *tree, const char *folder, const char *base_name,
                        const char *task, profile *p)
{
    weft_status status = find_profile(tree, p);
    if (status == WEFT_OK)
        status = save_tensors(folder, tree,
                              p->naming); /* first, since it is what fails on a full disk */
    if (status == WEFT_OK)
        status = save_config(folder, tree, p, base_name, task);
    return status == WEFT_OK ? weft__adapter_remove_others(folder, WEFT__ADAPTER_TENSORS) : status;
}

weft_status weft__adapter_check_folder(const char *folder)
{
    static const char *const names[] = {WEFT__ADAPTER_TENSORS, WEFT__ADAPTER_MLX_TENSORS,
                                        "config.json"};
    return weft__check_names(folder, WEFT__ADAPTER_CONFIG, names, sizeof names / sizeof *names);
}

weft_status weft_adapter_save(weft_model *model, const char *folder, const char *base_name)
{
    const weft_model_info *info = weft_model_info_of(model);
    return weft__adapter_save_for(model, folder, base_name, info->encoder && info->n_labels == 0);
}

weft_status weft__adapter_save_for(weft_model *model, const char *folder, const char *base_name,
                                   bool vectors)
{
    const bool classifies = weft_model_info_of(model)->n_labels > 0;
    const weft__naming *labels = weft__model_label_naming(model);
    profile p = {.naming = vectors  ? &weft__names_bare
                           : labels ? labels
                                    : weft__config_naming(weft_model_config(model))};
    weft__folder f = {.path = NULL};
    weft_status status = weft__adapter_check_folder(folder);
    if (status == WEFT_OK)
        status = weft__folder_open_new(folder, &f);
    if (status == WEFT_OK)
        status = save(weft_model_module(model), f.path, base_name,
                      vectors      ? "\"FEATURE_EXTRACTION\""
                      : classifies ? "\"SEQ_CLS\""
                                   : "\"CAUSAL_LM\"",
                      &p);
    if (status == WEFT_OK)
        status = weft__adapter_write_labels(model, f.path);
    profile_free(&p);
    return weft__folder_replace(&f, folder, status);
}

/* PEFT matches targets against modules of every type. A module that is neither a linear nor an
 * embedding but has the name of a target therefore makes the suffixes inexact too. */
static weft_status add_other(void *context, const char *path, weft_module **field)
{
    const weft_module *m = *field;
    const bool inside = weft__is_lora(m) || (m->parent && weft__is_lora(m->parent));
    const bool known = m->type == &weft_nn_linear_type || m->type == &weft__nn_embedding_type;
    return inside || known || !m->parent ? WEFT_OK : weft__names_add(context, path);
}

weft_status weft_adapter_save_module(weft_module *module, const char *folder, const char *base_name)
{
    profile p = {.naming = &weft__names_text};
    weft__folder f = {.path = NULL};
    weft_status status = weft__adapter_check_folder(folder);
    if (status == WEFT_OK)
        status = weft__folder_open_new(folder, &f);
    if (status == WEFT_OK)
        status = weft_nn_visit_modules(module, add_other, &p.linears);
    if (status == WEFT_OK)
        status = save(module, f.path, base_name, "null", &p);
    profile_free(&p);
    return weft__folder_replace(&f, folder, status);
}
