/* train/parallel/update.c -- an update of several ranks: sums gradients, loss and rewards, and
 * shares the updated parameters. */
#include "core/failure.h"
#include "ops/reduce/sum_squares.h"
#include "optim/optim.h"
#include "train/parallel/group.h"
#include "train/parallel/parallel.h"

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

/* Reads the sums of squares of this rank's gradients; those of others are 0. `own` has room for
 * them. */
static weft_status read_squares(const weft_trainer *t, weft_array **arrays, float *own,
                                float *squares)
{
    weft_status status = WEFT_OK;
    int n = 0;
    weft_scope_open_lean();
    for (int i = 0; i < t->slots.n; i++) {
        if (t->sums[i] == NULL)
            continue;
        weft_array *sum = weft_reshape(weft__sum_squares(&t->sums[i], 1), WEFT_DIMS(1));
        arrays[n] = weft_to(sum, weft_device_of(n > 0 ? arrays[0] : sum));
        n++;
    }
    if (n > 0)
        status = weft_read(weft_concatenate(arrays, n, 0), WEFT_FLOAT32, own, n);
    for (int i = 0, k = 0; i < t->slots.n; i++)
        squares[i] = t->sums[i] ? own[k++] : 0;
    weft_scope_close(NULL);
    return status;
}

/* The norm of all gradients as weft_global_norm adds it, and the sum of the loss, from the numbers
 * of all ranks: the squares of each gradient, and the rank's own loss. */
static weft_status set_norm(weft_trainer *t, const float *all, weft_array **norm)
{
    const int n = t->slots.n, ranks = t->o.group->place.size;
    float squares = 0, loss = 0;
    for (int i = 0; i < n; i++) {
        const float own = all[(size_t)t->owners[i] * (size_t)(n + 1) + (size_t)i];
        squares = i == 0 ? own : squares + own;
    }
    for (int r = 0; r < ranks; r++) {
        const float own = all[(size_t)r * (size_t)(n + 1) + (size_t)n];
        loss = r == 0 ? own : loss + own;
    }
    weft_array *sum = weft_to(weft_from_data(&loss, WEFT_FLOAT32, (weft_dims){.n = 0}),
                              weft_device_of(t->sums[n]));
    *norm = weft_sqrt(weft_to(weft_from_data(&squares, WEFT_FLOAT32, (weft_dims){.n = 0}),
                              weft_device_of(*t->slots.slots[0])));
    return weft_update(t->sum_slots + n, &sum, 1);
}

/* Exchanges the norm and the loss. */
static weft_status add_numbers(weft_trainer *t, weft_array **norm)
{
    const size_t n = (size_t)t->slots.n + 1, ranks = (size_t)t->o.group->place.size;
    weft_array **arrays = weft_calloc(n, sizeof(weft_array *));
    float *own = weft_calloc(n, sizeof *own), *all = weft_calloc(n * ranks, sizeof *all);
    weft_status status = arrays && own && all
                             ? read_squares(t, arrays, all, own)
                             : weft__out_of_memory("training", "the norm of the gradients");
    if (status == WEFT_OK)
        status = weft_read(t->sums[n - 1], WEFT_FLOAT32, &own[n - 1], 1);
    status = weft_group_agree(t->o.group, status, NULL);
    if (status == WEFT_OK)
        status = weft_group_gather(t->o.group, own, n * sizeof *own, all);
    if (status == WEFT_OK)
        status = weft_group_agree(t->o.group, set_norm(t, all, norm), NULL);
    weft_free(arrays);
    weft_free(own);
    weft_free(all);
    return status;
}

weft_status weft__group_add_sums(weft_trainer *t, weft_status status, weft_array **norm)
{
    *norm = NULL;
    if (weft__group_is_one(t->o.group))
        return status;
    status = add_rewards(t, status);
    if (status == WEFT_OK)
        status = weft__group_move(t->o.group, WEFT_OK, WEFT__MOVE_SUMS, t->sum_slots, t->owners,
                                  t->slots.n);
    return status == WEFT_OK ? add_numbers(t, norm) : status;
}

/* ---- parameters ----------------------------------------------------------------------------- */

weft_status weft__group_share_update(weft_trainer *t, weft_status status, bool applied)
{
    weft_group *group = t->o.group;
    if (weft__group_is_one(group))
        return status;
    /* Without memory an update changes nothing. */
    double values[WEFT__EXCHANGED] = {status != WEFT_MEMORY};
    status = weft__group_exchange(group, status, NULL, values, NULL);
    t->torn = t->torn || group->broken;
    for (int r = 0; status != WEFT_OK && r < group->place.size; r++)
        t->torn = t->torn || weft__group_value(group, r, 0) != 0;
    if (status != WEFT_OK)
        return status;
    float *none; /* those of the sums are kept for the parameters */
    if (!applied)
        return weft__group_values(group, 0, &none);
    status =
        weft__group_move(group, WEFT_OK, WEFT__MOVE_TO_ALL, t->slots.slots, t->owners, t->slots.n);
    t->torn = status != WEFT_OK;
    return status;
}

/* ---- states --------------------------------------------------------------------------------- */

weft_status weft__group_collect_states(weft_trainer *t, bool wanted)
{
    weft_group *group = t->o.group;
    if (weft__group_is_one(group))
        return WEFT_OK;
    if (t->torn)
        return weft_fail(WEFT_CANCELLED, "not every rank has made the latest update");
    int n;
    weft_array ***slots = weft_optim_slots(t->optimizer, &n);
    const bool ended = group->ended;
    group->ended = false; /* after a failure that they agreed on, the ranks still save together */
    double values[WEFT__EXCHANGED] = {wanted};
    weft_status status = weft__group_exchange(group, WEFT_OK, NULL, values, NULL);
    if (status == WEFT_OK && weft__group_value(group, 0, 0) != 0)
        status = weft__group_move(group, WEFT_OK, WEFT__MOVE_TO_FIRST, slots,
                                  weft__optim_owners(t->optimizer), n);
    group->ended = group->ended || ended;
    return status;
}
