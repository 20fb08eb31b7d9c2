/* weft/adapter.h -- LoRA and DoRA adapters in files: PEFT's, mlx-lm's and llama.cpp's.
 *
 *     weft_model_load("storyteller", NULL, &model);
 *     weft_adapter_load(model, "run/best", NULL);
 *     weft_adapter_save_as(model, "adapter.gguf", NULL, WEFT_ADAPTER_GGUF);
 *
 * Adapters in memory: weft_nn_lora_inject and its neighbors in weft/nn.h.
 */
#ifndef WEFT_ADAPTER_H
#define WEFT_ADAPTER_H

#include "weft/chat.h"
#include "weft/convert.h"
#include "weft/model.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The target list of weft_nn_lora_options for every linear except the head, the default of `weft
 * train`. Without a list the library adapts q_proj and v_proj. */
#define WEFT_LORA_ALL_LINEAR "all-linear"

/* Writes the model's adapters, and the modules that are trained with them (modules_to_save), in
 * PEFT's format: folder/adapter_config.json and folder/adapter_model.safetensors. `base_name`
 * becomes base_model_name_or_path; NULL: "". WEFT_INVALID without an adapter, if only some adapters
 * have magnitudes, or if the folder has no adapter_config.json but files that would be overwritten,
 * as a model's config.json; WEFT_IO if a file cannot be written. On failure a folder that it
 * created is deleted.
 *
 * The scale is written as lora_alpha = scale * r, also for rsLoRA. Targets are suffixes, with
 * layers_to_transform if not all layers are adapted, or whole paths if suffixes are ambiguous. If
 * ranks or alphas differ, `r` and `lora_alpha` are the most frequent ones and the others are in
 * rank_pattern and alpha_pattern. A PiSSA adapter becomes a LoRA adapter of twice the rank for the
 * original base. */
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

/* Determines the format of an adapter and the base model's name in it: *base is NULL without a
 * name, else freed with weft_free. `format` and `base` may be NULL. WEFT_IO if the adapter cannot
 * be read, WEFT_INVALID if it is malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_format_of(const char *adapter,
                                                           weft_adapter_format *format,
                                                           char **base);

/* weft_adapter_save in another format. MLX and GGUF have one scale for all modules, so B absorbs
 * differences; MLX has one rank, so A and B are padded with zeros; GGUF's rows are in the order of
 * the base's GGUF file. WEFT_UNSUPPORTED, with the module, for fully trained modules, and for DoRA
 * in GGUF. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_save_as(weft_model *model, const char *path,
                                                         const char *base_name,
                                                         weft_adapter_format format);

/* Checks whether weft_adapter_save_as can write the model's adapter as a GGUF file.
 * WEFT_UNSUPPORTED with the reason, WEFT_INVALID if there is no adapter. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_check_gguf(weft_model *model) WEFT_NONNULL(1);

/* Injects the LoRA or DoRA adapter of a folder into the model (weft_nn_lora_inject with the rank,
 * alpha, dropout and targets of its configuration) and loads its tensors, whatever base model it
 * names. Accepts PEFT and mlx-lm folders, and llama.cpp files that end with .gguf for the model's
 * architecture. NULL options: all zero. weft_nn_lora_merge merges the adapter into the model,
 * weft_nn_lora_remove removes it.
 *
 * WEFT_INVALID if the model has an adapter already, and for tensors that are missing, unexpected or
 * of another shape, which one message lists; WEFT_UNSUPPORTED, with the field, for other kinds of
 * adapters (biases, initializations that change the base, ...). A failure leaves no adapter. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_load(weft_model *model, const char *folder,
                                                      const weft_adapter_options *options);

/* weft_adapter_save and weft_adapter_load for a program's module tree without a weft_model. Keys
 * are the paths of the tree, as PEFT writes them for a torch module with the same names;
 * "task_type" is null. WEFT_UNSUPPORTED for other formats, whose names depend on a model's family.
 */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_save_module(weft_module *module,
                                                             const char *folder,
                                                             const char *base_name);
WEFT_NODISCARD WEFT_API weft_status weft_adapter_load_module(weft_module *module,
                                                             const char *folder,
                                                             const weft_adapter_options *options);

/* Makes the embedding and head rows of n distinct token ids trainable (weft_nn_tokens_add). Ids
 * from `known` on are new tokens, such as those that weft_tokenizer_extend added to `known` tokens;
 * they increase the model's vocab_size. Inject adapters first. Fails as weft_nn_tokens_add. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_add_tokens(weft_model *model,
                                                            const int32_t *tokens, int n,
                                                            int64_t known);

/* The path of the tokenizer for a model with adapters ("PATH" or a list, as for
 * weft_adapter_load_list, or NULL): the first adapter folder with a tokenizer.json, which adapters
 * with new tokens have, else the model's. The caller frees *out with weft_free. Fails only when out
 * of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_tokenizer_path(const char *model,
                                                                const char *adapters, char **out);
WEFT_NODISCARD WEFT_API weft_status weft_adapter_tokenizer(const char *model, const char *adapters,
                                                           weft_tokenizer **out)
    WEFT_NONNULL(3); /* loads it, as weft_tokenizer_load */

/* Loads the chat templates for a model with adapters (as above): those of the first adapter folder
 * that has some, as trainers save them with the tokenizer, else the model's. The special tokens are
 * those of the same folder, or the model's if it has none. Fails as weft_chat_load. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_chat(const char *model, const char *adapters,
                                                      weft_chat **out) WEFT_NONNULL(3);

/* The labels of a classifier's adapter (weft_model_classify): id2label of the config.json in its
 * folder, else LABEL_0 and so on; empty for other adapters. Free with weft_labels_free. Loading
 * such an adapter turns the model into a classifier, and saving one writes that config.json.
 * WEFT_IO or WEFT_INVALID for a folder that is not an adapter. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_labels(const char *folder, weft_labels *out);

/* Several adapters of one model (borrowed), which computes with their weighted sum. */
typedef struct weft_adapter_set weft_adapter_set;

/* Creates an empty set in *out; free it with weft_adapter_set_free, which leaves the model as it
 * is. WEFT_INVALID if the model has an adapter already. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_set_new(weft_model *model,
                                                         const weft_adapter_options *options,
                                                         weft_adapter_set **out) WEFT_NONNULL(3);
WEFT_API void weft_adapter_set_free(weft_adapter_set *set);

/* Adds an adapter in any format under a name (NULL: the path). Until weft_adapter_set_use the model
 * then computes without adapters. Fails as weft_adapter_load; WEFT_UNSUPPORTED for fully trained
 * modules. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_set_add(weft_adapter_set *set, const char *path,
                                                         const char *name) WEFT_NONNULL(1);
WEFT_API int weft_adapter_set_count(const weft_adapter_set *set) WEFT_NONNULL(1);
WEFT_API const char *weft_adapter_set_name(const weft_adapter_set *set, int i)
    WEFT_NONNULL(1); /* NULL: out of range */

/* Sets the adapters' weights, in the order of adding; 0 disables one. The active adapters of a
 * linear are concatenated into one whose rank is the sum of theirs, so the result is exact. Do not
 * call it during a generation, whose KV caches depend on the adapters. WEFT_UNSUPPORTED, without a
 * change, for a DoRA adapter with a weight other than 0 and 1 or together with others. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_set_use(weft_adapter_set *set,
                                                         const double *weights) WEFT_NONNULL(1);

/* Loads "PATH" or "PATH:WEIGHT,PATH:WEIGHT,..." into a model without an adapter, as --adapter and
 * engines do. The default weight is 1. Fails as weft_adapter_set_add and weft_adapter_set_use. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_load_list(weft_model *model, const char *list,
                                                           const weft_adapter_options *options);

/* Loads an adapter in any format into a bank of the model's tree (weft_nn_lora_bank), which then
 * computes without adapters. *eos is the token that ends sequences of this adapter besides those of
 * the model (-1: none): the eos_token of a tokenizer in its folder. Fails as weft_adapter_set_add.
 */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_load_member(weft_model *model, const char *path,
                                                             const weft_adapter_options *options,
                                                             weft_nn_lora_bank *bank,
                                                             weft_nn_lora_member **out,
                                                             int32_t *eos) WEFT_NONNULL(4, 5, 6);

/* Replaces the model's adapters by those of `list`, as weft_adapter_load_list; NULL: by none. On a
 * failure the model keeps those that it has, PiSSA's as LoRA adapters of twice the rank; without
 * memory for them it has none. Do not call it during a generation. WEFT_UNSUPPORTED for fully
 * trained modules and for rows of new tokens, of the model and of the new adapters. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_replace_list(weft_model *model, const char *list,
                                                              const weft_adapter_options *options)
    WEFT_NONNULL(1);

/* Merges an adapter into a model and writes the result as weft_convert does: a folder, which also
 * gets a model card (README.md), or a GGUF file if `out` ends with .gguf. Sums are computed in
 * float32. In a folder they are rounded to the weight's dtype; in a GGUF file they are encoded
 * directly, one matrix at a time. `options` and `report` may be NULL.
 *
 * An adapted matrix of a quantized model is quantized again with more bits (options->adapted_bits,
 * affine, groups of 64 or 32), since the adapter can be lost at the same width; the other matrices
 * keep their encoding. If `options` quantize, adapted matrices get these bits (q8_0 in GGUF files)
 * unless a rule of options->overrides matches; formats other than affine do not allow this and are
 * WEFT_UNSUPPORTED. WEFT_INVALID for a NULL adapter; otherwise fails as weft_adapter_load and
 * weft_convert. */
WEFT_NODISCARD WEFT_API weft_status weft_adapter_fuse(const char *model, const char *adapter,
                                                      const char *out,
                                                      const weft_convert_options *options,
                                                      weft_convert_report *report);

#ifdef __cplusplus
}
#endif
#endif
