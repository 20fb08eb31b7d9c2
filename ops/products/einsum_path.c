/* ops/products/einsum_path.c -- selects the order in which an einsum contracts its operands. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "ops/products/einsum.h"

enum { FEW = 8 }; /* up to this many operands every order is tried */

static double size_of(const einsum *e, uint64_t labels)
{
    double size = 1;
    for (int label = 0; label < EINSUM_LABELS; label++) {
        size *= labels >> label & 1 ? (double)e->sizes[label] : 1;
    }
    return size;
}

static double flops_of(const einsum *e, uint64_t labels, uint64_t result)
{
    return size_of(e, labels) * (labels & ~result ? 2 : 1);
}

/* ---- Few operands: the best of all orders --------------------------------------------------- */

/* For each set of operands: the remaining labels, the least cost, and one half of the last
 * contraction. */
typedef struct subsets {
    uint64_t labels[1 << FEW];
    double cost[1 << FEW];
    int half[1 << FEW];
} subsets;

static void weigh_subsets(const einsum *e, subsets *s)
{
    int whole = (1 << e->n) - 1;
    for (int set = 1; set <= whole; set++) {
        uint64_t inside = 0, outside = label_set(&e->output);
        for (int i = 0; i < e->n; i++) {
            *(set >> i & 1 ? &inside : &outside) |= label_set(&e->terms[i]);
        }
        bool single = (set & (set - 1)) == 0;
        s->labels[set] = single ? inside : inside & outside;
        s->cost[set] = single ? 0 : INFINITY;
        for (int a = (set - 1) & set; a > 0; a = (a - 1) & set) {
            int b = set & ~a;
            if (a < b) {
                break; /* the remaining pairs repeat earlier ones */
            }
            double cost =
                s->cost[a] + s->cost[b] + flops_of(e, s->labels[a] | s->labels[b], s->labels[set]);
            if (cost < s->cost[set]) {
                s->cost[set] = cost;
                s->half[set] = a;
            }
        }
    }
}

static int position_of(const int *list, int n, int set)
{
    for (int i = 0; i < n; i++) {
        if (list[i] == set) {
            return i;
        }
    }
    return -1;
}

/* Marks the sets that the best order computes. A set has a larger number than its subsets. */
static void mark_made(const subsets *s, int whole, bool *made)
{
    made[whole] = true;
    for (int set = whole; set > 0; set--) {
        if (made[set] && (set & (set - 1)) != 0) {
            made[s->half[set]] = made[set & ~s->half[set]] = true;
        }
    }
}

static weft_status plan_few(const einsum *e, einsum_step *steps)
{
    subsets *s = weft_calloc(1, sizeof *s);
    if (!s) {
        return weft__out_of_memory("einsum", NULL);
    }
    weigh_subsets(e, s);
    int whole = (1 << e->n) - 1, list[FEW], n = e->n, step = 0;
    bool made[1 << FEW] = {false};
    for (int i = 0; i < n; i++) {
        list[i] = 1 << i;
    }
    mark_made(s, whole, made);
    for (int set = 1; set <= whole; set++) {
        if (!made[set] || (set & (set - 1)) == 0) {
            continue;
        }
        int x = position_of(list, n, s->half[set]), y = position_of(list, n, set & ~s->half[set]);
        int a = x < y ? x : y, b = x < y ? y : x;
        uint64_t left = s->labels[list[a]], right = s->labels[list[b]];
        steps[step++] = (einsum_step){
            a, b, left, right, s->labels[set], flops_of(e, left | right, s->labels[set])};
        memmove(&list[b], &list[b + 1], (size_t)(n - b - 1) * sizeof *list);
        memmove(&list[a], &list[a + 1], (size_t)(n - a - 2) * sizeof *list);
        list[n - 2] = set;
        n--;
    }
    weft_free(s);
    return WEFT_OK;
}

/* ---- Many operands: greedily the pair with the smallest result ------------------------------- */

static uint64_t kept_labels(const einsum *e, const uint64_t *list, int n, int a, int b)
{
    uint64_t others = label_set(&e->output);
    for (int i = 0; i < n; i++) {
        others |= i == a || i == b ? 0 : list[i];
    }
    return (list[a] | list[b]) & others;
}

static einsum_step best_pair(const einsum *e, const uint64_t *list, int n)
{
    einsum_step best = {0};
    double least = INFINITY;
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++) {
            uint64_t kept = kept_labels(e, list, n, a, b);
            double grows = size_of(e, kept) - size_of(e, list[a]) - size_of(e, list[b]);
            double flops = flops_of(e, list[a] | list[b], kept);
            if (grows < least || (grows == least && flops < best.flops)) {
                least = grows;
                best = (einsum_step){a, b, list[a], list[b], kept, flops};
            }
        }
    }
    return best;
}

static weft_status plan_many(const einsum *e, einsum_step *steps)
{
    uint64_t *list = weft_calloc((size_t)e->n, sizeof *list);
    if (!list) {
        return weft__out_of_memory("einsum", NULL);
    }
    for (int i = 0; i < e->n; i++) {
        list[i] = label_set(&e->terms[i]);
    }
    for (int n = e->n; n > 1; n--) {
        einsum_step *step = &steps[e->n - n];
        *step = best_pair(e, list, n);
        memmove(&list[step->b], &list[step->b + 1], (size_t)(n - step->b - 1) * sizeof *list);
        memmove(&list[step->a], &list[step->a + 1], (size_t)(n - step->a - 2) * sizeof *list);
        list[n - 2] = step->result;
    }
    weft_free(list);
    return WEFT_OK;
}

weft_status weft__einsum_plan(const einsum *e, einsum_step *steps)
{
    return e->n <= FEW ? plan_few(e, steps) : plan_many(e, steps);
}

/* ---- Describing the order -------------------------------------------------------------------- */

/* Text in a buffer of fixed size; what does not fit is cut off. */
typedef struct text {
    char *out;
    size_t size, at;
} text;

static void WEFT_PRINTF(2, 3) tell(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->out + t->at, t->size - t->at, format, args);
    va_end(args);
    size_t left = t->size - t->at - 1;
    t->at += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
}

static void tell_labels(text *t, uint64_t labels)
{
    for (int label = EINSUM_LABELS - 1; label >= EINSUM_LETTERS; label--) {
        if (labels >> label & 1) {
            tell(t, ".");
        }
    }
    for (int label = 0; label < EINSUM_LETTERS; label++) {
        if (labels >> label & 1) {
            tell(t, "%c", label < 26 ? 'A' + label : 'a' + label - 26);
        }
    }
}

static void tell_plan(text *t, const einsum *e, const einsum_step *steps)
{
    uint64_t all = 0, output = label_set(&e->output);
    double best = 0;
    for (int i = 0; i < e->n; i++) {
        all |= label_set(&e->terms[i]);
    }
    for (int i = 0; i + 1 < e->n; i++) {
        best += steps[i].flops;
    }
    double terms = size_of(e, all);
    double naive = terms * (e->n - 1 + (all & ~output ? 1 : 0));
    tell(t, "at once: %.6g flops\nin pairs: %.6g flops\n", naive, e->n > 1 ? best : naive);
    for (int i = 0; i + 1 < e->n; i++) {
        tell(t, "(%d, %d) ", steps[i].a, steps[i].b);
        tell_labels(t, steps[i].left);
        tell(t, ",");
        tell_labels(t, steps[i].right);
        tell(t, "->");
        tell_labels(t, steps[i].result);
        tell(t, ": %.6g flops, leaves %.6g elements\n", steps[i].flops,
             size_of(e, steps[i].result));
    }
}

static weft_status tell_path(const char *subscripts, const weft_dims *shapes, int n, text *t)
{
    einsum e;
    weft_why why;
    weft_status status = WEFT_OK;
    einsum_step *steps = weft_calloc((size_t)n + 1, sizeof *steps);
    if (!steps) {
        return weft__out_of_memory("einsum_path", NULL);
    }
    if (!weft__einsum_parse(subscripts, shapes, n, &e, &why)) {
        status = weft_fail(WEFT_INVALID, "einsum_path: %s: %s", subscripts, why.text);
    } else {
        status = weft__einsum_plan(&e, steps);
    }
    if (status == WEFT_OK) {
        tell_plan(t, &e, steps);
    }
    weft__einsum_free(&e);
    weft_free(steps);
    return status;
}

weft_status weft_einsum_path(const char *subscripts, weft_array *const *operands, int n, char *out,
                             size_t size)
{
    if (size == 0 || n < 1) {
        return weft_fail(WEFT_INVALID, "einsum_path: %d operands, room for %zu characters", n,
                         size);
    }
    out[0] = 0;
    weft_dims *shapes = weft_calloc((size_t)n, sizeof *shapes);
    if (!shapes) {
        return weft__out_of_memory("einsum_path", NULL);
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        shapes[i] = weft_shape(operands[i]);
        if (!weft_ok(operands[i])) {
            status = weft__report(operands[i]);
        }
    }
    text t = {out, size, 0};
    status = status == WEFT_OK ? tell_path(subscripts, shapes, n, &t) : status;
    weft_free(shapes);
    return status;
}
