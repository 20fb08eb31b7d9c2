/* train/data/parquet/rows.c -- assembles the rows of a Parquet file from its columns.
 *
 * Each entry of a column has two levels: how many of the optional and repeated parts above it are
 * there, and which list it continues. The entries of all columns are read in step, one row at a
 * time. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/json_parse.h"
#include "train/data/parquet/parquet.h"
#include "weft/memory.h"

/* What a value counts towards the size of its row, beside the bytes of a text. */
enum { VALUE_BYTES = 64 };

struct weft__parquet {
    char *path;
    const uint8_t *data;
    weft__parquet_footer footer;
    weft__parquet_schema schema;
    weft__parquet_column *columns; /* one for each leaf */
    size_t group;                  /* index of the current row group */
    int64_t left;                  /* rows left of it */
    bool open;                     /* it is being read */
    size_t row_bytes;              /* of the current row */
    char bad[256];                 /* why the current row is malformed; "": it is not */
};

static weft_status invalid(const weft__parquet_column *c, const char *what)
{
    return weft__parquet_column_fail(c, WEFT_INVALID, what);
}

static weft_status no_memory(const weft__parquet *p)
{
    return weft__out_of_memory(p->path, "its rows");
}

/* The first column of a node that is read. */
static weft__parquet_column *first_column(weft__parquet *p, const weft__parquet_node *node)
{
    size_t i = node->leaf;
    while (p->schema.leaves[i]->ignored)
        i++;
    return &p->columns[i];
}

/* ---- values --------------------------------------------------------------------------------- */

static void note_bad(weft__parquet *p, const weft__parquet_node *leaf, const char *what)
{
    char name[160];
    if (p->bad[0] == '\0')
        snprintf(p->bad, sizeof p->bad, "column %s: %s",
                 weft_printable(weft__parquet_path(leaf, name)), what);
}

/* Adds to the size of the row. False when it has become too large. */
static bool count(weft__parquet *p, const weft__parquet_node *node, size_t bytes)
{
    p->row_bytes += bytes < WEFT__JSON_MAX_BYTES ? bytes : WEFT__JSON_MAX_BYTES;
    if (p->row_bytes <= WEFT__JSON_MAX_BYTES)
        return true;
    note_bad(p, node, "the row is larger than 256 MiB");
    return false;
}

static weft_status read_leaf(weft__parquet *p, const weft__parquet_node *node, json_object **out)
{
    weft__parquet_value value;
    const char *error = NULL;
    const weft_status status = weft__parquet_column_take(&p->columns[node->leaf], &value);
    if (status != WEFT_OK || !count(p, node, value.n + VALUE_BYTES))
        return status;
    *out = weft__parquet_json(node->element, &value, &error);
    if (*out == NULL && error == NULL)
        return no_memory(p);
    if (*out == NULL)
        note_bad(p, node, error);
    return WEFT_OK;
}

/* Takes the entries of a null or an empty list: one of each column, with a level in [low, high). */
static weft_status take_absent(weft__parquet *p, const weft__parquet_node *node, int low, int high)
{
    for (size_t i = node->leaf; i < node->leaf + node->n_leaves; i++) {
        weft__parquet_column *c = &p->columns[i];
        bool end;
        if (c->leaf->ignored)
            continue;
        weft_status status = weft__parquet_column_peek(c, &end);
        if (status == WEFT_OK && (end || c->def < (uint32_t)low || c->def >= (uint32_t)high))
            status = invalid(c, "its levels contradict those of other columns");
        if (status == WEFT_OK)
            status = weft__parquet_column_take(c, NULL);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* ---- groups --------------------------------------------------------------------------------- */

static weft_status read_value(weft__parquet *p, const weft__parquet_node *node, json_object **out);

/* Adds a value, of which it takes ownership, to an object. */
static weft_status add_member(weft__parquet *p, json_object *object, const char *name,
                              json_object *value)
{
    if (json_object_object_add(object, name, value) == 0)
        return WEFT_OK;
    json_object_put(value);
    return no_memory(p);
}

static weft_status read_members(weft__parquet *p, const weft__parquet_node *node,
                                json_object *object)
{
    weft_status status = WEFT_OK;
    for (const weft__parquet_node *c = node->child; status == WEFT_OK && c; c = c->next) {
        json_object *value = NULL;
        if (!c->ignored)
            status = read_value(p, c, &value);
        if (count(p, c, strlen(c->name) + VALUE_BYTES) && status == WEFT_OK)
            status = add_member(p, object, c->name, value);
        else
            json_object_put(value);
    }
    return status;
}

/* Reads an item of a map, a struct of a key and a value, as a member. */
static weft_status read_pair(weft__parquet *p, const weft__parquet_node *node, json_object *object)
{
    json_object *key = NULL, *value = NULL;
    weft_status status = read_value(p, node->child, &key);
    if (status == WEFT_OK)
        status = read_value(p, node->child->next, &value);
    const char *name = json_object_get_string(key);
    if (status == WEFT_OK &&
        (name == NULL || strlen(name) != (size_t)json_object_get_string_len(key)))
        note_bad(p, node->child, "a key of a map is null or has a NUL");
    else if (status == WEFT_OK)
        status = add_member(p, object, name, json_object_get(value));
    json_object_put(key);
    json_object_put(value);
    return status;
}

static weft_status read_item(weft__parquet *p, const weft__parquet_node *node, json_object *list)
{
    if (node->kind == WEFT__PARQUET_PAIRS)
        return read_pair(p, node->child, list);
    json_object *item = NULL;
    weft_status status = read_value(p, node->child, &item);
    if (status == WEFT_OK && count(p, node, VALUE_BYTES) && json_object_array_add(list, item) == 0)
        return WEFT_OK;
    json_object_put(item);
    return status != WEFT_OK || p->bad[0] != '\0' ? status : no_memory(p);
}

/* Reads the items of a list. The first entry's level says whether there are any, and each further
 * one continues the list. */
static weft_status read_items(weft__parquet *p, const weft__parquet_node *node, json_object *list)
{
    weft__parquet_column *c = first_column(p, node);
    bool end, more = c->def >= (uint32_t)node->item;
    if (!more)
        return take_absent(p, node, node->present, node->item);
    weft_status status = WEFT_OK;
    while (more && status == WEFT_OK) {
        status = read_item(p, node, list);
        if (status == WEFT_OK)
            status = weft__parquet_column_peek(c, &end);
        if (status == WEFT_OK && !end && c->rep > (uint32_t)node->repeated)
            status = invalid(c, "its levels contradict those of other columns");
        more = status == WEFT_OK && !end && c->rep == (uint32_t)node->repeated;
    }
    return status;
}

/* Reads a value of any kind; NULL: it is null, or the row is malformed. */
static weft_status read_value(weft__parquet *p, const weft__parquet_node *node, json_object **out)
{
    bool end;
    weft__parquet_column *c = first_column(p, node);
    weft_status status = weft__parquet_column_peek(c, &end);
    *out = NULL;
    if (status == WEFT_OK && (end || c->def < (uint32_t)node->above))
        status = invalid(c, end ? "it ends before the other columns"
                                : "its levels contradict those of other columns");
    if (status != WEFT_OK)
        return status;
    if (c->def < (uint32_t)node->present)
        return take_absent(p, node, node->above, node->present);
    if (node->kind == WEFT__PARQUET_LEAF)
        return read_leaf(p, node, out);
    json_object *made =
        node->kind == WEFT__PARQUET_ITEMS ? json_object_new_array() : json_object_new_object();
    if (made == NULL)
        return no_memory(p);
    status = node->kind == WEFT__PARQUET_STRUCT ? read_members(p, node, made)
                                                : read_items(p, node, made);
    if (status == WEFT_OK)
        *out = made;
    else
        json_object_put(made);
    return status;
}

/* ---- row groups ----------------------------------------------------------------------------- */

static weft_status open_group(weft__parquet *p)
{
    const weft__parquet_group *g = &p->footer.groups[p->group];
    if (g->n_chunks != p->schema.n_leaves || g->rows < 0)
        return weft_fail(WEFT_INVALID, "%s: row group %zu: expected %zu columns, got %zu", p->path,
                         p->group + 1, p->schema.n_leaves, g->n_chunks);
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < p->schema.n_leaves; i++) {
        if (!p->schema.leaves[i]->ignored)
            status = weft__parquet_column_open(&p->columns[i], &p->footer, p->data, p->group);
    }
    p->left = g->rows;
    p->open = true;
    return status;
}

/* After the last row of a group: no column may have further entries. */
static weft_status close_group(weft__parquet *p)
{
    bool end;
    for (size_t i = 0; i < p->schema.n_leaves; i++) {
        weft__parquet_column *c = &p->columns[i];
        const weft_status status = c->leaf->ignored ? WEFT_OK : weft__parquet_column_peek(c, &end);
        if (status != WEFT_OK)
            return status;
        if (!c->leaf->ignored && !end)
            return invalid(c, "it has more entries than the row group has rows");
    }
    p->open = false;
    p->group++;
    return WEFT_OK;
}

/* Every column must be at the start of a row. */
static weft_status check_start(weft__parquet *p)
{
    bool end;
    for (size_t i = 0; i < p->schema.n_leaves; i++) {
        weft__parquet_column *c = &p->columns[i];
        const weft_status status = c->leaf->ignored ? WEFT_OK : weft__parquet_column_peek(c, &end);
        if (status != WEFT_OK)
            return status;
        if (!c->leaf->ignored && (end || c->rep != 0))
            return invalid(c, end ? "it ends before the row group"
                                  : "its levels contradict those of other columns");
    }
    return WEFT_OK;
}

/* ---- files ---------------------------------------------------------------------------------- */

static weft_status open_columns(weft__parquet *p)
{
    if (p->schema.nodes->ignored)
        return weft_fail(WEFT_INVALID, "%s: it has no column of texts or numbers", p->path);
    p->columns = weft_calloc(p->schema.n_leaves + 1, sizeof *p->columns);
    if (p->columns == NULL)
        return no_memory(p);
    for (size_t i = 0; i < p->schema.n_leaves; i++) {
        p->columns[i].file = p->path;
        p->columns[i].leaf = p->schema.leaves[i];
    }
    return WEFT_OK;
}

weft_status weft__parquet_open(const void *data, size_t size, const char *path, weft__parquet **out)
{
    *out = NULL;
    weft__parquet *p = weft_calloc(1, sizeof *p);
    if (p == NULL)
        return weft__out_of_memory(path, NULL);
    p->data = data;
    p->path = weft_strdup(path);
    weft_status status = p->path ? weft__parquet_footer_read(data, size, path, &p->footer)
                                 : weft__out_of_memory(path, NULL);
    if (status == WEFT_OK)
        status = weft__parquet_schema_build(&p->footer, path, &p->schema);
    if (status == WEFT_OK)
        status = open_columns(p);
    if (status != WEFT_OK) {
        weft__parquet_close(p);
        return status;
    }
    *out = p;
    return WEFT_OK;
}

void weft__parquet_close(weft__parquet *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; p->columns && i < p->schema.n_leaves; i++)
        weft__parquet_column_free(&p->columns[i]);
    weft_free(p->columns);
    weft__parquet_schema_free(&p->schema);
    weft__parquet_footer_free(&p->footer);
    weft_free(p->path);
    weft_free(p);
}

weft_status weft__parquet_next(weft__parquet *p, json_object **row, const char **bad)
{
    weft_status status = WEFT_OK;
    *row = NULL;
    *bad = NULL;
    while (status == WEFT_OK && p->group < p->footer.n_groups && (!p->open || p->left == 0)) {
        status = p->open ? close_group(p) : open_group(p);
    }
    if (status != WEFT_OK || p->group == p->footer.n_groups)
        return status;
    p->row_bytes = 0;
    p->bad[0] = '\0';
    p->left--;
    status = check_start(p);
    json_object *made = status == WEFT_OK ? json_object_new_object() : NULL;
    if (status == WEFT_OK)
        status = made ? read_members(p, p->schema.nodes, made) : no_memory(p);
    if (status == WEFT_OK && p->bad[0] == '\0') {
        *row = made;
        return WEFT_OK;
    }
    json_object_put(made);
    if (status == WEFT_OK)
        *bad = p->bad;
    return status;
}
