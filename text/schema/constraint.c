/* text/schema/constraint.c -- weft_constraint: a schema, a vocabulary, and a position in a
 * document. */
#include "weft/constrain.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/tokens.h"
#include "text/tokenizer/token_bytes.h"
#include "weft/memory.h"

enum { CACHED = 8, COMPACT_AFTER = 1 << 14 };

/* Immutable data that copies share. */
typedef struct language {
    atomic_int references;
    weft__schema schema;
    token_table tokens;
    text_buffer bytes; /* text of each token by id, for accept */
    size_t *starts;
} language;

/* The mask of a state, cached because states recur, especially within strings. */
typedef struct cached_mask {
    uint64_t key;
    bool *allowed; /* by id; NULL: the entry is free */
    int64_t worst;
} cached_mask;

struct weft_constraint {
    language *language;
    machine machine;
    frame_list stacks;
    size_t bytes; /* bytes accepted since the last compaction */
    cached_mask cache[CACHED];
    int oldest;
};

/* ---- languages ------------------------------------------------------------------------------- */

static void drop_language(language *l)
{
    if (!l || atomic_fetch_sub(&l->references, 1) > 1)
        return;
    weft__schema_release(&l->schema);
    weft__tokens_release(&l->tokens);
    weft__bytes_release(&l->bytes);
    weft_free(l->starts);
    weft_free(l);
}

static weft_status read_bytes(const weft_tokenizer *tokenizer, language *l)
{
    const int32_t n = weft_tokenizer_vocab_size(tokenizer);
    l->starts = weft_calloc((size_t)n + 1, sizeof *l->starts);
    if (!l->starts)
        return weft__out_of_memory("constraint", "the vocabulary");
    weft_status status = WEFT_OK;
    for (int32_t id = 0; id < n && !status; id++) {
        l->starts[id] = l->bytes.length;
        if (!weft_tokenizer_is_special(tokenizer, id))
            status = weft__token_bytes(tokenizer, id, &l->bytes);
    }
    l->starts[n] = l->bytes.length;
    return status;
}

static weft_status make_constraint(language *l, weft_constraint **out)
{
    weft_constraint *c = weft_calloc(1, sizeof *c);
    if (!c)
        return weft__out_of_memory("constraint", NULL);
    c->language = l;
    weft__machine_open(&c->machine, &l->schema);
    const weft_status status = weft_constraint_reset(c);
    if (status) {
        c->language = NULL;
        weft_constraint_free(c);
        return status;
    }
    *out = c;
    return WEFT_OK;
}

weft_status weft_constraint_new(const weft_tokenizer *tokenizer, const char *schema, size_t length,
                                const char *name, const weft_constraint_options *options,
                                weft_constraint **out)
{
    *out = NULL;
    language *l = weft_calloc(1, sizeof *l);
    if (!l)
        return weft__out_of_memory("constraint", NULL);
    atomic_init(&l->references, 1);
    weft_status status = weft__schema_parse(schema ? schema : "true", schema ? length : 4, name,
                                            options && options->open, &l->schema);
    if (!status)
        status = weft__tokens_read(tokenizer, &l->tokens);
    if (!status)
        status = read_bytes(tokenizer, l);
    if (!status)
        status = make_constraint(l, out);
    if (status)
        drop_language(l);
    return status;
}

weft_status weft_constraint_copy(const weft_constraint *constraint, weft_constraint **out)
{
    *out = NULL;
    const weft_status status = make_constraint(constraint->language, out);
    if (!status)
        atomic_fetch_add(&constraint->language->references, 1);
    return status;
}

void weft_constraint_free(weft_constraint *constraint)
{
    if (!constraint)
        return;
    for (int i = 0; i < CACHED; i++)
        weft_free(constraint->cache[i].allowed);
    weft_free(constraint->stacks.tops);
    weft__machine_close(&constraint->machine);
    drop_language(constraint->language);
    weft_free(constraint);
}

const char *weft_constraint_notes(const weft_constraint *constraint)
{
    return constraint->language->schema.notes.at;
}

weft_status weft_constraint_reset(weft_constraint *constraint)
{
    machine *m = &constraint->machine;
    weft__machine_release(m, (frame_mark){0});
    m->status = WEFT_OK;
    constraint->stacks.n = 0;
    const frame *start = weft__machine_start(m);
    return start ? weft__frames_append(&constraint->stacks, &start, 1) : m->status;
}

/* ---- advancing ------------------------------------------------------------------------------- */

weft_status weft_constraint_accept_text(weft_constraint *constraint, const char *text,
                                        size_t length)
{
    machine *m = &constraint->machine;
    const frame_mark mark = weft__machine_mark(m);
    frame_list now = {0};
    weft_status status = weft__frames_append(&now, constraint->stacks.tops, constraint->stacks.n);
    size_t i = 0;
    for (; i < length && !status && now.n > 0; i++) {
        weft__machine_step(m, now.tops, now.n, (unsigned char)text[i]);
        now.n = 0;
        status = m->status ? m->status : weft__frames_append(&now, m->out.tops, m->out.n);
    }
    if (!status && now.n == 0)
        status =
            weft_fail(WEFT_INVALID, "%s: byte %zu of \"%s\" does not fit what came before",
                      constraint->language->schema.doc.name, i - 1, weft_printable_n(text, length));
    if (status) {
        weft__machine_release(m, mark);
        m->status = WEFT_OK;
        weft_free(now.tops);
        return status;
    }
    weft_free(constraint->stacks.tops);
    constraint->stacks = now;
    constraint->bytes += length;
    if (constraint->bytes < COMPACT_AFTER)
        return WEFT_OK;
    constraint->bytes = 0;
    return weft__machine_compact(m, &constraint->stacks) ? WEFT_OK : m->status;
}

weft_status weft_constraint_accept(weft_constraint *constraint, int32_t id)
{
    const language *l = constraint->language;
    const size_t begin = id >= 0 && id < l->tokens.vocab_size ? l->starts[id] : 0;
    const size_t length =
        id >= 0 && id < l->tokens.vocab_size ? l->starts[id + 1] - l->starts[id] : 0;
    if (length == 0)
        return weft_fail(WEFT_INVALID, "%s: token %d has no text", l->schema.doc.name, (int)id);
    return weft_constraint_accept_text(constraint, l->bytes.data + begin, length);
}

void weft_constraint_missing(const weft_constraint *constraint, int64_t *bytes, int64_t *tokens)
{
    const frame_list *stacks = &constraint->stacks;
    const int64_t longest = constraint->language->tokens.longest;
    *bytes = weft__machine_distance(stacks->tops, stacks->n);
    *tokens = longest > 0 ? (*bytes + longest - 1) / longest : *bytes;
}

bool weft_constraint_complete(const weft_constraint *constraint)
{
    return weft__machine_ends(&constraint->machine, constraint->stacks.tops, constraint->stacks.n);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* Independent of the order of the stacks. */
static uint64_t key_of(const frame_list *stacks)
{
    uint64_t key = stacks->n;
    for (size_t i = 0; i < stacks->n; i++)
        key += stacks->tops[i]->hash;
    return key;
}

/* The mask without a budget, cached or computed. */
static weft_status find_mask(weft_constraint *constraint, const cached_mask **out)
{
    const token_table *tokens = &constraint->language->tokens;
    const uint64_t key = key_of(&constraint->stacks);
    for (int i = 0; i < CACHED; i++)
        if (constraint->cache[i].allowed && constraint->cache[i].key == key) {
            *out = &constraint->cache[i];
            return WEFT_OK;
        }
    cached_mask *entry = &constraint->cache[constraint->oldest];
    constraint->oldest = (constraint->oldest + 1) % CACHED;
    bool *allowed = entry->allowed ? entry->allowed : weft_malloc((size_t)tokens->vocab_size + 1);
    entry->allowed = NULL;
    if (!allowed)
        return weft__out_of_memory("constraint", NULL);
    const weft_status status = weft__tokens_mask(tokens, &constraint->machine, &constraint->stacks,
                                                 INT64_MAX, allowed, &entry->worst);
    if (status) {
        weft_free(allowed);
        return status;
    }
    entry->key = key;
    entry->allowed = allowed;
    *out = entry;
    return WEFT_OK;
}

weft_status weft_constraint_mask(weft_constraint *constraint, int64_t remaining, bool *allowed,
                                 int32_t n, bool *complete)
{
    const token_table *tokens = &constraint->language->tokens;
    const frame_list *stacks = &constraint->stacks;
    const cached_mask *mask = NULL;
    weft_status status = find_mask(constraint, &mask);
    if (status)
        return status;
    const int32_t known = n < tokens->vocab_size ? n : tokens->vocab_size;
    memset(allowed, 0, (size_t)n * sizeof *allowed);
    if (complete)
        *complete = weft_constraint_complete(constraint);
    /* If there are too few tokens to end the document anyway, every valid token is allowed. */
    if (mask->worst < remaining || weft__machine_distance(stacks->tops, stacks->n) > remaining) {
        memcpy(allowed, mask->allowed, (size_t)known * sizeof *allowed);
        return WEFT_OK;
    }
    bool *tight = weft_malloc((size_t)tokens->vocab_size + 1);
    int64_t worst;
    status = tight ? weft__tokens_mask(tokens, &constraint->machine, stacks, remaining - 1, tight,
                                       &worst)
                   : weft__out_of_memory("constraint", NULL);
    if (!status)
        memcpy(allowed, tight, (size_t)known * sizeof *allowed);
    weft_free(tight);
    return status;
}
