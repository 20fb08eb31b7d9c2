/* tests/session/test_schema_check.c -- validation of values against schemas, the messages about
 * invalid values, and malformed schemas. */
#include <stdio.h>
#include <string.h>

#include "core/io/json.h"
#include "core/io/utf8.h"
#include "tests/check.h"
#include "text/schema/check.h"
#include "weft/memory.h"

/* Whether the value is valid; the complaint belongs to this function, "" without one. */
static bool holds(const char *schema, const char *value, char complaint[512])
{
    weft__json_doc s = {0}, v = {0};
    weft__text out = {0};
    bool fine = false;
    complaint[0] = '\0';
    if (CHECK_OK(weft__json_parse(schema, strlen(schema), "schema", &s)) &&
        CHECK_OK(weft__json_parse(value, strlen(value), "value", &v)))
        fine = weft__schema_holds(s.root, v.root, &out);
    CHECK(!out.failed);
    snprintf(complaint, 512, "%s", out.at ? out.at : "");
    weft_free(out.at);
    weft__json_free(&s);
    weft__json_free(&v);
    return fine;
}

typedef struct held_case {
    const char *schema, *value, *complaint; /* NULL: valid */
} held_case;

static void check_cases(const held_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char complaint[512];
        CHECK_EQ_INT(holds(cases[i].schema, cases[i].value, complaint), !cases[i].complaint);
        CHECK_STR(complaint, cases[i].complaint ? cases[i].complaint : "");
    }
}

static void values_are_validated_by_schemas(void)
{
    static const held_case cases[] = {
        {"{\"type\": [\"string\", \"null\"]}", "null", NULL},
        {"{\"type\": [\"string\", \"null\"]}", "1", "expected [\"string\",\"null\"], got 1"},
        {"{\"items\": {\"minimum\": 2}}", "[2, 1]", "[1]: expected at least 2, got 1"},
        {"{\"properties\": {\"a\": {\"enum\": [1, 2]}}}", "{\"a\": 3}", "a: expected [1,2], got 3"},
        {"{\"$ref\": \"#/x/y\", \"x\": {\"y\": {\"const\": 5}}}", "5", NULL},
        {"{\"$ref\": \"#/x/y\", \"x\": {\"y\": {\"const\": 5}}}", "6", "expected 5, got 6"},
        {"{\"$ref\": \"#/anyOf/1\", \"anyOf\": [false, {\"type\": \"integer\"}]}", "5", NULL},
        {"{\"$ref\": \"#/x/abc\", \"x\": [false]}", "5", NULL}, /* not the name of an element */
        {"{\"$ref\": \"#/x/a%25~0\", \"x\": {\"a%~\": {\"const\": 1}}}", "2", "expected 1, got 2"},
        {"{\"required\": [\"a\"]}", "{}", "\"a\" is missing"},
        {"{\"required\": [\"a\\u0000b\"]}", "{\"a\": 1}", "\"a\" is missing"},
        {"{\"minLength\": 3}", "\"a\\u0000\xc3\xa9\"", NULL},
        {"{\"oneOf\": [{\"type\": \"integer\"}, {\"minimum\": 2}]}", "3",
         "expected exactly one of the alternatives of oneOf, got 3"},
        {"{\"multipleOf\": 0.1}", "0.3", NULL},
        {"{\"multipleOf\": 0.1}", "0.25", "expected a multiple of 0.1, got 0.25"},
        {"{\"multipleOf\": 3}", "3e30", NULL},
        {"{\"multipleOf\": 3}", "1e99999999999999999999",
         "expected a multiple of 3, got "
         "1e99999999999999999999"},
        {"{\"multipleOf\": 2e-5}", "1e-99999999999999999999",
         "expected a multiple of 2e-5, got 1e-99999999999999999999"},
        {"{\"type\": \"number\"}", "1e400", NULL},
        {"{\"format\": \"date\"}", "\"2024-02-29\"", NULL},
        {"{\"items\": {\"format\": \"date\"}}", "[\"2023-02-29\"]",
         "[0]: expected a string of format date"},
        {"{\"format\": \"hue\"}", "\"red\"", NULL},
        {"{\"contains\": {\"const\": 1}}", "[2, 3]",
         "expected at least 1 items that match \"contains\", got 0"},
        {"{\"contains\": {\"const\": 1}, \"maxContains\": 1}", "[1, 1, 1]",
         "expected at most 1 items that match \"contains\", got 3"},
        {"{\"uniqueItems\": true}", "[1, {\"a\": 2}, {\"a\": 3}]", NULL},
        {"{\"uniqueItems\": true}", "[1, 1.0]", "expected items that differ from each other"},
        {"{\"patternProperties\": {\"^x\": {\"type\": \"null\"}}, \"additionalProperties\": false}",
         "{\"xy\": null, \"z\": 1}", "\"z\" is not allowed here"},
        {"{\"patternProperties\": {\"^x\": {\"type\": \"null\"}}}", "{\"xy\": 1}",
         "xy: expected null, got 1"},
        {"{\"propertyNames\": {\"maxLength\": 2}}", "{\"abc\": 1}",
         "\"abc\" is not a name that is allowed here"},
        {"{\"dependentRequired\": {\"a\": [\"b\"]}}", "{\"a\": 1}", "\"b\" is missing"},
        {"{\"dependentSchemas\": {\"a\": {\"maxProperties\": 1}}}", "{\"a\": 1, \"b\": 2}",
         "expected at most 1 members, got 2"},
        {"{\"dependencies\": {\"a\": [\"b\"], \"c\": false}}", "{\"b\": 1}", NULL},
        {"false", "3", "nothing is allowed here"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* Numbers that are equal or whole as doubles, and numbers in several notations. */
static void numbers_are_compared_exactly(void)
{
    static const held_case cases[] = {
        {"{\"minimum\": 9007199254740993}", "9007199254740993", NULL},
        {"{\"minimum\": 9007199254740993}", "9007199254740992",
         "expected at least 9007199254740993, got 9007199254740992"},
        {"{\"maximum\": -9007199254740993}", "-9007199254740992",
         "expected at most -9007199254740993, got -9007199254740992"},
        {"{\"exclusiveMinimum\": 9007199254740992}", "9007199254740993", NULL},
        {"{\"exclusiveMaximum\": 9007199254740993}", "9007199254740992", NULL},
        {"{\"exclusiveMaximum\": 9007199254740993}", "9.007199254740993e15",
         "expected less than 9007199254740993, got 9.007199254740993e15"},
        {"{\"maximum\": 18446744073709551615}", "18446744073709551616",
         "expected at most 18446744073709551615, got 18446744073709551616"},
        {"{\"maximum\": 0.1}", "0.1000000000000000055",
         "expected at most 0.1, got 0.1000000000000000055"},
        {"{\"minimum\": -0.0}", "0", NULL},
        {"{\"maximum\": 1e400}", "1e308", NULL},
        {"{\"maximum\": 1e308}", "1e400", "expected at most 1e308, got 1e400"},
        {"{\"multipleOf\": 2}", "9007199254740993",
         "expected a multiple of 2, got 9007199254740993"},
        {"{\"multipleOf\": 3}", "36893488147419103233", NULL},
        {"{\"multipleOf\": 3}", "36893488147419103232",
         "expected a multiple of 3, got 36893488147419103232"},
        {"{\"multipleOf\": 0.01}", "123456789012345678.91", NULL},
        {"{\"multipleOf\": 0.01}", "123456789012345678.915",
         "expected a multiple of 0.01, got 123456789012345678.915"},
        {"{\"multipleOf\": 100}", "1.2e3", NULL},
        {"{\"multipleOf\": 1000}", "1.2e3", "expected a multiple of 1000, got 1.2e3"},
        {"{\"type\": \"integer\"}", "9007199254740993.5",
         "expected integer, got 9007199254740993.5"},
        {"{\"type\": \"integer\"}", "9007199254740993.0", NULL},
        {"{\"type\": \"integer\"}", "12e-1", "expected integer, got 12e-1"},
        {"{\"type\": \"integer\"}", "120e-1", NULL},
        {"{\"const\": 9007199254740993.0}", "9007199254740992",
         "expected 9007199254740993.0, got 9007199254740992"},
        {"{\"enum\": [1e2, 0.5]}", "100.0", NULL},
        {"{\"enum\": [1e2, 0.5]}", "5E-1", NULL},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* Keywords whose values have the wrong type are ignored. */
static void malformed_keywords_are_ignored(void)
{
    static const char *const keys[] = {"type",
                                       "$ref",
                                       "enum",
                                       "required",
                                       "properties",
                                       "items",
                                       "anyOf",
                                       "oneOf",
                                       "allOf",
                                       "pattern",
                                       "minimum",
                                       "maxLength",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "format",
                                       "multipleOf",
                                       "contains",
                                       "uniqueItems",
                                       "patternProperties",
                                       "propertyNames",
                                       "dependentRequired",
                                       "dependentSchemas",
                                       "dependencies"};
    static const char *const values[] = {
        "null",         "5",          "{}", "[]", "true", "[null, 5, {}]", "{\"a\": null}",
        "{\"a\": [5]}", "{\"(\": {}}"};
    static const char *const of[] = {"1", "\"x\"", "[1]", "{\"a\": 1}", "null"};
    int complaints = 0;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char schema[128], complaint[512];
            snprintf(schema, sizeof schema, "{\"%s\": %s}", keys[k], values[v]);
            for (size_t o = 0; o < sizeof of / sizeof *of; o++) {
                const bool fine = holds(schema, of[o], complaint);
                CHECK_EQ_INT(complaint[0] == '\0', fine);
                complaints += !fine;
            }
        }
    }
    CHECK(complaints > 0);
}

static void endless_references_are_rejected(void)
{
    char complaint[512];
    CHECK(!holds("{\"$ref\": \"#\"}", "1", complaint));
    CHECK_CONTAINS(complaint, "refers to itself");
    CHECK(!holds("{\"anyOf\": [{\"$ref\": \"#\"}, {\"$ref\": \"#\"}]}", "1", complaint));
    CHECK_CONTAINS(complaint, "one of the alternatives of anyOf");
}

/* Messages are cut between characters, since templates refuse partial ones. */
static void complaints_are_utf8(void)
{
    char value[512], schema[600], complaint[512];
    for (int shift = 0; shift < 3; shift++) {
        size_t n = (size_t)snprintf(value, sizeof value, "\"%.*s", shift, "xxx");
        for (int i = 0; i < 60; i++)
            n += (size_t)snprintf(value + n, sizeof value - n, "%s", "\xe2\x82\xac");
        snprintf(value + n, sizeof value - n, "\"");
        CHECK(!holds("{\"type\": \"integer\"}", value, complaint));
        CHECK_EQ_INT(weft__utf8_valid(complaint, strlen(complaint)), strlen(complaint));
        CHECK_CONTAINS(complaint, "expected integer, got \"");
        snprintf(schema, sizeof schema, "{\"required\": [%s]}", value);
        CHECK(!holds(schema, "{}", complaint));
        CHECK_EQ_INT(weft__utf8_valid(complaint, strlen(complaint)), strlen(complaint));
        snprintf(schema, sizeof schema, "{%s: 1}", value); /* the place */
        CHECK(!holds("{\"additionalProperties\": {\"type\": \"null\"}}", schema, complaint));
        CHECK_EQ_INT(weft__utf8_valid(complaint, strlen(complaint)), strlen(complaint));
        CHECK_CONTAINS(complaint, "expected null, got 1");
    }
}

CHECK_MAIN("schema_check", CHECK_CASE(values_are_validated_by_schemas),
           CHECK_CASE(numbers_are_compared_exactly), CHECK_CASE(malformed_keywords_are_ignored),
           CHECK_CASE(endless_references_are_rejected), CHECK_CASE(complaints_are_utf8))
