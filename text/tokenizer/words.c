/* text/tokenizer/words.c -- matches the patterns of GPT-2, Llama 3 and Qwen 2 with one character of
 * lookahead. The comments name the alternatives of the patterns. */
#include "text/tokenizer/words.h"

#include <stdbool.h>
#include <string.h>

#include "core/io/utf8.h"
#include "text/tokenizer/classes.h"

#define NEWER_PATTERN(numbers)                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const spellings[] = {
    [WORDS_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                   "|\\s+(?!\\S)|\\s+",
    [WORDS_LLAMA3] = NEWER_PATTERN("\\p{N}{1,3}"),
    [WORDS_QWEN2] = NEWER_PATTERN("\\p{N}"),
};

word_pattern weft__words_known(const char *pattern, size_t length)
{
    for (size_t i = 1; i < sizeof spellings / sizeof *spellings; i++) {
        if (strlen(spellings[i]) == length && memcmp(spellings[i], pattern, length) == 0)
            return (word_pattern)i;
    }
    return WORDS_UNKNOWN;
}

typedef struct reader {
    const unsigned char *classes, *text;
    size_t length;
} reader;

/* The class of the character at `i`; *next is the position after it. */
static inline char_class class_at(const reader *r, size_t i, size_t *next)
{
    const unsigned char lead = r->text[i];
    if (lead < 0x80) {
        *next = i + 1;
        return (char_class)r->classes[lead];
    }
    const int size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const uint32_t code = weft__utf8_decode((const char *)r->text + i, size);
    *next = i + (size_t)size;
    return code < 0x10000 ? (char_class)r->classes[code] : weft__class_outside_bmp(code);
}

/* The end of a run of one class. */
static inline size_t run(const reader *r, size_t i, char_class class)
{
    size_t next = i;
    while (i < r->length && class_at(r, i, &next) == class)
        i = next;
    return i;
}

static bool is_newline(unsigned char c)
{
    return c == '\r' || c == '\n';
}

/* The end of the contraction after the apostrophe at `i`, or `i`. Case-insensitive if `fold`; the
 * long s folds to s. */
static size_t contraction(const reader *r, size_t i, bool fold)
{
    static const char *const two[] = {"re", "ve", "ll"};
    const size_t left = r->length - i;
    const unsigned char bit = fold ? 0x20 : 0;
    const unsigned char a = left > 1 ? r->text[i + 1] | bit : 0;
    const unsigned char b = left > 2 ? r->text[i + 2] | bit : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return i + 2;
    for (int k = 0; k < 3; k++) {
        if (a == (unsigned char)two[k][0] && b == (unsigned char)two[k][1])
            return i + 3;
    }
    if (fold && left > 2 && r->text[i + 1] == 0xC5 && r->text[i + 2] == 0xBF)
        return i + 3;
    return i;
}

/* \s+(?!\S)|\s+: a run of several white-space characters leaves its last one to the next word. */
static size_t blank(const reader *r, size_t start)
{
    size_t i = start, last = start, next;
    while (i < r->length && class_at(r, i, &next) == CHAR_SPACE) {
        last = i;
        i = next;
    }
    return i == r->length || last == start ? i : last;
}

static size_t gpt2_word(const reader *r, size_t start)
{
    if (r->text[start] == '\'') {
        const size_t end = contraction(r, start, false);
        if (end > start)
            return end;
    }
    size_t next, behind;
    char_class class = class_at(r, start, &next);
    if (class != CHAR_SPACE)
        return run(r, next, class);
    /* " ?" before a run of other characters */
    if (r->text[start] == ' ' && next < r->length) {
        class = class_at(r, next, &behind);
        if (class != CHAR_SPACE)
            return run(r, behind, class);
    }
    return blank(r, start);
}

/* [^\s\p{L}\p{N}]+[\r\n]* from `i` on, whose first character has been checked. */
static size_t marks(const reader *r, size_t i)
{
    i = run(r, i, CHAR_OTHER);
    while (i < r->length && is_newline(r->text[i]))
        i++;
    return i;
}

/* \s*[\r\n]+ up to the last line end in a run of white space, otherwise blank(). */
static size_t lines(const reader *r, size_t start)
{
    size_t i = start, end = start, next;
    while (i < r->length && class_at(r, i, &next) == CHAR_SPACE) {
        if (is_newline(r->text[i]))
            end = next;
        i = next;
    }
    return end > start ? end : blank(r, start);
}

static size_t newer_word(const reader *r, size_t start, int digits)
{
    const unsigned char c = r->text[start];
    if (c == '\'') {
        const size_t end = contraction(r, start, true);
        if (end > start)
            return end;
    }
    size_t next, behind;
    const char_class class = class_at(r, start, &next);
    if (class == CHAR_LETTER)
        return run(r, next, CHAR_LETTER);
    if (class == CHAR_NUMBER) {
        size_t i = next;
        while (--digits > 0 && i < r->length && class_at(r, i, &next) == CHAR_NUMBER)
            i = next;
        return i;
    }
    /* [^\r\n\p{L}\p{N}]?\p{L}+, then " ?" before symbols */
    if (next < r->length && !is_newline(c)) {
        const char_class second = class_at(r, next, &behind);
        if (second == CHAR_LETTER)
            return run(r, behind, CHAR_LETTER);
        if (c == ' ' && second == CHAR_OTHER)
            return marks(r, behind);
    }
    return class == CHAR_OTHER ? marks(r, next) : lines(r, start);
}

size_t weft__words_next(word_pattern pattern, const unsigned char *classes, const char *text,
                        size_t length, size_t start)
{
    const reader r = {.classes = classes, .text = (const unsigned char *)text, .length = length};
    if (pattern == WORDS_GPT2)
        return gpt2_word(&r, start);
    return newer_word(&r, start, pattern == WORDS_LLAMA3 ? 3 : 1);
}
