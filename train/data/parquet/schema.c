/* train/data/parquet/schema.c -- the schema of a Parquet file as a tree of structs, lists, maps and
 * leaves, with the levels that say where values are absent or repeated.
 *
 * Lists and maps are written as groups in several ways; the rules are those of LogicalTypes.md in
 * github.com/apache/parquet-format. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "train/data/parquet/parquet.h"
#include "weft/memory.h"

enum { DEPTH = 32 };

typedef struct builder {
    const char *path;
    const weft__parquet_footer *footer;
    weft__parquet_schema *out;
    size_t at; /* the next element */
    int depth;
    weft_status status;
} builder;

/* The levels at a place of the tree. */
typedef struct levels {
    int def, rep;
} levels;

/* Records what is wrong with a node, or with the whole schema. */
static void *fail(builder *b, const weft__parquet_node *node, const char *what)
{
    char name[160];
    if (b->status == WEFT_OK && node)
        b->status = weft_fail(WEFT_INVALID, "%s: malformed schema: %s: %s", b->path,
                              weft_printable(weft__parquet_path(node, name)), what);
    else if (b->status == WEFT_OK)
        b->status = weft_fail(WEFT_INVALID, "%s: malformed schema: %s", b->path, what);
    return NULL;
}

static const weft__parquet_element *peek(const builder *b)
{
    return b->at < b->footer->n_elements ? &b->footer->elements[b->at] : NULL;
}

static weft__parquet_node *new_node(builder *b, const weft__parquet_element *e,
                                    const weft__parquet_node *parent)
{
    weft__parquet_node *node = &b->out->nodes[b->out->n_nodes];
    const char *name = e->name ? (const char *)e->name : "";
    if (weft__utf8_valid(name, e->n_name) != e->n_name || memchr(name, '\0', e->n_name))
        return fail(b, NULL, "a name is not UTF-8");
    node->name = weft_malloc(e->n_name + 1);
    if (node->name == NULL) {
        b->status = weft__out_of_memory(b->path, "its schema");
        return NULL;
    }
    memcpy(node->name, name, e->n_name);
    node->name[e->n_name] = '\0';
    node->element = e;
    node->parent = parent;
    node->leaf = b->out->n_leaves;
    b->out->n_nodes++;
    return node;
}

static weft__parquet_node *build(builder *b, levels at, const weft__parquet_node *parent);
static weft__parquet_node *build_value(builder *b, levels at, int above,
                                       const weft__parquet_node *parent);

/* ---- leaves --------------------------------------------------------------------------------- */

/* Whether a logical type fits the physical one, as the format says. */
static bool fits(const weft__parquet_element *e)
{
    const bool bytes = e->type == WEFT__PARQUET_BYTES || e->type == WEFT__PARQUET_FIXED;
    const bool whole = e->type == WEFT__PARQUET_INT32 || e->type == WEFT__PARQUET_INT64;
    switch (e->meaning) {
    case WEFT__PARQUET_TEXT:
    case WEFT__PARQUET_IGNORED:
        return bytes;
    case WEFT__PARQUET_UNSIGNED:
    case WEFT__PARQUET_TIME:
        return whole;
    case WEFT__PARQUET_DATE:
        return e->type == WEFT__PARQUET_INT32;
    case WEFT__PARQUET_TIMESTAMP:
        return e->type == WEFT__PARQUET_INT64;
    case WEFT__PARQUET_DECIMAL:
        return bytes || whole;
    case WEFT__PARQUET_HALF:
        return e->type == WEFT__PARQUET_FIXED && e->length == 2;
    case WEFT__PARQUET_UUID:
        return e->type == WEFT__PARQUET_FIXED && e->length == 16;
    default:
        return e->meaning == WEFT__PARQUET_PLAIN;
    }
}

static weft__parquet_node *build_leaf(builder *b, weft__parquet_node *node, levels at)
{
    const weft__parquet_element *e = node->element;
    const bool bytes = e->type == WEFT__PARQUET_BYTES || e->type == WEFT__PARQUET_FIXED;
    if (e->type < 0 || e->type >= WEFT__PARQUET_TYPES)
        return fail(b, node, "unknown type");
    if (e->type == WEFT__PARQUET_FIXED && (e->length < 1 || e->length > INT32_MAX))
        return fail(b, node, "invalid length of values");
    if (!fits(e))
        return fail(b, node, "its logical type does not fit its type");
    node->kind = WEFT__PARQUET_LEAF;
    node->ignored =
        bytes && (e->meaning == WEFT__PARQUET_PLAIN || e->meaning == WEFT__PARQUET_IGNORED);
    node->rep = at.rep;
    node->n_leaves = 1;
    b->out->leaves[b->out->n_leaves++] = node;
    return node;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* Ends a group whose children are built. */
static weft__parquet_node *finish(builder *b, weft__parquet_node *node)
{
    node->n_leaves = b->out->n_leaves - node->leaf;
    node->ignored = true;
    for (const weft__parquet_node *c = node->child; c; c = c->next)
        node->ignored &= c->ignored;
    return node;
}

static weft__parquet_node *build_struct(builder *b, weft__parquet_node *node, levels at)
{
    weft__parquet_node **link = &node->child;
    node->kind = WEFT__PARQUET_STRUCT;
    for (int64_t i = 0; i < node->element->children; i++) {
        *link = build(b, at, node);
        if (*link == NULL)
            return NULL;
        link = &(*link)->next;
    }
    return finish(b, node);
}

static bool ends_in(const weft__parquet_element *e, const char *end)
{
    const size_t n = strlen(end);
    return e->n_name >= n && memcmp(e->name + e->n_name - n, end, n) == 0;
}

/* Whether the repeated group of a list only wraps the items, and is not the items' own type. */
static bool only_wraps(const builder *b, const weft__parquet_element *repeated)
{
    const weft__parquet_element *item = repeated + 1;
    return repeated->type < 0 && repeated->children == 1 && b->at + 1 < b->footer->n_elements &&
           item->repetition != WEFT__PARQUET_REPEATED && !ends_in(repeated, "_tuple") &&
           !(repeated->n_name == 5 && ends_in(repeated, "array"));
}

static void set_item_levels(weft__parquet_node *node, levels *at)
{
    node->kind = WEFT__PARQUET_ITEMS;
    node->item = ++at->def;
    node->repeated = ++at->rep;
}

/* A group that is annotated as a list or map, and has one repeated child. */
static weft__parquet_node *build_list(builder *b, weft__parquet_node *node, levels at)
{
    const weft__parquet_element *repeated = peek(b);
    const bool map = node->element->meaning == WEFT__PARQUET_MAP;
    set_item_levels(node, &at);
    if (!map && only_wraps(b, repeated)) {
        b->at++;
        node->child = build(b, at, node);
    } else {
        node->child = build_value(b, at, at.def, node);
    }
    const weft__parquet_node *pair = node->child, *key = pair ? pair->child : NULL;
    if (map && key && key->next && !key->next->next && key->kind == WEFT__PARQUET_LEAF &&
        key->element->meaning == WEFT__PARQUET_TEXT && !key->next->ignored)
        node->kind = WEFT__PARQUET_PAIRS;
    return node->child ? finish(b, node) : NULL;
}

/* Builds the value of the next element, whose repetition is already part of `at`. */
static weft__parquet_node *build_value(builder *b, levels at, int above,
                                       const weft__parquet_node *parent)
{
    const weft__parquet_element *e = &b->footer->elements[b->at++], *inner = peek(b);
    weft__parquet_node *node = new_node(b, e, parent);
    if (node == NULL || b->depth >= DEPTH)
        return node ? fail(b, node, "nested too deep") : NULL;
    node->above = above;
    node->present = at.def;
    if (e->type >= 0 && e->children == 0)
        return build_leaf(b, node, at);
    const bool list = e->meaning == WEFT__PARQUET_LIST || e->meaning == WEFT__PARQUET_MAP;
    b->depth++;
    node = list && e->children == 1 && inner && inner->repetition == WEFT__PARQUET_REPEATED
               ? build_list(b, node, at)
               : build_struct(b, node, at);
    b->depth--;
    return node;
}

/* Builds the next element. */
static weft__parquet_node *build(builder *b, levels at, const weft__parquet_node *parent)
{
    const weft__parquet_element *e = peek(b);
    const int above = at.def;
    if (e == NULL)
        return fail(b, parent, "it has fewer children than it says");
    if (e->repetition != WEFT__PARQUET_REPEATED) {
        at.def += e->repetition == WEFT__PARQUET_OPTIONAL;
        return build_value(b, at, above, parent);
    }
    weft__parquet_node *node = new_node(b, e, parent); /* a list without an annotation */
    if (node == NULL)
        return NULL;
    node->above = node->present = at.def;
    set_item_levels(node, &at);
    node->child = build_value(b, at, at.def, node);
    return node->child ? finish(b, node) : NULL;
}

weft_status weft__parquet_schema_build(const weft__parquet_footer *footer, const char *path,
                                       weft__parquet_schema *out)
{
    builder b = {.path = path, .footer = footer, .out = out};
    *out = (weft__parquet_schema){0};
    out->nodes = weft_calloc(2 * footer->n_elements + 1, sizeof *out->nodes);
    out->leaves = weft_calloc(footer->n_elements + 1, sizeof(void *));
    if (out->nodes == NULL || out->leaves == NULL)
        return weft__out_of_memory(path, "its schema");
    if (footer->n_elements == 0)
        return weft_fail(WEFT_INVALID, "%s: malformed schema: it is empty", path);
    b.at = 1;
    weft__parquet_node *root = new_node(&b, &footer->elements[0], NULL);
    if (root != NULL)
        build_struct(&b, root, (levels){0, 0});
    if (b.status == WEFT_OK && b.at != footer->n_elements)
        fail(&b, NULL, "it has elements that are in no group");
    return b.status;
}

void weft__parquet_schema_free(weft__parquet_schema *schema)
{
    for (size_t i = 0; i < schema->n_nodes; i++)
        weft_free(schema->nodes[i].name);
    weft_free(schema->nodes);
    weft_free(schema->leaves);
    *schema = (weft__parquet_schema){0};
}

const char *weft__parquet_path(const weft__parquet_node *node, char out[160])
{
    enum { SIZE = 160 };
    const weft__parquet_node *from[2 * DEPTH + 4];
    int n = 0;
    size_t used = 0;
    for (; node->parent && n < 2 * DEPTH + 4; node = node->parent)
        from[n++] = node;
    out[0] = '\0';
    while (n-- > 0 && used + 1 < SIZE) {
        snprintf(out + used, SIZE - used, "%s%s", used > 0 ? "." : "", from[n]->name);
        used = strlen(out);
    }
    return out;
}
