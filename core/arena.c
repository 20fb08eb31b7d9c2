/* core/arena.c -- memory that is freed all at once. */
#include "core/arena.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "weft/memory.h"

enum { BLOCK_BYTES = 1 << 16, BLOCKS_KEPT = 64, ALIGNMENT = 16 };

typedef struct weft__arena_block {
    struct weft__arena_block *next;
    size_t size;
    _Alignas(ALIGNMENT) char bytes[];
} block;

/* Blocks of released arenas, kept for reuse because the system zeroes fresh memory page by page. */
static struct {
    pthread_mutex_t lock;
    block *blocks;
    int n;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((destructor)) static void free_kept(void)
{
    pthread_mutex_lock(&kept.lock);
    while (kept.blocks) {
        block *next = kept.blocks->next;
        weft_free(kept.blocks);
        kept.blocks = next;
    }
    kept.n = BLOCKS_KEPT; /* blocks that are released later are freed at once */
    pthread_mutex_unlock(&kept.lock);
}

static block *take_block(size_t size)
{
    block *b = NULL;
    if (size <= BLOCK_BYTES) {
        size = BLOCK_BYTES;
        pthread_mutex_lock(&kept.lock);
        b = kept.blocks;
        if (b) {
            kept.blocks = b->next;
            kept.n--;
        }
        pthread_mutex_unlock(&kept.lock);
    }
    if (!b) {
        b = weft_malloc(sizeof *b + size);
    }
    if (b) {
        b->size = size;
    }
    return b;
}

static void give_back_block(block *b)
{
    pthread_mutex_lock(&kept.lock);
    const bool keep = b->size == BLOCK_BYTES && kept.n < BLOCKS_KEPT;
    if (keep) {
        b->next = kept.blocks;
        kept.blocks = b;
        kept.n++;
    }
    pthread_mutex_unlock(&kept.lock);
    if (!keep) {
        weft_free(b);
    }
}

/* An allocation of at least a quarter of a block gets its own block, so that the rest of the
 * current block is not wasted. */
static void *from_new_block(weft__arena *arena, size_t size)
{
    const size_t rest = arena->free ? (size_t)(arena->end - arena->free) : 0;
    block *b = take_block(size);
    if (!b) {
        return NULL;
    }
    b->next = arena->blocks;
    arena->blocks = b;
    if (rest < b->size - size) {
        arena->free = b->bytes + size;
        arena->end = b->bytes + b->size;
    }
    return b->bytes;
}

void *weft__arena_take_slowly(weft__arena *arena, size_t size)
{
    if (size > SIZE_MAX / 4 || (arena->limit && size > arena->limit - arena->taken)) {
        return NULL;
    }
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *piece = arena->free;
    if (piece && (size_t)(arena->end - arena->free) >= size) {
        arena->free += size;
    } else {
        piece = from_new_block(arena, size);
    }
    if (piece && arena->limit) {
        const size_t left = arena->limit - arena->taken;
        arena->taken += size < left ? size : left;
    }
    return piece;
}

void *weft__arena_take_zeroed(weft__arena *arena, size_t size)
{
    void *piece = weft__arena_take(arena, size);
    return piece ? memset(piece, 0, size) : NULL;
}

void weft__arena_release(weft__arena *arena)
{
    while (arena->blocks) {
        block *next = arena->blocks->next;
        give_back_block(arena->blocks);
        arena->blocks = next;
    }
    *arena = (weft__arena){.limit = arena->limit};
}
