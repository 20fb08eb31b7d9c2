/* text/tokenizer/regex.c -- a thin layer over PCRE2, which handles the differences from Oniguruma,
 * whose syntax tokenizer.json uses. */
#include "text/tokenizer/regex.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/tokenizer/buffer.h"
#include "text/tokenizer/unicode.h"
#include "weft/memory.h"

/* The limit for one match. A run of n white-space characters takes about n steps; catastrophic
 * backtracking takes 2^n. */
enum { MATCH_STEPS = 200 * 1000 * 1000 };

struct text_regex {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
    text_buffer source; /* the original pattern */
    bool literal;
};

static void *allocate(size_t size, void *unused)
{
    (void)unused;
    return weft_malloc(size);
}

static void release(void *block, void *unused)
{
    (void)unused;
    weft_free(block);
}

/* Appends letters or numbers that PCRE2 may not know, as members of a character class. */
static weft_status append_newer(char category, text_buffer *out)
{
    size_t count = 0;
    const unicode_range *ranges = weft__newer_in_category(category, &count);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        char text[40];
        const int size = snprintf(text, sizeof text, "\\x{%X}-\\x{%X}", (unsigned)ranges[i].first,
                                  (unsigned)ranges[i].last);
        status = weft__bytes_append(out, text, (size_t)size);
    }
    return status;
}

/* Translates the escape at `i`; *end is the position after it. PCRE2's \s includes U+180E, which
 * Unicode no longer counts as white space; the property does not. */
static weft_status translate_escape(const char *pattern, size_t length, size_t i, bool in_class,
                                    text_buffer *out, size_t *end)
{
    const char letter = i + 1 < length ? pattern[i + 1] : '\0';
    *end = i + (letter ? 2 : 1);
    if (letter == 's')
        return weft__bytes_append(out, "\\p{White_Space}", 15);
    if (letter == 'S')
        return weft__bytes_append(out, "\\P{White_Space}", 15);
    const bool category = length - i >= 5 && pattern[i + 2] == '{' && pattern[i + 4] == '}' &&
                          (pattern[i + 3] == 'L' || pattern[i + 3] == 'N');
    if (!category || !(letter == 'p' || (letter == 'P' && !in_class)))
        return weft__bytes_append(out, pattern + i, *end - i);
    *end = i + 5;
    weft_status status = WEFT_OK;
    if (!in_class)
        status = weft__bytes_append(out, letter == 'p' ? "[" : "[^", letter == 'p' ? 1 : 2);
    const char known[] = {'\\', 'p', '{', pattern[i + 3], '}'};
    if (!status)
        status = weft__bytes_append(out, known, sizeof known);
    if (!status)
        status = append_newer(pattern[i + 3], out);
    return status || in_class ? status : weft__bytes_append(out, "]", 1);
}

enum { NO_ATOM = -1 }; /* a group */

/* Copies the braces at *i. In Oniguruma {1,3}+ repeats the interval; PCRE2 would make it
 * possessive, so that the atom, which starts at `atom` in `out`, becomes a group. */
static weft_status translate_braces(const char *pattern, size_t length, size_t *i, ptrdiff_t atom,
                                    const weft__json *at, text_buffer *out)
{
    size_t end = *i + 1;
    bool interval = true; /* else the name of a property */
    for (; end < length && (isalnum((unsigned char)pattern[end]) || strchr(",_^", pattern[end]));)
        interval = !strchr("0123456789,", pattern[end++]) ? false : interval;
    if (end >= length || pattern[end] != '}')
        end = *i; /* a brace alone */
    interval = interval && end > *i + 1;
    const bool repeated = interval && end + 1 < length && pattern[end + 1] == '+';
    if (repeated && atom == NO_ATOM)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "a repeated interval of a group");
    weft_status status = repeated ? weft__bytes_append(out, "(?:", 3) : WEFT_OK;
    if (!status && repeated) {
        memmove(out->data + atom + 3, out->data + atom, out->length - 3 - (size_t)atom);
        memcpy(out->data + atom, "(?:", 3);
    }
    if (!status)
        status = weft__bytes_append(out, pattern + *i, end + 1 - *i);
    *i = end + 1;
    return status || !repeated ? status : weft__bytes_append(out, ")", 1);
}

/* Skips a bracket of a class within a class, which adds its members to the outer one: [a[bc]].
 * `*depth` counts open inner classes. An inner class that is negated or beside a range fails. */
static weft_status skip_inner_bracket(const char *pattern, size_t length, size_t i, int *depth,
                                      const weft__json *at)
{
    const char next = i + 1 < length ? pattern[i + 1] : '\0';
    const bool opens = pattern[i] == '[';
    *depth += opens ? 1 : -1;
    if (opens ? next != '^' && next != ']' && pattern[i - 1] != '-' : next != '-')
        return WEFT_OK;
    return weft__json_fail(at, WEFT_UNSUPPORTED,
                           "a character class within another is unsupported here");
}

static weft_status translate(const char *pattern, size_t length, const weft__json *at,
                             text_buffer *out)
{
    bool in_class = false;
    int depth = 0; /* of classes within the class */
    size_t class_start = 0;
    ptrdiff_t atom = NO_ATOM; /* where the last one starts in `out` */
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < length && !status;) {
        const char c = pattern[i];
        if (!in_class && c == '{') {
            status = translate_braces(pattern, length, &i, atom, at, out);
            continue;
        }
        if (!in_class && c == ')')
            atom = NO_ATOM;
        else if (!in_class && !strchr("*+?}", c))
            atom = (ptrdiff_t)out->length;
        if (c == '\\') {
            status = translate_escape(pattern, length, i, in_class, out, &i);
            continue;
        }
        const char *named = in_class && c == '[' && i + 1 < length && pattern[i + 1] == ':'
                                ? memmem(pattern + i, length - i, ":]", 2)
                                : NULL;
        if (named) { /* [:alpha:] */
            const size_t size = (size_t)(named - (pattern + i)) + 2;
            status = weft__bytes_append(out, pattern + i, size);
            i += size;
            continue;
        }
        if (in_class && (c == '[' || (c == ']' && depth > 0))) {
            status = skip_inner_bracket(pattern, length, i++, &depth, at);
            continue;
        }
        if (!in_class && c == '[') {
            in_class = true;
            class_start = i + (i + 1 < length && pattern[i + 1] == '^' ? 2 : 1);
        } else if (in_class && c == ']' && i > class_start) {
            in_class = false;
        } else if (in_class && c == '&' && i + 1 < length && pattern[i + 1] == '&') {
            return weft__json_fail(at, WEFT_UNSUPPORTED,
                                   "the intersection of character classes is unsupported");
        }
        status = weft__bytes_append(out, &c, 1);
        i++;
    }
    return status;
}

static weft_status compile(text_regex *regex, const char *pattern, size_t length, bool literal,
                           const weft__json *at)
{
    regex->memory = pcre2_general_context_create(allocate, release, NULL);
    regex->limits = regex->memory ? pcre2_match_context_create(regex->memory) : NULL;
    pcre2_compile_context *context =
        regex->memory ? pcre2_compile_context_create(regex->memory) : NULL;
    if (!regex->limits || !context) {
        pcre2_compile_context_free(context);
        return weft__out_of_memory(at->name, "a pattern");
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_match_limit(regex->limits, MATCH_STEPS);
    int error = 0;
    size_t offset = 0;
    /* In Oniguruma ^ and $ match at line boundaries. */
    const uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, length, options, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        char text[160];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
        if (error == PCRE2_ERROR_HEAP_FAILED)
            return weft__out_of_memory(at->name, "a pattern");
        return weft__json_fail(at, WEFT_UNSUPPORTED, "pattern not understood: %s", text);
    }
    /* Without JIT, matching is interpreted, which is only slower. */
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return WEFT_OK;
}

weft_status weft__regex_new(const char *pattern, size_t length, bool literal, const weft__json *at,
                            text_regex **out)
{
    *out = NULL;
    text_regex *regex = weft_calloc(1, sizeof *regex);
    if (!regex)
        return weft__out_of_memory(at->name, "a pattern");
    text_buffer own = {0};
    weft_status status = WEFT_OK;
    if (literal)
        status = weft__bytes_append(&own, pattern, length);
    else
        status = translate(pattern, length, at, &own);
    if (!status)
        status = compile(regex, own.data ? own.data : "", own.length, literal, at);
    if (!status)
        status = weft__bytes_append(&regex->source, pattern, length);
    regex->literal = literal;
    weft__bytes_release(&own);
    if (status)
        weft__regex_free(regex);
    else
        *out = regex;
    return status;
}

weft_status weft__regex_from_json(const weft__json *object, const char *key, text_regex **out)
{
    *out = NULL;
    weft__json pattern, form;
    weft_status status = weft__json_get(object, key, &pattern);
    if (status)
        return status;
    bool literal = true;
    status = weft__json_find(&pattern, "String", &form);
    if (!status && !form.value) {
        literal = false;
        status = weft__json_get(&pattern, "Regex", &form);
    }
    const char *text = NULL;
    size_t length = 0;
    if (!status)
        status = weft__json_as_string(&form, &text, &length);
    return status ? status : weft__regex_new(text, length, literal, &form, out);
}

void weft__regex_free(text_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_match_context_free(regex->limits);
    pcre2_general_context_free(regex->memory);
    weft__bytes_release(&regex->source);
    weft_free(regex);
}

bool weft__regex_is(const text_regex *regex, const char *pattern, bool literal)
{
    return regex->literal == literal && regex->source.length == strlen(pattern) &&
           memcmp(regex->source.data, pattern, regex->source.length) == 0;
}

weft_status weft__regex_search(const text_regex *regex, const char *text, size_t length,
                               regex_search *search)
{
    *search = (regex_search){.regex = regex, .text = text, .length = length};
    search->match = pcre2_match_data_create_from_pattern(regex->code, regex->memory);
    return search->match ? WEFT_OK : weft__out_of_memory("tokenizer", "matching");
}

void weft__regex_search_end(regex_search *search)
{
    pcre2_match_data_free(search->match);
    search->match = NULL;
}

static int match_at(const regex_search *s)
{
    const text_regex *r = s->regex;
    const uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(r->code, (PCRE2_SPTR)s->text, s->length, s->position, options, s->match,
                            r->limits);
    /* The JIT-compiled matcher has a fixed stack; the interpreter allocates as needed. */
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(r->code, (PCRE2_SPTR)s->text, s->length, s->position,
                            options | PCRE2_NO_JIT, s->match, r->limits);
    return found;
}

weft_status weft__regex_next(regex_search *s, bool *found)
{
    *found = false;
    while (s->position <= s->length) {
        const int result = match_at(s);
        if (result == PCRE2_ERROR_NOMATCH)
            break;
        if (result < 0) {
            char text[160];
            pcre2_get_error_message(result, (PCRE2_UCHAR *)text, sizeof text);
            return weft_fail(result == PCRE2_ERROR_NOMEMORY ? WEFT_MEMORY : WEFT_INVALID,
                             "tokenizer: matching at byte %zu: %s", s->position, text);
        }
        const size_t *range = pcre2_get_ovector_pointer(s->match);
        s->start = range[0];
        s->end = range[1];
        s->position = s->end;
        if (s->end > s->start) {
            *found = true;
            return WEFT_OK;
        }
        /* Empty matches are skipped: continue after the next character. */
        const int size = weft__utf8_step(s->text + s->end, s->length - s->end);
        s->position += size > 0 ? (size_t)size : 1;
    }
    s->position = s->length + 1;
    return WEFT_OK;
}
