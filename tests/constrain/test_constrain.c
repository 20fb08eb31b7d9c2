/* tests/constrain/test_constrain.c -- weft/constrain.h: accepted and refused texts, and that
 * whatever is generated under a schema is a complete valid document. */
#include "tests/check.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/json_schema.h"
#include "tests/support/schemas.h"
#include "weft/constrain.h"
#include "weft/memory.h"

static weft_tokenizer *tokenizer;

static bool open_tokenizer(void)
{
    return tokenizer ||
           CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer));
}

static weft_constraint *open_with(const char *schema, bool open)
{
    weft_constraint *constraint = NULL;
    if (open_tokenizer())
        CHECK_OK(weft_constraint_new(tokenizer, schema, schema ? strlen(schema) : 0, "schema",
                                     &(weft_constraint_options){.open = open}, &constraint));
    return constraint;
}

static weft_constraint *open_schema(const char *schema)
{
    return open_with(schema, false);
}

/* With open objects. 2: a whole document; 1: the beginning of one; 0: neither. */
static int fits(const char *schema, const char *text)
{
    weft_constraint *c = open_with(schema, true);
    int result = 0;
    if (c && !weft_constraint_accept_text(c, text, strlen(text)))
        result = weft_constraint_complete(c) ? 2 : 1;
    weft_constraint_free(c);
    return result;
}

typedef struct text_case {
    const char *schema, *text;
    int fits;
} text_case;

static void check_texts(const text_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int got = fits(cases[i].schema, cases[i].text);
        if (got != cases[i].fits)
            CHECK_FAIL("%s against %s: expected %d, got %d", cases[i].text,
                       cases[i].schema ? cases[i].schema : "any", cases[i].fits, got);
        else
            CHECK(true);
    }
}

static void any_json_is_json(void)
{
    static const text_case cases[] = {
        {NULL, "{\"name\":\"Ada\",\"age\":36,\"tags\":[\"a\",\"b\"],\"ok\":true}", 2},
        {NULL, "-12.5e3", 2},
        {NULL, "-12.5e", 1},
        {NULL, "[1,2,]", 0},
        {NULL, "[ ", 1},
        {NULL, "[  ", 0},
        {NULL, "[ \n", 0},
        {NULL, "[\n\t  ", 1},
        {NULL, "[\n    ", 1},
        {NULL, "[\n     ", 0},
        {NULL, "[\n [\n        1\n    ]]", 2},
        {NULL, "[\n [\n         ", 0},
        {NULL, "[\n\n", 0},
        {NULL, "[\n \n", 0},
        {NULL, "{'a':1}", 0},
        {NULL, "[1,,2]", 0},
        {NULL, "01", 0},
        {NULL, "tru e", 0},
        {NULL, "{\"name\":", 1},
        {NULL, "\"\\ud83d\\ude00 \xF0\x9F\x98\x80\"", 2},
        {NULL, "\"\\ud83d\"", 0},
        {NULL, "\"\\ude00", 0},
        {NULL, "\"\\udd", 0},
        {NULL, "\"\\udC", 0},
        {NULL, "\"\\ud", 1},
        {NULL, "\"\\udb", 1},
        {NULL, "\"\xC3\"", 0},
        {NULL, "\"\xC0\x80", 0},
        {NULL, "\"\xED\xA0\x80", 0},
        {NULL, "\"a\nb\"", 0},
        {NULL, "[[],{},\"\"]", 2},
        {NULL, "{\"a\": 1,\n  \"b\": [ 2, 3 ]\n}", 2},
        {NULL, "{\"a\":1,\"a\":2}", 0},
        {NULL, "[  1]", 0},
        {NULL, " 1", 0},
        {NULL, "1 ", 0},
        {NULL, "null", 2},
        {NULL, "-0", 2},
        {NULL, "1.", 1},
        {NULL, ".5", 0},
        {NULL, "", 1},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

static void keywords_are_constrained(void)
{
    static const text_case cases[] = {
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":12}", "1", 1},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":12}", "12", 2},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":12}", "13", 0},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":12}", "2", 0},
        {"{\"type\":\"integer\",\"minimum\":-30,\"maximum\":-25}", "-2", 1},
        {"{\"type\":\"integer\",\"minimum\":-30,\"maximum\":-25}", "-24", 0},
        {"{\"type\":\"integer\"}", "1.0", 0},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":0.5}", "0", 1},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":0.5}", "0.5", 2},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":0.5}", "0.6", 0},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":0.5}", "0.51", 0},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":0.5}", "-", 0},
        {"{\"type\":\"number\",\"minimum\":10.55,\"maximum\":10.56}", "10.553", 2},
        {"{\"type\":\"number\",\"minimum\":10.55,\"maximum\":10.56}", "10.6", 0},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xC3\xA9\"", 0},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xC3\xA9\\n\"", 2},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd", 0},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]+-\\\\d{2}$\"}", "\"ab-12\"", 2},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]+-\\\\d{2}$\"}", "\"ab-1\"", 0},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]+-\\\\d{2}$\"}", "\"ab-123", 0},
        {"{\"type\":\"string\",\"pattern\":\"b|^c\"}", "\"xxb\"", 2},
        {"{\"type\":\"string\",\"pattern\":\"b|^c\"}", "\"xc\"", 0},
        {"{\"type\":\"string\",\"pattern\":\"b|^c\"}", "\"c\"", 2},
        {"{\"type\":\"string\",\"pattern\":\"a\",\"maxLength\":2}", "\"xy", 0},
        {"{\"type\":\"string\",\"pattern\":\"^\\u00e9$\"}", "\"\xC3\xA9\"", 2},
        {"{\"type\":\"string\",\"pattern\":\"^\\u00e9$\"}", "\"\\u00e9\"", 2},
        {"{\"type\":\"string\",\"pattern\":\"^\\u00e9$\"}", "\"\xC4", 0},
        {"{\"type\":\"string\",\"pattern\":\"^[^\\\"]$\"}", "\"\\\"", 0},
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}",
         "[true,false]", 2},
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}",
         "[true,false,", 0},
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}",
         "[]", 0},
        {"{\"type\":\"array\",\"items\":false}", "[]", 2},
        {"{\"type\":\"array\",\"items\":false}", "[1", 0},
        {"{\"enum\":[1,12,\"a\",null,{\"b\":[1]}]}", "12", 2},
        {"{\"enum\":[0,5,9],\"minimum\":1}", "0", 0},
        {"{\"enum\":[0,5,9],\"minimum\":1}", "5", 2},
        {"{\"enum\":[0,5,9],\"maximum\":8}", "9", 0},
        {"{\"enum\":[0,5,9],\"maximum\":8}", "0", 2},
        {"{\"enum\":[-1,5],\"exclusiveMinimum\":-1}", "-1", 0},
        {"{\"enum\":[1,12,\"a\",null,{\"b\":[1]}]}", "1", 2},
        {"{\"enum\":[1,12,\"a\",null,{\"b\":[1]}]}", "{\"b\":[1]}", 2},
        {"{\"enum\":[1,12,\"a\",null,{\"b\":[1]}]}", "2", 0},
        {"{\"enum\":[1,12,\"a\"],\"type\":\"integer\",\"maximum\":5}", "12", 0},
        {"{\"enum\":[1,12,\"a\"],\"type\":\"integer\",\"maximum\":5}", "1", 2},
        {"{\"const\":\"x/y\"}", "\"x/y\"", 2},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

#define POINT                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"},\"xy\":{\"type\":\"null\"}}" \
    ","                                                                                            \
    "\"required\":[\"x\"]"

static void objects_are_constrained(void)
{
    static const text_case cases[] = {
        {POINT "}", "{\"xy\":null,\"x\":1}", 2},
        {POINT "}", "{\"xy\":null}", 0},
        {POINT "}", "{\"x\":1,\"x\"", 0},
        {POINT "}", "{\"x\":1,\"other\":[1]}", 2},
        {POINT "}", "{\"x\":1,\"a\\\"\\n\\\\\":2}", 2},
        {POINT "}", "{\"x\":1,\"a\\\"\":1,\"a\\\"\"", 0},
        {POINT "}", "{\"x\":1,\"a\\/", 0},
        {POINT "}", "{\"x\":1,\"\\u", 0},
        {POINT "}", "{\"x\":\"", 0},
        {POINT "}", "{\"\\u0078\":\"", 0},
        {POINT ",\"additionalProperties\":false}", "{\"x\":1,\"o", 0},
        {POINT ",\"additionalProperties\":false}", "{\"x\":1,\"xy\":null,", 0},
        {POINT ",\"additionalProperties\":{\"type\":\"string\"}}", "{\"x\":1,\"o\":\"s\"}", 2},
        {POINT ",\"additionalProperties\":{\"type\":\"string\"}}", "{\"x\":1,\"o\":1", 0},
        {POINT ",\"maxProperties\":1}", "{\"xy", 0},
        {POINT ",\"maxProperties\":1}", "{\"x\":1}", 2},
        {POINT ",\"minProperties\":2}", "{\"x\":1}", 0},
        {"{\"type\":\"object\",\"required\":[\"a b\"],\"additionalProperties\":{\"const\":3}}",
         "{\"a b\":3}", 2},
        {"{\"properties\":{\"q\\\"t\":{\"const\":1}},\"type\":\"object\"}", "{\"q\\\"t\":1}", 2},
        {"{\"properties\":{\"a\":false},\"type\":\"object\"}", "{\"a\"", 0},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

static void combinations_are_constrained(void)
{
    static const text_case cases[] = {
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}", "7", 2},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}", "null", 2},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}", "t", 0},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "3", 1},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "3.5", 2},
        {"{\"oneOf\":[{\"const\":1},{\"type\":\"integer\"}]}", "1", 1},
        {"{\"oneOf\":[{\"const\":1},{\"type\":\"integer\"}]}", "12", 2},
        {"{\"type\":\"array\",\"items\":{\"oneOf\":[{\"const\":1},{\"type\":\"integer\"}]}}", "[1,",
         0},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"pattern\":\"^..$\"}]}", "\"ab\"",
         0},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"pattern\":\"^..$\"}]}",
         "\"abc\"", 2},
        {"{\"allOf\":[{\"minimum\":3},{\"maximum\":4}],\"type\":\"integer\"}", "4", 2},
        {"{\"allOf\":[{\"minimum\":3},{\"maximum\":4}],\"type\":\"integer\"}", "5", 0},
        {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}},"
         "{\"properties\":{\"a\":{\"minimum\":7}},\"required\":[\"a\"]}]}",
         "{\"a\":6}", 0},
        {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}},"
         "{\"properties\":{\"a\":{\"minimum\":7}},\"required\":[\"a\"]}]}",
         "{\"a\":8}", 2},
        {"{\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"left\":{\"$ref\":"
         "\"#/$defs/tree\"},\"v\":{\"type\":\"integer\"}},\"additionalProperties\":false}},"
         "\"$ref\":\"#/$defs/tree\"}",
         "{\"left\":{\"left\":{\"v\":1}},\"v\":2}", 2},
        {"{\"not\":{\"type\":\"string\"}}", "\"", 0},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "1", 1},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "1.5", 2},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "1", 1},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "\"a\"", 0},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "n", 0},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "true", 0},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "false", 2},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "2.5", 1},
        {"{\"not\":{\"enum\":[1,\"a\",null,true,2.5]}}", "2.25", 2},
        {"{\"not\":{\"required\":[\"a\"]}}", "{\"b\":1}", 2},
        {"{\"not\":{\"required\":[\"a\"]}}", "{\"a\"", 0},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "\"ab\"", 0},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "\"ba\"", 2},
        {"{\"not\":{\"properties\":{\"a\":{\"type\":\"integer\"}}}}", "{\"a\":1", 1},
        {"{\"not\":{\"properties\":{\"a\":{\"type\":\"integer\"}}}}", "{\"a\":null}", 2},
        {"{\"if\":{\"type\":\"integer\"},\"then\":{\"minimum\":5},\"else\":{\"type\":\"null\"}}",
         "4", 1},
        {"{\"if\":{\"type\":\"integer\"},\"then\":{\"minimum\":5},\"else\":{\"type\":\"null\"}}",
         "7", 2},
        {"{\"if\":{\"type\":\"integer\"},\"then\":{\"minimum\":5},\"else\":{\"type\":\"null\"}}",
         "null", 2},
        {"{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2}}", "[1,2,2]", 2},
        {"{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2}}", "[2", 0},
        {"{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2}}", "[]", 2},
        {"{\"prefixItems\":[{\"const\":1}],\"items\":false}", "[1,", 0},
        {"{\"$ref\":\"#\"}", "[1]", 2},
        {"{\"items\":{\"$ref\":\"#/$defs/a%25~0~1b\"},\"$defs\":{\"a%~/b\":{\"const\":1}}}", "[2",
         0},
        {"true", "[1]", 2},
    };
    check_texts(cases, sizeof cases / sizeof *cases);
}

typedef struct fault {
    const char *schema, *message;
    weft_status status;
} fault;

static void check_faults(const fault *cases, size_t n)
{
    if (!open_tokenizer())
        return;
    for (size_t i = 0; i < n; i++) {
        weft_constraint *c = NULL;
        CHECK_STATUS(weft_constraint_new(tokenizer, cases[i].schema, strlen(cases[i].schema),
                                         "schema", NULL, &c),
                     cases[i].status);
        CHECK(c == NULL);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
    }
}

static void faults_are_named(void)
{
    static const fault cases[] = {
        {"{\"type\":\"strin\"}", "schema: type: \"strin\" is no type", WEFT_INVALID},
        {"{\"unevaluatedItems\":false}", "\"unevaluatedItems\" of JSON Schema is not supported",
         WEFT_UNSUPPORTED},
        {"{\"properties\":{\"a\":{\"$anchor\":\"b\"}}}", "properties.a: the keyword \"$anchor\"",
         WEFT_UNSUPPORTED},
        {"{\"pattern\":\"(a\"}", "a group that is not closed", WEFT_INVALID},
        {"{\"pattern\":\"(?=a)\"}", "looking ahead", WEFT_UNSUPPORTED},
        {"{\"pattern\":\"(a)\\\\1\"}", "back references", WEFT_UNSUPPORTED},
        {"{\"pattern\":\"[z-a]\"}", "runs backwards", WEFT_INVALID},
        {"{\"pattern\":\"(.*a.{20}){9}\"}", "too many states", WEFT_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"^abc$\",\"maxLength\":2}", "no value satisfies",
         WEFT_INVALID},
        {"{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"^[abc]*a[abc]{14}$\"},"
         "{\"type\":\"string\",\"pattern\":\"^[abc]*b[abc]{13}$\"}]}",
         "too many states", WEFT_UNSUPPORTED},
        {"{\"type\":\"object\",\"propertyNames\":{\"not\":{}}}",
         "\"not\" is not supported within propertyNames", WEFT_UNSUPPORTED},
        {"{\"type\":\"object\",\"propertyNames\":{\"not\":true}}",
         "\"not\" is not supported within propertyNames", WEFT_UNSUPPORTED},
        {"{\"not\":{\"contains\":true}}", "schema: not: contains is not supported",
         WEFT_UNSUPPORTED},
        {"{\"if\":{\"contains\":true},\"else\":{\"type\":\"null\"}}",
         "schema: if: contains is not supported", WEFT_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/none\"}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"http://x/y\"}", "only references within the schema", WEFT_UNSUPPORTED},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value satisfies", WEFT_INVALID},
        {"false", "no value satisfies", WEFT_INVALID},
        {"{\"type\":\"string\",\"minLength\":9223372036854775807}", "no value satisfies",
         WEFT_INVALID},
        {"{\"type\":\"array\",\"minItems\":9223372036854775807}", "no value satisfies",
         WEFT_INVALID},
        {"{\"$defs\":{\"l\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/l\"},"
         "\"minItems\":1}},\"$ref\":\"#/$defs/l\"}",
         "no value satisfies", WEFT_INVALID},
        {"{\"enum\":3}", "enum: expected array", WEFT_INVALID},
        {"{\"type\":", "schema: ", WEFT_INVALID},
    };
    check_faults(cases, sizeof cases / sizeof *cases);
}

static void malformed_keywords_are_named(void)
{
    static const fault cases[] = {
        {"{\"minLength\":-1}", "minLength: must not be negative", WEFT_INVALID},
        {"{\"minLength\":1.5}", "minLength: expected integer, got 1.5", WEFT_INVALID},
        {"{\"maximum\":NaN}", "maximum: expected a finite number", WEFT_INVALID},
        {"3", "expected object or boolean, got integer", WEFT_INVALID},
        {"null", "expected object or boolean, got null", WEFT_INVALID},
        {"{\"properties\":{\"a\":null}}", "properties.a: expected object or boolean, got null",
         WEFT_INVALID},
        {"{\"properties\":null}", "properties: expected object, got null", WEFT_INVALID},
        {"{\"$defs\":{\"x\":{\"items\":null}}}", "$defs.x.items: expected object", WEFT_INVALID},
        {"{\"additionalProperties\":null}", "additionalProperties: expected object", WEFT_INVALID},
        {"{\"type\":null}", "type: expected string, got null", WEFT_INVALID},
        {"{\"type\":[\"null\",null]}", "type[1]: expected string, got null", WEFT_INVALID},
        {"{\"allOf\":null}", "allOf: expected array, got null", WEFT_INVALID},
        {"{\"anyOf\":null}", "anyOf: expected array, got null", WEFT_INVALID},
        {"{\"anyOf\":[]}", "anyOf: expected at least one schema", WEFT_INVALID},
        {"{\"oneOf\":[{},null]}", "oneOf[1]: expected object or boolean, got null", WEFT_INVALID},
        {"{\"required\":null}", "required: expected array, got null", WEFT_INVALID},
        {"{\"required\":[1]}", "required[0]: expected string, got integer", WEFT_INVALID},
        {"{\"pattern\":null}", "pattern: expected string, got null", WEFT_INVALID},
        {"{\"minimum\":null}", "minimum: expected number, got null", WEFT_INVALID},
        {"{\"$ref\":null}", "$ref: expected string, got null", WEFT_INVALID},
        {"{\"$ref\":\"#/anyOf/abc\",\"anyOf\":[{}]}", "#/anyOf/abc\": there is nothing",
         WEFT_INVALID},
        {"{\"$ref\":\"#/anyOf/\",\"anyOf\":[{}]}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"#/anyOf/00\",\"anyOf\":[{}]}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"#/anyOf/-1\",\"anyOf\":[{}]}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"#/anyOf/4294967296\",\"anyOf\":[{}]}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"#/$defs/a~2\",\"$defs\":{\"a~2\":{}}}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"#/$defs/a%zz\",\"$defs\":{\"a%zz\":{}}}", "there is nothing", WEFT_INVALID},
        {"{\"$ref\":\"#/const\",\"const\":[1]}", "const: expected object or boolean, got array",
         WEFT_INVALID},
    };
    check_faults(cases, sizeof cases / sizeof *cases);
}

/* ---- generation ------------------------------------------------------------------------------ */

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* One of the allowed tokens; -1: none, or the end where that is allowed and drawn. */
static int32_t draw(const bool *allowed, int32_t n, bool complete)
{
    int32_t count = 0, id = -1;
    for (int32_t i = 0; i < n; i++)
        count += allowed[i];
    if (count == 0 || (complete && next_random() % 8 == 0))
        return -1;
    int32_t nth = (int32_t)(next_random() % (uint64_t)count);
    for (int32_t i = 0; i < n && id < 0; i++)
        if (allowed[i] && nth-- == 0)
            id = i;
    return id;
}

/* A document of at most `budget` tokens, drawn as a model without any knowledge would; the
 * caller's.
 */
static char *generate(weft_constraint *c, int64_t budget)
{
    const int32_t n = weft_tokenizer_vocab_size(tokenizer);
    bool *allowed = malloc((size_t)n);
    int32_t *ids = malloc((size_t)budget * sizeof *ids);
    size_t count = 0;
    bool ended = false;
    if (!CHECK_OK(weft_constraint_reset(c)))
        return NULL;
    for (int64_t left = budget; left > 0 && !ended; left--) {
        bool complete = false;
        if (!CHECK_OK(weft_constraint_mask(c, left, allowed, n, &complete)))
            break;
        const int32_t id = draw(allowed, n, complete);
        ended = id < 0;
        if (!ended && CHECK_OK(weft_constraint_accept(c, id)))
            ids[count++] = id;
    }
    char *text = NULL;
    CHECK(weft_constraint_complete(c));
    CHECK_OK(weft_tokenizer_decode(tokenizer, ids, count, 0, &text, NULL));
    free(allowed);
    free(ids);
    return text;
}

static void generated_documents_fit_their_schema(void)
{
    const int each = check_few() ? 5 : 20;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        weft_constraint *c = open_schema(schemas[i]);
        json_object *schema = json_tokener_parse(schemas[i]);
        for (int k = 0; c && k < each; k++) {
            char *text = generate(c, 40 + (int64_t)(next_random() % 100));
            enum json_tokener_error error;
            json_object *value = text ? json_tokener_parse_verbose(text, &error) : NULL;
            if (!text || error != json_tokener_success || !json_schema_fits(schema, schema, value))
                CHECK_FAIL("%s does not fit %s", text ? text : "nothing", schemas[i]);
            json_object_put(value);
            weft_free(text);
        }
        json_object_put(schema);
        weft_constraint_free(c);
    }
}

/* Walks whose budget is the length of the shortest document, and a few tokens more, end with a
 * whole document: the estimate within a character agrees with the one between characters. */
static void strings_fit_tight_budgets(void)
{
    static const struct {
        const char *schema;
        int64_t least;
    } cases[] = {
        {"{\"type\":\"string\",\"pattern\":\"\u00e9\"}", 4},
        {"{\"type\":\"string\",\"pattern\":\"^[\\u4e00-\\u9fff]{2}$\"}", 8},
        {"{\"type\":\"string\",\"pattern\":\"^\\n[\\ud800\\udc00-\\ud83f\\udfff]$\"}", 8},
        {"{\"type\":\"string\",\"pattern\":\"^[\\u00e9\\u4e00]x{3}|\\u4e01y$\"}", 6},
        {"{\"type\":\"string\",\"pattern\":\"^\\\"\\u0001$\"}", 10},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":5}", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_constraint *c = open_schema(cases[i].schema);
        for (int k = 0; c && k < 40; k++)
            weft_free(generate(c, cases[i].least + k % 4));
        weft_constraint_free(c);
    }
}

/* The mask allows exactly the tokens that can be accepted. */
static void masks_agree_with_accepting_each_token(void)
{
    if (!open_tokenizer())
        return;
    const int32_t n = weft_tokenizer_vocab_size(tokenizer);
    bool *allowed = malloc((size_t)n);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        weft_constraint *c = open_schema(schemas[i]), *other = NULL;
        int32_t ids[8];
        int count = 0;
        for (; count < 8; count++) {
            bool complete = false;
            CHECK_OK(weft_constraint_mask(c, 1000, allowed, n, &complete));
            for (int32_t id = (int32_t)(next_random() % 11); id < n; id += 11) {
                CHECK_OK(weft_constraint_copy(c, &other));
                for (int k = 0; k < count; k++)
                    CHECK_OK(weft_constraint_accept(other, ids[k]));
                const bool accepted = weft_constraint_accept(other, id) == WEFT_OK;
                if (accepted != allowed[id])
                    CHECK_FAIL("token %d after %d tokens of %s", id, count, schemas[i]);
                weft_constraint_free(other);
            }
            ids[count] = draw(allowed, n, false);
            if (ids[count] < 0)
                break;
            CHECK_OK(weft_constraint_accept(c, ids[count]));
        }
        weft_constraint_free(c);
    }
    free(allowed);
}

/* States that differ only in their whitespace have separate masks, also with several open
 * alternatives. */
static void states_have_separate_masks(void)
{
    static const char schema[] =
        "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2},"
        "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":0}]}";
    weft_constraint *c = open_schema(schema);
    if (!c)
        return;
    const int32_t n = weft_tokenizer_vocab_size(tokenizer);
    bool *allowed = malloc((size_t)n);
    const char *const steps[] = {"[", " ", "\"a\"", ",", " ", "\"b\""};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        CHECK_OK(weft_constraint_accept_text(c, steps[i], strlen(steps[i])));
        CHECK_OK(weft_constraint_mask(c, 1000, allowed, n, NULL));
        for (int32_t id = 0; id < n; id++) {
            weft_constraint *other = NULL;
            if (!allowed[id])
                continue;
            CHECK_OK(weft_constraint_copy(c, &other));
            for (size_t k = 0; k <= i; k++)
                CHECK_OK(weft_constraint_accept_text(other, steps[k], strlen(steps[k])));
            if (weft_constraint_accept(other, id) != WEFT_OK)
                CHECK_FAIL("token %d behind step %zu", id, i);
            weft_constraint_free(other);
        }
    }
    free(allowed);
    weft_constraint_free(c);
}

/* Memory of accepted tokens is freed: a long string takes no more. */
static void long_documents_stay_small(void)
{
    weft_constraint *c = open_schema("{\"type\":\"array\",\"items\":{\"type\":\"object\"}}");
    if (!c)
        return;
    CHECK_OK(weft_constraint_accept_text(c, "[{\"k\":1", 7));
    for (int i = 0; i < 3000; i++) {
        char key[32];
        snprintf(key, sizeof key, ",\"key%d\":\"abcdefgh\"", i);
        if (!CHECK_OK(weft_constraint_accept_text(c, key, strlen(key))))
            break;
    }
    CHECK_STATUS(weft_constraint_accept_text(c, ",\"key17\":", 9), WEFT_INVALID);
    CHECK_OK(weft_constraint_accept_text(c, "},{}]", 5));
    CHECK(weft_constraint_complete(c));
    weft_constraint_free(c);
}

static void no_memory_is_a_status(void)
{
    if (!open_tokenizer())
        return;
    const int32_t n = weft_tokenizer_vocab_size(tokenizer);
    bool *allowed = malloc((size_t)n);
    bool done = false;
    for (uint64_t nth = 1; !done && nth < 100000; nth += 1 + nth / 200) {
        weft_constraint *c = NULL;
        weft_memory_fail_at(nth);
        weft_status status =
            weft_constraint_new(tokenizer, PERSON, strlen(PERSON), "schema", NULL, &c);
        if (!status)
            status = weft_constraint_accept_text(c, "{\"name\":", 8);
        if (!status)
            status = weft_constraint_mask(c, 30, allowed, n, NULL);
        weft_constraint_free(c);
        done = weft_memory_fail_at(0) < nth;
        CHECK(done ? status == WEFT_OK : status == WEFT_MEMORY);
    }
    CHECK(done);
    free(allowed);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("constrain", CHECK_CASE(any_json_is_json), CHECK_CASE(keywords_are_constrained),
           CHECK_CASE(objects_are_constrained), CHECK_CASE(combinations_are_constrained),
           CHECK_CASE(faults_are_named), CHECK_CASE(malformed_keywords_are_named),
           CHECK_CASE(generated_documents_fit_their_schema), CHECK_CASE(strings_fit_tight_budgets),
           CHECK_CASE(masks_agree_with_accepting_each_token),
           CHECK_CASE(states_have_separate_masks), CHECK_CASE(long_documents_stay_small),
           CHECK_CASE(no_memory_is_a_status))
