/* text/schema/pattern_parse.c -- parses regular expressions in the syntax of ECMA-262. */
#include "text/schema/pattern_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

enum { MAX_GROUPS = 64, MAX_REPEAT = 1000 };

typedef struct parser {
    const char *text, *at;
    const char *where;
    pattern_tree *tree;
    int depth;
    weft_status status;
} parser;

static int fail(parser *p, weft_status status, const char *what)
{
    if (!p->status)
        p->status = weft_fail(status, "%s: pattern \"%s\": %s at character %zu", p->where,
                              weft_printable(p->text), what, (size_t)(p->at - p->text));
    return 0;
}

static int add_node(parser *p, pattern_node node)
{
    pattern_tree *t = p->tree;
    if (!weft__list_more(t->nodes, t->n_nodes)) {
        p->status = weft__out_of_memory(p->where, "a pattern");
        return 0;
    }
    t->nodes[t->n_nodes] = node;
    return (int)t->n_nodes++;
}

/* ---- sets of characters --------------------------------------------------------------------- */

static void add_range(parser *p, uint32_t first, uint32_t last)
{
    pattern_tree *t = p->tree;
    if (!weft__list_more(t->ranges, t->n_ranges)) {
        p->status = weft__out_of_memory(p->where, "a pattern");
        return;
    }
    t->ranges[t->n_ranges++] = (pattern_range){first, last};
}

static int by_first(const void *a, const void *b)
{
    const pattern_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Replaces the ranges from `begin` on by their complement. */
static void complement(parser *p, size_t begin)
{
    pattern_tree *t = p->tree;
    const size_t n = t->n_ranges - begin;
    pattern_range *copy = weft_malloc((n + 1) * sizeof *copy);
    if (!copy) {
        p->status = weft__out_of_memory(p->where, "a pattern");
        return;
    }
    if (n > 0)
        memcpy(copy, t->ranges + begin, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, by_first);
    t->n_ranges = begin;
    uint32_t next = 0;
    for (size_t i = 0; i < n && !p->status; i++) {
        if (copy[i].first > next)
            add_range(p, next, copy[i].first - 1);
        if (copy[i].last + 1 > next)
            next = copy[i].last + 1;
    }
    if (next <= PATTERN_LAST && !p->status)
        add_range(p, next, PATTERN_LAST);
    weft_free(copy);
}

/* \d, \w, \s and their complements; false for any other letter. */
static bool add_class(parser *p, char letter)
{
    static const pattern_range digits[] = {{'0', '9'}};
    static const pattern_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const pattern_range spaces[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const pattern_range *ranges;
    size_t n;
    switch (tolower((unsigned char)letter)) {
    case 'd':
        ranges = digits, n = sizeof digits / sizeof *digits;
        break;
    case 'w':
        ranges = words, n = sizeof words / sizeof *words;
        break;
    case 's':
        ranges = spaces, n = sizeof spaces / sizeof *spaces;
        break;
    default:
        return false;
    }
    const size_t begin = p->tree->n_ranges;
    for (size_t i = 0; i < n && !p->status; i++)
        add_range(p, ranges[i].first, ranges[i].last);
    if (isupper((unsigned char)letter) && !p->status)
        complement(p, begin);
    return true;
}

/* ---- characters ----------------------------------------------------------------------------- */

/* Reads one UTF-8 character, which the JSON parser has validated. */
static uint32_t read_utf8(parser *p)
{
    const unsigned char *s = (const unsigned char *)p->at;
    const int more = s[0] < 0x80 ? 0 : s[0] < 0xE0 ? 1 : s[0] < 0xF0 ? 2 : 3;
    static const unsigned char bits[] = {0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = s[0] & bits[more];
    for (int i = 1; i <= more; i++)
        c = c << 6 | (s[i] & 0x3Fu);
    p->at += 1 + more;
    return c;
}

static uint32_t read_hex(parser *p, int least, int most, char end)
{
    uint32_t c = 0;
    int n = 0;
    for (; n < most && isxdigit((unsigned char)*p->at); n++, p->at++) {
        const char digit = (char)tolower((unsigned char)*p->at);
        c = c * 16 + (uint32_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    if (n < least || (end && *p->at++ != end) || c > PATTERN_LAST)
        fail(p, WEFT_INVALID, "a bad hexadecimal escape");
    return c;
}

/* Reads the character after a backslash. */
static uint32_t read_escape(parser *p)
{
    const char letter = *p->at;
    if (letter)
        p->at++;
    switch (letter) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case '0':
        return 0;
    case 'x':
        return read_hex(p, 2, 2, 0);
    case 'u':
        if (*p->at == '{') {
            p->at++;
            return read_hex(p, 1, 6, '}');
        }
        return read_hex(p, 4, 4, 0);
    case 'c': {
        const char control = *p->at;
        if (!isalpha((unsigned char)control)) {
            fail(p, WEFT_INVALID, "\\c without a letter");
            return 0;
        }
        p->at++;
        return (uint32_t)control & 31u;
    }
    case 'b':
    case 'B':
        fail(p, WEFT_UNSUPPORTED, "\\b and \\B are not supported");
        return 0;
    case 'p':
    case 'P':
        fail(p, WEFT_UNSUPPORTED, "\\p and \\P are not supported");
        return 0;
    case 'k':
        fail(p, WEFT_UNSUPPORTED, "back references are not supported");
        return 0;
    case '\0':
        fail(p, WEFT_INVALID, "nothing behind a backslash");
        return 0;
    default:
        if (letter >= '1' && letter <= '9')
            fail(p, WEFT_UNSUPPORTED, "back references are not supported");
        else if (isalnum((unsigned char)letter))
            fail(p, WEFT_INVALID, "an unknown escape");
        if ((unsigned char)letter >= 0x80) {
            p->at--;
            return read_utf8(p);
        }
        return (uint32_t)(unsigned char)letter;
    }
}

/* ---- the grammar ---------------------------------------------------------------------------- */

static int set_from(parser *p, size_t begin)
{
    return add_node(p, (pattern_node){.kind = PATTERN_SET,
                                      .first = (int)begin,
                                      .count = (int)(p->tree->n_ranges - begin)});
}

/* Reads one end of a range in brackets; false if it was a class such as \d. */
static bool read_member(parser *p, uint32_t *c)
{
    if (*p->at != '\\') {
        *c = read_utf8(p);
        return true;
    }
    p->at++;
    if (*p->at && add_class(p, *p->at)) {
        p->at++;
        return false;
    }
    if (*p->at == 'b') { /* in brackets, \b is a backspace */
        p->at++;
        *c = '\b';
        return true;
    }
    if (*p->at == '-') {
        p->at++;
        *c = '-';
        return true;
    }
    *c = read_escape(p);
    return true;
}

/* Parses [...] after the opening bracket. */
static int parse_brackets(parser *p)
{
    const size_t begin = p->tree->n_ranges;
    const bool negated = *p->at == '^';
    p->at += negated;
    while (*p->at && *p->at != ']' && !p->status) {
        uint32_t first, last;
        if (!read_member(p, &first))
            continue;
        last = first;
        if (*p->at == '-' && p->at[1] != ']' && p->at[1]) {
            p->at++;
            if (!read_member(p, &last))
                return fail(p, WEFT_INVALID, "a range that ends with a class");
            if (last < first)
                return fail(p, WEFT_INVALID, "a range that runs backwards");
        }
        add_range(p, first, last);
    }
    if (*p->at != ']')
        return fail(p, WEFT_INVALID, "a bracket that is not closed");
    p->at++;
    if (negated && !p->status)
        complement(p, begin);
    return set_from(p, begin);
}

static int parse_alternatives(parser *p);

/* Parses (...) after the opening parenthesis. */
static int parse_group(parser *p)
{
    if (++p->depth > MAX_GROUPS)
        return fail(p, WEFT_UNSUPPORTED, "groups too deep within each other");
    if (*p->at == '?') {
        const char kind = p->at[1];
        if (kind == ':') {
            p->at += 2;
        } else if (kind == '<' && p->at[2] != '=' && p->at[2] != '!') {
            const char *end = strchr(p->at, '>');
            if (!end)
                return fail(p, WEFT_INVALID, "a group's name that does not end");
            p->at = end + 1;
        } else {
            return fail(p, WEFT_UNSUPPORTED, "looking ahead or behind is not supported");
        }
    }
    const int inside = parse_alternatives(p);
    if (*p->at != ')')
        return fail(p, WEFT_INVALID, "a group that is not closed");
    p->at++;
    p->depth--;
    return inside;
}

static int parse_atom(parser *p)
{
    const size_t begin = p->tree->n_ranges;
    switch (*p->at) {
    case '(':
        p->at++;
        return parse_group(p);
    case '[':
        p->at++;
        return parse_brackets(p);
    case '^':
        p->at++;
        return add_node(p, (pattern_node){.kind = PATTERN_BEGIN});
    case '$':
        p->at++;
        return add_node(p, (pattern_node){.kind = PATTERN_END});
    case '*':
    case '+':
    case '?':
        return fail(p, WEFT_INVALID, "nothing to repeat");
    case '.':
        p->at++;
        add_range(p, '\n', '\n');
        add_range(p, '\r', '\r');
        add_range(p, 0x2028, 0x2029);
        complement(p, begin);
        return set_from(p, begin);
    case '\\':
        p->at++;
        if (*p->at && add_class(p, *p->at)) {
            p->at++;
        } else {
            const uint32_t c = read_escape(p);
            add_range(p, c, c);
        }
        return set_from(p, begin);
    default: {
        const uint32_t c = read_utf8(p);
        add_range(p, c, c);
        return set_from(p, begin);
    }
    }
}

/* {n}, {n,} or {n,m}; false, with nothing consumed, if it is something else. */
static bool read_braces(parser *p, long *least, long *most)
{
    char *end;
    if (!isdigit((unsigned char)p->at[1]))
        return false;
    *most = *least = strtol(p->at + 1, &end, 10);
    if (*end == ',') {
        *most = PATTERN_UNBOUNDED;
        if (isdigit((unsigned char)*++end))
            *most = strtol(end, &end, 10);
    }
    if (*end != '}')
        return false;
    p->at = end + 1;
    return true;
}

static int parse_repeated(parser *p)
{
    int node = parse_atom(p);
    for (;;) {
        long least = 0, most = PATTERN_UNBOUNDED;
        const char mark = *p->at;
        if (p->status)
            return 0;
        if (mark == '{') {
            if (!read_braces(p, &least, &most))
                return node;
        } else if (mark == '*' || mark == '+' || mark == '?') {
            least = mark == '+';
            most = mark == '?' ? 1 : PATTERN_UNBOUNDED;
            p->at++;
        } else {
            return node;
        }
        if (least > MAX_REPEAT || most > MAX_REPEAT)
            return fail(p, WEFT_UNSUPPORTED, "more than 1000 repetitions");
        if (most != PATTERN_UNBOUNDED && most < least)
            return fail(p, WEFT_INVALID, "a repetition that runs backwards");
        if (*p->at == '?') /* lazy or greedy makes no difference here */
            p->at++;
        node = add_node(
            p, (pattern_node){
                   .kind = PATTERN_REPEAT, .left = node, .least = (int)least, .most = (int)most});
    }
}

static int parse_sequence(parser *p)
{
    int node = add_node(p, (pattern_node){.kind = PATTERN_EMPTY});
    while (*p->at && *p->at != '|' && *p->at != ')' && !p->status) {
        const int next = parse_repeated(p);
        node = add_node(p, (pattern_node){.kind = PATTERN_CAT, .left = node, .right = next});
    }
    return node;
}

static int parse_alternatives(parser *p)
{
    int node = parse_sequence(p);
    while (*p->at == '|' && !p->status) {
        p->at++;
        const int next = parse_sequence(p);
        node = add_node(p, (pattern_node){.kind = PATTERN_ALT, .left = node, .right = next});
    }
    return node;
}

weft_status weft__pattern_parse(const char *text, const char *where, pattern_tree *out)
{
    *out = (pattern_tree){0};
    parser p = {.text = text, .at = text, .where = where, .tree = out};
    out->root = parse_alternatives(&p);
    if (*p.at && !p.status)
        fail(&p, WEFT_INVALID, "a parenthesis that closes nothing");
    if (p.status)
        weft__pattern_tree_release(out);
    return p.status;
}

void weft__pattern_tree_release(pattern_tree *tree)
{
    weft_free(tree->nodes);
    weft_free(tree->ranges);
    *tree = (pattern_tree){0};
}
