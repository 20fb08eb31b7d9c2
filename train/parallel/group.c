/* train/parallel/group.c -- groups of ranks, and communication within a group. */
#include "train/parallel/group.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "train/parallel/parallel.h"

/* ---- the launcher --------------------------------------------------------------------------- */

/* The number of processes that a launcher started; 0 if the variable is unset or not a number. */
static long launched_by(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    const long n = text ? strtol(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && n > 0 ? n : 0;
}

/* The launcher's variable for the number of processes, or NULL without a launcher. Known launchers:
 * Open MPI; MPICH, Intel MPI and srun with PMI-2; MVAPICH; srun with PMIx. */
static const char *launcher(long *n)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if ((*n = launched_by(sizes[i])) > 0)
            return sizes[i];
    }
    *n = getenv("PMIX_RANK") ? launched_by("SLURM_STEP_NUM_TASKS") : 0;
    return *n > 0 ? "SLURM_STEP_NUM_TASKS" : NULL;
}

weft_status weft_group_open(weft_group **out)
{
    *out = NULL;
    long launched;
    const char *variable = launcher(&launched);
    const weft_group_type *type = NULL;
    weft_group_info place = {.size = 1, .local_size = 1};
    if (variable == NULL || launched == 1)
        return weft_group_new(NULL, NULL, place, out);
    weft_status status = weft__mpi_open(variable, launched, &type, &place);
    if (status != WEFT_OK)
        return status;
    status = weft_group_new(type, NULL, place, out);
    if (status != WEFT_OK)
        type->close(NULL, true);
    return status;
}

/* ---- groups --------------------------------------------------------------------------------- */

weft_status weft_group_new(const weft_group_type *type, void *context, weft_group_info place,
                           weft_group **out)
{
    *out = NULL;
    if (place.size < 1 || place.rank < 0 || place.rank >= place.size || place.local_rank < 0 ||
        place.local_rank >= place.local_size || (type == NULL && place.size > 1))
        return weft_fail(WEFT_INVALID,
                         "group: expected ranks within sizes, got rank %d of %d and %d of %d on "
                         "this machine",
                         place.rank, place.size, place.local_rank, place.local_size);
    weft_group *g = weft_calloc(1, sizeof *g);
    if (g == NULL)
        return weft__out_of_memory("group", NULL);
    *g = (weft_group){.type = type, .context = context, .place = place};
    const weft_status status = weft__group_reserve(g);
    if (status == WEFT_OK) {
        *out = g;
    } else {
        g->type = NULL; /* the caller closes the connection */
        weft_group_close(g);
    }
    return status;
}

void weft_group_close(weft_group *group)
{
    if (group == NULL)
        return;
    if (group->type == NULL || group->type->values == NULL)
        weft_free(group->values);
    if (group->type && group->type->close)
        group->type->close(group->context, group->broken);
    weft_free(group->records);
    weft_free(group->messages);
    weft_free(group->ends);
    weft_free(group);
}

weft_group_info weft_group_info_of(const weft_group *group)
{
    return group ? group->place : (weft_group_info){.size = 1, .local_size = 1};
}

/* ---- communication -------------------------------------------------------------------------- */

weft_status weft__group_check_open(const weft_group *g)
{
    return g->ended || g->broken
               ? weft_fail(WEFT_CANCELLED, "group: its ranks no longer work together")
               : WEFT_OK;
}

/* Marks the group as broken after a failed operation. */
static weft_status note(weft_group *g, weft_status status)
{
    g->broken = g->broken || status != WEFT_OK;
    return status;
}

weft_status weft_group_gather(weft_group *group, const void *bytes, size_t n, void *out)
{
    if (weft__group_is_one(group)) {
        memcpy(out, bytes, n);
        return WEFT_OK;
    }
    const weft_status status = weft__group_check_open(group);
    return status == WEFT_OK ? note(group, group->type->gather(group->context, bytes, n, out))
                             : status;
}

weft_status weft_group_broadcast(weft_group *group, void *bytes, size_t n)
{
    if (weft__group_is_one(group))
        return WEFT_OK;
    const weft_status status = weft__group_check_open(group);
    return status == WEFT_OK ? note(group, group->type->broadcast(group->context, bytes, n))
                             : status;
}

weft_status weft__group_reduce_scatter(weft_group *group, float *values, const int64_t *ends)
{
    const weft_status status = weft__group_check_open(group);
    return status == WEFT_OK && ends[group->place.size - 1] > 0
               ? note(group, group->type->reduce_scatter(group->context, values, ends))
               : status;
}

weft_status weft__group_all_gather(weft_group *group, float *values, const int64_t *ends)
{
    const weft_status status = weft__group_check_open(group);
    return status == WEFT_OK && ends[group->place.size - 1] > 0
               ? note(group, group->type->all_gather(group->context, values, ends))
               : status;
}

/* Each rank sums one part. */
weft_status weft_group_sum(weft_group *group, float *values, int64_t n)
{
    enum { LINE = 16 }; /* no two ranks write one line of a processor's cache */
    if (weft__group_is_one(group))
        return WEFT_OK;
    const int64_t part = (n / group->place.size / LINE + 1) * LINE;
    for (int r = 0; r < group->place.size; r++) {
        const int64_t end = part * (r + 1);
        group->ends[r] = end < n ? end : n;
    }
    const weft_status status = weft__group_reduce_scatter(group, values, group->ends);
    return status == WEFT_OK ? weft__group_all_gather(group, values, group->ends) : status;
}

weft_status weft__group_values(weft_group *g, int64_t n, float **out)
{
    weft_status status = WEFT_OK;
    if (n > g->n_values || n == 0) {
        g->n_values = 0;
        if (g->type->values) {
            status = g->type->values(g->context, n, &g->values);
            if (status != WEFT_MEMORY)
                (void)note(g, status);
        } else {
            weft_free(g->values);
            g->values = n > 0 ? weft_calloc((size_t)n, sizeof *g->values) : NULL;
            if (g->values == NULL && n > 0)
                status = weft__out_of_memory("group", "values to sum");
        }
        status = weft_group_agree(g, status, NULL);
        g->n_values = status == WEFT_OK ? n : 0;
    }
    *out = g->values;
    return status;
}
