/* backends/cpu/room.h -- parts of a workspace, given out one after another. */
#ifndef BACKENDS_CPU_ROOM_H
#define BACKENDS_CPU_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* With base NULL only the bytes are counted. */
typedef struct cpu_room {
    char *base;
    int64_t used;
} cpu_room;

/* The next `count` elements of `size` bytes, aligned as the workspace is. */
static inline void *weft__cpu_give_room(cpu_room *room, int64_t count, size_t size)
{
    void *at = room->base ? room->base + room->used : NULL;
    room->used += (count * (int64_t)size + 63) / 64 * 64;
    return at;
}

#endif
