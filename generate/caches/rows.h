/* generate/caches/rows.h -- a cache of several sequences of different lengths: each in a row, or in
 * pages of its own (caches/pages.h).
 *
 * weft_cache_append then takes one token for each row, with its position. The count of tokens
 * (weft_cache_offset) stays as it was when the rows were created.
 */
#ifndef WEFT_GENERATE_CACHES_ROWS_H
#define WEFT_GENERATE_CACHES_ROWS_H

#include "generate/caches/pages.h"
#include "weft/cache.h"

/* Copies row `from` of `source` to row `row`. The first call creates n rows; `cache` is empty then.
 * WEFT_INVALID unless the two are alike (weft__cache_alike). */
weft_status weft__cache_put_row(weft_cache *cache, int64_t n, int64_t row, weft_cache *source,
                                int64_t from);

/* Makes room for `length` tokens in each row. */
weft_status weft__cache_reserve_rows(weft_cache *cache, int64_t length);

/* Keeps the n rows listed in `which`, in that order. */
weft_status weft__cache_keep_rows(weft_cache *cache, const int32_t *which, int64_t n);

/* Copies `length` tokens of row `from` of `source` to the pages of the list, but for its first
 * `first` ones. The first call creates all `pages`; otherwise as weft__cache_put_row. */
weft_status weft__cache_put_pages(weft_cache *cache, int64_t pages, const weft__page_list *list,
                                  int64_t first, weft_cache *source, int64_t from, int64_t length);

/* Sets the number of pages, unless there are none yet; those that remain keep their tokens. */
weft_status weft__cache_resize_pages(weft_cache *cache, int64_t pages);

#endif
