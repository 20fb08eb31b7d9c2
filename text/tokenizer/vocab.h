/* text/tokenizer/vocab.h -- the two tables of a tokenizer: tokens by text and by id, merges by
 * pair. Both are open-addressing hash tables without a block of memory per entry. */
#ifndef WEFT_TEXT_TOKENIZER_VOCAB_H
#define WEFT_TEXT_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"

/* Ids up to this are accepted; the tables by id are as long as the largest. */
enum { VOCAB_MAX_ID = (1 << 22) - 1 };

/* TOKEN_RENAMED: an added token that the normalizer changes; it decodes to what that made of it. */
enum {
    TOKEN_ADDED = 1,
    TOKEN_SPECIAL = 2,
    TOKEN_IN_MODEL = 4,
    TOKEN_RENAMED = 8,
    TOKEN_KNOWN = 16
};

typedef struct vocab_token {
    size_t start; /* in `texts`; followed by a NUL */
    uint32_t length;
    uint8_t flags; /* TOKEN_..., KNOWN with them; 0: the id has no token */
} vocab_token;

/* Zeroed is empty. */
typedef struct text_vocab {
    text_buffer texts;
    vocab_token *tokens; /* by id */
    size_t capacity;     /* of `tokens` */
    int32_t size;        /* one more than the largest id */
    uint64_t *slots;     /* id + 1, or 0, with half of the text's hash above */
    size_t mask;
    size_t count;
    size_t longest; /* token, in bytes */
} text_vocab;

void weft__vocab_release(text_vocab *vocab);

/* Enters a token; the id must be new (the caller asks first). Of two with one text, the later is
 * found. */
weft_status weft__vocab_add(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags);

/* The same, but not to be found until weft__vocab_index has entered all at once. */
weft_status weft__vocab_put(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags);
weft_status weft__vocab_index(text_vocab *vocab);

/* The id of a text, or -1. */
int32_t weft__vocab_find(const text_vocab *vocab, const char *text, size_t length);

/* The same among the model's own tokens. */
int32_t weft__vocab_find_in_model(const text_vocab *vocab, const char *text, size_t length);

/* The token of any id, NULL when there is none. */
const vocab_token *weft__vocab_token(const text_vocab *vocab, int32_t id);
const char *weft__vocab_text(const text_vocab *vocab, const vocab_token *token);

/* A hash of any text. */
uint64_t weft__text_hash(const char *text, size_t length);

/* Looking up many texts: each step asks for memory that the next needs, so between one and the next
 * there should be the same step of some others. The last is the one in the model, or -1. */
void weft__vocab_ask_slot(const text_vocab *vocab, uint64_t hash);
void weft__vocab_ask_token(const text_vocab *vocab, uint64_t hash);
void weft__vocab_ask_text(const text_vocab *vocab, uint64_t hash);
int32_t weft__vocab_answer(const text_vocab *vocab, uint64_t hash, const char *text, size_t length);

#define NO_MERGE UINT32_MAX

typedef struct text_merge {
    int32_t left, right;
    uint32_t rank; /* the lower merges first; NO_MERGE: an empty entry */
} text_merge;

/* Zeroed is empty, and has no merges once weft__merges_index was called. */
typedef struct text_merges {
    struct merge_parts {
        int32_t left, right, whole;
    } * list; /* by rank */
    size_t count, capacity;
    text_merge *entries;
    size_t size;
} text_merges;

void weft__merges_release(text_merges *merges);

/* Appends a merge, its rank the number of those before it. `left` -1 holds a rank without a merge.
 */
weft_status weft__merges_add(text_merges *merges, int32_t left, int32_t right, int32_t whole);

/* Makes the table, behind the last add. Of two merges of one pair the later stays. */
weft_status weft__merges_index(text_merges *merges);

/* The rank of a pair's merge, or NO_MERGE. */
uint32_t weft__merges_rank(const text_merges *merges, int32_t left, int32_t right);

#endif
