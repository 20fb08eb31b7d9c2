/* text/tokenizer/parts.h -- makes tokenizers from the parts listed in GGUF metadata. */
#ifndef WEFT_TEXT_TOKENIZER_PARTS_H
#define WEFT_TEXT_TOKENIZER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"
#include "weft/tokenizer.h"

/* A flag that may be absent, in which case the kind of tokenizer decides. Zeroed is absent. */
typedef enum text_choice { TEXT_DEFAULT, TEXT_NO, TEXT_YES } text_choice;

/* The token types of tokenizer.ggml.token_type. */
enum {
    TEXT_NORMAL = 1,
    TEXT_UNKNOWN = 2,
    TEXT_CONTROL = 3,
    TEXT_USER_DEFINED = 4,
    TEXT_UNUSED = 5,
    TEXT_BYTE = 6
};

/* The values of the keys "tokenizer.ggml.<field>". All memory is borrowed for the call only. */
typedef struct text_parts {
    const char *name; /* the file, for messages */
    /* "llama" (scores), "gpt2" (byte-level merges), "gemma4" (merges), "bert" (WordPiece), "t5"
     * (Unigram, by scores) */
    const char *model;
    const char *pre; /* how "gpt2" splits words; NULL: "default" */
    const text_string *tokens;
    size_t token_count;
    const float *scores;       /* token_count scores, for "llama" and "t5" only */
    const int32_t *types;      /* token_count types TEXT_...; NULL: all normal */
    const text_string *merges; /* "a b" each; required by "gpt2" and "gemma4" */
    size_t merge_count;
    int32_t bos, eos, unknown, pad; /* -1: none */
    text_choice add_bos, add_eos, add_space_prefix;
    int32_t cls, sep;                     /* "bert": put around a text; -1: bos and eos are used */
    text_choice lowercase, strip_accents; /* "bert" */
    text_choice remove_spaces;            /* "t5": collapses adjacent spaces */
    const unsigned char *charsmap;        /* "t5": SentencePiece's compiled rules */
    size_t charsmap_size;
} text_parts;

/* Makes a tokenizer like weft_tokenizer_load; the caller owns it. WEFT_UNSUPPORTED for another
 * model or pre, WEFT_INVALID for inconsistent parts; the message names `name` and the key. *out is
 * then NULL. */
weft_status weft__tokenizer_from_parts(const text_parts *parts, weft_tokenizer **out);

/* ---- parts_pieces.c ------------------------------------------------------------------------- */

/* The tokens of "bert" respelled for a WordPiece vocabulary, in new memory (weft_free). */
weft_status weft__parts_respell(const text_parts *parts, text_buffer *texts, text_string **out);

/* Set model, normalizer, pre-tokenizer, decoder and affixes for "bert" and "t5", after the tokens
 * have been added. */
weft_status weft__parts_use_word_pieces(const text_parts *parts, weft_tokenizer *tokenizer);
weft_status weft__parts_use_unigram(const text_parts *parts, weft_tokenizer *tokenizer);

/* ---- parts_made.c --------------------------------------------------------------------------- */

/* The inverse: parts from which a tokenizer can be made again, with their memory. They also borrow
 * from the tokenizer. */
typedef struct text_parts_made {
    text_parts parts;
    text_string *tokens, *merges;
    float *scores;
    int32_t *types;
    unsigned char *charsmap;
    char pre[32];
    text_buffer texts; /* of padding tokens, respelled ones and merges */
} text_parts_made;

/* `size` tokens; those that the tokenizer lacks become unused padding. WEFT_UNSUPPORTED, with the
 * reason, when GGUF cannot represent the tokenizer. Release `out` in any case. */
weft_status weft__tokenizer_to_parts(const weft_tokenizer *tokenizer, int32_t size,
                                     text_parts_made *out);
void weft__parts_release(text_parts_made *made);

/* ---- parts_made_pieces.c -------------------------------------------------------------------- */

/* Whether a token is stored with another text: `head`, and the text without its first `cut` bytes.
 */
bool weft__parts_respells(const weft_tokenizer *t, const char *text, size_t length, int32_t type,
                          const char **head, size_t *cut);
/* All but the tokens. */
weft_status weft__parts_of_word_pieces(const weft_tokenizer *t, text_parts_made *out);
weft_status weft__parts_of_unigram(const weft_tokenizer *t, text_parts_made *out);

#endif
