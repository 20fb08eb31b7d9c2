/* models/text/vocab.h -- the two tables of a tokenizer: tokens by text and by id, merges by pair.
 * Both are open-addressing hash tables of a power of two, at most half full. */
#ifndef WEFT_MODELS_TEXT_VOCAB_H
#define WEFT_MODELS_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/buffer.h"

/* Ids up to this are accepted; the tables by id are as long as the largest. */
enum { VOCAB_MAX_ID = (1 << 22) - 1 };

/* TOKEN_RENAMED: an added token that the normalizer changes; it decodes to what that made of it. */
enum { TOKEN_ADDED = 1, TOKEN_SPECIAL = 2, TOKEN_IN_MODEL = 4, TOKEN_RENAMED = 8 };

typedef struct vocab_token {
    size_t start; /* in `texts`; followed by a NUL */
    uint32_t length;
    uint8_t flags; /* TOKEN_...; 0: the id has no token */
} vocab_token;

typedef struct text_vocab {
    text_buffer texts;
    vocab_token *tokens; /* by id */
    int32_t size;        /* one more than the largest id */
    uint32_t *slots;     /* id + 1, or 0 */
    size_t mask;
    size_t longest; /* token, in bytes */
} text_vocab;

/* An empty vocabulary for ids below `size` and at most `count` tokens. */
weft_status weft__vocab_init(text_vocab *vocab, int32_t size, size_t count);
void weft__vocab_release(text_vocab *vocab);

/* Adds a token; the id and the text must be new (the caller asks first). */
weft_status weft__vocab_add(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags);

/* The id of a text, or -1. */
int32_t weft__vocab_find(const text_vocab *vocab, const char *text, size_t length);

/* The same among the model's own tokens. */
int32_t weft__vocab_find_in_model(const text_vocab *vocab, const char *text, size_t length);

/* The token of any id, NULL when there is none. */
const vocab_token *weft__vocab_token(const text_vocab *vocab, int32_t id);
const char *weft__vocab_text(const text_vocab *vocab, const vocab_token *token);

typedef struct text_merge {
    int32_t left, right;
    uint32_t rank; /* the lower merges first; UINT32_MAX: no merge */
    int32_t id;    /* of the merged token */
} text_merge;

typedef struct text_merges {
    text_merge *entries;
    size_t mask;
} text_merges;

weft_status weft__merges_init(text_merges *merges, size_t count);
void weft__merges_release(text_merges *merges);

/* Sets the merge of a pair; a later one replaces an earlier one. */
void weft__merges_set(text_merges *merges, text_merge merge);

/* The merge of a pair, NULL when there is none. */
const text_merge *weft__merges_find(const text_merges *merges, int32_t left, int32_t right);

#endif
