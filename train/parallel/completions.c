/* train/parallel/completions.c -- the journal of sampled completions, which rank 0 reads and writes
 * for all ranks. */
#include <string.h>

#include "core/failure.h"
#include "train/parallel/parallel.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* Sends n bytes of rank 0 to all ranks, which allocate them. */
static weft_status send_lines(weft_group *group, size_t n, char **lines)
{
    if (*lines == NULL)
        *lines = weft_malloc(n + 1);
    const weft_status status = weft_group_agree(
        group, *lines ? WEFT_OK : weft__out_of_memory("training", "completions"), NULL);
    return status == WEFT_OK ? weft_group_broadcast(group, *lines, n) : status;
}

/* Where line `from` begins. */
static const char *line_at(const char *lines, size_t n, int64_t from)
{
    const char *at = lines;
    for (int64_t i = 0; i < from; i++)
        at = (const char *)memchr(at, '\n', n - (size_t)(at - lines)) + 1;
    return at;
}

weft_status weft__group_find_completions(weft_group *group, weft_status status,
                                         const weft__journal *journal, int64_t batch, int64_t n,
                                         const weft_objective_options *options, weft__rollout *r,
                                         bool *keeps)
{
    const int64_t own = r->n * r->group;
    double values[WEFT__EXCHANGED] = {(double)own, journal != NULL}, before[WEFT__EXCHANGED];
    status = weft__group_exchange(group, status, NULL, values, before);
    *keeps = values[1] > 0;
    if (status != WEFT_OK || !*keeps)
        return status;
    weft__text lines = {0};
    bool found = false;
    if (journal)
        status = weft__journal_read(journal, batch, n, (int64_t)values[0], &lines, &found);
    double size[WEFT__EXCHANGED] = {found ? (double)lines.n : 0};
    status = weft__group_exchange(group, status, NULL, size, NULL);
    const size_t bytes = (size_t)size[0];
    if (status == WEFT_OK && bytes > 0)
        status = send_lines(group, bytes, &lines.at);
    if (status == WEFT_OK && bytes > 0) {
        const char *begin = line_at(lines.at, bytes, (int64_t)before[0]),
                   *end = line_at(begin, bytes - (size_t)(begin - lines.at), own);
        status = weft__journal_parse(begin, (size_t)(end - begin), weft__journal_path(journal),
                                     options, r);
    }
    weft_free(lines.at);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The lines of all ranks while rank 0 gets them, a piece of each rank at a time. */
typedef struct gathering {
    size_t *starts; /* (ranks + 1): of each rank's lines in `all` */
    size_t piece;   /* bytes */
    char *sent, *received, *all;
} gathering;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Allocates the buffers. The sizes are those of the latest exchange. */
static weft_status open_gathering(const weft_group *group, gathering *g)
{
    enum { PIECE = 1 << 20 };
    const weft_group_info place = weft_group_info_of(group);
    g->starts = weft_calloc((size_t)place.size + 1, sizeof *g->starts);
    for (int r = 0; g->starts && r < place.size; r++) {
        const size_t n = (size_t)weft__group_value(group, r, 0);
        g->starts[r + 1] = g->starts[r] + n;
        g->piece = n > g->piece ? n : g->piece;
    }
    g->piece = smaller(g->piece, PIECE);
    g->sent = weft_calloc(1, g->piece + 1);
    g->received = weft_calloc((size_t)place.size, g->piece + 1);
    if (g->starts && place.rank == 0)
        g->all = weft_malloc(g->starts[place.size] + 1);
    return g->starts && g->sent && g->received && (g->all || place.rank > 0)
               ? WEFT_OK
               : weft__out_of_memory("training", "completions");
}

static void close_gathering(gathering *g)
{
    weft_free(g->starts);
    weft_free(g->sent);
    weft_free(g->received);
    weft_free(g->all);
}

/* Gathers the pieces from byte `done` of each rank's lines on. *more: there are further ones. */
static weft_status gather_pieces(weft_group *group, gathering *g, const char *own, size_t done,
                                 bool *more)
{
    const weft_group_info place = weft_group_info_of(group);
    const size_t n = g->starts[place.rank + 1] - g->starts[place.rank];
    if (done < n)
        memcpy(g->sent, own + done, smaller(n - done, g->piece));
    const weft_status status = weft_group_gather(group, g->sent, g->piece, g->received);
    *more = false;
    for (int r = 0; status == WEFT_OK && r < place.size; r++) {
        const size_t of = g->starts[r + 1] - g->starts[r], left = done < of ? of - done : 0;
        *more = *more || left > g->piece;
        if (g->all && left > 0)
            memcpy(g->all + g->starts[r] + done, g->received + (size_t)r * g->piece,
                   smaller(left, g->piece));
    }
    return status;
}

static weft_status add(weft__journal *journal, int64_t batch, const char *lines, size_t n)
{
    const weft_status status = weft__journal_add(journal, batch, lines, n);
    if (status == WEFT_IO)
        weft_log_message(WEFT_LOG_WARNING, "%s; training continues", weft_error_message());
    return status == WEFT_IO ? WEFT_OK : status;
}

/* Adds the lines of all ranks, in their order, to the journal of rank 0. */
static weft_status add_all(weft_group *group, weft_status status, weft__journal *journal,
                           int64_t batch, const weft__text *own)
{
    gathering g = {0};
    double size[WEFT__EXCHANGED] = {(double)own->n};
    status = weft__group_exchange(group, status, NULL, size, NULL);
    if (status != WEFT_OK)
        return status;
    status = weft_group_agree(group, open_gathering(group, &g), NULL);
    size_t done = 0;
    for (bool more = true; status == WEFT_OK && more; done += g.piece)
        status = gather_pieces(group, &g, own->at, done, &more);
    if (status == WEFT_OK && journal)
        status = add(journal, batch, g.all, (size_t)size[0]);
    close_gathering(&g);
    return status;
}

weft_status weft__group_keep_completions(weft_group *group, weft_status status,
                                         weft__journal *journal, int64_t batch,
                                         const weft__rollout *r)
{
    weft__text own = {0};
    if (status == WEFT_OK)
        status = weft__journal_lines(r, &own);
    if (!weft__group_is_one(group))
        status = add_all(group, status, journal, batch, &own);
    else if (status == WEFT_OK)
        status = add(journal, batch, own.at, own.n);
    weft_free(own.at);
    return status;
}
