/* tests/core/test_json_parse.c -- core/io/json_parse.h: which texts are valid JSON, and that random
 * values survive printing and parsing. */
#include "core/io/json_parse.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "tests/check.h"
#include "weft/memory.h"

enum { PLAIN = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };

/* ---- a table -------------------------------------------------------------------------------- */

/* Texts may contain NULs. */
#define TEXT(literal) literal, sizeof(literal) - 1

typedef struct accepted {
    const char *text;
    size_t length;
    const char *printed; /* NULL: the same as the text */
} accepted;

static const accepted good[] = {
    {TEXT("null"), NULL},
    {TEXT("true"), NULL},
    {TEXT("false"), NULL},
    {TEXT(" \t\r\n 1 \t\r\n "), "1"},
    {TEXT("0"), NULL},
    {TEXT("-0"), "0"},
    {TEXT("-0.0"), NULL},
    {TEXT("0e1"), NULL},
    {TEXT("1E+2"), NULL},
    {TEXT("1e-2"), NULL},
    {TEXT("123.456e78"), NULL},
    {TEXT("0.1"), NULL},
    {TEXT("1e400"), NULL},
    {TEXT("-1e-400"), NULL},
    {TEXT("9223372036854775807"), NULL},
    {TEXT("-9223372036854775808"), NULL},
    {TEXT("9223372036854775808"), NULL},
    {TEXT("18446744073709551615"), NULL},
    {TEXT("18446744073709551616"), NULL},
    {TEXT("-9223372036854775809"), NULL},
    {TEXT("100000000000000000000000000000000000000000000000000"), NULL},
    {TEXT("NaN"), NULL},
    {TEXT("[Infinity, -Infinity]"), "[Infinity,-Infinity]"},
    {TEXT("\"\""), NULL},
    {TEXT("\"a\\/b\""), "\"a/b\""},
    {TEXT("\"\\\"\\\\\\b\\f\\n\\r\\t\""), NULL},
    {TEXT("\"\\u0041\""), "\"A\""},
    {TEXT("\"\\u0000\""), NULL},
    {TEXT("\"a\\u0000b\\u0000\""), NULL},
    {TEXT("\"\\u00e9\\u20AC\""), "\"\xC3\xA9\xE2\x82\xAC\""},
    {TEXT("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""), NULL},
    {TEXT("\"\\uD83D\\uDE00\""), "\"\xF0\x9F\x98\x80\""},
    {TEXT("\"\\ud836\\udc00\""), "\"\xF0\x9D\xA0\x80\""},
    {TEXT("\"\\uDBFF\\uDFFF\""), "\"\xF4\x8F\xBF\xBF\""},
    {TEXT("\"\\\\u0000\""), NULL},
    {TEXT("\"\\\\ud800\""), NULL},
    {TEXT("\"\x7F\xEF\xBF\xBF\xEF\xBB\xBF\""), NULL},
    {TEXT("\"/* no comment */ // nor this '\""), NULL},
    {TEXT("[]"), NULL},
    {TEXT("[ ]"), "[]"},
    {TEXT("[[],{},[[]]]"), NULL},
    {TEXT("[1 , 2\n,3]"), "[1,2,3]"},
    {TEXT("{}"), NULL},
    {TEXT("{ \"a\" : 1 , \"b\" : [ ] }"), "{\"a\":1,\"b\":[]}"},
    {TEXT("{\"\":0}"), NULL},
    {TEXT("{\"\\u00e9\\n\":null}"), "{\"\xC3\xA9\\n\":null}"},
    {TEXT("{\"a\":1,\"b\":2,\"a\":3}"), "{\"a\":3,\"b\":2}"},
};

static void accepted_texts(void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        json_object *value = NULL;
        if (!CHECK_OK(weft__json_parse_value(good[i].text, good[i].length, "t", &value)))
            continue;
        CHECK_STR(json_object_to_json_string_ext(value, PLAIN),
                  good[i].printed ? good[i].printed : good[i].text);
        json_object_put(value);
    }
}

static const struct {
    const char *text;
    size_t length;
    const char *message;
} bad[] = {
    {TEXT(""), "t: column 1: the text ends before the value does"},
    {TEXT(" \n "), "t: line 2, column 2: the text ends"},
    {TEXT("nul"), "column 1: expected a value"},
    {TEXT("NULL"), "expected a value"},
    {TEXT("True"), "expected a value"},
    {TEXT("nan"), "expected a value"},
    {TEXT("Inf"), "expected a value"},
    {TEXT("-Inf"), "expected a value"},
    {TEXT("-NaN"), "expected a digit"},
    {TEXT("+1"), "expected a value"},
    {TEXT(".5"), "expected a value"},
    {TEXT("1."), "the text ends"},
    {TEXT("[1.]"), "column 4: malformed number: expected a digit"},
    {TEXT("[1.e3]"), "malformed number: expected a digit"},
    {TEXT("[1e]"), "malformed number: expected a digit"},
    {TEXT("[1e+]"), "malformed number: expected a digit"},
    {TEXT("[-]"), "malformed number: expected a digit"},
    {TEXT("-"), "the text ends"},
    {TEXT("[01]"), "malformed number: leading zero"},
    {TEXT("[-01]"), "malformed number: leading zero"},
    {TEXT("0x10"), "column 2: unexpected text after the value"},
    {TEXT("1_000"), "unexpected text"},
    {TEXT("1 2"), "column 3: unexpected text"},
    {TEXT("1,"), "unexpected text"},
    {TEXT("{}}"), "unexpected text"},
    {TEXT("null\0"), "column 5: control character"},
    {TEXT("[1\0]"), "control character"},
    {TEXT("\x01"), "control character"},
    {TEXT("\f1"), "control character"},
    {TEXT("["), "the text ends"},
    {TEXT("[1"), "the text ends"},
    {TEXT("[1,"), "the text ends"},
    {TEXT("[1,]"), "column 4: expected a value"},
    {TEXT("[,1]"), "column 2: expected a value"},
    {TEXT("[1 2]"), "column 4: expected ',' or ']'"},
    {TEXT("[1}"), "expected ',' or ']'"},
    {TEXT("]"), "expected a value"},
    {TEXT("{"), "the text ends"},
    {TEXT("{\"a\""), "the text ends"},
    {TEXT("{\"a\":"), "the text ends"},
    {TEXT("{\"a\":1"), "the text ends"},
    {TEXT("{\"a\" 1}"), "column 6: expected ':'"},
    {TEXT("{\"a\":1,}"), "column 8: expected the name of a member"},
    {TEXT("{,}"), "expected the name of a member"},
    {TEXT("{a:1}"), "expected the name of a member"},
    {TEXT("{1:1}"), "expected the name of a member"},
    {TEXT("{'a':1}"), "expected the name of a member"},
    {TEXT("{\"a\":}"), "expected a value"},
    {TEXT("{\"a\":1 \"b\":2}"), "expected ',' or '}'"},
    {TEXT("{\"a\":1]"), "expected ',' or '}'"},
    {TEXT("{\"a\\u0000b\":1}"), "column 2: the name of a member contains \\u0000"},
    {TEXT("\"a"), "the text ends"},
    {TEXT("\"a\\"), "the text ends"},
    {TEXT("\"a\\\""), "the text ends"},
    {TEXT("\"\n\""), "control character"},
    {TEXT("\"\t\""), "control character"},
    {TEXT("\"a\0b\""), "column 3: control character"},
    {TEXT("\"\\a\""), "column 2: unknown escape"},
    {TEXT("\"\\0\""), "unknown escape"},
    {TEXT("\"\\U0041\""), "unknown escape"},
    {TEXT("\"\\x41\""), "unknown escape"},
    {TEXT("\"\\\0\""), "unknown escape"},
    {TEXT("\"\\u\""), "four hexadecimal digits"},
    {TEXT("\"\\u004\""), "four hexadecimal digits"},
    {TEXT("\"\\u004g\""), "four hexadecimal digits"},
    {TEXT("\"\\u 041\""), "four hexadecimal digits"},
    {TEXT("\"\\u-041\""), "four hexadecimal digits"},
    {TEXT("\"\\u+041\""), "four hexadecimal digits"},
    {TEXT("\"\\ud800\""), "a surrogate without its pair"},
    {TEXT("\"\\udc00\""), "a surrogate without its pair"},
    {TEXT("\"\\ud800x\""), "a surrogate without its pair"},
    {TEXT("\"\\ud800\\n\""), "a surrogate without its pair"},
    {TEXT("\"\\ud800\\u0041\""), "a surrogate without its pair"},
    {TEXT("\"\\ud800\\ue000\""), "a surrogate without its pair"},
    {TEXT("\"\\ud800\\ud800\\udc00\""), "a surrogate without its pair"},
    {TEXT("\"\\udc00\\ud800\""), "a surrogate without its pair"},
    {TEXT("\"\x80\""), "column 2: invalid UTF-8"},
    {TEXT("\"\xC3\""), "invalid UTF-8"},
    {TEXT("\"\xC0\x80\""), "invalid UTF-8"},
    {TEXT("\"\xED\xA0\x80\""), "invalid UTF-8"},
    {TEXT("\"\xF4\x90\x80\x80\""), "invalid UTF-8"},
    {TEXT("\xEF\xBB\xBF{}"), "expected a value"},
    {TEXT("\"\xC3\xA9\" \xC3\xA9"), "unexpected text"},
    {TEXT("'a'"), "expected a value"},
    {TEXT("// c\n1"), "expected a value"},
    {TEXT("/* c */1"), "expected a value"},
    {TEXT("[1] # c"), "unexpected text"},
    {TEXT("\xC2\xA0"
          "1"),
     "expected a value"},
};

static void rejected_texts(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_object *value = (json_object *)&value;
        const weft_status status = weft__json_parse_value(bad[i].text, bad[i].length, "t", &value);
        if (!CHECK_STATUS(status, WEFT_INVALID))
            printf("  it was %s\n", bad[i].text);
        else
            CHECK_CONTAINS(weft_error_message(), bad[i].message);
        CHECK(value == NULL);
    }
}

static void numbers_at_the_limits(void)
{
    static const struct {
        const char *text;
        json_type type;
        double value;
    } numbers[] = {
        {"9223372036854775807", json_type_int, 9223372036854775807.0},
        {"-9223372036854775808", json_type_int, -9223372036854775808.0},
        {"9223372036854775808", json_type_double, 9223372036854775808.0},
        {"18446744073709551615", json_type_double, 18446744073709551615.0},
        {"18446744073709551616", json_type_double, 18446744073709551616.0},
        {"-9223372036854775809", json_type_double, -9223372036854775809.0},
        {"-18446744073709551615", json_type_double, -18446744073709551615.0},
        {"1.7976931348623157e308", json_type_double, 1.7976931348623157e308},
        {"2.2250738585072014e-308", json_type_double, 2.2250738585072014e-308},
        {"4.9406564584124654e-324", json_type_double, 4.9406564584124654e-324},
        {"1e-400", json_type_double, 0},
        {"1e400", json_type_double, INFINITY},
        {"-1e400", json_type_double, -INFINITY},
        {"0.1000000000000000055511151231257827021181583404541015625", json_type_double, 0.1},
        {"1.0", json_type_double, 1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_object *value = NULL;
        CHECK_OK(weft__json_parse_value(numbers[i].text, strlen(numbers[i].text), "t", &value));
        CHECK_EQ_INT(json_object_get_type(value), numbers[i].type);
        if (!CHECK(json_object_get_double(value) == numbers[i].value))
            printf("  it was %s\n", numbers[i].text);
        json_object_put(value);
    }
}

/* A program may have chosen a locale with a decimal comma. */
static void the_locale_does_not_matter(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *set = NULL;
    for (size_t i = 0; i < 4 && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (!set) {
        check_skip("no locale with a decimal comma is installed");
        return;
    }
    json_object *value = NULL;
    CHECK_OK(weft__json_parse_value("0.25", 4, "t", &value));
    CHECK(json_object_get_double(value) == 0.25);
    json_object_put(value);
    setlocale(LC_NUMERIC, "C");
}

/* ---- random values -------------------------------------------------------------------------- */

static uint64_t state = 88172645463325252u;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % n);
}

static void space(weft__text *t)
{
    while (below(4) == 0)
        weft__text_append(t, &" \t\r\n"[below(4)], 1);
}

static uint32_t random_character(bool name)
{
    static const uint32_t edges[] = {0,      1,       0x1F,    0x20,    '"',     '\\',    '/',
                                     0x7F,   0x80,    0x7FF,   0x800,   0xD7FF,  0xE000,  0xFFFD,
                                     0xFFFF, 0x10000, 0x1D800, 0x1DC00, 0x1DFFF, 0x10FFFF};
    const uint32_t kind = below(4);
    uint32_t code = kind == 0   ? edges[below(20)]
                    : kind == 1 ? below(0x80)
                    : kind == 2 ? below(0x800)
                                : below(0x110000);
    if (code >= 0xD800 && code < 0xE000)
        code -= 0x800;
    return name && code == 0 ? 'a' : code;
}

/* Writes a character in one of the forms that JSON has for it. */
static void write_character(weft__text *t, uint32_t code, const char *utf8, int size)
{
    static const char controls[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    const char *control = code && code < 0x80 ? strchr(controls, (int)code) : NULL;
    const char *format = below(2) ? "\\u%04x" : "\\u%04X";
    if (control && below(2)) {
        weft__text_format(t, "\\%c", letters[control - controls]);
    } else if (code < 0x20 || code == '"' || code == '\\' || below(3) == 0) {
        if (code >= 0x10000) {
            weft__text_format(t, format, 0xD800 + ((code - 0x10000) >> 10));
            code = 0xDC00 + ((code - 0x10000) & 0x3FF);
        }
        weft__text_format(t, format, code);
    } else {
        weft__text_append(t, utf8, (size_t)size);
    }
}

/* Appends a random string to `t` as JSON, and to `bytes` as it is. */
static void random_string(weft__text *t, weft__text *bytes, bool name)
{
    const uint32_t n = below(below(20) == 0 ? 400 : 8);
    weft__text_append(bytes, "", 0);
    weft__text_append(t, "\"", 1);
    for (uint32_t i = 0; i < n; i++) {
        char utf8[4];
        const uint32_t code = random_character(name);
        const int size = weft__utf8_encode(code, utf8);
        weft__text_append(bytes, utf8, (size_t)size);
        write_character(t, code, utf8, size);
    }
    weft__text_append(t, "\"", 1);
}

static json_object *random_number(weft__text *t)
{
    const size_t start = t->n;
    if (below(2)) {
        const int64_t number = (int64_t)(state >> below(64)) * (below(2) ? 1 : -1);
        weft__text_format(t, "%" PRId64, number);
        return json_object_new_int64(number);
    }
    union {
        uint64_t bits;
        double value;
    } number;
    do {
        below(2);
        number.bits = state;
    } while (!isfinite(number.value));
    weft__text_format(t, below(2) ? "%.17g" : "%.17e", number.value);
    if (!strpbrk(t->at + start, ".e"))
        weft__text_append(t, ".0", 2);
    return json_object_new_double(number.value);
}

static json_object *random_value(weft__text *t, int depth);

static json_object *random_items(weft__text *t, int depth, bool object)
{
    json_object *items = object ? json_object_new_object() : json_object_new_array();
    const uint32_t n = below(5);
    weft__text_append(t, object ? "{" : "[", 1);
    for (uint32_t i = 0; i < n; i++) {
        weft__text name = {0};
        space(t);
        if (object) {
            random_string(t, &name, true);
            space(t);
            weft__text_append(t, ":", 1);
        }
        json_object *value = random_value(t, depth + 1);
        if (object)
            json_object_object_add(items, name.at, value);
        else
            json_object_array_add(items, value);
        weft_free(name.at);
        weft__text_append(t, ",", i + 1 < n);
    }
    space(t);
    weft__text_append(t, object ? "}" : "]", 1);
    return items;
}

/* Appends a random value's text, and returns the value. */
static json_object *random_value(weft__text *t, int depth)
{
    static const char *const words[] = {"null", "true", "false"};
    const uint32_t kind = below(depth < 6 ? 10 : 6);
    json_object *value = NULL;
    weft__text bytes = {0};
    space(t);
    if (kind == 0) {
        const uint32_t word = below(3);
        weft__text_append(t, words[word], strlen(words[word]));
        value = word > 0 ? json_object_new_boolean(word == 1) : NULL;
    } else if (kind < 3) {
        value = random_number(t);
    } else if (kind < 6) {
        random_string(t, &bytes, false);
        value = json_object_new_string_len(bytes.at, (int)bytes.n);
    } else {
        value = random_items(t, depth, kind & 1);
    }
    weft_free(bytes.at);
    space(t);
    return value;
}

/* Whether the text parses, and its printed form parses to the same value and prints the same. */
static bool is_stable(const char *text, size_t n, json_object *expected)
{
    json_object *value = NULL, *again = NULL;
    if (!CHECK_OK(weft__json_parse_value(text, n, "t", &value)))
        return false;
    bool same = CHECK(!expected || json_object_equal(value, expected));
    const char *printed = json_object_to_json_string_ext(value, PLAIN);
    same = CHECK_OK(weft__json_parse_value(printed, strlen(printed), "t", &again)) && same;
    same = CHECK_STR(json_object_to_json_string_ext(again, PLAIN), printed) && same;
    json_object_put(again);
    json_object_put(value);
    return same;
}

static bool is_refused(const char *text, size_t n)
{
    json_object *value = NULL;
    const bool refused = CHECK_STATUS(weft__json_parse_value(text, n, "t", &value), WEFT_INVALID);
    json_object_put(value);
    return refused;
}

static void random_values_survive_printing(void)
{
    for (int i = 0; i < 20000; i++) {
        weft__text t = {0};
        json_object *value = random_value(&t, 0);
        if (!is_stable(t.at, t.n, value)) {
            printf("  it was %s\n", t.at);
            i = 20000;
        }
        json_object_put(value);
        weft_free(t.at);
    }
}

/* Text after the value, truncated text, and bytes that are not UTF-8. */
static void random_texts_that_are_damaged(void)
{
    static const char *const trailing[] = {"]", "}", "\"", ",", "0", "x", ":", "{}", "\x80"};
    bool fine = true;
    for (int i = 0; i < 2000 && fine; i++) {
        weft__text t = {0};
        json_object_put(random_items(&t, 0, below(2)));
        const size_t n = t.n;
        fine = is_refused(t.at, below((uint32_t)n));
        const char *more = trailing[below(9)];
        weft__text_append(&t, more, strlen(more));
        fine = is_refused(t.at, t.n) && fine;
        t.at[below((uint32_t)n)] = (char)(0xF8 + below(8));
        fine = is_refused(t.at, n) && fine;
        if (!fine)
            printf("  it was %s\n", t.at);
        weft_free(t.at);
    }
}

/* Any bytes at all: refused, or a value that survives printing. */
static void random_mutations(void)
{
    static const char likely[] = "[]{}\",:\\u0019dDcC.eE+- \n\0tfnNI/'";
    int parsed = 0;
    bool fine = true;
    for (int i = 0; i < 20000 && fine; i++) {
        weft__text t = {0};
        json_object *value = NULL;
        json_object_put(random_value(&t, 3));
        for (uint32_t k = below(3) + 1; k > 0; k--)
            t.at[below((uint32_t)t.n)] =
                below(3) ? likely[below(sizeof likely - 1)] : (char)below(256);
        const weft_status status = weft__json_parse_value(t.at, t.n, "t", &value);
        json_object_put(value);
        fine = CHECK(status == WEFT_OK || status == WEFT_INVALID);
        if (status == WEFT_OK && ++parsed)
            fine = is_stable(t.at, t.n, NULL) && fine;
        weft_free(t.at);
    }
    CHECK(parsed > 1000);
}

/* Every allocation that the parser makes fails once. */
static void without_memory(void)
{
    static const char text[] =
        "{\"a\\n\":[1.5,\"\\u0000b\",{\"c\":[2e3]}],\"d\":18446744073709551616}";
    bool failed = true;
    for (uint64_t nth = 1; failed && nth < 100; nth++) {
        json_object *value = NULL;
        weft_memory_fail_at(nth);
        const weft_status status = weft__json_parse_value(text, sizeof text - 1, "t", &value);
        weft_memory_fail_at(0);
        failed = status == WEFT_MEMORY;
        CHECK(failed ? value == NULL : status == WEFT_OK && value != NULL);
        json_object_put(value);
    }
    CHECK(!failed);
}

/* ---- NULs in strings ------------------------------------------------------------------------ */

static void strings_have_lengths(void)
{
    static const char text[] = "{\"s\":\"a\\u0000b\",\"t\":\"ab\",\"n\":1}";
    weft__json_doc doc;
    weft__json at;
    const char *string = NULL;
    size_t length = 0;
    if (!CHECK_OK(weft__json_parse(text, sizeof text - 1, "f.json", &doc)))
        return;
    const weft__json root = weft__json_root(&doc);
    CHECK_OK(weft__json_get(&root, "s", &at));
    CHECK_OK(weft__json_as_string(&at, &string, &length));
    CHECK_EQ_INT(length, 3);
    CHECK_BYTES(string, "a\0b", 4);
    /* Where a C string is needed, the field is refused by name. */
    CHECK_STATUS(weft__json_as_string(&at, &string, NULL), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: s: expected a string without \\u0000");
    CHECK_STATUS(weft__json_get_string(&root, "s", &string), WEFT_INVALID);
    CHECK_STATUS(weft__json_find_string(&root, "s", &string), WEFT_INVALID);
    CHECK(weft__json_plain(at.value) == NULL);
    CHECK_OK(weft__json_get_string(&root, "t", &string));
    CHECK_STR(string, "ab");
    CHECK_OK(weft__json_get(&root, "n", &at));
    CHECK(weft__json_plain(at.value) == NULL);
    CHECK(weft__json_plain(NULL) == NULL);
    weft__json_free(&doc);
}

CHECK_MAIN("json_parse", CHECK_CASE(accepted_texts), CHECK_CASE(rejected_texts),
           CHECK_CASE(numbers_at_the_limits), CHECK_CASE(the_locale_does_not_matter),
           CHECK_CASE(random_values_survive_printing), CHECK_CASE(random_texts_that_are_damaged),
           CHECK_CASE(random_mutations), CHECK_CASE(without_memory),
           CHECK_CASE(strings_have_lengths))
