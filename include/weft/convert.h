/* weft/convert.h -- converting models between file formats: folders as Hugging Face has them,
 * with matrices in floats or quantised as MLX stores them, and GGUF files, both ways.
 */
#ifndef WEFT_CONVERT_H
#define WEFT_CONVERT_H

#include "weft/io.h"
#include "weft/quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero: everything as it is in the model; floats of 32 bits in a GGUF file. */
typedef struct weft_convert_options {
    /* How matrices are stored: "f32", "f16", "bf16", and in GGUF files "q8_0", "q4_0", "q4_k",
     * "q5_k", "q6_k". NULL: as they are. In folders the type of everything that is not quantised.
     */
    const char *type;
    /* For folders: quantise linears, embeddings and experts (not routers) whose rows are whole
     * groups; the format's zeros are its defaults (4 bits in groups of 64). */
    bool quantize;
    weft_quantize_options format;
    /* mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6, which mlx-lm has too: the first bits for most
     * matrices, the second for lm_head and for some layers' v_proj and down_proj. NULL: none. */
    const char *recipe;
    /* "PATTERN=VALUE,...": for matrices whose path has the pattern in it (* stands for anything; of
     * several rules the first counts), and before the recipe: a number of bits, or "none" for left
     * as it is; in GGUF files a type. A pattern that is in the path of no matrix is
     * WEFT_INVALID. NULL: none. */
    const char *overrides;
    /* Of weft_adapter_fuse: bits of matrices that the adapter changed, where they are quantised: 2,
     * 3, 4, 5, 6 or 8; below 0: these are not. 0: 6, or what others have, if that is more. */
    int64_t adapted_bits;
    int64_t shard_bytes; /* weft_save_folder_options' */
    bool no_tokenizer;   /* leave tokenizer and chat templates out */
    bool replace;        /* what is at `out` already: a file, or a folder with a model */
    weft_save_progress progress;
} weft_convert_options;

typedef struct weft_convert_report {
    int64_t bytes; /* of all tensors, as they are stored */
    int64_t parameters;
    int files; /* with tensors */
} weft_convert_report;

/* Reads a model (a folder or a GGUF file, as weft_model_load) and writes it to `out`: a GGUF file
 * when the name ends with .gguf, else a folder with config.json ("quantization" in it says what is
 * quantised, module by module where they differ), safetensors files, the tokenizer's files and the
 * chat templates. From a GGUF file tokenizer.json and the others are made of its metadata. The
 * result appears complete or not at all: it is written beside `out` and renamed. WEFT_INVALID when
 * there is something at `out` and `replace` is not set; WEFT_UNSUPPORTED, with what it is, for what
 * the form cannot express. `options` and `report` may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_convert(const char *model, const char *out,
                                                 const weft_convert_options *options,
                                                 weft_convert_report *report);

/* Copies the files that a tokenizer is loaded from into a folder: tokenizer.json, its configuration
 * and the chat templates of a folder, or those of a GGUF file's metadata. WEFT_IO when they cannot
 * be read or written, WEFT_UNSUPPORTED for a tokenizer that the files cannot express. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_copy(const char *from, const char *to);

#ifdef __cplusplus
}
#endif
#endif
