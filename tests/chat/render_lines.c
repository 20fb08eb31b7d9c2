/* tests/chat/render_lines.c -- renders templates line by line for the scripts that compare with
 * Jinja2: reads {"template": ..., "variables": {...}, "now": ...}, writes {"text": ...} or
 * {"error": ...}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json_parse.h"
#include "text/jinja/jinja.h"
#include "weft/memory.h"

enum { MAX_VARIABLES = 64 };

static weft_status render(json_object *line, char **text, size_t *length)
{
    jinja_input inputs[MAX_VARIABLES];
    jinja_context context = {.variables = inputs};
    json_object *source = json_object_object_get(line, "template");
    json_object *variables = json_object_object_get(line, "variables");
    context.now = json_object_get_int64(json_object_object_get(line, "now"));
    json_object_object_foreach(variables, key, value)
    {
        if (context.count < MAX_VARIABLES)
            inputs[context.count++] = (jinja_input){.name = key, .value = value};
    }
    jinja_template *template = NULL;
    weft_status status =
        weft__jinja_parse(json_object_get_string(source),
                          (size_t)json_object_get_string_len(source), "template", &template);
    if (!status)
        status = weft__jinja_render(template, &context, text, length);
    weft__jinja_free(template);
    return status;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_object *in = NULL, *out = json_object_new_object();
        char *text = NULL;
        size_t length = 0;
        if (weft__json_parse_value(line, strlen(line), "line", &in) || render(in, &text, &length))
            json_object_object_add(out, "error", json_object_new_string(weft_error_message()));
        else
            json_object_object_add(out, "text", json_object_new_string_len(text, (int)length));
        puts(json_object_to_json_string_ext(out, JSON_C_TO_STRING_PLAIN));
        weft_free(text);
        json_object_put(out);
        json_object_put(in);
    }
    free(line);
    return 0;
}
