/* core/list.h -- arrays that grow by one element at a time, without a field for the capacity. */
#ifndef WEFT_CORE_LIST_H
#define WEFT_CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for one more element after the first n of `list`, a pointer that only this function
 * allocates, NULL at first. False: out of memory; the list is unchanged. */
#define weft__list_more(list, n) weft__list_room(&(list), (size_t)(n), sizeof *(list))

/* The same, for the address of the pointer. The capacity follows from n: 8, then powers of 2. */
bool weft__list_room(void *list, size_t n, size_t size);

#endif
