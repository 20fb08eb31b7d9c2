/* models/convert/quantize.c -- selects the bits of each matrix, and describes them in config.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "models/classifier.h"
#include "models/convert/convert.h"
#include "models/convert/rules.h"
#include "models/names.h"
#include "models/save.h"
#include "weft/nn_tools.h"

static const struct {
    weft_quantize_mode mode;
    weft_encoding_kind kind;
    const char *name;
    int64_t bits, group;
} modes[] = {
    {WEFT_AFFINE, WEFT_ENCODING_AFFINE, "affine", 4, 64},
    {WEFT_MXFP4, WEFT_ENCODING_MXFP4, "mxfp4", 4, 32},
    {WEFT_MXFP8, WEFT_ENCODING_MXFP8, "mxfp8", 8, 32},
    {WEFT_NVFP4, WEFT_ENCODING_NVFP4, "nvfp4", 4, 16},
};

static weft_quantize_options with_defaults(weft_quantize_options format)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (modes[i].mode != format.mode)
            continue;
        format.bits = format.bits ? format.bits : modes[i].bits;
        format.group_size = format.group_size ? format.group_size : modes[i].group;
    }
    return format;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* Parses a number of bits. 0: "none"; -1: invalid. */
static int64_t bits_of(const char *value, size_t n)
{
    if (n == 4 && memcmp(value, "none", 4) == 0)
        return 0;
    return n == 1 && strchr("234568", *value) ? *value - '0' : -1;
}

static weft_status check_rule(void *context, const char *pattern, const char *value, size_t n)
{
    (void)context;
    return bits_of(value, n) >= 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "convert: %s: expected 2, 3, 4, 5, 6, 8 or none, got %.*s",
                           pattern, (int)n, value);
}

weft_status weft__convert_check(const weft_convert_options *o)
{
    if (!o->quantize && !o->recipe)
        return o->overrides
                   ? weft_fail(WEFT_INVALID, "convert: overrides need quantizing, or a GGUF file")
                   : WEFT_OK;
    if (o->recipe && weft__recipe_bits(o->recipe, "", 1) == 0)
        return weft_fail(WEFT_INVALID,
                         "convert: recipe '%s' is unknown (known: mixed_2_6, mixed_3_4, mixed_3_6, "
                         "mixed_4_6)",
                         weft_printable(o->recipe));
    if ((o->recipe || o->overrides) && o->format.mode != WEFT_AFFINE)
        return weft_fail(WEFT_INVALID, "convert: only affine matrices come in several widths");
    const weft_quantize_options format = with_defaults(o->format);
    if (weft_quantize_encoding(&format, WEFT_BFLOAT16) == NULL)
        return weft_error_status();
    return weft__rules_each(o->overrides, check_rule, NULL);
}

typedef struct pass {
    weft_status status; /* WEFT_INVALID: a matrix has values that are not finite */
    const char *where;
    const weft_convert_options *options;
    weft_quantize_options format;
    int64_t n_layers;
} pass;

static int64_t wanted(const pass *p, const char *path)
{
    size_t n;
    const char *value = weft__rule_find(p->options->overrides, path, &n);
    if (value)
        return bits_of(value, n);
    return p->options->recipe ? weft__recipe_bits(p->options->recipe, path, p->n_layers)
                              : with_defaults(p->options->format).bits;
}

static bool is_router(const char *path)
{
    static const char *const ends[] = {".mlp.gate", ".mlp.router", ".router.proj"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (n >= end && strcmp(path + n - end, ends[i]) == 0)
            return true;
    }
    return false;
}

static bool accepts(void *context, const char *path, const weft_module *m)
{
    pass *p = context;
    weft_array *const *weight = weft_nn_find((weft_module *)m, "weight");
    const bool fits = weight && !is_router(path) && !weft_encoding_of(*weight) &&
                      weft_dim(*weight, -1) % p->format.group_size == 0 &&
                      wanted(p, path) == p->format.bits;
    weft_scope_open();
    const int64_t at = fits && p->status == WEFT_OK ? weft__first_not_finite(*weight) : -1;
    weft_scope_close(NULL);
    if (at >= 0)
        p->status = weft_fail(WEFT_INVALID,
                              "%s: tensor '%s.weight': value %lld is NaN or infinite, which "
                              "%lld bits cannot store",
                              p->where, path, (long long)at, (long long)p->format.bits);
    return fits && p->status == WEFT_OK;
}

weft_status weft__convert_quantize(weft_model *model, const weft_convert_options *o)
{
    static const int64_t widths[] = {2, 3, 4, 5, 6, 8};
    weft_status status = WEFT_OK;
    if (!o->quantize && !o->recipe)
        return status;
    status = weft__rules_fit(o->overrides, weft_model_module(model), true);
    for (size_t i = 0; i < sizeof widths / sizeof *widths && status == WEFT_OK; i++) {
        pass p = {.options = o,
                  .where = weft_config_where(weft_model_config(model)),
                  .format = with_defaults(o->format),
                  .n_layers = weft_model_info_of(model)->n_layers};
        if (o->format.mode != WEFT_AFFINE && p.format.bits != widths[i])
            continue;
        p.format.bits = widths[i];
        const weft_nn_quantize_options options = {
            .format = p.format, .accepts = accepts, .context = &p};
        status = weft_nn_quantize(weft_model_module(model), &options);
        status = p.status == WEFT_OK ? status : p.status;
    }
    return status;
}

/* ---- config.json ---------------------------------------------------------------------------- */

static json_object *entry_of(const weft_encoding *e)
{
    json_object *entry = json_object_new_object();
    for (size_t i = 0; entry && i < sizeof modes / sizeof *modes; i++) {
        if (modes[i].kind != e->kind)
            continue;
        json_object_object_add(entry, "group_size", json_object_new_int64(e->block));
        json_object_object_add(entry, "bits", json_object_new_int64(e->bits));
        json_object_object_add(entry, "mode", json_object_new_string(modes[i].name));
    }
    return entry;
}

typedef struct survey {
    const weft_encoding *seen[16], *usual;
    int64_t counts[16];
    const weft__naming *naming; /* of mlx-lm's modules */
    json_object *out;
} survey;

static const weft_encoding *parts_of(const weft_nn_item *item)
{
    const weft_encoding *e = weft_encoding_of(*item->slot->address);
    return e && weft_encoding_has_parts(e->kind) ? e : NULL;
}

static bool alike(const weft_encoding *a, const weft_encoding *b)
{
    return a->kind == b->kind && a->block == b->block && a->bits == b->bits;
}

static weft_status count(void *context, const weft_nn_item *item)
{
    survey *s = context;
    const weft_encoding *e = parts_of(item);
    for (int i = 0; e && i < 16; i++) {
        if (s->seen[i] && !alike(s->seen[i], e))
            continue;
        s->seen[i] = e;
        s->counts[i]++;
        break;
    }
    return WEFT_OK;
}

static weft_status list(void *context, const weft_nn_item *item)
{
    survey *s = context;
    char name[WEFT_NN_PATH];
    const weft_encoding *e = parts_of(item);
    const size_t end = strlen(".weight");
    if (!e || alike(e, s->usual) || strlen(item->path) <= end)
        return WEFT_OK;
    weft__name_in(s->naming, item->path, name, sizeof name);
    name[strlen(name) - end] = '\0';
    char *both = strstr(name, ".mlp.experts.gate_up_proj"); /* stored as two matrices */
    for (int i = 0; both && i < 2; i++) {
        snprintf(strrchr(name, '.'), 16, "%s", i == 0 ? ".gate_proj" : ".up_proj");
        json_object_object_add(s->out, name, entry_of(e));
    }
    if (both == NULL)
        json_object_object_add(s->out, name, entry_of(e));
    return WEFT_OK;
}

/* The most common format, and exceptions by module; NULL: nothing is quantized. */
static json_object *quantization_of(weft_model *model, bool text_only)
{
    const weft_config *config = weft_model_config(model);
    survey s = {.naming = text_only ? &weft__names_text : weft__config_mlx_naming(config)};
    int best = 0;
    if (weft_nn_visit(weft_model_module(model), count, &s) != WEFT_OK || s.seen[0] == NULL)
        return NULL;
    for (int i = 1; i < 16; i++)
        best = s.counts[i] > s.counts[best] ? i : best;
    s.usual = s.seen[best];
    s.out = entry_of(s.usual);
    if (s.out)
        (void)weft_nn_visit(weft_model_module(model), list, &s); /* as for the first visit */
    return s.out;
}

static weft_status look_for_head(void *context, const weft_nn_item *item)
{
    bool *found = context;
    *found = *found || strcmp(item->path, "lm_head.weight") == 0;
    return WEFT_OK;
}

static bool has_head(weft_model *model)
{
    bool found = false;
    (void)weft_nn_visit(weft_model_module(model), look_for_head, &found); /* always WEFT_OK */
    return found;
}

bool weft__model_is_tied(weft_model *model)
{
    return weft_model_info_of(model)->tied && !has_head(model);
}

bool weft__model_is_untied(weft_model *model)
{
    return weft_model_info_of(model)->tied && has_head(model);
}

bool weft__model_is_resized(const weft_model *model)
{
    const int64_t n = weft_model_info_of(model)->vocab_size;
    return weft_config_int(weft_model_config(model), "vocab_size", n) != n;
}

/* Replaces a member wherever the configuration contains it: at the top level, in text_config, or
 * both. Takes ownership of the value. */
static void replace(json_object *root, const char *name, json_object *value)
{
    json_object *objects[] = {root, json_object_object_get(root, "text_config")};
    for (int i = 0; i < 2; i++) {
        if (objects[i] && json_object_object_get_ex(objects[i], name, NULL))
            json_object_object_add(objects[i], name, json_object_get(value));
    }
    json_object_put(value);
}

weft_status weft__convert_config(weft_model *model, bool text_only, char **text)
{
    const weft_config *config = weft_model_config(model);
    const char *source = weft_config_text(config), *where = weft_config_where(config);
    weft__json_doc doc = {0};
    *text = NULL;
    weft_status status = weft__json_parse(source, strlen(source), where, &doc);
    if (status != WEFT_OK)
        return status;
    const bool blocks = weft__model_keeps_blocks(model); /* and what describes them */
    if (!blocks)
        json_object_object_del(doc.root, "quantization_config");
    json_object_object_del(doc.root, "quantization");
    json_object *quantization = blocks ? NULL : quantization_of(model, text_only);
    if (quantization)
        json_object_object_add(doc.root, "quantization", quantization);
    if (weft__model_is_untied(model)) {
        json_object_object_add(doc.root, "tie_word_embeddings", json_object_new_boolean(false));
        replace(doc.root, "tie_word_embeddings", json_object_new_boolean(false));
        json_object_object_del(doc.root, "tie_embedding");
    }
    if (weft__model_is_resized(model))
        replace(doc.root, "vocab_size",
                json_object_new_int64(weft_model_info_of(model)->vocab_size));
    if (text_only)
        status = weft__text_config(model, &doc.root);
    if (weft_model_info_of(model)->n_labels > 0)
        weft__classifier_config(model, doc.root);
    weft__config_put_dtype(model, doc.root);
    const int flags =
        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
    const char *made = json_object_to_json_string_ext(doc.root, flags);
    *text = made && status == WEFT_OK ? weft_format("%s\n", made) : NULL;
    if (*text == NULL && status == WEFT_OK)
        status = weft__out_of_memory(where, NULL);
    weft__json_free(&doc);
    return status;
}
