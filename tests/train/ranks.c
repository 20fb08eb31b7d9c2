/* tests/train/ranks.c -- runs several ranks in threads of one process. */
#include "tests/train/ranks.h"

#include <pthread.h>
#include <string.h>

#include "tests/check.h"
#include "weft/memory.h"

typedef struct meeting {
    pthread_barrier_t barrier;
    int size;
    const void *at[MOST_RANKS]; /* the value of each rank */
} meeting;

typedef struct seat {
    meeting *meeting;
    int rank;
    weft_group *group;
    float *values;
    void (*run)(weft_group *group, void *argument);
    void *argument;
} seat;

/* Stores this rank's value, and returns when the values of all ranks are stored. */
static void bring(const seat *s, const void *what)
{
    s->meeting->at[s->rank] = what;
    pthread_barrier_wait(&s->meeting->barrier);
}

static void leave(const seat *s)
{
    pthread_barrier_wait(&s->meeting->barrier);
}

static weft_status gather(void *context, const void *bytes, size_t n, void *out)
{
    const seat *s = context;
    bring(s, bytes);
    for (int r = 0; r < s->meeting->size; r++)
        memcpy((char *)out + (size_t)r * n, s->meeting->at[r], n);
    leave(s);
    return WEFT_OK;
}

static weft_status broadcast(void *context, void *bytes, size_t n)
{
    const seat *s = context;
    bring(s, bytes);
    if (s->rank > 0)
        memcpy(bytes, s->meeting->at[0], n);
    leave(s);
    return WEFT_OK;
}

static int64_t begin_of(const int64_t *ends, int rank)
{
    return rank > 0 ? ends[rank - 1] : 0;
}

static weft_status reduce_scatter(void *context, float *sums, const int64_t *ends)
{
    const seat *s = context;
    const int64_t begin = begin_of(ends, s->rank), n = ends[s->rank] - begin;
    float *own = weft_calloc((size_t)n + 1, sizeof *own);
    bring(s, sums);
    for (int r = 0; r < s->meeting->size; r++) {
        const float *theirs = s->meeting->at[r];
        for (int64_t i = 0; i < n; i++)
            own[i] = r == 0 ? theirs[begin + i] : own[i] + theirs[begin + i];
    }
    leave(s);
    memcpy(sums + begin, own, (size_t)n * sizeof *sums);
    weft_free(own);
    return WEFT_OK;
}

static weft_status all_gather(void *context, float *values, const int64_t *ends)
{
    const seat *s = context;
    bring(s, values);
    for (int r = 0; r < s->meeting->size; r++) {
        const int64_t begin = begin_of(ends, r);
        if (r != s->rank)
            memcpy(values + begin, (const float *)s->meeting->at[r] + begin,
                   (size_t)(ends[r] - begin) * sizeof *values);
    }
    leave(s);
    return WEFT_OK;
}

static weft_status values(void *context, int64_t n, float **out)
{
    seat *s = context;
    weft_free(s->values);
    *out = s->values = n > 0 ? weft_calloc((size_t)n, sizeof *s->values) : NULL;
    return *out || n == 0 ? WEFT_OK : WEFT_MEMORY;
}

/* Groups of 3 and more have memory of their own for values. */
static const weft_group_type two = {.name = "threads",
                                    .gather = gather,
                                    .broadcast = broadcast,
                                    .reduce_scatter = reduce_scatter,
                                    .all_gather = all_gather};
static const weft_group_type many = {.name = "threads",
                                     .gather = gather,
                                     .broadcast = broadcast,
                                     .reduce_scatter = reduce_scatter,
                                     .all_gather = all_gather,
                                     .values = values};

static void *sit(void *argument)
{
    const seat *s = argument;
    s->run(s->group, s->argument);
    return NULL;
}

void ranks_run(int n, void (*run)(weft_group *group, void *argument), void *arguments, size_t size)
{
    meeting m = {.size = n};
    seat seats[MOST_RANKS];
    pthread_t running[MOST_RANKS];
    pthread_barrier_init(&m.barrier, NULL, (unsigned)n);
    for (int r = 0; r < n; r++) {
        seats[r] = (seat){&m, r, NULL, NULL, run, (char *)arguments + (size_t)r * size};
        const weft_group_info place = {r, n, r, n};
        CHECK_OK(weft_group_new(n > 2 ? &many : &two, &seats[r], place, &seats[r].group));
    }
    for (int r = 0; r < n; r++)
        CHECK(pthread_create(&running[r], NULL, sit, &seats[r]) == 0);
    for (int r = 0; r < n; r++) {
        pthread_join(running[r], NULL);
        weft_group_close(seats[r].group);
        weft_free(seats[r].values);
    }
    pthread_barrier_destroy(&m.barrier);
}
