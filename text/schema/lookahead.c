/* text/schema/lookahead.c -- patterns that begin with lookahead, as several patterns. */
#include "text/schema/lookahead.h"

#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "weft/memory.h"

static weft_status add(pattern_parts *parts, const char *where, char *text, bool negated)
{
    if (!text || !weft__list_more(parts->at, parts->n)) {
        weft_free(text);
        return weft__out_of_memory(where, "a pattern");
    }
    parts->at[parts->n++] = (weft__pattern_source){text, negated};
    return WEFT_OK;
}

/* The first of the characters `wanted` that is outside of groups and brackets; NULL: none. */
static const char *find_outside(const char *at, const char *wanted)
{
    int depth = 0;
    bool bracket = false;
    for (; *at; at++) {
        if (depth == 0 && !bracket && strchr(wanted, *at))
            return at;
        if (*at == '\\' && at[1])
            at++;
        else if (bracket)
            bracket = *at != ']';
        else if (*at == '[')
            bracket = true;
        else if (*at == '(')
            depth++;
        else if (*at == ')')
            depth--;
    }
    return NULL;
}

/* The closing parenthesis of a lookahead at the start of a pattern; NULL: there is none. */
static const char *end_of_lookahead(const char *at)
{
    if (strncmp(at, "(?!", 3) != 0 && strncmp(at, "(?=", 3) != 0)
        return NULL;
    const char *end = find_outside(at + 3, ")");
    return end && !strchr("*+?{", end[1] ? end[1] : 'x') ? end : NULL;
}

static weft_status split(const weft__pattern_source *pattern, const char *where, pattern_parts *out)
{
    const char *rest = pattern->text, *end;
    weft_status status = WEFT_OK;
    /* A lookahead applies only to its own alternative. */
    if (pattern->negated || *rest != '^' || find_outside(rest, "|"))
        return add(out, where, weft_strdup(rest), pattern->negated);
    for (rest++; !status && (end = end_of_lookahead(rest)); rest = end + 1)
        status = add(out, where, weft_format("^(?:%.*s)", (int)(end - rest - 3), rest + 3),
                     rest[2] == '!');
    return status ? status : add(out, where, weft_format("^%s", rest), false);
}

weft_status weft__lookahead_split(const weft__pattern_source *patterns, size_t n, const char *where,
                                  pattern_parts *out)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = split(&patterns[i], where, out);
    return status;
}

void weft__lookahead_release(pattern_parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        weft_free((char *)parts->at[i].text);
    weft_free(parts->at);
}
