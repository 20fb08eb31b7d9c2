/* text/tokenizer/pre.h -- the ways of cutting words that GGUF files know by name. */
#ifndef WEFT_TEXT_TOKENIZER_PRE_H
#define WEFT_TEXT_TOKENIZER_PRE_H

#include <stdbool.h>
#include <stddef.h>

enum { PRE_MAX_PATTERNS = 4 };

typedef struct text_pre {
    const char *names;                      /* of tokenizer.ggml.pre, parted by spaces */
    const char *patterns[PRE_MAX_PATTERNS]; /* one after another, as many as are not NULL */
    bool ignore_merges;
    bool add_bos; /* unless the file says otherwise */
    bool nfc;     /* the original tokenizer.json has this normalizer; GGUF does not keep it */
} text_pre;

/* Entry i, from 0; NULL behind the last. */
const text_pre *weft__pre_at(size_t i);

/* The entry of a name, NULL when there is none. */
const text_pre *weft__pre_find(const char *name);

#endif
