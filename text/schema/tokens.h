/* text/schema/tokens.h -- the vocabulary sorted by bytes, and which tokens are allowed next. */
#ifndef WEFT_TEXT_SCHEMA_TOKENS_H
#define WEFT_TEXT_SCHEMA_TOKENS_H

#include "text/schema/machine.h"
#include "weft/tokenizer.h"

typedef struct token_entry {
    int32_t id;
    uint32_t start, length; /* position within the bytes */
    uint32_t shared;        /* bytes shared with the previous entry */
} token_entry;

/* The vocabulary without special tokens and tokens without text. */
typedef struct token_table {
    token_entry *entries;
    size_t n;
    char *bytes;
    int32_t vocab_size;
    uint32_t longest; /* length of the longest token */
} token_table;

weft_status weft__tokens_read(const weft_tokenizer *tokenizer, token_table *out);
void weft__tokens_release(token_table *table);

/* Sets allowed[id] for every token that is valid after the stacks and leaves at most `budget` bytes
 * to the end of the document; clears the others. *worst: the most bytes that an allowed token
 * leaves. */
weft_status weft__tokens_mask(const token_table *table, machine *m, const frame_list *stacks,
                              int64_t budget, bool *allowed, int64_t *worst);

#endif
