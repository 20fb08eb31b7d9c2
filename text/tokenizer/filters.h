/* text/tokenizer/filters.h -- the normalizers that process one character at a time: BertNormalizer,
 * StripAccents, Nmt, Lowercase. Each appends its result for valid UTF-8 to `out`. */
#ifndef WEFT_TEXT_TOKENIZER_FILTERS_H
#define WEFT_TEXT_TOKENIZER_FILTERS_H

#include <stdbool.h>

#include "text/tokenizer/buffer.h"

weft_status weft__lowercase(const char *text, size_t length, text_buffer *out);
weft_status weft__strip_accents(const char *text, size_t length, text_buffer *out);
weft_status weft__normalize_nmt(const char *text, size_t length, text_buffer *out);

/* The parts of BertNormalizer, in this order. */
typedef struct bert_options {
    bool clean;   /* removes control characters, and makes white space spaces */
    bool chinese; /* puts spaces around Chinese characters */
    bool accents; /* decomposes, and removes nonspacing marks */
    bool lowercase;
} bert_options;

weft_status weft__normalize_bert(const bert_options *options, const char *text, size_t length,
                                 text_buffer *out);

#endif
