/* generate/caches/pages.c -- which pages of a pool are in use. */
#include "generate/caches/pages.h"

#include <string.h>

#include "core/failure.h"

int64_t weft__pages_for(int64_t slots)
{
    return (slots + WEFT__PAGE - 1) / WEFT__PAGE;
}

/* Powers of two up to 16, then multiples of an eighth of the last one, or of 4. */
int64_t weft__pages_room(int64_t n)
{
    enum { FIRST = 2, DOUBLED = 16, LEAST = 4 };
    int64_t power = FIRST;
    while (2 * power <= n)
        power *= 2;
    const int64_t step = power < DOUBLED ? power : power / 8 < LEAST ? LEAST : power / 8;
    return n <= power ? power : (n + step - 1) / step * step;
}

weft_status weft__pages_resize(weft__pages *pages, int64_t n)
{
    if (n <= pages->n)
        return WEFT_OK;
    int32_t *users = weft_realloc(pages->users, (size_t)n * sizeof *users);
    if (users == NULL)
        return weft__out_of_memory("generate", "pages");
    memset(users + pages->n, 0, (size_t)(n - pages->n) * sizeof *users);
    users[0] = 1;
    pages->users = users;
    pages->n = n;
    return WEFT_OK;
}

static bool has_room(weft__page_list *list, int64_t n)
{
    int32_t *at = weft_realloc(list->at, (size_t)(n + 1) * sizeof *at);
    list->at = at ? at : list->at;
    return at != NULL;
}

weft_status weft__pages_take(weft__pages *pages, weft__page_list *list, int64_t n)
{
    if (n <= list->n)
        return WEFT_OK;
    if (!has_room(list, n))
        return weft__out_of_memory("generate", "pages");
    for (int64_t i = 1; i < pages->n && list->n < n; i++) {
        if (pages->users[i] == 0) {
            pages->users[i] = 1;
            pages->used++;
            list->at[list->n++] = (int32_t)i;
        }
    }
    return WEFT_OK;
}

weft_status weft__pages_share(weft__pages *pages, const weft__page_list *from, int64_t n,
                              weft__page_list *list)
{
    if (!has_room(list, n))
        return weft__out_of_memory("generate", "pages");
    for (; list->n < n; list->n++) {
        list->at[list->n] = from->at[list->n];
        pages->users[list->at[list->n]]++;
    }
    return WEFT_OK;
}

void weft__pages_give(weft__pages *pages, weft__page_list *list)
{
    for (int64_t i = 0; i < list->n; i++)
        pages->used -= --pages->users[list->at[i]] == 0;
    weft_free(list->at);
    *list = (weft__page_list){NULL, 0};
}

int64_t weft__pages_shared(const weft__pages *pages, const weft__page_list *list)
{
    int64_t n = 0;
    while (n < list->n && pages->users[list->at[n]] > 1)
        n++;
    return n;
}

void weft__pages_clear(weft__pages *pages)
{
    weft_free(pages->users);
    pages->users = NULL;
    pages->n = pages->used = 0;
}
