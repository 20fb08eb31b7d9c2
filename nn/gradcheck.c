/* nn/gradcheck.c -- compares gradients of a module's parameters with finite differences in float64.
 */
#include "core/failure.h"
#include "core/graph.h"
#include "nn/module.h"
#include "weft/nn_tools.h"

typedef struct check {
    weft_slot_loss_function *fn;
    void *context;
    weft_nn_slots trained;
} check;

/* Sets the slots to n arrays; the caller keeps the previous ones. */
static weft_status put(const weft_nn_slots *slots, weft_array *const *arrays)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < slots->n && status == WEFT_OK; i++)
        status = weft_set(slots->slots[i], arrays[i]);
    return status;
}

static weft_array **take(const weft_nn_slots *slots)
{
    weft_array **arrays = weft_calloc((size_t)slots->n, sizeof(weft_array *));
    for (int i = 0; i < slots->n && arrays; i++)
        arrays[i] = weft_keep(*slots->slots[i]);
    return arrays;
}

static weft_status put_back(const weft_nn_slots *slots, weft_array **arrays)
{
    const weft_status status = put(slots, arrays);
    for (int i = 0; i < slots->n; i++)
        weft_drop(arrays[i]);
    weft_free(arrays);
    return status;
}

/* The loss with the trained parameters at in[]. */
static int loss_at(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const check *c = context;
    (void)n_in, (void)room;
    weft_array **before = take(&c->trained);
    weft_status status = before ? put(&c->trained, in) : weft__out_of_memory("gradcheck", NULL);
    out[0] = status == WEFT_OK ? c->fn(c->context) : NULL;
    if (before) {
        const weft_status back = put_back(&c->trained, before);
        status = status == WEFT_OK ? back : status;
    }
    if (status != WEFT_OK)
        out[0] = weft__failed_as(status, "%s", weft_error_message());
    else if (weft_ok(out[0]) &&
             (weft_size(out[0]) != 1 || !weft_dtype_is_float(weft_dtype_of(out[0]))))
        out[0] =
            weft_error_array("gradcheck: expected a float scalar, got %s of %lld elements",
                             weft_dtype_name(weft_dtype_of(out[0])), (long long)weft_size(out[0]));
    return 1;
}

static weft_status check_trained(weft_module *m, check *c, const weft_gradcheck_options *options)
{
    weft_status status = weft_nn_trainable(m, &c->trained);
    if (status != WEFT_OK)
        return status;
    weft_gradcheck_options o = options ? *options : (weft_gradcheck_options){0};
    o.names = (const char *const *)c->trained.paths;
    weft_array **at = take(&c->trained);
    if (c->trained.n == 0)
        status = weft_fail(WEFT_INVALID, "gradcheck: the module has no trainable parameter");
    else if (at == NULL)
        status = weft__out_of_memory("gradcheck", NULL);
    else
        status = weft_gradcheck(loss_at, c, at, c->trained.n, &o);
    for (int i = 0; i < c->trained.n && at; i++)
        weft_drop(at[i]);
    weft_free(at);
    weft_nn_slots_free(&c->trained);
    return status;
}

weft_status weft_nn_gradcheck(weft_module *m, weft_slot_loss_function *fn, void *context,
                              const weft_gradcheck_options *options)
{
    check c = {.fn = fn, .context = context};
    weft_nn_slots all;
    weft_status status = weft_nn_parameters(m, &all);
    if (status != WEFT_OK)
        return status;
    weft_array **originals = take(&all);
    status = originals ? weft_nn_cast(m, WEFT_FLOAT64) : weft__out_of_memory("gradcheck", NULL);
    if (status == WEFT_OK)
        status = check_trained(m, &c, options);
    if (originals) {
        char *message = status == WEFT_OK ? NULL : weft_strdup(weft_error_message());
        const weft_status back = put_back(&all, originals);
        if (message) /* the original message */
            status = weft_fail(status, "%s", message);
        status = status == WEFT_OK ? back : status;
        weft_free(message);
    }
    weft_nn_slots_free(&all);
    return status;
}
