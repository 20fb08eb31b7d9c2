/* text/tokenizer/parts.h -- a tokenizer from its parts, as the metadata of a GGUF file lists them.
 */
#ifndef WEFT_TEXT_TOKENIZER_PARTS_H
#define WEFT_TEXT_TOKENIZER_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"
#include "weft/tokenizer.h"

/* What a flag says that may be absent; absent, the tokenizer's kind decides. Zeroed is absent. */
typedef enum text_choice { TEXT_DEFAULT, TEXT_NO, TEXT_YES } text_choice;

/* The kinds of tokens of tokenizer.ggml.token_type. */
enum {
    TEXT_NORMAL = 1,
    TEXT_UNKNOWN = 2,
    TEXT_CONTROL = 3,
    TEXT_USER_DEFINED = 4,
    TEXT_UNUSED = 5,
    TEXT_BYTE = 6
};

/* The keys "tokenizer.ggml.<field>" of a file. All memory is borrowed for the call alone. */
typedef struct text_parts {
    const char *name; /* the file, for messages */
    /* "llama" (scores), "gpt2" (byte-level merges), "gemma4" (merges), "bert" (WordPiece), "t5"
     * (Unigram, by scores) */
    const char *model;
    const char *pre; /* how "gpt2" cuts words; NULL: "default" */
    const text_string *tokens;
    size_t token_count;
    const float *scores;       /* token_count of them, "llama" and "t5"; the others take none */
    const int32_t *types;      /* token_count of TEXT_...; NULL: all normal */
    const text_string *merges; /* "a b" each; "gpt2" and "gemma4" need them */
    size_t merge_count;
    int32_t bos, eos, unknown, pad; /* -1: none */
    text_choice add_bos, add_eos, add_space_prefix;
    int32_t cls, sep;              /* "bert": around a text; -1: bos and eos are */
    text_choice remove_spaces;     /* "t5": of spaces side by side all but one */
    const unsigned char *charsmap; /* "t5": SentencePiece's compiled rules */
    size_t charsmap_size;
} text_parts;

/* Makes a tokenizer as weft_tokenizer_load does, owned by the caller. WEFT_UNSUPPORTED for another
 * model or pre, WEFT_INVALID for parts that do not fit together; the message names `name` and the
 * key. *out is then NULL. */
weft_status weft__tokenizer_from_parts(const text_parts *parts, weft_tokenizer **out);

/* ---- parts_pieces.c ------------------------------------------------------------------------- */

/* The tokens of "bert" as a vocabulary of WordPiece spells them, in new memory (weft_free). */
weft_status weft__parts_respell(const text_parts *parts, text_buffer *texts, text_string **out);

/* Model, normalizer, pre-tokenizer, decoder and affixes of "bert" and "t5", whose tokens have been
 * entered. */
weft_status weft__parts_use_word_pieces(const text_parts *parts, weft_tokenizer *tokenizer);
weft_status weft__parts_use_unigram(const text_parts *parts, weft_tokenizer *tokenizer);

/* ---- parts_made.c --------------------------------------------------------------------------- */

/* The other way: parts that a tokenizer can be made from again, with the memory that they are in.
 * They borrow from the tokenizer, too. */
typedef struct text_parts_made {
    text_parts parts;
    text_string *tokens, *merges;
    float *scores;
    int32_t *types;
    char pre[32];
    text_buffer texts; /* of padding tokens and merges */
} text_parts_made;

/* `size` tokens, those that the tokenizer lacks being unused padding. WEFT_UNSUPPORTED, with the
 * reason, when a GGUF file cannot say what the tokenizer does. Release `out` in any case. */
weft_status weft__tokenizer_to_parts(const weft_tokenizer *tokenizer, int32_t size,
                                     text_parts_made *out);
void weft__parts_release(text_parts_made *made);

#endif
