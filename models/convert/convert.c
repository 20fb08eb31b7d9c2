/* models/convert/convert.c -- converts a model between file formats. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "models/convert/convert.h"
#include "models/generation.h"
#include "models/gguf/gguf.h"
#include "models/weights.h"
#include "weft/nn_tools.h"

typedef struct work {
    const char *source; /* the model: a folder or a GGUF file */
    const char *text;   /* location of the tokenizer */
    bool from_gguf, has_tokenizer;
    const char *out;
    const weft_convert_options *options;
    weft__convert_hooks hooks;
    weft_convert_report report;
    int64_t total;
} work;

static bool is_gguf(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".gguf") == 0;
}

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

static weft_status dense_dtype(const work *w, weft_dtype *dtype)
{
    static const struct {
        const char *name;
        weft_dtype dtype;
    } dtypes[] = {{"f32", WEFT_FLOAT32}, {"f16", WEFT_FLOAT16}, {"bf16", WEFT_BFLOAT16}};
    const char *type = w->options->type;
    *dtype = (weft_dtype)0;
    if (type == NULL || is_gguf(w->out))
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

/* ---- writing -------------------------------------------------------------------------------- */

/* Reports progress, and records it for the report. */
static void report_progress(void *context, int64_t bytes, int64_t total)
{
    work *w = context;
    w->report.bytes = bytes;
    if (w->options->progress.report)
        w->options->progress.report(w->options->progress.context, bytes, total);
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
        .progress = {report_progress, w},
    };
    return weft__model_save_gguf(model, w->out, &options, w->hooks.weight, w->hooks.context);
}

static weft_status write_config(weft_model *model, const char *folder)
{
    char *text = NULL, *path = weft_format("%s/config.json", folder);
    weft_status status = weft__convert_config(model, &text);
    if (status == WEFT_OK && path == NULL)
        status = weft__out_of_memory(folder, NULL);
    if (status == WEFT_OK)
        status = weft_file_write(path, text, strlen(text));
    weft_free(text);
    weft_free(path);
    return status;
}

/* Writes a GGUF file's generation settings, including the end-of-sequence ids, since
 * generation_config.json takes precedence for them. */
static weft_status write_generation(weft_model *model, const char *folder)
{
    const weft_config *c = weft__model_generation(model)->config;
    weft__text text = {0};
    int n;
    const int32_t *eos = weft_model_eos(model, &n);
    if (c == NULL)
        return WEFT_OK;
    weft__text_format(&text, "{\"eos_token_id\":[");
    for (int i = 0; i < n; i++)
        weft__text_format(&text, i ? ",%d" : "%d", (int)eos[i]);
    weft__text_format(&text, "],%s\n", weft_config_text(c) + 1);
    char *path = weft_format("%s/generation_config.json", folder);
    const weft_status status = path && !text.failed ? weft_file_write(path, text.at, text.n)
                                                    : weft__out_of_memory(folder, NULL);
    weft_free(path);
    weft_free(text.at);
    return status;
}

static weft_status write_text(const work *w, weft_model *model, const char *folder)
{
    const bool tokenizer = w->has_tokenizer && !w->options->no_tokenizer;
    const bool own = w->text != w->source;
    weft_status status = w->from_gguf ? write_generation(model, folder)
                                      : weft__text_files_copy(w->source, folder, tokenizer && !own);
    if (status == WEFT_OK && tokenizer && own)
        return weft_tokenizer_copy(w->text, folder);
    if (!w->from_gguf)
        return status;
    return status == WEFT_OK && tokenizer ? weft__text_files_make(w->source, folder) : status;
}

static weft_status write_folder(work *w, weft_model *model)
{
    const weft_convert_options *o = w->options;
    char *temporary;
    weft_status status = weft__folder_begin(w->out, o->replace, &temporary);
    if (status != WEFT_OK)
        return status;
    const weft_nn_save_options save = {
        .shard_bytes = o->shard_bytes > 0 ? o->shard_bytes : 5000000000,
        .progress = {report_progress, w},
        .files = &w->report.files,
    };
    status = write_text(w, model, temporary); /* first, since this may fail */
    if (status == WEFT_OK)
        status = weft__convert_quantize(model, o);
    if (status == WEFT_OK)
        status = write_config(model, temporary);
    if (status == WEFT_OK)
        status = weft_nn_save(weft_model_module(model), temporary, &save);
    if (status == WEFT_OK && w->hooks.add)
        status = w->hooks.add(w->hooks.context, temporary);
    status = weft__folder_end(w->out, temporary, status);
    weft_free(temporary);
    return status;
}

static weft_status convert(work *w)
{
    const bool gguf = is_gguf(w->out);
    weft_model *model = NULL;
    weft_model_options load = {0};
    weft_status status = dense_dtype(w, &load.dtype);
    if (status == WEFT_OK && !gguf)
        status = weft__convert_check(w->options);
    if (status == WEFT_OK)
        status = weft__model_load_tree(w->source, !gguf, &load, &model);
    if (status != WEFT_OK)
        return status;
    w->has_tokenizer = w->hooks.text || has_tokenizer(w->source, w->from_gguf);
    w->report.parameters = weft_nn_count(weft_model_module(model), false);
    if (w->hooks.edit)
        status = w->hooks.edit(w->hooks.context, model);
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
    weft_status status = weft__gguf_find(model, &gguf);
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
