/* text/tokenizer/charsmap.h -- SentencePiece's compiled normalization rules, the "Precompiled"
 * normalizer of tokenizer.json. */
#ifndef WEFT_TEXT_TOKENIZER_CHARSMAP_H
#define WEFT_TEXT_TOKENIZER_CHARSMAP_H

#include "core/io/json.h"
#include "text/tokenizer/buffer.h"

/* A double-array trie of UTF-8 strings (Yata et al. 2007, in Darts-clone's format), whose values
 * are offsets of NUL-terminated replacements. */
typedef struct text_charsmap {
    uint32_t *units;
    size_t unit_count;
    char *texts;
    size_t text_bytes;
} text_charsmap;

/* Decodes "precompiled_charsmap": base64 of the trie's size in bytes (uint32), the trie, and the
 * replacements. */
weft_status weft__charsmap_load(const weft__json *at, text_charsmap **out);

void weft__charsmap_free(text_charsmap *map); /* NULL is accepted */

/* Appends the text with the rules applied. Each extended grapheme cluster of fewer than 6 bytes is
 * replaced as a whole if it has a rule, otherwise character by character. Input and output are
 * valid UTF-8. Stops early if `out` exceeds `limit` bytes. */
weft_status weft__charsmap_apply(const text_charsmap *map, const char *text, size_t length,
                                 size_t limit, text_buffer *out);

#endif
