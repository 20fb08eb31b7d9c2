/* core/compile/tracing.c -- traces a function by calling it on placeholders, and records what it
 * does to the slots. */
#include <stdio.h>
#include <string.h>

#include "core/compile/compiled.h"
#include "core/failure.h"
#include "weft/random.h"
#include "weft/shape.h"

void weft__slot_text(const weft_compiled *c, int slot, char *text, size_t size)
{
    const char *name = c->options.state_names ? c->options.state_names[slot] : NULL;
    if (name) {
        snprintf(text, size, "state %d (%s)", slot, name);
    } else {
        snprintf(text, size, "state %d", slot);
    }
}

/* ---- slots that the function may set --------------------------------------------------------- */

typedef struct watch {
    weft__observer base;
    const weft_compiled *c;
    uint64_t since;          /* arrays with this seq or a larger one were made by the function */
    weft_array *placeholder; /* placeholder for the key of a call */
    weft_array *key;         /* key that the next one is split from; held */
    weft_status status;
    char message[512];
} watch;

weft_array *weft__split_key(weft_array **key)
{
    weft_scope_open();
    weft_array *keys = weft_random_split(*key, 2);
    weft_array *rest = weft_squeeze(weft_slice_axis(keys, 0, 0, 1), 0);
    weft_array *given = weft_squeeze(weft_slice_axis(keys, 0, 1, 2), 0);
    if (weft_ok(rest)) {
        weft__hold(rest);
        weft__unhold(*key);
        *key = rest;
    }
    return weft_scope_close(given);
}

/* The random generator of a call. Its state is a key that each call takes from the default
 * generator. */
static weft_array *next_key(weft__observer *base)
{
    return weft__split_key(&((watch *)base)->key);
}

/* Records the first refused slot, for functions that do not check the status. */
static void note_refusal(weft__observer *base, weft_status status)
{
    watch *w = (watch *)base;
    if (w->status == WEFT_OK) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", weft_error_message());
    }
}

/* A slot may be set if it is in the list, or if it holds no array made before: then it is the
 * function's own. */
static bool may_set(weft__observer *base, weft_array **slot)
{
    watch *w = (watch *)base;
    bool fine = !*slot || (*slot)->seq >= w->since;
    for (int i = 0; i < w->c->n_slots && !fine; i++) {
        fine = w->c->slots[i] == slot;
    }
    if (fine) {
        return true;
    }
    const char *path = weft__path_text();
    weft_fail(WEFT_INVALID, "%s%s%s: the function sets a slot that is not in its state list", path,
              path[0] ? ": " : "", w->c->name);
    return false;
}

/* ---- one call ------------------------------------------------------------------------------- */

typedef struct tracing {
    weft_compiled *c;
    weft__combination *k;
    watch watch;
    weft_array **placeholders; /* per input; each has a reference */
    weft_array **arguments;    /* per argument and slot: its placeholder or NULL */
    weft_array **originals;    /* per slot */
    weft__results results;
    weft_array **outs; /* the results, then the new values of slots */
    weft_array **set;  /* the new values of slots */
    int64_t n_inputs;
    int n_set;
} tracing;

static bool make_room(tracing *t)
{
    const size_t n = (size_t)(t->k->n_in + t->c->n_slots) + 1; /* and a random key */
    t->placeholders = weft_calloc(n, sizeof(weft_array *));
    t->arguments = weft_calloc(n, sizeof(weft_array *));
    t->originals = weft_calloc((size_t)t->c->n_slots, sizeof(weft_array *));
    t->set = weft_calloc((size_t)t->c->n_slots, sizeof(weft_array *));
    return t->placeholders && t->arguments && t->originals && t->set;
}

static void free_room(tracing *t)
{
    for (int64_t i = 0; i < t->n_inputs; i++) {
        weft__unref(t->placeholders[i]);
    }
    weft_free(t->placeholders);
    weft_free(t->arguments);
    weft_free(t->originals);
    weft_free(t->set);
    weft_free(t->outs);
    weft_free(t->results.at);
}

/* Made before the call: a checkpoint would make it again if it were made inside. */
static weft_status make_key(watch *w)
{
    const weft_spec spec = {.dtype = WEFT_UINT32, .shape = WEFT_DIMS(2)};
    weft_array *a = weft__placeholder(&spec, weft_default_device(), -1);
    if (!weft_ok(a)) {
        return weft__report(a);
    }
    weft__hold(a);
    w->placeholder = w->key = a;
    return WEFT_OK;
}

static weft_status make_placeholders(tracing *t)
{
    for (int i = 0; i < t->k->n_in + t->c->n_slots; i++) {
        const weft__parameter *p = &t->k->parameters[i];
        if (!p->device) {
            continue;
        }
        weft_array *a = weft__placeholder(&p->spec, p->device, i);
        if (!weft_ok(a)) {
            return weft__report(a);
        }
        weft__ref(a);
        t->placeholders[t->n_inputs++] = t->arguments[i] = a;
    }
    return WEFT_OK;
}

static void replace_slots(tracing *t)
{
    for (int i = 0; i < t->c->n_slots; i++) {
        weft_array *a = t->arguments[t->k->n_in + i];
        t->originals[i] = *t->c->slots[i];
        if (a) {
            weft__hold(a);
        }
        *t->c->slots[i] = a;
    }
}

/* Restores the slots' own arrays. The arrays that the function left in them move to the scope. */
static void restore_slots(tracing *t, weft__slot_effect *effects)
{
    for (int i = 0; i < t->c->n_slots; i++) {
        weft_array *now = *t->c->slots[i];
        *t->c->slots[i] = t->originals[i];
        effects[i] = now == t->arguments[t->k->n_in + i] ? WEFT__SLOT_UNCHANGED
                     : now                               ? WEFT__SLOT_SET
                                                         : WEFT__SLOT_CLEARED;
        if (effects[i] == WEFT__SLOT_SET) {
            t->set[t->n_set++] = now;
            weft__ref(now); /* kept until the trace is made */
        }
        if (now) {
            weft__unhold(now);
        }
    }
}

static weft_status call_function(tracing *t, weft__slot_effect *effects)
{
    weft__observer *before = weft__current_observer;
    const int differentiating = weft__differentiating;
    weft__recording recording;
    replace_slots(t);
    weft__current_observer = &t->watch.base;
    weft__differentiating = 0;
    weft__begin_recording(&recording);
    weft_status status =
        weft__call_function(t->c->fn, t->c->context, t->arguments, t->k->n_in, &t->results);
    const weft_status unread = weft__end_recording(&recording, t->c->name);
    weft__differentiating = differentiating;
    weft__current_observer = before;
    restore_slots(t, effects);
    t->c->counts.traces++;
    if (t->watch.key != t->watch.placeholder) { /* true: the function drew random numbers */
        t->placeholders[t->n_inputs++] = t->watch.placeholder;
        weft__ref(t->watch.placeholder);
    }
    if (unread != WEFT_OK) {
        return unread;
    }
    return t->watch.status == WEFT_OK ? status : weft_fail(t->watch.status, "%s", t->watch.message);
}

/* Traces the results, followed by the new values of the slots. */
static weft_status trace_graph(tracing *t, weft__trace *trace)
{
    const int n = t->results.n;
    t->outs = weft_calloc((size_t)(n + t->n_set), sizeof(weft_array *));
    if (!t->outs) {
        return weft__out_of_memory(t->c->name, "a trace");
    }
    for (int i = 0; i < n + t->n_set; i++) {
        t->outs[i] = i < n ? t->results.at[i] : t->set[i - n];
    }
    t->k->n_out = n;
    return weft__trace_make(trace, t->placeholders, t->n_inputs, t->outs, n + t->n_set,
                            t->watch.since);
}

/* Replaces captured constants that are arrays of listed slots by the slots' arguments. */
static void find_captured_slots(const tracing *t, weft__trace *trace)
{
    for (int64_t k = 0; k < trace->n_constants; k++) {
        int64_t input = -1, next = 0;
        for (int i = 0; i < t->k->n_in + t->c->n_slots; i++) {
            int slot = i - t->k->n_in;
            if (slot >= 0 && t->arguments[i] && t->originals[slot] == trace->constants[k]) {
                input = next;
            }
            next += t->arguments[i] != NULL;
        }
        if (input >= 0) {
            weft__trace_redirect(trace, (weft__value){WEFT__CONSTANT, (uint32_t)k, 0},
                                 (weft__value){WEFT__ARGUMENT, (uint32_t)input, 0});
        }
    }
}

/* After the graph is freed only this call refers to the placeholders. Otherwise the function has
 * kept an array that depends on one outside of the state list, which is an error. */
static weft_status check_kept(const tracing *t)
{
    int64_t next = 0;
    for (int i = 0; i < t->k->n_in + t->c->n_slots; i++) {
        if (!t->arguments[i] || weft__refs(t->placeholders[next++]) == 1) {
            continue;
        }
        char which[160];
        snprintf(which, sizeof which, "input %d", i);
        if (i >= t->k->n_in) {
            weft__slot_text(t->c, i - t->k->n_in, which, sizeof which);
        }
        return weft_fail(WEFT_INVALID,
                         "%s: the function keeps an array that depends on %s: the slot that holds "
                         "it is not in its state list",
                         t->c->name, which);
    }
    return WEFT_OK;
}

static weft_status trace_once(tracing *t, weft__trace *trace, weft__slot_effect *effects)
{
    weft_scope_open();
    t->watch =
        (watch){.base = {may_set, next_key, note_refusal}, .c = t->c, .since = weft__next_seq()};
    weft_status status = make_placeholders(t);
    if (status == WEFT_OK) {
        status = make_key(&t->watch);
    }
    if (status == WEFT_OK) {
        status = call_function(t, effects);
        if (status == WEFT_OK) {
            status = trace_graph(t, trace);
        }
        for (int i = 0; i < t->n_set; i++) {
            weft__unref(t->set[i]);
        }
    }
    if (t->watch.key) {
        weft__unhold(t->watch.key);
    }
    weft_scope_close(NULL);
    if (status == WEFT_OK) {
        find_captured_slots(t, trace);
        status = check_kept(t);
    }
    if (status != WEFT_OK) {
        weft__trace_free(trace);
    }
    return status;
}

/* ---- a combination -------------------------------------------------------------------------- */

static weft_status trace_function(weft_compiled *c, weft__combination *k, weft__trace *trace)
{
    tracing t = {.c = c, .k = k};
    *trace = (weft__trace){0};
    weft_status status =
        make_room(&t) ? trace_once(&t, trace, k->effects) : weft__out_of_memory(c->name, "a trace");
    free_room(&t);
    return status;
}

weft_status weft__combination_trace(weft_compiled *c, weft__combination *k)
{
    weft__trace whole;
    weft_status status = trace_function(c, k, &whole);
    if (status != WEFT_OK) {
        return status;
    }
    int64_t input = k->n_in;
    for (int i = 0; i < c->n_slots; i++) {
        if (k->parameters[k->n_in + i].device) {
            k->replaced[input++] = k->effects[i] != WEFT__SLOT_UNCHANGED;
        }
        k->n_set += k->effects[i] == WEFT__SLOT_SET;
    }
    k->traced = whole.n_nodes;
    k->draws = whole.n_arguments > k->n_inputs;
    k->n_inputs = whole.n_arguments;
    if (c->options.as_written) {
        k->trace = whole;
        return WEFT_OK;
    }
    status = weft__simplify(&whole, false, &k->trace);
    weft__trace_free(&whole);
    return status == WEFT_OK ? weft__join_appends(&k->trace, c->options.own_pages) : status;
}
