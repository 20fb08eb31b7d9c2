/* tests/constrain/test_large_schemas.c -- long enums, and combinations that contradict each other,
 * in numbers that would take minutes if each were tried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const weft_status status = weft_constraint_new(tokenizer, schema->at, schema->n, "schema", out);
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
    CHECK(fits(c, "{\"a\":\"x\",\"kind\":\"k79\"}") && fits(c, "{\"kind\":\"k0\",\"c\":null}"));
    CHECK(!fits(c, "{\"a\":\"x\"}") && !fits(c, "{\"kind\":\"k80\"}"));
    weft_constraint_free(c);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("large_schemas", CHECK_CASE(contradictions_are_found_early),
           CHECK_CASE(too_many_combinations_are_refused), CHECK_CASE(long_enums_are_followed),
           CHECK_CASE(long_unions_are_followed))
