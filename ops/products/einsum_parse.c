/* ops/products/einsum_parse.c -- parses the subscripts of an einsum. */
#include "ops/products/einsum.h"

#include <ctype.h>
#include <string.h>

enum { ELLIPSIS_AXES = EINSUM_LABELS - EINSUM_LETTERS };

/* The subscripts of one operand or of the result: letters with at most one ellipsis. */
typedef struct subscript {
    int n;
    int64_t labels[2 * WEFT_MAX_DIMS];
    int ellipsis; /* the index of the label that it precedes; -1: none */
} subscript;

static int64_t label_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1;
}

static char letter_of(int64_t label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

/* Reads up to a comma, an arrow or the end. */
static bool read_subscript(const char **text, subscript *s, weft_why *why)
{
    const char *c = *text;
    *s = (subscript){.ellipsis = -1};
    for (; *c && *c != ',' && *c != '-'; c++) {
        if (isspace((unsigned char)*c)) {
            continue;
        }
        if (strncmp(c, "...", 3) == 0) {
            if (s->ellipsis >= 0) {
                return weft_because(why, "two ellipses in one subscript");
            }
            s->ellipsis = s->n;
            c += 2;
            continue;
        }
        if (label_of(*c) < 0) {
            return weft_because(why, "'%c' is not a letter", *c);
        }
        if (s->n == WEFT_MAX_DIMS) {
            return weft_because(why, "more than %d letters in one subscript", WEFT_MAX_DIMS);
        }
        s->labels[s->n++] = label_of(*c);
    }
    *text = c;
    return true;
}

/* The labels, with `axes` labels in place of the ellipsis. */
static bool expand(const subscript *s, int axes, weft_dims *out, weft_why *why)
{
    *out = (weft_dims){0};
    if (axes > ELLIPSIS_AXES || s->n + axes > WEFT_MAX_DIMS) {
        return weft_because(why, "unsupported: an ellipsis of %d axes beside %d letters", axes,
                            s->n);
    }
    for (int i = 0; i <= s->n; i++) {
        for (int axis = axes - 1; i == s->ellipsis && axis >= 0; axis--) {
            out->at[out->n++] = EINSUM_LETTERS + axis;
        }
        if (i < s->n) {
            out->at[out->n++] = s->labels[i];
        }
    }
    return true;
}

/* Records the sizes of an operand's axes; size 1 is replaced by another size. */
static bool take_sizes(einsum *e, int operand, const weft_dims *shape, weft_why *why)
{
    const weft_dims *labels = &e->terms[operand];
    for (int i = 0; i < labels->n; i++) {
        int64_t label = labels->at[i], size = shape->at[i], *known = &e->sizes[label];
        for (int j = 0; j < i; j++) {
            if (labels->at[j] == label && shape->at[j] != size) {
                return weft_because(why, "operand %d: axes '%c' of %lld and %lld elements", operand,
                                    letter_of(label), (long long)shape->at[j], (long long)size);
            }
        }
        if (*known >= 0 && *known != 1 && size != 1 && *known != size) {
            char name[2] = {label < EINSUM_LETTERS ? letter_of(label) : '.', 0};
            return weft_because(why, "operand %d: axis '%s' has %lld elements, %lld before",
                                operand, weft_printable(name), (long long)size, (long long)*known);
        }
        *known = *known < 0 || *known == 1 ? size : *known;
    }
    return true;
}

static bool read_operands(const char **text, const weft_dims *shapes, einsum *e, int *ellipsis,
                          weft_why *why)
{
    subscript s;
    for (int i = 0; i < e->n; i++) {
        if (!read_subscript(text, &s, why)) {
            return false;
        }
        int axes = shapes[i].n - s.n;
        if (axes < 0 || (axes > 0 && s.ellipsis < 0)) {
            return weft_because(why, "operand %d has rank %d, its subscript %d letters", i,
                                shapes[i].n, s.n);
        }
        if (!expand(&s, axes, &e->terms[i], why) || !take_sizes(e, i, &shapes[i], why)) {
            return false;
        }
        *ellipsis = axes > *ellipsis ? axes : *ellipsis;
        if ((**text == ',') != (i + 1 < e->n)) {
            return weft_because(why, "%s than the %d operands",
                                **text == ',' ? "more subscripts" : "fewer subscripts", e->n);
        }
        *text += **text == ',';
    }
    return true;
}

/* The default output: the ellipsis, then the labels that occur once. */
static bool implicit_output(const einsum *e, subscript *s, weft_why *why)
{
    int count[EINSUM_LETTERS] = {0};
    for (int i = 0; i < e->n; i++) {
        for (int k = 0; k < e->terms[i].n; k++) {
            if (e->terms[i].at[k] < EINSUM_LETTERS) {
                count[e->terms[i].at[k]]++;
            }
        }
    }
    *s = (subscript){.ellipsis = 0};
    for (int label = 0; label < EINSUM_LETTERS; label++) {
        if (count[label] != 1) {
            continue;
        }
        if (s->n == WEFT_MAX_DIMS) {
            return weft_because(why, "the result has more than %d axes", WEFT_MAX_DIMS);
        }
        s->labels[s->n++] = label;
    }
    return true;
}

static bool explicit_output(const char *text, const einsum *e, int ellipsis, subscript *s,
                            weft_why *why)
{
    if (!read_subscript(&text, s, why)) {
        return false;
    }
    if (*text) {
        return weft_because(why, "'%c' in the result's subscript", *text);
    }
    if (ellipsis > 0 && s->ellipsis < 0) {
        return weft_because(why, "the result has no ellipsis, the operands have one");
    }
    for (int i = 0; i < s->n; i++) {
        for (int j = 0; j < i; j++) {
            if (s->labels[i] == s->labels[j]) {
                return weft_because(why, "'%c' twice in the result", letter_of(s->labels[i]));
            }
        }
        if (e->sizes[s->labels[i]] < 0) {
            return weft_because(why, "'%c' of the result is in no operand",
                                letter_of(s->labels[i]));
        }
    }
    return true;
}

bool weft__einsum_parse(const char *subscripts, const weft_dims *shapes, int n, einsum *e,
                        weft_why *why)
{
    *e = (einsum){.n = n};
    if (n < 1) {
        return weft_because(why, "no operands");
    }
    e->terms = weft_calloc((size_t)n, sizeof *e->terms);
    if (!e->terms) {
        return weft_because(why, "out of memory");
    }
    for (int i = 0; i < EINSUM_LABELS; i++) {
        e->sizes[i] = -1;
    }
    int ellipsis = 0;
    subscript s;
    const char *text = subscripts;
    if (!read_operands(&text, shapes, e, &ellipsis, why)) {
        return false;
    }
    if (*text && strncmp(text, "->", 2) != 0) {
        return weft_because(why, "'%c' without '>'", *text);
    }
    bool found =
        *text ? explicit_output(text + 2, e, ellipsis, &s, why) : implicit_output(e, &s, why);
    return found && expand(&s, ellipsis, &e->output, why);
}

void weft__einsum_free(einsum *e)
{
    weft_free(e->terms);
    e->terms = NULL;
}
