/* train/adapter/fuse.c -- merges an adapter into its base and writes a complete model. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "nn/lora.h"
#include "nn/tokens.h"
#include "train/adapter/card.h"
#include "train/adapter/experts.h"
#include "train/run/number.h"
#include "train/run/place.h"
#include "weft/nn_tools.h"

enum { USUAL_BITS = 6 };

typedef struct fusion {
    const char *model, *adapter;
    weft_model *loaded;
    bool to_gguf;
    bool dense;                   /* a folder without quantized matrices */
    weft_convert_options options; /* overrides are in `overrides` */
    weft__text overrides;
    weft__names adapted;
    int64_t rank; /* rank, alpha and dora describe the first adapter */
    double alpha;
    bool dora;
    int64_t *bits;          /* (adapted.n): bits for each adapted matrix; 0: not quantized */
    weft__lora_taken taken; /* merged weights that are computed when they are written */
} fusion;

static void fusion_free(fusion *f)
{
    weft_free(f->overrides.at);
    weft__names_free(&f->adapted);
    weft_free(f->bits);
    weft__lora_taken_free(&f->taken);
}

/* ---- bits ----------------------------------------------------------------------------------- */

static bool is_gguf_quantized(const char *type)
{
    return type && (type[0] == 'q' || type[0] == 'Q');
}

/* The GGUF type with at least that many bits. */
static const char *blocks_of(int64_t bits)
{
    return bits < 0 ? "f16" : bits <= 4 ? "q4_k" : bits == 5 ? "q5_k" : bits == 6 ? "q6_k" : "q8_0";
}

/* The bits of adapted matrices if the other matrices have `others` bits. */
static int64_t wanted_bits(const fusion *f, int64_t others)
{
    const int64_t bits = f->options.adapted_bits;
    return bits != 0 ? bits : others > USUAL_BITS ? others : USUAL_BITS;
}

/* The number of bits of the base's matrix; 0: it is not quantized. */
static int64_t bits_in_base(const fusion *f, int i)
{
    weft_module *m = weft_nn_find_module(weft_model_module(f->loaded), f->adapted.at[i]);
    const weft_encoding *e = weft_encoding_of(*weft_nn_find(m, "weight"));
    return e ? e->bits : 0;
}

/* Whether matrices of a GGUF file keep the blocks that they have in the base. */
static bool keeps_blocks(const fusion *f)
{
    return f->to_gguf && f->options.type == NULL && !weft__model_is_mlx(f->loaded);
}

/* Appends rules for the adapted matrices to the caller's rules. */
static weft_status write_overrides(fusion *f)
{
    const weft_convert_options *o = &f->options;
    const bool kept = keeps_blocks(f), blocks = kept || is_gguf_quantized(o->type);
    const bool eight = o->type && strcasecmp(o->type, "q8_0") == 0;
    if (!blocks && !o->quantize && !o->recipe)
        return WEFT_OK;
    if (o->overrides)
        weft__text_format(&f->overrides, "%s", o->overrides);
    for (int i = 0; i < f->adapted.n; i++) {
        const int64_t own = bits_in_base(f, i);
        const int64_t bits = wanted_bits(f, kept ? own : eight ? 8 : blocks ? 4 : o->format.bits);
        if (kept && own == 0)
            continue;
        weft__text_format(&f->overrides, "%s%s=", f->overrides.n ? "," : "", f->adapted.at[i]);
        if (blocks || bits < 0)
            weft__text_format(&f->overrides, "%s", blocks ? blocks_of(bits) : "none");
        else
            weft__text_format(&f->overrides, "%lld", (long long)bits);
    }
    if (f->overrides.failed)
        return weft__out_of_memory(f->adapter, "the list of adapted matrices");
    f->options.overrides = f->overrides.at;
    return WEFT_OK;
}

/* Finds the bits for matrices that are quantized in the base and stay quantized in the output
 * folder. */
static weft_status find_bits(fusion *f)
{
    f->bits = weft_calloc((size_t)f->adapted.n + 1, sizeof *f->bits);
    if (f->bits == NULL)
        return weft__out_of_memory(f->adapter, "the list of adapted matrices");
    for (int i = 0; i < f->adapted.n; i++) {
        const int64_t own = bits_in_base(f, i), bits = own > 0 ? wanted_bits(f, own) : 0;
        f->bits[i] = bits > 0 ? bits : 0;
    }
    return WEFT_OK;
}

/* ---- quantizing again ----------------------------------------------------------------------- */

typedef struct pass {
    const fusion *f;
    weft_quantize_options format;
} pass;

static bool accepts(void *context, const char *path, const weft_module *m)
{
    const pass *p = context;
    weft_array *const *weight = weft_nn_find((weft_module *)m, "weight");
    const int64_t K = weight ? weft_dim(*weight, -1) : 0;
    const int64_t group = K % 64 == 0 ? 64 : 32;
    for (int i = 0; i < p->f->adapted.n; i++) {
        if (strcmp(p->f->adapted.at[i], path) == 0)
            return K > 0 && p->f->bits[i] == p->format.bits && p->format.group_size == group &&
                   K % group == 0;
    }
    return false;
}

/* Quantizes the adapted matrices again in a folder that stays in MLX's format. */
static weft_status quantize_again(const fusion *f, weft_module *tree)
{
    static const int64_t widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {64, 32};
    weft_status status = WEFT_OK;
    if (f->to_gguf || f->dense || f->options.quantize || f->options.recipe)
        return status;
    for (int i = 0; status == WEFT_OK && i < 12; i++) {
        pass p = {f, {.bits = widths[i / 2], .group_size = groups[i % 2]}};
        const weft_nn_quantize_options o = {p.format, accepts, &p};
        status = weft_nn_quantize(tree, &o);
    }
    return status;
}

/* ---- without quantizing ---------------------------------------------------------------------- */

/* Puts the merged weights into the tree, to be computed when they are written. They stay float32 if
 * the conversion rounds them to another dtype than the base's. */
static weft_status put_sums(const fusion *f, weft_module *tree)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < f->taken.n && status == WEFT_OK; i++) {
        char path[WEFT_NN_PATH];
        snprintf(path, sizeof path, "%s.weight", f->taken.paths[i]);
        weft_array **slot = weft_nn_find(tree, path);
        weft_scope_open();
        weft_array *sum = weft__lora_taken_sum(&f->taken, path);
        const bool wide = f->options.type || weft_encoding_of(*slot);
        status = weft_set(slot, weft_astype(sum, wide ? WEFT_FLOAT32 : weft_dtype_of(*slot)));
        weft_scope_close(NULL);
    }
    return status;
}

/* Finds out whether the output has quantized matrices. */
static weft_status find_form(fusion *f, weft_model *model)
{
    const weft_convert_options *o = &f->options;
    const bool mlx = weft__model_is_mlx(model);
    bool quantized = o->quantize || o->recipe;
    f->loaded = model;
    f->dense = !f->to_gguf && !quantized && (o->type || !mlx);
    quantized = quantized || (f->to_gguf ? is_gguf_quantized(o->type) : !f->dense);
    for (int i = 0; keeps_blocks(f) && !quantized && i < f->adapted.n; i++)
        quantized = bits_in_base(f, i) > 0;
    return quantized || o->adapted_bits <= 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "fuse: adapted_bits: expected a quantized output, but its matrices are "
                           "dense");
}

/* Records the properties of the first adapter for the model card. */
static void note_first(fusion *f, weft_module *tree)
{
    const weft_nn_lora_linear *m =
        (const weft_nn_lora_linear *)weft_nn_find_module(tree, f->adapted.at[0]);
    f->rank = weft__lora_rank(m);
    f->alpha = m->scale * (double)f->rank;
    f->dora = m->lora_magnitude_vector != NULL;
}

/* Adds the matrices that receive rows of trained tokens. For a tied matrix the embedding is added.
 */
static weft_status add_tokens(void *context, const char *path, weft_module **field)
{
    const weft_nn_tokens *m = (const weft_nn_tokens *)*field;
    if (!weft__is_tokens(*field) || weft__nn_slot(m->base, "weight")->kind == WEFT_SLOT_TIED)
        return WEFT_OK;
    return weft__names_add(context, path);
}

static weft_status edit(void *context, weft_model *model)
{
    fusion *f = context;
    weft_module *tree = weft_model_module(model);
    weft__names linears = {0};
    weft_status status = weft_adapter_load(model, f->adapter, NULL);
    if (status == WEFT_OK)
        status = weft__adapter_linears(tree, &linears, &f->adapted);
    if (status == WEFT_OK)
        status = weft__adapter_stacks(tree, NULL, &f->adapted);
    weft__names_free(&linears);
    if (status == WEFT_OK)
        status = weft_nn_visit_modules(tree, add_tokens, &f->adapted);
    if (status == WEFT_OK)
        status = find_form(f, model);
    if (status == WEFT_OK && weft_model_info_of(model)->n_labels > 0 && !f->dense && !f->to_gguf)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "fuse: %s is of a classifier: expected a folder without quantized "
                           "matrices, or a GGUF file",
                           f->adapter);
    if (status == WEFT_OK)
        status = write_overrides(f);
    if (status == WEFT_OK)
        status = find_bits(f);
    if (status == WEFT_OK)
        note_first(f, tree);
    if (status == WEFT_OK && (f->to_gguf || f->dense))
        status = weft__lora_take(tree, &f->taken);
    if (status == WEFT_OK)
        status = weft_nn_lora_merge(tree); /* of what is left: perhaps only the token rows */
    if (status != WEFT_OK)
        return status;
    weft_nn_lora_remove(tree);
    return f->dense ? put_sums(f, tree) : quantize_again(f, tree);
}

/* The changed weight to encode in a GGUF file. A merged one is float32, since rounding to the
 * base's dtype first would lose part of the adapter. */
static weft_array *sum_at(void *context, const char *path)
{
    const fusion *f = context;
    weft_array *sum = weft__lora_taken_sum(&f->taken, path);
    for (int i = 0; sum == NULL && i < f->adapted.n; i++) {
        const size_t n = strlen(f->adapted.at[i]);
        if (strncmp(f->adapted.at[i], path, n) == 0 && strcmp(path + n, ".weight") == 0)
            sum = *weft_nn_find(weft_model_module(f->loaded), path); /* rows of tokens */
    }
    return sum;
}

/* ---- the model card ------------------------------------------------------------------------- */

/* Writes what the adapter's run has measured of a general text, if the adapter is the run's last
 * one. */
static void write_general(weft__text *t, const char *adapter)
{
    char before[WEFT__NUMBER_TEXT], after[WEFT__NUMBER_TEXT];
    double first, last;
    if (!weft__run_general(adapter, &first, &last))
        return;
    weft__text_format(t, "| Loss of a general text, before and after training | %s, %s |\n",
                      weft__decimals(first, 4, before), weft__decimals(last, 4, after));
}

/* Writes the model card. The base is named as at the hub if it is in the hub's cache, else as in
 * the adapter's configuration, else by its path. */
static weft_status write_card(weft__text *t, const fusion *f)
{
    char *named = NULL;
    char number[WEFT__NUMBER_TEXT];
    const bool mlx = weft__model_is_mlx(f->loaded);
    const weft_status status = weft_adapter_format_of(f->adapter, NULL, &named);
    weft__base_card card;
    weft__base_card_read(f->model, &card);
    const char *base = card.name ? card.name : named ? named : f->model;
    const bool classifies = weft_model_info_of(f->loaded)->n_labels > 0;
    weft__text_format(t, "---\nlibrary_name: %s\npipeline_tag: text-%s\nbase_model: ",
                      mlx ? "mlx" : "transformers", classifies ? "classification" : "generation");
    weft__text_quote(t, base);
    weft__text_append(t, "\n", 1);
    weft__base_card_write(t, &card);
    weft__text_format(t,
                      "tags:\n- lora\n- merged\n%s---\n\n# Merged model\n\n"
                      "A base model with a %s adapter merged into its weights. It loads "
                      "without the adapter.\n\n%s| | |\n|---|---|\n",
                      mlx ? "- mlx\n" : "", f->dora ? "DoRA" : "LoRA",
                      mlx ? "Its matrices are quantized in MLX's format, for mlx-lm and Weft. "
                            "transformers and vLLM do not load it.\n\n"
                          : "");
    weft__text_format(t, "| Base model | %s |\n", base);
    weft__text_format(t, "| Adapted matrices | %d |\n| Rank | %lld |\n", f->adapted.n,
                      (long long)f->rank);
    weft__text_format(t, "| Scale (alpha / rank) | %s |\n",
                      weft__number(f->alpha / (double)f->rank, number));
    write_general(t, f->adapter);
    weft__text_format(t, "\nThe license of the base model applies%s%s.\n", card.license ? ": " : "",
                      card.license ? card.license : "");
    weft__base_card_free(&card);
    weft_free(named);
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
    const size_t n = strlen(out);
    fusion f = {
        .model = model, .adapter = adapter, .to_gguf = n > 5 && strcmp(out + n - 5, ".gguf") == 0};
    if (options)
        f.options = *options;
    if (adapter == NULL)
        return weft_fail(WEFT_INVALID, "fuse: expected the folder of an adapter, got none");
    if (f.options.quantize && f.options.format.mode != WEFT_AFFINE)
        return weft_fail(WEFT_UNSUPPORTED, "fuse: expected the mode affine: adapted matrices get "
                                           "more bits than others, and only affine matrices come "
                                           "in several widths");
    const int64_t bits = f.options.adapted_bits;
    if (bits == 1 || bits == 7 || bits > 8)
        return weft_fail(WEFT_INVALID, "fuse: adapted_bits: expected 2, 3, 4, 5, 6 or 8, got %lld",
                         (long long)bits);
    weft__folder text;
    weft_status status = weft__adapters_gather_text(model, adapter, out, &text);
    const weft__convert_hooks hooks = {edit, add_card, sum_at, &f, text.path};
    if (status == WEFT_OK)
        status = weft__convert_with(model, out, &f.options, &hooks, report);
    weft__folder_discard(&text);
    fusion_free(&f);
    return status;
}
