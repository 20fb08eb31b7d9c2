/* train/parallel/start.c -- before the first update: checks that all ranks agree, and sends a
 * checkpoint to all ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "optim/optim.h"
#include "train/parallel/group.h"
#include "train/parallel/parallel.h"
#include "train/run/number.h"
#include "weft/version.h"

/* ---- properties to compare ------------------------------------------------------------------ */

enum { MOST_FACTS = 40 };

typedef struct fact {
    char name[32], value[96];
} fact;

typedef struct facts {
    int32_t n;
    fact at[MOST_FACTS];
} facts;

static void add_text(facts *f, const char *name, const char *value)
{
    if (f->n++ >= MOST_FACTS)
        return; /* weft__group_check_same fails */
    fact *next = &f->at[f->n - 1];
    snprintf(next->name, sizeof next->name, "%s", name);
    snprintf(next->value, sizeof next->value, "%s", value[0] ? value : "unknown");
}

static void add_number(facts *f, const char *name, double value)
{
    char text[WEFT__NUMBER_TEXT];
    add_text(f, name, weft__number(value, text));
}

static void add_hash(facts *f, const char *name, uint64_t hash)
{
    char text[WEFT__HASH_TEXT];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    add_text(f, name, text);
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = weft__mix(hash, at[i]);
    return weft__mix(hash, n);
}

static uint64_t hash_options(const optim_group *g)
{
    uint64_t hash = 0;
    for (int i = 0; i < g->n_fields; i++) {
        const weft_field *field = &g->type->fields[i];
        const size_t size = field->type == WEFT_FIELD_BOOL ? sizeof(bool) : sizeof(double);
        hash = mix_bytes(hash, (const char *)g->options + field->offset, size);
    }
    return hash;
}

static void add_data(facts *f, const weft_trainer *t, const weft_batches *batches,
                     const weft_dataset *validation)
{
    weft__identity id;
    weft__identity_of(&t->o, batches, &id);
    add_text(f, "base model", id.base);
    add_text(f, "tokenizer", id.tokenizer);
    add_text(f, "data", id.data);
    add_text(f, "teacher", id.teacher);
    add_number(f, "batch size", (double)id.batch_size);
    add_hash(f, "seed of the batches", id.order);
    weft_dataset_info info = {.samples = 0};
    if (validation)
        info = weft_dataset_info_of(validation);
    char text[96];
    snprintf(text, sizeof text, "%lld samples of %lld tokens", (long long)info.samples,
             (long long)info.tokens);
    add_text(f, "validation data", text);
    add_hash(f, "general text", t->o.general ? weft__dataset_hash(0, t->o.general) : 0);
    weft__text objective = {0};
    weft__objective_write(&objective, id.objective, &id.objective_options);
    const bool known = !objective.failed && objective.n > 0;
    add_text(f, "objective", id.objective ? id.objective->name : "");
    add_hash(f, "objective's options", known ? mix_bytes(0, objective.at, objective.n) : 0);
    weft_free(objective.at);
}

/* How completions are sampled and rewarded. What a reward reads or runs is not compared. */
static void add_sampling(facts *f, const weft_sampling *s)
{
    uint64_t rewards = 0, stop = 0;
    for (int i = 0; s && i < s->n_rewards; i++) {
        const double weight = s->weights ? s->weights[i] : 1;
        rewards = mix_bytes(rewards, s->names[i], strlen(s->names[i]));
        rewards = mix_bytes(rewards, &weight, sizeof weight);
    }
    if (s)
        stop = mix_bytes(stop, s->stop, (size_t)s->n_stop * sizeof *s->stop);
    add_hash(f, "rewards and their weights", rewards);
    add_hash(f, "tokens that end completions", stop);
    add_number(f, "rows of sampling", s ? (double)s->rows : 0);
    add_number(f, "top_k", s ? (double)s->top_k : 0);
    add_number(f, "top_p", s ? s->top_p : 0);
    add_number(f, "min_p", s ? s->min_p : 0);
}

static void add_options(facts *f, const weft_trainer *t, const weft__plan *plan)
{
    const weft_trainer_options *o = &t->o;
    add_number(f, "steps", (double)plan->steps);
    add_number(f, "accumulate", (double)o->accumulate);
    add_number(f, "learning rate", o->lr);
    add_number(f, "LoRA+", o->lora_plus);
    add_text(f, "optimizer", o->optimizer->name);
    add_hash(f, "optimizer's options", hash_options(&t->optimizer->groups[0]));
    add_text(f, "schedule", o->schedule);
    add_number(f, "warmup", (double)plan->warmup);
    add_number(f, "clip", o->clip);
    add_number(f, "seed", (double)o->seed);
    add_number(f, "updates between validations", (double)o->validate_every);
    add_number(f, "validation samples", (double)o->validation_samples);
    add_number(f, "validation batch", (double)o->validation_batch);
    add_number(f, "patience", (double)o->patience);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* The size in bytes of an array that is not encoded. */
static size_t bytes_of(const weft_array *a)
{
    return (size_t)weft_size(a) * weft_dtype_size(weft_dtype_of(a));
}

static size_t largest(weft_array ***slots, int n)
{
    size_t most = 1;
    for (int i = 0; i < n; i++)
        most = bytes_of(*slots[i]) > most ? bytes_of(*slots[i]) : most;
    return most;
}

static weft_status read_slot(weft_array *a, void *out)
{
    return weft_read(a, weft_dtype_of(a), out, weft_size(a));
}

static weft_status add_weights(facts *f, const weft_trainer *t)
{
    char *bytes = weft_malloc(largest(t->slots.slots, t->slots.n));
    weft_status status = bytes ? WEFT_OK : weft__out_of_memory("training", "a hash of weights");
    uint64_t names = 0, values = 0;
    for (int i = 0; status == WEFT_OK && i < t->slots.n; i++) {
        weft_array *a = *t->slots.slots[i];
        const weft_dims shape = weft_shape(a);
        names = mix_bytes(names, t->slots.paths[i], strlen(t->slots.paths[i]));
        names = mix_bytes(names, shape.at, (size_t)shape.n * sizeof *shape.at);
        status = read_slot(a, bytes);
        if (status == WEFT_OK)
            values = mix_bytes(values, bytes, bytes_of(a));
    }
    add_hash(f, "trained parameters", names);
    add_hash(f, "starting weights", values);
    weft_free(bytes);
    return status;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static weft_status compare(const facts *own, const facts *first)
{
    for (int i = 0; i < own->n && i < first->n; i++) {
        if (strcmp(own->at[i].value, first->at[i].value) != 0)
            return weft_fail(
                WEFT_INVALID,
                "training: %s: expected %s, as on rank 0, got %s: every rank needs the "
                "same model, data and options",
                own->at[i].name, weft_printable(first->at[i].value),
                weft_printable(own->at[i].value));
    }
    return WEFT_OK;
}

weft_status weft__group_check_same(const weft_trainer *t, const weft__plan *plan,
                                   const weft_batches *batches, const weft_dataset *validation)
{
    weft_group *group = t->o.group;
    if (weft__group_is_one(group))
        return WEFT_OK;
    facts own = {.n = 0};
    add_text(&own, "version of Weft", WEFT_VERSION);
    add_data(&own, t, batches, validation);
    add_options(&own, t, plan);
    add_sampling(&own, t->o.sampling);
    weft_status status = weft_group_agree(group, add_weights(&own, t), NULL);
    if (status == WEFT_OK && own.n > MOST_FACTS)
        return weft_fail(WEFT_UNSUPPORTED, "training: the ranks compare at most %d facts, got %d",
                         MOST_FACTS, own.n);
    facts first = own;
    if (status == WEFT_OK)
        status = weft_group_broadcast(group, &first, sizeof first);
    return status == WEFT_OK ? weft_group_agree(group, compare(&own, &first), NULL) : status;
}

/* ---- sharing -------------------------------------------------------------------------------- */

/* Sends the slots from rank 0 to all ranks. All ranks take part until the last slot, and then agree
 * on any failure. */
static weft_status share_slots(weft_group *group, weft_array ***slots, const int *owners, int n,
                               void *bytes)
{
    const int rank = weft_group_info_of(group).rank;
    const bool first = rank == 0;
    weft_status own = WEFT_OK, sent = WEFT_OK;
    for (int i = 0; sent == WEFT_OK && i < n; i++) {
        weft_array *a = *slots[i];
        if (first && own == WEFT_OK)
            own = read_slot(a, bytes);
        sent = weft_group_broadcast(group, bytes, bytes_of(a));
        if (sent != WEFT_OK || first || own != WEFT_OK ||
            (owners[i] != WEFT__EVERY_RANK && owners[i] != rank))
            continue;
        weft_scope_open_lean();
        weft_array *value =
            weft_to(weft_from_data(bytes, weft_dtype_of(a), weft_shape(a)), weft_device_of(a));
        own = weft_update(&slots[i], &value, 1);
        weft_scope_close(NULL);
    }
    return sent == WEFT_OK ? weft_group_agree(group, own, NULL) : sent;
}

weft_status weft__group_share_state(weft_trainer *t, weft__run_state *state)
{
    weft_group *group = t->o.group;
    if (weft__group_is_one(group))
        return WEFT_OK;
    weft_status status = weft_group_broadcast(group, state, sizeof *state);
    if (status != WEFT_OK || state->result.steps == 0)
        return status;
    status = weft_group_broadcast(group, t->micros, (size_t)group->place.size * sizeof *t->micros);
    if (status != WEFT_OK)
        return status;
    int n;
    weft_array ***slots = weft_optim_slots(t->optimizer, &n);
    void *bytes = weft_malloc(largest(slots, n));
    status = bytes ? WEFT_OK : weft__out_of_memory("training", "the weights of a checkpoint");
    status = weft_group_agree(group, status, NULL);
    if (status == WEFT_OK)
        status = share_slots(group, slots, weft__optim_owners(t->optimizer), n, bytes);
    weft_free(bytes);
    return status == WEFT_OK ? weft_group_agree(group, weft__optim_release(t->optimizer), NULL)
                             : status;
}
