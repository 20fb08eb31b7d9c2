/* text/jinja/lexer.c -- splits a template into tokens. White space around tags is handled as
 * transformers configures Jinja: the newline after a block is dropped (trim_blocks), and so is the
 * indentation before it (lstrip_blocks); "-" drops all white space, "+" none. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/io/utf8.h"
#include "text/jinja/node.h"
#include "text/jinja/tables.h"

typedef struct lexer {
    jinja_parser *parser;
    const char *s;
    size_t n, i;
    int line;
    bool line_starting; /* the previous data ended with a newline, or there was none */
    char open[64];      /* open brackets */
    int n_open;
} lexer;

static bool failed(const lexer *l)
{
    return l->parser->status != WEFT_OK;
}

static jinja_token *add(lexer *l, jinja_token_kind kind)
{
    jinja_parser *p = l->parser;
    if (p->n_tokens == p->capacity) {
        const size_t capacity = p->capacity ? 2 * p->capacity : 64;
        jinja_token *larger = weft__jinja_parser_take(p, capacity * sizeof *larger);
        if (!larger)
            return NULL;
        if (p->n_tokens > 0)
            memcpy(larger, p->tokens, p->n_tokens * sizeof *larger);
        p->tokens = larger;
        p->capacity = capacity;
    }
    jinja_token *token = &p->tokens[p->n_tokens++];
    token->kind = kind;
    token->line = l->line;
    return token;
}

static bool at(const lexer *l, const char *text)
{
    const size_t n = strlen(text);
    return l->n - l->i >= n && memcmp(l->s + l->i, text, n) == 0;
}

/* Advances to `end`, counting lines. */
static void advance(lexer *l, size_t end)
{
    for (; l->i < end; l->i++)
        l->line += l->s[l->i] == '\n';
    l->line_starting = l->i > 0 && l->s[l->i - 1] == '\n';
}

/* The size of the white space at i; 0: none. */
static size_t space_at(const char *s, size_t n, size_t i)
{
    const int size = i < n ? weft__utf8_step(s + i, n - i) : 0;
    return size > 0 && weft__jinja_space(weft__utf8_decode(s + i, size)) ? (size_t)size : 0;
}

static size_t skip_space(const lexer *l, size_t i)
{
    for (size_t size = 0; (size = space_at(l->s, l->n, i)) > 0;)
        i += size;
    return i;
}

/* ---- text between tags ---------------------------------------------------------------------- */

/* The end of start..end without trailing white space. */
static size_t trimmed(const char *s, size_t start, size_t end)
{
    while (end > start) {
        size_t last = end - 1;
        while (last > start && ((unsigned char)s[last] & 0xc0) == 0x80)
            last--;
        if (space_at(s, end, last) != end - last)
            break;
        end = last;
    }
    return end;
}

/* Adds the text from start to a tag. `sign` is the tag's - or +, if any. */
static void add_text(lexer *l, size_t start, size_t end, char sign, bool block)
{
    if (sign == '-') {
        end = trimmed(l->s, start, end);
    } else if (sign != '+' && block) {
        size_t newline = end;
        while (newline > start && l->s[newline - 1] != '\n')
            newline--;
        if ((newline > start || l->line_starting) && trimmed(l->s, newline, end) == newline)
            end = newline;
    }
    jinja_token *token = end > start ? add(l, TOKEN_DATA) : NULL;
    if (token)
        token->value = weft__jinja_view(l->s + start, end - start);
}

/* The position of the next tag: "{" followed by one of %, {, #. */
static size_t find_tag(const lexer *l, size_t i)
{
    for (; i + 1 < l->n; i++)
        if (l->s[i] == '{' && strchr("%{#", l->s[i + 1]))
            return i;
    return l->n;
}

/* The position after the end of a tag at i ("-%}", "+%}", "%}", and the white space that it drops);
 * 0: no such end. Blocks and comments drop one newline. */
static size_t tag_end(const lexer *l, size_t i, const char *end, bool trims)
{
    const bool minus = l->s[i] == '-', plus = l->s[i] == '+' && trims;
    const size_t from = i + (minus || plus);
    if (l->n - from < 2 || memcmp(l->s + from, end, 2) != 0)
        return 0;
    if (minus)
        return skip_space(l, from + 2);
    return from + 2 + (trims && !plus && from + 2 < l->n && l->s[from + 2] == '\n');
}

static void comment(lexer *l)
{
    const int line = l->line;
    for (size_t i = l->i + 2; i < l->n; i++) {
        const size_t end = tag_end(l, i, "#}", true);
        if (end > 0) {
            advance(l, end);
            return;
        }
    }
    weft__jinja_parse_fail(l->parser, line, "the comment has no end: expected #}");
}

/* With i after {% or {%-: the position after the tag if it contains only `word`. */
static size_t word_tag(const lexer *l, size_t i, const char *word, bool trims)
{
    i = skip_space(l, i);
    const size_t n = strlen(word);
    if (l->n - i < n || memcmp(l->s + i, word, n) != 0)
        return 0;
    i = skip_space(l, i + n);
    return i < l->n ? tag_end(l, i, "%}", trims) : 0;
}

static bool is_sign(char c)
{
    return c == '-' || c == '+';
}

/* {% raw %} ... {% endraw %}; false if this is not such a tag. */
static bool raw(lexer *l, size_t behind)
{
    const size_t begin = word_tag(l, behind, "raw", false);
    const int line = l->line;
    if (begin == 0)
        return false;
    advance(l, begin);
    for (size_t i = l->i; i + 1 < l->n; i++) {
        if (l->s[i] != '{' || l->s[i + 1] != '%')
            continue;
        const char sign = i + 2 < l->n && is_sign(l->s[i + 2]) ? l->s[i + 2] : '\0';
        const size_t end = word_tag(l, i + 2 + (sign != '\0'), "endraw", true);
        if (end == 0)
            continue;
        add_text(l, l->i, i, sign, true);
        advance(l, end);
        return true;
    }
    weft__jinja_parse_fail(l->parser, line, "raw has no end: expected {%% endraw %%}");
    return true;
}

/* ---- within tags ---------------------------------------------------------------------------- */

static bool word_start(uint32_t code)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return code == '_' || (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
           c == UTF8PROC_CATEGORY_NL;
}

static bool word_part(uint32_t code)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return word_start(code) || (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_NO);
}

static bool lex_name(lexer *l)
{
    size_t i = l->i;
    while (i < l->n) {
        const int size = weft__utf8_step(l->s + i, l->n - i);
        const uint32_t code = weft__utf8_decode(l->s + i, size);
        if (!(i == l->i ? word_start(code) : word_part(code)))
            break;
        i += (size_t)size;
    }
    if (i == l->i)
        return false;
    jinja_token *token = add(l, TOKEN_NAME);
    if (token)
        token->name = weft__jinja_intern(l->parser, l->s + l->i, i - l->i);
    advance(l, i);
    return true;
}

static bool digit(const lexer *l, size_t i)
{
    return i < l->n && l->s[i] >= '0' && l->s[i] <= '9';
}

static size_t digits(const lexer *l, size_t i)
{
    while (digit(l, i) || (i < l->n && l->s[i] == '_' && digit(l, i + 1)))
        i++;
    return i;
}

/* An integer beyond 64 bits: its digits without _. */
static jinja_value big(lexer *l, jinja_value text)
{
    char *digits = weft__jinja_parser_take(l->parser, text.n + 1);
    size_t n = 0;
    for (size_t i = 0; digits && i < text.n; i++)
        if (text.as.s[i] != '_')
            digits[n++] = text.as.s[i];
    return weft__jinja_big(digits, n, false);
}

/* Digits with _ between them, a fraction, an exponent; also 0x, 0o and 0b. */
static void lex_number(lexer *l)
{
    size_t end = l->i;
    bool fraction = false;
    const char prefix = end + 2 < l->n && l->s[end] == '0' ? (char)(l->s[end + 1] | 32) : '\0';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    if (base != 10) {
        for (end += 2;
             end < l->n && (l->s[end] == '_' || strchr("0123456789abcdefABCDEF", l->s[end]));)
            end++;
    } else {
        end = digits(l, end);
        const bool item = l->i > 0 && l->s[l->i - 1] == '.'; /* a.0.1 has two integers */
        if (!item && end < l->n && l->s[end] == '.' && digit(l, end + 1)) {
            fraction = true;
            end = digits(l, end + 1);
        }
        size_t exponent = end + 1;
        if (exponent < l->n && is_sign(l->s[exponent]))
            exponent++;
        if (!item && end < l->n && (l->s[end] | 32) == 'e' && digit(l, exponent)) {
            fraction = true;
            end = digits(l, exponent);
        }
    }
    jinja_token *token = add(l, TOKEN_NUMBER);
    if (!token)
        return;
    const jinja_value text = weft__jinja_view(l->s + l->i, end - l->i);
    int64_t integer = 0;
    double number = 0;
    if (!fraction && weft__jinja_to_integer(text, base, &integer))
        token->value = weft__jinja_int(integer);
    else if (fraction && weft__jinja_to_number(text, &number))
        token->value = weft__jinja_float(number);
    else if (!fraction && base == 10)
        token->value = big(l, text);
    else
        weft__jinja_parse_fail(l->parser, l->line, "\"%s\" is not a 64-bit number",
                               weft_printable_n(text.as.s, (size_t)text.n));
    advance(l, end);
}

/* The value of up to `most` digits at *i. */
static uint32_t number_in_string(const lexer *l, size_t *i, size_t end, int base, int most)
{
    uint32_t value = 0;
    for (int k = 0; k < most && *i < end; k++, (*i)++) {
        const char c = l->s[*i];
        const int d = c >= '0' && c <= '9'                 ? c - '0'
                      : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                           : 99;
        if (d >= base)
            break;
        value = value * (uint32_t)base + (uint32_t)d;
    }
    return value;
}

/* Decodes an escape whose backslash is at *i - 1; escapes unknown to Python are kept. */
static size_t unescape(lexer *l, size_t *i, size_t end, char *out)
{
    static const char letters[] = "nrtabfv\\'\"", meant[] = "\n\r\t\a\b\f\v\\'\"";
    const char c = l->s[*i];
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        (*i)++;
        *out = meant[known - letters];
        return 1;
    }
    if (c == '\n') {
        (*i)++;
        return 0;
    }
    const int base = c == 'x' || c == 'u' || c == 'U' ? 16 : c >= '0' && c <= '7' ? 8 : 0;
    if (base == 0) {
        *out = '\\';
        return 1;
    }
    const int most = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 3;
    *i += base == 16;
    const size_t start = *i;
    const uint32_t code = number_in_string(l, i, end, base, most);
    if ((base == 16 && *i - start != (size_t)most) || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000)) {
        weft__jinja_parse_fail(l->parser, l->line, "the escape \\%c in a string is malformed", c);
        return 0;
    }
    return (size_t)weft__utf8_encode(code, out);
}

static void lex_string(lexer *l)
{
    const char quote = l->s[l->i];
    size_t end = l->i + 1;
    while (end < l->n && l->s[end] != quote)
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->n) {
        weft__jinja_parse_fail(l->parser, l->line, "the string has no end: expected %c", quote);
        return;
    }
    char *text = weft__jinja_parser_take(l->parser, end - l->i);
    size_t n = 0;
    for (size_t i = l->i + 1; i < end && !failed(l);) {
        if (l->s[i] == '\\') {
            i++;
            n += unescape(l, &i, end, text + n);
        } else {
            text[n++] = l->s[i++];
        }
    }
    jinja_token *token = text ? add(l, TOKEN_STRING) : NULL;
    if (token)
        token->value = weft__jinja_view(text, n);
    advance(l, end + 1);
}

static void balance(lexer *l, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *open = strchr(opening, c), *close = strchr(closing, c);
    if (open && l->n_open == (int)sizeof l->open)
        weft__jinja_parse_fail(l->parser, l->line, "brackets are nested too deeply");
    else if (open)
        l->open[l->n_open++] = closing[open - opening];
    else if (close && (l->n_open == 0 || l->open[l->n_open - 1] != c))
        weft__jinja_parse_fail(l->parser, l->line, "unexpected \"%c\"", c);
    else if (close)
        l->n_open--;
}

static void lex_sign(lexer *l)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    for (size_t k = 0; k < sizeof two / sizeof *two; k++) {
        if (at(l, two[k])) {
            jinja_token *token = add(l, TOKEN_SIGN);
            if (token)
                memcpy(token->text, two[k], 3);
            advance(l, l->i + 2);
            return;
        }
    }
    const char c = l->s[l->i];
    if (!c || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        const int step = weft__utf8_step(l->s + l->i, l->n - l->i);
        weft__jinja_parse_fail(l->parser, l->line, "unexpected character \"%s\" in a tag",
                               weft_printable_n(l->s + l->i, step > 0 ? (size_t)step : 1));
        return;
    }
    balance(l, c);
    jinja_token *token = failed(l) ? NULL : add(l, TOKEN_SIGN);
    if (token)
        token->text[0] = c;
    advance(l, l->i + 1);
}

/* Reads the tokens up to the end of a tag. */
static void lex_tag(lexer *l, bool block)
{
    const char *const end = block ? "%}" : "}}";
    const int line = l->line;
    l->n_open = 0;
    while (!failed(l)) {
        advance(l, skip_space(l, l->i));
        if (l->i >= l->n) {
            weft__jinja_parse_fail(l->parser, line, "the tag has no end: expected %s", end);
            return;
        }
        const size_t behind = l->n_open == 0 ? tag_end(l, l->i, end, block) : 0;
        if (behind > 0) {
            add(l, block ? TOKEN_BLOCK_END : TOKEN_PRINT_END);
            advance(l, behind);
            return;
        }
        const char c = l->s[l->i];
        if (c == '\'' || c == '"')
            lex_string(l);
        else if (digit(l, l->i))
            lex_number(l);
        else if (!lex_name(l))
            lex_sign(l);
    }
}

weft_status weft__jinja_lex(jinja_parser *p)
{
    lexer l = {.parser = p, .s = p->source, .n = p->length, .line = 1, .line_starting = true};
    while (l.i < l.n && !failed(&l)) {
        const size_t tag = find_tag(&l, l.i), start = l.i;
        if (tag >= l.n) {
            add_text(&l, start, l.n, '+', false);
            break;
        }
        const char kind = l.s[tag + 1];
        const char sign = tag + 2 < l.n && is_sign(l.s[tag + 2]) ? l.s[tag + 2] : '\0';
        add_text(&l, start, tag, sign, kind != '{');
        advance(&l, tag);
        if (kind == '#') {
            comment(&l);
        } else if (kind == '{' || !raw(&l, tag + 2 + (sign != '\0'))) {
            add(&l, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN);
            advance(&l, tag + 2 + (sign != '\0'));
            lex_tag(&l, kind == '%');
        }
    }
    if (!failed(&l))
        add(&l, TOKEN_END);
    return p->status;
}
