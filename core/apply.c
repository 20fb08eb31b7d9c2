/* core/apply.c -- weft_apply, which constructs every node, and the promotion and broadcasting of
 * its inputs. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/builtin.h"
#include "core/debug.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/graph.h"
#include "core/shape.h"
#include "weft/op_params.h"

static atomic_uint_fast64_t next_seq = 1;

/* A node without specs and without references. */
static weft_array *node_alloc(int n_inputs, int n_outputs, size_t params_size)
{
    size_t size = (size_t)n_outputs * sizeof(weft_array);
    size_t inputs_at = size;
    size += (size_t)n_inputs * sizeof(weft_array *);
    size_t params_at = (size + 15) / 16 * 16;
    weft_array *a = weft__node_alloc(params_at + params_size);
    if (!a) {
        return NULL;
    }
    a->first = a;
    atomic_init(&a->alive, 1);
    a->n_inputs = n_inputs;
    a->n_outputs = n_outputs;
    a->inputs = (weft_array **)(void *)((char *)a + inputs_at);
    a->params = (char *)a + params_at;
    a->seq = atomic_fetch_add_explicit(&next_seq, 1, memory_order_relaxed);
    return a;
}

uint64_t weft__next_seq(void)
{
    return atomic_load_explicit(&next_seq, memory_order_relaxed);
}

/* A node in the innermost scope with memory for its inputs, outputs and parameters; the specs are
 * not set. NULL when out of memory. */
static weft_array *node_new(int n_inputs, int n_outputs, size_t params_size)
{
    weft_array *a = node_alloc(n_inputs, n_outputs, params_size);
    if (a && !weft__scope_own(a)) {
        weft__node_free(a);
        return NULL;
    }
    return a;
}

weft_array *weft__value_new(const weft_spec *spec, weft__buffer *buffer, int64_t offset)
{
    weft_array *a = node_new(0, 1, 0);
    if (!a) {
        weft__buffer_unref(buffer);
        return weft__no_memory();
    }
    a->device = buffer->device;
    a->spec = *spec;
    a->view.buffer = buffer;
    a->view.offset = offset;
    weft__strides_contiguous(&spec->shape, a->view.strides);
    atomic_store_explicit(&a->state, WEFT__EVALUATED, memory_order_release);
    return a;
}

weft_array *weft__leaf_new(const weft_spec *spec, weft__buffer *buffer, int64_t offset)
{
    weft_array *a = weft__value_new(spec, buffer, offset);
    if (weft_ok(a)) {
        atomic_store_explicit(&a->leaf, true, memory_order_relaxed);
        atomic_store_explicit(&a->readable, true, memory_order_relaxed);
    }
    return a;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Allocated in advance, since it is needed when no memory is left. */
static _Alignas(16) char no_memory[sizeof(weft_array)];
static pthread_once_t no_memory_once = PTHREAD_ONCE_INIT;

static void make_no_memory(void)
{
    weft_array *a = (weft_array *)(void *)no_memory;
    atomic_store(&a->counts, WEFT__REF);
    atomic_store(&a->holds, 1);
    a->first = a;
    a->n_outputs = 1;
    a->spec.dtype = WEFT_FLOAT32;
    a->status = WEFT_MEMORY;
    a->error = (char *)"out of memory for a node";
    atomic_store(&a->state, WEFT__FAILED);
}

weft_array *weft__no_memory(void)
{
    pthread_once(&no_memory_once, make_no_memory);
    return (weft_array *)(void *)no_memory;
}

static weft_array *fail_with(weft_status status, char *message)
{
    weft_array *a = message ? node_new(0, 1, 0) : NULL;
    if (!a) {
        weft_free(message);
        return weft__no_memory();
    }
    a->spec.dtype = WEFT_FLOAT32;
    a->status = status;
    a->error = message;
    atomic_store_explicit(&a->state, WEFT__FAILED, memory_order_release);
    if (weft__trap_errors()) {
        fprintf(stderr, "WEFT_TRAP: %s\n", message);
        abort();
    }
    return a;
}

static weft_array *fail_va(weft_status status, const char *format, va_list args)
{
    char text[1024], shown[1024];
    vsnprintf(text, sizeof text, format, args);
    weft__write_printable(shown, sizeof shown, text);
    const char *path = weft__path_text();
    return fail_with(status, weft_format("%s%s%s", path, path[0] ? ": " : "", shown));
}

weft_array *weft__failed(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_array *a = fail_va(WEFT_INVALID, format, args);
    va_end(args);
    return a;
}

weft_array *weft__failed_as(weft_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_array *a = fail_va(status, format, args);
    va_end(args);
    return a;
}

weft_array *weft__memory_error(const char *where, const char *purpose)
{
    return weft__failed_as(WEFT_MEMORY, purpose ? "%s: out of memory for %s" : "%s: out of memory",
                           where, purpose);
}

weft_status weft__report(const weft_array *a)
{
    weft__debug_released(a, "use");
    return weft_fail(a ? a->status : WEFT_INVALID, "%s", weft_error(a));
}

weft_array *weft_error_array(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_array *a = fail_va(WEFT_INVALID, format, args);
    va_end(args);
    return a;
}

/* ---- weft_apply ----------------------------------------------------------------------------- */

/* Infer of elementwise ops that do not define it: all inputs have one shape and dtype, which the
 * output gets. */
static bool infer_elementwise(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_op *op = node->op;
    const weft_spec *first = weft_node_spec(weft_node_input(node, 0), 0);
    for (int i = 1; i < node->n_inputs; i++) {
        const weft_spec *other = weft_node_spec(weft_node_input(node, i), 0);
        char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
        if (!weft__shape_equal(&first->shape, &other->shape) || first->dtype != other->dtype) {
            return weft_because(why, "inputs differ: %s %s and %s %s",
                                weft_dtype_name(first->dtype), weft__shape_text(&first->shape, a),
                                weft_dtype_name(other->dtype), weft__shape_text(&other->shape, b));
        }
    }
    if (!weft__has_formula(op, first->dtype)) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(first->dtype));
    }
    out[0] = (weft_spec){.dtype = op->predicate ? WEFT_BOOL : first->dtype, .shape = first->shape};
    return true;
}

/* The node's device: the device of its non-scalar inputs. NULL when these differ, or when there are
 * no inputs and the default device cannot be opened. */
static weft_device *common_device(weft_array *const *inputs, int n)
{
    weft_device *device = NULL, *scalar_device = NULL;
    for (int i = 0; i < n; i++) {
        if (inputs[i]->spec.shape.n == 0) {
            scalar_device = scalar_device ? scalar_device : inputs[i]->device;
        } else if (device && inputs[i]->device != device) {
            return NULL;
        } else {
            device = inputs[i]->device;
        }
    }
    return device ? device : scalar_device ? scalar_device : weft_default_device();
}

static weft_array *first_bad(weft_array *const *inputs, int n, const char *op)
{
    for (int i = 0; i < n; i++) {
        if (!inputs[i]) {
            return weft__failed("%s: input %d is NULL", op, i);
        }
        if (inputs[i]->state == WEFT__FAILED) {
            weft__debug_released(inputs[i], op);
            return inputs[i];
        }
        if (inputs[i]->state == WEFT__SPENT) {
            return weft__failed("%s: input %d " WEFT__CONSUMED, op, i);
        }
    }
    return NULL;
}

static int output_count(const weft_op *op)
{
    return op->n_outputs == 0 ? 1 : abs(op->n_outputs);
}

static bool check_spec(const weft_spec *spec, weft_why *why)
{
    if (spec->shape.n < 0 || spec->shape.n > WEFT_MAX_DIMS) {
        return weft_because(why, "expected a result of at most %d dims, got %d", WEFT_MAX_DIMS,
                            spec->shape.n);
    }
    for (int i = 0; i < spec->shape.n; i++) {
        if (spec->shape.at[i] < 0) {
            char text[WEFT_SHAPE_TEXT];
            return weft_because(why, "the result has a negative dim: %s",
                                weft__shape_text(&spec->shape, text));
        }
    }
    const int64_t last = spec->shape.n > 0 ? spec->shape.at[spec->shape.n - 1] : 1;
    if (spec->encoding && last % spec->encoding->block != 0) {
        return weft_because(why, "the last dim, %lld, is no multiple of %lld, a block of %s",
                            (long long)last, (long long)spec->encoding->block,
                            spec->encoding->name);
    }
    int64_t bytes = weft__shape_size(&spec->shape);
    if (bytes < 0 || __builtin_mul_overflow(bytes, (int64_t)weft_dtype_size(spec->dtype), &bytes)) {
        return weft_because(why, "the result has more than 2^63 bytes");
    }
    return true;
}

/* Dtypes and lists of numbers come from callers unchecked. */
static bool check_params(const weft_op *op, const void *params, weft_why *why)
{
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        const void *value = (const char *)params + f->offset;
        if (f->type == WEFT_FIELD_DTYPE &&
            (unsigned)*(const weft_dtype *)value >= WEFT_DTYPE_COUNT) {
            return weft_because(why, "there is no dtype %d", (int)*(const weft_dtype *)value);
        }
        if (f->type == WEFT_FIELD_DIMS && ((const weft_dims *)value)->n > WEFT_MAX_DIMS) {
            return weft_because(why, "%s: expected at most %d numbers, got %d", f->name,
                                WEFT_MAX_DIMS, ((const weft_dims *)value)->n);
        }
    }
    return true;
}

static bool infer(weft_array *a, weft_why *why)
{
    weft_spec specs[WEFT_MAX_OUTPUTS];
    if (!check_params(a->op, a->params, why)) {
        return false;
    }
    memset(specs, 0, (size_t)a->n_outputs * sizeof *specs);
    bool (*rule)(const weft_array *, weft_spec *, weft_why *) =
        a->op->infer ? a->op->infer : infer_elementwise;
    if (!rule(a, specs, why)) {
        return false;
    }
    if (a->op->n_outputs < 0) { /* outputs that infer does not set keep ndim -1 */
        while (a->n_outputs > 1 && specs[a->n_outputs - 1].shape.n < 0) {
            a->n_outputs--;
        }
    }
    for (int i = 0; i < a->n_outputs; i++) {
        if (!check_spec(&specs[i], why)) {
            return false;
        }
        weft__output(a, i)->spec = specs[i];
    }
    return true;
}

/* Copies the node's fields from the first output to the others. */
static void fill_outputs(weft_array *a)
{
    for (int i = 1; i < a->n_outputs; i++) {
        weft_array *out = weft__output(a, i);
        out->first = a;
        out->n_inputs = a->n_inputs;
        out->n_outputs = a->n_outputs;
        out->op = a->op;
        out->inputs = a->inputs;
        out->params = a->params;
        out->device = a->device;
        out->seq = a->seq;
        out->path = a->path;
    }
}

static void connect(weft_array *a, weft_array *const *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        a->inputs[i] = inputs[i];
        weft__connect(inputs[i]);
    }
}

static weft_array *build(const weft_op *op, weft_array *const *inputs, int n, const void *params,
                         weft_device *device)
{
    weft_array *a = node_new(n, output_count(op), op->params_size);
    if (!a) {
        return weft__no_memory();
    }
    a->op = op;
    a->device = device;
    a->path = weft__path_remember();
    if (params && op->params_size) {
        memcpy(a->params, params, op->params_size);
    }
    connect(a, inputs, n);
    weft_why why;
    why.text[0] = '\0';
    if (infer(a, &why)) {
        fill_outputs(a);
        return a;
    }
    a->n_outputs = 1;
    weft__detach(a); /* the rejected node stays in the scope, without inputs, until it closes */
    atomic_store_explicit(&a->state, WEFT__FAILED, memory_order_release);
    return weft__failed("%s: %s", op->name, why.text);
}

/* An op that takes encoded arrays in all inputs can have more inputs than the mask has bits. */
static bool takes_encoded(const weft_op *op, int i)
{
    return i < 32 ? op->takes_encoded >> i & 1 : op->takes_encoded == UINT32_MAX;
}

/* Returns an error array when an input is encoded and the op does not take it. */
static weft_array *refuse_encoded(const weft_op *op, weft_array *const *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        const weft_encoding *e = inputs[i]->spec.encoding;
        if (e && !takes_encoded(op, i)) {
            return weft__failed("%s: input %d is encoded as %s: decode it first (weft_decode)",
                                op->name, i, e->name);
        }
    }
    return NULL;
}

static weft_array *check_inputs(const weft_op *op, weft_array *const *inputs, int n)
{
    weft_array *bad = first_bad(inputs, n, op->name);
    bad = bad ? bad : refuse_encoded(op, inputs, n);
    if (!bad && op->arity >= 0 && n != op->arity) {
        bad = weft__failed("%s: expected %d inputs, got %d", op->name, op->arity, n);
    }
    return bad;
}

weft_array *weft__apply_on(weft_device *device, const weft_op *op, weft_array *const *inputs, int n,
                           const void *params)
{
    weft_array *bad = check_inputs(op, inputs, n);
    return bad ? bad : build(op, inputs, n, params, device);
}

static weft_array *no_common_device(const weft_op *op, int n)
{
    return n == 0 ? weft__failed_as(weft_error_status(), "%s: %s", op->name, weft_error_message())
                  : weft__failed("%s: the inputs are on different devices: move them with weft_to",
                                 op->name);
}

/* Scalars are moved to the device of the other inputs. */
static weft_array *build_with_scalars(const weft_op *op, weft_array *const *inputs, int n,
                                      const void *params, weft_device *device)
{
    weft_array **moved = weft_malloc((size_t)n * sizeof *moved);
    if (!moved) {
        return weft__no_memory();
    }
    weft_array *bad = NULL;
    for (int i = 0; i < n && !bad; i++) {
        moved[i] = weft_to(inputs[i], device);
        bad = moved[i]->state == WEFT__FAILED ? moved[i] : NULL;
    }
    weft_array *a = bad ? bad : build(op, moved, n, params, device);
    weft_free(moved);
    return a;
}

weft_array *weft_apply(const weft_op *op, weft_array *const *inputs, int n, const void *params)
{
    weft_array *bad = check_inputs(op, inputs, n);
    if (bad) {
        return bad;
    }
    weft_device *device = common_device(inputs, n);
    if (!device) {
        return no_common_device(op, n);
    }
    for (int i = 0; i < n; i++) {
        if (inputs[i]->device != device) {
            weft_scope_open();
            return weft_scope_close(build_with_scalars(op, inputs, n, params, device));
        }
    }
    return build(op, inputs, n, params, device);
}

/* Picks an output that has been evaluated. Other threads may hold it and release it concurrently.
 */
static weft_array *pick_evaluated(weft_array *a, int output)
{
    if (a->state == WEFT__SPENT || !weft__ref_if_alive(a)) {
        return weft__failed("pick: the data of output %d was released by an evaluation: pick it "
                            "before, and keep it (weft_keep, weft_set) or name it in weft_eval",
                            output);
    }
    weft_array *picked = weft__scope_adopt(a) ? a : weft__no_memory();
    if (picked == a && !weft__scope_is_open(a->scope)) { /* a scope of another thread owns it */
        weft_shape_params params = {a->spec.shape};
        picked = weft_apply(weft__builtins.broadcast, &a, 1, &params);
    }
    weft__unref(a);
    return picked;
}

weft_array *weft_pick(weft_array *node, int output)
{
    if (!node || node->state == WEFT__FAILED) {
        return node ? node : weft__failed("pick: input 0 is NULL");
    }
    const int n_outputs = weft_node_n_outputs(node);
    if (output < 0 || output >= n_outputs) {
        return weft__failed("pick: output %d of a node with %d", output, n_outputs);
    }
    if (n_outputs == 1) {
        return node;
    }
    weft_array *a = weft__output(node, output);
    if (!a->op) {
        return pick_evaluated(a, output);
    }
    a->picked = true;
    return weft__scope_adopt(a) ? a : weft__no_memory();
}

/* ---- elementwise canonicalization ----------------------------------------------------------- */

static weft_array *broadcast(weft_array *x, const weft_dims *shape)
{
    if (x->state == WEFT__FAILED || weft__shape_equal(&x->spec.shape, shape)) {
        return x;
    }
    weft_shape_params params = {*shape};
    return weft_apply(weft__builtins.broadcast, &x, 1, &params);
}

static weft_array *cast(weft_array *x, weft_dtype dtype)
{
    if (x->state == WEFT__FAILED || x->spec.dtype == dtype) {
        return x;
    }
    weft_cast_params params = {dtype};
    return weft_apply(weft__builtins.cast, &x, 1, &params);
}

/* Whether the arrays can be inputs of an elementwise op as they are: none failed, consumed or
 * encoded, and all have the same shape, dtype and device. */
static bool are_alike(weft_array *const *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        const weft_array *x = inputs[i], *first = inputs[0];
        const weft_spec *s = x ? &x->spec : NULL;
        if (!x || x->state >= WEFT__SPENT || s->encoding || !x->device ||
            x->device != first->device || s->dtype != first->spec.dtype ||
            !weft__shape_equal(&s->shape, &first->spec.shape)) {
            return false;
        }
    }
    return n > 0;
}

/* Applies an op without its own shape rule to inputs for which are_alike holds. */
static weft_array *build_alike(const weft_op *op, weft_array *const *inputs, int n)
{
    weft_array *a = node_new(n, 1, op->params_size);
    if (!a) {
        return weft__no_memory();
    }
    const weft_spec *first = &inputs[0]->spec;
    a->op = op;
    a->device = inputs[0]->device;
    a->path = weft__path_remember();
    a->spec.dtype = op->predicate ? WEFT_BOOL : first->dtype;
    a->spec.shape = first->shape;
    connect(a, inputs, n);
    return a;
}

/* Converts the inputs to their common dtype and shape and applies the op. */
static weft_array *apply_converted(const weft_op *op, weft_array *const *inputs, int n)
{
    weft_array *bad = first_bad(inputs, n, op->name);
    bad = bad ? bad : refuse_encoded(op, inputs, n);
    if (bad) {
        return bad;
    }
    if (n > 4 || n < 1) {
        return weft__failed("%s: expected 1 to 4 inputs, got %d", op->name, n);
    }
    weft_dims shape = inputs[0]->spec.shape;
    weft_dtype dtype = inputs[0]->spec.dtype;
    for (int i = 1; i < n; i++) {
        const weft_spec *s = &inputs[i]->spec;
        char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
        if (!weft__shape_broadcast(&shape, &s->shape, &shape)) {
            return weft__failed("%s: shapes do not broadcast: %s and %s", op->name,
                                weft__shape_text(&inputs[0]->spec.shape, a),
                                weft__shape_text(&s->shape, b));
        }
        dtype = weft_promote(dtype, s->dtype);
    }
    weft_device *device = common_device(inputs, n);
    if (!device) {
        return no_common_device(op, n);
    }
    weft_array *same[4];
    for (int i = 0; i < n; i++) { /* scalars are moved to the device before they are broadcast */
        same[i] = broadcast(cast(weft_to(inputs[i], device), dtype), &shape);
    }
    return weft_apply(op, same, n, NULL);
}

weft_array *weft_apply_elementwise(const weft_op *op, weft_array *const *inputs, int n)
{
    if (n == op->arity && n <= 4 && !op->infer && op->n_outputs <= 1 && are_alike(inputs, n) &&
        weft__has_formula(op, inputs[0]->spec.dtype)) {
        return build_alike(op, inputs, n);
    }
    weft_scope_open(); /* for the casts and broadcasts */
    return weft_scope_close(apply_converted(op, inputs, n));
}
