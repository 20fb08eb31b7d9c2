/* generate/caches/pages.h -- pages of keys and values: which of a pool are in use, and by how many
 * sequences.
 *
 * A page has the slots of WEFT__PAGE tokens in every layer. Each layer has an array of all pages;
 * which page of it belongs to whom is the same in all of them.
 */
#ifndef WEFT_GENERATE_CACHES_PAGES_H
#define WEFT_GENERATE_CACHES_PAGES_H

#include "weft/array.h"

enum { WEFT__PAGE = 256 };

/* The pages of a sequence, in the order of its slots. */
typedef struct weft__page_list {
    int32_t *at;
    int64_t n;
} weft__page_list;

typedef struct weft__pages {
    int32_t *users; /* of each page, 0: it is free. Page 0 takes what rows without a sequence write,
                     * and is not counted below */
    int64_t n;      /* pages of the arrays, page 0 included */
    int64_t used;
    int64_t most; /* the budget; one sequence alone may exceed it */
} weft__pages;

/* The number of pages for so many slots. */
int64_t weft__pages_for(int64_t slots);
/* The number of pages to allocate for n of them: few different ones, since steps are compiled for
 * each. */
int64_t weft__pages_room(int64_t n);

/* Sets the number of pages of the arrays, which does not fall. */
weft_status weft__pages_resize(weft__pages *pages, int64_t n);
/* Extends a list to n pages by free ones, of which there are enough. Fails, and changes nothing,
 * when out of memory. */
weft_status weft__pages_take(weft__pages *pages, weft__page_list *list, int64_t n);
/* Makes an empty list the first n pages of another one, which both then use. */
weft_status weft__pages_share(weft__pages *pages, const weft__page_list *from, int64_t n,
                              weft__page_list *list);
/* Empties a list. */
void weft__pages_give(weft__pages *pages, weft__page_list *list);
/* How many of the list's first pages others use, too. */
int64_t weft__pages_shared(const weft__pages *pages, const weft__page_list *list);
/* No page is left. */
void weft__pages_clear(weft__pages *pages);

#endif
