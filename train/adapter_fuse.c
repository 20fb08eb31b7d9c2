/* train/adapter_fuse.c -- an adapter merged into its base, written as a complete model. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "train/adapter.h"
#include "train/number.h"

typedef struct fusion {
    const char *model, *adapter;
    weft_convert_options options; /* its overrides are `overrides`, once the adapter is loaded */
    weft__text overrides;
    int n_adapted;
} fusion;

static bool is_gguf_quantized(const char *type)
{
    return type && (type[0] == 'q' || type[0] == 'Q');
}

/* Rules that give the adapted matrices 8 bits, after the caller's own rules. */
static weft_status write_overrides(fusion *f, const weft__names *adapted)
{
    const weft_convert_options *o = &f->options;
    const bool blocks = is_gguf_quantized(o->type);
    if (!blocks && !o->quantize && !o->recipe)
        return WEFT_OK;
    if (o->overrides)
        weft__text_format(&f->overrides, "%s", o->overrides);
    for (int i = 0; i < adapted->n; i++)
        weft__text_format(&f->overrides, "%s%s=%s", f->overrides.n ? "," : "", adapted->at[i],
                          blocks ? "q8_0" : "8");
    if (f->overrides.failed)
        return weft__out_of_memory(f->adapter, "the list of adapted matrices");
    f->options.overrides = f->overrides.at;
    return WEFT_OK;
}

static weft_status edit(void *context, weft_model *model)
{
    fusion *f = context;
    weft_module *tree = weft_model_module(model);
    weft__names linears = {0}, adapted = {0};
    weft_status status = weft_adapter_load(model, f->adapter, NULL);
    if (status == WEFT_OK)
        status = weft__adapter_linears(tree, &linears, &adapted);
    f->n_adapted = adapted.n;
    if (status == WEFT_OK)
        status = write_overrides(f, &adapted);
    if (status == WEFT_OK)
        status = weft_nn_lora_merge(tree);
    if (status == WEFT_OK)
        weft_nn_lora_remove(tree);
    weft__names_free(&linears);
    weft__names_free(&adapted);
    return status;
}

/* ---- the model card ------------------------------------------------------------------------- */

/* The base's name in the adapter's configuration, else the path that it was loaded from. */
static weft_status write_card(weft__text *t, const fusion *f)
{
    weft__adapter_config c;
    const char *base = NULL;
    char number[WEFT__NUMBER_TEXT];
    weft_status status = weft__adapter_config_read(f->adapter, &c);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&c.doc);
    status = weft__json_find_string(&root, "base_model_name_or_path", &base);
    if (status == WEFT_OK) {
        weft__text_format(t, "---\nlibrary_name: transformers\npipeline_tag: text-generation\n"
                             "base_model: ");
        weft__text_quote(t, base && *base ? base : f->model);
        weft__text_format(t, "\ntags:\n- lora\n- merged\n---\n\n# Merged model\n\n"
                             "A base model with a LoRA adapter merged into its weights. It loads "
                             "without the adapter.\n\n| | |\n|---|---|\n");
        weft__text_format(t, "| Base model | %s |\n", base && *base ? base : f->model);
        weft__text_format(t, "| Adapted matrices | %d |\n| Rank | %lld |\n", f->n_adapted,
                          (long long)c.rank);
        weft__text_format(t, "| lora_alpha | %s%s |\n", weft__number(c.alpha, number),
                          c.rslora ? " (rsLoRA)"
                          : c.dora ? " (DoRA)"
                                   : "");
        weft__text_format(t, "\nThe license of the base model applies.\n");
    }
    weft__adapter_config_free(&c);
    return status;
}

static weft_status add_card(void *context, const char *folder)
{
    weft__text t = {0};
    char *path = weft_format("%s/README.md", folder);
    weft_status status = write_card(&t, context);
    if (status == WEFT_OK)
        status = path && !t.failed ? weft_file_write(path, t.at, t.n)
                                   : weft__out_of_memory(folder, "the model card");
    weft_free(t.at);
    weft_free(path);
    return status;
}

/* ---- fusing --------------------------------------------------------------------------------- */

weft_status weft_adapter_fuse(const char *model, const char *adapter, const char *out,
                              const weft_convert_options *options, weft_convert_report *report)
{
    fusion f = {.model = model, .adapter = adapter};
    if (options)
        f.options = *options;
    if (adapter == NULL)
        return weft_fail(WEFT_INVALID, "fuse: expected the folder of an adapter, got none");
    if (f.options.quantize && f.options.format.mode != WEFT_AFFINE)
        return weft_fail(WEFT_UNSUPPORTED, "fuse: expected the mode affine: adapted matrices get "
                                           "8 bits, and only affine matrices come in several "
                                           "widths");
    const weft__convert_hooks hooks = {edit, add_card, &f};
    const weft_status status = weft__convert_with(model, out, &f.options, &hooks, report);
    weft_free(f.overrides.at);
    return status;
}
