/* text/schema/tokens.h -- a vocabulary in the order of its bytes, and which of it may come
 * next. */
#ifndef WEFT_TEXT_SCHEMA_TOKENS_H
#define WEFT_TEXT_SCHEMA_TOKENS_H

#include "text/schema/machine.h"
#include "weft/tokenizer.h"

typedef struct token_entry {
    int32_t id;
    uint32_t start, length; /* within the bytes */
    uint32_t shared;        /* bytes in common with the entry before */
} token_entry;

/* Tokens without text, and special ones, are not in it. */
typedef struct token_table {
    token_entry *entries;
    size_t n;
    char *bytes;
    int32_t vocab_size;
    uint32_t longest; /* bytes of the longest token */
} token_table;

weft_status weft__tokens_read(const weft_tokenizer *tokenizer, token_table *out);
void weft__tokens_release(token_table *table);

/* Sets allowed[id] for every token that fits behind the stacks and leaves at most `budget` bytes to
 * the end of the document; the others' become false. *worst: the most bytes that an allowed token
 * leaves. */
weft_status weft__tokens_mask(const token_table *table, machine *m, const frame_list *stacks,
                              int64_t budget, bool *allowed, int64_t *worst);

#endif
