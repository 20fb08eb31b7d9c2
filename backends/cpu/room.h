/* backends/cpu/room.h -- allocates parts of a workspace one after another. */
#ifndef BACKENDS_CPU_ROOM_H
#define BACKENDS_CPU_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* With base NULL only the bytes are counted. */
typedef struct cpu_workspace_rest {
    char *base;
    int64_t used;
} cpu_workspace_rest;

/* The next `count` elements of `size` bytes, aligned like the workspace. */
static inline void *weft__cpu_workspace_take(cpu_workspace_rest *room, int64_t count, size_t size)
{
    void *at = room->base ? room->base + room->used : NULL;
    room->used += (count * (int64_t)size + 63) / 64 * 64;
    return at;
}

#endif
