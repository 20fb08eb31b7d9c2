/* train/parallel/update.c -- sums gradients, loss and rewards of an update over the ranks. */
#include "core/failure.h"
#include "train/parallel/group.h"
#include "train/parallel/parallel.h"

/* Small gradients are summed together, up to this many values. A larger one is summed alone. */
enum { BUCKET = 1 << 20 };

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

/* Sums one bucket over the ranks. A rank that cannot read its sums still takes part, and *own
 * becomes its status. */
static weft_status add_bucket(weft_trainer *t, int begin, int end, float *values,
                              weft_array **arrays, weft_status *own)
{
    int64_t at = 0;
    for (int i = begin; *own == WEFT_OK && i < end; at += weft_size(t->sums[i++]))
        *own = weft_read(t->sums[i], WEFT_FLOAT32, values + at, weft_size(t->sums[i]));
    int64_t size = 0;
    bucket_end(t, begin, &size);
    const weft_status status = weft_group_sum(t->o.group, values, size);
    if (status != WEFT_OK || *own != WEFT_OK)
        return status;
    weft_scope_open_lean();
    at = 0;
    for (int i = begin; i < end; at += weft_size(t->sums[i++]))
        arrays[i - begin] =
            weft_to(weft_from_data(values + at, WEFT_FLOAT32, weft_shape(t->sums[i])),
                    weft_device_of(t->sums[i]));
    *own = weft_update(t->sum_slots + begin, arrays, end - begin);
    weft_scope_close(NULL);
    return WEFT_OK;
}

weft_status weft__group_add_sums(weft_trainer *t, weft_status status)
{
    if (weft__group_is_one(t->o.group))
        return status;
    int64_t most = 1, size;
    for (int i = 0; status == WEFT_OK && i <= t->slots.n; most = size > most ? size : most)
        i = bucket_end(t, i, &size);
    float *values = weft_calloc((size_t)most, sizeof *values);
    weft_array **arrays = weft_calloc((size_t)t->slots.n + 1, sizeof(weft_array *));
    if (status == WEFT_OK && (values == NULL || arrays == NULL))
        status = weft__out_of_memory("training", "the sums of gradients");
    status = add_rewards(t, status);
    weft_status own = WEFT_OK;
    for (int i = 0, end; status == WEFT_OK && i <= t->slots.n; i = end) {
        end = bucket_end(t, i, &size);
        status = add_bucket(t, i, end, values, arrays, &own);
    }
    weft_free(values);
    weft_free(arrays);
    return status == WEFT_OK ? weft_group_agree(t->o.group, own, NULL) : status;
}
