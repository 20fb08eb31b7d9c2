/* text/tokenizer/normalize.h -- tokenizer.json's "normalizer": a list of steps applied to a text.
 */
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
    int options;         /* UNICODE: options for utf8proc */
    text_regex *pattern; /* REPLACE; NULL: replaces the string `from` */
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

/* Reads the "normalizer" of a tokenizer.json; absent or null means none. */
weft_status weft__normalizer_load(const weft__json *root, text_normalizer *out);

/* Add steps: NFC; and U+2581 in place of each space, with one in front if `prefix`. */
weft_status weft__normalizer_add_nfc(text_normalizer *normalizer);
weft_status weft__normalizer_add_marks(text_normalizer *normalizer, bool prefix, const char *name);

void weft__normalizer_release(text_normalizer *normalizer);

/* Normalizes valid UTF-8. WEFT_INVALID when the result exceeds 64 times the input plus 1 MiB.
 * *result is `text` itself if nothing changed, else points into one of the two scratch buffers.
 * *first, unless NULL, becomes false if the first character was removed. */
weft_status weft__normalize(const text_normalizer *normalizer, const char *text, size_t length,
                            text_buffer scratch[2], const char **result, size_t *result_length,
                            bool *first);

/* Whether Strip removes a character. */
bool weft__strips(const char *text, int size);

/* ---- starts.c ------------------------------------------------------------------------------- */

/* Whether the first character of a step's result comes from the first one of its non-empty input. A
 * replacement of several characters counts as coming from the last of them, as in the reference. */
weft_status weft__step_keeps_start(const normalizer_step *step, const char *text, size_t length,
                                   bool *keeps);

/* ---- normalize.c ---------------------------------------------------------------------------- */

/* Appends the normalization of valid UTF-8, by utf8proc's options, to `out`. */
weft_status weft__normalize_unicode(const char *text, size_t length, int options, text_buffer *out);

#endif
