/* tests/constrain/test_schema_keywords.c -- the values that each keyword of JSON Schema accepts. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/constrain/walks.h"
#include "weft/memory.h"

static weft_tokenizer *tokenizer;

static weft_status open_with(const char *schema, bool open, weft_constraint **out)
{
    *out = NULL;
    if (!tokenizer)
        tokenizer = walk_vocabulary(0);
    return weft_constraint_new(tokenizer, schema, strlen(schema), "schema",
                               &(weft_constraint_options){.open = open}, out);
}

static weft_status open_schema(const char *schema, weft_constraint **out)
{
    return open_with(schema, true, out);
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
        {"{\"enum\":[100000000000000000000,100000000000000000001],\"not\":{\"const\":"
         "100000000000000000001}}",
         {"100000000000000000000"},
         {"100000000000000000001"}},
        {"{\"allOf\":[{\"const\":1e20},{\"enum\":[100000000000000000000,2]}]}", {"1e20"}, {"2"}},
        /* 1 and 1.0 are equal at any depth. */
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
}

static void multiples_are_decimal(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"1", "8", "-13"}},
        {"{\"type\":\"number\",\"multipleOf\":0.1}",
         {"0.3", "0.7", "4.3", "1.10", "2", "-0.1"},
         {"0.25", "0.01", "1e1"}},
        {"{\"multipleOf\":0.01,\"type\":\"number\"}", {"4.35", "19.99", "1.1"}, {"4.355"}},
        {"{\"type\":\"integer\",\"multipleOf\":2.5}", {"5", "10", "0"}, {"2", "7"}},
        {"{\"type\":\"integer\",\"multipleOf\":4,\"allOf\":[{\"multipleOf\":6}],\"minimum\":1,"
         "\"maximum\":30}",
         {"12", "24"},
         {"0", "4", "6", "36"}},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"},\"multipleOf\":0.5}",
         {"0.5", "-1.5"},
         {"1", "1.0", "0.25"}},
        {"{\"enum\":[0.1,0.3,0.35,3,\"x\"],\"multipleOf\":0.1}", {"0.3", "3", "\"x\""}, {"0.35"}},
        {"{\"multipleOf\":1e300}", {"0", "\"a\"", "null"}, {"1", "10"}},
    };
    CHECK_KEYWORDS(cases);
    weft_constraint *c = NULL;
    CHECK_STATUS(
        open_schema("{\"type\":\"integer\",\"multipleOf\":50,\"minimum\":1,\"maximum\":49}", &c),
        WEFT_INVALID);
    CHECK_STATUS(open_schema("{\"multipleOf\":0}", &c), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "schema: multipleOf: must be more than 0, got 0");
    CHECK_STATUS(open_schema("{\"multipleOf\":\"1\"}", &c), WEFT_INVALID);
    CHECK_STATUS(open_schema("{\"multipleOf\":0.12345678901234567891}", &c), WEFT_UNSUPPORTED);
}

static void formats_are_patterns(void)
{
    static const keyword_case cases[] = {
        {"{\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\"", "1", "null"},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"24-01-01\"",
          "\"2024-1-1\"", "\"0000-01-01\""}},
        {"{\"type\":\"string\",\"format\":\"date-time\"}",
         {"\"2024-02-29T23:59:59.5+05:30\"", "\"1998-12-31T23:59:60Z\""},
         {"\"2024-02-29 23:59:59Z\"", "\"1998-12-31T23:58:60Z\"", "\"2024-02-29T24:00:00Z\"",
          "\"2024-02-29T23:59:59\""}},
        {"{\"type\":\"string\",\"format\":\"time\"}", {"\"08:30:06Z\""}, {"\"08:30:06\""}},
        {"{\"type\":\"string\",\"format\":\"duration\"}",
         {"\"P1Y2M3DT4H5M6S\"", "\"PT36H\"", "\"P2W\""},
         {"\"P\"", "\"P1D2H\"", "\"P1Y2W\"", "\"PT\""}},
        {"{\"type\":\"string\",\"format\":\"uuid\"}",
         {"\"2eb8aa08-AA98-11ea-b4aa-73b441d16380\""},
         {"\"2eb8aa08aa9811eab4aa73b441d16380\""}},
        {"{\"type\":\"string\",\"format\":\"ipv4\"}",
         {"\"192.168.0.1\"", "\"255.255.255.255\""},
         {"\"256.1.1.1\"", "\"01.1.1.1\"", "\"1.1.1\""}},
        {"{\"type\":\"string\",\"format\":\"ipv6\"}",
         {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::a:b\"", "\"::ffff:1.2.3.4\""},
         {"\":::\"", "\"1::2::3\"", "\"1:2:3:4:5:6:7\"", "\"12345::\"", "\"1:2:3:4:5:6:7::8\""}},
        {"{\"type\":\"string\",\"format\":\"email\"}",
         {"\"a.b+c@example.org\""},
         {"\"a@\"", "\"a..b@c.d\"", "\".a@b\"", "\"a\""}},
        {"{\"type\":\"string\",\"format\":\"hostname\"}",
         {"\"www.example.com\"", "\"a\"", "\"1-2\""},
         {"\"-a\"", "\"a-\"", "\"a..b\"", "\"a_b\"", "\"\""}},
        {"{\"type\":\"string\",\"format\":\"uri\"}",
         {"\"https://a@b.c:80/d/e?f#g\"", "\"urn:isbn:1\"", "\"http://[::1]/\"", "\"mailto:a@b\""},
         {"\"/a\"", "\"a b:c\"", "\"http://a b\"", "\"http://%zz\"", "\"\""}},
        {"{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^2024\",\"minLength\":3}",
         {"\"2024-01-01\""},
         {"\"2023-01-01\""}},
        {"{\"type\":\"string\",\"format\":\"uri\",\"maxLength\":9}",
         {"\"urn:isbn:\"", "\"http://a/\""},
         {"\"http://a/b\"", "\"http\""}},
        {"{\"type\":\"integer\",\"format\":\"int32\"}",
         {"2147483647", "-2147483648"},
         {"2147483648", "-2147483649"}},
        {"{\"type\":\"number\",\"format\":\"uint8\"}", {"0", "255", "0.5"}, {"-1", "256"}},
        {"{\"type\":\"number\",\"format\":\"double\"}", {"1e30"}, {"\"1\""}},
        {"{\"type\":\"string\",\"format\":\"color\"}", {"\"any\""}, {"1"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"format\":\"color\"}}", {"{\"a\":1}"}, {"1"}},
        {"{\"enum\":[\"2024-02-30\",\"2024-02-28\"],\"format\":\"date\"}",
         {"\"2024-02-28\""},
         {"\"2024-02-30\""}},
    };
    CHECK_KEYWORDS(cases);
}

/* Patterns with a limit on the length: the distance to the end counts characters and bytes. */
static void patterns_have_lengths(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"string\",\"pattern\":\"^(a+b|\u00e9c)$\",\"maxLength\":3}",
         {"\"ab\"", "\"aab\"",
          "\"\xC3\xA9"
          "c\""},
         {"\"aaab\"", "\"aaa\"", "\"\""}},
        {"{\"type\":\"string\",\"pattern\":\"a\",\"minLength\":3,\"maxLength\":4}",
         {"\"bba\"", "\"bbba\"", "\"abbb\""},
         {"\"a\"", "\"bbbb\"", "\"abbbb\""}},
        /* pydantic's Decimal, zod's email */
        {"{\"type\":\"string\",\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\"}",
         {"\"1.5\"", "\"-0\"", "\".5\"", "\"+007\""},
         {"\"\"", "\"-\"", "\".\"", "\"1.5.\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?!\\\\.)(?!.*\\\\.\\\\.)([a-z.]*)[a-z]@([a-z]+"
         "\\\\.)+[a-z]{2,}$\"}",
         {"\"a.b@c.de\""},
         {"\".a@c.de\"", "\"a..b@c.de\"", "\"a@c\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?=[^)]*[)])(?!a|b)[a-c)]+$\"}",
         {"\"c)\"", "\")a\""},
         {"\"cc\"", "\"a)\"", "\"b)\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]*$\",\"maxLength\":100000}",
         {"\"\"", "\"abc\""},
         {"\"A\""}},
    };
    CHECK_KEYWORDS(cases);
    weft_constraint *c = NULL;
    CHECK_STATUS(open_schema("{\"type\":\"string\",\"pattern\":\"aaa\",\"maxLength\":2}", &c),
                 WEFT_INVALID);
    static const char *const refused[] = {"(?!a)b", "^(?!a)b|c", "^(?!a)*b", "^(?!a", "^a(?!b)"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char schema[64];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"pattern\":\"%s\"}", refused[i]);
        CHECK_STATUS(open_schema(schema, &c), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "looking ahead");
    }
}

/* Keywords that the standard does not define are ignored, with a note. */
static void annotations_are_noted(void)
{
    static const struct {
        const char *schema, *notes;
    } cases[] = {
        {"{\"type\":\"string\",\"title\":\"a\",\"format\":\"date\",\"discriminator\":{}}", NULL},
        {"{\"type\":\"integer\",\"format\":\"int64\",\"nullable\":true}", NULL},
        {"{\"type\":\"string\",\"format\":\"color\"}", "the format \"color\" is not checked\n"},
        {"{\"properties\":{\"a\":{\"x-order\":1,\"format\":\"password\"},\"b\":{\"x-order\":2}}}",
         "properties.a: the keyword \"x-order\" is ignored\n"
         "properties.a: the format \"password\" is not checked\n"
         "properties.b: the keyword \"x-order\" is ignored\n"},
        {"{\"$ref\":\"#/$defs/a\",\"example\":1,\"$defs\":{\"a\":{\"type\":\"null\"}}}",
         "the keyword \"example\" is ignored\n"},
        {"{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"type\":\"null\"}],\"not\":{\"$ref\":"
         "\"#/$defs/a\"},\"$defs\":{\"a\":{\"format\":\"b\",\"type\":\"object\"}}}",
         "$defs.a: the format \"b\" is not checked\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_constraint *c = NULL;
        if (!CHECK_OK(open_schema(cases[i].schema, &c)))
            continue;
        if (cases[i].notes)
            CHECK_STR(weft_constraint_notes(c), cases[i].notes);
        else
            CHECK(weft_constraint_notes(c) == NULL);
        weft_constraint_free(c);
    }
}

static void nullable_adds_null(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"string\",\"nullable\":true}", {"null", "\"a\""}, {"1"}},
        {"{\"type\":[\"string\",\"integer\"],\"nullable\":true}", {"null", "1"}, {"true"}},
        {"{\"type\":\"string\",\"nullable\":false}", {"\"a\""}, {"null"}},
        {"{\"type\":\"string\",\"nullable\":true,\"enum\":[\"a\",null]}", {"null"}, {"\"b\""}},
        {"{\"properties\":{\"nullable\":{\"const\":1}},\"type\":\"object\"}",
         {"{\"nullable\":1}"},
         {"null"}},
    };
    CHECK_KEYWORDS(cases);
    weft_constraint *c = NULL;
    CHECK_STATUS(open_schema("{\"type\":\"string\",\"nullable\":1}", &c), WEFT_INVALID);
}

static void arrays_contain_elements(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"array\",\"contains\":{\"const\":5}}",
         {"[5]", "[1,5]", "[5,5,1]"},
         {"[]", "[1]"}},
        {"{\"contains\":{\"type\":\"null\"},\"minContains\":2}",
         {"[null,1,null]", "[null,null,null]", "1"},
         {"[null]", "[]"}},
        {"{\"contains\":{\"type\":\"null\"},\"maxContains\":1}",
         {"[null,1]", "[1,null,2]"},
         {"[null,null]", "[]", "[1]"}},
        {"{\"contains\":{\"type\":\"null\"},\"minContains\":0,\"maxContains\":1}",
         {"[]", "[1]", "[null]", "\"x\""},
         {"[null,null]"}},
        {"{\"contains\":{\"type\":\"null\"},\"minContains\":0}",
         {"[]", "[null,null]", "[1]"},
         {NULL}},
        {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":{\"type\":"
         "\"null\"},"
         "\"contains\":{\"enum\":[7,\"x\",null]},\"minContains\":2,\"type\":\"array\"}",
         {"[7,\"x\"]", "[1,\"x\",null]", "[7,\"a\",null]", "[1,\"a\",null,null]"},
         {"[7,\"a\"]", "[1,\"a\",null]", "[7]", "[]"}},
        {"{\"type\":\"array\",\"allOf\":[{\"contains\":{\"minimum\":3,\"type\":\"integer\"}},"
         "{\"contains\":{\"maximum\":4,\"type\":\"integer\"}}],\"maxItems\":2}",
         {"[3]", "[5,1]", "[1,5]", "[4,\"a\"]"},
         {"[5]", "[1]", "[5,5]", "[\"a\"]"}},
    };
    CHECK_KEYWORDS(cases);
    weft_constraint *c = NULL;
    CHECK_STATUS(open_schema("{\"type\":\"array\",\"contains\":true,\"minContains\":9}", &c),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "minContains and maxContains are supported up to");
}

static void elements_differ(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",1]},\"uniqueItems\":true}",
         {"[]", "[\"a\"]", "[1,\"b\",\"a\"]"},
         {"[\"a\",\"a\"]", "[1,\"b\",1]", "[2]"}},
        {"{\"items\":{\"type\":[\"boolean\",\"null\"]},\"uniqueItems\":true,\"minItems\":3}",
         {"[true,null,false]", "3"},
         {"[true,false]", "[true,true,null]"}},
        {"{\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9},\"uniqueItems\":true,"
         "\"type\":"
         "\"array\"}",
         {"[9,8,7,6,5,4,3,2,1,0]"},
         {"[1,1]", "[10]"}},
        {"{\"items\":{\"enum\":[1,1.0,2]},\"uniqueItems\":true,\"type\":\"array\"}",
         {"[1,2]"},
         {"[1,1.0]", "[1,1]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}",
         {"[]", "[\"a\",\"ab\",\"b\"]", "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\"]"},
         {"[\"a\",\"a\"]", "[\"a\",\"\\u0061\"]", "[\"a/\",\"a\\/\"]", "[\"a\",\"b\",\"a\"]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"uniqueItems\":true}",
         {"[0,-1,1,11,2]", "[0]"},
         {"[0,-0]", "[11,1,11]", "[0,0]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\"],\"minimum\":0,"
         "\"maxLength\":1},\"uniqueItems\":true,\"minItems\":2}",
         {"[1,\"1\"]", "[12,123]"},
         {"[1,1]", "[\"1\",\"1\"]", "[1]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}",
         {"[]", "[\"any\"]"},
         {"[1,2]"}},
        {"{\"type\":\"array\",\"uniqueItems\":false}", {"[1,1]"}, {NULL}},
        {"{\"enum\":[[1,1.0],[1,2],[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]],\"uniqueItems\":true}",
         {"[1,2]"},
         {"[1,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]"}},
    };
    CHECK_KEYWORDS(cases);
    static const char *const refused[] = {
        "{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"uniqueItems\":true}",
        "{\"type\":\"array\",\"items\":{\"format\":\"date\"},\"uniqueItems\":true}",
        "{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":false,\"uniqueItems\":true}",
    };
    weft_constraint *c = NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_STATUS(open_schema(refused[i], &c), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "uniqueItems is");
    }
    CHECK_STATUS(open_schema("{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"uniqueItems\":true,"
                             "\"minItems\":3}",
                             &c),
                 WEFT_INVALID);
}

static void keys_match_patterns(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"},"
         "\"y$\":{\"minimum\":5}}}",
         {"{}", "{\"x-a\":1,\"y\":7,\"other\":null}", "{\"x-y\":5}", "{\"y\":\"text\"}"},
         {"{\"x-a\":\"1\"}", "{\"x-y\":4}", "{\"y\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"x-1\":{\"maximum\":3},\"b\":true},"
         "\"patternProperties\":{\"^x-\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
         {"{\"x-1\":2,\"x-2\":9,\"b\":\"any\"}"},
         {"{\"x-1\":4}", "{\"x-1\":\"a\"}", "{\"c\":1}", "{\"x-2\":null}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^[ab]$\":{\"type\":\"null\"}},"
         "\"additionalProperties\":false,\"minProperties\":2}",
         {"{\"a\":null,\"b\":null}", "{\"b\":null,\"a\":null}"},
         {"{\"a\":null}", "{\"a\":null,\"a\":null}", "{\"a\":null,\"b\":null,\"c\":null}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^\\u00e9+$\":{\"const\":1},\"\\\"\":{"
         "\"const\":2}"
         "},\"additionalProperties\":{\"const\":3}}",
         {"{\"\xC3\xA9\":1,\"\\\"\":2,\"e\":3,\"\xC3\xA9\xC3\xA9\":1}"},
         {"{\"\xC3\xA9\":3}", "{\"a\\\"\":3}", "{\"e\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\",\"maxLength\":3}}",
         {"{}", "{\"abc\":1,\"d\":2}"},
         {"{\"abcd\":1}", "{\"A\":1}", "{\"\":1}"}},
        {"{\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"additionalProperties\":{\"type\":"
         "\"integer\"}}",
         {"{\"a\":1,\"b\":2}", "{}", "7"},
         {"{\"c\":1}", "{\"a\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"long\":true,\"ok\":true},"
         "\"propertyNames\":{\"$ref\":\"#/$defs/n\"},\"$defs\":{\"n\":{\"maxLength\":2}}}",
         {"{\"ok\":1,\"x\":2}"},
         {"{\"long\":1}", "{\"xyz\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"format\":\"date\"},\"minProperties\":1}",
         {"{\"2024-02-29\":1}"},
         {"{\"2023-02-29\":1}", "{\"a\":1}", "{}"}},
        {"{\"type\":\"object\",\"propertyNames\":false}", {"{}"}, {"{\"a\":1}"}},
    };
    CHECK_KEYWORDS(cases);
}

static void keys_that_cannot_be_followed_are_refused(void)
{
    static const struct {
        const char *schema, *message;
        weft_status status;
    } refused[] = {
        {"{\"type\":\"object\",\"propertyNames\":{\"not\":{\"const\":\"a\"}}}",
         "schema: propertyNames: \"not\" is not supported within propertyNames", WEFT_UNSUPPORTED},
        {"{\"type\":\"object\",\"patternProperties\":{\"(?=a)\":true}}",
         "schema: the schema: the keys: pattern \"(?=a)\": looking ahead", WEFT_UNSUPPORTED},
        {"{\"type\":\"object\",\"patternProperties\":{\"(\":true}}", "pattern \"(\"", WEFT_INVALID},
        {"{\"type\":\"object\",\"patternProperties\":{\"a\":null}}",
         "schema: patternProperties.a: expected object or boolean", WEFT_INVALID},
        {"{\"type\":\"object\",\"propertyNames\":{\"minLength\":300},\"minProperties\":1}",
         "the keys have to be longer than 256 bytes", WEFT_UNSUPPORTED},
        {"{\"type\":\"object\",\"patternProperties\":{\"a\":true,\"b\":true,\"c\":true,\"d\":true,"
         "\"e\":true,\"f\":true}}",
         "more than 5 patterns of patternProperties for one object", WEFT_UNSUPPORTED},
        {"{\"type\":\"object\",\"patternProperties\":{\"^[ab]$\":{}},\"additionalProperties\":"
         "false,"
         "\"minProperties\":3}",
         "no value satisfies the schema", WEFT_INVALID},
    };
    weft_constraint *c = NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_STATUS(open_schema(refused[i].schema, &c), refused[i].status);
        CHECK_CONTAINS(weft_error_message(), refused[i].message);
    }
}

#define VIOLATED " is not supported where it may be violated (not, oneOf, if, maxContains)"

/* Keywords that cannot be violated, unless every value satisfies them. */
static void violations_that_cannot_be_followed_are_refused(void)
{
    static const char *const around[][2] = {
        {"{\"not\":{\"%s\":%s}}", "not"},
        {"{\"if\":{\"%s\":%s},\"then\":false}", "if"},
        {"{\"contains\":{\"%s\":%s},\"maxContains\":1}", "contains"},
        {"{\"not\":{\"properties\":{\"a\":{\"%s\":%s}}}}", "not.properties.a"}};
    json_object *keywords = json_tokener_parse(
        "{\"additionalProperties\":false,\"multipleOf\":3,\"patternProperties\":{\"a\":false},"
        "\"dependentRequired\":{\"a\":[]},\"minimum\":1,\"propertyNames\":false,\"uniqueItems\":"
        "true,"
        "\"items\":false,\"prefixItems\":[{}],\"contains\":{},\"exclusiveMaximum\":1,\"minLength\":"
        "1,"
        "\"maxItems\":1,\"minProperties\":1,\"format\":\"date\",\"oneOf\":[{}],\"if\":false}");
    weft_constraint *c = NULL;
    json_object_object_foreach(keywords, keyword, value)
    {
        for (int i = 0; i < 4; i++) {
            char schema[200], message[200];
            snprintf(schema, sizeof schema, around[i][0], keyword,
                     json_object_to_json_string(value));
            snprintf(message, sizeof message, "schema: %s: %s" VIOLATED, around[i][1], keyword);
            CHECK_STATUS(open_schema(schema, &c), WEFT_UNSUPPORTED);
            CHECK_STR(weft_error_message(), message);
        }
    }
    json_object_put(keywords);
    CHECK_STATUS(open_schema("{\"not\":{\"enum\":[1,[2]]}}", &c), WEFT_UNSUPPORTED);
    CHECK_STR(weft_error_message(),
              "schema: not: enum with arrays, objects or more than 1000 numbers" VIOLATED);
    static const keyword_case followed[] = {
        {"{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"additionalProperties\":{},"
         "\"patternProperties\":{},\"propertyNames\":true,\"uniqueItems\":false,\"format\":\"x\","
         "\"nullable\":false}}",
         {"{}", "{\"b\":1}"},
         {"{\"a\":1}"}},
        {"{\"type\":[\"boolean\",\"null\",\"number\"],\"not\":{\"anyOf\":[{\"const\":null},"
         "{\"enum\":[true,1,3,1.0]},{\"$ref\":\"#/$defs/n\"}]},\"$defs\":{\"n\":{\"const\":2}}}",
         {"false", "0", "1.5", "2.5", "4"},
         {"true", "null", "1", "2", "3"}},
        {"{\"type\":[\"boolean\",\"array\"],\"not\":{\"const\":false},"
         "\"items\":{\"not\":{\"allOf\":[{\"type\":\"string\"},{\"enum\":[\"a\",1,\"b\"]}]}}}",
         {"true", "[\"c\",1,true]"},
         {"false", "[\"a\"]", "[\"b\"]"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
         "\"if\":{\"properties\":{\"a\":{\"enum\":[1,2]}},\"required\":[\"a\"]},\"else\":{"
         "\"required\":[\"b\"]}}",
         {"{\"a\":2}", "{\"a\":17,\"b\":1}", "{\"b\":1}"},
         {"{\"a\":17}", "{}"}},
    };
    CHECK_KEYWORDS(followed);
}

/* Branches that a value can match together are refused by their paths, unless types, values or
 * required properties tell them apart. */
static void branches_exclude_each_other(void)
{
    static const struct {
        const char *schema, *message; /* with closed objects */
    } refused[] = {
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"maxLength\":2}]}",
         "schema: oneOf[1]: a value can match this and oneOf[0]"},
        {"{\"properties\":{\"p\":{\"oneOf\":[{\"minimum\":1},{\"type\":\"integer\"}]}}}",
         "schema: properties.p.oneOf[0]: a value can match this and properties.p.oneOf[1]"},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":1}}},"
         "{\"type\":\"object\",\"properties\":{\"b\":{\"minimum\":1}}}]}",
         "schema: oneOf[1]: a value can match this and oneOf[0]"},
    };
    static const keyword_case followed[] = {
        {"{\"oneOf\":[{\"properties\":{\"a\":true},\"required\":[\"a\"],"
         "\"additionalProperties\":false,\"type\":\"object\"},{\"properties\":{\"b\":true},"
         "\"required\":[\"b\"],\"additionalProperties\":false,\"type\":\"object\"}]}",
         {"{\"a\":1}", "{\"b\":[]}"},
         {"{}", "{\"a\":1,\"b\":1}", "1"}},
        {"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"a\",\"b\"]}],\"type\":\"object\"}",
         {"{\"a\":1}"},
         {"{}", "{\"a\":1,\"b\":1}", "{\"b\":1}"}},
        {"{\"oneOf\":[{\"const\":1},{\"enum\":[1,2,3]},{\"type\":\"string\"},{\"enum\":[3,null]}]}",
         {"2", "null", "\"a\""},
         {"1", "3", "4"}},
        {"{\"type\":\"integer\",\"oneOf\":[{\"maximum\":3},{\"minimum\":4,\"maximum\":6}]}",
         {"3", "4"},
         {"7"}},
    };
    weft_constraint *c = NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_STATUS(open_with(refused[i].schema, false, &c), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), refused[i].message);
        CHECK_STATUS(open_schema(refused[i].schema, &c), WEFT_UNSUPPORTED);
    }
    CHECK_KEYWORDS(followed);
}

static void members_depend_on_others(void)
{
    static const keyword_case cases[] = {
        {"{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\",\"c\"]}}",
         {"{}", "{\"b\":1}", "{\"a\":1,\"b\":2,\"c\":3}"},
         {"{\"a\":1}", "{\"a\":1,\"b\":1}"}},
        {"{\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":{\"type\":\"integer\"}}},\"c\":false}"
         "}",
         {"1", "{\"b\":\"x\"}", "{\"a\":1,\"b\":2}"},
         {"{\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"a\":1}", "{\"c\":1}"}},
        {"{\"type\":\"object\",\"dependencies\":{\"a\":[\"b\"],\"c\":{\"required\":[\"d\"]}}}",
         {"{\"a\":1,\"b\":1}", "{\"c\":1,\"d\":1}", "{}"},
         {"{\"a\":1}", "{\"c\":1}"}},
        {"{\"type\":\"object\",\"dependencies\":{\"a\":[\"b\"]},\"dependentSchemas\":{\"a\":{"
         "\"required\":[\"c\"]}},\"dependentRequired\":{\"a\":[]}}",
         {"{\"a\":1,\"b\":1,\"c\":1}", "{\"b\":1}"},
         {"{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}"}},
    };
    CHECK_KEYWORDS(cases);
    weft_constraint *c = NULL;
    CHECK_STATUS(open_schema("{\"dependentRequired\":{\"a\":\"b\"}}", &c), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "schema: dependentRequired.a: expected array");
    CHECK_STATUS(
        open_schema("{\"type\":\"object\",\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":"
                    "{\"unevaluatedItems\":1}}}}}",
                    &c),
        WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "schema: dependentSchemas.a.properties.b: the keyword "
                                         "\"unevaluatedItems\"");
}

/* Each allocation fails once. */
static void no_memory_is_a_status(void)
{
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"x-1\":{\"type\":\"null\"}},\"patternProperties\":{"
        "\"^x-\":"
        "{\"type\":\"integer\",\"multipleOf\":3},\"y$\":true},\"not\":{\"properties\":{\"z\":"
        "{\"enum\":[1,true,\"b\"]}}},\"propertyNames\":{\"maxLength\":4},"
        "\"dependentRequired\":{\"x-1\":["
        "\"xy\"]}}",
        "{\"type\":\"array\",\"items\":{\"enum\":[1,2,\"a\"]},\"uniqueItems\":true}",
        "{\"type\":\"array\",\"prefixItems\":[{\"format\":\"ipv4\"}],\"contains\":{\"pattern\":"
        "\"^2\"},"
        "\"maxContains\":2}",
        "{\"oneOf\":[{\"const\":1},{\"const\":2},{\"enum\":[2,3]},{\"type\":\"string\"},{\"const\":"
        "4},"
        "{\"const\":5},{\"const\":6},{\"const\":7},{\"const\":8},{\"const\":9}]}",
        "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":1}},\"required\":["
        "\"a\"]},"
        "{\"type\":\"object\",\"properties\":{\"b\":{\"minimum\":1}},\"required\":[\"b\"]}]}",
    };
    static const char *const texts[] = {"{\"x-2\":3,", "[2,", "[\"1.2.3.4\",", "4", "{\"b\":"};
    bool *allowed = malloc((size_t)weft_tokenizer_vocab_size(tokenizer));
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        bool done = false;
        for (uint64_t nth = 1; !done && nth < 100000; nth += 1 + nth / 100) {
            weft_constraint *c = NULL;
            weft_memory_fail_at(nth);
            weft_status status = open_with(schemas[i], i < 4, &c);
            if (!status)
                status = weft_constraint_accept_text(c, texts[i], strlen(texts[i]));
            if (!status)
                status = weft_constraint_mask(c, 90, allowed, 256, NULL);
            weft_constraint_free(c);
            done = weft_memory_fail_at(0) < nth;
            if (!CHECK(done ? status == WEFT_OK : status == WEFT_MEMORY))
                CHECK_FAIL("%s: allocation %d: %s", schemas[i], (int)nth, weft_error_message());
        }
        CHECK(done);
    }
    free(allowed);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("schema_keywords", CHECK_CASE(large_integers_are_exact),
           CHECK_CASE(multiples_are_decimal), CHECK_CASE(formats_are_patterns),
           CHECK_CASE(patterns_have_lengths), CHECK_CASE(annotations_are_noted),
           CHECK_CASE(nullable_adds_null), CHECK_CASE(arrays_contain_elements),
           CHECK_CASE(elements_differ), CHECK_CASE(keys_match_patterns),
           CHECK_CASE(keys_that_cannot_be_followed_are_refused),
           CHECK_CASE(violations_that_cannot_be_followed_are_refused),
           CHECK_CASE(branches_exclude_each_other), CHECK_CASE(members_depend_on_others),
           CHECK_CASE(no_memory_is_a_status))
