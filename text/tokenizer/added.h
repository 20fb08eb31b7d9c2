/* text/tokenizer/added.h -- added tokens, which are found in the text before it is split into
 * words. */
#ifndef WEFT_TEXT_TOKENIZER_ADDED_H
#define WEFT_TEXT_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"

typedef struct added_token {
    char *text;
    size_t length;
    int32_t id;
    bool single_word;    /* matches only if no letter, mark, digit or connector is adjacent */
    bool lstrip, rstrip; /* strips white space before it, after it */
} added_token;

/* A set of added tokens. Zeroed is empty. */
typedef struct added_set {
    added_token *tokens;
    size_t count;
    bool starts[256]; /* whether a token starts with this byte */
} added_set;

/* Adds a token; the set keeps a copy of `token->text`. */
weft_status weft__added_add(added_set *set, const added_token *token);

/* Call once, after the last add. */
void weft__added_sort(added_set *set);
void weft__added_release(added_set *set);

typedef struct added_match {
    int32_t id;
    size_t start, end; /* of the token with the white space that it strips */
} added_match;

/* Finds the next token in valid UTF-8 from *position on, the longest of several that start
 * together; `floor` is the end of the previous match (0 at first). Advances *position past it. */
bool weft__added_next(const added_set *set, const char *text, size_t length, size_t floor,
                      size_t *position, added_match *match);

#endif
