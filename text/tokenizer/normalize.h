/* text/tokenizer/normalize.h -- tokenizer.json's "normalizer": a list of steps over a text. */
#ifndef WEFT_TEXT_TOKENIZER_NORMALIZE_H
#define WEFT_TEXT_TOKENIZER_NORMALIZE_H

#include "core/io/json.h"
#include "text/tokenizer/buffer.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/filters.h"
#include "text/tokenizer/regex.h"

enum { NORMALIZER_MAX_STEPS = 16 };

typedef enum normalizer_kind {
    NORMALIZE_UNICODE,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP,
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE,
    NORMALIZE_CHARSMAP,
    NORMALIZE_BERT,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_NMT
} normalizer_kind;

typedef struct normalizer_step {
    normalizer_kind kind;
    int options;         /* UNICODE: utf8proc's */
    text_regex *pattern; /* REPLACE; NULL where `from` is what is replaced */
    bool left, right;    /* STRIP */
    char *from;
    size_t from_length;
    char *content; /* PREPEND, REPLACE */
    size_t content_length;
    text_charsmap *charsmap; /* CHARSMAP */
    bert_options bert;       /* BERT */
} normalizer_step;

/* Zeroed changes nothing. */
typedef struct text_normalizer {
    normalizer_step steps[NORMALIZER_MAX_STEPS];
    int count;
} text_normalizer;

/* Reads the "normalizer" of a tokenizer.json; absent and null are no normalizer. */
weft_status weft__normalizer_load(const weft__json *root, text_normalizer *out);

/* Adds steps: composition; a U+2581 in place of each space, and one in front where `prefix`. */
weft_status weft__normalizer_add_nfc(text_normalizer *normalizer);
weft_status weft__normalizer_add_marks(text_normalizer *normalizer, bool prefix, const char *name);

void weft__normalizer_release(text_normalizer *normalizer);

/* Normalizes valid UTF-8. WEFT_INVALID when the steps make of it more than 64 times its bytes and 1
 * MiB. *result points to `text` itself when nothing changed it, else into one of
 * the two buffers, which are scratch. *first, unless NULL, becomes false where the first character
 * was removed. */
weft_status weft__normalize(const text_normalizer *normalizer, const char *text, size_t length,
                            text_buffer scratch[2], const char **result, size_t *result_length,
                            bool *first);

/* Whether Strip takes a character away. */
bool weft__strips(const char *text, int size);

/* ---- starts.c ------------------------------------------------------------------------------- */

/* Whether the first character of a step's result stands for the first one of its text, which is not
 * empty. What replaces several characters stands for the last of them, as in the reference. */
weft_status weft__step_keeps_start(const normalizer_step *step, const char *text, size_t length,
                                   bool *keeps);

/* ---- normalize.c ---------------------------------------------------------------------------- */

/* Unicode normalization of valid UTF-8 with utf8proc's options, appended to `out`. */
weft_status weft__normalize_unicode(const char *text, size_t length, int options, text_buffer *out);

#endif
