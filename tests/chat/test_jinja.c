/* tests/chat/test_jinja.c -- text/jinja against Jinja2's results for the same templates
 * (tests/golden/chat/snippets.py), and against malicious templates. */
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "text/jinja/jinja.h"
#include "weft/memory.h"

static weft_status render(const char *source, const jinja_context *context, char **text)
{
    jinja_template *template = NULL;
    size_t length = 0;
    *text = NULL;
    weft_status status = weft__jinja_parse(source, strlen(source), "t", &template);
    if (!status)
        status = weft__jinja_render(template, context, text, &length);
    weft__jinja_free(template);
    return status;
}

enum { MAX_VARIABLES = 32 };

static size_t enter_variables(json_object *variables, jinja_input *inputs)
{
    size_t n = 0;
    json_object_object_foreach(variables, key, value)
    {
        if (n < MAX_VARIABLES)
            inputs[n++] = (jinja_input){.name = key, .value = value};
    }
    return n;
}

/* Renders the templates of a file, whose cases may have variables of their own; a case without
 * "text" must fail. */
static void compare(const char *fixture, size_t least)
{
    weft__json_doc doc = {0};
    jinja_input inputs[MAX_VARIABLES];
    jinja_context context = {.variables = inputs, .now = 1700000000};
    if (!CHECK_OK(weft__json_read(check_fixture(fixture), &doc)))
        return;
    json_object *shared = json_object_object_get(doc.root, "variables");
    json_object *cases = json_object_object_get(doc.root, "cases");
    for (size_t i = 0; i < json_object_array_length(cases); i++) {
        json_object *item = json_object_array_get_idx(cases, i), *expected = NULL, *own = NULL;
        const char *source = json_object_get_string(json_object_object_get(item, "template"));
        char *text = NULL;
        json_object_object_get_ex(item, "variables", &own);
        context.count = enter_variables(own ? own : shared, inputs);
        const weft_status status = render(source, &context, &text);
        const bool fails = !json_object_object_get_ex(item, "text", &expected);
        if (fails != (status != WEFT_OK))
            CHECK_FAIL("%s: %s", source, status ? weft_error_message() : "expected an error");
        else if (!fails && !CHECK_STR(text, json_object_get_string(expected)))
            printf("  it was %s with %s\n", source, json_object_get_string(own));
        weft_free(text);
    }
    CHECK(json_object_array_length(cases) >= least);
    weft__json_free(&doc);
}

static void snippets_equal_jinja2(void)
{
    compare("chat/snippets.json", 500);
}

static void random_templates_equal_jinja2(void)
{
    compare("chat/grammar.json", 800);
}

static void integers_equal_jinja2(void)
{
    compare("chat/integers.json", 700);
}

static void fails(const char *source, const char *message)
{
    char *text = NULL;
    const jinja_context context = {.max_bytes = 16 << 20, .max_steps = 2000000};
    CHECK(render(source, &context, &text) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), message);
    weft_free(text);
}

static void numbers_of_json_equal_python(void)
{
    compare("chat/floats.json", 400);
}

/* Each filter, function and tag of Jinja2 that Weft lacks fails with its name. No known template of
 * a model uses one. */
static void missing_filters_and_tags_are_named(void)
{
    static const char *const filters[] = {"filesizeformat", "forceescape", "pprint",
                                          "random",         "striptags",   "urlencode",
                                          "urlize",         "wordwrap",    "xmlattr"};
    static const char *const tags[] = {"include 'a'", "import 'a' as b", "from 'a' import b",
                                       "extends 'a'", "trans",           "do 1",
                                       "debug"};
    char source[64], message[64];
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        snprintf(source, sizeof source, "{{ 'a' | %s }}", filters[i]);
        snprintf(message, sizeof message, "no filter is called \"%s\"", filters[i]);
        fails(source, message);
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        snprintf(source, sizeof source, "\n{%% %s %%}", tags[i]);
        snprintf(message, sizeof message, "line 2: the tag \"%.*s\" is unsupported",
                 (int)strcspn(tags[i], " "), tags[i]);
        fails(source, message);
    }
    fails("{{ cycler(1) }}", "cycler");
    fails("{{ lipsum() }}", "lipsum");
}

static void arithmetic_beyond_64_bits(void)
{
    static const char *const sources[] = {
        "9223372036854775807 + 1",     "9223372036854775808 + 1",
        "1 - 9223372036854775809",     "2 * 10000000000000000000",
        "10000000000000000000 // 10",  "10000000000000000000 % 7",
        "10000000000000000000 / 2",    "10000000000000000000 ** 2",
        "10000000000000000000 * 0.5",  "[10000000000000000000]|sum",
        "10000000000000000000 is odd", "10000000000000000000 is divisibleby(2)",
        "'%x' % 10000000000000000000", "10000000000000000000|round(-1)",
        "range(10000000000000000000)", "0xffffffffffffffffff",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char source[80];
        snprintf(source, sizeof source, "{{ %s }}", sources[i]);
        char *text = NULL;
        const jinja_context context = {0};
        CHECK(render(source, &context, &text) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), "64");
        weft_free(text);
    }
}

static void errors_name_line_and_what_was_expected(void)
{
    fails("a\n{% if %}", "t: line 2: expected an expression, got %}");
    fails("\n\n{{ x.y }}", "t: line 3: \"x\" is undefined");
    fails("{{ '%d' % ('inf'|float) }}", "does not fit \"float\"");
    fails("{{ '%x' % -9.5e18 }}", "beyond 64 bits");
    fails("{{ raise_exception('no ' + 'way') }}", "line 1: the template refuses this: no way");
    fails("{% for x in 3 %}{% endfor %}", "\"int\" is not iterable");
    fails("{% include 'x' %}", "the tag \"include\" is unsupported");
    fails("{% for x in [1] %}{{ loop([]) }}{% endfor %}", "declared recursive");
    fails("{{ 'a' | nosuch }}", "no filter is called \"nosuch\"");
    fails("{{ 1 is nosuch }}", "no test is called \"nosuch\"");
    fails("{{ 'open", "the string has no end");
    fails("{{ 9223372036854775807 + 1 }}", "beyond 64 bits");
    fails("\xff", "expected UTF-8");
}

/* What fails while variables are copied in, before the first node runs, is in line 1. */
static void variables_that_are_too_large(void)
{
    char *text = NULL;
    json_object *value = json_object_new_array();
    for (int i = 0; i < 1000; i++)
        json_object_array_add(value, json_object_new_int(i));
    const jinja_input input = {.name = "x", .value = value};
    const jinja_context context = {.variables = &input, .count = 1, .max_bytes = 1024};
    CHECK(render("\n\n{{ x }}", &context, &text) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), "t: line 1: ");
    weft_free(text);
    json_object_put(value);
}

static void excessive_templates_end_with_an_error(void)
{
    char deep[4096];
    fails("{% set r = range(5000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
          "too many steps");
    fails("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}"
          "{% set ns.x = ns.x + ns.x %}{% endfor %}",
          "");
    fails("{{ 'a' * 99999999999 }}", "");
    fails("{{ [0] * 99999999999 }}", "");
    fails("{{ range(9999999) }}", "more than 100000 numbers");
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested deeper");
    fails("{% set l = [] %}{% set x = l.append(l) %}{{ l }}", "nested deeper");
    fails("{{ '%99999999999d' % 1 }}", "");
    fails("{{ '{:99999999999}'.format(1) }}", "");
    memset(deep, '(', 2000);
    deep[0] = deep[1] = '{';
    deep[2000] = '\0';
    fails(deep, "nested too deeply");
    memset(deep, '-', 2000);
    deep[0] = deep[1] = '{';
    deep[2] = ' ';
    memcpy(deep + 1996, " 1}}", 4);
    fails(deep, "nested deeper");
    size_t n = (size_t)snprintf(deep, sizeof deep, "{{ 1");
    for (int i = 0; i < 1800; i++)
        n += (size_t)snprintf(deep + n, sizeof deep - n, "+1");
    snprintf(deep + n, sizeof deep - n, " }}");
    fails(deep, "nested deeper");
}

static void lists_can_be_changed(void)
{
    char *text = NULL;
    const jinja_context context = {0};
    CHECK_OK(render("{% set l = [1] %}{% set q = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}"
                    "{% set d = {'a': 1} %}{% set q = d.update({'b': 2}, c=3) %}{{ d.pop('a') }}"
                    "{{ d }}{{ d.pop('z', 7) }}{{ d.setdefault('y', 8) }}",
                    &context, &text));
    CHECK_STR(text, "[1, 2]211{'b': 2, 'c': 3}78");
    weft_free(text);
}

/* As in Python and Jinja2. */
static void numbers_and_escapes_at_their_edges(void)
{
    char *text = NULL;
    const jinja_context context = {0};
    CHECK_OK(render("{{ 4.0 % 2.0 }} {{ -4.0 % 2.0 }} {{ 4.0 % -2.0 }} {{ -5 % 3 }} {{ 5.5 % -2 }} "
                    "{{ '\\xef\\xAF\\x6f' }} {{ '%d' % 9e15 }} {{ '%d' % -9.7 }} "
                    "{{ [{'': 5}]|map(attribute='')|list }}",
                    &context, &text));
    CHECK_STR(text, "0.0 0.0 -0.0 1 -0.5 \xc3\xaf\xc2\xafo 9000000000000000 -9 [5]");
    weft_free(text);
}

static void many_keys_are_found(void)
{
    char *text = NULL;
    const jinja_context context = {0};
    CHECK_OK(render("{% set d = {} %}{% for i in range(1000) %}{% set q = d.update({i: i}) %}"
                    "{% endfor %}{% set ns = namespace(n=0) %}{% for i in range(1000) %}"
                    "{% set ns.n = ns.n + d[i] %}{% endfor %}{{ ns.n }}{% set q = d.pop(500) %}"
                    " {{ 500 in d }} {{ d[999] }} {{ d | length }}",
                    &context, &text));
    CHECK_STR(text, "499500 False 999 999");
    weft_free(text);
}

/* Tags and forms of Jinja2 that random templates rarely contain. */
static void less_common_statements(void)
{
    static const struct {
        const char *source, *text;
    } cases[] = {
        {"{{ [[1]].0.0 }}{{ [[1, [2]]].0.1.0 }}", "12"},
        {"{% set n = namespace() %}{% set n.a, n.b, c = 1, 2, 3 %}{{ n.a }}{{ n.b }}{{ c }}",
         "123"},
        {"{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
        {"{% for x in [{'k': [{'k': []}, {}]}] recursive %}<{{ loop.depth }}{{ loop(x.k) }}>"
         "{% endfor %}",
         "<1<2><2>>"},
        {"{{ a is sameas a }}{{ none is sameas none }}{{ a is sameas b }}", "FalseTrueFalse"},
        {"{% print 1, 'a' %}{% print [1] %}", "1a[1]"},
        {"{% autoescape false %}{{ '<' }}{% endautoescape %}", "<"},
        {"{% set v = 1 %}{% for x in [2] %}{% block b %}{{ v }}{{ x }}{% endblock b %}{% endfor %}",
         "1"},
        {"{% for x in [2] %}{% block b scoped %}{{ x }}{% endblock %}{% endfor %}", "2"},
        {"{% for x in [1, 2] %}{% break %}{% else %}e{% endfor %}", "e"},
        {"{% for x in [1, 2] %}{% filter upper %}a{% if x == 1 %}{% continue %}{% endif %}"
         "{% endfilter %}{% endfor %}",
         "A"},
        {"{{ '-5'.zfill(4) }}{{ 'abca'.find('a', 1) }}{{ 'abca'.rindex('a') }}{{ 'ab'.isascii() }}",
         "-00533True"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        const jinja_context context = {0};
        if (CHECK_OK(render(cases[i].source, &context, &text)))
            CHECK_STR(text, cases[i].text);
        weft_free(text);
    }
}

/* Every allocation fails once. */
static void memory_runs_out(void)
{
    json_object *list = json_tokener_parse("[{\"role\": \"user\", \"content\": \"Hi\"}]");
    const jinja_input input = {.name = "messages", .value = list};
    const jinja_context context = {.variables = &input, .count = 1};
    const char *source = "{% macro m(a) %}{{ a | upper }}{% endmacro %}{% for x in messages %}"
                         "{{ m(x.role) }}{{ x | tojson }}{% endfor %}";
    for (uint64_t i = 1; i < 100; i++) {
        char *text = NULL;
        weft_memory_fail_at(i);
        const weft_status status = render(source, &context, &text);
        const uint64_t made = weft_memory_fail_at(0);
        if (status == WEFT_OK)
            CHECK_STR(text, "USER{\"role\": \"user\", \"content\": \"Hi\"}");
        else
            CHECK_EQ_INT(status, WEFT_MEMORY);
        weft_free(text);
        if (made < i) {
            CHECK(status == WEFT_OK && i > 3);
            break;
        }
    }
    json_object_put(list);
}

CHECK_MAIN("jinja", CHECK_CASE(snippets_equal_jinja2), CHECK_CASE(random_templates_equal_jinja2),
           CHECK_CASE(integers_equal_jinja2), CHECK_CASE(numbers_of_json_equal_python),
           CHECK_CASE(missing_filters_and_tags_are_named), CHECK_CASE(arithmetic_beyond_64_bits),
           CHECK_CASE(errors_name_line_and_what_was_expected),
           CHECK_CASE(variables_that_are_too_large),
           CHECK_CASE(excessive_templates_end_with_an_error), CHECK_CASE(lists_can_be_changed),
           CHECK_CASE(numbers_and_escapes_at_their_edges), CHECK_CASE(many_keys_are_found),
           CHECK_CASE(less_common_statements), CHECK_CASE(memory_runs_out))
