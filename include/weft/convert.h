/* weft/convert.h -- converting models between Hugging Face folders, with float matrices or
 * quantized in MLX's format, and GGUF files.
 */
#ifndef WEFT_CONVERT_H
#define WEFT_CONVERT_H

#include "weft/io.h"
#include "weft/quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: the types of the source. */
typedef struct weft_convert_options {
    /* How matrices are stored: "f32", "f16", "bf16", and in GGUF files "q8_0", "q4_0", "q4_k",
     * "q5_k", "q6_k". In folders this is the type of everything that is not quantized by the
     * members below. NULL: as in the source, except that matrices in GGUF's blocks become bfloat16
     * in a folder, as all others there, and matrices in MLX's format bfloat16 in a GGUF file. From
     * GGUF file to GGUF file, tensors are then copied byte for byte. */
    const char *type;
    /* For folders: quantize linears, embeddings and experts (not routers) whose rows are whole
     * groups; the format's zeros are its defaults (4 bits in groups of 64). */
    bool quantize;
    weft_quantize_options format;
    /* mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6, which mlx-lm has too: the first bits for most
     * matrices, the second for lm_head and for some layers' v_proj and down_proj. NULL: none. */
    const char *recipe;
    /* Rules "PATTERN=VALUE,..." for matrices whose path contains the pattern, in which * matches
     * anything. VALUE is a number of bits, or "none" for unchanged; in GGUF files a type. The first
     * matching rule counts and precedes the recipe. WEFT_INVALID for a pattern without a match. May
     * be NULL. */
    const char *overrides;
    /* For weft_adapter_fuse: bits of quantized matrices that the adapter changes: 2, 3, 4, 5, 6 or
     * 8; below 0: do not quantize them. 0: 6, or the bits of the others if those are more. In GGUF
     * files, the type with at least so many bits that Weft can encode: Q4_K, Q5_K, Q6_K, or Q8_0,
     * also where rows are not whole blocks of 256. WEFT_INVALID if the output is not quantized. */
    int64_t adapted_bits;
    int64_t shard_bytes; /* that of weft_save_folder_options */
    bool no_tokenizer;   /* omit tokenizer and chat templates */
    /* For folders: of a multimodal model write only the text model, with the configuration and the
     * names of its own class (Gemma3ForCausalLM). False: tensors keep their names, and those of
     * other modalities are copied unchanged. */
    bool text_only;
    bool replace; /* replace an existing file, or a folder with a model, at `out` */
    weft_save_progress progress;
} weft_convert_options;

typedef struct weft_convert_report {
    int64_t bytes; /* of all tensors, as they are stored */
    int64_t parameters;
    int files;      /* with tensors */
    char types[96]; /* of the matrices, the largest part first: "bfloat16", "Q4_K, Q6_K" */
    bool mlx;       /* a folder in MLX's format, which transformers and vLLM do not load */
} weft_convert_report;

/* Reads a model (a folder or a GGUF file, as weft_model_load) and writes it to `out`. If the name
 * ends with .gguf, `out` is a GGUF file. Otherwise it is a folder with config.json, safetensors
 * files, the tokenizer's files and the chat templates. "quantization" in config.json describes the
 * quantized matrices, "dtype" the others. From a GGUF file the tokenizer's files are made of its
 * metadata. `options` and `report` may be NULL.
 *
 * The result is complete or absent: it is written under a temporary name and renamed. WEFT_INVALID
 * if `out` exists and `replace` is not set; WEFT_UNSUPPORTED, with the reason, for a model that the
 * format cannot express; WEFT_IO for a file that cannot be read or written. */
WEFT_NODISCARD WEFT_API weft_status weft_convert(const char *model, const char *out,
                                                 const weft_convert_options *options,
                                                 weft_convert_report *report);

/* Copies the files that a tokenizer is loaded from into a folder: tokenizer.json, its
 * configuration, the chat templates and the configurations of processors of a folder, or those of a
 * GGUF file's metadata. Of the tokenizer's files and templates, those in `to` that the folder
 * `from` lacks are removed. WEFT_IO when they cannot be read or written, WEFT_UNSUPPORTED for a
 * tokenizer that the files cannot express. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_copy(const char *from, const char *to);

#ifdef __cplusplus
}
#endif
#endif
