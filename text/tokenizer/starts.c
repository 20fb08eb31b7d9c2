/* text/tokenizer/starts.c -- whether the first character of a normalized text comes from the first
 * character of the input, which Metaspace's "first" needs to know. */
#include <string.h>

#include "core/io/utf8.h"
#include "text/tokenizer/normalize.h"

/* Finds the first match of a pattern; without one it begins at `length`. */
static weft_status first_match(const normalizer_step *step, const char *text, size_t length,
                               size_t *start, size_t *end)
{
    regex_search search;
    bool found = false;
    weft_status status = weft__regex_search(step->pattern, text, length, &search);
    if (!status)
        status = weft__regex_next(&search, &found);
    *start = found ? search.start : length;
    *end = found ? search.end : length;
    weft__regex_search_end(&search);
    return status;
}

weft_status weft__step_keeps_start(const normalizer_step *step, const char *text, size_t length,
                                   bool *keeps)
{
    const size_t size = (size_t)weft__utf8_step(text, length);
    size_t start = length, end = length;
    text_buffer made = {0};
    weft_status status = WEFT_OK;
    *keeps = true;
    switch (step->kind) {
    case NORMALIZE_STRIP:
        *keeps = !(step->left && weft__strips(text, (int)size));
        break;
    case NORMALIZE_REPLACE:
        if (!step->from)
            status = first_match(step, text, length, &start, &end);
        else if (length >= step->from_length && step->from_length > 0 &&
                 memcmp(text, step->from, step->from_length) == 0)
            start = 0, end = step->from_length;
        *keeps = start > 0 || end == 0 || (end == size && step->content_length > 0);
        break;
    case NORMALIZE_STRIP_ACCENTS:
        status = weft__strip_accents(text, size, &made);
        *keeps = made.length > 0;
        break;
    case NORMALIZE_NMT:
        status = weft__normalize_nmt(text, size, &made);
        *keeps = made.length > 0;
        break;
    case NORMALIZE_BERT:
        status = weft__normalize_bert(&step->bert, text, size, &made);
        *keeps = made.length > 0;
        break;
    case NORMALIZE_UNICODE:
    case NORMALIZE_LOWERCASE:
    case NORMALIZE_CHARSMAP: /* the reference ignores removals by this step */
    case NORMALIZE_PREPEND:
        break;
    }
    weft__bytes_release(&made);
    return status;
}
