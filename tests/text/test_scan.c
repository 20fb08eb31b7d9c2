/* tests/text/test_scan.c -- text/tokenizer/scan.c: positions of the cursor over JSON text. */
#include "text/tokenizer/scan.h"

#include <string.h>

#include "tests/check.h"

static void a_value_ends_where_json_says(void)
{
    static const struct {
        const char *text, *value; /* NULL: malformed */
    } cases[] = {
        {"12,", "12"},
        {" true]", "true"},
        {"-1.5e3 ,", "-1.5e3"},
        {"\"a,\\\"]\" ]", "\"a,\\\"]\""},
        {"[1,[2,{\"a\":\"]\"}]],3", "[1,[2,{\"a\":\"]\"}]]"},
        {"{}", "{}"},
        {"{\"a\":[]}}", "{\"a\":[]}"},
        {"", NULL},
        {"  ", NULL},
        {",1", NULL},
        {"]", NULL},
        {"}", NULL},
        {":", NULL},
        {"[1, 2", NULL},
        {"{\"a\":", NULL},
        {"[\"a]", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        json_scan scan = {.at = text, .end = text + strlen(text)};
        text_string value = {0};
        const bool expected = cases[i].value != NULL;
        if (weft__scan_value(&scan, &value) != expected || scan.malformed == expected)
            CHECK_FAIL("\"%s\" is %s", text, expected ? "malformed" : "accepted");
        else if (CHECK_EQ_INT(scan.malformed, !expected) && expected &&
                 CHECK_EQ_INT(value.length, strlen(cases[i].value)))
            CHECK_BYTES(value.text, cases[i].value, value.length);
    }
}

CHECK_MAIN("scan", CHECK_CASE(a_value_ends_where_json_says))
