/* tests/constrain/test_closing.c -- which properties generated objects have, in which order, and
 * how much whitespace is generated. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/constrain/walks.h"

/* 2: a whole document; 1: the beginning of one; 0: neither. */
static int fits(const char *schema, const char *text)
{
    weft_tokenizer *tokenizer = walk_vocabulary(0);
    weft_constraint *c = NULL;
    int result = 0;
    if (CHECK_OK(weft_constraint_new(tokenizer, schema, strlen(schema), "schema", NULL, &c)) &&
        !weft_constraint_accept_text(c, text, strlen(text)))
        result = weft_constraint_complete(c) ? 2 : 1;
    weft_constraint_free(c);
    weft_tokenizer_free(tokenizer);
    return result;
}

typedef struct text_case {
    const char *schema, *text;
    int fits;
} text_case;

static void check_texts(const text_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fits(cases[i].schema, cases[i].text) != cases[i].fits)
            CHECK_FAIL("%s against %s: expected %d", cases[i].text, cases[i].schema, cases[i].fits);
}

#define A "\"a\":{\"type\":\"integer\"}"
#define B "\"b\":{\"type\":\"integer\"}"
#define C "\"c\":{\"type\":\"integer\"}"

/* Objects whose schemas do not mention other properties have only the declared ones, in order. */
static void objects_are_closed(void)
{
    static const text_case cases[] = {
        {"{\"properties\":{" B "," A "}}", "{\"b\":1,\"a\":2}", 2},
        {"{\"properties\":{" B "," A "}}", "{\"a\":1,", 0},
        {"{\"properties\":{" B "," A "}}", "{\"c\"", 0},
        {"{\"properties\":{" B "," A "}}", "{}", 2},
        {"{\"properties\":{" B "," A "}}", "[{\"x\":1}]", 2},
        {"{\"properties\":{" A "," B "," C "},\"required\":[\"b\"]}", "{\"c\"", 0},
        {"{\"properties\":{" A "," B "," C "},\"required\":[\"b\"]}", "{\"b\":1,\"c\":2}", 2},
        {"{\"properties\":{" A "," B "," C "},\"required\":[\"b\"]}", "{\"a\":1,\"c", 0},
        {"{\"properties\":{" A "," B "," C "},\"minProperties\":2}", "{\"c", 0},
        {"{\"properties\":{" A "," B "," C "},\"minProperties\":2}", "{\"b\":1}", 0},
        {"{\"properties\":{" A "," B "," C "},\"minProperties\":2}", "{\"b\":1,\"c\":1}", 2},
        {"{\"properties\":{" A "," B "," C "},\"maxProperties\":1}", "{\"b\":1,", 0},
        {"{\"properties\":{}}", "{\"", 0},
        /* These schemas allow other properties. */
        {"{\"type\":\"object\"}", "{\"x\":1}", 2},
        {"{\"properties\":{" A "},\"additionalProperties\":true}", "{\"x\":1,\"a\":1}", 2},
        {"{\"properties\":{" A "},\"additionalProperties\":{\"type\":\"null\"}}", "{\"x\":null}",
         2},
        {"{\"properties\":{" A "},\"patternProperties\":{\"^x\":true}}", "{\"y\":1}", 2},
        {"{\"properties\":{" A "},\"propertyNames\":{\"maxLength\":1}}", "{\"y\":1}", 2},
        {"{\"properties\":{" A "},\"required\":[\"x\"]}", "{\"x\":1,\"y\":1}", 2},
        {"{\"properties\":{" A "},\"minProperties\":2}", "{\"x\":1,\"y\":1}", 2},
        {"{\"properties\":{" A ",\"b\":false},\"minProperties\":2}", "{\"x\":1,\"y\":1}", 2},
        {"{\"properties\":{" B "," A "},\"additionalProperties\":false}", "{\"a\":1,", 0},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

static void names_come_from_all_schemas_that_hold(void)
{
    static const text_case cases[] = {
        {"{\"$defs\":{\"x\":{\"properties\":{" B "}}},\"allOf\":[{\"$ref\":\"#/$defs/x\"},"
         "{\"properties\":{" A "}}],\"properties\":{" C "}}",
         "{\"b\":1,\"a\":2,\"c\":3}", 2},
        {"{\"properties\":{" C "},\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"properties\":{" B
         "}}}}",
         "{\"c\":1,\"b\":2}", 2},
        {"{\"$ref\":\"#/$defs/x\",\"properties\":{" C "},\"$defs\":{\"x\":{\"properties\":{" B
         "}}}}",
         "{\"c\":1,\"b\"", 0},
        {"{\"properties\":{" C "},\"allOf\":[{\"additionalProperties\":true}]}", "{\"x\":1}", 2},
        {"{\"properties\":{" A "},\"anyOf\":[{\"properties\":{" B "},\"required\":[\"b\"]},"
         "{\"properties\":{" C "},\"required\":[\"c\"]}]}",
         "{\"a\":1,\"c\":2}", 2},
        {"{\"properties\":{" A "},\"anyOf\":[{\"properties\":{" B "},\"required\":[\"b\"]},"
         "{\"properties\":{" C "},\"required\":[\"c\"]}]}",
         "{\"a\":1,\"b\":2,\"", 0},
        {"{\"oneOf\":[{\"properties\":{" A "},\"required\":[\"a\"]},{\"properties\":{" B
         "},\"required\":[\"b\"]}],\"type\":\"object\"}",
         "{\"a\":1,", 0},
        {"{\"properties\":{" A "},\"if\":{\"properties\":{\"a\":{\"const\":1}}},\"then\":{"
         "\"properties\":{" B "}}}",
         "{\"a\":1,\"b\":1}", 2},
        {"{\"properties\":{" A "},\"if\":{\"properties\":{\"a\":{\"const\":1}}},\"then\":{"
         "\"properties\":{" B "}}}",
         "{\"a\":2,", 0},
        /* A required property of the other branch is never there, whatever its values are. */
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{" A "},\"required\":[\"a\"]},"
         "{\"type\":\"object\",\"properties\":{\"b\":{\"minimum\":3}," A
         "},\"required\":[\"b\"]}]}",
         "{\"b\":4,\"a\":", 0},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{" A "},\"required\":[\"a\"]},"
         "{\"type\":\"object\",\"properties\":{\"b\":{\"minimum\":3}," A
         "},\"required\":[\"b\"]}]}",
         "{\"b\":4}", 2},
        /* Only the requirement of the schema around the branches makes their constants differ. */
        {"{\"type\":\"object\",\"required\":[\"k\"],\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}"
         ","
         "\"x\":{\"minimum\":3}}},{\"properties\":{\"k\":{\"const\":2},\"y\":{\"maximum\":3}}}]}",
         "{\"k\":2,\"y\":3}", 2},
        /* An optional constant distinguishes the branches of instances that have it. */
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":1},\"x\":{\"minimum\":"
         "3}}},"
         "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":2},\"y\":{\"maximum\":3}}}]}",
         "{\"k\":1,\"x\":3}", 2},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":1},\"x\":{\"minimum\":"
         "3}}},"
         "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":2},\"y\":{\"maximum\":3}}}]}",
         "{}", 0},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

/* A branch that lists its values keeps those that match no other branch. */
static void listed_values_match_one_branch(void)
{
    static const text_case cases[] = {
        {"{\"oneOf\":[{\"enum\":[\"a\",\"bb\"]},{\"maxLength\":1}]}", "\"bb\"", 2},
        {"{\"oneOf\":[{\"enum\":[\"a\",\"bb\"]},{\"maxLength\":1}]}", "\"c\"", 2},
        {"{\"oneOf\":[{\"enum\":[\"a\",\"bb\"]},{\"maxLength\":1}]}", "\"a\"", 0},
        {"{\"oneOf\":[{\"$ref\":\"#/e\"},{\"maxLength\":1}],\"e\":{\"enum\":[\"a\",\"bb\"]}}",
         "\"bb\"", 2},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

/* Whitespace in strings without a pattern. */
static void blank_runs_are_short(void)
{
    static const struct {
        const char *schema;
        int spaces, fits;
    } cases[] = {
        {"{\"type\":\"string\"}", 32, 2},
        {"{\"type\":\"string\"}", 33, 0},
        {"{\"type\":\"string\",\"minLength\":40}", 33, 0},
        {"{\"type\":\"string\",\"pattern\":\"^ *$\"}", 40, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "\"%*s\"", cases[i].spaces, "");
        CHECK_EQ_INT(fits(cases[i].schema, text), cases[i].fits);
    }
    CHECK_EQ_INT(fits("true", "\"\\n\\t\\r\\u0020 a    \""), 2);
}

CHECK_MAIN("closing", CHECK_CASE(objects_are_closed),
           CHECK_CASE(names_come_from_all_schemas_that_hold),
           CHECK_CASE(listed_values_match_one_branch), CHECK_CASE(blank_runs_are_short))
