/* text/jinja/jinja.h -- chat templates in Jinja, as transformers runs them.
 *
 *     status = weft__jinja_parse(source, length, "chat_template", &template);
 *     jinja_context context = {.variables = variables, .count = 3};
 *     status = weft__jinja_render(template, &context, &text, &length);
 *     weft__jinja_free(template);
 *
 * What differs from Jinja2 in transformers' sandbox: lists and dictionaries can be changed in place
 * (append, pop, update ...), which the sandbox refuses; integers beyond 64 bits are printed and
 * compared exactly, but arithmetic with them fails. Not there: include, extends, import,
 * autoescape true, translations.
 */
#ifndef WEFT_TEXT_JINJA_JINJA_H
#define WEFT_TEXT_JINJA_JINJA_H

#include <json-c/json_object.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

typedef struct jinja_template jinja_template;

/* Parses a template; messages call it `name`. WEFT_INVALID ("name: line 3: what") when it is
 * malformed or not UTF-8, WEFT_UNSUPPORTED for the tags above. */
weft_status weft__jinja_parse(const char *source, size_t length, const char *name,
                              jinja_template **out);
void weft__jinja_free(jinja_template *template); /* NULL is accepted */

/* A variable of the template. If its value is NULL it is defined as none. */
typedef struct jinja_input {
    const char *name;
    json_object *value;
} jinja_input;

/* What the template's {% generation %} blocks rendered: bytes [begin, end) of the text, in order.
 */
typedef struct jinja_span {
    size_t begin, end;
} jinja_span;

/* Zero it first; `at` is freed with weft_free. */
typedef struct jinja_spans {
    jinja_span *at;
    size_t n;
} jinja_spans;

typedef struct jinja_context {
    const jinja_input *variables; /* of duplicate names the last one is used */
    size_t count;
    int64_t now;        /* time for strftime_now(), in seconds since 1970; 0: the clock */
    uint64_t max_steps; /* 0: 200 million */
    size_t max_bytes;   /* of memory; 0: 1 GiB */
    jinja_spans *spans; /* NULL: not wanted. Emptied first */
} jinja_context;

/* Renders a template. *text is NUL-terminated and freed with weft_free. Several threads may render
 * a template at once. */
weft_status weft__jinja_render(const jinja_template *template, const jinja_context *context,
                               char **text, size_t *length);

#endif
