/* tests/support/schemas.h -- JSON Schemas under which documents are generated. */
#ifndef TESTS_SUPPORT_SCHEMAS_H
#define TESTS_SUPPORT_SCHEMAS_H

#define PERSON                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1,"          \
    "\"maxLength\":12},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":130},"              \
    "\"mail\":{\"type\":\"string\",\"pattern\":\"^[a-z]+@[a-z]+[.](org|net)$\"},"                  \
    "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]},"              \
    "\"maxItems\":3}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}"

static const char *const schemas[] = {
    "true",
    "{\"type\":\"object\"}",
    PERSON,
    "{\"type\":\"array\",\"items\":" PERSON ",\"minItems\":1,\"maxItems\":2}",
    "{\"type\":\"number\",\"exclusiveMinimum\":-2.5,\"maximum\":17.25}",
    "{\"type\":[\"integer\",\"null\"],\"minimum\":-1000,\"exclusiveMaximum\":-7}",
    "{\"type\":\"string\",\"pattern\":\"^(0[1-9]|1[0-2])/[0-9]{4}$\"}",
    "{\"type\":\"string\",\"pattern\":\"[0-9][a-f]+\",\"minLength\":8,\"maxLength\":12}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"circle\"},"
    "\"r\":{\"type\":\"number\",\"minimum\":0}},\"required\":[\"kind\",\"r\"]},"
    "{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"box\"},\"w\":{\"type\":\"integer\"}"
    "},\"required\":[\"kind\",\"w\"]}]}",
    "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"},{\"type\":\"string\"},"
    "{\"pattern\":\"^.{0,3}$\",\"type\":\"string\"}]}",
    "{\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"left\":{\"$ref\":\"#/$defs/tree\"}"
    ",\"right\":{\"$ref\":\"#/$defs/tree\"},\"value\":{\"type\":\"integer\"}},\"required\":"
    "[\"value\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/tree\"}",
    "{\"type\":\"object\",\"minProperties\":3,\"maxProperties\":4,\"properties\":{\"a\":{\"type\":"
    "\"boolean\"},\"ab\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
    "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":1}},"
    "\"required\":[\"n\"]},{\"properties\":{\"n\":{\"maximum\":20},\"s\":{\"type\":\"string\"}},"
    "\"required\":[\"s\"]}],\"anyOf\":[{\"properties\":{\"n\":{\"maximum\":3}}},"
    "{\"properties\":{\"s\":{\"maxLength\":4}}}]}",
    "{\"enum\":[\"yes\",\"no\",{\"maybe\":[1,2.5,null]},-3,0.5]}",
};

#endif
