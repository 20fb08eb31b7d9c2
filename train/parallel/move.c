/* train/parallel/move.c -- moves arrays between the ranks. */
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"
#include "train/parallel/parallel.h"

/* Small arrays move together, up to this many bytes. A larger one moves alone. */
enum { BUCKET = 1 << 26, LINE = 64 };

typedef struct mover {
    weft_group *group;
    weft__move how;
    weft_array ***slots;
    const int *owners;
    /* Of the current bucket, in the order of owners: */
    int n;
    weft_array ***chosen; /* slots */
    int *ranks;           /* their owners */
    int64_t *places;      /* in bytes, in the group's memory */
    int64_t *ends;        /* (ranks): as reduce_scatter expects */
    weft_array **arrays;  /* scratch space */
} mover;

/* ---- owners --------------------------------------------------------------------------------- */

void weft__group_assign(const weft_group *group, weft_array ***slots, int n, int *owners)
{
    int64_t *loads = group->ends;
    memset(loads, 0, (size_t)group->place.size * sizeof *loads);
    for (int i = 0; i < n; i++)
        owners[i] = -1;
    for (int k = 0; k < n; k++) {
        int largest = -1, least = 0;
        for (int i = 0; i < n; i++) {
            if (owners[i] < 0 && (largest < 0 || weft_size(*slots[i]) > weft_size(*slots[largest])))
                largest = i;
        }
        for (int r = 1; r < group->place.size; r++)
            least = loads[r] < loads[least] ? r : least;
        owners[largest] = least;
        loads[least] += weft_size(*slots[largest]);
    }
}

/* ---- buckets -------------------------------------------------------------------------------- */

static int64_t bytes_of(const weft_array *a)
{
    return weft_size(a) * (int64_t)weft_dtype_size(weft_dtype_of(a));
}

/* The end of the bucket that begins with slot i, of n slots. */
static int bucket_end(const mover *m, int i, int n)
{
    int64_t size = 0;
    do {
        size += bytes_of(*m->slots[i++]);
    } while (i < n && size + bytes_of(*m->slots[i]) <= BUCKET);
    return i;
}

static int64_t aligned(int64_t at)
{
    return (at + LINE - 1) / LINE * LINE;
}

/* Gives the arrays of a bucket their places: those of an owner and a dtype without gaps, so that
 * one copy can read them. */
static void lay_out(mover *m, int begin, int end)
{
    int64_t at = 0;
    m->n = 0;
    for (int r = 0; r < m->group->place.size; r++) {
        for (int i = begin; i < end; i++) {
            if (m->owners[i] != r)
                continue;
            const int k = m->n++;
            m->chosen[k] = m->slots[i];
            m->ranks[k] = r;
            if (k > 0 && weft_dtype_of(*m->chosen[k - 1]) != weft_dtype_of(*m->slots[i]))
                at = aligned(at);
            m->places[k] = at;
            at += bytes_of(*m->slots[i]);
        }
        at = aligned(at);
        m->ends[r] = at / (int64_t)sizeof(float);
    }
}

/* The end of the arrays from k on of one owner, dtype and device, which become one array. On the
 * CPU a copy needs no wait, so each is copied by itself. */
static int joined_end(const mover *m, int k)
{
    const weft_array *first = *m->chosen[k];
    const bool waits = weft_device_of(first) != weft_device_get("cpu");
    int end = k + 1;
    while (waits && end < m->n && m->ranks[end] == m->ranks[k] &&
           weft_dtype_of(*m->chosen[end]) == weft_dtype_of(first) &&
           weft_device_of(*m->chosen[end]) == weft_device_of(first))
        end++;
    return end;
}

/* ---- copies --------------------------------------------------------------------------------- */

static int64_t size_of(const mover *m, int begin, int end)
{
    int64_t size = 0;
    for (int k = begin; k < end; k++)
        size += weft_size(*m->chosen[k]);
    return size;
}

static weft_status read_joined(mover *m, int begin, int end, char *values)
{
    weft_scope_open_lean();
    for (int k = begin; k < end; k++)
        m->arrays[k] = weft_flatten(*m->chosen[k], 0, -1);
    weft_array *flat =
        end - begin == 1 ? m->arrays[begin] : weft_concatenate(m->arrays + begin, end - begin, 0);
    const weft_status status = weft_read(flat, weft_dtype_of(*m->chosen[begin]),
                                         values + m->places[begin], size_of(m, begin, end));
    weft_scope_close(NULL);
    return status;
}

/* Parameters stay, so each gets memory of its own. */
static weft_status set_joined(mover *m, int begin, int end, char *values)
{
    const weft_array *first = *m->chosen[begin];
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(first));
    weft_scope_open_lean();
    weft_array *flat = weft_from_data(values + m->places[begin], weft_dtype_of(first),
                                      WEFT_DIMS(size_of(m, begin, end)));
    int64_t at = 0;
    for (int k = begin; k < end; k++) {
        const int64_t next = at + weft_size(*m->chosen[k]);
        weft_array *part =
            weft_reshape(weft_slice_axis(flat, 0, at, next), weft_shape(*m->chosen[k]));
        m->arrays[k] = m->how == WEFT__MOVE_TO_ALL && end - begin > 1 ? weft_copy(part) : part;
        at = next;
    }
    const weft_status status = weft_update(m->chosen + begin, m->arrays + begin, end - begin);
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return status;
}

/* Sets slots to arrays in the host's memory that are not counted as memory of arrays: for a moment
 * rank 0 has what did not have to fit before. */
static weft_status set_on_host(mover *m, int begin, int end, char *values)
{
    weft_status status = WEFT_OK;
    weft_device *before = weft__optim_on_cpu(); /* other devices copy memory to their own */
    weft_scope_open_lean();
    for (int k = begin; k < end && status == WEFT_OK; k++) {
        weft_array *old = *m->chosen[k];
        void *own = weft_malloc((size_t)bytes_of(old) + 1);
        if (own == NULL) {
            status = weft__out_of_memory("training", "the states of other ranks");
            break;
        }
        memcpy(own, values + m->places[k], (size_t)bytes_of(old));
        status = weft_set(m->chosen[k], weft_from_memory(own, weft_dtype_of(old), weft_shape(old),
                                                         weft_free, own));
    }
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return status;
}

typedef weft_status copy(mover *m, int begin, int end, char *values);

/* Copies arrays of the bucket: those of this rank, of others, or both. Where memory is short, one
 * by one. */
static weft_status copy_arrays(mover *m, copy *fn, bool own, bool others, char *values)
{
    weft_status status = WEFT_OK;
    for (int k = 0, end; status == WEFT_OK && k < m->n; k = end) {
        end = joined_end(m, k);
        if (!(m->ranks[k] == m->group->place.rank ? own : others))
            continue;
        status = fn(m, k, end, values);
        if (status != WEFT_MEMORY || end - k == 1)
            continue;
        status = WEFT_OK;
        for (int i = k; i < end && status == WEFT_OK; i++)
            status = fn(m, i, i + 1, values);
    }
    return status;
}

/* ---- moving --------------------------------------------------------------------------------- */

static void drop_others(mover *m)
{
    for (int k = 0; k < m->n; k++) {
        if (m->ranks[k] == m->group->place.rank)
            continue;
        weft_drop(*m->chosen[k]);
        *m->chosen[k] = NULL;
    }
}

/* Moves one bucket. A rank that cannot copy its arrays still takes part, and *own becomes its
 * status. */
static weft_status move_bucket(mover *m, float *values, weft_status *own)
{
    const bool sums = m->how == WEFT__MOVE_SUMS;
    char *bytes = (char *)values;
    if (*own == WEFT_OK)
        *own = copy_arrays(m, read_joined, true, sums, bytes);
    const weft_status status = sums ? weft__group_reduce_scatter(m->group, values, m->ends)
                                    : weft__group_all_gather(m->group, values, m->ends);
    if (status != WEFT_OK || *own != WEFT_OK)
        return status;
    if (m->how != WEFT__MOVE_TO_FIRST)
        *own = copy_arrays(m, set_joined, sums, !sums, bytes);
    else if (m->group->place.rank == 0)
        *own = copy_arrays(m, set_on_host, false, true, bytes);
    if (sums)
        drop_others(m);
    return status;
}

static weft_status move_all(mover *m, int n, weft_status own)
{
    float *values = NULL;
    int64_t most = 1;
    weft_status status = weft_group_agree(m->group, own, NULL);
    for (int i = 0, end; status == WEFT_OK && i < n; i = end) {
        end = bucket_end(m, i, n);
        lay_out(m, i, end);
        const int64_t size = m->ends[m->group->place.size - 1];
        most = size > most ? size : most;
    }
    if (status == WEFT_OK)
        status = weft__group_values(m->group, most, &values);
    for (int i = 0, end; status == WEFT_OK && i < n; i = end) {
        end = bucket_end(m, i, n);
        lay_out(m, i, end);
        status = move_bucket(m, values, &own);
    }
    /* The next forward pass needs memory; after the sums the parameters come first. */
    if (status == WEFT_OK && m->how != WEFT__MOVE_SUMS &&
        m->group->n_values > BUCKET / (int64_t)sizeof(float))
        status = weft__group_values(m->group, 0, &values);
    return status == WEFT_OK ? weft_group_agree(m->group, own, NULL) : status;
}

weft_status weft__group_move(weft_group *group, weft_status status, weft__move how,
                             weft_array ***slots, const int *owners, int n)
{
    const size_t room = (size_t)n + 1;
    mover m = {.group = group,
               .how = how,
               .slots = slots,
               .owners = owners,
               .chosen = weft_calloc(room, sizeof *m.chosen),
               .ranks = weft_calloc(room, sizeof *m.ranks),
               .places = weft_calloc(room, sizeof *m.places),
               .ends = weft_calloc((size_t)group->place.size, sizeof *m.ends),
               .arrays = weft_calloc(room, sizeof(weft_array *))};
    if (status == WEFT_OK && !(m.chosen && m.ranks && m.places && m.ends && m.arrays))
        status = weft__out_of_memory("training", "what the ranks exchange");
    status = move_all(&m, n, status);
    weft_free(m.chosen);
    weft_free(m.ranks);
    weft_free(m.places);
    weft_free(m.ends);
    weft_free(m.arrays);
    return status;
}
