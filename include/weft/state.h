/* weft/state.h -- a generation as it stands, in a file: it goes on elsewhere as if it had not been
 * interrupted, token by token and bit by bit. */
#ifndef WEFT_STATE_H
#define WEFT_STATE_H

#include "weft/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What belongs to a text besides its model. NULL parts are not recorded, and not compared. */
typedef struct weft_state_about {
    const weft_tokenizer *tokenizer;
    const char *chat_template; /* its text */
    const char *prompt;        /* as text: "weft.prompt" in the file's metadata, for the reader */
} weft_state_about;

/* Writes the tokens so far, those under way, the caches, the sampler's settings, counts and random
 * key, and hashes of model, adapter and `about` (NULL: nothing more) to a safetensors file, whole
 * or not at all. The generator goes on. WEFT_UNSUPPORTED for one with a constraint,
 * with a draft or n-grams, or without caches; WEFT_INVALID when the text has ended but for want of
 * tokens, time or consent. */
WEFT_NODISCARD WEFT_API weft_status weft_state_save(weft_generator *generator, const char *path,
                                                    const weft_state_about *about) WEFT_NONNULL(1);

/* A generator that goes on from there. Of the options (NULL: all zero) it takes timeout, cancel,
 * tokens_per_eval, prompt_cache and no_compile, and max_tokens, counted from the prompt as ever,
 * when that is not 0; all else is the file's. WEFT_INVALID, with a message that says what differs,
 * when the model, its adapter, the tokenizer or the template is another. */
WEFT_NODISCARD WEFT_API weft_status weft_state_load(weft_model *model, const char *path,
                                                    const weft_state_about *about,
                                                    const weft_generate_options *options,
                                                    weft_generator **out) WEFT_NONNULL(5);

#ifdef __cplusplus
}
#endif
#endif
