/* weft/adapter.h -- LoRA and DoRA adapters in files: PEFT's, mlx-lm's and llama.cpp's.
 *
 *     weft_model_load("storyteller", NULL, &model);
 *     weft_adapter_load(model, "run/best", NULL);
 *     weft_adapter_save_as(model, "adapter.gguf", NULL, WEFT_ADAPTER_GGUF);
 *
 * Adapters in memory: weft_nn_lora_inject and its neighbours in weft/nn.h.
 */
#ifndef WEFT_ADAPTER_H
#define WEFT_ADAPTER_H

#include "weft/convert.h"
#include "weft/model.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The target list of weft_nn_lora_options that means every linear but the head; the command's
 * default. Without a list the library adapts q_proj and v_proj. */
#define WEFT_LORA_ALL_LINEAR "all-linear"

/* Writes the model's adapters, and what is trained beside them (modules_to_save), as PEFT does:
 * folder/adapter_config.json and folder/adapter_model.safetensors. The scale is written as
 * lora_alpha = scale * r (an rsLoRA adapter too: the same numbers, in the form that every reader
 * knows), the targets as suffixes and, when not all layers are adapted, layers_to_transform; as
 * whole paths when that would fit other linears too. Where ranks or alphas differ, `r` and
 * `lora_alpha` are the most frequent ones and the others are in rank_pattern and alpha_pattern. A
 * PiSSA adapter is written as a LoRA adapter of twice the rank for the base as it is. `base_name`
 * becomes base_model_name_or_path; NULL: "". WEFT_INVALID when there is no adapter, or only some
 * have magnitudes. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_save(weft_model *model, const char *folder,
                                                      const char *base_name);

typedef struct weft_adapter_options {
    weft_dtype dtype; /* of the adapter's arrays: float32 (also for 0) or bfloat16 */
} weft_adapter_options;

typedef enum weft_adapter_format {
    WEFT_ADAPTER_PEFT = 0, /* a folder: adapter_config.json, adapter_model.safetensors */
    WEFT_ADAPTER_MLX,      /* mlx-lm's, a folder: adapter_config.json, adapters.safetensors */
    WEFT_ADAPTER_GGUF      /* llama.cpp's, a file whose name ends with .gguf */
} weft_adapter_format;

/* The format of an adapter, and the name of its base as the file has it: *base is NULL if it has
 * none, else free it with weft_free. Either may be NULL: not wanted. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_format_of(const char *adapter,
                                                           weft_adapter_format *format,
                                                           char **base);

/* weft_adapter_save in another format. These have one scale for all modules, so B takes up the
 * difference, and mlx-lm's has one rank, so A and B get zeros. GGUF's rows are in the order of the
 * base's GGUF file. WEFT_UNSUPPORTED, with the module, for what a format lacks: modules that are
 * trained whole, and in GGUF DoRA. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_save_as(weft_model *model, const char *path,
                                                         const char *base_name,
                                                         weft_adapter_format format);

/* Puts the PEFT LoRA or DoRA adapter of a folder around the model's linears (weft_nn_lora_inject,
 * with the rank, alpha, dropout and targets of its config) and loads it, whatever base model its
 * config names. The model must have no adapter yet. WEFT_UNSUPPORTED, naming the field, for what
 * is neither (biases, initialisations that changed the base, ...). One message lists all tensors
 * that are missing, unexpected or of another shape; the tree is then without adapters. An adapter
 * of mlx-lm's (a folder) or llama.cpp's (a file that ends with .gguf, for the model's
 * architecture) loads too. NULL options: all zero. weft_nn_lora_merge and weft_nn_lora_remove
 * make a plain model of the two. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_load(weft_model *model, const char *folder,
                                                      const weft_adapter_options *options);

/* weft_adapter_save and weft_adapter_load for a module tree of the program's own, without a
 * weft_model: keys are the paths of the tree, as PEFT writes them for a torch module with the same
 * names. The files differ in "task_type" alone, which is null. Only PEFT's format: a file of
 * another one is WEFT_UNSUPPORTED, since its names are those of a model's family. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_save_module(weft_module *module,
                                                             const char *folder,
                                                             const char *base_name);
WEFT_NODISCARD WEFT_API weft_status weft_adapter_load_module(weft_module *module,
                                                             const char *folder,
                                                             const weft_adapter_options *options);

/* Makes the rows of tokens (ids (n), each once) trainable in the model's embedding and in its head
 * (weft_nn_tokens_add): those from `known` on are new, such as the further tokens of a tokenizer
 * that had `known` before (weft_tokenizer_extend). The model's vocab_size then counts them.
 * Adapters go in first. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_add_tokens(weft_model *model,
                                                            const int32_t *tokens, int n,
                                                            int64_t known);

/* Where the tokenizer of a model with adapters is ("PATH" or a list, as for weft_adapters_load;
 * NULL: none): the first adapter's folder that has a tokenizer.json, as one with new tokens has,
 * else the model's. *out is the caller's (weft_free). */
WEFT_NODISCARD WEFT_API weft_status weft_adapters_tokenizer_path(const char *model,
                                                                 const char *adapters, char **out);
WEFT_NODISCARD WEFT_API weft_status weft_adapters_tokenizer(const char *model, const char *adapters,
                                                            weft_tokenizer **out)
    WEFT_NONNULL(3); /* and that loaded */

/* The labels of an adapter of a classifier (weft_model_classify), from the id2label of the
 * config.json in its folder, else LABEL_0 and so on; none for another adapter. Loading such an
 * adapter makes a classifier of the model, and saving one writes that config.json. Free with
 * weft_labels_free. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_labels(const char *folder, weft_labels *out);

/* Several adapters of one model (borrowed), which computes with a weighted sum of them. */
typedef struct weft_adapters weft_adapters;

/* WEFT_INVALID when the model has an adapter already. Freeing leaves the model as it is. */
WEFT_NODISCARD WEFT_API weft_status weft_adapters_new(weft_model *model,
                                                      const weft_adapter_options *options,
                                                      weft_adapters **out) WEFT_NONNULL(3);
WEFT_API void weft_adapters_free(weft_adapters *set);

/* Reads one more, in any format (weft_adapter_load), under a name (NULL: the path). The model is
 * without adapters afterwards, until weft_adapters_use. WEFT_UNSUPPORTED for one with modules that
 * are trained whole. */
WEFT_NODISCARD WEFT_API weft_status weft_adapters_add(weft_adapters *set, const char *path,
                                                      const char *name) WEFT_NONNULL(1);
WEFT_API int weft_adapters_count(const weft_adapters *set) WEFT_NONNULL(1);
WEFT_API const char *weft_adapters_name(const weft_adapters *set, int i)
    WEFT_NONNULL(1); /* NULL: out of range */

/* From now on the model computes with the adapters times their weights, one for each in the order
 * of adding; 0 is off. The adapters of a linear become one, whose rank is the sum of theirs, so
 * each weight is exact. Not while a text is generated: what caches hold is of the adapters before.
 * WEFT_UNSUPPORTED for a DoRA adapter beside others or with a weight other than 0 and 1; then
 * nothing has changed. */
WEFT_NODISCARD WEFT_API weft_status weft_adapters_use(weft_adapters *set, const double *weights)
    WEFT_NONNULL(1);

/* Loads "PATH" or "PATH:WEIGHT,PATH:WEIGHT,..." into a model that has no adapter: what --adapter
 * and engines take. A weight that is left out is 1. */
WEFT_NODISCARD WEFT_API weft_status weft_adapters_load(weft_model *model, const char *list,
                                                       const weft_adapter_options *options);

/* Merges the PEFT adapter of a folder into a model and writes the result as weft_convert does: a
 * folder that has a model card (README.md) too, or a GGUF file when `out` ends with .gguf. Each
 * sum is computed in float32 and rounded to the weight's dtype. An adapted matrix of a quantized
 * model is quantized again with more bits (options->adapted_bits, affine, in groups of 64 or 32),
 * since at the same width the adapter can be lost; the others keep their encoding. Where
 * `options` quantize, adapted matrices get these bits (q8_0 in GGUF files) unless
 * options->overrides has a rule for them; formats other than affine take no such mixture and are
 * WEFT_UNSUPPORTED. NULL adapter: WEFT_INVALID. Else errors are those of weft_adapter_load and
 * weft_convert. `options` and `report` may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_fuse(const char *model, const char *adapter,
                                                      const char *out,
                                                      const weft_convert_options *options,
                                                      weft_convert_report *report);

#ifdef __cplusplus
}
#endif
#endif
