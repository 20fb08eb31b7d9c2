/* text/schema/tokens.c -- the sorted vocabulary: common prefixes of tokens are processed once, and
 * tokens with an invalid prefix are skipped. */
#include "text/schema/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/tokenizer/token_bytes.h"
#include "weft/memory.h"

/* ---- the table ------------------------------------------------------------------------------ */

typedef struct sortable {
    const char *bytes;
    uint32_t length;
    int32_t id;
} sortable;

static int by_bytes(const void *a, const void *b)
{
    const sortable *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    if (order != 0)
        return order;
    return x->length < y->length ? -1 : x->length > y->length;
}

static uint32_t common(const sortable *a, const sortable *b)
{
    uint32_t n = 0;
    while (n < a->length && n < b->length && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Collects all tokens' bytes consecutively; entries have ids, starts and lengths. */
static weft_status gather(const weft_tokenizer *tokenizer, token_table *out, text_buffer *bytes)
{
    weft_status status = WEFT_OK;
    for (int32_t id = 0; id < out->vocab_size && !status; id++) {
        const size_t before = bytes->length;
        if (weft_tokenizer_is_special(tokenizer, id))
            continue;
        status = weft__token_bytes(tokenizer, id, bytes);
        if (!status && bytes->length - before > out->longest)
            out->longest = (uint32_t)(bytes->length - before);
        if (!status && bytes->length > before)
            out->entries[out->n++] = (token_entry){
                .id = id, .start = (uint32_t)before, .length = (uint32_t)(bytes->length - before)};
    }
    return status;
}

static weft_status sort(token_table *table)
{
    sortable *list = weft_malloc((table->n + 1) * sizeof *list);
    if (!list)
        return weft__out_of_memory("constraint", "the vocabulary");
    for (size_t i = 0; i < table->n; i++)
        list[i] = (sortable){table->bytes + table->entries[i].start, table->entries[i].length,
                             table->entries[i].id};
    qsort(list, table->n, sizeof *list, by_bytes);
    for (size_t i = 0; i < table->n; i++)
        table->entries[i] = (token_entry){
            .id = list[i].id,
            .start = (uint32_t)(list[i].bytes - table->bytes),
            .length = list[i].length,
            .shared = i > 0 ? common(&list[i - 1], &list[i]) : 0,
        };
    weft_free(list);
    return WEFT_OK;
}

weft_status weft__tokens_read(const weft_tokenizer *tokenizer, token_table *out)
{
    *out = (token_table){.vocab_size = weft_tokenizer_vocab_size(tokenizer)};
    text_buffer bytes = {0};
    out->entries = weft_calloc((size_t)out->vocab_size + 1, sizeof *out->entries);
    weft_status status = out->entries ? gather(tokenizer, out, &bytes)
                                      : weft__out_of_memory("constraint", "the vocabulary");
    out->bytes = bytes.data;
    if (!status)
        status = sort(out);
    if (status)
        weft__tokens_release(out);
    return status;
}

void weft__tokens_release(token_table *table)
{
    weft_free(table->entries);
    weft_free(table->bytes);
    *table = (token_table){0};
}

/* ---- masks ---------------------------------------------------------------------------------- */

/* After so many bytes of the current token. */
typedef struct path_step {
    size_t begin;    /* index of the first stack; the next step's is that after the last */
    frame_mark mark; /* of memory */
} path_step;

typedef struct path {
    frame_list stacks; /* of all bytes, consecutively */
    path_step *steps;
} path;

/* Advances from `depth` bytes of a token as far as it is valid; returns the number of valid bytes.
 */
static size_t advance(machine *m, path *p, const char *bytes, size_t depth, size_t length,
                      weft_status *status)
{
    while (depth < length && !*status) {
        const size_t begin = p->steps[depth].begin, n = p->steps[depth + 1].begin - begin;
        weft__machine_step(m, p->stacks.tops + begin, n, (unsigned char)bytes[depth]);
        *status = m->status;
        if (m->out.n == 0)
            break;
        p->stacks.n = p->steps[depth + 1].begin;
        if (!*status)
            *status = weft__frames_append(&p->stacks, m->out.tops, m->out.n);
        depth++;
        p->steps[depth + 1].begin = p->stacks.n;
        p->steps[depth].mark = weft__machine_mark(m);
    }
    return depth;
}

weft_status weft__tokens_mask(const token_table *table, machine *m, const frame_list *stacks,
                              int64_t budget, bool *allowed, int64_t *worst)
{
    path p = {.steps = weft_malloc((table->longest + 2) * sizeof *p.steps)};
    const frame_mark mark = weft__machine_mark(m);
    size_t depth = 0, dead = SIZE_MAX; /* dead: index of the invalid byte */
    memset(allowed, 0, (size_t)table->vocab_size * sizeof *allowed);
    *worst = 0;
    weft_status status = p.steps ? weft__frames_append(&p.stacks, stacks->tops, stacks->n)
                                 : weft__out_of_memory("constraint", NULL);
    if (!status) {
        p.steps[0] = (path_step){0, mark};
        p.steps[1].begin = p.stacks.n;
    }
    for (size_t i = 0; i < table->n && !status; i++) {
        const token_entry *t = &table->entries[i];
        if (dead != SIZE_MAX && t->shared > dead)
            continue;
        if (t->shared < depth)
            depth = t->shared;
        weft__machine_release(m, p.steps[depth].mark);
        depth = advance(m, &p, table->bytes + t->start, depth, t->length, &status);
        dead = depth < t->length ? depth : SIZE_MAX;
        if (dead != SIZE_MAX || status)
            continue;
        const size_t begin = p.steps[depth].begin;
        const int64_t left =
            weft__machine_distance(p.stacks.tops + begin, p.steps[depth + 1].begin - begin);
        allowed[t->id] = left <= budget;
        if (left <= budget && left > *worst)
            *worst = left;
    }
    weft__machine_release(m, mark);
    weft_free(p.stacks.tops);
    weft_free(p.steps);
    return status;
}
