/* models/likeness.c -- compares a checkpoint of an unknown model_type with the families. */
#include "weft/model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "models/config.h"
#include "models/family.h"
#include "models/weights.h"

/* A checkpoint beside the tree that a family builds from its configuration. */
typedef struct comparison {
    weft__weights weights;
    json_object *asked;  /* the keys that the family read */
    json_object *counts; /* by line of the report, the number of tensors */
    weft_model_likeness found;
    int n_unread; /* keys that the family does not read */
    bool failed;  /* out of memory */
} comparison;

/* ---- tensors -------------------------------------------------------------------------------- */

/* "model.layers.7.mlp.weight" -> "model.layers.*.mlp.weight". */
static void without_numbers(const char *path, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = path; *p != '\0' && n + 1 < size; p++) {
        const bool number = isdigit((unsigned char)*p) && (p == path || p[-1] == '.');
        if (number)
            while (isdigit((unsigned char)p[1]))
                p++;
        out[n++] = number ? '*' : *p;
    }
    out[n] = '\0';
}

static void shape_text(const weft_array *array, char *out, size_t size)
{
    const weft_dims shape = weft_shape(array);
    size_t n = (size_t)snprintf(out, size, "(");
    for (int i = 0; i < shape.n && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "", (long long)shape.at[i]);
    if (n < size)
        snprintf(out + n, size - n, ")");
}

/* Counts a tensor among those with an equal line, which has the numbers of layers left out. */
static void count(comparison *c, const char *kind, const char *path, const char *detail)
{
    char pattern[WEFT_NN_PATH], line[2 * WEFT_NN_PATH];
    json_object *before = NULL;
    without_numbers(path, pattern, sizeof pattern);
    snprintf(line, sizeof line, "%s %s%s", kind, weft_printable(pattern), detail);
    json_object_object_get_ex(c->counts, line, &before);
    json_object *number = json_object_new_int(before ? json_object_get_int(before) + 1 : 1);
    c->failed |= number == NULL || json_object_object_add(c->counts, line, number) != 0;
    c->found.n_differences++;
}

/* The tensor for a parameter, or those of its encoded form, which are then known. */
static weft__weight *take(comparison *c, const char *path, bool *encoded)
{
    char name[WEFT_NN_PATH];
    weft__weight *found = weft__weights_find(&c->weights, path);
    static const char *const parts[] = {"scales", "biases"};
    const char *end = strrchr(path, '.');
    for (int i = 0; end && strcmp(end, ".weight") == 0 && i < 2; i++) {
        snprintf(name, sizeof name, "%.*s.%s", (int)(end - path), path, parts[i]);
        weft__weight *part = weft__weights_find(&c->weights, name);
        *encoded |= part != NULL;
        if (part)
            part->unused = true;
    }
    if (found)
        found->unused = true;
    return found;
}

static weft_status compare_parameter(void *context, const weft_nn_item *item)
{
    comparison *c = context;
    bool encoded = false;
    const weft__weight *found = take(c, item->path, &encoded);
    char detail[200] = "", got[80], wanted[80];
    if (found == NULL) {
        count(c, "lacks", item->path, "");
        return WEFT_OK;
    }
    shape_text(found->array, got, sizeof got);
    shape_text(*item->slot->address, wanted, sizeof wanted);
    if (!encoded && strcmp(got, wanted) != 0) {
        snprintf(detail, sizeof detail, ": %s, expected %s", got, wanted);
        count(c, "shape of", item->path, detail);
        return WEFT_OK;
    }
    c->found.n_same++;
    return WEFT_OK;
}

static weft_status compare_tensors(comparison *c, const weft_model_family *family,
                                   const weft_config *config, bool has_head)
{
    weft_model_info info = {0};
    weft_module *module = family->build(family, config, has_head, &info);
    if (module == NULL)
        return weft_error_status();
    if (info.n_caches == 0)
        info.n_caches = info.n_layers;
    weft__weights_find_unused(&c->weights, &info, config);
    weft_status status = weft_nn_visit(module, compare_parameter, c);
    for (int i = 0; i < c->weights.n && status == WEFT_OK; i++) {
        if (!c->weights.at[i].unused)
            count(c, "has", c->weights.at[i].path, "");
    }
    weft_nn_free(module);
    return status;
}

/* ---- configuration -------------------------------------------------------------------------- */

/* Keys that do not change what a model computes, or that are read by other parts of Weft. */
static bool is_neutral(const char *key)
{
    static const char *const names[] = {"architectures",
                                        "attention_dropout",
                                        "attn_implementation",
                                        "auto_map",
                                        "chunk_size_feed_forward",
                                        "dtype",
                                        "embd_pdrop",
                                        "hidden_dropout",
                                        "id2label",
                                        "initializer_range",
                                        "is_decoder",
                                        "is_encoder_decoder",
                                        "label2id",
                                        "max_position_embeddings",
                                        "model_type",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "pretraining_tp",
                                        "quantization",
                                        "quantization_config",
                                        "resid_pdrop",
                                        "output_router_logits",
                                        "router_aux_loss_coef",
                                        "return_dict",
                                        "text_config",
                                        "torch_dtype",
                                        "transformers_version",
                                        "use_cache"};
    bool found = key[0] == '_' || weft__ends_with(key, "_token_id");
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = strcmp(key, names[i]) == 0;
    return found;
}

/* Reports the keys of an object that the family did not read. Keys that are null or false mean what
 * their absence does. */
static void report_unread(comparison *c, json_object *object, weft__text *text)
{
    json_object_object_foreach(object, key, value)
    {
        if (is_neutral(key) || value == NULL || json_object_object_get_ex(c->asked, key, NULL) ||
            (json_object_is_type(value, json_type_boolean) && !json_object_get_boolean(value)))
            continue;
        const char *json = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
        char start[96];
        snprintf(start, sizeof start, "%s", json ? json : "");
        weft__text_format(text, "config.json: %s is not read: ", weft_printable(key));
        weft__text_format(text, "%s%s\n", weft_printable(start),
                          strlen(start) + 1 == sizeof start ? "..." : "");
        c->n_unread++;
    }
}

static void report(comparison *c, const weft_config *config)
{
    weft__text text = {0};
    json_object_object_foreach(c->counts, line, number)
    {
        const int n = json_object_get_int(number);
        weft__text_format(&text, n > 1 ? "%s (%d tensors)\n" : "%s\n", line, n);
    }
    report_unread(c, weft__config_object(config), &text);
    c->failed |= text.failed;
    if (text.n > 0)
        text.at[text.n - 1] = '\0';
    c->found.differences = text.at;
}

/* ---- families ------------------------------------------------------------------------------- */

static weft_status compare_in_scope(comparison *c, const weft_model_family *family,
                                    weft_config *config, const weft_safetensors *file)
{
    const weft__tensors tensors = {weft__weights_shape, &c->weights};
    weft_status status = weft__weights_read(file, family, &c->weights);
    if (status != WEFT_OK)
        return status;
    weft__config_set_tensors(config, &tensors);
    weft__config_record_keys(config, c->asked);
    status = compare_tensors(c, family, config,
                             !weft__config_is_tied(config) &&
                                 weft__weights_find(&c->weights, "lm_head.weight"));
    weft__config_record_keys(config, NULL);
    weft__config_set_tensors(config, NULL);
    return status;
}

static weft_status compare_family(const weft_model_family *family, const weft_config *original,
                                  const weft_safetensors *file, comparison *c)
{
    weft_config *config = NULL;
    *c = (comparison){.asked = json_object_new_object(),
                      .counts = json_object_new_object(),
                      .found.family = family};
    c->failed = c->asked == NULL || c->counts == NULL;
    weft_status status = c->failed ? WEFT_MEMORY
                                   : weft_config_parse(weft_config_text(original),
                                                       weft_config_where(original), &config);
    if (status == WEFT_OK) {
        weft_scope_open_lean();
        status = compare_in_scope(c, family, config, file);
        weft__weights_free(&c->weights);
        weft_scope_close(NULL);
    }
    if (status == WEFT_OK)
        report(c, config);
    weft_config_free(config);
    json_object_put(c->asked);
    json_object_put(c->counts);
    return c->failed
               ? weft__out_of_memory(weft_config_where(original), "comparing it with families")
               : status;
}

/* Whether the checkpoint is nearer to the family of `a` than to that of `b`. Of equal ones llama is
 * the nearest, which most families are variants of. */
static bool is_nearer(const comparison *a, const comparison *b)
{
    const int tensors = a->found.n_differences - b->found.n_differences,
              keys = a->n_unread - b->n_unread;
    if (b->found.family == NULL || tensors != 0 || keys != 0)
        return b->found.family == NULL || tensors < 0 || (tensors == 0 && keys < 0);
    return a->found.family == &weft__family_llama;
}

static weft_status find_nearest(const weft_config *config, const weft_safetensors *file,
                                weft_model_likeness *out)
{
    comparison nearest = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < weft_model_family_count() && status != WEFT_MEMORY; i++) {
        comparison c = {0};
        status = compare_family(weft_model_family_at(i), config, file, &c);
        if (status == WEFT_OK && c.found.n_same > 0 && is_nearer(&c, &nearest)) {
            weft_model_likeness_free(&nearest.found);
            nearest = c;
        } else {
            weft_model_likeness_free(&c.found);
        }
    }
    if (status == WEFT_MEMORY)
        weft_model_likeness_free(&nearest.found);
    *out = nearest.found;
    return status == WEFT_MEMORY ? status : WEFT_OK;
}

weft_status weft_model_likeness_find(const char *folder, weft_model_likeness *out)
{
    weft_config *config = NULL;
    weft_safetensors *file = NULL;
    weft_device *before = weft_default_device();
    *out = (weft_model_likeness){0};
    weft_status status = weft__config_load_folder(folder, &config);
    if (status == WEFT_OK)
        status = weft_safetensors_open_folder(folder, &file);
    /* On the CPU tensors are views of the file; another device would copy them for each family. */
    weft_set_default_device(weft_device_get("cpu"));
    if (status == WEFT_OK)
        status = find_nearest(config, file, out);
    weft_set_default_device(before);
    weft_safetensors_close(file);
    weft_config_free(config);
    return status;
}

void weft_model_likeness_free(weft_model_likeness *likeness)
{
    weft_free(likeness->differences);
    *likeness = (weft_model_likeness){0};
}
