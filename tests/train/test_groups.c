/* tests/train/test_groups.c -- groups of ranks, in threads: gathering, sums in the order of ranks,
 * memory for sums, agreement on failures, and a group of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "train/parallel/group.h"

typedef struct talk {
    weft_status status, agreed, later;
    bool stop;
    char message[128];
    float sums[3];
    int gathered[MOST_RANKS], broadcast;
} talk;

static void converse(weft_group *group, void *argument)
{
    talk *t = argument;
    const weft_group_info place = weft_group_info_of(group);
    t->broadcast = place.rank + 40;
    t->sums[0] = 1;
    t->sums[1] = place.rank == 0 ? 1e8f : place.rank == 2 ? -1e8f : 1; /* (1e8 + 1) - 1e8 + 1 */
    bool stop = place.rank == 2;
    if (weft_group_agree(group, WEFT_OK, &stop) == WEFT_OK)
        t->stop = stop;
    (void)weft_group_gather(group, &place.rank, sizeof place.rank, t->gathered);
    (void)weft_group_broadcast(group, &t->broadcast, sizeof t->broadcast);
    (void)weft_group_sum(group, t->sums, 3);
    if (t->status != WEFT_OK)
        weft_fail(t->status, place.rank == 3 ? "broken" : "stopped");
    t->agreed = weft_group_agree(group, t->status, NULL);
    snprintf(t->message, sizeof t->message, "%s", weft_error_message());
    t->later = weft_group_sum(group, t->sums, 3);
}

static void a_group_agrees(void)
{
    talk talks[4] = {{0}};
    talks[1].status = WEFT_CANCELLED;
    talks[3].status = WEFT_MEMORY;
    ranks_run(4, converse, talks, sizeof *talks);
    for (int r = 0; r < 4; r++) {
        CHECK(talks[r].stop);
        CHECK_EQ_INT(talks[r].gathered[3], 3);
        CHECK_EQ_INT(talks[r].broadcast, 40);
        CHECK_CLOSE(talks[r].sums[0], 4, 0);
        CHECK_CLOSE(talks[r].sums[1], 1, 0); /* in float32, in order of ranks */
        CHECK_CLOSE(talks[r].sums[2], 0, 0);
        CHECK_EQ_INT(talks[r].agreed, WEFT_MEMORY);
        CHECK_STR(talks[r].message, "rank 3: broken");
        CHECK_EQ_INT(talks[r].later, WEFT_CANCELLED);
    }
    talk alike[2] = {{.status = WEFT_IO}, {.status = WEFT_IO}};
    ranks_run(2, converse, alike, sizeof *alike);
    CHECK_STR(alike[1].message, "stopped");
    CHECK_EQ_INT(alike[1].agreed, WEFT_IO);
}

typedef struct addition {
    weft_status status[3];
    float few[2], more[3000];
} addition;

/* Sums n values of the group's memory. */
static weft_status add_values(weft_group *group, int64_t n, float *out)
{
    float *values = NULL;
    weft_status status = weft__group_values(group, n, &values);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        values[i] = (float)(weft_group_info_of(group).rank + i);
    if (status == WEFT_OK)
        status = weft_group_sum(group, values, n);
    if (status == WEFT_OK && n > 0)
        memcpy(out, values, (size_t)n * sizeof *out);
    return status;
}

static void add_more(weft_group *group, void *argument)
{
    addition *a = argument;
    a->status[0] = add_values(group, 2, a->few);
    a->status[1] = add_values(group, 0, NULL); /* frees it */
    if (a->status[1] == WEFT_OK)
        a->status[1] = add_values(group, 3000, a->more);
    a->status[2] = add_values(group, INT64_MAX / 8, NULL);
}

/* The memory for values grows; if it cannot, every rank gets an error. */
static void a_group_has_memory_for_values(void)
{
    static addition additions[3];
    for (int n = 2; n <= 3; n++) {
        ranks_run(n, add_more, additions, sizeof *additions);
        for (int r = 0; r < n; r++) {
            CHECK_OK(additions[r].status[0]);
            CHECK_OK(additions[r].status[1]);
            CHECK_EQ_INT(additions[r].status[2], WEFT_MEMORY);
            CHECK_CLOSE(additions[r].few[1], n == 2 ? 3 : 6, 0);
            CHECK_CLOSE(additions[r].more[2999], n * 2999 + n * (n - 1) / 2, 0);
        }
    }
}

static void a_group_of_one_does_not_wait(void)
{
    weft_group *group = NULL;
    float values[] = {1, 2};
    int out = 0, in = 7;
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    CHECK_OK(weft_group_open(&group));
    unsetenv("OMPI_COMM_WORLD_SIZE");
    CHECK_EQ_INT(weft_group_info_of(group).size, 1);
    CHECK_EQ_INT(weft_group_info_of(NULL).local_size, 1);
    CHECK_OK(weft_group_sum(group, values, 2));
    CHECK_CLOSE(values[1], 2, 0);
    CHECK_OK(weft_group_gather(NULL, &in, sizeof in, &out));
    CHECK_EQ_INT(out, 7);
    CHECK_OK(weft_group_broadcast(group, &in, sizeof in));
    CHECK_STATUS(weft_group_agree(group, WEFT_MEMORY, NULL), WEFT_MEMORY);
    weft_group_close(group);
    const weft_group_info wrong = {.rank = 2, .size = 2, .local_size = 1};
    CHECK_STATUS(weft_group_new(NULL, NULL, wrong, &group), WEFT_INVALID);
    CHECK(group == NULL);
}

CHECK_MAIN("groups", CHECK_CASE(a_group_agrees), CHECK_CASE(a_group_has_memory_for_values),
           CHECK_CASE(a_group_of_one_does_not_wait))
