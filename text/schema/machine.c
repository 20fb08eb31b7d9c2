/* text/schema/machine.c -- stacks of frames: creating and stepping them; literals and numbers. */
#include "text/schema/machine.h"

#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

enum { BLOCK_BYTES = 1 << 16, MAX_STACKS = MACHINE_SLOTS / 4, MAX_DEPTH = 10000 };

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

/* If there are too many stacks, those with the longest distance to the end are dropped. */
static void append(machine *m, frame_list *out, const frame *top)
{
    if (!top || m->status)
        return;
    if (out->n < MAX_STACKS) {
        m->status = weft__frames_append(out, &top, 1);
        return;
    }
    size_t worst = 0;
    for (size_t i = 1; i < out->n; i++)
        if (out->tops[i]->rest > out->tops[worst]->rest)
            worst = i;
    if (top->rest < out->tops[worst]->rest)
        out->tops[worst] = top;
}

/* ---- frames --------------------------------------------------------------------------------- */

static uint64_t hash_object(uint64_t hash, const frame *f, const weft__schema *schema)
{
    const object_part *o = &f->as.object;
    hash = weft__mix(hash, (uint64_t)o->state.count);
    hash = weft__mix(hash, (uint64_t)o->low << 32 | (uint32_t)o->high);
    hash = weft__mix(hash, (uint64_t)o->at << 32 | (uint32_t)o->node);
    hash = weft__mix(hash, o->key_hash);
    hash = weft__mix(hash, (uint64_t)o->keys);
    hash = weft__mix(hash, (uint64_t)o->character << 32 | o->missing);
    const schema_choice *c = &schema->choices[f->choice];
    hash = weft__mix(hash, c->ordered ? (uint64_t)o->state.next : 0);
    const size_t words = weft__seen_words(c);
    for (size_t i = 0; i < words; i++)
        hash = weft__mix(hash, o->state.seen[i]);
    for (const extra_key *e = o->state.extras; e; e = e->next)
        hash = weft__mix(hash, e->hash);
    return hash;
}

static uint64_t hash_frame(const frame *f, const weft__schema *schema)
{
    /* The fields occupy separate bits, so that they cannot cancel out. */
    uint64_t hash = weft__mix(0, (uint64_t)f->kind << 48 | (uint64_t)f->phase << 40 |
                                     (uint64_t)f->blank << 32 | (uint32_t)f->choice);
    switch ((frame_kind)f->kind) {
    case FRAME_DONE:
    case FRAME_ROOT:
        break;
    case FRAME_LITERAL:
        hash = weft__mix(hash, (uint64_t)(uintptr_t)f->as.literal.list);
        hash = weft__mix(hash, (uint64_t)f->as.literal.low << 32 | (uint32_t)f->as.literal.high);
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
        hash = weft__mix(hash, f->as.string.mark);
        break;
    case FRAME_ARRAY:
        hash = weft__mix(hash, (uint64_t)f->as.array.count << 32 | f->as.array.found);
        hash = weft__mix(hash, f->as.array.used);
        for (int i = 0; schema->choices[f->choice].distinct && i < SCHEMA_DISTINCT; i++)
            hash = weft__mix(hash, f->as.array.marks[i]);
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
    size_t slot = top->hash % MACHINE_SLOTS;
    for (; m->slots[slot].step == m->step; slot = (slot + 1) % MACHINE_SLOTS)
        if (m->slots[slot].hash == top->hash)
            return;
    if (m->out.n < MAX_STACKS)
        m->slots[slot] = (machine_slot){top->hash, m->step};
    append(m, &m->out, top);
}

void weft__machine_complete(machine *m, const frame *parent)
{
    append(m, &m->finished, parent);
}

/* ---- literals and numbers ------------------------------------------------------------------- */

/* Whether the literal is a number, whose end is known only from the next byte. */
static bool is_number(const char *text)
{
    return text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
}

/* The first of low .. high - 1, which share `at` bytes, whose next byte is `byte` or more. */
static int32_t find_byte(const literal_part *l, int byte)
{
    int32_t low = l->low, high = l->high;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if ((unsigned char)l->list[middle][l->at] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether one of the literals has been read completely: the first one, if any. */
static bool is_spelled(const literal_part *l)
{
    return l->low < l->high && l->list[l->low][l->at] == '\0';
}

static void literal_step(machine *m, frame f, unsigned char byte)
{
    literal_part *l = &f.as.literal;
    if (byte == '\0')
        return;
    const int32_t low = find_byte(l, byte);
    l->high = find_byte(l, byte + 1);
    l->low = low;
    l->at++;
    if (is_spelled(l) && !is_number(l->list[l->low])) {
        weft__machine_complete(m, f.parent);
        return;
    }
    f.rest = SCHEMA_NEVER;
    for (int32_t i = l->low; i < l->high; i++) {
        const int64_t rest = (int64_t)strlen(l->list[i] + l->at);
        if (rest < f.rest)
            f.rest = rest;
    }
    weft__machine_emit(m, weft__machine_push(m, f));
}

void weft__machine_literal(machine *m, int choice, const char *const *list, size_t n,
                           unsigned char byte, const frame *parent)
{
    literal_step(m,
                 (frame){.kind = FRAME_LITERAL,
                         .choice = choice,
                         .parent = parent,
                         .as.literal = {.list = list, .high = (int32_t)n}},
                 byte);
}

/* The mark of an integer as an element that must differ from others; -0 is 0. */
static uint64_t mark_number(const number_prefix *prefix)
{
    const bool negative = prefix->negative && prefix->digits > 0;
    return weft__mix(1, (uint64_t)prefix->digits << 1 | negative);
}

static bool is_repeated(const machine *m, const frame *parent, const number_prefix *prefix)
{
    return weft__array_is_distinct(m, parent) && weft__array_has(parent, mark_number(prefix));
}

static void number_step(machine *m, int choice, number_prefix prefix, unsigned char byte,
                        const frame *parent)
{
    const schema_choice *c = &m->schema->choices[choice];
    if (!weft__number_step(c, &prefix, (char)byte))
        return;
    int64_t rest = weft__number_distance(c, &prefix);
    if (rest == 0 && is_repeated(m, parent, &prefix)) {
        number_prefix longer = prefix;
        rest = weft__number_step(c, &longer, '1') ? 1 : SCHEMA_NEVER;
    }
    weft__machine_emit(m, weft__machine_push(m, (frame){.kind = FRAME_NUMBER,
                                                        .choice = choice,
                                                        .parent = parent,
                                                        .rest = rest,
                                                        .as.number = prefix}));
}

/* Whether a frame's value is complete if the next byte does not belong to it. */
static bool may_end(const machine *m, const frame *top)
{
    if (top->kind == FRAME_NUMBER)
        return weft__number_ends(&m->schema->choices[top->choice], &top->as.number) &&
               !is_repeated(m, top->parent, &top->as.number);
    return top->kind == FRAME_LITERAL && is_spelled(&top->as.literal) &&
           is_number(top->as.literal.list[top->as.literal.low]);
}

/* The parent of a number or a literal that has ended. */
static const frame *after_number(machine *m, const frame *top)
{
    return top->kind == FRAME_NUMBER && weft__array_is_distinct(m, top->parent)
               ? weft__array_mark(m, top->parent, mark_number(&top->as.number))
               : top->parent;
}

/* ---- values --------------------------------------------------------------------------------- */

static void choice_begin(machine *m, int number, unsigned char byte, const frame *parent)
{
    static const char *const words[] = {"false", "null", "true"};
    const unsigned types = m->schema->choices[number].types;
    if (byte == '"' && types & SCHEMA_STRING)
        weft__string_begin(m, number, parent);
    else if (byte == '{' && types & SCHEMA_OBJECT)
        weft__object_begin(m, number, parent);
    else if (byte == '[' && types & SCHEMA_ARRAY)
        weft__array_begin(m, number, parent);
    else if (byte == 'f' && types & SCHEMA_FALSE)
        weft__machine_literal(m, number, words, 1, byte, parent);
    else if (byte == 'n' && types & SCHEMA_NULL)
        weft__machine_literal(m, number, words + 1, 1, byte, parent);
    else if (byte == 't' && types & SCHEMA_TRUE)
        weft__machine_literal(m, number, words + 2, 1, byte, parent);
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
        if (c->enumerated)
            weft__machine_literal(m, (int)i, (const char *const *)c->literals, c->n_literals, byte,
                                  parent);
        else
            choice_begin(m, (int)i, byte, parent);
    }
}

bool weft__machine_blank(frame *f, unsigned char byte)
{
    enum { NONE, SPACE, LINE, PER_LEVEL = 4, MOST = 32 };
    const int indent = f->depth < MOST / PER_LEVEL ? f->depth * PER_LEVEL : MOST;
    if (byte == '\n' && f->blank == NONE)
        f->blank = LINE;
    else if (byte == ' ' && f->blank == NONE)
        f->blank = SPACE;
    else if ((byte == ' ' || byte == '\t') && f->blank >= LINE && f->blank < LINE + indent)
        f->blank++;
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
                                                 .parent = below,
                                                 .rest = m->schema->nodes[0].least})
                 : NULL;
}

static void feed(machine *m, const frame *top, unsigned char byte)
{
    switch ((frame_kind)top->kind) {
    case FRAME_DONE:
        break;
    case FRAME_ROOT:
        weft__machine_value(m, 0, byte, top->parent);
        break;
    case FRAME_LITERAL:
        literal_step(m, *top, byte);
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
    m->step++;
    if (byte == ',' || byte == ']' || byte == '}' || byte == ' ' || byte == '\n')
        for (size_t i = 0; i < n; i++)
            if (may_end(m, tops[i]))
                append(m, &m->finished, after_number(m, tops[i]));
    if (m->finished.n > 0) {
        frame_list ended = m->finished;
        m->finished = (frame_list){0};
        for (size_t i = 0; i < ended.n && !m->status; i++)
            feed(m, ended.tops[i], byte);
        weft_free(ended.tops);
    }
    for (size_t i = 0; i < n && !m->status; i++)
        feed(m, tops[i], byte);
    for (size_t i = 0; i < m->finished.n; i++)
        weft__machine_emit(m, m->finished.tops[i]);
    if (m->status)
        m->out.n = 0;
}

bool weft__machine_ends(const machine *m, const frame *const *tops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tops[i]->kind == FRAME_DONE ||
            (may_end(m, tops[i]) && tops[i]->parent->kind == FRAME_DONE))
            return true;
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
