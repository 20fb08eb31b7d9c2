/* train/parallel/exchange.c -- exchanges statuses and numbers between ranks. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "train/parallel/group.h"
#include "train/parallel/parallel.h"

enum { MESSAGE = 1024 };

struct weft__record {
    int32_t status, stop;
    double values[WEFT__EXCHANGED];
};
typedef struct weft__record record;

weft_status weft__group_reserve(weft_group *g)
{
    g->records = weft_calloc((size_t)g->place.size, sizeof *g->records);
    g->messages = weft_calloc((size_t)g->place.size, MESSAGE);
    g->ends = weft_calloc((size_t)g->place.size, sizeof *g->ends);
    return g->records && g->messages && g->ends ? WEFT_OK : weft__out_of_memory("group", NULL);
}

/* The rank whose failure is reported: the first failed rank, else the first cancelled one. */
static int failed_rank(const record *records, int size)
{
    int found = -1;
    for (int r = 0; r < size; r++) {
        const int32_t status = records[r].status;
        if (status != WEFT_OK && status != WEFT_CANCELLED)
            return r;
        if (status != WEFT_OK && found < 0)
            found = r;
    }
    return found;
}

/* Gathers the messages of all ranks, and fails with the message of the failed rank. */
static weft_status agree_on_failure(weft_group *g, int failed)
{
    const weft_status status = (weft_status)g->records[failed].status;
    char own[MESSAGE] = "";
    if (g->records[g->place.rank].status != WEFT_OK)
        snprintf(own, sizeof own, "%s", weft_error_message());
    const weft_status gathered = weft_group_gather(g, own, sizeof own, g->messages);
    g->ended = true;
    if (gathered != WEFT_OK)
        return gathered;
    const char *message = g->messages + (size_t)failed * MESSAGE;
    bool same = true;
    for (int r = 0; r < g->place.size; r++)
        same = same && strcmp(g->messages + (size_t)r * MESSAGE, message) == 0;
    return same ? weft_fail(status, "%s", message)
                : weft_fail(status, "rank %d: %s", failed, message);
}

static void add_values(const record *records, const weft_group *g, double *values, double *before)
{
    for (int i = 0; i < WEFT__EXCHANGED; i++) {
        double sum = 0;
        for (int r = 0; r < g->place.size; r++) {
            if (before && r == g->place.rank)
                before[i] = sum;
            sum += records[r].values[i];
        }
        values[i] = sum;
    }
}

weft_status weft__group_exchange(weft_group *group, weft_status status, bool *stop,
                                 double values[WEFT__EXCHANGED], double before[WEFT__EXCHANGED])
{
    if (before)
        memset(before, 0, WEFT__EXCHANGED * sizeof *before);
    if (weft__group_is_one(group))
        return status;
    if (group->ended || group->broken)
        return status == WEFT_OK ? weft__group_check_open(group) : status;
    record own = {.status = status, .stop = stop && *stop};
    if (values)
        memcpy(own.values, values, sizeof own.values);
    const record *all = group->records;
    const weft_status gathered = weft_group_gather(group, &own, sizeof own, group->records);
    const int failed = gathered == WEFT_OK ? failed_rank(all, group->place.size) : -1;
    if (gathered != WEFT_OK || failed >= 0)
        return gathered != WEFT_OK ? gathered : agree_on_failure(group, failed);
    if (values)
        add_values(all, group, values, before);
    for (int r = 0; stop && r < group->place.size; r++)
        *stop = *stop || all[r].stop;
    return WEFT_OK;
}

double weft__group_value(const weft_group *group, int rank, int i)
{
    return group->records[rank].values[i];
}

weft_status weft_group_agree(weft_group *group, weft_status status, bool *stop)
{
    return weft__group_exchange(group, status, stop, NULL, NULL);
}
