/* tests/constrain/test_schema_suite.c -- JSON-Schema-Test-Suite against weft/constrain.h: invalid
 * documents are never accepted unless a note says that their format is not checked, and valid ones
 * are, apart from the documents listed here.
 * $WEFT_SCHEMA_SUITE is its folder tests/draft2020-12; tests/constrain/README.md says where it
 * comes from. */
#include <dirent.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/text.h"
#include "tests/check.h"
#include "tests/constrain/walks.h"
#include "text/schema/prepared.h"
#include "weft/memory.h"

enum { STYLE = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };

static weft_tokenizer *tokenizer;

/* Valid documents that are not generated: of a file, a group (NULL: any) and a test (NULL: any). */
typedef struct exception {
    const char *file, *group, *test, *reason;
} exception;

#define LEAP "leap seconds are only generated in UTC"
#define QUOTED "quoted local parts and address literals are not generated"

static const exception exceptions[] = {
    {"format: date-time", NULL, "a valid date-time with a leap second, with minus offset", LEAP},
    {"format: time", NULL, "valid leap second, positive time-offset", LEAP},
    {"format: time", NULL, "valid leap second, large positive time-offset", LEAP},
    {"format: time", NULL, "valid leap second, negative time-offset", LEAP},
    {"format: time", NULL, "valid leap second, large negative time-offset", LEAP},
    {"format: email", NULL, "a quoted string with a space in the local part is valid", QUOTED},
    {"format: email", NULL, "a quoted string with a double dot in the local part is valid", QUOTED},
    {"format: email", NULL, "a quoted string with a @ in the local part is valid", QUOTED},
    {"format: email", NULL, "an IPv4-address-literal after the @ is valid", QUOTED},
    {"format: email", NULL, "an IPv6-address-literal after the @ is valid", QUOTED},
    {"format: hostname", NULL, "a valid punycoded IDN hostname",
     "labels in Punycode are not generated"},
    {"format", NULL, NULL, "a format is asserted, not only annotated"},
    {"vocabulary", "schema that uses custom metaschema with with no validation vocabulary",
     "no validation: invalid number, but it still validates",
     "$schema is an annotation: every schema is read as 2020-12"},
};

enum { EXCEPTIONS = sizeof exceptions / sizeof *exceptions };
static bool seen[EXCEPTIONS], used[EXCEPTIONS];

/* Whether a valid document that is refused is one of those above. */
static bool is_listed(const char *file, const char *group, const char *test, bool refused)
{
    bool listed = false;
    for (size_t i = 0; i < EXCEPTIONS; i++) {
        const exception *e = &exceptions[i];
        if (strcmp(e->file, file) != 0 || (e->group && strcmp(e->group, group) != 0) ||
            (e->test && strcmp(e->test, test) != 0))
            continue;
        seen[i] = true;
        used[i] |= refused;
        listed = true;
    }
    return listed;
}

static void every_exception_is_needed(void)
{
    for (size_t i = 0; i < EXCEPTIONS; i++) {
        if (seen[i] && !used[i])
            CHECK_FAIL("%s: %s: accepted, but listed as an exception", exceptions[i].file,
                       exceptions[i].test ? exceptions[i].test : "all");
        if (used[i])
            printf("  listed: %s: %s: %s\n", exceptions[i].file,
                   exceptions[i].test ? exceptions[i].test : "all", exceptions[i].reason);
    }
}

/* ---- documents in the form that is generated --------------------------------------------------
 */

/* The values of const and enum anywhere in a schema. */
static void gather_literals(json_object *schema, json_object *out)
{
    if (json_object_is_type(schema, json_type_array))
        for (size_t i = 0; i < json_object_array_length(schema); i++)
            gather_literals(json_object_array_get_idx(schema, i), out);
    if (!json_object_is_type(schema, json_type_object))
        return;
    json_object_object_foreach(schema, key, value)
    {
        if (strcmp(key, "const") == 0)
            json_object_array_add(out, json_object_get(value));
        else if (strcmp(key, "enum") == 0 && json_object_is_type(value, json_type_array))
            for (size_t i = 0; i < json_object_array_length(value); i++)
                json_object_array_add(out, json_object_get(json_object_array_get_idx(value, i)));
        else
            gather_literals(value, out);
    }
}

/* How a document is written: whole numbers as integers, and literals as the schema writes them. */
typedef struct style {
    bool integers;
    json_object *literals; /* NULL: no */
} style;

static void write_value(weft__text *out, json_object *value, const style *s);

static bool write_literal(weft__text *out, json_object *value, const style *s)
{
    const size_t n = s->literals ? json_object_array_length(s->literals) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *literal = json_object_array_get_idx(s->literals, i);
        bool equal = false;
        if (!CHECK_OK(weft__values_equal(literal, value, &equal)) || !equal)
            continue;
        weft__text_format(out, "%s", json_object_to_json_string_ext(literal, STYLE));
        return true;
    }
    return false;
}

static void write_object(weft__text *out, json_object *value, const style *s)
{
    const char *separator = "{";
    json_object_object_foreach(value, key, member)
    {
        json_object *name = json_object_new_string(key);
        weft__text_format(out, "%s%s:", separator, json_object_to_json_string_ext(name, STYLE));
        write_value(out, member, s);
        json_object_put(name);
        separator = ",";
    }
    weft__text_format(out, "%s}", *separator == '{' ? "{" : "");
}

static void write_value(weft__text *out, json_object *value, const style *s)
{
    if (write_literal(out, value, s))
        return;
    const double number = json_object_get_double(value);
    if (json_object_is_type(value, json_type_object)) {
        write_object(out, value, s);
    } else if (json_object_is_type(value, json_type_array)) {
        weft__text_format(out, "[");
        for (size_t i = 0; i < json_object_array_length(value); i++) {
            weft__text_format(out, "%s", i ? "," : "");
            write_value(out, json_object_array_get_idx(value, i), s);
        }
        weft__text_format(out, "]");
    } else if (s->integers && json_object_is_type(value, json_type_double) &&
               number == floor(number) && fabs(number) < 1e15) {
        weft__text_format(out, "%.0f", number);
    } else {
        weft__text_format(out, "%s", json_object_to_json_string_ext(value, STYLE));
    }
}

/* Whether a document is accepted in any of its forms. */
static bool is_accepted(weft_constraint *c, json_object *value, json_object *literals)
{
    bool accepted = false;
    for (int form = 0; form < 4 && !accepted; form++) {
        const style s = {form % 2 != 0, form / 2 ? literals : NULL};
        weft__text text = {0};
        write_value(&text, value, &s);
        accepted = CHECK_OK(weft_constraint_reset(c)) &&
                   weft_constraint_accept_text(c, text.at, text.n) == WEFT_OK &&
                   weft_constraint_complete(c);
        weft_free(text.at);
    }
    return accepted;
}

/* ---- files ------------------------------------------------------------------------------------
 */

typedef struct tally {
    int passed, listed, failed, rejected;
    int unchecked;     /* invalid documents of formats that are not checked, as the notes say */
    char message[200]; /* of the first schema that was rejected */
} tally;

static const char *text_of(json_object *at, const char *key)
{
    return json_object_get_string(json_object_object_get(at, key));
}

static void run_test(const char *file, const char *group, weft_constraint *c, json_object *test,
                     json_object *literals, tally *t)
{
    json_object *data = json_object_object_get(test, "data");
    const char *name = text_of(test, "description");
    const bool valid = json_object_get_boolean(json_object_object_get(test, "valid"));
    const bool accepted = c && is_accepted(c, data, literals);
    if (!valid && accepted && weft_constraint_notes(c)) {
        CHECK_CONTAINS(weft_constraint_notes(c), "is not checked");
        t->unchecked++;
        return;
    }
    const bool listed = valid && is_listed(file, group, name, !accepted) && !accepted;
    t->passed += accepted == valid;
    t->listed += listed;
    t->failed += accepted != valid && !listed;
    if (accepted != valid && !listed)
        CHECK_FAIL("%s: %s: %s: %s is %saccepted", file, group, name,
                   json_object_to_json_string_ext(data, STYLE), accepted ? "" : "not ");
}

static void run_group(const char *file, json_object *group, tally *t)
{
    json_object *schema = json_object_object_get(group, "schema");
    json_object *tests = json_object_object_get(group, "tests");
    const char *text = json_object_to_json_string_ext(schema, STYLE);
    weft_constraint *c = NULL;
    const weft_status status = weft_constraint_new(tokenizer, text, strlen(text), "schema",
                                                   &(weft_constraint_options){.open = true}, &c);
    if (status == WEFT_UNSUPPORTED) {
        if (t->rejected == 0)
            snprintf(t->message, sizeof t->message, "%s", weft_error_message());
        t->rejected += (int)json_object_array_length(tests);
        return;
    }
    if (status)
        CHECK_CONTAINS(weft_error_message(), "no value satisfies");
    json_object *literals = json_object_new_array();
    gather_literals(schema, literals);
    for (size_t i = 0; i < json_object_array_length(tests); i++)
        run_test(file, text_of(group, "description"), c, json_object_array_get_idx(tests, i),
                 literals, t);
    json_object_put(literals);
    weft_constraint_free(c);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_test(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

static void run_folder(const char *folder, const char *prefix, tally *all)
{
    struct dirent **files = NULL;
    const int n = scandir(folder, &files, is_test, by_name);
    CHECK(n > 0);
    for (int i = 0; i < n; i++) {
        char *path = weft_format("%s/%s", folder, files[i]->d_name);
        char *name =
            weft_format("%s%.*s", prefix, (int)strlen(files[i]->d_name) - 5, files[i]->d_name);
        json_object *groups = json_object_from_file(path);
        tally t = {0};
        CHECK(groups != NULL);
        for (size_t k = 0; groups && k < json_object_array_length(groups); k++)
            run_group(name, json_object_array_get_idx(groups, k), &t);
        printf("  %-32s %4d passed, %2d listed, %2d unchecked, %3d rejected%s%s\n", name, t.passed,
               t.listed, t.unchecked, t.rejected, t.rejected ? ": " : "", t.message);
        all->passed += t.passed;
        all->listed += t.listed;
        all->failed += t.failed;
        all->rejected += t.rejected;
        all->unchecked += t.unchecked;
        json_object_put(groups);
        weft_free(name);
        weft_free(path);
        free(files[i]);
    }
    free(files);
}

static void the_suite_passes(void)
{
    const char *folder = getenv("WEFT_SCHEMA_SUITE");
    if (!folder) {
        check_skip("WEFT_SCHEMA_SUITE is not set");
        return;
    }
    tally all = {0};
    tokenizer = walk_vocabulary(0);
    run_folder(folder, "", &all);
    char *formats = weft_format("%s/optional/format", folder);
    run_folder(formats, "format: ", &all);
    weft_free(formats);
    printf(
        "  %d tests passed, %d listed, %d unchecked, %d failed, %d of schemas that are rejected\n",
        all.passed, all.listed, all.unchecked, all.failed, all.rejected);
    CHECK_EQ_INT(all.failed, 0);
    every_exception_is_needed();
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("schema_suite", CHECK_CASE(the_suite_passes))
