/* tests/constrain/test_walks.c -- random walks over small vocabularies never get stuck and end
 * within their budget, the tightest included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/constrain/walks.h"
#include "tests/support/json_schema.h"

/* Walks under one schema, the budgets being its shortest document's length and a little more. */
static void walk_schema(const char *text, const weft_tokenizer *tokenizer, int n)
{
    weft_constraint *c = NULL;
    int64_t least, tokens;
    if (!CHECK_OK(weft_constraint_new(tokenizer, text, strlen(text), "schema", &c)))
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
    "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":2,\"properties\":{\"a\":false,"
    "\"aa\":"
    "{\"type\":\"integer\"}},\"required\":[\"aa\"],\"additionalProperties\":{\"type\":\"integer\"}"
    "}",
};

static void listed_schemas(void)
{
    for (int v = 0; v < WALK_VOCABULARIES; v++) {
        weft_tokenizer *tokenizer = walk_vocabulary(v);
        for (size_t i = 0; tokenizer && i < sizeof listed / sizeof *listed; i++)
            walk_schema(listed[i], tokenizer, 30);
        weft_tokenizer_free(tokenizer);
    }
}

CHECK_MAIN("walks", CHECK_CASE(listed_schemas))
