/* text/schema/machine.c -- stacks of frames: making them, stepping, choices that exclude each
 * other, literals and numbers. */
#include "text/schema/machine.h"

#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

enum { BLOCK_BYTES = 1 << 16, MAX_STACKS = 4096, MAX_DEPTH = 10000 };

/* ---- memory --------------------------------------------------------------------------------- */

void *weft__machine_allocate(machine *m, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (!m->block || m->block->size - m->block->used < size) {
        const size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        frame_block *block = weft_malloc(sizeof *block + room);
        if (!block) {
            m->status = weft__out_of_memory(m->schema->doc.name, NULL);
            return NULL;
        }
        *block = (frame_block){.before = m->block, .size = room};
        m->block = block;
    }
    void *data = m->block->data + m->block->used;
    m->block->used += size;
    return data;
}

frame_mark weft__machine_mark(const machine *m)
{
    return (frame_mark){m->block, m->block ? m->block->used : 0};
}

void weft__machine_release(machine *m, frame_mark mark)
{
    while (m->block != mark.block) {
        frame_block *before = m->block->before;
        weft_free(m->block);
        m->block = before;
    }
    if (m->block)
        m->block->used = mark.used;
}

void weft__machine_open(machine *m, const weft__schema *schema)
{
    *m = (machine){.schema = schema};
}

void weft__machine_close(machine *m)
{
    weft__machine_release(m, (frame_mark){0});
    weft_free(m->out.tops);
    weft_free(m->finished.tops);
    weft_free(m->pending.tops);
    *m = (machine){0};
}

weft_status weft__frames_append(frame_list *out, const frame *const *tops, size_t n)
{
    void *data = out->tops;
    const weft_status status =
        weft__bytes_grow(&data, &out->capacity, out->n, n, sizeof *out->tops);
    out->tops = data;
    if (status || n == 0)
        return status;
    memcpy(out->tops + out->n, tops, n * sizeof *tops);
    out->n += n;
    return WEFT_OK;
}

static void append(machine *m, frame_list *out, const frame *top)
{
    if (!top || m->status)
        return;
    if (out->n >= MAX_STACKS)
        m->status = weft_fail(WEFT_UNSUPPORTED, "%s: the schema leaves too many choices open",
                              m->schema->doc.name);
    else
        m->status = weft__frames_append(out, &top, 1);
}

/* ---- frames --------------------------------------------------------------------------------- */

static uint64_t hash_object(uint64_t hash, const frame *f, const weft__schema *schema)
{
    const object_part *o = &f->as.object;
    hash = weft__mix(hash, (uint64_t)o->state.count);
    hash = weft__mix(hash, (uint64_t)o->low << 32 | (uint32_t)o->high);
    hash = weft__mix(hash, (uint64_t)o->at << 32 | (uint32_t)o->node);
    hash = weft__mix(hash, o->key_hash);
    hash = weft__mix(hash, (uint64_t)o->character << 32 | o->missing);
    const size_t words = (schema->choices[f->choice].n_properties + 63) / 64;
    for (size_t i = 0; i < words; i++)
        hash = weft__mix(hash, o->state.seen[i]);
    for (const extra_key *e = o->extras; e; e = e->next)
        hash = weft__mix(hash, e->hash);
    return hash;
}

static uint64_t hash_frame(const frame *f, const weft__schema *schema)
{
    /* In bits of their own: what is mixed first must not cancel out what comes second. */
    uint64_t hash = weft__mix(0, (uint64_t)f->kind << 48 | (uint64_t)f->phase << 40 |
                                     (uint64_t)f->blank << 32 | (uint32_t)f->choice);
    switch ((frame_kind)f->kind) {
    case FRAME_DONE:
    case FRAME_ROOT:
        break;
    case FRAME_GUARD:
        hash = weft__mix(hash, (uint64_t)f->as.tag.group << 32 | (uint32_t)f->as.tag.branch);
        break;
    case FRAME_LITERAL:
        hash = weft__mix(hash, (uint64_t)(uintptr_t)f->as.literal.text);
        hash = weft__mix(hash, (uint64_t)f->as.literal.at);
        break;
    case FRAME_NUMBER:
        hash = weft__mix(hash, (uint64_t)f->as.number.digits);
        hash = weft__mix(
            hash, (uint64_t)f->as.number.phase << 32 | (uint64_t)f->as.number.negative << 24 |
                      (uint64_t)f->as.number.n_whole << 16 |
                      (uint64_t)f->as.number.n_fraction << 8 | (uint64_t)f->as.number.n_exponent);
        break;
    case FRAME_STRING:
        hash = weft__mix(hash, (uint64_t)f->as.string.length);
        hash = weft__mix(hash, (uint64_t)(uint32_t)f->as.string.state);
        hash = weft__mix(hash, (uint64_t)f->as.string.value << 32 | f->as.string.missing);
        break;
    case FRAME_ARRAY:
        hash = weft__mix(hash, (uint64_t)f->as.count);
        break;
    case FRAME_OBJECT:
        hash = hash_object(hash, f, schema);
        break;
    }
    return f->parent ? weft__mix(hash, f->parent->hash) : hash;
}

const frame *weft__machine_push(machine *m, frame f)
{
    if (f.rest >= SCHEMA_NEVER || m->status)
        return NULL;
    frame *out = weft__machine_allocate(m, sizeof *out);
    if (!out)
        return NULL;
    if (f.parent) {
        f.depth = f.parent->depth + 1;
        f.rest += f.parent->rest;
    }
    f.hash = hash_frame(&f, m->schema);
    *out = f;
    return f.depth < MAX_DEPTH ? out : NULL;
}

void weft__machine_emit(machine *m, const frame *top)
{
    if (!top)
        return;
    for (size_t i = 0; i < m->out.n; i++)
        if (m->out.tops[i]->hash == top->hash)
            return;
    append(m, &m->out, top);
}

void weft__machine_complete(machine *m, const frame *parent)
{
    append(m, &m->finished, parent);
}

/* ---- oneOf ---------------------------------------------------------------------------------- */

/* Whether another branch of the same oneOf has been completed at the same place. */
static bool ambiguous(const frame_list *list, const frame *guard)
{
    for (size_t i = 0; i < list->n; i++) {
        const frame *other = list->tops[i];
        if (other->kind == FRAME_GUARD && other->as.tag.group == guard->as.tag.group &&
            other->as.tag.branch != guard->as.tag.branch &&
            other->parent->hash == guard->parent->hash)
            return true;
    }
    return false;
}

/* Takes the guards off the values that are complete, innermost first; of those that completed
 * several branches of a oneOf none is left. */
static void resolve(machine *m)
{
    frame_list *list = &m->finished;
    for (;;) {
        int32_t depth = -1;
        for (size_t i = 0; i < list->n; i++)
            if (list->tops[i]->kind == FRAME_GUARD && list->tops[i]->depth > depth)
                depth = list->tops[i]->depth;
        if (depth < 0)
            return;
        m->pending.n = 0;
        for (size_t i = 0; i < list->n; i++) {
            const frame *top = list->tops[i];
            if (top->kind != FRAME_GUARD || top->depth != depth)
                append(m, &m->pending, top);
            else if (!ambiguous(list, top))
                append(m, &m->pending, top->parent);
        }
        const frame_list swapped = m->pending;
        m->pending = *list;
        *list = swapped;
        if (m->status)
            return;
    }
}

/* ---- literals and numbers ------------------------------------------------------------------- */

static void literal_begin(machine *m, int choice, const char *text, const frame *parent)
{
    const int32_t length = (int32_t)strlen(text);
    const bool is_number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
    if (length == 1 && !is_number) {
        weft__machine_complete(m, parent);
        return;
    }
    weft__machine_emit(
        m, weft__machine_push(
               m, (frame){.kind = FRAME_LITERAL,
                          .choice = choice,
                          .parent = parent,
                          .rest = length - 1,
                          .as.literal = {
                              .text = text, .length = length, .at = 1, .is_number = is_number}}));
}

static void literal_step(machine *m, const frame *top, unsigned char byte)
{
    frame f = *top;
    literal_part *l = &f.as.literal;
    if (l->at == l->length || (unsigned char)l->text[l->at] != byte)
        return;
    l->at++;
    if (l->at == l->length && !l->is_number) {
        weft__machine_complete(m, top->parent);
        return;
    }
    f.rest = l->length - l->at;
    weft__machine_emit(m, weft__machine_push(m, f));
}

static void number_step(machine *m, int choice, number_prefix prefix, unsigned char byte,
                        const frame *parent)
{
    const schema_choice *c = &m->schema->choices[choice];
    if (!weft__number_step(c, &prefix, (char)byte))
        return;
    weft__machine_emit(m, weft__machine_push(m, (frame){.kind = FRAME_NUMBER,
                                                        .choice = choice,
                                                        .parent = parent,
                                                        .rest = weft__number_distance(c, &prefix),
                                                        .as.number = prefix}));
}

/* Whether a frame's value is complete if what follows does not belong to it. */
static bool may_end(const machine *m, const frame *top)
{
    if (top->kind == FRAME_NUMBER)
        return weft__number_ends(&m->schema->choices[top->choice], &top->as.number);
    return top->kind == FRAME_LITERAL && top->as.literal.is_number &&
           top->as.literal.at == top->as.literal.length;
}

/* ---- values --------------------------------------------------------------------------------- */

static void choice_begin(machine *m, int number, unsigned char byte, const frame *parent)
{
    const unsigned types = m->schema->choices[number].types;
    if (byte == '"' && types & SCHEMA_STRING)
        weft__string_begin(m, number, parent);
    else if (byte == '{' && types & SCHEMA_OBJECT)
        weft__object_begin(m, number, parent);
    else if (byte == '[' && types & SCHEMA_ARRAY)
        weft__array_begin(m, number, parent);
    else if (byte == 'n' && types & SCHEMA_NULL)
        literal_begin(m, number, "null", parent);
    else if (byte == 't' && types & SCHEMA_BOOLEAN)
        literal_begin(m, number, "true", parent);
    else if (byte == 'f' && types & SCHEMA_BOOLEAN)
        literal_begin(m, number, "false", parent);
    else if ((byte == '-' || (byte >= '0' && byte <= '9')) &&
             types & (SCHEMA_INTEGER | SCHEMA_NUMBER))
        number_step(m, number, (number_prefix){0}, byte, parent);
}

void weft__machine_value(machine *m, int node, unsigned char byte, const frame *parent)
{
    const schema_node *n = &m->schema->nodes[node];
    for (size_t i = n->first; i < n->first + n->n_choices && !m->status; i++) {
        const schema_choice *c = &m->schema->choices[i];
        if (c->least >= SCHEMA_NEVER)
            continue;
        const frame *below = parent;
        for (size_t j = 0; j < c->n_tags && below; j++)
            below = weft__machine_push(
                m, (frame){.kind = FRAME_GUARD, .parent = below, .as.tag = c->tags[j]});
        if (!below)
            return;
        if (!c->enumerated)
            choice_begin(m, (int)i, byte, below);
        for (size_t j = 0; j < c->n_literals; j++)
            if ((unsigned char)c->literals[j][0] == byte)
                literal_begin(m, (int)i, c->literals[j], below);
    }
}

bool weft__machine_blank(unsigned char *blank, unsigned char byte)
{
    enum { NONE, SPACE, LINE, LAST = LINE + 32 };
    if (byte == '\n' && *blank == NONE)
        *blank = LINE;
    else if (byte == ' ' && *blank == NONE)
        *blank = SPACE;
    else if ((byte == ' ' || byte == '\t') && *blank >= LINE && *blank < LAST)
        ++*blank;
    else
        return false;
    return true;
}

/* ---- stepping ------------------------------------------------------------------------------- */

static const frame *done(machine *m)
{
    return weft__machine_push(m, (frame){.kind = FRAME_DONE});
}

const frame *weft__machine_start(machine *m)
{
    const frame *below = done(m);
    return below ? weft__machine_push(m, (frame){.kind = FRAME_ROOT,
                                                 .choice = -1,
                                                 .parent = below,
                                                 .rest = m->schema->nodes[0].least})
                 : NULL;
}

const frame *weft__machine_start_choice(machine *m, int choice)
{
    const frame *below = done(m);
    return below ? weft__machine_push(
                       m, (frame){.kind = FRAME_ROOT, .choice = choice, .parent = below})
                 : NULL;
}

static void feed(machine *m, const frame *top, unsigned char byte)
{
    switch ((frame_kind)top->kind) {
    case FRAME_DONE:
    case FRAME_GUARD:
        break;
    case FRAME_ROOT:
        if (top->choice < 0)
            weft__machine_value(m, 0, byte, top->parent);
        else
            choice_begin(m, top->choice, byte, top->parent);
        break;
    case FRAME_LITERAL:
        literal_step(m, top, byte);
        break;
    case FRAME_NUMBER:
        number_step(m, top->choice, top->as.number, byte, top->parent);
        break;
    case FRAME_STRING:
        weft__string_step(m, top, byte);
        break;
    case FRAME_ARRAY:
        weft__array_step(m, top, byte);
        break;
    case FRAME_OBJECT:
        weft__object_step(m, top, byte);
        break;
    }
}

void weft__machine_step(machine *m, const frame *const *tops, size_t n, unsigned char byte)
{
    m->out.n = m->finished.n = 0;
    if (byte == ',' || byte == ']' || byte == '}' || byte == ' ' || byte == '\n')
        for (size_t i = 0; i < n; i++)
            if (may_end(m, tops[i]))
                append(m, &m->finished, tops[i]->parent);
    if (m->finished.n > 0) {
        resolve(m);
        frame_list ended = m->finished;
        m->finished = (frame_list){0};
        for (size_t i = 0; i < ended.n && !m->status; i++)
            feed(m, ended.tops[i], byte);
        weft_free(ended.tops);
    }
    for (size_t i = 0; i < n && !m->status; i++)
        feed(m, tops[i], byte);
    resolve(m);
    for (size_t i = 0; i < m->finished.n; i++)
        weft__machine_emit(m, m->finished.tops[i]);
    if (m->status)
        m->out.n = 0;
}

bool weft__machine_ends(machine *m, const frame *const *tops, size_t n)
{
    m->finished.n = 0;
    for (size_t i = 0; i < n; i++) {
        if (tops[i]->kind == FRAME_DONE)
            return true;
        if (may_end(m, tops[i]))
            append(m, &m->finished, tops[i]->parent);
    }
    resolve(m);
    for (size_t i = 0; i < m->finished.n; i++)
        if (m->finished.tops[i]->kind == FRAME_DONE)
            return !m->status;
    return false;
}

int64_t weft__machine_distance(const frame *const *tops, size_t n)
{
    int64_t least = SCHEMA_NEVER;
    for (size_t i = 0; i < n; i++)
        if (tops[i]->rest < least)
            least = tops[i]->rest;
    return least;
}
