/* tests/constrain/test_pydantic.c -- schemas of pydantic's models (tests/golden/schemas): the
 * instances that Python's jsonschema accepts are accepted in the declared order and the others
 * refused, and what is generated is valid, has only declared properties in the declared order, and
 * ends within its token budget. With WEFT_TEST_WALKS_FILE the generated documents go to that file,
 * for compare_walks.py. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/constrain/walks.h"
#include "text/schema/check.h"
#include "text/schema/schema.h"
#include "weft/memory.h"

enum { STYLE = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };

static json_object *schemas;
static weft_tokenizer *tokenizers[WALK_VOCABULARIES];

static bool open_cases(void)
{
    for (int v = 0; v < WALK_VOCABULARIES && !tokenizers[v]; v++)
        tokenizers[v] = walk_vocabulary(v);
    if (!schemas)
        schemas = json_object_from_file(check_source("tests/golden/schemas/pydantic.json"));
    return CHECK(schemas != NULL);
}

static const char *name_of(json_object *at)
{
    return json_object_get_string(json_object_object_get(at, "name"));
}

static weft_constraint *open_schema(json_object *at, int vocabulary, bool open)
{
    const char *text = json_object_to_json_string_ext(json_object_object_get(at, "schema"), STYLE);
    weft_constraint *c = NULL;
    if (!CHECK_OK(weft_constraint_new(tokenizers[vocabulary], text, strlen(text), name_of(at),
                                      &(weft_constraint_options){.open = open}, &c)))
        CHECK_FAIL("%s", text);
    return c;
}

static bool accepts(weft_constraint *c, const char *text)
{
    return CHECK_OK(weft_constraint_reset(c)) &&
           weft_constraint_accept_text(c, text, strlen(text)) == WEFT_OK &&
           weft_constraint_complete(c);
}

/* ---- instances ------------------------------------------------------------------------------- */

static void check_instances(json_object *at, const char *list, bool valid)
{
    json_object *instances = json_object_object_get(at, list);
    for (int open = 0; open < 2; open++) {
        weft_constraint *c = open_schema(at, 0, open);
        for (size_t i = 0; c && i < json_object_array_length(instances); i++) {
            const char *text = json_object_get_string(json_object_array_get_idx(instances, i));
            if (accepts(c, text) != valid)
                CHECK_FAIL("%s%s: %s is %s", name_of(at), open ? ", open" : "", text,
                           valid ? "refused" : "accepted");
        }
        weft_constraint_free(c);
    }
}

static void instances_are_judged_as_by_jsonschema(void)
{
    for (size_t i = 0; open_cases() && i < json_object_array_length(schemas); i++) {
        check_instances(json_object_array_get_idx(schemas, i), "valid", true);
        check_instances(json_object_array_get_idx(schemas, i), "invalid", false);
    }
}

/* The members of an object in reverse order, and a member that no schema declares. */
static json_object *reversed(json_object *value)
{
    json_object *out = json_object_new_object();
    const char *names[64];
    int n = 0;
    json_object_object_foreach(value, key, member)
    {
        (void)member;
        names[n++] = key;
    }
    while (n-- > 0)
        json_object_object_add(out, names[n],
                               json_object_get(json_object_object_get(value, names[n])));
    return out;
}

static void other_orders_and_properties_need_open_objects(void)
{
    for (size_t i = 0; open_cases() && i < json_object_array_length(schemas); i++) {
        json_object *at = json_object_array_get_idx(schemas, i);
        if (strcmp(name_of(at), "Strict") == 0 || strcmp(name_of(at), "Loose") == 0)
            continue; /* their schemas say what other properties may be */
        json_object *instances = json_object_object_get(at, "valid");
        weft_constraint *closed = open_schema(at, 0, false), *open = open_schema(at, 0, true);
        for (size_t k = 0; closed && open && k < json_object_array_length(instances); k++) {
            json_object *value =
                json_tokener_parse(json_object_get_string(json_object_array_get_idx(instances, k)));
            if (json_object_is_type(value, json_type_object)) {
                json_object *other = reversed(value);
                const char *text = json_object_to_json_string_ext(other, STYLE);
                CHECK(accepts(open, text));
                CHECK_EQ_INT(accepts(closed, text), json_object_object_length(value) < 2);
                json_object_object_add(value, "undeclared", json_object_new_int(1));
                text = json_object_to_json_string_ext(value, STYLE);
                CHECK(accepts(open, text) && !accepts(closed, text));
                json_object_put(other);
            }
            json_object_put(value);
        }
        weft_constraint_free(closed);
        weft_constraint_free(open);
    }
}

/* ---- generated documents --------------------------------------------------------------------- */

static json_object *resolve(json_object *root, json_object *schema)
{
    const char *reference = json_object_get_string(json_object_object_get(schema, "$ref"));
    if (!reference)
        return schema;
    json_object *definitions = json_object_object_get(root, "$defs");
    return json_object_object_get(definitions, strrchr(reference, '/') + 1);
}

static bool is_declared(json_object *root, json_object *schema, json_object *value);

/* Whether the members are a subsequence of the declared ones, from *n on. */
static bool in_order(json_object *root, json_object *schema, json_object *value, int *n)
{
    json_object *all = json_object_object_get(schema, "allOf");
    json_object *properties = json_object_object_get(schema, "properties");
    for (size_t i = 0; all && i < json_object_array_length(all); i++)
        in_order(root, resolve(root, json_object_array_get_idx(all, i)), value, n);
    if (!properties)
        return false;
    json_object_object_foreach(properties, name, of)
    {
        int position = 0;
        json_object_object_foreach(value, key, member)
        {
            if (position++ == *n && strcmp(key, name) == 0) {
                if (!is_declared(root, of, member))
                    return false;
                ++*n;
                break;
            }
        }
    }
    return *n == json_object_object_length(value);
}

static bool in_some(json_object *root, json_object *list, json_object *value)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (is_declared(root, json_object_array_get_idx(list, i), value))
            return true;
    return false;
}

/* Whether objects have only declared members in the declared order, along some branch. */
static bool is_declared(json_object *root, json_object *schema, json_object *value)
{
    int n = 0;
    schema = resolve(root, schema);
    json_object *any = json_object_object_get(schema, "anyOf");
    json_object *one = json_object_object_get(schema, "oneOf");
    json_object *items = json_object_object_get(schema, "items");
    json_object *more = json_object_object_get(schema, "additionalProperties");
    if (any || one)
        return in_some(root, any ? any : one, value);
    if (json_object_is_type(value, json_type_object))
        return (more && json_object_get_boolean(more)) ||
               !(json_object_object_get(schema, "properties") ||
                 json_object_object_get(schema, "allOf")) ||
               in_order(root, schema, value, &n);
    for (size_t i = 0; json_object_is_type(value, json_type_array) && items &&
                       i < json_object_array_length(value);
         i++)
        if (!is_declared(root, items, json_object_array_get_idx(value, i)))
            return false;
    return true;
}

/* Walks under one schema, the budgets being its shortest document's length and more. */
static void walk_case(json_object *at, int vocabulary, FILE *file)
{
    const char *text = json_object_to_json_string_ext(json_object_object_get(at, "schema"), STYLE);
    weft__json_doc doc = {0};
    weft_constraint *c = open_schema(at, vocabulary, false);
    int64_t least, tokens;
    if (!c || !CHECK_OK(weft__schema_read(text, strlen(text), name_of(at), &doc)))
        return;
    weft_constraint_missing(c, &least, &tokens);
    for (int i = 0; i < 12; i++) {
        const int64_t budget = least + (int64_t)walk_random(i % 3 == 0 ? 1 : 120);
        char *document = walk(c, tokenizers[vocabulary], budget);
        json_object *value = document ? json_tokener_parse(document) : NULL;
        weft__text complaint = {0};
        if (!document || !weft__schema_holds(doc.root, value, &complaint) ||
            !is_declared(doc.root, doc.root, value))
            CHECK_FAIL("%s: %s within %lld tokens %s", name_of(at), document ? document : "stuck",
                       (long long)budget, complaint.at ? complaint.at : "");
        for (char *byte = document; byte && *byte; byte++)
            *byte = *byte == '\n' ? ' ' : *byte; /* between values only: strings escape it */
        if (file && document)
            fprintf(file, "{\"schema\":%s,\"document\":%s}\n",
                    json_object_to_json_string_ext(doc.root, STYLE), document);
        weft_free(complaint.at);
        json_object_put(value);
        free(document);
    }
    weft_constraint_free(c);
    weft__json_free(&doc);
}

static void generated_documents_are_valid_and_declared(void)
{
    const char *path = getenv("WEFT_TEST_WALKS_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    CHECK(!path || file);
    for (size_t i = 0; open_cases() && i < json_object_array_length(schemas); i++)
        for (int v = 0; v < WALK_VOCABULARIES; v++)
            walk_case(json_object_array_get_idx(schemas, i), v, file);
    if (file)
        fclose(file);
    json_object_put(schemas);
    for (int v = 0; v < WALK_VOCABULARIES; v++)
        weft_tokenizer_free(tokenizers[v]);
}

CHECK_MAIN("pydantic", CHECK_CASE(instances_are_judged_as_by_jsonschema),
           CHECK_CASE(other_orders_and_properties_need_open_objects),
           CHECK_CASE(generated_documents_are_valid_and_declared))
