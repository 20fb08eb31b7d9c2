/* train/parallel/update.c -- sums gradients, loss and rewards of an update over the ranks. */
#include "core/failure.h"
#include "train/parallel/group.h"
#include "train/parallel/parallel.h"

/* Small gradients are summed together, up to this many values (64 MB). A larger one is summed
 * alone. */
enum { BUCKET = 1 << 24 };

weft_status weft__group_add_shares(const weft_trainer *t, weft_status status, int n,
                                   weft__shares *shares)
{
    double values[WEFT__EXCHANGED] = {shares->targets, (double)shares->tokens, n};
    double before[WEFT__EXCHANGED];
    status = weft__group_exchange(t->o.group, status, NULL, values, before);
    shares->targets = values[0];
    shares->tokens = (int64_t)values[1];
    shares->first = (int64_t)before[2];
    return status;
}

/* ---- rewards -------------------------------------------------------------------------------- */

/* Sums what the loss computed of completions. */
static weft_status add_policy(const weft_trainer *t, weft_status status, weft_policy_report *p)
{
    double values[WEFT__EXCHANGED] = {
        (double)p->completions, (double)p->tokens, p->kl,      p->entropy, p->ratio,
        p->clipped_low,         p->clipped_high,   p->mismatch};
    status = weft__group_exchange(t->o.group, status, NULL, values, NULL);
    *p = (weft_policy_report){.completions = (int64_t)values[0],
                              .tokens = (int64_t)values[1],
                              .kl = values[2],
                              .entropy = values[3],
                              .ratio = values[4],
                              .clipped_low = values[5],
                              .clipped_high = values[6],
                              .mismatch = values[7]};
    return status;
}

/* Agrees on the status, sums the rewards, and exchanges the micro-batch sizes. */
static weft_status add_rewards(weft_trainer *t, weft_status status)
{
    enum { MICRO = 6 };
    weft_reward_report *r = &t->rewards;
    weft_policy_report policy = r->policy;
    if (t->o.objective->examples == WEFT_EXAMPLES_SCORED)
        status = add_policy(t, status, &policy);
    double values[WEFT__EXCHANGED] = {
        (double)r->pairs, (double)r->n_chosen, (double)r->n_rejected, r->chosen,
        r->rejected,      r->accuracy,         (double)t->micro,
    };
    status = weft__group_exchange(t->o.group, status, NULL, values, NULL);
    for (int i = 0; status == WEFT_OK && i < weft_group_info_of(t->o.group).size; i++)
        t->micros[i] = (int64_t)weft__group_value(t->o.group, i, MICRO);
    *r = (weft_reward_report){.pairs = (int64_t)values[0],
                              .n_chosen = (int64_t)values[1],
                              .n_rejected = (int64_t)values[2],
                              .chosen = values[3],
                              .rejected = values[4],
                              .accuracy = values[5],
                              .policy = policy};
    return status;
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* The end of the bucket that begins with sum i. *size is its number of values. */
static int bucket_end(const weft_trainer *t, int i, int64_t *size)
{
    int end = i;
    *size = 0;
    do {
        *size += weft_size(t->sums[end++]);
    } while (end <= t->slots.n && *size + weft_size(t->sums[end]) <= BUCKET);
    return end;
}

/* The end of the sums from i on, before `end`, that are on one device. *size is their number of
 * values: they become one array, which one copy moves. */
static int device_end(const weft_trainer *t, int i, int end, int64_t *size)
{
    const weft_device *device = weft_device_of(t->sums[i]);
    for (*size = 0; i < end && weft_device_of(t->sums[i]) == device; i++)
        *size += weft_size(t->sums[i]);
    return i;
}

/* Reads sums of one device, joined. `arrays` has room for them. */
static weft_status read_sums(weft_trainer *t, int begin, int end, float *values,
                             weft_array **arrays, int64_t size)
{
    weft_scope_open_lean();
    for (int i = begin; i < end; i++)
        arrays[i - begin] = weft_flatten(t->sums[i], 0, -1);
    weft_array *flat = end - begin == 1 ? arrays[0] : weft_concatenate(arrays, end - begin, 0);
    const weft_status status = weft_read(flat, WEFT_FLOAT32, values, size);
    weft_scope_close(NULL);
    return status;
}

/* Replaces sums of one device. */
static weft_status set_sums(weft_trainer *t, int begin, int end, const float *values,
                            weft_array **arrays, int64_t size)
{
    weft_scope_open_lean();
    weft_array *flat = weft_to(weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(size)),
                               weft_device_of(t->sums[begin]));
    int64_t at = 0;
    for (int i = begin; i < end; i++) {
        const int64_t next = at + weft_size(t->sums[i]);
        arrays[i - begin] =
            weft_reshape(weft_slice_axis(flat, 0, at, next), weft_shape(t->sums[i]));
        at = next;
    }
    const weft_status status = weft_update(t->sum_slots + begin, arrays, end - begin);
    weft_scope_close(NULL);
    return status;
}

/* Where memory is short, they are read and replaced one by one. */
static weft_status move_sums(weft_trainer *t, int begin, int end, float *values,
                             weft_array **arrays, int64_t size, bool reads)
{
    weft_status status = reads ? read_sums(t, begin, end, values, arrays, size)
                               : set_sums(t, begin, end, values, arrays, size);
    if (status != WEFT_MEMORY || end - begin == 1)
        return status;
    status = WEFT_OK;
    for (int i = begin; i < end && status == WEFT_OK; values += weft_size(t->sums[i++]))
        status = move_sums(t, i, i + 1, values, arrays, weft_size(t->sums[i]), reads);
    return status;
}

/* Sums one bucket over the ranks. A rank that cannot read its sums still takes part, and *own
 * becomes its status. */
static weft_status add_bucket(weft_trainer *t, int begin, int end, float *values,
                              weft_array **arrays, weft_status *own)
{
    int64_t at = 0, size;
    for (int i = begin, next; *own == WEFT_OK && i < end; i = next, at += size) {
        next = device_end(t, i, end, &size);
        *own = move_sums(t, i, next, values + at, arrays, size, true);
    }
    bucket_end(t, begin, &size);
    const weft_status status = weft_group_sum(t->o.group, values, size);
    at = 0;
    for (int i = begin, next; status == WEFT_OK && *own == WEFT_OK && i < end;
         i = next, at += size) {
        next = device_end(t, i, end, &size);
        *own = move_sums(t, i, next, values + at, arrays, size, false);
    }
    return status;
}

weft_status weft__group_add_sums(weft_trainer *t, weft_status status)
{
    if (weft__group_is_one(t->o.group))
        return status;
    weft_array **arrays = weft_calloc((size_t)t->slots.n + 1, sizeof(weft_array *));
    if (status == WEFT_OK && arrays == NULL)
        status = weft__out_of_memory("training", "the sums of gradients");
    status = add_rewards(t, status);
    int64_t most = 1, size;
    for (int i = 0; status == WEFT_OK && i <= t->slots.n; most = size > most ? size : most)
        i = bucket_end(t, i, &size);
    float *values = NULL;
    if (status == WEFT_OK)
        status = weft__group_values(t->o.group, most, &values);
    weft_status own = WEFT_OK;
    for (int i = 0, end; status == WEFT_OK && i <= t->slots.n; i = end) {
        end = bucket_end(t, i, &size);
        status = add_bucket(t, i, end, values, arrays, &own);
    }
    if (status == WEFT_OK && most > BUCKET) /* much memory is needed in the next forward pass */
        status = weft__group_values(t->o.group, 0, &values);
    weft_free(arrays);
    return status == WEFT_OK ? weft_group_agree(t->o.group, own, NULL) : status;
}
