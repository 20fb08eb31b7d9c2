/* weft/state.h -- saves an unfinished generation so that it can be resumed exactly, token by token
 * and bit by bit. */
#ifndef WEFT_STATE_H
#define WEFT_STATE_H

#include "weft/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a generation depends on other than the model. NULL fields are neither saved nor compared. */
typedef struct weft_state_about {
    const weft_tokenizer *tokenizer;
    const char *chat_template; /* its text */
    const char *prompt;        /* as text: "weft.prompt" in the file's metadata, for the reader */
} weft_state_about;

/* Writes the tokens, caches, sampler settings, counts and random key of a generation, and hashes of
 * model, adapter and `about` (NULL: none), to a safetensors file that is complete or absent. The
 * generator can continue. WEFT_UNSUPPORTED with a constraint, a draft, n-grams or top_logprobs, or
 * without caches; WEFT_INVALID when the sequence has ended for another reason than max_tokens,
 * timeout or cancellation, or when the path is a file of another kind, which is not replaced;
 * WEFT_IO when the file cannot be written. */
WEFT_NODISCARD WEFT_API weft_status weft_state_save(weft_generator *generator, const char *path,
                                                    const weft_state_about *about) WEFT_NONNULL(1);

/* Creates a generator that resumes the generation; free *out with weft_generator_free. From the
 * options (NULL: all zero) it uses timeout, cancel, tokens_per_eval, prompt_cache, no_compile,
 * positions and, if it is not 0, max_tokens, counted from the prompt; everything else comes from
 * the file. WEFT_INVALID, with what differs, for another model, adapter, tokenizer or template, and
 * for a malformed file; WEFT_IO when it cannot be read. */
WEFT_NODISCARD WEFT_API weft_status weft_state_load(weft_model *model, const char *path,
                                                    const weft_state_about *about,
                                                    const weft_generate_options *options,
                                                    weft_generator **out) WEFT_NONNULL(5);

#ifdef __cplusplus
}
#endif
#endif
