/* tests/constrain/test_large_schemas.c -- long enums, and so many contradictory combinations that
 * trying each would take minutes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/io/text.h"
#include "tests/check.h"
#include "tests/constrain/walks.h"
#include "weft/memory.h"

static weft_tokenizer *tokenizer;

/* The status of a schema, which is released; with WEFT_OK, *out is the constraint. */
static weft_status open_text(weft__text *schema, weft_constraint **out)
{
    *out = NULL;
    if (!tokenizer)
        tokenizer = walk_vocabulary(1);
    CHECK(!schema->failed);
    const weft_status status =
        weft_constraint_new(tokenizer, schema->at, schema->n, "schema", NULL, out);
    weft_free(schema->at);
    *schema = (weft__text){0};
    return status;
}

static bool fits(weft_constraint *c, const char *text)
{
    return CHECK_OK(weft_constraint_reset(c)) &&
           weft_constraint_accept_text(c, text, strlen(text)) == WEFT_OK &&
           weft_constraint_complete(c);
}

/* allOf of n anyOf, each of the two formats with numbers that no other one has. */
static weft_status contradict(int n, const char *rest, const char *format)
{
    weft__text schema = {0};
    weft_constraint *c = NULL;
    weft__text_format(&schema, "{%s\"allOf\":[", rest);
    for (int i = 0; i < n; i++) {
        weft__text_format(&schema, "%s{\"anyOf\":[", i ? "," : "");
        for (int k = 0; k < 2; k++) {
            weft__text_append(&schema, k ? "," : "", (size_t)k);
            for (const char *at = format; *at; at++)
                if (*at == '#')
                    weft__text_format(&schema, "%d", 1000 + 2 * i + k);
                else
                    weft__text_append(&schema, at, 1);
        }
        weft__text_format(&schema, "]}");
    }
    weft__text_format(&schema, "]}");
    const weft_status status = open_text(&schema, &c);
    weft_constraint_free(c);
    return status;
}

static void contradictions_are_found_early(void)
{
    static const struct {
        const char *rest, *format;
    } cases[] = {
        {"", "{\"const\":#}"},
        {"", "{\"enum\":[#,\"#\"]}"},
        {"\"type\":\"integer\",", "{\"minimum\":#,\"maximum\":#}"},
        {"\"type\":\"string\",", "{\"minLength\":#,\"maxLength\":#}"},
        {"\"type\":\"string\",", "{\"pattern\":\"^#$\"}"},
        {"\"type\":\"object\",", "{\"properties\":{\"k\":{\"const\":#}},\"required\":[\"k\"]}"},
        {"\"type\":\"object\",\"required\":[\"k\"],",
         "{\"properties\":{\"k\":{\"type\":\"string\",\"pattern\":\"^#\"}}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_STATUS(contradict(60, cases[i].rest, cases[i].format), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "no value satisfies the schema");
    }
}

static void too_many_combinations_are_refused(void)
{
    CHECK_STATUS(contradict(30, "\"type\":\"object\",", "{\"required\":[\"#\"]}"),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "a place in the schema has more than 1024 choices");
}

static void long_enums_are_followed(void)
{
    enum { N = 200000 };
    weft__text schema = {0};
    weft_constraint *c = NULL;
    weft__text_format(&schema, "{\"allOf\":[{\"enum\":[");
    for (int i = 0; i < N; i++)
        weft__text_format(&schema, "%s\"value %d\",%d", i ? "," : "", i, i);
    weft__text_format(&schema, "]},{\"not\":{\"const\":17}}],\"minLength\":7,\"not\":{\"enum\":[");
    for (int i = 0; i < N; i++)
        weft__text_format(&schema, "%s%d", i ? "," : "", 3 * i);
    weft__text_format(&schema, "]}}");
    if (!CHECK_OK(open_text(&schema, &c)))
        return;
    CHECK(fits(c, "\"value 199999\"") && fits(c, "\"value 0\"") && fits(c, "1") &&
          fits(c, "199999"));
    CHECK(!fits(c, "\"value 200000\"") && !fits(c, "17") && !fits(c, "3") &&
          !fits(c, "\"value \""));
    for (int i = 0; i < 5; i++) {
        char *document = walk(c, tokenizer, 20);
        CHECK(document && fits(c, document));
        free(document);
    }
    weft_constraint_free(c);
}

/* Branches that exclude each other need no comparison of all their parts. */
static void long_unions_are_followed(void)
{
    enum { N = 80 };
    weft__text schema = {0};
    weft_constraint *c = NULL;
    weft__text_format(&schema, "{\"oneOf\":[");
    for (int i = 0; i < N; i++)
        weft__text_format(
            &schema,
            "%s{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"k%d\"},"
            "\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"},\"c\":{\"type\":"
            "\"null\"}},\"required\":[\"kind\"],\"additionalProperties\":false}",
            i ? "," : "", i);
    weft__text_format(&schema, "]}");
    if (!CHECK_OK(open_text(&schema, &c)))
        return;
    CHECK(fits(c, "{\"kind\":\"k79\",\"a\":\"x\"}") && fits(c, "{\"kind\":\"k0\",\"c\":null}"));
    CHECK(!fits(c, "{\"a\":\"x\"}") && !fits(c, "{\"kind\":\"k80\"}"));
    weft_constraint_free(c);
}

/* Seconds of this process; a linear algorithm takes less than one. */
static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

enum { MANY = 20000, SOON = 10 };

static void many_constants_are_one_choice(void)
{
    static const char *const keywords[] = {"anyOf", "oneOf"};
    for (int k = 0; k < 2; k++) {
        weft__text schema = {0};
        weft_constraint *c = NULL;
        const double begin = seconds();
        weft__text_format(&schema, "{\"%s\":[{\"type\":\"null\"}", keywords[k]);
        for (int i = 0; i < MANY; i++)
            weft__text_format(&schema, ",{\"const\":%d},{\"const\":\"value %d\"}", i, i / 2 * 2);
        weft__text_format(&schema, "]}");
        if (!CHECK_OK(open_text(&schema, &c)))
            return;
        CHECK(seconds() - begin < SOON);
        CHECK(fits(c, "19999") && fits(c, "0") && fits(c, "null") && !fits(c, "20000"));
        /* Two branches have each of these. */
        CHECK_EQ_INT(fits(c, "\"value 0\""), k == 0);
        CHECK_EQ_INT(fits(c, "\"value 19998\""), k == 0);
        CHECK(!fits(c, "\"value 1\""));
        weft_constraint_free(c);
    }
}

static void many_equal_constants_are_followed(void)
{
    weft__text schema = {0};
    weft_constraint *c = NULL;
    const double begin = seconds();
    weft__text_format(&schema, "{\"anyOf\":[{\"const\":1}");
    for (int i = 1; i < MANY / 4; i++)
        weft__text_format(&schema, ",{\"const\":1}");
    weft__text_format(&schema, "]}");
    if (!CHECK_OK(open_text(&schema, &c)))
        return;
    CHECK(seconds() - begin < SOON);
    CHECK(fits(c, "1") && !fits(c, "2"));
    weft_constraint_free(c);
}

static void many_references_to_one_schema_are_one_place(void)
{
    enum { REFERENCES = 3000 };
    weft__text schema = {0};
    weft_constraint *c = NULL;
    const double begin = seconds();
    weft__text_format(&schema, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < REFERENCES; i++)
        weft__text_format(&schema, "%s\"p%d\":{\"$ref\":\"#%s\",\"title\":\"%d\"}", i ? "," : "", i,
                          i % 2 ? "/$defs/x" : "", i);
    weft__text_format(&schema, "},\"$defs\":{\"x\":{\"$ref\":\"#/$defs/y\"},\"y\":{\"type\":["
                               "\"object\",\"null\"]}},\"additionalProperties\":false}");
    if (!CHECK_OK(open_text(&schema, &c)))
        return;
    CHECK(seconds() - begin < SOON);
    CHECK(fits(c, "{\"p0\":{\"p2998\":{\"p1\":null}},\"p2999\":{\"x\":1}}"));
    CHECK(!fits(c, "{\"p0\":null}") && !fits(c, "{\"p3000\":{}}"));
    weft_constraint_free(c);
}

static void many_properties_are_followed(void)
{
    enum { PROPERTIES = 100000 };
    for (int required = 0; required < 2; required++) {
        weft__text schema = {0};
        weft_constraint *c = NULL;
        weft__text_format(&schema, "{\"type\":\"object\",\"properties\":{");
        for (int i = 0; i < PROPERTIES; i++)
            weft__text_format(&schema, "%s\"p%d\":{\"type\":\"null\"}", i ? "," : "", i);
        weft__text_format(&schema, "},\"required\":[");
        for (int i = 0; i < PROPERTIES && required; i++)
            weft__text_format(&schema, "%s\"p%d\"", i ? "," : "", i);
        weft__text_format(&schema, "]}");
        if (!CHECK_OK(open_text(&schema, &c)))
            return;
        CHECK_EQ_INT(fits(c, "{\"p7\":null,\"p99999\":null}"), !required);
        CHECK_OK(weft_constraint_reset(c));
        CHECK_OK(weft_constraint_accept_text(c, "{\"p0\":null,\"p1\":null,", 21));
        CHECK_STATUS(weft_constraint_accept_text(c, "\"p1\"", 4), WEFT_INVALID);
        weft_constraint_free(c);
    }
}

/* Every keyword with 100,000 entries takes time in proportion to them: "#" is the number of an
 * entry, "+" the next one. Without texts that fit or do not, the schema is refused. */
static void every_keyword_takes_many_entries(void)
{
    enum { ENTRIES = 100000, MOST = 20 };
    static const struct {
        const char *begin, *entry, *end, *fits, *not ;
    } cases[] = {
        {"\"enum\":[", "\"v#\"", "]", "\"v99999\"", "\"v100000\""},
        {"\"const\":[", "#", "]", NULL, "[0]"},
        {"\"type\":\"object\",\"required\":[", "\"p#\"", "]", NULL, "{}"},
        {"\"type\":\"object\",\"minProperties\":50000,\"properties\":{",
         "\"p#\":{\"type\":\"null\"}", "}", NULL, "{\"p0\":null}"},
        {"\"type\":\"object\",\"minProperties\":2,\"properties\":{", "\"p#\":{\"type\":\"null\"}",
         "},\"additionalProperties\":{\"type\":\"null\"}", "{\"p99999\":null,\"q\":null}",
         "{\"p0\":null}"},
        {"\"type\":\"object\",\"maxProperties\":1,\"properties\":{", "\"p#\":{\"type\":\"null\"}",
         "}", "{\"p5\":null}", "{\"p5\":null,\"p6\":null}"},
        {"\"anyOf\":[", "{\"const\":#}", "]", "99999", "100000"},
        {"\"oneOf\":[", "{\"const\":\"v#\"}", "]", "\"v99999\"", "\"v\""},
        {"\"type\":\"integer\",\"allOf\":[", "{\"minimum\":#}", "]", NULL, NULL},
        {"\"type\":\"array\",\"prefixItems\":[", "{\"const\":#}", "]", "[0,1,2]", "[0,2]"},
        {"\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"dependentRequired\":{",
         "\"b#\":[\"a\"]", "}", NULL, NULL},
        {"\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d100000\":{\"type\":\"null\"},",
         "\"d#\":{\"$ref\":\"#/$defs/d+\"}", "}", NULL, NULL},
        {"\"type\":\"object\",\"patternProperties\":{", "\"^p#$\":{\"type\":\"null\"}", "}", NULL,
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft__text schema = {0};
        weft_constraint *c = NULL;
        const double begin = seconds();
        weft__text_format(&schema, "{%s", cases[i].begin);
        for (int k = 0; k < ENTRIES; k++) {
            weft__text_append(&schema, ",", (size_t)(k > 0));
            for (const char *at = cases[i].entry; *at; at++)
                if (*at == '#' && at[1] != '/')
                    weft__text_format(&schema, "%d", k);
                else if (*at == '+')
                    weft__text_format(&schema, "%d", k + 1);
                else
                    weft__text_append(&schema, at, 1);
        }
        weft__text_format(&schema, "%s}", cases[i].end);
        if (cases[i].not == NULL) {
            CHECK_STATUS(open_text(&schema, &c), WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), "more than ");
        } else if (CHECK_OK(open_text(&schema, &c))) {
            CHECK(cases[i].fits == NULL || fits(c, cases[i].fits));
            CHECK(!fits(c, cases[i].not ));
        }
        if (!CHECK(seconds() - begin < MOST) || getenv("WEFT_TEST_TIMES"))
            printf("%s: %.1f s\n", cases[i].begin, seconds() - begin);
        weft_constraint_free(c);
    }
}

/* Patterns that exclude each other, and patterns that overlap. */
static void many_patterns_are_followed(void)
{
    for (int f = 0; f < 2; f++) {
        weft__text schema = {0};
        weft_constraint *c = NULL;
        weft__text_format(&schema, "{\"oneOf\":[");
        for (int i = 0; i < 300; i++) {
            weft__text_format(&schema, "%s{\"type\":\"string\",\"pattern\":\"", i ? "," : "");
            weft__text_format(&schema, f ? "^p%d" : "^item-%d-[a-z]+$", i);
            weft__text_format(&schema, "\"}");
        }
        weft__text_format(&schema, "]}");
        if (!CHECK_OK(open_text(&schema, &c)))
            return;
        CHECK(fits(c, f ? "\"p30\"" : "\"item-299-a\"") == !f);
        CHECK(fits(c, f ? "\"p3a\"" : "\"item-1-xyz\""));
        CHECK(!fits(c, f ? "\"q\"" : "\"item-300-a\""));
        weft_constraint_free(c);
    }
}

/* Each branch has different properties, of which it requires one, and forbids others. */
static void branches_with_different_properties_are_followed(void)
{
    weft__text schema = {0};
    weft_constraint *c = NULL;
    const double begin = seconds();
    weft__text_format(&schema, "{\"oneOf\":[");
    for (int k = 0; k < 3; k++) {
        weft__text_format(&schema, "%s{\"type\":\"object\",\"properties\":{", k ? "," : "");
        for (int i = 0; i < 60; i++)
            weft__text_format(&schema, "%s\"%c%d\":{\"type\":\"integer\"}", i ? "," : "", 'a' + k,
                              i);
        weft__text_format(&schema, "},\"required\":[\"%c7\"],\"additionalProperties\":false}",
                          'a' + k);
    }
    weft__text_format(&schema, "]}");
    if (!CHECK_OK(open_text(&schema, &c)))
        return;
    CHECK(seconds() - begin < SOON);
    CHECK(fits(c, "{\"a0\":1,\"a7\":2}") && fits(c, "{\"c7\":1}"));
    CHECK(!fits(c, "{}") && !fits(c, "{\"a0\":1}") && !fits(c, "{\"a7\":1,\"b7\":1}") &&
          !fits(c, "{\"d7\":1}"));
    weft_constraint_free(c);
}

/* Two branches name the same properties and require none. They differ in a value of the last one
 * (nowhere: 0). */
static void branches_with_the_same_properties_are_distinguished(void)
{
    for (int apart = 0; apart < 2; apart++) {
        weft__text schema = {0};
        weft_constraint *c = NULL;
        const double begin = seconds();
        weft__text_format(&schema, "{\"oneOf\":[");
        for (int k = 0; k < 2; k++) {
            weft__text_format(&schema, "%s{\"type\":\"object\",\"properties\":{", k ? "," : "");
            for (int i = 0; i < MANY; i++)
                weft__text_format(&schema, "\"p%d\":{\"type\":\"integer\"},", i);
            weft__text_format(&schema, "\"q\":{\"type\":\"%s\"}}}",
                              apart && k ? "null" : "integer");
        }
        weft__text_format(&schema, "]}");
        if (!apart) {
            CHECK_STATUS(open_text(&schema, &c), WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), "oneOf[1]: a value can match this and oneOf[0]");
        } else if (CHECK_OK(open_text(&schema, &c))) {
            CHECK(fits(c, "{\"p7\":1,\"q\":2}") && fits(c, "{\"p7\":1,\"q\":null}"));
            CHECK(!fits(c, "{\"p7\":1}") && !fits(c, "{\"q\":true}"));
        }
        CHECK(seconds() - begin < SOON);
        weft_constraint_free(c);
    }
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("large_schemas", CHECK_CASE(contradictions_are_found_early),
           CHECK_CASE(too_many_combinations_are_refused), CHECK_CASE(long_enums_are_followed),
           CHECK_CASE(long_unions_are_followed), CHECK_CASE(many_constants_are_one_choice),
           CHECK_CASE(many_equal_constants_are_followed),
           CHECK_CASE(many_references_to_one_schema_are_one_place),
           CHECK_CASE(many_properties_are_followed), CHECK_CASE(every_keyword_takes_many_entries),
           CHECK_CASE(many_patterns_are_followed),
           CHECK_CASE(branches_with_different_properties_are_followed),
           CHECK_CASE(branches_with_the_same_properties_are_distinguished))
