/* train/adapter/set.c -- several adapters for one model, which can be weighted and switched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "models/convert/convert.h"
#include "models/generation.h"
#include "nn/lora.h"
#include "nn/tokens.h"
#include "train/adapter/adapter.h"
#include "train/adapter/list.h"

/* A loaded adapter that is not in the tree. Its arrays are kept. */
typedef struct member {
    char *name;
    weft__adapter_list list;
} member;

struct weft_adapter_set {
    weft_model *model;
    weft_dtype dtype;
    member *members;
    int n;
};

static void member_free(member *m)
{
    for (int i = 0; i < m->list.n; i++) {
        weft_drop(m->list.at[i].A);
        weft_drop(m->list.at[i].B);
        weft_drop(m->list.at[i].m);
    }
    weft__adapter_list_free(&m->list);
    weft_free(m->name);
}

weft_status weft_adapter_set_new(weft_model *model, const weft_adapter_options *options,
                                 weft_adapter_set **out)
{
    *out = NULL;
    if (weft_nn_lora_count(weft_model_module(model)) > 0)
        return weft_fail(WEFT_INVALID, "adapters: the model has an adapter already");
    weft_adapter_set *s = weft_calloc(1, sizeof *s);
    if (s == NULL)
        return weft__out_of_memory("adapters", NULL);
    s->model = model;
    s->dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32;
    *out = s;
    return WEFT_OK;
}

void weft_adapter_set_free(weft_adapter_set *set)
{
    if (set == NULL)
        return;
    for (int i = 0; i < set->n; i++)
        member_free(&set->members[i]);
    weft_free(set->members);
    weft_free(set);
}

int weft_adapter_set_count(const weft_adapter_set *set)
{
    return set->n;
}

const char *weft_adapter_set_name(const weft_adapter_set *set, int i)
{
    return i >= 0 && i < set->n ? set->members[i].name : NULL;
}

/* ---- adding --------------------------------------------------------------------------------- */

/* Refuses modules that were trained in full: they would replace the base parameters permanently. */
static weft_status check_whole(const char *path)
{
    weft_adapter_format format;
    weft__adapter_config config;
    weft_status status = weft_adapter_format_of(path, &format, NULL);
    if (status != WEFT_OK || format != WEFT_ADAPTER_PEFT)
        return status;
    status = weft__adapter_config_read(path, &config);
    if (status != WEFT_OK)
        return status;
    if (config.whole.value && json_object_array_length(config.whole.value) > 0)
        status = weft__json_fail(&config.whole, WEFT_UNSUPPORTED,
                                 "modules that are trained whole cannot be switched");
    weft__adapter_config_free(&config);
    return status;
}

static weft_status refuse_tokens(void *context, const char *path, weft_module **field)
{
    return weft__is_tokens(*field)
               ? weft_fail(WEFT_UNSUPPORTED,
                           "%s: it has rows of tokens for %s, which cannot be switched",
                           (const char *)context, path)
               : WEFT_OK;
}

/* Evaluates the arrays of the list and keeps them. */
static weft_status keep_arrays(weft__adapter_list *list)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < list->n; i++) {
        weft__adapter_entry *e = &list->at[i];
        weft_array *all[] = {e->A, e->B, e->m};
        if (status == WEFT_OK)
            status = weft_eval_n(all, e->m ? 3 : 2);
        weft_keep(e->A);
        weft_keep(e->B);
        if (e->m)
            weft_keep(e->m);
    }
    return status;
}

weft_status weft__adapter_load_removable(weft_model *model, const char *path,
                                         const weft_adapter_options *options)
{
    weft_module *tree = weft_model_module(model);
    weft_status status = check_whole(path);
    if (status == WEFT_OK)
        status = weft_adapter_load(model, path, options);
    if (status != WEFT_OK)
        return status;
    status = weft_nn_visit_modules(tree, refuse_tokens, (void *)path);
    if (status != WEFT_OK) {
        weft_nn_lora_remove(tree);
        weft__adapter_count_tokens(model);
    }
    return status;
}

static weft_status read_member(weft_adapter_set *set, const char *path, member *out)
{
    weft_module *tree = weft_model_module(set->model);
    const weft_adapter_options options = {.dtype = set->dtype};
    weft_status status = weft__adapter_load_removable(set->model, path, &options);
    if (status != WEFT_OK)
        return status;
    weft_scope_open();
    status = weft__adapter_list_of(tree, &out->list);
    const weft_status kept = keep_arrays(&out->list);
    weft_scope_close(NULL);
    weft_nn_lora_remove(tree);
    return status == WEFT_OK ? kept : status;
}

weft_status weft_adapter_set_add(weft_adapter_set *set, const char *path, const char *name)
{
    member m = {.name = weft_strdup(name ? name : path)};
    weft_status status = WEFT_OK;
    if (m.name == NULL || !weft__list_more(set->members, set->n))
        status = weft__out_of_memory(path, "a list of adapters");
    weft_nn_lora_remove(weft_model_module(set->model));
    if (status == WEFT_OK)
        status = read_member(set, path, &m);
    if (status == WEFT_OK)
        set->members[set->n++] = m;
    else
        member_free(&m);
    return status;
}

/* ---- using ---------------------------------------------------------------------------------- */

/* Adds w * scale * B A to the entry. The ranks are concatenated, and B then includes the scale. */
static weft_status add_part(weft__adapter_entry *to, const weft__adapter_entry *from, double w)
{
    to->embedding = from->embedding;
    if (to->A == NULL) {
        const double scale = w * from->scale;
        *to = (weft__adapter_entry){to->path, from->embedding, scale, from->A, from->B, from->m};
        return WEFT_OK;
    }
    if (to->m || from->m)
        return weft_fail(WEFT_UNSUPPORTED,
                         "adapters: %s: DoRA adapters cannot be added to others: use one of them "
                         "with a weight of 1",
                         to->path);
    weft_array *A[] = {to->A, from->A};
    weft_array *B[] = {weft_scale(to->B, to->scale), weft_scale(from->B, w * from->scale)};
    to->A = weft_concatenate(A, 2, -2);
    to->B = weft_concatenate(B, 2, -1);
    to->scale = 1;
    return WEFT_OK;
}

static weft_status add_member(weft__adapter_list *sum, const member *m, double w)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < m->list.n; i++) {
        const weft__adapter_entry *from = &m->list.at[i];
        if (from->m && w != 1)
            return weft_fail(WEFT_UNSUPPORTED,
                             "adapters: %s: DoRA adapters have no weight but 0 and 1, got %g",
                             weft_printable(m->name), w);
        weft__adapter_entry *to = weft__adapter_list_entry(sum, from->path);
        status = to ? add_part(to, from, w) : WEFT_MEMORY;
    }
    return status;
}

static weft_status check_kinds(const weft__adapter_list *sum)
{
    for (int i = 1; i < sum->n; i++) {
        if ((sum->at[i].m != NULL) != (sum->at[0].m != NULL))
            return weft_fail(WEFT_UNSUPPORTED, "adapters: DoRA adapters cannot be added to others");
    }
    return WEFT_OK;
}

weft_status weft_adapter_set_use(weft_adapter_set *set, const double *weights)
{
    weft_module *tree = weft_model_module(set->model);
    weft__adapter_list sum = {0};
    weft_status status = WEFT_OK;
    weft_scope_open();
    for (int i = 0; status == WEFT_OK && i < set->n; i++) {
        if (!isfinite(weights[i]))
            status = weft_fail(WEFT_INVALID, "adapters: %s: expected a finite weight, got %g",
                               weft_printable(set->members[i].name), weights[i]);
        else if (weights[i] != 0)
            status = add_member(&sum, &set->members[i], weights[i]);
    }
    if (status == WEFT_OK)
        status = check_kinds(&sum);
    if (status == WEFT_OK) {
        weft_nn_lora_remove(tree);
        if (sum.n > 0)
            status = weft__adapter_list_put(&sum, tree, "adapters",
                                            &(weft_adapter_options){.dtype = set->dtype});
    }
    weft_scope_close(NULL);
    weft__adapter_list_free(&sum);
    return status;
}

/* ---- a bank --------------------------------------------------------------------------------- */

weft_status weft_adapter_load_member(weft_model *model, const char *path,
                                     const weft_adapter_options *options, weft_nn_lora_bank *bank,
                                     weft_nn_lora_member **out, int32_t *eos)
{
    int n = 0, now = 0;
    *out = NULL;
    *eos = -1;
    weft_nn_lora_bank_use(bank, NULL);
    (void)weft_model_eos(model, &n);
    weft_status status = weft__adapter_load_removable(model, path, options);
    if (status == WEFT_OK)
        status = weft_nn_lora_bank_take(bank, out);
    const int32_t *ids = weft_model_eos(model, &now);
    if (status == WEFT_OK && now > n)
        *eos = ids[n]; /* a tokenizer has one */
    weft__model_keep_eos(model, n);
    return status;
}

/* ---- parsing a list ------------------------------------------------------------------------- */

/* Splits "PATH:WEIGHT": cuts the text at the colon and returns the weight, 1 if there is none. */
static double cut_weight(char *text)
{
    char *colon = strrchr(text, ':'), *end = NULL;
    const double weight = colon ? strtod(colon + 1, &end) : 1;
    if (colon == NULL || colon == text || end == colon + 1 || *end != '\0')
        return 1;
    *colon = '\0';
    return weight;
}

static weft_status add_all(weft_adapter_set *set, char *text, double **weights)
{
    weft_status status = WEFT_OK;
    for (char *at = text, *next; status == WEFT_OK && at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        if (*at == '\0' || *at == ':')
            return weft_fail(WEFT_INVALID, "adapters: expected a path before and after each comma");
        if (!weft__list_more(*weights, set->n))
            return weft__out_of_memory("adapters", "a list of weights");
        (*weights)[set->n] = cut_weight(at);
        status = weft_adapter_set_add(set, at, NULL);
    }
    return status;
}

/* Loads the adapters of a list into a model without adapters. */
static weft_status load_set(weft_model *model, const char *list,
                            const weft_adapter_options *options)
{
    static const double one = 1;
    weft_adapter_set *set = NULL;
    double *weights = NULL;
    const bool single = weft__exists(list) || strpbrk(list, ",:") == NULL;
    char *text = single ? NULL : weft_strdup(list);
    weft_status status = single || text ? weft_adapter_set_new(model, options, &set)
                                        : weft__out_of_memory("adapters", "their names");
    if (status == WEFT_OK)
        status = single ? weft_adapter_set_add(set, list, NULL) : add_all(set, text, &weights);
    if (status == WEFT_OK)
        status = weft_adapter_set_use(set, single ? &one : weights);
    weft_adapter_set_free(set);
    weft_free(weights);
    weft_free(text);
    return status;
}

weft_status weft_adapter_load_list(weft_model *model, const char *list,
                                   const weft_adapter_options *options)
{
    /* A single adapter may have fully trained modules and rows of tokens. */
    return weft__exists(list) || strpbrk(list, ",:") == NULL
               ? weft_adapter_load(model, list, options)
               : load_set(model, list, options);
}

/* ---- replacing ------------------------------------------------------------------------------ */

/* Lists the model's adapters and keeps their arrays. */
static weft_status take(weft_model *model, member *out)
{
    weft_module *tree = weft_model_module(model);
    weft_scope_open();
    weft_status status = weft__adapter_list_removable(tree, &out->list);
    const weft_status kept = keep_arrays(&out->list);
    weft_scope_close(NULL);
    return status == WEFT_OK ? kept : status;
}

weft_status weft_adapter_replace_list(weft_model *model, const char *list,
                                      const weft_adapter_options *options)
{
    weft_module *tree = weft_model_module(model);
    member old = {0};
    const bool had = weft_nn_lora_count(tree) > 0;
    weft_status status = had ? take(model, &old) : WEFT_OK;
    if (status == WEFT_OK) {
        weft_nn_lora_remove(tree);
        status = list ? load_set(model, list, options) : WEFT_OK;
        if (status != WEFT_OK && had) {
            char *message = weft_strdup(weft_error_message());
            const weft_status back =
                weft__adapter_list_put(&old.list, tree, "adapters", &(weft_adapter_options){0});
            if (back == WEFT_OK && message)
                weft_fail(status, "%s", message);
            weft_free(message);
        }
    }
    member_free(&old);
    return status;
}
