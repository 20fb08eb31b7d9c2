/* text/tokenizer/vocab.h -- the two tables of a tokenizer: tokens by text and by id, merges by
 * pair. Both are open-addressing hash tables without an allocation per entry. */
#ifndef WEFT_TEXT_TOKENIZER_VOCAB_H
#define WEFT_TEXT_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"

/* The largest accepted id; tables by id are as long as the largest used. */
enum { VOCAB_MAX_ID = (1 << 22) - 1 };

/* TOKEN_RENAMED: an added token that the normalizer changes; it decodes to the result. */
enum {
    TOKEN_ADDED = 1,
    TOKEN_SPECIAL = 2,
    TOKEN_IN_MODEL = 4,
    TOKEN_RENAMED = 8,
    TOKEN_KNOWN = 16
};

typedef struct vocab_token {
    size_t start; /* in `texts`; NUL-terminated */
    uint32_t length;
    uint8_t flags; /* TOKEN_... including KNOWN; 0: the id has no token */
} vocab_token;

/* Zeroed is empty. */
typedef struct text_vocab {
    text_buffer texts;
    vocab_token *tokens; /* by id */
    size_t capacity;     /* of `tokens` */
    int32_t size;        /* largest id + 1 */
    uint64_t *slots;     /* id + 1, or 0; the upper half is half of the text's hash */
    size_t mask;
    size_t count;
    size_t longest; /* bytes of the longest token */
} text_vocab;

void weft__vocab_release(text_vocab *vocab);

/* Adds a token with a new id (the caller checks). Of two tokens with the same text the later one is
 * found. */
weft_status weft__vocab_add(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags);

/* The same, but it is found only after weft__vocab_index. */
weft_status weft__vocab_put(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags);
weft_status weft__vocab_index(text_vocab *vocab);

/* The id of a text, or -1. */
int32_t weft__vocab_find(const text_vocab *vocab, const char *text, size_t length);

/* The same among the model's own tokens. */
int32_t weft__vocab_find_in_model(const text_vocab *vocab, const char *text, size_t length);

/* The token of an id, or NULL. */
const vocab_token *weft__vocab_token(const text_vocab *vocab, int32_t id);
const char *weft__vocab_text(const text_vocab *vocab, const vocab_token *token);

/* A hash of any text. */
uint64_t weft__text_hash(const char *text, size_t length);

/* For looking up many texts: each step prefetches what the next step needs, so run the same step
 * for several texts before the next one. The last step returns the model's own token, or -1. */
void weft__vocab_ask_slot(const text_vocab *vocab, uint64_t hash);
void weft__vocab_ask_token(const text_vocab *vocab, uint64_t hash);
void weft__vocab_ask_text(const text_vocab *vocab, uint64_t hash);
int32_t weft__vocab_answer(const text_vocab *vocab, uint64_t hash, const char *text, size_t length);

#define NO_MERGE UINT32_MAX

typedef struct text_merge {
    int32_t left, right;
    uint32_t rank; /* lower ranks merge first; NO_MERGE: empty entry */
} text_merge;

/* Zeroed is empty; call weft__merges_index before looking up. */
typedef struct text_merges {
    struct merge_parts {
        int32_t left, right, whole;
    } * list; /* by rank */
    size_t count;
    text_merge *entries;
    size_t size;
} text_merges;

void weft__merges_release(text_merges *merges);

/* Appends a merge, whose rank is the number of merges before it. `left` -1 reserves a rank without
 * a merge. */
weft_status weft__merges_add(text_merges *merges, int32_t left, int32_t right, int32_t whole);

/* Builds the table after the last add. Of two merges of the same pair the later one counts. */
weft_status weft__merges_index(text_merges *merges);

/* The rank of a pair's merge, or NO_MERGE. */
uint32_t weft__merges_rank(const text_merges *merges, int32_t left, int32_t right);

#endif
