/* tests/text/test_words.c -- handwritten implementations against general ones: words against the
 * regex engine with the same pattern, and splitting at boundaries that no token crosses against no
 * splitting. */
#include "text/tokenizer/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/utf8.h"
#include "tests/check.h"
#include "text/tokenizer/classes.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

#define NEWER(numbers)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    word_pattern pattern;
    const char *regex;
} patterns[] = {
    {WORDS_GPT2,
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {WORDS_LLAMA3, NEWER("\\p{N}{1,3}")},
    {WORDS_QWEN2, NEWER("\\p{N}")},
};

static uint64_t state = 0x853C49E6748FEA9Bull;

static uint32_t below(uint32_t bound)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state >> 33) % bound);
}

/* Appends a piece of text of one of several kinds. */
static size_t append_piece(char *text)
{
    static const char *const pieces[] = {
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "'s",
        "'S",
        "'re",
        "'LL",
        "'\xC5\xBF",
        "'",
        "a",
        "Word",
        "1",
        "123",
        ".",
        "!?",
        "-",
        "\xC2\xA0",
        "\xE3\x80\x80",
        "\xC3\xA9",
        "\xCC\x81",
        "\xE4\xB8\xAD",
        "\xF0\x9F\x98\x80",
        "\xE2\x81\xBD",
        "\xE2\x85\xA7",
        "_",
        "'ve",
        "'d",
        "'M",
    };
    const uint32_t kind = below(8);
    if (kind < 6) {
        const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
        strcpy(text, piece);
        return strlen(piece);
    }
    uint32_t code = kind == 6 ? 1 + below(0x2FFF) : below(0x110000);
    code = code >= 0xD800 && code < 0xE000 ? code - 0x800 : code;
    return (size_t)weft__utf8_encode(code ? code : 1, text);
}

/* The ends of the words of a text, by the regex engine. */
static size_t ends_by_regex(const text_regex *regex, const char *text, size_t length, size_t *ends)
{
    regex_search search;
    bool found = true;
    size_t count = 0;
    if (!CHECK_OK(weft__regex_search(regex, text, length, &search)))
        return 0;
    while (CHECK_OK(weft__regex_next(&search, &found)) && found)
        ends[count++] = search.end;
    weft__regex_search_end(&search);
    return count;
}

static bool same_words(word_pattern pattern, const text_regex *regex, const char *text,
                       size_t length)
{
    size_t ends[1024];
    const size_t count = ends_by_regex(regex, text, length, ends);
    size_t at = 0, i = 0;
    while (at < length && i < count) {
        at = weft__words_next(pattern, weft__classes(), text, length, at);
        if (at != ends[i++])
            return false;
    }
    return at == length && i == count;
}

static text_regex *regex_of(size_t k)
{
    const weft__json at = {.name = "pattern"};
    text_regex *regex = NULL;
    const size_t length = strlen(patterns[k].regex);
    CHECK_EQ_INT(weft__words_known(patterns[k].regex, length), patterns[k].pattern);
    CHECK_OK(weft__regex_new(patterns[k].regex, length, false, &at, &regex));
    return regex;
}

static void words_are_what_the_pattern_matches(void)
{
    char text[1024];
    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
        text_regex *regex = regex_of(k);
        for (int round = 0; regex && round < 20000; round++) {
            size_t length = 0;
            for (uint32_t pieces = 1 + below(12); pieces > 0; pieces--)
                length += append_piece(text + length);
            if (!same_words(patterns[k].pattern, regex, text, length))
                CHECK_FAIL("pattern %zu, round %d: %.*s", k, round, (int)length, text);
        }
        weft__regex_free(regex);
    }
}

/* Each character between a letter and a mark: classes differ nowhere. */
static void every_character_has_its_class(void)
{
    char text[1024];
    text_regex *regex = regex_of(1);
    for (uint32_t code = 1; regex && code < 0x110000; code++) {
        if (code >= 0xD800 && code < 0xE000)
            continue;
        size_t length = 0;
        text[length++] = 'a';
        length += (size_t)weft__utf8_encode(code, text + length);
        text[length++] = 'b';
        text[length++] = '.';
        length += (size_t)weft__utf8_encode(code, text + length);
        text[length++] = ' ';
        length += (size_t)weft__utf8_encode(code, text + length);
        if (!same_words(WORDS_LLAMA3, regex, text, length))
            CHECK_FAIL("U+%04X", (unsigned)code);
    }
    weft__regex_free(regex);
}

static void other_patterns_are_not_known(void)
{
    CHECK_EQ_INT(weft__words_known("\\p{L}+", 6), WORDS_UNKNOWN);
    CHECK_EQ_INT(weft__words_known("", 0), WORDS_UNKNOWN);
}

/* ---- cuts ----------------------------------------------------------------------------------- */

enum { BYTES = 256, OTHERS = 40 };

/* All <0xXX>, the letters a to f but e, and random words of them that merge from two others. */
static weft_tokenizer *random_tokenizer(bool scores)
{
    static char texts[BYTES + OTHERS][64], merges[OTHERS][160];
    static text_string tokens[BYTES + OTHERS], merge_texts[OTHERS];
    static float values[BYTES + OTHERS];
    static const char *const letters[] = {"a", "b", "c", "d", "f", "\xE2\x96\x81", "\xC3\xA9"};
    size_t count = 0, merge_count = 0;
    for (; count < BYTES; count++)
        snprintf(texts[count], sizeof texts[count], "<0x%02X>", (unsigned)count);
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        strcpy(texts[count++], letters[i]);
    while (count < BYTES + OTHERS) {
        const char *left = texts[BYTES + below((uint32_t)count - BYTES)];
        const char *right = texts[BYTES + below((uint32_t)count - BYTES)];
        if (strlen(left) + strlen(right) > 12)
            continue;
        snprintf(texts[count], sizeof texts[count], "%s%s", left, right);
        snprintf(merges[merge_count], sizeof *merges, "%s %s", left, right);
        merge_texts[merge_count] = (text_string){merges[merge_count], strlen(merges[merge_count])};
        merge_count++;
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        tokens[i] = (text_string){texts[i], strlen(texts[i])};
        values[i] = -(float)below(30);
    }
    weft_tokenizer *t = NULL;
    CHECK_OK(weft__tokenizer_from_parts(&(text_parts){.name = "t",
                                                      .model = scores ? "llama" : "gemma4",
                                                      .tokens = tokens,
                                                      .token_count = count,
                                                      .scores = values,
                                                      .merges = merge_texts,
                                                      .merge_count = merge_count,
                                                      .bos = -1,
                                                      .eos = -1,
                                                      .unknown = -1,
                                                      .pad = -1},
                                        &t));
    return t;
}

static void cutting_changes_nothing(void)
{
    static const char *const pieces[] = {"a", "b", "c",        "d",  "e",
                                         "f", " ", "\xC3\xA9", "\n", "\xF0\x9F\x98\x80"};
    for (int round = 0; round < 60; round++) {
        weft_tokenizer *t = random_tokenizer(round % 2);
        if (!t)
            return;
        CHECK(t->model.cuts != NULL);
        text_cuts *cuts = t->model.cuts;
        for (int k = 0; k < 100; k++) {
            char text[512];
            size_t length = 0, n[2] = {0};
            int32_t *ids[2] = {0};
            for (uint32_t left = 1 + below(100); left > 0; left--) {
                const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
                strcpy(text + length, piece);
                length += strlen(piece);
            }
            for (int way = 0; way < 2; way++) {
                t->model.cuts = way ? NULL : cuts;
                CHECK_OK(weft_tokenizer_encode(t, text, length, 0, &ids[way], &n[way]));
            }
            if (n[0] != n[1] || memcmp(ids[0], ids[1], n[0] * sizeof *ids[0]) != 0)
                CHECK_FAIL("round %d: %.*s", round, (int)length, text);
            weft_free(ids[0]);
            weft_free(ids[1]);
        }
        t->model.cuts = cuts;
        weft_tokenizer_free(t);
    }
}

CHECK_MAIN("words", CHECK_CASE(words_are_what_the_pattern_matches),
           CHECK_CASE(every_character_has_its_class), CHECK_CASE(other_patterns_are_not_known),
           CHECK_CASE(cutting_changes_nothing))
