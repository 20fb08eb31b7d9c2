/* text/schema/index.c -- a hash index of numbers. */
#include "text/schema/index.h"

#include "core/failure.h"
#include "weft/memory.h"

int32_t weft__index_next(const schema_index *index, uint64_t hash, size_t *probe)
{
    while (*probe < index->size) {
        const schema_slot *slot = &index->slots[(hash + *probe) & (index->size - 1)];
        if (slot->number < 0)
            return -1;
        ++*probe;
        if (slot->hash == hash)
            return slot->number;
    }
    return -1;
}

static void put(schema_index *index, schema_slot slot)
{
    size_t at = slot.hash & (index->size - 1);
    while (index->slots[at].number >= 0)
        at = (at + 1) & (index->size - 1);
    index->slots[at] = slot;
}

weft_status weft__index_add(schema_index *index, uint64_t hash, int32_t number)
{
    if (2 * (index->n + 1) > index->size) {
        schema_index larger = {.size = index->size ? 2 * index->size : 64};
        larger.slots = weft_malloc(larger.size * sizeof *larger.slots);
        if (!larger.slots)
            return weft__out_of_memory("a schema", NULL);
        for (size_t i = 0; i < larger.size; i++)
            larger.slots[i] = (schema_slot){.number = -1};
        for (size_t i = 0; i < index->size; i++)
            if (index->slots[i].number >= 0)
                put(&larger, index->slots[i]);
        weft_free(index->slots);
        index->slots = larger.slots;
        index->size = larger.size;
    }
    put(index, (schema_slot){hash, number});
    index->n++;
    return WEFT_OK;
}

void weft__index_release(schema_index *index)
{
    weft_free(index->slots);
    *index = (schema_index){0};
}
