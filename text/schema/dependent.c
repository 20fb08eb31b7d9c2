/* text/schema/dependent.c -- converts dependentRequired, dependentSchemas and dependencies to
 * schemas with if and then. */
#include <json-c/linkhash.h>

#include "core/failure.h"
#include "text/schema/expand.h"

/* {"if": {"type": "object", "required": [name]}, "then": then}; takes over `then`. NULL when out of
 * memory. */
static json_object *make_condition(const char *name, json_object *then)
{
    json_object *out = json_object_new_object(), *condition = json_object_new_object();
    json_object *names = json_object_new_array(), *text = json_object_new_string(name);
    json_object *type = json_object_new_string("object");
    bool made = out && condition && names && text && type && then;
    if (made && json_object_array_add(names, text) == 0)
        text = NULL;
    made = made && !text;
    if (made && json_object_object_add(condition, "type", type) == 0)
        type = NULL;
    if (made && !type && json_object_object_add(condition, "required", names) == 0)
        names = NULL;
    if (made && !names && json_object_object_add(out, "if", condition) == 0)
        condition = NULL;
    if (made && !condition && json_object_object_add(out, "then", then) == 0)
        return out;
    json_object_put(text);
    json_object_put(type);
    json_object_put(names);
    json_object_put(condition);
    json_object_put(then);
    json_object_put(out);
    return NULL;
}

/* {"required": names}. */
static json_object *make_required(json_object *names)
{
    json_object *out = json_object_new_object();
    if (out && json_object_object_add(out, "required", json_object_get(names)) == 0)
        return out;
    json_object_put(names);
    json_object_put(out);
    return NULL;
}

static weft_status append(json_object *to, json_object *condition)
{
    if (condition && json_object_array_add(to, condition) == 0)
        return WEFT_OK;
    json_object_put(condition);
    return weft__out_of_memory("a schema", NULL);
}

/* Appends the conditions of one keyword. Registers the schemas in it, so that messages can name
 * their positions. */
static weft_status append_keyword(weft__schema *schema, const weft__json *at, const char *keyword,
                                  json_object *to)
{
    weft__json map, member;
    weft_status status = weft__json_find(at, keyword, &map);
    if (status || !map.value)
        return status;
    json_object_object_foreach(map.value, name, value)
    {
        json_object *then = NULL;
        if (status)
            break;
        status = weft__json_find(&map, name, &member);
        if (!status && json_object_is_type(value, json_type_array)) {
            then = make_required(value);
        } else if (!status) {
            weft__schema_number(schema, &member, &status);
            then = json_object_get(value);
        }
        if (!status)
            status = append(to, make_condition(name, then));
    }
    return status;
}

int weft__schema_dependent(weft__schema *schema, int number, weft_status *status)
{
    static const char *const keywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const weft__json at = schema->schemas[number].at;
    bool any = false;
    *status = WEFT_OK;
    for (size_t i = 0; i < 3; i++)
        any |= json_object_object_get(at.value, keywords[i]) != NULL;
    if (!any || schema->schemas[number].dependent >= 0)
        return any ? schema->schemas[number].dependent : -1;
    json_object *list = json_object_new_array(), *all = json_object_new_object();
    if (!list || !all || json_object_object_add(all, "allOf", list)) {
        json_object_put(list);
        json_object_put(all);
        *status = weft__out_of_memory(schema->doc.name, "a schema");
        return -1;
    }
    *status = weft__schema_own(schema, all);
    for (size_t i = 0; i < 3 && !*status; i++)
        *status = append_keyword(schema, &at, keywords[i], list);
    const weft__json made = {.value = all, .name = schema->doc.name};
    const int out = *status ? -1 : weft__schema_number(schema, &made, status);
    if (!*status)
        schema->schemas[number].dependent = out;
    return *status ? -1 : out;
}
