/* tests/core/test_json.c -- core/io/json.h: refused documents, and the names of fields in
 * messages. */
#include "core/io/json.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static weft_status parse(const char *text, weft__json_doc *doc)
{
    return weft__json_parse(text, strlen(text), "f.json", doc);
}

static void text_that_is_not_json(void)
{
    static const char *const bad[][2] = {
        {"", "f.json: column 1"},
        {"   ", "column 4"},
        {"{\"a\":1,}", "column 8"},
        {"{\"a\":1", "ends before the value does"},
        {"[1,\n 2,\n x]", "f.json: line 3, column 2"},
        {"{} {}", "column 4"},
        {"1 2", "column"},
        {"{'a':1}", "column 2"},
        {"/* c */ 1", "column"},
        {"\"a\x01\"", "column 3: control character"},
        {"\"a\nb\"", "control character"},
        {"\"\xFF\"", "column 2: invalid UTF-8"},
        {"\"\xED\xA0\x80\"", "column 2: invalid UTF-8"},
        {"\"\\ud800\"", "column 2: a surrogate without its pair"},
        {"\"\\ud800\\ud800\"", "column 2: a surrogate without its pair"},
        {"\"x\\udc00\"", "column 3: a surrogate without its pair"},
        {"\"\\q\"", "column"},
        {"12x", "column"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft__json_doc doc = {0};
        if (!CHECK_STATUS(parse(bad[i][0], &doc), WEFT_INVALID))
            printf("  it was %s\n", bad[i][0]);
        CHECK_CONTAINS(weft_error_message(), bad[i][1]);
        CHECK(doc.root == NULL && doc.name == NULL);
        weft__json_free(&doc);
    }
}

static void depth_is_limited(void)
{
    enum { ALLOWED = WEFT__JSON_MAX_DEPTH, LARGE = 5000 };
    char text[2 * LARGE + 1];
    for (int depth = ALLOWED; depth <= LARGE; depth += LARGE - ALLOWED) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        weft__json_doc doc;
        CHECK_STATUS(parse(text, &doc), depth == ALLOWED ? WEFT_OK : WEFT_INVALID);
        if (depth == LARGE)
            CHECK_CONTAINS(weft_error_message(), "column 65: nested too deeply");
        weft__json_free(&doc);
    }
}

static void characters_beyond_the_first_plane(void)
{
    /* U+1D800 ends in D800, which json-c takes for half a pair. */
    static const char *const escaped[] = {"\"\\ud83d\\ude00\"", "\"\\uD836\\uDC00\"",
                                          "\"a\\ud877\\udd9c\\n\""};
    static const char *const plain[] = {"\xF0\x9F\x98\x80", "\xF0\x9D\xA0\x80",
                                        "a\xF0\xAD\xB6\x9C\n"};
    for (size_t i = 0; i < 3; i++) {
        weft__json_doc doc;
        const char *text = NULL;
        size_t length = 0;
        if (!CHECK_OK(parse(escaped[i], &doc)))
            continue;
        const weft__json root = weft__json_root(&doc);
        CHECK_OK(weft__json_as_string(&root, &text, &length));
        CHECK_STR(text, plain[i]);
        CHECK_EQ_INT(length, strlen(plain[i]));
        weft__json_free(&doc);
    }
}

static void numbers(void)
{
    weft__json_doc doc;
    if (!CHECK_OK(parse("{\"i\":-9223372036854775808,\"j\":9223372036854775807,\"e\":1e3,"
                        "\"u\":18446744073709551615,\"h\":1000000000000000019884624838656,"
                        "\"m\":-99999999999999999999,\"d\":0.1,\"z\":-0.5}",
                        &doc)))
        return;
    const weft__json root = weft__json_root(&doc);
    int64_t i = 0;
    double d = 0;
    CHECK_OK(weft__json_get_int(&root, "i", &i));
    CHECK(i == INT64_MIN);
    CHECK_OK(weft__json_get_int(&root, "j", &i));
    CHECK(i == INT64_MAX);
    CHECK_OK(weft__json_get_int(&root, "e", &i));
    CHECK_EQ_INT(i, 1000);
    CHECK_STATUS(weft__json_get_int(&root, "u", &i), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: u: integer beyond 64 signed bits");
    CHECK_STATUS(weft__json_get_int(&root, "h", &i), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: h: integer beyond 64 signed bits");
    CHECK_OK(weft__json_get_number(&root, "h", &d));
    CHECK_RELATIVE(d, 1e30, 1e-15);
    CHECK_OK(weft__json_get_number(&root, "m", &d));
    CHECK_RELATIVE(d, -1e20, 1e-15);
    CHECK_OK(weft__json_get_number(&root, "d", &d));
    CHECK(d == 0.1);
    CHECK_STATUS(weft__json_get_int(&root, "z", &i), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: z: expected integer, got -0.5");
    weft__json_free(&doc);
}

/* Only integers outside the range of int64 keep their digits as text; copies keep them too. */
static void digits_of_large_integers(void)
{
    static const struct {
        const char *text, *digits;
    } cases[] = {
        {"9223372036854775807", NULL},
        {"-9223372036854775808", NULL},
        {"9223372036854775808", "9223372036854775808"},
        {"-9223372036854775809", "-9223372036854775809"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"1e30", NULL},
        {"100000000000000000000.0", NULL},
        {"NaN", NULL},
        {"\"99999999999999999999\"", NULL},
        {"null", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft__json_doc doc;
        json_object *copy = NULL;
        if (!CHECK_OK(parse(cases[i].text, &doc)))
            continue;
        const char *digits = weft__json_big_integer(doc.root);
        CHECK((digits != NULL) == (cases[i].digits != NULL));
        if (digits && cases[i].digits && CHECK(!json_object_deep_copy(doc.root, &copy, NULL))) {
            CHECK_STR(digits, cases[i].digits);
            CHECK_STR(weft__json_big_integer(copy), cases[i].digits);
            CHECK_STR(json_object_to_json_string(copy), cases[i].digits);
        }
        json_object_put(copy);
        weft__json_free(&doc);
    }
}

static void a_number_alone(void)
{
    weft__json_doc doc;
    int64_t i = 0;
    if (!CHECK_OK(parse(" 42", &doc)))
        return;
    const weft__json root = weft__json_root(&doc);
    CHECK_OK(weft__json_as_int(&root, &i));
    CHECK_EQ_INT(i, 42);
    weft__json_free(&doc);
}

static void fields_are_named(void)
{
    weft__json_doc doc;
    if (!CHECK_OK(parse("{\"rope\":{\"factor\":\"2\",\"list\":[1,[true,null]]},\"n\":null}", &doc)))
        return;
    const weft__json root = weft__json_root(&doc);
    weft__json rope, list, inner, item;
    double d = 7;
    bool b = false;
    const char *s = "kept";
    CHECK_OK(weft__json_get(&root, "rope", &rope));
    CHECK_STATUS(weft__json_get_number(&rope, "factor", &d), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: rope.factor: expected number, got string");
    CHECK_STATUS(weft__json_get_string(&rope, "none", &s), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: rope.none: is missing");
    CHECK_STATUS(weft__json_get_string(&root, "n", &s), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: n: is null");
    CHECK_OK(weft__json_find_string(&root, "n", &s));
    CHECK_OK(weft__json_find_string(&root, "none", &s));
    CHECK_STR(s, "kept");
    CHECK_STATUS(weft__json_find_number(&rope, "factor", &d), WEFT_INVALID);
    CHECK_OK(weft__json_get(&rope, "list", &list));
    CHECK_OK(weft__json_at(&list, 1, &inner));
    CHECK_OK(weft__json_at(&inner, 0, &item));
    CHECK_OK(weft__json_as_bool(&item, &b));
    CHECK(b);
    CHECK_STATUS(weft__json_as_object(&item), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: rope.list[1][0]: expected object, got boolean");
    CHECK_STATUS(weft__json_at(&inner, 2, &item), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: rope.list[1]: expected element 2, got 2 elements");
    CHECK_STATUS(weft__json_find(&list, "x", &item), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "f.json: rope.list: expected object, got array");
    weft__json_free(&doc);
}

static void files(void)
{
    weft__json_doc doc;
    CHECK_STATUS(weft__json_read(check_temporary("none.json"), &doc), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "none.json: open: No such file");
    CHECK_STATUS(weft__json_read(check_source("core"), &doc), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "core: open: Is a directory");
    CHECK_OK(weft__json_read(check_source("examples/storyteller/config.json"), &doc));
    CHECK(doc.root != NULL);
    weft__json_free(&doc);
}

CHECK_MAIN("json", CHECK_CASE(text_that_is_not_json), CHECK_CASE(depth_is_limited),
           CHECK_CASE(characters_beyond_the_first_plane), CHECK_CASE(numbers),
           CHECK_CASE(digits_of_large_integers), CHECK_CASE(a_number_alone),
           CHECK_CASE(fields_are_named), CHECK_CASE(files))
