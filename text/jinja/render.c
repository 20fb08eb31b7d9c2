/* text/jinja/render.c -- renders a template: converts the context, runs the template, and returns
 * the text. */
#include <string.h>
#include <time.h>

#include <json-c/linkhash.h>

#include "core/io/json.h"
#include "text/jinja/jinja.h"
#include "text/jinja/node.h"
#include "weft/memory.h"

enum { MAX_STEPS = 200 * 1000 * 1000, MAX_BYTES = 1 << 30 };

static jinja_value from_json(jinja *j, json_object *value);

static jinja_value from_members(jinja *j, json_object *value)
{
    const jinja_value dict = weft__jinja_dict(j);
    json_object_object_foreach(value, key, member)
    {
        if (!j->status)
            weft__jinja_put(j, dict, weft__jinja_view(key, strlen(key)), from_json(j, member));
    }
    return dict;
}

static jinja_value from_number(json_object *value)
{
    const char *digits = weft__json_big_integer(value);
    if (digits)
        return weft__jinja_big(digits + (*digits == '-'), strlen(digits) - (*digits == '-'),
                               *digits == '-');
    return json_object_is_type(value, json_type_int)
               ? weft__jinja_int(json_object_get_int64(value))
               : weft__jinja_float(json_object_get_double(value));
}

/* Converts JSON to values. Strings are not copied. */
static jinja_value from_json(jinja *j, json_object *value)
{
    if (!weft__jinja_enter(j))
        return weft__jinja_undefined(NULL);
    jinja_value out = weft__jinja_none();
    switch (json_object_get_type(value)) {
    case json_type_null:
        break;
    case json_type_boolean:
        out = weft__jinja_bool(json_object_get_boolean(value));
        break;
    case json_type_double:
    case json_type_int:
        out = from_number(value);
        break;
    case json_type_string:
        out = weft__jinja_view(json_object_get_string(value),
                               (size_t)json_object_get_string_len(value));
        break;
    case json_type_array:
        out = weft__jinja_list(j, FORM_LIST);
        for (size_t i = 0; i < json_object_array_length(value) && !j->status; i++)
            weft__jinja_push(j, out, from_json(j, json_object_array_get_idx(value, i)));
        break;
    case json_type_object:
        out = from_members(j, value);
        break;
    }
    weft__jinja_leave(j);
    return out;
}

/* Defines the variables that the template mentions; others cannot be accessed. */
static void enter_context(jinja *j, const jinja_template *t, const jinja_context *context)
{
    for (size_t i = 0; i < t->n_names && !j->status; i++)
        for (size_t k = context->count; k-- > 0;)
            if (strcmp(context->variables[k].name, t->names[i]) == 0) {
                weft__jinja_assign(j, t->names[i], from_json(j, context->variables[k].value));
                break;
            }
}

weft_status weft__jinja_render(const jinja_template *template, const jinja_context *context,
                               char **text, size_t *length)
{
    *text = NULL;
    *length = 0;
    jinja_buffer out = {0};
    jinja_frame variables = {0}, top = {.parent = &variables};
    jinja j = {
        .name = template->name,
        .line = 1,
        .arena.limit = context->max_bytes ? context->max_bytes : MAX_BYTES,
        .steps = context->max_steps ? context->max_steps : MAX_STEPS,
        .output = context->max_bytes ? context->max_bytes : MAX_BYTES,
        .now = context->now ? context->now : (int64_t)time(NULL),
        .out = &out,
        .frame = &variables,
        .spans = context->spans,
        .whole = &out,
    };
    if (context->spans)
        context->spans->n = 0;
    enter_context(&j, template, context);
    j.frame = &top;
    if (!j.status)
        weft__jinja_run(&j, template->root);
    char *copy = j.status ? NULL : weft_malloc(out.n + 1);
    if (!j.status && !copy)
        j.status = weft_fail(WEFT_MEMORY, "%s: out of memory for %zu bytes", template->name, out.n);
    if (copy) {
        if (out.n > 0)
            memcpy(copy, out.at, out.n);
        copy[out.n] = '\0';
        *text = copy;
        *length = out.n;
    }
    weft__arena_release(&j.arena);
    return j.status;
}
