/* models/weights_experts.c -- converts experts' tensors to the form of trees: one stack each for
 * gate, up and down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/text.h"
#include "models/weights.h"

enum { MOST_EXPERTS = 4096 };

/* Names of the projections in files and in trees. */
static const struct {
    const char *stored, *name;
} projections[] = {
    {"gate_proj", "gate_proj"}, {"up_proj", "up_proj"}, {"down_proj", "down_proj"},
    {"w1", "gate_proj"},        {"w3", "up_proj"},      {"w2", "down_proj"},
};

static const char *projection_of(const char *stored)
{
    for (size_t i = 0; i < sizeof projections / sizeof *projections; i++) {
        if (strcmp(projections[i].stored, stored) == 0)
            return projections[i].name;
    }
    return NULL;
}

/* Maps "model.layers.3.mlp" and a projection to its path in the tree. Experts in parallel to the
 * MLP have other names than those that replace it. */
static void stack_path(const char *parent, const char *projection, char *out, size_t size)
{
    const char *last = strrchr(parent, '.');
    const bool in_place = last && (last[1] < '0' || last[1] > '9'); /* not a layer's number */
    snprintf(out, size, "%s.%s.%s.weight", parent, in_place ? "switch_mlp" : "experts.switch_glu",
             projection);
}

/* ---- individual experts: PARENT.experts.E.PROJECTION.weight ---------------------------------- */

typedef struct expert_name {
    char parent[WEFT_NN_PATH], stored[32];
    long number;
} expert_name;

static bool parse(const char *path, expert_name *out)
{
    static const char middle[] = ".experts.";
    const char *at = strstr(path, middle);
    if (at == NULL)
        return false;
    snprintf(out->parent, sizeof out->parent, "%.*s", (int)(at - path), path);
    at += sizeof middle - 1;
    char *end;
    out->number = strtol(at, &end, 10);
    int read = 0;
    return end > at && *at >= '0' && *at <= '9' &&
           sscanf(end, ".%31[a-z0-9_].weight%n", out->stored, &read) == 1 && read > 0 &&
           end[read] == '\0' && projection_of(out->stored);
}

/* Stacks the experts, starting from number 0. */
static weft_status stack(const weft__weights *w, const expert_name *first, weft__weights *stacks)
{
    weft_array *parts[MOST_EXPERTS];
    char path[WEFT_NN_PATH + 64];
    const char *stored = NULL; /* the name of expert 0 */
    int n = 0;
    while (n < MOST_EXPERTS) {
        snprintf(path, sizeof path, "%s.experts.%d.%s.weight", first->parent, n, first->stored);
        const weft__weight *found = weft__weights_find(w, path);
        if (found == NULL)
            break;
        stored = n == 0 ? found->name : stored;
        parts[n++] = found->array;
    }
    stack_path(first->parent, projection_of(first->stored), path, sizeof path);
    return weft__weights_add(stacks, path, stored, weft_stack(parts, n, 0));
}

/* Whether the tensor is in its projection's stack, with no gap before it. */
static bool is_stacked(const weft__weights *stacks, const weft__weight *item)
{
    expert_name name;
    char path[WEFT_NN_PATH + 64];
    if (!parse(item->path, &name))
        return false;
    stack_path(name.parent, projection_of(name.stored), path, sizeof path);
    const weft__weight *found = weft__weights_find(stacks, path);
    return found && (!weft_ok(found->array) || name.number < weft_dim(found->array, 0));
}

/* ---- combined gate and up: PARENT.experts.gate_up_proj --------------------------------------- */

/* What follows the parent in the names of combined gates and ups and of the downs, where the parent
 * ends with `in`. */
static const struct {
    const char *in, *both, *down;
} combined[] = {
    {"", ".experts.gate_up_proj", ".experts.down_proj"},
    {".block_sparse_moe", ".input_linear.weight", ".output_linear.weight"}, /* Granite */
};

/* The length of the parent in the path of a combined tensor, or 0. */
static int parent_of(const char *path, bool *down)
{
    for (size_t i = 0; i < sizeof combined / sizeof *combined; i++) {
        *down = weft__ends_with(path, combined[i].down);
        if (!*down && !weft__ends_with(path, combined[i].both))
            continue;
        char parent[WEFT_NN_PATH];
        const size_t n = strlen(path) - strlen(*down ? combined[i].down : combined[i].both);
        snprintf(parent, sizeof parent, "%.*s", (int)n, path);
        if (weft__ends_with(parent, combined[i].in))
            return (int)n;
    }
    return 0;
}

/* Adds the parts of a combined gate and up stack, or the down stack. */
static weft_status add_combined(weft__weights *out, const weft__weight *item)
{
    char parent[WEFT_NN_PATH], path[WEFT_NN_PATH + 64];
    bool down;
    snprintf(parent, sizeof parent, "%.*s", parent_of(item->path, &down), item->path);
    if (down) {
        stack_path(parent, "down_proj", path, sizeof path);
        return weft__weights_add(out, path, item->name, item->array);
    }
    const int64_t F =
        weft_ok(item->array) && weft_ndim(item->array) == 3 ? weft_dim(item->array, 1) / 2 : 0;
    if (F == 0 || weft_dim(item->array, 1) != 2 * F)
        return weft_fail(WEFT_INVALID, "%s: expected (experts, twice as many as gates, in)",
                         item->path);
    stack_path(parent, "gate_proj", path, sizeof path);
    weft_status status = weft__weights_add(out, path, item->name,
                                           weft_slice_axis(item->array, 1, 0, F)); /* (n, F, E) */
    stack_path(parent, "up_proj", path, sizeof path);
    if (status == WEFT_OK)
        status =
            weft__weights_add(out, path, item->name, weft_slice_axis(item->array, 1, F, 2 * F));
    return status;
}

static bool is_combined(const char *path)
{
    bool down;
    return parent_of(path, &down) > 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static weft_status collect(const weft__weights *w, weft__weights *stacks)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < w->n && status == WEFT_OK; i++) {
        expert_name name;
        if (w->at[i].unused)
            continue;
        if (is_combined(w->at[i].path))
            status = add_combined(stacks, &w->at[i]);
        else if (parse(w->at[i].path, &name) && name.number == 0)
            status = stack(w, &name, stacks);
    }
    weft__weights_sort(stacks);
    return status;
}

weft_status weft__weights_stack_experts(weft__weights *w)
{
    weft__weights stacks = {0};
    weft_status status = collect(w, &stacks);
    int kept = 0;
    for (int i = 0; i < w->n && status == WEFT_OK; i++) {
        if (!w->at[i].unused && (is_combined(w->at[i].path) || is_stacked(&stacks, &w->at[i]))) {
            weft_free(w->at[i].path);
            weft_free(w->at[i].name);
        } else {
            w->at[kept++] = w->at[i];
        }
    }
    if (status == WEFT_OK)
        w->n = kept;
    for (int i = 0; i < stacks.n && status == WEFT_OK; i++)
        status = weft__weights_add(w, stacks.at[i].path, stacks.at[i].name, stacks.at[i].array);
    weft__weights_free(&stacks);
    weft__weights_sort(w);
    return status;
}
