/* core/eval/program.c -- makes a program: plans over stand-ins and records where the steps contain
 * addresses. */
#include "core/eval/program_parts.h"

#include <string.h>

#include "core/eval/queue.h"
#include "core/failure.h"
#include "core/list.h"
#include "core/shape.h"

/* ---- stand-ins ------------------------------------------------------------------------------ */

weft__buffer *weft__stand_in_new(weft__stand_ins *all, weft_device *device, int64_t bytes,
                                 const char *label, const weft_spec *spec)
{
    weft__buffer *b = weft__list_more(all->at, all->n) ? weft_calloc(1, sizeof *b) : NULL;
    if (!b) {
        weft__out_of_memory("compile", "a plan");
        return NULL;
    }
    b->device = device;
    b->bytes = weft__bucket_bytes(bytes);
    b->owned = true;
    atomic_store(&b->refs, 1);
    all->at[all->n] =
        (weft__program_buffer){.device = device, .bytes = b->bytes, .label = label, .spec = *spec};
    b->stand_in = ++all->n;
    return b;
}

static int64_t layout_bytes(const weft__layout *l)
{
    int64_t size = weft__shape_size(&l->spec.shape);
    return l->spec.encoding ? size / l->spec.encoding->block * l->spec.encoding->block_bytes
                            : size * (int64_t)weft_dtype_size(l->spec.dtype);
}

/* An evaluated array of the layout, without memory. NULL: out of memory. */
static weft_array *stand_in_array(weft__stand_ins *all, const weft__layout *l)
{
    weft__buffer *b = weft__stand_in_new(all, l->device, layout_bytes(l), "input", &l->spec);
    if (!b) {
        return NULL;
    }
    b->owned = l->lent;
    weft_array *a = weft__value_new(&l->spec, b, 0); /* its last user consumes it, if it is lent */
    if (!weft_ok(a)) {
        return NULL;
    }
    memcpy(a->view.strides, l->strides, sizeof l->strides);
    return a;
}

/* ---- addresses in the steps ----------------------------------------------------------------- */

typedef struct noting {
    weft__program *p;
    int64_t *next; /* per buffer: index of its next patch; NULL while patches are counted */
} noting;

static void note(noting *n, const weft__buffer *b, weft__patch patch)
{
    if (!b || !b->stand_in) {
        return;
    }
    weft__program_buffer *info = &n->p->buffers.at[b->stand_in - 1];
    if (n->next) {
        n->p->patches[n->next[b->stand_in - 1]++] = patch;
    } else {
        info->n_patches++;
    }
}

static void note_tensor(noting *n, const weft_tensor *tensor, weft__buffer **buffer)
{
    weft_tensor *t = (weft_tensor *)(uintptr_t)tensor; /* it is in the plan's memory, which may be
                                                        * written */
    note(n, *buffer, (weft__patch){&t->data, &t->buffer, &t->offset, buffer, t->offset});
}

static void note_step(noting *n, weft__step *s)
{
    for (int i = 0; i < s->call.n_inputs; i++) {
        note_tensor(n, &s->call.in[i], &s->buffers[i]);
    }
    for (int i = 0; i < s->call.n_outputs; i++) {
        weft__buffer **b = &s->buffers[s->call.n_inputs + i];
        if ((*b)->stand_in) {
            n->p->buffers.at[(*b)->stand_in - 1].written = true;
        }
        note_tensor(n, &s->call.out[i], b);
    }
    if (s->workspace) {
        n->p->buffers.at[s->workspace->stand_in - 1].written = true;
        note(n, s->workspace,
             (weft__patch){&s->call.workspace, &s->call.workspace_buffer, NULL, NULL, 0});
    }
}

static weft_status note_patches(weft__program *p)
{
    noting n = {.p = p};
    int64_t total = 0;
    for (weft__step *s = p->plan.first; s; s = s->next) {
        note_step(&n, s);
        p->facts.steps += s->kind != WEFT__STEP_NOTHING;
    }
    int64_t *next = weft_calloc((size_t)p->buffers.n, sizeof *next);
    for (int64_t i = 0; i < p->buffers.n; i++) {
        if (next) {
            next[i] = total;
        }
        p->buffers.at[i].first_patch = total;
        total += p->buffers.at[i].n_patches;
    }
    p->patches = weft_calloc((size_t)total, sizeof *p->patches);
    if (!next || !p->patches) {
        weft_free(next);
        return weft__out_of_memory("compile", "a plan");
    }
    n.next = next;
    for (weft__step *s = p->plan.first; s; s = s->next) {
        note_step(&n, s);
    }
    for (weft__step *s = p->plan.first; s; s = s->next) {
        s->workspace = NULL; /* a stand-in, which is about to be freed */
    }
    weft_free(next);
    return WEFT_OK;
}

/* ---- outputs and overwritten inputs ---------------------------------------------------------- */

static weft_status note_outputs(weft__program *p, weft_array *const *out, int n_out)
{
    for (int i = 0; i < n_out; i++) {
        const weft__entry *e = weft__plan_entry(&p->plan, out[i]);
        if (!e || !e->view) {
            return e ? weft_fail(WEFT_INVALID, "compile: the data of output %d was released", i)
                     : WEFT_MEMORY;
        }
        weft__program_output *o = &p->outputs[i];
        o->spec = out[i]->spec;
        o->view = *e->view;
        o->buffer = o->view.buffer->stand_in - 1;
        if (o->buffer >= 0) {
            o->view.buffer = NULL;
        } else {
            weft__buffer_ref(o->view.buffer); /* a constant */
        }
    }
    return WEFT_OK;
}

static void note_facts(weft__program *p)
{
    for (int64_t i = 0; i < p->buffers.n; i++) {
        const weft__program_buffer *b = &p->buffers.at[i];
        if (i < p->n_in) {
            p->facts.donations += b->written;
        } else {
            p->facts.buffers++;
            p->facts.bytes += b->bytes;
        }
    }
}

/* Makes steps that copy lent inputs whose own memory must not be overwritten. */
static weft_status make_copies(weft__program *p, const weft__layout *inputs)
{
    p->copies = weft_calloc((size_t)p->n_in, sizeof *p->copies);
    p->copied = weft_calloc(2 * (size_t)p->n_in, sizeof *p->copied);
    p->copied_buffers = weft_calloc(2 * (size_t)p->n_in, sizeof *p->copied_buffers);
    if (!p->copies || !p->copied || !p->copied_buffers) {
        return weft__out_of_memory("compile", "a plan");
    }
    for (int i = 0; i < p->n_in; i++) {
        const weft__layout *l = &inputs[i];
        weft_tensor t = {.dtype = l->spec.dtype, .shape = l->spec.shape};
        memcpy(t.strides, l->strides, sizeof t.strides);
        p->copied[2 * i] = p->copied[2 * i + 1] = t;
        weft__step_copies(&p->copies[i], l->device, &p->copied[2 * i], &p->copied[2 * i + 1],
                          &p->copied_buffers[2 * i]);
    }
    return WEFT_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

static int64_t count_fused(const weft__layout *inputs, int n_in)
{
    weft_device *device = n_in > 0 ? inputs[0].device : weft_default_device();
    return device ? device->counts.fused : 0;
}

/* Called under the evaluation lock. */
static weft_status plan(weft__program *p, weft_array *const *out, int n_out)
{
    p->plan.stand_ins = &p->buffers;
    p->plan.first_internal = weft__next_seq();
    p->plan.each_op = weft__check_nan();
    weft_status status = weft__plan_make(&p->plan, out, n_out);
    if (status == WEFT_OK) {
        status = note_patches(p);
    }
    if (status == WEFT_OK) {
        status = note_outputs(p, out, n_out);
    }
    p->plan.stand_ins = NULL;
    return status;
}

static weft_status plan_over(weft__program *p, const weft__layout *inputs,
                             weft__graph_builder *build, void *context, weft_array **in,
                             weft_array **out, int n_out)
{
    for (int i = 0; i < p->n_in; i++) {
        in[i] = stand_in_array(&p->buffers, &inputs[i]);
        if (!in[i]) {
            return weft__out_of_memory("compile", "a plan");
        }
        if (!inputs[i].lent) {
            weft__scope_pin(in[i]);
        }
    }
    weft_status status = build(context, in, out);
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        status = weft_ok(out[i]) ? WEFT_OK : weft__report(out[i]);
    }
    if (status != WEFT_OK) {
        return status;
    }
    for (int i = 0; i < n_out; i++) {
        weft__hold(out[i]);
    }
    status = weft__evaluation_begin();
    if (status == WEFT_OK) {
        const int64_t before = count_fused(inputs, p->n_in);
        status = plan(p, out, n_out);
        p->facts.fused = count_fused(inputs, p->n_in) - before;
        weft__plan_forget(&p->plan);
        weft__evaluation_leave();
        weft__evaluation_end();
    }
    for (int i = 0; i < n_out; i++) {
        weft__unhold(out[i]);
    }
    return status;
}

weft_status weft__program_new(const weft__layout *inputs, int n_in, weft__graph_builder *build,
                              void *context, int n_out, weft__program **out)
{
    *out = NULL;
    weft__program *p = weft_calloc(1, sizeof *p);
    if (!p) {
        return weft__out_of_memory("compile", "a plan");
    }
    p->n_in = n_in;
    p->n_out = n_out;
    p->outputs = weft_calloc((size_t)n_out, sizeof *p->outputs);
    weft_array **arrays = weft_calloc((size_t)(n_in + n_out), sizeof(weft_array *));
    weft_status status =
        p->outputs && arrays ? make_copies(p, inputs) : weft__out_of_memory("compile", "a plan");
    weft_scope_open_lean();
    if (status == WEFT_OK) {
        status = plan_over(p, inputs, build, context, arrays, arrays + n_in, n_out);
    }
    weft_scope_close(NULL);
    weft_free(arrays);
    if (status == WEFT_OK) {
        p->bases = weft_calloc((size_t)p->buffers.n, sizeof *p->bases);
        status = p->bases ? WEFT_OK : weft__out_of_memory("compile", "a plan");
    }
    if (status != WEFT_OK) {
        weft__program_free(p);
        return status;
    }
    note_facts(p);
    *out = p;
    return WEFT_OK;
}

void weft__program_free(weft__program *p)
{
    if (!p) {
        return;
    }
    weft__pending_wait_ticket(p->ticket);
    for (int i = 0; p->outputs && i < p->n_out; i++) {
        if (p->outputs[i].view.buffer) {
            weft__buffer_unref(p->outputs[i].view.buffer);
        }
    }
    weft__plan_free(&p->plan);
    weft_free(p->buffers.at);
    weft_free(p->outputs);
    weft_free(p->patches);
    weft_free(p->bases);
    weft_free(p->copies);
    weft_free(p->copied);
    weft_free(p->copied_buffers);
    weft_free(p);
}

weft__program_facts weft__program_facts_of(const weft__program *p)
{
    return p->facts;
}
