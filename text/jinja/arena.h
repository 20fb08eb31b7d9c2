/* text/jinja/arena.h -- memory that is freed together, up to a limit. Zeroed but for the limit it
 * is empty. */
#ifndef WEFT_TEXT_JINJA_ARENA_H
#define WEFT_TEXT_JINJA_ARENA_H

#include <stddef.h>

struct arena_block;

typedef struct weft__arena {
    struct arena_block *blocks;
    size_t taken, limit; /* bytes; no limit: 0 */
} weft__arena;

/* Zeroed memory, aligned for every type; NULL when there is none or the limit is reached. */
void *weft__arena_take(weft__arena *arena, size_t size);
void weft__arena_release(weft__arena *arena);

#endif
