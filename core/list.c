/* core/list.c -- arrays that grow by one element at a time. */
#include "core/list.h"

#include <stdint.h>
#include <string.h>

#include "weft/memory.h"

bool weft__list_room(void *list, size_t n, size_t size)
{
    enum { FIRST = 8 };
    void *at;
    if (n > 0 && (n < FIRST || (n & (n - 1)) != 0)) {
        return true;
    }
    const size_t capacity = n > 0 ? 2 * n : FIRST;
    memcpy(&at, list, sizeof at);
    void *moved =
        capacity > n && capacity <= SIZE_MAX / size ? weft_realloc(at, capacity * size) : NULL;
    if (moved) {
        memcpy(list, &moved, sizeof moved);
    }
    return moved != NULL;
}
