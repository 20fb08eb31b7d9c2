/* text/jinja/arena.c -- memory that is freed together. */
#include "text/jinja/arena.h"

#include <stdint.h>

#include "weft/memory.h"

enum { BLOCK_BYTES = 16 << 10, ALIGNMENT = 16 };

typedef struct arena_block {
    struct arena_block *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) char data[];
} arena_block;

void *weft__arena_take(weft__arena *arena, size_t size)
{
    if (size > SIZE_MAX / 4 || (arena->limit > 0 && size > arena->limit - arena->taken))
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    arena_block *block = arena->blocks;
    if (!block || size > block->capacity - block->used) {
        const size_t capacity = size > BLOCK_BYTES / 4 ? size : BLOCK_BYTES;
        arena_block *fresh = weft_calloc(1, sizeof *fresh + capacity);
        if (!fresh)
            return NULL;
        fresh->capacity = capacity;
        /* A large piece has a block of its own, behind the one that is being filled. */
        if (block && capacity == size) {
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->blocks = fresh;
        }
        block = fresh;
    }
    void *piece = block->data + block->used;
    block->used += size;
    arena->taken += size;
    if (arena->limit > 0 && arena->taken > arena->limit)
        arena->taken = arena->limit;
    return piece;
}

void weft__arena_release(weft__arena *arena)
{
    for (arena_block *block = arena->blocks; block;) {
        arena_block *next = block->next;
        weft_free(block);
        block = next;
    }
    arena->blocks = NULL;
    arena->taken = 0;
}
