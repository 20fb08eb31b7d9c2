/* text/schema/branches.c -- finds which branches of anyOf and oneOf may match a value. */
#include "text/schema/branches.h"

#include "core/failure.h"
#include "core/hash.h"
#include "text/schema/prepared.h"
#include "weft/memory.h"

static weft_status no_memory(void)
{
    return weft__out_of_memory("a schema", "its alternatives");
}

bool weft__lists_values(json_object *schema)
{
    json_object *list = NULL;
    return json_object_is_type(schema, json_type_object) &&
           (json_object_object_get_ex(schema, "const", NULL) ||
            (json_object_object_get_ex(schema, "enum", &list) &&
             json_object_is_type(list, json_type_array)));
}

static weft_status hash_value(json_object *value, uint64_t *out)
{
    char *form = weft__value_form(value);
    if (!form)
        return no_memory();
    *out = 0;
    for (const char *at = form; *at; at++)
        *out = weft__mix(*out, (unsigned char)*at);
    weft_free(form);
    return WEFT_OK;
}

/* Calls `take` with the hash of each value that a schema lists. */
static weft_status each_value(json_object *schema,
                              weft_status (*take)(void *context, uint64_t hash), void *context)
{
    json_object *constant = NULL, *list = NULL;
    const bool one = json_object_object_get_ex(schema, "const", &constant);
    if (!one)
        json_object_object_get_ex(schema, "enum", &list);
    const size_t n = one ? 1 : json_object_array_length(list);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        uint64_t hash = 0;
        status = hash_value(one ? constant : json_object_array_get_idx(list, i), &hash);
        if (!status)
            status = take(context, hash);
    }
    return status;
}

typedef struct adding {
    branch_list *list;
    int position;
} adding;

static weft_status add_value(void *context, uint64_t hash)
{
    const adding *a = context;
    return weft__index_add(&a->list->values, hash, a->position);
}

weft_status weft__branches_read(json_object *of, branch_list *out)
{
    *out = (branch_list){.of = of, .n = json_object_array_length(of)};
    out->open = weft_calloc(out->n + 1, sizeof *out->open);
    weft_status status = out->open ? WEFT_OK : no_memory();
    for (size_t i = 0; i < out->n && !status; i++) {
        json_object *branch = json_object_array_get_idx(of, i);
        if (weft__lists_values(branch))
            status = each_value(branch, add_value, &(adding){out, (int)i});
        else
            out->open[out->n_open++] = (int)i;
    }
    if (status)
        weft__branches_release(out);
    return status;
}

void weft__branches_release(branch_list *list)
{
    weft_free(list->open);
    weft__index_release(&list->values);
    *list = (branch_list){0};
}

/* A list of positions being collected. */
typedef struct gathering {
    const branch_list *list;
    int *out;
    size_t *count;
    bool *known; /* by position */
} gathering;

static weft_status gather(void *context, uint64_t hash)
{
    gathering *g = context;
    size_t probe = 0;
    int32_t position;
    while ((position = weft__index_next(&g->list->values, hash, &probe)) >= 0) {
        if (!g->known[position])
            g->out[(*g->count)++] = position;
        g->known[position] = true;
    }
    return WEFT_OK;
}

weft_status weft__branches_for(const branch_list *list, json_object *value, int *out, size_t *count)
{
    for (*count = 0; *count < list->n_open; ++*count)
        out[*count] = list->open[*count];
    if (list->n_open == list->n)
        return WEFT_OK;
    uint64_t hash = 0;
    gathering g = {list, out, count, weft_calloc(list->n, sizeof(bool))};
    weft_status status = g.known ? hash_value(value, &hash) : no_memory();
    if (!status)
        status = gather(&g, hash);
    weft_free(g.known);
    return status;
}
