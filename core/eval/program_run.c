/* core/eval/program_run.c -- runs a program: allocates memory, writes addresses, runs the steps. */
#include <stdatomic.h>
#include <string.h>

#include "core/eval/program_parts.h"
#include "core/eval/queue.h"
#include "core/failure.h"

/* One run. */
typedef struct running {
    weft__program *p;
    const weft__program_call *call;
    weft__base *bases;    /* per block; each buffer has a reference */
    weft__buffer **owned; /* per input: its own memory if a copy replaces it, else NULL */
    bool *given;          /* per input: its memory is overwritten */
    weft__step *first;    /* copy steps, then the plan's steps */
    weft__step *last_copy;
    weft_stream *stream; /* NULL: runs on the calling thread */
    weft__pending *pending;
} running;

/* Numbers that mark the memory of inputs that must not be overwritten. */
static atomic_uint_fast64_t next_mark = 1;

/* ---- memory --------------------------------------------------------------------------------- */

static bool is_lent(const running *r, int i)
{
    return r->call->replaced && r->call->replaced[i] && r->p->buffers.at[i].written;
}

/* Whether nothing else sees the memory of an input that may be overwritten: only the slot holds the
 * array, no scope keeps it readable, no lazy array needs it, no other array shares its buffer. */
static bool is_alone(const running *r, int i)
{
    weft_array *a = r->call->in[i];
    const weft__view *view = &a->view;
    const weft__buffer *b = view->buffer;
    return atomic_load(&a->holds) == 1 && weft__uses(a) == 0 && !weft__readable(a) && b->owned &&
           atomic_load(&b->refs) == 1 && view->offset == 0 && b->bytes >= r->p->buffers.at[i].bytes;
}

static void take_input(running *r, int i)
{
    const weft__view *view = &r->call->in[i]->view;
    weft__buffer *b = view->buffer;
    weft__buffer_ref(b);
    r->bases[i] = (weft__base){.buffer = b,
                               .handle = b->handle,
                               .host = b->host ? (char *)b->host + view->offset : NULL,
                               .offset = view->offset};
}

static const void *owner_of(const running *r)
{
    return r->stream ? (const void *)r->stream : weft__thread_owner();
}

static weft_status take_block(running *r, int64_t i)
{
    const weft__program_buffer *info = &r->p->buffers.at[i];
    weft__buffer *b =
        weft__buffer_new(info->device, info->bytes, owner_of(r), info->label, &info->spec);
    if (!b) {
        return WEFT_MEMORY;
    }
    r->bases[i] = (weft__base){.buffer = b, .handle = b->handle, .host = b->host};
    return WEFT_OK;
}

/* Allocates a block that replaces an input, and adds the step that fills it. */
static weft_status take_copy(running *r, int i)
{
    take_input(r, i);
    weft__base from = r->bases[i];
    r->owned[i] = from.buffer;
    r->bases[i].buffer = NULL;
    weft_status status = take_block(r, i);
    if (status != WEFT_OK) {
        return status;
    }
    weft__program *p = r->p;
    const weft__base *bases[] = {&from, &r->bases[i]};
    for (int k = 0; k < 2; k++) {
        weft_tensor *t = &p->copied[2 * i + k];
        t->data = bases[k]->host;
        t->buffer = bases[k]->handle;
        t->offset = bases[k]->offset;
        p->copied_buffers[2 * i + k] = bases[k]->buffer;
    }
    weft__step *copy = &p->copies[i];
    *(r->last_copy ? &r->last_copy->next : &r->first) = copy;
    r->last_copy = copy;
    return WEFT_OK;
}

static weft_status take_memory(running *r)
{
    const uint64_t mark = UINT64_MAX - atomic_fetch_add(&next_mark, 1); /* never the number of a
                                                                         * plan */
    for (int i = 0; i < r->p->n_in; i++) {
        weft__buffer *b = r->call->in[i]->view.buffer;
        /* A buffer that is still to be filled may carry the mark of its previous contents. */
        if (atomic_load(&b->failed) && !weft__is_pending(atomic_load(&b->writer))) {
            return weft__failed_before("compiled function", b, weft__thread_owner());
        }
        if (!is_lent(r, i)) {
            b->plan = mark;
        }
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < r->p->n_in && status == WEFT_OK; i++) {
        weft__buffer *b = r->call->in[i]->view.buffer;
        if (!is_lent(r, i)) {
            if (r->p->buffers.at[i].written) {
                status = take_copy(r, i);
            } else {
                take_input(r, i);
            }
        } else if (b->plan != mark && is_alone(r, i)) {
            b->plan = mark;
            take_input(r, i);
            r->given[i] = true;
        } else {
            status = take_copy(r, i);
        }
    }
    for (int64_t i = r->p->n_in; i < r->p->buffers.n && status == WEFT_OK; i++) {
        status = take_block(r, i);
    }
    return status;
}

typedef void buffer_call(weft__buffer *b);

static void with_memory(running *r, buffer_call *call)
{
    for (int64_t i = 0; i < r->p->buffers.n; i++) {
        if (r->bases[i].buffer) {
            call(r->bases[i].buffer);
        }
    }
    for (int i = 0; i < r->p->n_in; i++) {
        if (r->owned[i]) {
            call(r->owned[i]);
        }
    }
}

static void give_back_memory(running *r)
{
    with_memory(r, weft__buffer_unref);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static void set_addresses(running *r)
{
    weft__program *p = r->p;
    for (int64_t i = 0; i < p->buffers.n; i++) {
        const weft__base base = r->bases[i], *old = &p->bases[i];
        if (base.buffer == old->buffer && base.handle == old->handle && base.host == old->host &&
            base.offset == old->offset) {
            continue; /* unchanged since the previous run, which is the usual case */
        }
        const weft__patch *patch = &p->patches[p->buffers.at[i].first_patch];
        for (int64_t k = 0; k < p->buffers.at[i].n_patches; k++, patch++) {
            *patch->data = base.host ? base.host + patch->offset : NULL;
            *patch->handle = base.handle;
            if (patch->at) {
                *patch->at = base.offset + patch->offset;
            }
            if (patch->buffer) {
                *patch->buffer = base.buffer;
            }
        }
        p->bases[i] = base;
    }
}

/* ---- results -------------------------------------------------------------------------------- */

static weft_status make_outputs(running *r)
{
    for (int i = 0; i < r->p->n_out; i++) {
        const weft__program_output *o = &r->p->outputs[i];
        const weft__base *base = o->buffer >= 0 ? &r->bases[o->buffer] : NULL;
        weft__buffer *b = base ? base->buffer : o->view.buffer;
        weft__buffer_ref(b);
        weft_array *a = weft__value_new(&o->spec, b, (base ? base->offset : 0) + o->view.offset);
        r->call->out[i] = a;
        if (!weft_ok(a)) {
            return weft__report(a);
        }
        memcpy(a->view.strides, o->view.strides, sizeof o->view.strides);
    }
    return WEFT_OK;
}

/* Marks inputs whose memory was overwritten as spent. */
static void spend(const running *r)
{
    for (int i = 0; i < r->p->n_in; i++) {
        if (r->given[i]) {
            weft_array *a = r->call->in[i];
            atomic_store_explicit(&a->state, WEFT__SPENT, memory_order_release);
            weft__buffer_unref(a->view.buffer);
            a->view.buffer = NULL;
        }
    }
}

/* After a failure the array is restored; its elements are lost if a step may have written to them.
 */
static void unspend(const running *r, int i)
{
    weft_array *a = r->call->in[i];
    weft__buffer *b = r->bases[i].buffer;
    if (!weft__plan_left_intact(&r->pending->plan, b)) {
        atomic_store(&b->failed, true);
    }
    weft__buffer_ref(b);
    a->view.buffer = b;
    atomic_store_explicit(&a->state, WEFT__EVALUATED, memory_order_release);
}

static void free_run(running *r)
{
    weft_free(r->bases);
    weft_free(r->owned);
    weft_free(r->given);
    weft_free(r);
}

static void finish(void *context)
{
    running *r = context;
    with_memory(r, r->stream ? weft__buffer_end : weft__buffer_unref);
    free_run(r);
}

/* ---- running -------------------------------------------------------------------------------- */

static void unlink_copies(running *r)
{
    for (weft__step *s = r->first; s && r->last_copy; s = s->next) {
        if (s == r->last_copy) {
            s->next = r->p->plan.first;
            break;
        }
    }
}

/* Records the buffers that the plan reads and writes, to order it among the pending plans. */
static void note_memory(running *r)
{
    weft__pending_begin(r->pending, owner_of(r));
    weft__pending_steps(r->pending, r->pending->plan.first);
    for (int64_t i = r->p->n_in; i < r->p->buffers.n; i++) {
        weft__pending_writes(r->pending, r->bases[i].buffer); /* including workspaces */
    }
    r->p->ticket = r->pending->ticket;
    r->p->owner = owner_of(r);
}

/* Marks the buffers that the run of that ticket was the last to write as failed. */
static void mark_failed(void *context, uint64_t ticket)
{
    const running *r = context;
    for (int64_t i = 0; i < r->p->buffers.n; i++) {
        weft__buffer *b = r->bases[i].buffer;
        if (b && atomic_load(&b->writer) == ticket) {
            atomic_store(&b->failed, true);
        }
    }
}

/* All memory is allocated; from here on only a kernel can fail. Called under the evaluation lock.
 */
static void start(running *r)
{
    set_addresses(r);
    unlink_copies(r);
    r->pending->plan.owner = owner_of(r);
    r->pending->plan.first = r->last_copy ? r->first : r->p->plan.first;
    note_memory(r);
    spend(r); /* a stream may finish the run before this thread continues */
    if (r->stream) {
        /* Marks the buffers busy instead of keeping references, as plans do: the next run may
         * overwrite results. */
        with_memory(r, weft__buffer_begin);
        give_back_memory(r);
        r->pending->done = finish;
        r->pending->on_failure = mark_failed;
        r->pending->context = r;
        weft__stream_queue(r->stream, r->pending);
    } else {
        weft__pending_enter(r->pending);
    }
}

static weft_status run_here(running *r)
{
    weft_status status = weft__pending_run(r->pending, &r->pending->plan);
    for (int i = 0; i < r->p->n_in && status != WEFT_OK; i++) {
        if (r->given[i]) {
            unspend(r, i);
        }
    }
    weft_free(r->pending);
    finish(r);
    return status;
}

static weft_status take_all(running *r)
{
    weft_status status = take_memory(r);
    if (status == WEFT_OK) {
        status = make_outputs(r);
    }
    if (status != WEFT_OK) {
        give_back_memory(r);
    }
    return status;
}

static running *new_run(weft__program *p, const weft__program_call *call)
{
    running *r = weft_calloc(1, sizeof *r);
    if (!r) {
        return NULL;
    }
    *r = (running){.p = p,
                   .call = call,
                   .bases = weft_calloc((size_t)p->buffers.n, sizeof *r->bases),
                   .owned = weft_calloc((size_t)p->n_in, sizeof *r->owned),
                   .given = weft_calloc((size_t)p->n_in, sizeof *r->given),
                   .pending = weft_calloc(1, sizeof *r->pending)};
    if (!r->bases || !r->owned || !r->given || !r->pending) {
        weft_free(r->pending);
        free_run(r);
        return NULL;
    }
    weft_stream *stream = call->wait ? NULL : weft_default_stream();
    r->stream = stream && weft__stream_start(stream) ? stream : NULL;
    return r;
}

bool weft__program_idle(const weft__program *p)
{
    return !weft__is_pending(p->ticket);
}

weft_status weft__program_run(weft__program *p, const weft__program_call *call)
{
    running *r = new_run(p, call);
    if (!r) {
        return weft__out_of_memory("compile", "a call");
    }
    if (!weft__evaluating) { /* the previous run uses the steps until it is issued */
        if (p->owner == owner_of(r)) {
            weft__pending_wait_issued(p->ticket);
        } else {
            weft__pending_wait_ticket(p->ticket);
        }
    }
    weft_status status = weft__evaluation_begin();
    if (status != WEFT_OK) {
        weft_free(r->pending);
        free_run(r);
        return status;
    }
    const bool here = !r->stream; /* once queued, `r` belongs to the stream */
    status = take_all(r);
    if (status == WEFT_OK) {
        start(r);
    } else {
        weft_free(r->pending);
        free_run(r);
    }
    weft__evaluation_leave();
    if (status == WEFT_OK && here) {
        status = run_here(r);
    }
    weft__evaluation_end();
    weft__scope_evaluated();
    weft__pause(WEFT_PAUSE_AFTER);
    return status;
}
