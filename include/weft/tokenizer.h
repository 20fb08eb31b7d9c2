/* weft/tokenizer.h -- text to token ids and back, as a checkpoint's tokenizer.json says.
 *
 * Byte-pair encoding, byte-level (GPT-2, Qwen, Llama 3) or with byte fallback (Gemma, Mistral),
 * Unigram models (T5, XLM-RoBERTa, ALBERT), WordPiece (BERT) and WordLevel. A tokenizer.json that
 * needs something else is WEFT_UNSUPPORTED, with a message that names file, field and type. Of GGUF
 * files the models llama, gpt2, gemma4, bert and t5 are read; a bert vocabulary without upper-case
 * letters is one of texts in lower case. A tokenizer does not change once loaded: threads may share
 * it.
 *
 * Text is UTF-8 with an explicit length, so a NUL is a character like any other. Ids are int32, as
 * models take them.
 */
#ifndef WEFT_TOKENIZER_H
#define WEFT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_tokenizer weft_tokenizer;

/* Loads a tokenizer.json, or the one in a checkpoint's folder; a tokenizer_config.json beside it
 * names bos, eos and pad. *out is owned by the caller. WEFT_IO when the file cannot be read,
 * WEFT_INVALID when it is malformed, WEFT_UNSUPPORTED as above; *out is then NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_load(const char *path, weft_tokenizer **out)
    WEFT_NONNULL(2);

/* The same from memory, with the same ownership and failures. `json` is the text of a
 * tokenizer.json, `config` that of a tokenizer_config.json or NULL; messages call the former
 * `name`. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_parse(const char *json, size_t length,
                                                         const char *config, size_t config_length,
                                                         const char *name, weft_tokenizer **out)
    WEFT_NONNULL(6);

/* The tokenizer at `path` (weft_tokenizer_load) with n further tokens, whose ids follow the largest
 * one in the order given: ordinary tokens that are found wherever a text has them, as those of
 * add_tokens in transformers. WEFT_INVALID for a token that is empty, no UTF-8, given twice or in
 * the vocabulary already; WEFT_UNSUPPORTED for a GGUF file's that is not byte-pair encoding. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_extend(const char *path,
                                                          const char *const *tokens, int n,
                                                          weft_tokenizer **out) WEFT_NONNULL(4);
/* How many further tokens a tokenizer of weft_tokenizer_extend has; 0 for any other. */
WEFT_API int32_t weft_tokenizer_further(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);
/* Writes tokenizer.json and, where there was one, tokenizer_config.json of a tokenizer of
 * weft_tokenizer_extend (WEFT_INVALID for another) into a folder, which is made if need be. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_save(const weft_tokenizer *tokenizer,
                                                        const char *folder) WEFT_NONNULL(1);

/* NULL is accepted. */
WEFT_API void weft_tokenizer_free(weft_tokenizer *tokenizer);

enum {
    /* encode: add what the post-processor adds around a text (<bos>, for one) */
    WEFT_TOKENIZER_ADD_SPECIAL = 1,
    /* decode: leave out the tokens that tokenizer.json marks special */
    WEFT_TOKENIZER_SKIP_SPECIAL = 2
};

/* Encodes `length` bytes of text. Added tokens that occur in the text are recognised. *ids is the
 * caller's, freed with weft_free; it is not NULL on success, even when *count is 0. Text that is
 * not UTF-8 is WEFT_INVALID (the message says at which byte). On failure *ids is NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_encode(const weft_tokenizer *tokenizer,
                                                          const char *text, size_t length,
                                                          unsigned flags, int32_t **ids,
                                                          size_t *count) WEFT_NONNULL(1, 5, 6);

/* Decodes ids. *text is the caller's, freed with weft_free, and is followed by a NUL that *length
 * (which may be NULL) does not count. Bytes that form no character become U+FFFD. An id without a
 * token gives no text (models round their vocabulary up); a negative one is WEFT_INVALID. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_decode(const weft_tokenizer *tokenizer,
                                                          const int32_t *ids, size_t count,
                                                          unsigned flags, char **text,
                                                          size_t *length) WEFT_NONNULL(1, 5);

/* One more than the largest id. */
WEFT_API int32_t weft_tokenizer_vocab_size(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);

/* The id of a token as the vocabulary spells it (byte-level: a space is U+0120); -1 when there is
 * none. */
WEFT_API int32_t weft_tokenizer_token_to_id(const weft_tokenizer *tokenizer, const char *token)
    WEFT_NONNULL(1);

/* The vocabulary's spelling of an id, owned by the tokenizer; NULL when it has no token. */
WEFT_API const char *weft_tokenizer_id_to_token(const weft_tokenizer *tokenizer, int32_t id);

/* Whether tokenizer.json marks the token special. */
WEFT_API int weft_tokenizer_is_special(const weft_tokenizer *tokenizer, int32_t id) WEFT_NONNULL(1);

/* The ids of tokenizer_config.json's bos_token, eos_token and pad_token; -1 when it names none. */
WEFT_API int32_t weft_tokenizer_bos(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);
WEFT_API int32_t weft_tokenizer_eos(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);
WEFT_API int32_t weft_tokenizer_pad(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);

/* Decodes a stream one id at a time. The texts it gives, joined, are what weft_tokenizer_decode
 * gives for all the ids at once, and none of them ends within a UTF-8 character. It borrows the
 * tokenizer; `flags` as for decode. */
typedef struct weft_detokenizer weft_detokenizer;

/* Creates a detokenizer in *out; free it with weft_detokenizer_free. Fails only when out of memory.
 */
WEFT_NODISCARD WEFT_API weft_status weft_detokenizer_new(const weft_tokenizer *tokenizer,
                                                         unsigned flags, weft_detokenizer **out)
    WEFT_NONNULL(1, 3);

/* NULL is accepted. */
WEFT_API void weft_detokenizer_free(weft_detokenizer *detokenizer);

/* Adds an id. *text is the text completed by it, NUL-terminated, often empty; it is the
 * detokenizer's and valid until the next call. `length` may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_detokenizer_push(weft_detokenizer *detokenizer, int32_t id,
                                                          const char **text, size_t *length);

/* Ends the stream: *text is what was held back (U+FFFD for an incomplete character), valid until
 * the next call. The detokenizer can then be used for a new stream. */
WEFT_NODISCARD WEFT_API weft_status weft_detokenizer_finish(weft_detokenizer *detokenizer,
                                                            const char **text, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
