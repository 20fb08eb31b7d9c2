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
    int32_t *within;  /* [characters][state]: the distance with at most so many characters;
                       * INT32_MAX: no match */
    int64_t n_within; /* with as many characters or more: `distance` */
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

/* Prepares the distances of strings of at most max_length characters, which then need no states of
 * their own: states count characters only up to min_length. WEFT_UNSUPPORTED when there would be
 * too many. */
weft_status weft__pattern_limit(weft__pattern *pattern, int64_t max_length, const char *where);

/* State 0 is the start. The state after a character; -1 when no match begins so. */
int32_t weft__pattern_step(const weft__pattern *pattern, int32_t state, uint32_t character);
/* Whether a UTF-8 text matches. */
bool weft__pattern_matches(const weft__pattern *pattern, const char *text, size_t n);
/* The fewest bytes, as JSON, that complete a match with at most `most` characters (negative: no
 * limit); 0: the string matches; INT32_MAX: no match. With a limit, weft__pattern_limit must have
 * been called. */
int32_t weft__pattern_distance(const weft__pattern *pattern, int32_t state, int64_t most);
/* The smallest of these distances after one character of first .. last. */
int32_t weft__pattern_nearest(const weft__pattern *pattern, int32_t state, uint32_t first,
                              uint32_t last, int64_t most);

#endif
