/* generate/batch_pages.c -- the pages of a batch's sequences: a prompt is processed when there are
 * pages for it, and when none is left the youngest sequence is set back: it loses its pages, and
 * its text is processed again later. */
#include <string.h>

#include "core/failure.h"
#include "core/math.h"
#include "generate/batch.h"
#include "generate/caches/plan.h"
#include "generate/caches/rows.h"

static int64_t n_caches(const weft_running_batch *b)
{
    return weft_model_info_of(b->model)->n_caches;
}

static bool is_paged(weft_cache *cache)
{
    const weft__ring *ring = weft__ring_of(cache);
    return ring && ring->paging;
}

/* ---- the caches ------------------------------------------------------------------------------ */

/* Layers that keep as many tokens as any other, in the same slots, have pages; those with smaller
 * windows or with states, whose rows are of one size, have rows. */
void weft__batch_page_caches(weft_running_batch *b)
{
    int64_t tokens = b->options.cache_tokens;
    b->paged = NULL;
    for (int64_t i = 0; i < n_caches(b); i++) {
        const weft__ring *ring = weft__ring_of(b->caches[i]);
        if (ring && (b->paged == NULL || ring->capacity > b->paged->capacity))
            b->paged = ring;
    }
    for (int64_t i = 0; b->paged && i < n_caches(b); i++) {
        weft__ring *ring = weft__ring_of(b->caches[i]);
        if (ring && ring->capacity == b->paged->capacity && ring->sinks == b->paged->sinks) {
            ring->paging = &b->paging;
            ring->k.paged = ring->v.paged = true;
        }
    }
    /* Prompts are processed in caches of their own, in what is left. Where the windows and states
     * of all rows leave no room, fewer rows at a time have some. */
    for (int64_t rows = (int64_t)b->most; tokens == 0; rows /= 2) {
        tokens = weft__cache_fitting(b->model, &b->cache, rows) / 4 * 3;
        if (tokens >= 2 * rows * WEFT__PAGE || rows <= 1)
            break;
        tokens = 0;
    }
    b->pages.most = tokens / WEFT__PAGE;
}

/* The number of pages of a sequence of n tokens. */
static int64_t pages_for(const weft_running_batch *b, int64_t n)
{
    return b->paged ? weft__pages_for(weft__smaller(n, b->paged->capacity)) : 0;
}

/* Grows the pool to n pages in all layers or, on failure, in none: layers that have grown are
 * shrunk in reverse order, which needs no more memory than growing them did. One that cannot be
 * shrunk stays larger until the next call; its further pages are not used. */
static weft_status resize(weft_running_batch *b, int64_t n)
{
    const int64_t before = b->pages.n;
    int64_t i = 0;
    weft_status status = weft__pages_resize(&b->pages, n);
    for (; i < n_caches(b) && status == WEFT_OK; i++) {
        if (is_paged(b->caches[i]))
            status = weft__cache_resize_pages(b->caches[i], n);
    }
    if (status == WEFT_OK)
        return WEFT_OK;
    while (i-- > 0) {
        if (is_paged(b->caches[i]))
            (void)weft__cache_resize_pages(b->caches[i], before);
    }
    b->pages.n = before;
    return status;
}

/* How many pages the sequences without any need for their texts. */
static int64_t count_waiting(const weft_running_batch *b)
{
    int64_t n = 0;
    for (size_t i = 0; i < b->places; i++) {
        const weft__row *row = &b->rows[i];
        if (row->live && row->run.generator->batched && row->pages.n == 0)
            n += pages_for(b, row->run.generator->n_text + 1);
    }
    return n;
}

/* Makes room for n more pages; *fits: whether there is. `alone`: whatever the budget. If memory is
 * shorter than planned, the budget becomes what there is. The pool, which is copied when it grows,
 * grows once for all sequences that wait. */
static weft_status make_room(weft_running_batch *b, int64_t n, bool alone, bool *fits)
{
    weft__pages *p = &b->pages;
    const int64_t all = p->used + n + 1, most = weft__larger(all, p->most + 1);
    *fits = alone || n == 0 || p->used + n <= p->most;
    if (!*fits || n == 0 || all <= p->n)
        return WEFT_OK;
    /* The first pages are allocated later, when a failure cannot ask for fewer. */
    const int64_t wanted = p->n == 0 ? all : weft__larger(all, p->used + 1 + count_waiting(b));
    weft_status status = resize(b, weft__smaller(weft__pages_room(wanted), most));
    if (status == WEFT_MEMORY)
        status = resize(b, all);
    if (status != WEFT_MEMORY || alone)
        return status;
    p->most = p->n > 0 ? p->n - 1 : 0;
    *fits = false;
    return WEFT_OK;
}

weft_batch_cache weft_running_batch_cache(const weft_running_batch *b)
{
    const weft__pages *p = &b->pages;
    return (weft_batch_cache){.used = p->used * WEFT__PAGE,
                              .allocated = p->n * WEFT__PAGE,
                              .most = p->most * WEFT__PAGE,
                              .set_back = b->set_back};
}

/* ---- sequences ------------------------------------------------------------------------------- */

void weft__row_give_pages(weft__row *row)
{
    weft__pages_give(&row->batch->pages, &row->pages);
}

/* The youngest sequence with pages; NULL if no more than one has any. */
static weft__row *find_youngest(const weft_running_batch *b)
{
    weft__row *youngest = NULL;
    int holders = 0;
    for (size_t i = 0; i < b->places; i++) {
        weft__row *row = &b->rows[i];
        if (!row->live || row->pages.n == 0)
            continue;
        holders++;
        if (youngest == NULL || row->index > youngest->index)
            youngest = row;
    }
    return holders > 1 ? youngest : NULL;
}

/* If its text is being processed, that goes on later; otherwise it is processed again. */
static void set_back(weft_running_batch *b, weft__row *row)
{
    weft_generator *g = row->run.generator;
    weft__row_give_pages(row);
    b->set_back++;
    if (!g->reading)
        g->known = 0;
    g->reading = true;
}

/* ---- shared pages ---------------------------------------------------------------------------- */

/* Whether the sequence will not overwrite its first tokens. */
static bool keeps_all(const weft_running_batch *b, const weft_generator *g)
{
    return b->paged && g->limit - g->stats.tokens <= b->paged->capacity - g->n_text;
}

/* How many pages of another sequence are full of tokens with which this one begins, too. */
static int64_t count_common(const weft_running_batch *b, const weft__row *row,
                            const weft__row *other)
{
    const weft_generator *g = row->run.generator, *o = other->run.generator;
    const int64_t renews_at = weft_model_info_of(b->model)->renews_at;
    if (other == row || !weft__row_decodes(other) || other->adapter != row->adapter ||
        !keeps_all(b, g) || !keeps_all(b, o) ||
        (renews_at > 0 && (g->n_text > renews_at) != (o->n_text > renews_at)))
        return 0;
    const int64_t most = weft__smaller(g->n_text - !g->reading, o->n_text - 1) / WEFT__PAGE;
    int64_t n = 0;
    while (n < most && memcmp(g->text + n * WEFT__PAGE, o->text + n * WEFT__PAGE,
                              WEFT__PAGE * sizeof *g->text) == 0)
        n++;
    return n;
}

/* The sequence with most such pages, *n. */
static const weft__row *find_common(const weft_running_batch *b, const weft__row *row, int64_t *n)
{
    const weft__row *found = NULL;
    *n = 0;
    for (size_t i = 0; i < b->places; i++) {
        const int64_t common = count_common(b, row, &b->rows[i]);
        if (common > *n) {
            found = &b->rows[i];
            *n = common;
        }
    }
    return found;
}

/* Uses pages of another sequence for the beginning of the text, if that is better. */
static weft_status share(weft_running_batch *b, weft__row *row)
{
    const int64_t all = row->pages.n;
    int64_t n;
    const weft__row *other = find_common(b, row, &n);
    if (n <= weft__pages_shared(&b->pages, &row->pages))
        return WEFT_OK;
    weft__row_give_pages(row);
    const weft_status status = weft__pages_share(&b->pages, &other->pages, n, &row->pages);
    return status == WEFT_OK ? weft__pages_take(&b->pages, &row->pages, all) : status;
}

/* ---- admission ------------------------------------------------------------------------------- */

/* The prompt cache may have the beginning of a text that is processed again. */
static weft_status take_cached(weft_running_batch *b, weft__row *row)
{
    weft_generator *g = row->run.generator;
    if (g->options.prompt_cache == NULL || g->stats.tokens == 0 || g->known > 0)
        return WEFT_OK;
    weft__batch_use(b, row->adapter);
    const weft_status status = weft__generator_take(g);
    g->batched = status != WEFT_OK || weft__batch_is_like(b, g->caches);
    return status;
}

weft_status weft__batch_admit(weft_running_batch *b, weft__row *row, bool *admitted)
{
    const int64_t n = pages_for(b, row->run.generator->n_text + 1);
    *admitted = n <= row->pages.n;
    if (*admitted)
        return WEFT_OK;
    const bool alone = b->pages.used == 0;
    weft_status status = share(b, row);
    if (status == WEFT_OK)
        status = make_room(b, n - row->pages.n, alone, admitted);
    if (status == WEFT_OK && *admitted)
        status = weft__pages_take(&b->pages, &row->pages, n);
    if (status == WEFT_OK && *admitted)
        status = take_cached(b, row);
    *admitted = *admitted && row->run.generator->batched;
    if (status != WEFT_OK || !*admitted)
        weft__row_give_pages(row);
    return status;
}

/* How many pages the sequences lack for `ahead` tokens after their last ones. */
static int64_t count_missing(const weft_running_batch *b, int64_t ahead)
{
    int64_t n = 0;
    for (size_t i = 0; i < b->places; i++) {
        const weft__row *row = &b->rows[i];
        if (weft__row_decodes(row))
            n += weft__larger(0, pages_for(b, row->run.generator->n_text + ahead) - row->pages.n);
    }
    return n;
}

static weft_status take(weft_running_batch *b, int64_t ahead)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < b->places && status == WEFT_OK; i++) {
        weft__row *row = &b->rows[i];
        if (weft__row_decodes(row))
            status = weft__pages_take(&b->pages, &row->pages,
                                      pages_for(b, row->run.generator->n_text + ahead));
    }
    return status;
}

weft_status weft__batch_reserve(weft_running_batch *b)
{
    bool fits = false;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && !fits) {
        weft__row *youngest = find_youngest(b);
        status = make_room(b, count_missing(b, 0), youngest == NULL, &fits);
        if (status == WEFT_OK && !fits)
            set_back(b, youngest);
    }
    return status == WEFT_OK ? take(b, 0) : status;
}

bool weft__batch_reserve_ahead(weft_running_batch *b)
{
    bool fits;
    return make_room(b, count_missing(b, 1), false, &fits) == WEFT_OK && fits &&
           take(b, 1) == WEFT_OK;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

weft_status weft__batch_put(weft_running_batch *b, size_t place, weft_cache **caches, int64_t from,
                            int64_t length)
{
    const weft__page_list *pages = &b->rows[place].pages;
    weft_status status = share(b, &b->rows[place]);
    for (int64_t i = 0; i < n_caches(b) && status == WEFT_OK; i++) {
        weft_cache *to = b->caches[i];
        status =
            is_paged(to)
                ? weft__cache_put_pages(to, b->pages.n, pages, weft__pages_shared(&b->pages, pages),
                                        caches[i], from, weft__smaller(length, b->paged->capacity))
                : weft__cache_put_row(to, (int64_t)b->places, (int64_t)place, caches[i], from);
    }
    return status;
}

/* Fills the pages of a row, and the place of its token. */
static void place(const weft_running_batch *b, const weft__row *row, int32_t offset, int32_t *table,
                  int32_t *at)
{
    const int64_t slot = weft__ring_slot(b->paged, offset);
    memcpy(table, row->pages.at, (size_t)row->pages.n * sizeof *table);
    *at = (int32_t)(table[slot / WEFT__PAGE] * WEFT__PAGE + slot % WEFT__PAGE);
}

weft__paging weft__batch_paging(const weft_running_batch *b, const int32_t *offsets)
{
    const int64_t B = (int64_t)b->places;
    int64_t N = 1;
    for (int64_t i = 0; i < B; i++) {
        while (weft__row_decodes(&b->rows[i]) && N < b->rows[i].pages.n)
            N *= 2;
    }
    int32_t *table = weft_calloc((size_t)(B * (N + 1)) + 1, sizeof *table);
    if (table == NULL) {
        weft_array *error = weft__memory_error("generate", "pages");
        return (weft__paging){error, error};
    }
    int32_t *at = table + B * N;
    for (int64_t i = 0; i < B; i++) {
        at[i] = (int32_t)(i % WEFT__PAGE); /* of page 0, different ones */
        if (b->paged && weft__row_decodes(&b->rows[i]))
            place(b, &b->rows[i], offsets[i], table + i * N, &at[i]);
    }
    const weft__paging made = {weft_from_data(table, WEFT_INT32, WEFT_DIMS(B, N)),
                               weft_from_data(at, WEFT_INT32, WEFT_DIMS(B))};
    weft_free(table);
    return made;
}

weft_status weft__batch_reserve_rows(weft_running_batch *b, int64_t longest)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n_caches(b) && status == WEFT_OK; i++) {
        if (!is_paged(b->caches[i]))
            status = weft__cache_reserve_rows(b->caches[i], longest);
    }
    return status;
}

weft_status weft__batch_keep(weft_running_batch *b, const int32_t *which, size_t n)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; b->caches && i < n_caches(b) && status == WEFT_OK; i++) {
        if (!is_paged(b->caches[i]))
            status = weft__cache_keep_rows(b->caches[i], which, (int64_t)n);
    }
    return status;
}
