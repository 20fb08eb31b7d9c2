/* nn/tools.c -- leaf modules, checkpointed calls, and gradients of a module's parameters. */
#include "core/failure.h"
#include "nn/module.h"
#include "weft/nn_tools.h"

/* ---- modules -------------------------------------------------------------------------------- */

typedef struct leaves {
    weft_nn_module_visitor *visit;
    void *context;
} leaves;

static weft_status visit_leaf(void *context, const char *path, weft_module **field)
{
    const leaves *l = context;
    return (*field)->n_children == 0 ? l->visit(l->context, path, field) : WEFT_OK;
}

weft_status weft_nn_visit_leaves(weft_module *m, weft_nn_module_visitor *visit, void *context)
{
    return weft_nn_visit_modules(m, visit_leaf, &(leaves){visit, context});
}

static int call(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    out[0] = weft_nn_call(context, in[0]);
    return 1;
}

weft_array *weft_nn_checkpoint(weft_module *m, weft_array *x)
{
    weft_array *y;
    weft_checkpoint(call, m, &x, 1, &y, 1);
    return y;
}

/* ---- gradients ------------------------------------------------------------------------------ */

weft_array *weft_nn_value_and_grad(weft_module *m, weft_slot_loss_function *fn, void *context,
                                   weft_nn_gradients *out)
{
    *out = (weft_nn_gradients){0};
    if (weft_nn_trainable(m, &out->parameters) != WEFT_OK)
        return weft_error_array("%s", weft_error_message());
    const size_t n = out->parameters.n > 0 ? (size_t)out->parameters.n : 1;
    out->arrays = weft_calloc(n, sizeof *out->arrays);
    if (out->arrays == NULL) {
        weft_nn_gradients_free(out);
        return weft__memory_error(m->type->name, "gradients");
    }
    return weft_value_and_grad_slots(fn, context, out->parameters.slots, out->parameters.n,
                                     out->arrays);
}

void weft_nn_gradients_free(weft_nn_gradients *gradients)
{
    weft_nn_slots_free(&gradients->parameters);
    weft_free(gradients->arrays);
    *gradients = (weft_nn_gradients){0};
}
