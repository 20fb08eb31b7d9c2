/* weft/tokenizer.h -- text to token ids and back, as defined by a checkpoint's tokenizer.json.
 *
 * Supported: byte-pair encoding, byte-level (GPT-2, Qwen, Llama 3) or with byte fallback (Gemma,
 * Mistral); Unigram (T5, XLM-RoBERTa, ALBERT); WordPiece (BERT); WordLevel. From GGUF files: llama,
 * gpt2, gemma4, bert (lower-cased if the vocabulary has no upper-case letters) and t5. Anything
 * else is WEFT_UNSUPPORTED, with a message that names file, field and type.
 *
 * Text is UTF-8 with an explicit length, so NUL is an ordinary character. Ids are int32, as models
 * take them. A loaded tokenizer does not change, so threads may share it.
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

/* Loads a tokenizer.json, the one in a checkpoint's folder, or that of a GGUF file. A
 * tokenizer_config.json in the same folder defines bos, eos and pad. *out is owned by the caller.
 * WEFT_IO if the file cannot be read, WEFT_INVALID if it is malformed, WEFT_UNSUPPORTED as above;
 * *out is then NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_load(const char *path, weft_tokenizer **out)
    WEFT_NONNULL(2);

/* The same from memory, with the same ownership and failures. `json` is the text of a
 * tokenizer.json, `config` that of a tokenizer_config.json or NULL. Messages use `name` as the
 * file's name. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_parse(const char *json, size_t length,
                                                         const char *config, size_t config_length,
                                                         const char *name, weft_tokenizer **out)
    WEFT_NONNULL(6);

/* Loads the tokenizer at `path` (weft_tokenizer_load) and adds n tokens, with ids after the largest
 * one in the given order. Like those of add_tokens in transformers they are ordinary tokens that
 * are recognized anywhere in a text. WEFT_INVALID for a token that is empty, not UTF-8, a duplicate
 * or already in the vocabulary; WEFT_UNSUPPORTED for a GGUF file without byte-pair encoding. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_extend(const char *path,
                                                          const char *const *tokens, int n,
                                                          weft_tokenizer **out) WEFT_NONNULL(4);
/* The number of tokens that weft_tokenizer_extend added; 0 for other tokenizers. */
WEFT_API int32_t weft_tokenizer_further(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);
/* Saves an extended tokenizer as tokenizer.json, and tokenizer_config.json if it had one, in a
 * folder that is created if necessary, and deleted again on failure. WEFT_INVALID for a tokenizer
 * that is not from weft_tokenizer_extend; WEFT_IO if a file cannot be written. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_save(const weft_tokenizer *tokenizer,
                                                        const char *folder) WEFT_NONNULL(1);

/* NULL is accepted. */
WEFT_API void weft_tokenizer_free(weft_tokenizer *tokenizer);

enum {
    /* encode: add the post-processor's tokens around the text, such as <bos> */
    WEFT_TOKENIZER_ADD_SPECIAL = 1,
    /* decode: omit the tokens that tokenizer.json marks special */
    WEFT_TOKENIZER_SKIP_SPECIAL = 2
};

/* Encodes `length` bytes of text, recognizing added tokens. The caller frees *ids with weft_free;
 * it is not NULL on success, even when *count is 0, and NULL on failure. WEFT_INVALID, with the
 * position, for text that is not UTF-8. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_encode(const weft_tokenizer *tokenizer,
                                                          const char *text, size_t length,
                                                          unsigned flags, int32_t **ids,
                                                          size_t *count) WEFT_NONNULL(1, 5, 6);

/* Shortens `count` ids that weft_tokenizer_encode made with WEFT_TOKENIZER_ADD_SPECIAL to at most
 * `most`, by removing the last ones of the text: the special tokens around it stay. Returns the new
 * count, which is that of the special tokens if `most` is smaller. */
WEFT_API size_t weft_tokenizer_truncate(const weft_tokenizer *tokenizer, int32_t *ids, size_t count,
                                        size_t most) WEFT_NONNULL(1);

/* Decodes ids. The caller frees *text with weft_free; it is NUL-terminated, and *length (may be
 * NULL) excludes the NUL. Invalid UTF-8 becomes U+FFFD. An id without a token, as in a padded
 * vocabulary, gives no text; a negative id is WEFT_INVALID. */
WEFT_NODISCARD WEFT_API weft_status weft_tokenizer_decode(const weft_tokenizer *tokenizer,
                                                          const int32_t *ids, size_t count,
                                                          unsigned flags, char **text,
                                                          size_t *length) WEFT_NONNULL(1, 5);

/* One more than the largest id. */
WEFT_API int32_t weft_tokenizer_vocab_size(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);

/* The id of a token in the vocabulary's spelling (byte-level: a space is U+0120), or -1. */
WEFT_API int32_t weft_tokenizer_token_to_id(const weft_tokenizer *tokenizer, const char *token)
    WEFT_NONNULL(1);

/* The vocabulary's spelling of an id, owned by the tokenizer; NULL for an id without a token. */
WEFT_API const char *weft_tokenizer_id_to_token(const weft_tokenizer *tokenizer, int32_t id);

/* Whether tokenizer.json marks the token special. */
WEFT_API int weft_tokenizer_is_special(const weft_tokenizer *tokenizer, int32_t id) WEFT_NONNULL(1);

/* The ids of bos_token, eos_token and pad_token in tokenizer_config.json; -1 if undefined. */
WEFT_API int32_t weft_tokenizer_bos(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);
WEFT_API int32_t weft_tokenizer_eos(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);
WEFT_API int32_t weft_tokenizer_pad(const weft_tokenizer *tokenizer) WEFT_NONNULL(1);

/* Decodes a stream one id at a time. The concatenated texts equal the result of
 * weft_tokenizer_decode for all ids at once, and none ends within a UTF-8 character. Borrows the
 * tokenizer; `flags` are those of decode. */
typedef struct weft_detokenizer weft_detokenizer;

/* Creates a detokenizer in *out; free it with weft_detokenizer_free. Fails only when out of memory.
 */
WEFT_NODISCARD WEFT_API weft_status weft_detokenizer_new(const weft_tokenizer *tokenizer,
                                                         unsigned flags, weft_detokenizer **out)
    WEFT_NONNULL(1, 3);

/* NULL is accepted. */
WEFT_API void weft_detokenizer_free(weft_detokenizer *detokenizer);

/* Adds an id. *text is the text that it completes, NUL-terminated and often empty, owned by the
 * detokenizer and valid until the next call. `length` may be NULL. WEFT_INVALID for a negative id.
 */
WEFT_NODISCARD WEFT_API weft_status weft_detokenizer_push(weft_detokenizer *detokenizer, int32_t id,
                                                          const char **text, size_t *length);

/* Ends the stream: *text is the text held back (U+FFFD for an incomplete character), valid until
 * the next call. The detokenizer can then start a new stream. Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_detokenizer_finish(weft_detokenizer *detokenizer,
                                                            const char **text, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
