/* tests/constrain/test_walks.c -- random walks over small vocabularies never get stuck and end
 * within their token budget, even the smallest possible one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/constrain/random_schema.h"
#include "tests/constrain/walks.h"
#include "tests/support/json_schema.h"

/* Walks under one schema, the budgets being its shortest document's length and a little more. */
static void walk_schema(const char *text, const weft_tokenizer *tokenizer, int n, bool open)
{
    weft_constraint *c = NULL;
    int64_t least, tokens;
    if (!CHECK_OK(weft_constraint_new(tokenizer, text, strlen(text), "schema",
                                      &(weft_constraint_options){.open = open}, &c)))
        return;
    json_object *schema = json_tokener_parse(text);
    weft_constraint_missing(c, &least, &tokens);
    for (int i = 0; i < n; i++) {
        const int64_t budget = least + (int64_t)walk_random(i % 3 == 0 ? 1 : 40);
        char *document = walk(c, tokenizer, budget);
        json_object *value = document ? json_tokener_parse(document) : NULL;
        if (!document || !json_schema_fits(schema, schema, value))
            CHECK_FAIL("%s: %s within %lld tokens", text, document ? document : "stuck",
                       (long long)budget);
        json_object_put(value);
        free(document);
    }
    json_object_put(schema);
    weft_constraint_free(c);
}

/* Schemas whose shortest documents are not obvious. */
static const char *const listed[] = {
    "{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"a\":{\"$ref\":\"#\"},\"b\":{"
    "\"type\":"
    "\"null\"},\"c\":{\"type\":\"string\",\"minLength\":30}},\"additionalProperties\":false}",
    "{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"next\":{\"$ref\":\"#\"}}}",
    "{\"type\":\"object\",\"minProperties\":3,\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"}},"
    "\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"boolean\"},\"$defs\":{\"x\":{"
    "\"anyOf\":"
    "[{\"type\":\"null\"},{\"$ref\":\"#\"}]}}}",
    "{\"type\":\"object\",\"minProperties\":100,\"additionalProperties\":{\"type\":\"integer\"}}",
    "{\"type\":\"object\",\"minProperties\":5,\"properties\":{\"\":{\"const\":\"long text\"},\"a\":"
    "{\"type\":\"array\",\"minItems\":9},\"b\":{\"type\":\"null\"}},\"maxProperties\":5}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
    "\"required\":[\"a\"]},{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\"}},"
    "\"required\":[\"b\"]}]}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":true},"
    "\"additionalProperties\":false},{\"type\":\"object\",\"properties\":{\"b\":true,\"c\":true},"
    "\"required\":[\"c\"],\"additionalProperties\":false}]}",
    "{\"oneOf\":[{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":4},"
    "{\"type\":\"array\",\"maxItems\":3}]}",
    "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":2,\"properties\":{\"a\":false,"
    "\"aa\":"
    "{\"type\":\"integer\"}},\"required\":[\"aa\"],\"additionalProperties\":{\"type\":\"integer\"}"
    "}",
};

static void listed_schemas(void)
{
    for (int v = 0; v < WALK_VOCABULARIES; v++) {
        weft_tokenizer *tokenizer = walk_vocabulary(v);
        for (size_t i = 0; tokenizer && i < sizeof listed / sizeof *listed; i++) {
            if (!check_few() || i % WALK_VOCABULARIES == (size_t)v)
                for (int open = 0; open < 2; open++)
                    walk_schema(listed[i], tokenizer, 15, open);
        }
        weft_tokenizer_free(tokenizer);
    }
}

/* ---- random schemas -------------------------------------------------------------------------- */

typedef struct tally {
    long walks, stuck, schemas, empty, unsupported, matching, other;
    FILE *file; /* NULL: none */
} tally;

/* Random values match the constraint exactly where they match the schema; NULL: nothing does. */
static void compare_values(const char *text, json_object *schema, weft_constraint *c, int n,
                           tally *t)
{
    for (int i = 0; i < n; i++) {
        char *document = random_value();
        json_object *value = json_tokener_parse(document);
        const bool fits = json_schema_fits(schema, schema, value);
        bool accepted = false;
        if (c && CHECK_OK(weft_constraint_reset(c)))
            accepted = weft_constraint_accept_text(c, document, strlen(document)) == WEFT_OK &&
                       weft_constraint_complete(c);
        if (fits != accepted)
            CHECK_FAIL("%s: %s is %s", text, document,
                       accepted ? "accepted, and does not match" : "not accepted, and matches");
        t->matching += fits;
        t->other += !fits;
        json_object_put(value);
        free(document);
    }
}

/* Whether a schema refers to itself without descending: then no validator is used. */
static bool is_endless(const char *text)
{
    json_object *schema = json_tokener_parse(text), *definitions, *x;
    json_object *first = json_object_array_get_idx(json_object_object_get(schema, "allOf"), 0);
    json_object_object_get_ex(schema, "$defs", &definitions);
    json_object_object_get_ex(definitions, "x", &x);
    const bool endless = json_schema_refers(schema, first) || json_schema_refers(schema, x);
    json_object_put(schema);
    return endless;
}

/* Compares values with open objects, as in the standard; walks also with closed ones. */
static void try_schema(weft_tokenizer *const *tokenizers, int walks, int values, tally *t)
{
    char *text = random_schema();
    if (is_endless(text)) {
        free(text);
        return;
    }
    json_object *schema = json_tokener_parse(text);
    for (int v = 0; v < WALK_VOCABULARIES; v++) {
        weft_constraint *c = NULL;
        const weft_constraint_options options = {.open = v == 0};
        const weft_status status =
            weft_constraint_new(tokenizers[v], text, strlen(text), "schema", &options, &c);
        if (status == WEFT_UNSUPPORTED) {
            t->unsupported += v == 0;
            continue;
        }
        if (status)
            CHECK_CONTAINS(weft_error_message(), "no value satisfies");
        t->schemas += v == 0 && !status;
        t->empty += v == 0 && status;
        if (v == 0)
            compare_values(text, schema, c, values, t);
        if (!c)
            continue;
        int64_t least, tokens;
        CHECK_OK(weft_constraint_reset(c));
        weft_constraint_missing(c, &least, &tokens);
        for (int i = 0; i < walks; i++) {
            const int64_t budget = least + (int64_t)walk_random(i % 2 == 0   ? 1
                                                                : i % 4 == 1 ? 30
                                                                             : 200);
            char *document = walk(c, tokenizers[v], budget);
            json_object *value = document ? json_tokener_parse(document) : NULL;
            if (!document || !json_schema_fits(schema, schema, value))
                CHECK_FAIL("%s: %s within %lld tokens", text, document ? document : "stuck",
                           (long long)budget);
            for (char *at = document; at && *at; at++)
                *at = *at == '\n' ? ' ' : *at; /* between values only: strings escape it */
            if (t->file && document)
                fprintf(t->file, "{\"schema\":%s,\"document\":%s}\n", text, document);
            t->walks++;
            t->stuck += !document;
            json_object_put(value);
            free(document);
        }
        weft_constraint_free(c);
    }
    json_object_put(schema);
    free(text);
}

/* WEFT_TEST_WALKS says how many schemas that something satisfies; 150 otherwise. What was generated
 * goes to the file WEFT_TEST_WALKS_FILE, for compare_walks.py. */
static void random_schemas(void)
{
    const char *wanted = getenv("WEFT_TEST_WALKS");
    const char *file = getenv("WEFT_TEST_WALKS_FILE");
    const long n = wanted ? atol(wanted) : 150;
    weft_tokenizer *tokenizers[WALK_VOCABULARIES];
    tally t = {0};
    for (int v = 0; v < WALK_VOCABULARIES; v++)
        tokenizers[v] = walk_vocabulary(v);
    t.file = file ? fopen(file, "w") : NULL;
    CHECK(!file || t.file);
    while (t.schemas < n && t.stuck == 0)
        try_schema(tokenizers, wanted ? 4 : 2, 30, &t);
    if (t.file)
        fclose(t.file);
    printf("  %ld walks under %ld schemas (%ld more that nothing satisfies, %ld that are not "
           "supported), %ld stuck; %ld values that match, %ld that do not\n",
           t.walks, t.schemas, t.empty, t.unsupported, t.stuck, t.matching, t.other);
    CHECK_EQ_INT(t.stuck, 0);
    CHECK(t.matching > t.schemas && t.other > t.schemas);
    /* Schemas with keywords that would have to be violated. */
    CHECK(t.unsupported * 3 < t.schemas);
    for (int v = 0; v < WALK_VOCABULARIES; v++)
        weft_tokenizer_free(tokenizers[v]);
}

CHECK_MAIN("walks", CHECK_CASE(listed_schemas), CHECK_CASE(random_schemas))
