/* train/pipeline.c -- micro-batches of a model whose layers are on several devices. Each is a plan
 * on a stream of its own, so while one computes on the second device, the next one computes on the
 * first. Their gradients are added in the order of the micro-batches: the sums have the same bits
 * however many are under way. */
#include <stdio.h>

#include "core/eval/pause.h"
#include "core/failure.h"
#include "train/trainer.h"
#include "weft/stream.h"

/* A micro-batch under way. */
typedef struct part {
    weft_stream *stream;
    weft_array **values; /* (slots + 2): gradients, loss, rewards or NULL; owned */
    weft_batch batch;    /* whose rewards they are; owns its columns */
} part;

struct weft__pipeline {
    part *parts;
    int n, first, used; /* under way: parts[(first + i) % n], i < used < n, oldest first */
};

/* ---- making ---------------------------------------------------------------------------------- */

/* The number of devices besides the CPU that parameters are on. */
static weft_status count_devices(weft_trainer *t, int *n)
{
    weft_device *found[WEFT_MODEL_DEVICES + 1] = {weft_device_get("cpu")};
    weft_nn_slots all;
    int count = 1;
    const weft_status status = weft_nn_parameters(weft_model_module(t->model), &all);
    for (int i = 0; status == WEFT_OK && i < all.n && count <= WEFT_MODEL_DEVICES; i++) {
        weft_device *device = weft_device_of(*all.slots[i]);
        int k = 0;
        while (k < count && found[k] != device)
            k++;
        if (k == count)
            found[count++] = device;
    }
    weft_nn_slots_free(&all);
    *n = count - 1;
    return status;
}

weft_status weft__pipeline_new(weft_trainer *t)
{
    int devices;
    weft_status status = count_devices(t, &devices);
    if (status != WEFT_OK || devices < 2)
        return status;
    weft__pipeline *p = t->pipeline = weft_calloc(1, sizeof *p);
    if (p)
        p->parts = weft_calloc((size_t)devices + 2, sizeof *p->parts);
    if (p == NULL || p->parts == NULL)
        return weft__out_of_memory("trainer", NULL);
    for (p->n = 0; p->n < devices + 2 && status == WEFT_OK; p->n++) {
        part *own = &p->parts[p->n];
        own->stream = weft_stream_new(NULL);
        own->values = weft_calloc((size_t)t->slots.n + 2, sizeof(weft_array *));
        if (own->stream == NULL || own->values == NULL)
            status = weft__out_of_memory("trainer", NULL);
    }
    return status;
}

void weft__pipeline_free(weft_trainer *t)
{
    weft__pipeline *p = t->pipeline;
    for (int i = 0; p && p->parts && i < p->n; i++) {
        weft_stream_free(p->parts[i].stream);
        weft_free(p->parts[i].values);
    }
    if (p)
        weft_free(p->parts);
    weft_free(p);
    t->pipeline = NULL;
}

/* ---- micro-batches --------------------------------------------------------------------------- */

static void keep(weft_trainer *t, part *own, const weft_batch *batch, weft_array *loss)
{
    const int n = t->slots.n;
    for (int i = 0; i < n; i++)
        own->values[i] = weft_keep(t->gradients[i]);
    own->values[n] = weft_keep(loss);
    own->values[n + 1] = t->row_rewards; /* owned by the trainer until now */
    t->row_rewards = NULL;
    own->batch = *batch;
    for (int c = 0; own->values[n + 1] && c < WEFT__COLUMNS; c++) {
        weft_array *column = *weft__batch_slot(batch, c);
        *weft__batch_slot(&own->batch, c) = column ? weft_keep(column) : NULL;
    }
}

static void drop(weft_trainer *t, part *own)
{
    const int n = t->slots.n;
    for (int c = 0; own->values[n + 1] && c < WEFT__COLUMNS; c++)
        weft_drop(*weft__batch_slot(&own->batch, c));
    for (int i = 0; i < n + 2; i++) {
        weft_drop(own->values[i]);
        own->values[i] = NULL;
    }
}

static int count_values(const weft_trainer *t, const part *own)
{
    return t->slots.n + 1 + (own->values[t->slots.n + 1] != NULL);
}

/* Waits for the oldest one and, unless `status` is a failure, adds its gradients to the sums. The
 * trainer's own may be those of a batch that has not begun. */
static weft_status finish_oldest(weft_trainer *t, weft_status status)
{
    weft__pipeline *p = t->pipeline;
    part *own = &p->parts[p->first];
    const int n = t->slots.n;
    const weft_status evaluated = weft_eval_n(own->values, count_values(t, own));
    status = status == WEFT_OK ? evaluated : status;
    weft_array **gradients = t->gradients, *rewards = t->row_rewards;
    weft_scope_open_lean();
    t->gradients = own->values;
    t->row_rewards = own->values[n + 1] ? weft_keep(own->values[n + 1]) : NULL;
    if (status == WEFT_OK)
        status = weft__trainer_read_rewards(t, &own->batch);
    if (status == WEFT_OK)
        status = weft__trainer_add_to_sums(t, own->values[n]);
    weft_drop(t->row_rewards);
    t->gradients = gradients;
    t->row_rewards = rewards;
    weft_scope_close(NULL);
    drop(t, own);
    p->first = (p->first + 1) % p->n;
    p->used--;
    return status;
}

bool weft__pipeline_is_used(const weft_trainer *t)
{
    return t->pipeline && !weft__pauses();
}

/* If as many are under way as may be, this one begins when the oldest has been computed, before
 * that is added to the sums. With too little memory for as many, fewer are under way. */
weft_status weft__pipeline_add(weft_trainer *t, const weft_batch *batch, weft_array *loss)
{
    weft__pipeline *p = t->pipeline;
    const part *oldest = &p->parts[p->first];
    const bool full = p->used == p->n - 1;
    weft_status status = full ? weft_eval_n(oldest->values, count_values(t, oldest)) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    part *own = &p->parts[(p->first + p->used) % p->n];
    keep(t, own, batch, loss);
    const int n = count_values(t, own);
    status = weft_eval_on(own->stream, own->values, n);
    while (status == WEFT_MEMORY && p->used > 0) {
        const weft_status finished = finish_oldest(t, WEFT_OK);
        if (finished != WEFT_OK) { /* also for want of memory: that one is lost */
            status = finished;
            break;
        }
        status = weft_eval_on(own->stream, own->values, n);
    }
    if (status != WEFT_OK)
        drop(t, own);
    p->used += status == WEFT_OK;
    return status == WEFT_OK && p->used == p->n ? finish_oldest(t, WEFT_OK) : status;
}

weft_status weft__pipeline_finish(weft_trainer *t, weft_status status)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
    while (t->pipeline && t->pipeline->used > 0) {
        const bool failed = status != WEFT_OK;
        status = finish_oldest(t, status);
        if (!failed && status != WEFT_OK)
            snprintf(why, sizeof why, "%s", weft_error_message());
    }
    return status == WEFT_OK ? status : weft_fail(status, "%s", why);
}
