/* train/compiled_step.c -- the update of one batch as a compiled function.
 *
 * Its state is everything that an update reads or sets: all parameters, the optimizer's moments and
 * master copies, and where it leaves loss and norm. Batches differ in their rows and their length,
 * which are dynamic axes.
 */
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"
#include "train/trainer.h"

enum { PLAIN = 5, PACKED = 7 }; /* inputs of an update */

/* in: tokens, targets and weights (B, L), scale (), factor (); of packed rows first and positions
 * (B, L) too */
static void update(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    weft_trainer *t = context;
    (void)n_out;
    weft_batch batch = {.tokens = in[0], .targets = in[1], .weights = in[2]};
    if (n_in == PACKED) {
        batch.first = in[5];
        batch.positions = in[6];
    }
    out[0] = weft__trainer_differentiate(t, &batch, in[3]); /* if it fails, so does the call */
    if (weft_ok(out[0]))
        (void)weft__optim_set(t->optimizer, t->gradients, out[0], in[4], t->o.clip);
}

weft_status weft__trainer_compile(weft_trainer *t)
{
    static const uint32_t dynamic[PACKED] = {3, 3, 3, 0, 0, 3, 3}; /* both axes of matrices */
    weft_status status = weft_nn_parameters(weft_model_module(t->model), &t->parameters);
    if (status != WEFT_OK)
        return status;
    int n_state;
    weft_array ***state = weft_optim_state(t->optimizer, &n_state);
    const int n = t->parameters.n + n_state + 2;
    weft_array ***slots = weft_calloc((size_t)n, sizeof *slots);
    if (slots == NULL)
        return weft__out_of_memory("trainer", NULL);
    memcpy(slots, t->parameters.slots, (size_t)t->parameters.n * sizeof *slots);
    memcpy(slots + t->parameters.n, state, (size_t)n_state * sizeof *slots);
    weft__optim_results(t->optimizer, slots + n - 2);
    weft_scope_open_lean(); /* slots that are filled from the start need one trace, not two */
    for (int i = n - 2; i < n && status == WEFT_OK; i++)
        status = weft_set(slots[i], weft_scalar(0, WEFT_FLOAT32));
    weft_scope_close(NULL);
    const weft_compile_options options = {
        .name = "update", .dynamic = dynamic, .n_dynamic = PACKED};
    if (status == WEFT_OK)
        status = weft_compile(update, t, slots, n, &options, &t->compiled);
    weft_free(slots);
    return status;
}

weft_status weft__trainer_update(weft_trainer *t, const weft_batch *batch, double scale,
                                 double lr_factor, weft_optim_call *call)
{
    weft_array *ones = weft_ones(weft_shape(batch->targets), WEFT_FLOAT32);
    weft_array *in[PACKED] = {batch->tokens,
                              batch->targets,
                              batch->weights ? batch->weights : ones,
                              weft_scalar(scale, WEFT_FLOAT32),
                              weft_scalar(lr_factor, WEFT_FLOAT64),
                              batch->first,
                              batch->positions};
    weft_array *loss;
    const weft_status status =
        weft_compiled_call(t->compiled, in, batch->first ? PACKED : PLAIN, &loss, 1);
    if (status == WEFT_OK)
        weft__optim_read(t->optimizer, true, call);
    return status;
}
