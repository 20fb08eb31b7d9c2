/* core/arena.h -- memory that is freed all at once, allocated from a list of blocks. Zero the
 * struct first; a limit may be set then. One thread at a time may use an arena. */
#ifndef WEFT_CORE_ARENA_H
#define WEFT_CORE_ARENA_H

#include <stddef.h>

typedef struct weft__arena {
    struct weft__arena_block *blocks;
    char *free, *end;    /* the rest of the current block */
    size_t taken, limit; /* bytes; `taken` is counted only when there is a limit, 0: no limit */
} weft__arena;

void *weft__arena_take_slowly(weft__arena *arena, size_t size);

/* Allocates `size` bytes, not zeroed, aligned to 16. NULL: out of memory, or the limit is reached.
 */
static inline void *weft__arena_take(weft__arena *arena, size_t size)
{
    const size_t rounded = (size + 15) / 16 * 16;
    if (arena->limit || rounded < size || !arena->free ||
        (size_t)(arena->end - arena->free) < rounded) {
        return weft__arena_take_slowly(arena, size);
    }
    void *piece = arena->free;
    arena->free += rounded;
    return piece;
}

/* The same, zeroed. */
void *weft__arena_take_zeroed(weft__arena *arena, size_t size);

/* Frees all of it. The arena is empty afterwards and keeps its limit. */
void weft__arena_release(weft__arena *arena);

#endif
