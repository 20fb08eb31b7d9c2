/* text/tokenizer/filters.h -- the normalizers that look at one character at a time: BertNormalizer,
 * StripAccents, Nmt, Lowercase. Each appends to `out` what it makes of valid UTF-8. */
#ifndef WEFT_TEXT_TOKENIZER_FILTERS_H
#define WEFT_TEXT_TOKENIZER_FILTERS_H

#include <stdbool.h>

#include "text/tokenizer/buffer.h"

weft_status weft__lowercase(const char *text, size_t length, text_buffer *out);
weft_status weft__strip_accents(const char *text, size_t length, text_buffer *out);
weft_status weft__normalize_nmt(const char *text, size_t length, text_buffer *out);

/* BertNormalizer's parts, applied in this order. */
typedef struct bert_options {
    bool clean;   /* control characters go, white space becomes spaces */
    bool chinese; /* spaces around Chinese characters */
    bool accents; /* decomposes, and nonspacing marks go */
    bool lowercase;
} bert_options;

weft_status weft__normalize_bert(const bert_options *options, const char *text, size_t length,
                                 text_buffer *out);

#endif
