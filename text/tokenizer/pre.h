/* text/tokenizer/pre.h -- the pre-tokenizers that GGUF files know by name. */
#ifndef WEFT_TEXT_TOKENIZER_PRE_H
#define WEFT_TEXT_TOKENIZER_PRE_H

#include <stdbool.h>
#include <stddef.h>

enum { PRE_MAX_PATTERNS = 6 };

typedef struct text_pre {
    const char *names;                      /* values of tokenizer.ggml.pre, separated by spaces */
    const char *patterns[PRE_MAX_PATTERNS]; /* applied in order, up to the first NULL */
    bool ignore_merges;
    bool add_bos; /* the default */
    bool nfc;     /* the original tokenizer.json has this normalizer, which GGUF does not record */
} text_pre;

/* Entry i, from 0; NULL after the last. */
const text_pre *weft__pre_at(size_t i);

/* The entry for a name, or NULL. */
const text_pre *weft__pre_find(const char *name);

#endif
