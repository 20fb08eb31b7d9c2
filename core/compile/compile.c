/* core/compile/compile.c -- compiled functions: creation, calls and call counts. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compile/compiled.h"
#include "core/failure.h"
#include "weft/random.h"

enum { DEFAULT_CACHE = 8, DEFAULT_LENGTHS = 64 };

/* ---- switching compilation on and off -------------------------------------------------------- */

static atomic_int enabled = -1; /* -1: set by the environment */

bool weft_compile_enabled(void)
{
    int on = atomic_load(&enabled);
    if (on < 0) {
        const char *text = getenv("WEFT_COMPILE");
        on = !(text && strcmp(text, "0") == 0);
        atomic_store(&enabled, on);
    }
    return on > 0;
}

void weft_compile_enable(bool on)
{
    atomic_store(&enabled, on);
}

/* ---- making --------------------------------------------------------------------------------- */

/* Copies the slots without duplicates. */
static weft_status copy_slots(weft_compiled *c, weft_array **const *state, int n_state)
{
    const char *const *names = c->options.state_names;
    const char **kept = names ? weft_calloc((size_t)n_state, sizeof *kept) : NULL;
    c->slots = weft_calloc((size_t)n_state, sizeof *c->slots);
    c->options.state_names = kept;
    if (!c->slots || (names && !kept)) {
        return weft__out_of_memory("compile", NULL);
    }
    for (int i = 0; i < n_state; i++) {
        int k = 0;
        while (k < c->n_slots && c->slots[k] != state[i]) {
            k++;
        }
        if (k == c->n_slots) {
            if (kept) {
                kept[k] = names[i];
            }
            c->slots[c->n_slots++] = state[i];
        }
    }
    return WEFT_OK;
}

static weft_status copy_dynamic(weft_compiled *c)
{
    if (c->options.n_dynamic <= 0) {
        c->options.dynamic = NULL;
        c->options.n_dynamic = 0;
        return WEFT_OK;
    }
    const size_t bytes = (size_t)c->options.n_dynamic * sizeof(uint32_t);
    uint32_t *copy = weft_malloc(bytes);
    if (copy) {
        memcpy(copy, c->options.dynamic, bytes);
    }
    c->options.dynamic = copy;
    return copy ? WEFT_OK : weft__out_of_memory("compile", NULL);
}

weft_status weft_compile(weft_function *fn, void *context, weft_array **const *state, int n_state,
                         const weft_compile_options *options, weft_compiled **out)
{
    *out = NULL;
    weft_compiled *c = weft_calloc(1, sizeof *c);
    if (!c) {
        return weft__out_of_memory("compile", NULL);
    }
    c->fn = fn;
    c->context = context;
    if (options) {
        c->options = *options;
    }
    if (c->options.cache <= 0) {
        c->options.cache = DEFAULT_CACHE;
    }
    if (c->options.lengths <= 0) {
        c->options.lengths = DEFAULT_LENGTHS;
    }
    c->name = weft_strdup(c->options.name ? c->options.name : "compiled function");
    weft_status status = copy_dynamic(c);
    weft_status copied = copy_slots(c, state, n_state);
    status = status == WEFT_OK ? copied : status;
    if (status == WEFT_OK && !c->name) {
        status = weft__out_of_memory("compile", NULL);
    }
    if (status != WEFT_OK) {
        weft_compiled_free(c);
        return status;
    }
    *out = c;
    return WEFT_OK;
}

void weft_compiled_free(weft_compiled *c)
{
    if (!c) {
        return;
    }
    weft__compiled_clear(c);
    for (int i = 0; i < WEFT__REASONS; i++) {
        weft_free(c->reasons[i]);
    }
    weft_free((void *)(uintptr_t)c->options.dynamic);
    weft_free((void *)(uintptr_t)c->options.state_names);
    weft_free(c->slots);
    weft_free(c->inputs);
    weft_free(c->outputs);
    weft_free(c->name);
    weft_free(c);
}

weft_compile_counts weft_compiled_counts(const weft_compiled *compiled)
{
    return compiled->counts;
}

/* ---- calls without compilation --------------------------------------------------------------- */

/* Evaluates what the function built and sets all slots together, as a compiled call does. */
static weft_status settle(weft_compiled *c, weft_array **originals, weft_array **now,
                          weft_array **out, int n_out)
{
    const int n = c->n_slots + n_out;
    weft_array ***slots = weft_calloc((size_t)n, sizeof *slots);
    weft_array **values = weft_calloc((size_t)n, sizeof(weft_array *));
    weft_array **results = weft_calloc((size_t)n_out, sizeof(weft_array *));
    weft_status status =
        slots && values && results ? WEFT_OK : weft__out_of_memory("compile", NULL);
    int changed = 0;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        bool is_slot = i < c->n_slots;
        weft_array *value = is_slot ? now[i] : out[i - c->n_slots];
        if (!is_slot || (value && value != originals[i])) {
            slots[changed] = is_slot ? c->slots[i] : &results[i - c->n_slots];
            values[changed++] = value;
        }
    }
    if (status == WEFT_OK) {
        status = weft_update(slots, values, changed);
    }
    for (int i = 0; i < c->n_slots && status == WEFT_OK; i++) {
        status = now[i] ? WEFT_OK : weft_set(c->slots[i], NULL);
    }
    for (int i = 0; i < n_out && results; i++) {
        if (results[i]) {
            weft__scope_pin(results[i]);
            weft__unhold(results[i]);
        }
    }
    weft_free(slots);
    weft_free(values);
    weft_free(results);
    return status;
}

static weft_status check_room(const weft_compiled *c, int n, int room)
{
    return n <= room
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: the function has %d results, there is room for %d",
                           c->name, n, room);
}

/* Delays evaluation until the function has returned; slots are set before. */
typedef struct putting_off {
    weft__observer base;
    weft_array *key; /* key of this call, once the function draws a random number; held */
    weft_status status;
    char message[512];
} putting_off;

static bool may_set(weft__observer *base, weft_array **slot)
{
    (void)base;
    (void)slot;
    return true;
}

/* As in a compiled call, the function takes one key of the default generator if it draws. */
static weft_array *next_key(weft__observer *base)
{
    putting_off *p = (putting_off *)base;
    if (!p->key) {
        weft__current_observer = NULL;
        weft_array *key = weft_random_next_key();
        weft__current_observer = base;
        if (!weft_ok(key)) {
            return key;
        }
        weft__hold(key);
        p->key = key;
    }
    return weft__split_key(&p->key);
}

static void note_refusal(weft__observer *base, weft_status status)
{
    putting_off *p = (putting_off *)base;
    if (p->status == WEFT_OK) {
        p->status = status;
        snprintf(p->message, sizeof p->message, "%s", weft_error_message());
    }
}

static weft_status call_function(weft_compiled *c, weft_array *const *in, int n_in,
                                 weft__results *out)
{
    putting_off p = {.base = {may_set, next_key, note_refusal}};
    weft__observer *before = weft__current_observer;
    weft__current_observer = &p.base;
    weft_status status = weft__call_function(c->fn, c->context, in, n_in, out);
    weft__current_observer = before;
    if (p.key) {
        weft__unhold(p.key);
    }
    return p.status == WEFT_OK ? status : weft_fail(p.status, "%s", p.message);
}

static weft_status call_directly(weft_compiled *c, weft_array *const *in, int n_in, int room,
                                 weft__results *out)
{
    const size_t n = (size_t)c->n_slots;
    weft_array **arrays = weft_calloc(2 * n, sizeof(weft_array *));
    if (!arrays) {
        return weft__out_of_memory("compile", NULL);
    }
    weft_array **originals = arrays, **now = arrays + n;
    weft_scope_open();
    for (size_t i = 0; i < n; i++) {
        originals[i] = *c->slots[i];
        if (originals[i]) {
            weft__hold(originals[i]);
        }
    }
    weft_status status = call_function(c, in, n_in, out);
    for (size_t i = 0; i < n; i++) { /* restored until everything is computed */
        now[i] = *c->slots[i];
        *c->slots[i] = originals[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (now[i] && now[i] != originals[i]) { /* the scope keeps it alive */
            (void)weft__scope_adopt(now[i]);
        }
        if (now[i]) {
            weft__unhold(now[i]);
        }
    }
    if (status == WEFT_OK) {
        status = check_room(c, out->n, room);
    }
    if (status == WEFT_OK) {
        status = settle(c, originals, now, out->at, out->n);
    }
    weft_scope_close_n(out->at, status == WEFT_OK ? out->n : 0);
    weft_free(arrays);
    return status;
}

/* ---- programs ------------------------------------------------------------------------------- */

static bool layouts_match(const weft_compiled *c, const weft__variant *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const weft_array *a = c->inputs[i];
        const weft__layout *l = &v->layouts[i];
        size_t bytes = (size_t)l->spec.shape.n * sizeof *l->strides;
        if (memcmp(l->strides, a->view.strides, bytes) != 0) {
            return false;
        }
    }
    return true;
}

/* Queued calls alternate between two programs: while one runs, the other is prepared and queued, so
 * the device does not wait for the host. NULL: a program must be planned. */
static weft__variant *find_variant(const weft_compiled *c, weft__combination *k)
{
    weft__variant *found = NULL;
    bool idle = false;
    int n = 0;
    for (int i = 0; i < k->n_variants && !idle; i++) {
        weft__variant *v = &k->variants[i];
        if (layouts_match(c, v, k->n_inputs)) {
            n++;
            idle = !c->options.async || weft__program_idle(v->program);
            found = idle || !found || v->used < found->used ? v : found;
        }
    }
    return idle || n > 1 ? found : NULL;
}

static weft_status build_graph(void *context, weft_array *const *in, weft_array **out)
{
    return weft__trace_apply(context, in, out);
}

/* An input of at most so many bytes, such as a token, is not overwritten by the output that
 * replaces it: where something else still reads it, that would take a copy, which costs more than
 * the memory. */
enum { COPIED = 64 };

static void fill_layouts(const weft_compiled *c, const weft__combination *k, weft__layout *layouts)
{
    for (int64_t i = 0; i < k->n_inputs; i++) {
        const weft_array *a = c->inputs[i];
        weft__layout *l = &layouts[i];
        l->spec = a->spec;
        l->device = a->device;
        memcpy(l->strides, a->view.strides, sizeof l->strides);
        weft_tensor t = {.shape = l->spec.shape};
        memcpy(t.strides, l->strides, sizeof t.strides);
        l->lent = k->replaced[i] && !l->spec.encoding && weft_tensor_is_contiguous(&t) &&
                  weft_nbytes(a) > COPIED;
    }
}

/* Plans the trace for the layouts of the call. */
static weft_status plan_variant(weft_compiled *c, weft__combination *k, weft__variant *v)
{
    weft_status status = weft__program_new(v->layouts, (int)k->n_inputs, build_graph, &k->trace,
                                           k->n_out + k->n_set, &v->program);
    c->counts.plans += status == WEFT_OK;
    return status;
}

static void free_variant(weft__variant *v)
{
    weft__program_free(v->program);
    weft_free(v->layouts);
}

/* The variant for the layouts of the call. If there is none, it is planned and replaces the least
 * recently used one. */
static weft_status variant_for(weft_compiled *c, weft__combination *k, weft__variant **out)
{
    weft__variant *v = find_variant(c, k);
    if (!v) {
        weft__variant fresh = {.layouts = weft_calloc((size_t)k->n_inputs, sizeof(weft__layout))};
        weft_status status = WEFT_MEMORY;
        if (fresh.layouts) {
            fill_layouts(c, k, fresh.layouts);
            status = plan_variant(c, k, &fresh);
        } else {
            weft__out_of_memory("compile", NULL);
        }
        if (status != WEFT_OK) {
            free_variant(&fresh);
            return status;
        }
        v = &k->variants[0];
        for (int i = 1; i < k->n_variants; i++) {
            v = k->variants[i].used < v->used ? &k->variants[i] : v;
        }
        if (k->n_variants < WEFT__VARIANTS) {
            v = &k->variants[k->n_variants++];
        } else {
            free_variant(v);
        }
        *v = fresh;
    } else {
        c->counts.hits++;
    }
    v->used = ++c->clock;
    *out = v;
    return WEFT_OK;
}

/* ---- a call --------------------------------------------------------------------------------- */

static weft_status make_room(weft_array ***list, int *room, int n)
{
    if (n <= *room) {
        return WEFT_OK;
    }
    weft_array **larger = weft_realloc(*list, (size_t)n * sizeof(weft_array *));
    if (!larger) {
        return weft__out_of_memory("compile", NULL);
    }
    *list = larger;
    *room = n;
    return WEFT_OK;
}

/* Collects the arguments and the arrays in the slots, all evaluated. */
static weft_status gather(weft_compiled *c, weft_array *const *in, int n_in)
{
    int n = 0;
    bool pending = false;
    for (int i = 0; i < n_in + c->n_slots; i++) {
        weft_array *a = i < n_in ? in[i] : *c->slots[i - n_in];
        if (!a && i >= n_in) {
            continue;
        }
        if (!weft_ok(a)) {
            return a ? weft__report(a)
                     : weft_fail(WEFT_INVALID, "%s: input %d is NULL", c->name, i);
        }
        if (a->state == WEFT__SPENT) {
            return weft_fail(WEFT_INVALID,
                             "%s: the data of %s %d was released by an earlier evaluation: keep it "
                             "(weft_keep, weft_set), or name it in weft_eval",
                             c->name, i < n_in ? "input" : "state", i < n_in ? i : i - n_in);
        }
        pending = pending || a->state == WEFT__LAZY;
        c->inputs[n++] = a;
    }
    if (!pending) {
        return WEFT_OK;
    }
    int lazy = 0;
    for (int i = 0; i < n; i++) {
        if (c->inputs[i]->state == WEFT__LAZY) {
            c->outputs[lazy++] = c->inputs[i];
        }
    }
    return weft_eval_n(c->outputs, lazy);
}

/* Appends a new key of the default generator to the inputs if the trace draws random numbers. */
static weft_status draw_key(weft_compiled *c, const weft__combination *k)
{
    weft_device *before = weft_default_device();
    weft_set_default_device(k->trace.arguments[k->n_inputs - 1].device);
    weft_array *key = weft_random_next_key();
    weft_set_default_device(before);
    c->inputs[k->n_inputs - 1] = key;
    return weft_ok(key) ? WEFT_OK : weft__report(key);
}

static void write_back(weft_compiled *c, const weft__combination *k, weft_array **results)
{
    for (int i = 0; i < c->n_slots; i++) {
        weft_array *old = *c->slots[i];
        if (k->effects[i] == WEFT__SLOT_UNCHANGED) {
            continue;
        }
        weft_array *now = k->effects[i] == WEFT__SLOT_SET ? *results++ : NULL;
        if (now) {
            weft__hold(now);
        }
        *c->slots[i] = now;
        if (old) {
            weft__unhold(old);
        }
    }
}

static weft_status find_or_trace(weft_compiled *c, weft_array *const *in, int n_in,
                                 weft__combination **out)
{
    weft__combination *k = weft__compiled_find(c, in, n_in);
    if (!k) {
        k = weft__combination_new(c, in, n_in);
        weft_status status =
            k ? weft__combination_trace(c, k) : weft__out_of_memory("compile", NULL);
        if (status == WEFT_OK) {
            status = weft__compiled_insert(c, k);
        }
        if (status != WEFT_OK) {
            weft__combination_free(k);
            return status;
        }
    }
    *out = k;
    return WEFT_OK;
}

static weft_status call_compiled(weft_compiled *c, weft_array *const *in, int n_in,
                                 weft_array **out, int room)
{
    const int given = n_in + c->n_slots + 1;
    weft_status status = make_room(&c->inputs, &c->input_room, given);
    if (status == WEFT_OK) {
        status = make_room(&c->outputs, &c->output_room, given); /* gather writes to it */
    }
    if (status == WEFT_OK) {
        status = gather(c, in, n_in);
    }
    weft__combination *k = NULL;
    if (status == WEFT_OK) {
        status = find_or_trace(c, in, n_in, &k);
    }
    if (status == WEFT_OK) {
        status = check_room(c, k->n_out, room);
    }
    if (status == WEFT_OK) {
        status = make_room(&c->outputs, &c->output_room, k->n_out + c->n_slots + 1);
    }
    if (status == WEFT_OK && k->draws) {
        status = draw_key(c, k);
    }
    weft__variant *v = NULL;
    if (status == WEFT_OK) {
        status = variant_for(c, k, &v);
    }
    if (status == WEFT_OK) {
        weft__program_call call = {c->inputs, k->replaced, c->outputs, !c->options.async};
        status = weft__program_run(v->program, &call);
    }
    if (status == WEFT_OK) {
        write_back(c, k, c->outputs + k->n_out);
        for (int i = 0; i < room; i++) {
            out[i] = i < k->n_out ? c->outputs[i] : NULL;
            if (out[i]) {
                weft__scope_pin(out[i]);
            }
        }
        c->n_results = k->n_out;
        c->counts.calls++;
    }
    return status;
}

/* Calls the function directly: inside another traced function, which records its graph, or when
 * compilation is off. */
static weft_status call_plainly(weft_compiled *c, weft_array *const *in, int n_in, bool inlined,
                                weft_array **out, int room)
{
    weft__results results = {.room = room};
    weft_status status = inlined ? weft__call_function(c->fn, c->context, in, n_in, &results)
                                 : call_directly(c, in, n_in, room, &results);
    if (status == WEFT_OK) {
        status = check_room(c, results.n, room);
    }
    if (status == WEFT_OK) {
        c->n_results = weft__return_results(status, &results, out, room, c->name);
    }
    weft_free(results.at);
    return status;
}

weft_status weft_compiled_call(weft_compiled *c, weft_array *const *in, int n_in, weft_array **out,
                               int room)
{
    weft_status status;
    if (weft__current_recording || weft__differentiating > 0 || weft__current_observer) {
        status = call_plainly(c, in, n_in, true, out, room);
        c->counts.inlined++;
    } else if (weft_compile_enabled()) {
        weft_scope_open(); /* so that the slots' new arrays do not become temporaries of the caller
                            */
        status = call_compiled(c, in, n_in, out, room);
        weft_scope_close_n(out, status == WEFT_OK ? room : 0);
    } else {
        status = call_plainly(c, in, n_in, false, out, room);
    }
    if (status != WEFT_OK) {
        weft_array *failed = weft__failed_as(status, "%s", weft_error_message());
        for (int i = 0; i < room; i++) {
            out[i] = failed;
        }
    }
    return status;
}

int weft_compiled_n_results(const weft_compiled *compiled)
{
    return compiled->n_results;
}
