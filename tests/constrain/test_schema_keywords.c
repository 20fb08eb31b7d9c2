/* tests/constrain/test_schema_keywords.c -- what keywords of JSON Schema accept, keyword by
 * keyword.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/constrain/walks.h"

static weft_tokenizer *tokenizer;

static weft_status open_schema(const char *schema, weft_constraint **out)
{
    *out = NULL;
    if (!tokenizer)
        tokenizer = walk_vocabulary(0);
    return weft_constraint_new(tokenizer, schema, strlen(schema), "schema", out);
}

/* A schema, documents that it accepts, and documents that it does not; NULL ends them. */
typedef struct keyword_case {
    const char *schema;
    const char *accepted[12], *refused[12];
} keyword_case;

static bool accepts(weft_constraint *c, const char *text)
{
    return CHECK_OK(weft_constraint_reset(c)) &&
           weft_constraint_accept_text(c, text, strlen(text)) == WEFT_OK &&
           weft_constraint_complete(c);
}

static void check_cases(const keyword_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weft_constraint *c = NULL;
        if (!CHECK_OK(open_schema(cases[i].schema, &c)))
            continue;
        for (size_t k = 0; k < 12 && cases[i].accepted[k]; k++)
            if (!accepts(c, cases[i].accepted[k]))
                CHECK_FAIL("%s: %s is not accepted", cases[i].schema, cases[i].accepted[k]);
        for (size_t k = 0; k < 12 && cases[i].refused[k]; k++)
            if (accepts(c, cases[i].refused[k]))
                CHECK_FAIL("%s: %s is accepted", cases[i].schema, cases[i].refused[k]);
        weft_constraint_free(c);
    }
}

#define CHECK_KEYWORDS(cases) check_cases(cases, sizeof(cases) / sizeof *(cases))

static void large_integers_are_exact(void)
{
    static const keyword_case cases[] = {
        {"{\"enum\":[9007199254740993]}", {"9007199254740993"}, {"9007199254740992"}},
        {"{\"allOf\":[{\"const\":9007199254740993},{\"enum\":[9007199254740992,"
         "9007199254740993]}]}",
         {"9007199254740993"},
         {"9007199254740992"}},
        {"{\"enum\":[9007199254740992,9007199254740993],\"not\":{\"const\":9007199254740992}}",
         {"9007199254740993"},
         {"9007199254740992"}},
        {"{\"enum\":[18446744073709551615,18446744073709551614],\"not\":{\"const\":"
         "18446744073709551614}}",
         {"18446744073709551615"},
         {"18446744073709551614"}},
        /* Equal all the same: 1 and 1.0, in any depth. */
        {"{\"allOf\":[{\"const\":1},{\"enum\":[1.0,2]}]}", {"1"}, {"2"}},
        {"{\"allOf\":[{\"const\":{\"a\":[1.0]}},{\"enum\":[{\"a\":[1]}]}]}",
         {"{\"a\":[1.0]}"},
         {"{\"a\":[2]}"}},
        {"{\"allOf\":[{\"const\":-0.0},{\"enum\":[0]}]}", {"-0.0"}, {"1"}},
        {"{\"allOf\":[{\"const\":1e3},{\"enum\":[1000]}]}", {"1e3"}, {"1"}},
    };
    CHECK_KEYWORDS(cases);
    weft_constraint *c = NULL;
    CHECK_STATUS(open_schema("{\"allOf\":[{\"const\":9007199254740993},{\"const\":"
                             "9007199254740992}]}",
                             &c),
                 WEFT_INVALID);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("schema_keywords", CHECK_CASE(large_integers_are_exact))
