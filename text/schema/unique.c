/* text/schema/unique.c -- uniqueItems: lists the possible values of elements, each of which may
 * occur once, if they are few: enum, const, booleans, null, bounded integers. Other strings and
 * integers are compared as they are read; then there are at most 8 elements, so that where one more
 * character completes an element, it completes one that differs from the others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/expand.h"
#include "text/schema/prepared.h"
#include "weft/memory.h"

/* The values found, with their canonical forms. */
typedef struct value_list {
    char *texts[SCHEMA_UNIQUE], *forms[SCHEMA_UNIQUE];
    size_t n;
    bool few;
} value_list;

static void release(value_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        weft_free(list->texts[i]);
        weft_free(list->forms[i]);
    }
    list->n = 0;
}

static weft_status add_text(value_list *list, const char *text)
{
    json_object *value = NULL;
    weft_status status =
        weft__json_parse_value(text, strlen(text), "a literal of the schema", &value);
    char *form = status ? NULL : weft__value_form(value), *copy = weft_strdup(text);
    json_object_put(value);
    if (!status && (!form || !copy))
        status = weft__out_of_memory("a schema", "a value");
    bool known = status != WEFT_OK;
    for (size_t i = 0; i < list->n && !known; i++)
        known = strcmp(list->forms[i], form) == 0;
    list->few &= known || list->n < SCHEMA_UNIQUE;
    if (known || !list->few) {
        weft_free(form);
        weft_free(copy);
        return status;
    }
    list->texts[list->n] = copy;
    list->forms[list->n++] = form;
    return WEFT_OK;
}

static weft_status add_integers(value_list *list, const schema_choice *c)
{
    const double first = ceil(c->minimum) + (c->above && ceil(c->minimum) == c->minimum);
    const double last = floor(c->maximum) - (c->below && floor(c->maximum) == c->maximum);
    weft_status status = WEFT_OK;
    list->few &= last - first < SCHEMA_UNIQUE && !c->multiples;
    for (double i = first; i <= last && list->few && !status; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.0f", i + 0.0);
        status = add_text(list, text);
    }
    return status;
}

static weft_status add_choice(value_list *list, const schema_choice *c)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < c->n_literals && !status; i++)
        status = add_text(list, c->literals[i]);
    if (c->enumerated)
        return status;
    list->few &= !(c->types & ~(unsigned)(SCHEMA_NULL | SCHEMA_BOOLEAN | SCHEMA_INTEGER));
    if (!status && c->types & SCHEMA_NULL)
        status = add_text(list, "null");
    if (!status && c->types & SCHEMA_TRUE)
        status = add_text(list, "true");
    if (!status && c->types & SCHEMA_FALSE)
        status = add_text(list, "false");
    if (!status && c->types & SCHEMA_INTEGER && list->few)
        status = add_integers(list, c);
    return status;
}

static int by_length(const void *a, const void *b)
{
    const size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
    return x != y ? (x < y ? -1 : 1) : strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether elements are strings without a pattern, or integers of which at least 8 have one digit
 * and that may have any number of digits. */
static bool are_many(const weft__schema *schema, const schema_choice *c)
{
    const schema_node *items = &schema->nodes[c->items];
    if (c->n_prefix > 0 || c->n_wanted_items > 0)
        return false;
    for (size_t i = items->first; i < items->first + items->n_choices; i++) {
        const schema_choice *of = &schema->choices[i];
        if (of->enumerated || of->types & ~(unsigned)(SCHEMA_STRING | SCHEMA_INTEGER) ||
            (of->types & SCHEMA_STRING && of->pattern) ||
            (of->types & SCHEMA_INTEGER &&
             (of->multiples || of->maximum < INFINITY || of->minimum > 1)))
            return false;
    }
    return true;
}

static weft_status find_unique(weft__schema *schema, schema_choice *c)
{
    const schema_node *items = &schema->nodes[c->items];
    value_list list = {.few = c->n_prefix == 0 && c->n_wanted_items == 0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < items->n_choices && list.few && !status; i++)
        status = add_choice(&list, &schema->choices[items->first + i]);
    if (!status && !list.few && are_many(schema, c)) {
        c->distinct = true;
        if (c->max_items == SCHEMA_UNBOUNDED || c->max_items > SCHEMA_DISTINCT)
            c->max_items = SCHEMA_DISTINCT;
        release(&list);
        return WEFT_OK;
    }
    if (!status && !list.few)
        status = weft__json_fail(&schema->schemas[c->unique_of].at, WEFT_UNSUPPORTED,
                                 "uniqueItems is only supported where all elements are among the "
                                 "same %d values or fewer (enum, const, booleans, null or integers "
                                 "within bounds), or are strings without pattern and format or "
                                 "integers; without prefixItems and contains",
                                 (int)SCHEMA_UNIQUE);
    c->unique = status ? NULL : weft_calloc(list.n + 1, sizeof *c->unique);
    if (!status && !c->unique)
        status = weft__out_of_memory(schema->doc.name, "a schema");
    for (size_t i = 0; i < list.n && !status; i++) {
        c->unique[c->n_unique++] = list.texts[i];
        list.texts[i] = NULL;
    }
    if (c->n_unique > 0)
        qsort(c->unique, c->n_unique, sizeof *c->unique, by_length);
    release(&list);
    return status;
}

weft_status weft__schema_unique(weft__schema *schema)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < schema->n_choices && !status; i++) {
        schema_choice *c = &schema->choices[i];
        /* A single element always differs from all others. */
        if (c->unique_of >= 0 && c->types & SCHEMA_ARRAY &&
            (c->max_items == SCHEMA_UNBOUNDED || c->max_items > 1))
            status = find_unique(schema, c);
    }
    return status;
}
