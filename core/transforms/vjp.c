/* core/transforms/vjp.c -- vjp and value_and_grad, with respect to arguments and slots. */
#include "core/failure.h"
#include "core/lengths.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

/* Replaces missing gradients by zeros; integers and bool have no gradient. */
static void fill_zeros(weft_array *const *in, int n, weft_array **grads)
{
    for (int i = 0; i < n; i++) {
        if (!weft__is_differentiable(in[i])) {
            grads[i] = NULL;
        } else if (!grads[i]) {
            grads[i] = weft_zeros_like(in[i]);
        }
    }
}

static weft_status check_cotangents(weft_array *const *cts, weft_array *const *outs, int n)
{
    for (int i = 0; i < n; i++) {
        weft_dims want = weft_shape(outs[i]), got = weft_shape(cts[i]);
        if (cts[i] && weft_ok(outs[i]) && !weft__shape_equal(&want, &got)) {
            char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
            return weft_fail(WEFT_INVALID, "vjp: cotangent %d: expected shape %s, got %s", i,
                             weft__shape_text(&want, a), weft__shape_text(&got, b));
        }
    }
    return WEFT_OK;
}

static void call(weft_function *fn, void *context, weft_array *const *in, int n_in,
                 weft_array **out, int n_out)
{
    weft__differentiating++;
    weft__call_into(fn, context, in, n_in, out, n_out, "vjp");
    weft__differentiating--;
}

weft_status weft_vjp(weft_function *fn, void *context, weft_array *const *in, int n_in,
                     weft_array *const *cotangents, weft_array **outs, int n_out,
                     weft_array **grads)
{
    weft_array **aliases = weft_calloc((size_t)n_in, sizeof *aliases);
    weft_array **values = weft_calloc((size_t)(n_out + n_in), sizeof *values);
    if (!aliases || !values) {
        weft_free(aliases);
        weft_free(values);
        return weft__out_of_memory("vjp", NULL);
    }
    weft_array **found = values + n_out;
    weft_scope_open();
    for (int i = 0; i < n_in; i++) {
        aliases[i] = weft__alias(in[i]);
    }
    call(fn, context, aliases, n_in, values, n_out);
    weft_status status = check_cotangents(cotangents, values, n_out);
    if (status == WEFT_OK) {
        status = weft__pull_back(values, cotangents, n_out, aliases, n_in, true, found);
    }
    if (status == WEFT_OK) {
        fill_zeros(in, n_in, found);
    }
    /* Outputs that belong to an outer scope stay there. */
    weft_scope_close_n(values, status == WEFT_OK ? n_out + n_in : 0);
    for (int i = 0; i < n_in; i++) {
        grads[i] = status == WEFT_OK ? found[i] : NULL;
    }
    for (int i = 0; outs && i < n_out; i++) {
        outs[i] = status == WEFT_OK ? values[i] : NULL;
    }
    weft_free(aliases);
    weft_free(values);
    return status;
}

/* ---- value and gradient --------------------------------------------------------------------- */

static weft_array *fail_all(weft_array *error, int n, weft_array **grads)
{
    for (int i = 0; i < n; i++) {
        grads[i] = error;
    }
    return error;
}

/* The value and its gradients with respect to the aliases. On failure the value is an error array.
 */
static weft_array *finish(weft_array *value, weft_array *const *aliases, int n,
                          weft_array *const *originals, weft_array **grads)
{
    if (weft_ok(value) && (weft_size(value) != 1 || !weft_dtype_is_float(weft_dtype_of(value)))) {
        weft_dims shape = weft_shape(value);
        char text[WEFT_SHAPE_TEXT];
        value = weft__failed("value_and_grad: expected a float scalar, got %s %s",
                             weft_dtype_name(weft_dtype_of(value)), weft__shape_text(&shape, text));
    }
    if (!weft_ok(value)) {
        return fail_all(value, n, grads);
    }
    weft_array *one = weft_ones_like(value);
    for (int i = 0; i < n; i++) {
        grads[i] = NULL;
    }
    weft_status status = weft__pull_back(&value, &one, 1, aliases, n, true, grads);
    if (status != WEFT_OK) {
        return fail_all(weft__failed_as(status, "%s", weft_error_message()), n, grads);
    }
    fill_zeros(originals, n, grads);
    return value;
}

/* Closes the scope and returns the value and the gradients. */
static weft_array *leave(weft_array *value, weft_array **grads, int n)
{
    weft_array **all = weft_malloc((size_t)(n + 1) * sizeof *all);
    if (!all) {
        weft_scope_close(NULL);
        return fail_all(weft__no_memory(), n, grads);
    }
    all[0] = value;
    for (int i = 0; i < n; i++) {
        all[i + 1] = grads[i];
    }
    weft_scope_close_n(all, n + 1);
    value = all[0];
    for (int i = 0; i < n; i++) {
        grads[i] = all[i + 1];
    }
    weft_free(all);
    return value;
}

weft_array *weft_value_and_grad(weft_loss_function *fn, void *context, weft_array *const *in,
                                int n_in, weft_array **grads)
{
    weft_array **aliases = weft_calloc((size_t)n_in, sizeof *aliases);
    if (!aliases) {
        return fail_all(weft__no_memory(), n_in, grads);
    }
    weft_scope_open();
    for (int i = 0; i < n_in; i++) {
        aliases[i] = weft__alias(in[i]);
    }
    weft__differentiating++;
    weft_array *value = fn(context, aliases, n_in);
    weft__differentiating--;
    value = finish(value, aliases, n_in, in, grads);
    weft_free(aliases);
    return leave(value, grads, n_in);
}

/* Makes aliases of the chosen inputs (`chosen`), and the list of all inputs with the aliases
 * (`arguments`). */
static weft_status choose(weft_array *const *in, int n_in, const int *argnums, int n,
                          weft_array **arguments, weft_array **chosen, weft_array **originals)
{
    for (int i = 0; i < n_in; i++) {
        arguments[i] = in[i];
    }
    for (int i = 0; i < n; i++) {
        int k = argnums ? argnums[i] : i;
        if (k < 0 || k >= n_in) {
            return weft_fail(WEFT_INVALID, "value_and_grad: argument %d of %d", k, n_in);
        }
        /* An argument that is named twice gets one alias. */
        arguments[k] = arguments[k] == in[k] ? weft__alias(in[k]) : arguments[k];
        chosen[i] = arguments[k];
        originals[i] = in[k];
    }
    return WEFT_OK;
}

/* `room` has space for the inputs and twice the chosen ones. */
static weft_status value_and_grad_in(weft_function *fn, void *context, weft_array *const *in,
                                     int n_in, const int *argnums, int n, weft_array **outs,
                                     int n_out, weft_array **room, weft_array **grads)
{
    weft_array **arguments = room, **chosen = room + n_in, **originals = chosen + n;
    weft_status status = choose(in, n_in, argnums, n, arguments, chosen, originals);
    if (status != WEFT_OK) {
        return status;
    }
    call(fn, context, arguments, n_in, outs, n_out);
    status = weft__all_ok(outs, n_out);
    if (status != WEFT_OK) {
        return status;
    }
    weft_array *value = finish(outs[0], chosen, n, originals, grads);
    return weft_ok(value) ? WEFT_OK : weft__report(value);
}

weft_status weft_value_and_grad_aux(weft_function *fn, void *context, weft_array *const *in,
                                    int n_in, const int *argnums, int n_argnums, weft_array **outs,
                                    int n_out, weft_array **grads)
{
    const int n = argnums ? n_argnums : n_in;
    if (n_out < 1) {
        return weft_fail(WEFT_INVALID, "value_and_grad: expected at least one result");
    }
    weft_array **room = weft_calloc((size_t)(n_in + 2 * n), sizeof *room);
    weft_array **all = weft_calloc((size_t)(n_out + n), sizeof *all);
    weft_status status = room && all ? WEFT_OK : weft__out_of_memory("vjp", NULL);
    weft_scope_open();
    if (status == WEFT_OK) {
        status =
            value_and_grad_in(fn, context, in, n_in, argnums, n, all, n_out, room, all + n_out);
    }
    weft_scope_close_n(all, status == WEFT_OK ? n_out + n : 0);
    for (int i = 0; i < n_out + n; i++) {
        *(i < n_out ? &outs[i] : &grads[i - n_out]) = status == WEFT_OK ? all[i] : NULL;
    }
    weft_free(room);
    weft_free(all);
    return status;
}

typedef struct loss_call {
    weft_loss_function *fn;
    void *context;
} loss_call;

static int call_loss(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const loss_call *c = context;
    (void)room;
    out[0] = c->fn(c->context, in, n_in);
    return 1;
}

weft_status weft_grad(weft_loss_function *fn, void *context, weft_array *const *in, int n_in,
                      const int *argnums, int n_argnums, weft_array **grads)
{
    loss_call c = {fn, context};
    weft_array *value;
    return weft_value_and_grad_aux(call_loss, &c, in, n_in, argnums, n_argnums, &value, 1, grads);
}

/* Puts aliases of the slots' arrays into the slots while the function runs. */
static void lend(weft_array **const *slots, int n, weft_array **originals, weft_array **aliases)
{
    for (int i = 0; i < n; i++) {
        originals[i] = *slots[i];
        aliases[i] = weft__alias(originals[i]);
        weft__hold(aliases[i]);
        *slots[i] = aliases[i];
    }
}

/* In reverse order, because a slot that is named twice was replaced twice. */
static void give_back(weft_array **const *slots, int n, weft_array *const *originals)
{
    for (int i = n - 1; i >= 0; i--) {
        weft_array *now = *slots[i];
        *slots[i] = originals[i];
        weft__unhold(now);
    }
}

weft_array *weft_value_and_grad_slots(weft_slot_loss_function *fn, void *context,
                                      weft_array **const *slots, int n, weft_array **grads)
{
    weft_array **originals = weft_calloc((size_t)n, sizeof *originals);
    weft_array **aliases = weft_calloc((size_t)n, sizeof *aliases);
    if (!originals || !aliases) {
        weft_free(originals);
        weft_free(aliases);
        return fail_all(weft__no_memory(), n, grads);
    }
    weft_scope_open();
    lend(slots, n, originals, aliases);
    weft__differentiating++;
    weft_array *value = fn(context);
    weft__differentiating--;
    value = finish(value, aliases, n, originals, grads);
    give_back(slots, n, originals);
    weft_free(originals);
    weft_free(aliases);
    return leave(value, grads, n);
}
