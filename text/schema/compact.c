/* text/schema/compact.c -- frees frames that no stack needs any more, by copying the others. */
#include <string.h>

#include "text/schema/machine.h"
#include "weft/memory.h"

/* Marks an old frame that has been copied; its `parent` then points to the copy. */
enum { COPIED = 255 };

static const extra_key *copy_keys(machine *m, const extra_key *from)
{
    const extra_key *first = NULL;
    for (const extra_key **at = &first; from; from = from->next) {
        extra_key *key = weft__machine_allocate(m, sizeof *key);
        char *text = weft__machine_allocate(m, (size_t)from->length + 1);
        if (!key || !text)
            return NULL;
        memcpy(text, from->text, (size_t)from->length);
        *key = (extra_key){
            .hash = from->hash, .text = text, .length = from->length, .keys = from->keys};
        *at = key;
        at = &key->next;
    }
    return first;
}

static const key_byte *copy_bytes(machine *m, const key_byte *from)
{
    const key_byte *first = NULL;
    for (const key_byte **at = &first; from; from = from->before) {
        key_byte *copy = weft__machine_allocate(m, sizeof *copy);
        if (!copy)
            return NULL;
        *copy = (key_byte){.byte = from->byte};
        *at = copy;
        at = &copy->before;
    }
    return first;
}

static bool copy_object(machine *m, frame *f)
{
    object_part *o = &f->as.object;
    const size_t words = weft__seen_words(&m->schema->choices[f->choice]);
    uint64_t *bits = weft__machine_allocate(m, words * sizeof *bits);
    if (!bits)
        return false;
    memcpy(bits, o->state.seen, words * sizeof *bits);
    o->state.seen = bits;
    o->state.extras = copy_keys(m, o->state.extras);
    o->alike = copy_keys(m, o->alike);
    o->bytes = copy_bytes(m, o->bytes);
    return !m->status;
}

/* Copies a frame whose parent has been copied. */
static bool copy_frame(machine *m, frame *old)
{
    frame *out = weft__machine_allocate(m, sizeof *out);
    if (!out)
        return false;
    *out = *old;
    if (old->parent)
        out->parent = old->parent->parent;
    if (out->kind == FRAME_OBJECT && !copy_object(m, out))
        return false;
    old->kind = COPIED;
    old->parent = out;
    return true;
}

/* Copies the rest of a stack, from the bottom; the frames belong to the machine. */
static bool copy_stack(machine *m, const frame **top)
{
    const frame *pending = *top;
    while (pending->kind != COPIED) {
        const frame *lowest = pending;
        while (lowest->parent && lowest->parent->kind != COPIED)
            lowest = lowest->parent;
        if (!copy_frame(m, (frame *)lowest))
            return false;
    }
    *top = pending->parent;
    return true;
}

bool weft__machine_compact(machine *m, frame_list *stacks)
{
    machine old = {.block = m->block};
    m->block = NULL;
    bool copied = true;
    for (size_t i = 0; i < stacks->n && copied; i++)
        copied = copy_stack(m, &stacks->tops[i]);
    weft__machine_release(&old, (frame_mark){0});
    if (!copied)
        stacks->n = 0;
    return copied;
}
