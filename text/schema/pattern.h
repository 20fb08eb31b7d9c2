/* text/schema/pattern.h -- regular expressions as automata that read a string character by
 * character and know whether it can still match. */
#ifndef WEFT_TEXT_SCHEMA_PATTERN_H
#define WEFT_TEXT_SCHEMA_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

enum { WEFT__PATTERN_NOWHERE = -1 };

/* A deterministic automaton over Unicode characters; every state can reach a match. Immutable. */
typedef struct weft__pattern {
    uint32_t *firsts; /* first code point of each character class, ascending from 0 */
    int n_classes;
    int32_t *next; /* [state][class] */
    int32_t *distance;
    int32_t n_states;
} weft__pattern;

typedef struct weft__pattern_source {
    const char *text;
    bool negated; /* strings must not match it */
} weft__pattern_source;

/* For strings that match all of n patterns (each anywhere in the string, unless it is anchored) and
 * have min_length to max_length characters (max_length < 0: no limit). *any becomes false, with
 * *out NULL, if there is no such string. Errors as for weft__pattern_parse; also WEFT_UNSUPPORTED
 * when the automaton would be too large. */
weft_status weft__pattern_new(const weft__pattern_source *patterns, size_t n, int64_t min_length,
                              int64_t max_length, const char *where, weft__pattern **out,
                              bool *any);
void weft__pattern_free(weft__pattern *pattern); /* NULL is accepted */

/* State 0 is the start. The state after a character; -1 when no match begins so. */
int32_t weft__pattern_step(const weft__pattern *pattern, int32_t state, uint32_t character);
/* Whether a UTF-8 text matches. */
bool weft__pattern_matches(const weft__pattern *pattern, const char *text, size_t n);
/* The smallest distance after one character of first .. last; -1: no match begins so. */
int32_t weft__pattern_nearest(const weft__pattern *pattern, int32_t state, uint32_t first,
                              uint32_t last);
/* The fewest bytes, as JSON, that complete a match; 0: the string matches. */
int32_t weft__pattern_distance(const weft__pattern *pattern, int32_t state);

#endif
