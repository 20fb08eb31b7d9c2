/* models/convert/convert.c -- converts a model between file formats. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "models/generation.h"
#include "models/gguf/gguf.h"
#include "models/names.h"
#include "models/save.h"
#include "weft/nn_tools.h"

typedef struct work {
    const char *source; /* the model: a folder or a GGUF file */
    const char *text;   /* location of the tokenizer */
    bool from_gguf, has_tokenizer;
    bool blocks;      /* matrices of the source are in GGUF's blocks */
    weft_dtype dtype; /* of a folder's dense tensors; 0: that of the source */
    bool more_eos;    /* the edit added end-of-sequence ids */
    const char *out;
    const weft_model *model;
    const weft_convert_options *options;
    weft__convert_hooks hooks;
    weft_convert_report report;
    int64_t total;
} work;

/* ---- the source ------------------------------------------------------------------------------ */

/* Whether the source has a tokenizer; a folder without one is converted without one. */
static bool has_tokenizer(const char *source, bool gguf)
{
    weft_gguf *file;
    weft_gguf_string model;
    if (gguf) {
        if (weft_gguf_open(source, &file) != WEFT_OK)
            return false;
        const weft_gguf_value *v = weft_gguf_value_find(file, "tokenizer.ggml.model");
        const bool has = weft_gguf_value_string(v, 0, &model) &&
                         !(model.n == 8 && memcmp(model.at, "no_vocab", 8) == 0);
        weft_gguf_close(file);
        return has;
    }
    char *path = weft_format("%s/tokenizer.json", source);
    const bool has = path && weft__exists(path);
    weft_free(path);
    return has;
}

/* Whether the first matrix of a GGUF file is in blocks. */
static bool in_blocks(const char *source)
{
    weft_gguf *file;
    if (weft_gguf_open(source, &file) != WEFT_OK)
        return false;
    const int i = weft_gguf_find(file, "blk.0.attn_q.weight");
    const bool blocks = i >= 0 && weft_gguf_at(file, i)->encoding != NULL;
    weft_gguf_close(file);
    return blocks;
}

static weft_status dense_dtype(const work *w, weft_dtype *dtype)
{
    static const struct {
        const char *name;
        weft_dtype dtype;
    } dtypes[] = {{"f32", WEFT_FLOAT32}, {"f16", WEFT_FLOAT16}, {"bf16", WEFT_BFLOAT16}};
    const char *type = w->options->type;
    *dtype = type == NULL && w->blocks ? WEFT_BFLOAT16 : (weft_dtype)0;
    if (type == NULL || weft__ends_with(w->out, ".gguf"))
        return WEFT_OK;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcasecmp(dtypes[i].name, type) == 0) {
            *dtype = dtypes[i].dtype;
            return WEFT_OK;
        }
    }
    return weft_fail(WEFT_UNSUPPORTED,
                     "convert: %s: type '%s' is for GGUF files: expected an OUT that ends with "
                     ".gguf, or f32, f16 or bf16",
                     w->out, weft_printable(type));
}

static bool quantizes(const weft_convert_options *o)
{
    return o->quantize || o->recipe;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Reports progress, and records it for the report. */
static void report_progress(void *context, int64_t bytes, int64_t total)
{
    work *w = context;
    w->report.bytes = bytes;
    if (w->options->progress.report)
        w->options->progress.report(w->options->progress.context, bytes, total);
}

/* Whether a tensor of that name is copied from the source, which then has the value too. */
static bool is_copied(const work *w, const char *name)
{
    const weft__weights *stored = weft__model_stored(w->model);
    for (int i = 0; i < stored->n; i++) {
        if (stored->at[i].unused && strcmp(stored->at[i].name, name) == 0)
            return true;
    }
    return w->hooks.edit == NULL && w->options->type == NULL && !quantizes(w->options) &&
           !w->blocks;
}

/* A model with values that are not finite computes nothing else. A copy is written as it is. */
static weft_status not_finite(void *context, const char *name, int64_t index)
{
    const work *w = context;
    if (!is_copied(w, name))
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': value %lld would be NaN or infinite",
                         w->out, weft_printable(name), (long long)index);
    weft_log_message(WEFT_LOG_WARNING, "%s: tensor '%s': value %lld is NaN or infinite, as in %s",
                     w->out, weft_printable(name), (long long)index, w->source);
    return WEFT_OK;
}

/* The folder or file that says how embeddings are made: an adapter's, or else the model's. */
static const char *settings_of(const work *w)
{
    char *path = weft_format("%s/modules.json", w->text);
    const bool own = path && weft__exists(path);
    weft_free(path);
    return own ? w->text : w->source;
}

static weft_status write_gguf(work *w, weft_model *model)
{
    const weft_convert_options *o = w->options;
    if (o->quantize || o->recipe)
        return weft_fail(WEFT_UNSUPPORTED,
                         "convert: %s: GGUF files take a type (q8_0, q4_0, q4_k, q5_k, q6_k), "
                         "not bits, groups or recipes",
                         w->out);
    if (weft__exists(w->out) && !o->replace)
        return weft_fail(WEFT_INVALID, "%s: is there already", w->out);
    w->report.files = 1;
    const weft_gguf_model_options options = {
        .type = o->type,
        .text = w->has_tokenizer && !o->no_tokenizer ? w->text : NULL,
        .overrides = o->overrides,
        .progress = {report_progress, w, not_finite},
    };
    weft__types types = {0};
    weft__gguf_source source = {.weight = w->hooks.weight,
                                .context = w->hooks.context,
                                .keep = true,
                                .types = &types,
                                .settings = settings_of(w)};
    weft_status status = WEFT_OK;
    if (w->from_gguf && o->type == NULL)
        status = weft_gguf_open(w->source, &source.file);
    if (status == WEFT_OK)
        status = weft__model_save_gguf(model, w->out, &options, &source);
    weft_gguf_close(source.file);
    weft__types_text(&types, w->report.types, sizeof w->report.types);
    return status;
}

static weft_status write_config(weft_model *model, bool text_only, const char *folder)
{
    char *text = NULL, *path = weft_format("%s/config.json", folder);
    weft_status status = weft__convert_config(model, text_only, &text);
    if (status == WEFT_OK && path == NULL)
        status = weft__out_of_memory(folder, NULL);
    if (status == WEFT_OK)
        status = weft_file_write(path, text, strlen(text));
    weft_free(text);
    weft_free(path);
    return status;
}

/* Copies an id from config.json, unless it is there or there is none. */
static bool copy_id(weft_model *model, json_object *root, const char *name)
{
    const int64_t id = weft_config_int(weft_model_config(model), name, -1);
    if (id < 0 || json_object_object_get_ex(root, name, NULL))
        return true;
    return json_object_object_add(root, name, json_object_new_int64(id)) == 0;
}

/* The model's generation settings with its end-of-sequence ids. The caller drops *out. */
static weft_status generation_of(weft_model *model, json_object **out)
{
    const weft_config *c = weft__model_generation(model)->config;
    int n;
    const int32_t *eos = weft_model_eos(model, &n);
    json_object *root = c ? json_tokener_parse(weft_config_text(c)) : json_object_new_object();
    json_object *ids = n == 1 ? json_object_new_int(eos[0]) : json_object_new_array();
    bool fine = root && ids;
    for (int i = 0; fine && n > 1 && i < n; i++)
        fine = json_object_array_add(ids, json_object_new_int(eos[i])) == 0;
    if (n == 0)
        json_object_put(ids);
    else
        fine = fine && json_object_object_add(root, "eos_token_id", ids) == 0;
    fine = fine && copy_id(model, root, "bos_token_id") && copy_id(model, root, "pad_token_id");
    if (fine) {
        *out = root;
        return WEFT_OK;
    }
    json_object_put(root);
    return weft__out_of_memory("generation_config.json", NULL);
}

/* Writes the generation settings of a GGUF file, or those of a model whose end-of-sequence ids were
 * changed, since generation_config.json takes precedence for them. */
static weft_status write_generation(weft_model *model, const char *folder)
{
    json_object *root = NULL;
    weft_status status = generation_of(model, &root);
    if (status != WEFT_OK)
        return status;
    char *path = weft_format("%s/generation_config.json", folder);
    const char *text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY |
                                                                JSON_C_TO_STRING_NOSLASHESCAPE);
    status = path && text ? weft_file_write(path, text, strlen(text))
                          : weft__out_of_memory(folder, NULL);
    weft_free(path);
    json_object_put(root);
    return status;
}

/* Copies the text files of the adapter, perhaps only a chat template, and how it makes embeddings
 * or else how the model does. */
static weft_status copy_own_text(const work *w, const char *folder)
{
    weft_status status = weft_tokenizer_copy(w->text, folder);
    if (status == WEFT_OK && !w->from_gguf)
        status = weft__embed_files_copy(w->source, folder);
    return status == WEFT_OK ? weft__embed_files_copy(w->text, folder) : status;
}

static weft_status write_text(const work *w, weft_model *model, bool text_only, const char *folder)
{
    const bool tokenizer = w->has_tokenizer && !w->options->no_tokenizer;
    const bool own = w->text != w->source;
    weft_status status =
        w->from_gguf ? WEFT_OK : weft__text_files_copy(w->source, folder, tokenizer && !own);
    if (status == WEFT_OK && !w->from_gguf && !text_only)
        status = weft__processor_files_copy(w->source, folder);
    if (status == WEFT_OK && (w->from_gguf || w->more_eos))
        status = write_generation(model, folder);
    if (status == WEFT_OK && own && !w->options->no_tokenizer)
        return copy_own_text(w, folder);
    if (!w->from_gguf)
        return status;
    return status == WEFT_OK && tokenizer ? weft__text_files_make(w->source, folder) : status;
}

/* Warns when other parts of a multimodal model are left out without being asked. */
static void warn_of_parts(const work *w, const weft_model *model)
{
    const weft__weights *stored = weft__model_stored(model);
    for (int i = 0; i < stored->n; i++) {
        if (stored->at[i].unused && weft__tower_of(stored->at[i].name)) {
            weft_log_message(WEFT_LOG_WARNING, "%s: has the text model alone, without the %s",
                             w->out, weft__tower_of(stored->at[i].name));
            return;
        }
    }
}

static weft_status write_folder(work *w, weft_model *model)
{
    const weft_convert_options *o = w->options;
    weft__folder f;
    weft_status status = weft__folder_begin(w->out, o->replace, &f);
    if (status != WEFT_OK)
        return status;
    const weft_nn_save_options save = {
        .shard_bytes = o->shard_bytes > 0 ? o->shard_bytes : 5000000000,
        .progress = {report_progress, w, not_finite},
        .files = &w->report.files,
    };
    if (w->dtype && !quantizes(o))
        status = weft__model_retype(model, w->dtype, o->type != NULL);
    const bool dense = !quantizes(o) && !weft__model_is_mlx(model);
    const bool text_only = weft__model_saves_text(model, o->text_only, dense);
    if (text_only && !o->text_only)
        warn_of_parts(w, model);
    if (status == WEFT_OK)
        status = write_text(w, model, text_only, f.path); /* first, since this may fail */
    if (status == WEFT_OK)
        status = weft__convert_quantize(model, o);
    weft__types types = {0};
    weft__types_of(model, &types);
    weft__types_text(&types, w->report.types, sizeof w->report.types);
    w->report.mlx = weft__model_is_mlx(model) && !weft__model_keeps_blocks(model);
    if (status == WEFT_OK)
        status = write_config(model, text_only, f.path);
    if (status == WEFT_OK)
        status = weft__model_save_tensors(model, f.path, text_only, &save);
    if (status == WEFT_OK && w->hooks.add)
        status = w->hooks.add(w->hooks.context, f.path);
    return weft__folder_replace(&f, w->out, status);
}

/* The dtype to load with. Tensors are converted once, after an adapter has been merged: until then
 * they keep the dtype of the source, or have float32 where the source has several. */
static weft_dtype loaded_dtype(const work *w)
{
    if (weft__ends_with(w->out, ".gguf"))
        return (weft_dtype)0;
    if (quantizes(w->options))
        return w->dtype;
    return w->blocks || w->dtype == WEFT_FLOAT32 ? WEFT_FLOAT32 : (weft_dtype)0;
}

static weft_status convert(work *w)
{
    const bool gguf = weft__ends_with(w->out, ".gguf");
    weft_model *model = NULL;
    w->blocks = w->from_gguf && in_blocks(w->source);
    weft_status status = dense_dtype(w, &w->dtype);
    const weft_model_options load = {.dtype = loaded_dtype(w)};
    if (status == WEFT_OK && !gguf)
        status = weft__convert_check(w->options);
    if (status == WEFT_OK)
        status = weft__model_load_tree(w->source, !gguf, &load, &model);
    if (status == WEFT_OK && !gguf && quantizes(w->options) &&
        weft_model_info_of(model)->n_labels > 0)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s: a classifier as a quantized model in MLX's format is unsupported",
                           w->source);
    if (status != WEFT_OK) {
        weft_model_free(model);
        return status;
    }
    w->model = model;
    w->has_tokenizer = w->hooks.text ? has_tokenizer(w->hooks.text, false)
                                     : has_tokenizer(w->source, w->from_gguf);
    w->report.parameters = weft_nn_count(weft_model_module(model), false);
    int n_eos, n_edited;
    weft_model_eos(model, &n_eos);
    if (w->hooks.edit)
        status = w->hooks.edit(w->hooks.context, model);
    weft_model_eos(model, &n_edited);
    w->more_eos = n_edited > n_eos;
    if (status == WEFT_OK)
        status = gguf ? write_gguf(w, model) : write_folder(w, model);
    weft_model_free(model);
    return status;
}

weft_status weft__convert_with(const char *model, const char *out,
                               const weft_convert_options *options,
                               const weft__convert_hooks *hooks, weft_convert_report *report)
{
    static const weft_convert_options defaults = {0};
    char *gguf;
    work w = {.source = model, .out = out, .options = options ? options : &defaults};
    if (hooks)
        w.hooks = *hooks;
    weft_status status = weft__check_output(out, model);
    if (status == WEFT_OK)
        status = weft__gguf_find(model, &gguf);
    if (status == WEFT_OK && gguf)
        status = weft__check_output(out, gguf);
    if (status != WEFT_OK)
        return status;
    w.from_gguf = gguf != NULL;
    w.source = gguf ? gguf : model;
    w.text = w.hooks.text ? w.hooks.text : w.source;
    status = convert(&w);
    weft_free(gguf);
    if (report)
        *report = w.report;
    return status;
}

weft_status weft_convert(const char *model, const char *out, const weft_convert_options *options,
                         weft_convert_report *report)
{
    return weft__convert_with(model, out, options, NULL, report);
}
