/* text/tokenizer/regex.h -- tokenizer.json's patterns, matched by PCRE2 in Unicode mode. */
#ifndef WEFT_TEXT_TOKENIZER_REGEX_H
#define WEFT_TEXT_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "core/io/json.h"

typedef struct text_regex text_regex;

/* Compiles a pattern. `at` names it in messages. */
weft_status weft__regex_new(const char *pattern, size_t length, bool literal, const weft__json *at,
                            text_regex **out);

/* Compiles the member `key` of `object`: {"String": s} or {"Regex": r}. */
weft_status weft__regex_from_json(const weft__json *object, const char *key, text_regex **out);

/* NULL is accepted. */
void weft__regex_free(text_regex *regex);

/* Whether it was compiled from that pattern. */
bool weft__regex_is(const text_regex *regex, const char *pattern, bool literal);

/* A search through a text, which must be valid UTF-8 and outlive the search. */
typedef struct regex_search {
    const text_regex *regex;
    struct pcre2_real_match_data_8 *match;
    const char *text;
    size_t length, position;
    size_t start, end; /* range of the match */
} regex_search;

weft_status weft__regex_search(const text_regex *regex, const char *text, size_t length,
                               regex_search *search);
void weft__regex_search_end(regex_search *search);

/* Finds the next match, starting at or after the end of the previous one; *found says whether there
 * is one. */
weft_status weft__regex_next(regex_search *search, bool *found);

#endif
