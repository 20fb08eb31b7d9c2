/* models/save.c -- saves a model: its tensors under the names of the checkpoint that it was loaded
 * from, unused tensors of the checkpoint unchanged, and config.json. */
#include "models/save.h"

#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/named.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "models/encoder.h"
#include "models/family.h"
#include "models/names.h"
#include "nn/module.h"

typedef struct writing {
    const weft__weights *stored;
    const weft__naming *naming;  /* of parameters that the checkpoint does not have */
    const weft__family *family;  /* NULL: a program's own */
    const weft__naming *classes; /* of an encoder with labels, whatever the checkpoint's; or NULL */
    bool text_only;
    bool labeled;     /* the tree has a head; that of the checkpoint is not copied */
    bool dense;       /* no matrix is quantized: the layout is that of transformers */
    bool blocks;      /* weft__model_keeps_blocks */
    const char *taps; /* dense, and the tree has MLX's layout of these convolutions; or NULL */
    const weft_named_arrays *parameters;
    weft_named_arrays out;
} writing;

/* ---- names ---------------------------------------------------------------------------------- */

static const weft__naming *naming_of(const weft__weights *stored)
{
    const weft__weight *first = weft__weights_find(stored, "model.embed_tokens.weight");
    return first && first->name ? weft__naming_of(first->name) : &weft__names_text;
}

static const char delta_taps[] = "linear_attn.conv1d.weight";

/* The convolutions that MLX stores as (C, taps, 1), if the tree has these; or NULL. */
static const char *taps_first(weft_model *model)
{
    static const char *const all[] = {delta_taps, "conv.conv.weight", "mamba.conv1d.weight",
                                      "mixer.conv1d.weight"};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (int64_t i = 0; i < weft_model_info_of(model)->n_layers; i++) {
            char path[96];
            snprintf(path, sizeof path, "model.layers.%lld.%s", (long long)i, all[k]);
            weft_array **conv = weft_nn_find(weft_model_module(model), path);
            if (conv)
                return weft_dim(*conv, -1) == 1 ? all[k] : NULL;
        }
    }
    return NULL;
}

/* Whether a multimodal checkpoint was written by MLX. Older files of transformers have the same
 * names, but not the channels of images last, nor quantized towers. */
static bool is_from_mlx(weft_model *model)
{
    enum { CHANNELS = 3 };
    const weft__weights *stored = weft__model_stored(model);
    bool others = false;
    if (naming_of(stored) != &weft__names_mlx)
        return false;
    for (int i = 0; i < stored->n; i++) {
        const weft_array *a = stored->at[i].array;
        if (!stored->at[i].unused)
            continue;
        if ((weft_ndim(a) >= 4 && weft_dim(a, -1) == CHANNELS) ||
            weft__ends_with(stored->at[i].name, ".scales"))
            return true;
        others = true;
    }
    return taps_first(model) ||
           (!others && weft_config_has(weft_model_config(model), "quantization"));
}

bool weft__model_saves_text(weft_model *model, bool asked, bool dense)
{
    return weft__config_at_top(weft_model_config(model), "text_config").value &&
           (asked || naming_of(weft__model_stored(model)) == &weft__names_text ||
            (dense && is_from_mlx(model)));
}

/* The name of a parameter in the checkpoint; NULL: it has none. */
static const char *stored_name(const writing *w, const char *path)
{
    const weft__weight *found = weft__weights_find(w->stored, path);
    return found && !found->unused ? found->name : NULL;
}

/* The name of a parameter, or of a part of a quantized one, which is named like its codes. */
static void name_of(const writing *w, const char *path, char *out, size_t size)
{
    char codes[WEFT_NN_PATH];
    const char *name = stored_name(w, path), *dot = strrchr(path, '.');
    if (w->classes) {
        weft__name_in(w->classes, path, out, size);
        return;
    }
    if (name) {
        snprintf(out, size, "%s", name);
        return;
    }
    snprintf(codes, sizeof codes, "%.*s.weight", (int)(dot ? dot - path : 0), path);
    const char *of_codes = dot ? stored_name(w, codes) : NULL;
    if (of_codes)
        snprintf(out, size, "%.*s%s", (int)(strrchr(of_codes, '.') - of_codes), of_codes, dot);
    else if (w->family == NULL || !weft__ends_with(path, ".weight") ||
             !weft__name_stored(w->family, path, out, size))
        weft__name_in(w->naming, path, out, size);
}

const weft__naming *weft__model_label_naming(weft_model *model)
{
    const weft_model_info *info = weft_model_info_of(model);
    return info->encoder && info->n_labels > 0 ? weft__encoder_naming(weft_model_module(model))
                                               : NULL;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static weft_status put(writing *w, const char *name, weft_array *a)
{
    char text[WEFT_NN_PATH];
    if (w->text_only)
        weft__name_path(name, text, sizeof text);
    return weft__named_arrays_add(&w->out, w->text_only ? text : name, a)
               ? WEFT_OK
               : weft__out_of_memory(name, "saving it");
}

/* Stores each expert by itself, under names that differ from that of expert 0 by the number. */
static weft_status put_each(writing *w, const char *first, const char *number, weft_array *a)
{
    char name[WEFT_NN_PATH];
    weft_status status = WEFT_OK;
    for (int64_t e = 0; e < weft_dim(a, 0) && status == WEFT_OK; e++) {
        snprintf(name, sizeof name, "%.*s%lld%s", (int)(number - first), first, (long long)e,
                 number + 1);
        status = put(w, name, weft_squeeze(weft_slice_axis(a, 0, e, e + 1), 0));
    }
    return status;
}

/* Stores gates and ups of all experts as one tensor (n, 2 F, E) that replaces the gates. */
static weft_status put_joined(writing *w, const char *name, const char *path, weft_array *a)
{
    static const char gates[] = ".gate_proj.weight";
    char other[WEFT_NN_PATH];
    if (!weft__ends_with(path, gates))
        return WEFT_OK;
    snprintf(other, sizeof other, "%.*s.up_proj.weight", (int)(strlen(path) - strlen(gates)), path);
    weft_array *ups = weft_named_arrays_find(w->parameters, other);
    return put(w, name, weft_concatenate((weft_array *[]){a, ups}, 2, 1)); /* (n, 2 F, E) */
}

/* The name that transformers gives to a stack of a model that is not from a folder: of expert 0, or
 * of all of them. */
static void usual_name(const writing *w, const char *path, char *out, size_t size)
{
    char name[WEFT_NN_PATH];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(path) - strlen(".weight")), path);
    if (w->family == NULL || !weft__name_stored(w->family, path, out, size))
        (void)weft__nn_stack_name(name, true, out, size); /* it is one, and as long before */
}

/* A stack's path in a tree, whose name in checkpoints is another one. */
static bool is_stack(const char *path)
{
    return strstr(path, ".switch_") != NULL;
}

static weft_status put_alternating(void *context, const char *path, weft_array *a)
{
    writing *w = context;
    char name[WEFT_NN_PATH];
    weft__name_in(w->naming, path, name, sizeof name);
    return put(w, name, a);
}

/* A parameter of MLX's convolutions in transformers' layout: taps (C, K, 1) become (C, 1, K). With
 * gated delta nets, the gains of norms are stored minus 1. */
static weft_array *restored(const char *taps, const char *path, weft_array *a)
{
    if (weft__ends_with(path, taps))
        return weft_swapaxes(a, 1, 2);
    if (taps == delta_taps && weft__ends_with(path, "norm.weight") &&
        !weft__ends_with(path, ".linear_attn.norm.weight"))
        return weft_subtract(a, weft_scalar(1, weft_dtype_of(a)));
    return a;
}

static weft_status put_parameter(writing *w, const char *path, weft_array *a)
{
    static const char first[] = ".experts.0.";
    char name[WEFT_NN_PATH], usual[WEFT_NN_PATH];
    const bool codes = !weft_dtype_is_float(weft_dtype_of(a)) || !weft__ends_with(path, ".weight");
    const char *stored = is_stack(path) && !codes ? stored_name(w, path) : NULL;
    if (w->family && w->family->defaults->alternating && weft__alternating_is(path))
        return weft__alternating_write(path, a, w->parameters, !w->dense && !w->blocks,
                                       put_alternating, w);
    a = w->taps ? restored(w->taps, path, a) : a;
    if (is_stack(path) && !codes && (stored == NULL || (w->dense && is_stack(stored)))) {
        usual_name(w, path, usual, sizeof usual);
        stored = usual;
    }
    const char *at = stored ? strstr(stored, first) : NULL;
    if (at)
        return put_each(w, stored, at + strlen(first) - 2, a);
    if (stored && (weft__ends_with(stored, ".gate_up_proj") ||
                   weft__ends_with(stored, ".block_sparse_moe.input_linear.weight")))
        return put_joined(w, stored, path, a);
    if (is_stack(path) && codes)
        weft__name_in(w->naming, path, name, sizeof name);
    else if (stored == NULL)
        name_of(w, path, name, sizeof name);
    return put(w, stored ? stored : name, a);
}

static weft_status put_unused(writing *w)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < w->stored->n && !w->text_only && !w->classes && status == WEFT_OK; i++) {
        const weft__weight *own = &w->stored->at[i];
        char name[WEFT_NN_PATH];
        if (!own->unused || (w->labeled && weft__is_label_head(own->path)))
            continue;
        if (own->name == NULL) /* of a GGUF file */
            name_of(w, own->path, name, sizeof name);
        status = put(w, own->name ? own->name : name, weft_decode(own->array));
    }
    return status;
}

typedef struct survey {
    const weft__weights *stored;
    int blocks, others;
} survey;

static weft_status count_blocks(void *context, const weft_nn_item *item)
{
    survey *s = context;
    const weft_encoding *e = weft_encoding_of(*item->slot->address);
    const weft__weight *found = weft__weights_find(s->stored, item->path);
    if (e == NULL)
        return WEFT_OK;
    const bool block = e->kind == WEFT_ENCODING_MXFP4 && found && found->name &&
                       weft__ends_with(found->name, "_blocks");
    s->blocks += block;
    s->others += !block;
    return WEFT_OK;
}

bool weft__model_keeps_blocks(weft_model *model)
{
    survey s = {.stored = weft__model_stored(model)};
    (void)weft_nn_visit(weft_model_module(model), count_blocks, &s); /* always WEFT_OK */
    return s.blocks > 0 && s.others == 0;
}

/* Encoders from GGUF files get the names of their classes with heads, which the others read too. */
static const weft__naming *naming_for(weft_model *model)
{
    const weft__weights *stored = weft__model_stored(model);
    const bool named = stored->n == 0 || stored->at[0].name;
    return named || weft_model_family_of(model)->head != weft__encoder_head
               ? naming_of(stored)
               : weft__encoder_naming(weft_model_module(model));
}

weft_status weft__model_save_tensors(weft_model *model, const char *path, bool text_only,
                                     const weft_nn_save_options *options)
{
    weft_named_arrays parameters;
    const weft__weights *stored = weft__model_stored(model);
    writing w = {.stored = stored,
                 .naming = naming_for(model),
                 .family = weft_model_family_of(model)->own,
                 .classes = weft__model_label_naming(model),
                 .text_only = text_only,
                 .labeled = weft_model_info_of(model)->n_labels > 0,
                 .dense = !weft__model_is_mlx(model),
                 .blocks = weft__model_keeps_blocks(model),
                 .parameters = &parameters};
    w.taps = w.dense ? taps_first(model) : NULL;
    weft_scope_open_lean();
    weft_status status = weft__nn_saved(weft_model_module(model), options, &parameters);
    for (int i = 0; i < parameters.n && status == WEFT_OK; i++)
        status = put_parameter(&w, parameters.names[i], parameters.arrays[i]);
    if (status == WEFT_OK)
        status = put_unused(&w);
    if (status == WEFT_OK)
        status = weft__nn_write(path, &w.out, options);
    weft_scope_close(NULL);
    weft_named_arrays_free(&parameters);
    weft_named_arrays_free(&w.out);
    return status;
}

/* ---- folders -------------------------------------------------------------------------------- */

static weft_status save_files(weft_model *model, const char *weights, const char *config)
{
    static const weft_nn_save_options options = {0};
    char *text = NULL;
    const bool text_only = weft__model_saves_text(model, false, !weft__model_is_mlx(model));
    weft_status status = weft__model_save_tensors(model, weights, text_only, &options);
    if (status == WEFT_OK &&
        (text_only || weft__model_is_untied(model) || weft__model_is_resized(model) ||
         weft_model_info_of(model)->n_labels > 0))
        status = weft__convert_config(model, text_only, &text);
    const char *written = text ? text : weft_config_text(weft_model_config(model));
    if (status == WEFT_OK)
        status = weft_file_write(config, written, strlen(written));
    weft_free(text);
    return status;
}

weft_status weft_model_save(weft_model *model, const char *folder)
{
    if (weft_nn_lora_count(weft_model_module(model)) > 0)
        return weft_fail(WEFT_INVALID, "%s: save: the model has adapters; merge and remove them",
                         folder);
    weft__folder f;
    weft_status status = weft__folder_open_new(folder, &f);
    char *weights = weft_format("%s/model.safetensors", status == WEFT_OK ? f.path : "");
    char *config = weft_format("%s/config.json", status == WEFT_OK ? f.path : "");
    if (status == WEFT_OK && (weights == NULL || config == NULL))
        status = weft__out_of_memory(folder, "saving the model");
    if (status == WEFT_OK)
        status = save_files(model, weights, config);
    weft_free(weights);
    weft_free(config);
    return weft__folder_replace(&f, folder, status);
}
