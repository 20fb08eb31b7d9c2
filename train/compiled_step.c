/* train/compiled_step.c -- one batch as a compiled function: a complete update, or adding its
 * gradients to the sums.
 *
 * The state of a function is everything that it reads or sets: all parameters, the batch's rewards,
 * and either the optimizer's state with its slots for loss and norm, or the sums of gradients. The
 * number of rows and the length of a batch are dynamic axes. */
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"
#include "train/trainer.h"

/* The inputs are the columns, then the scale (), the factor () and the row keys (rows, 2). */
enum { SCALE = WEFT__COLUMNS, FACTOR, KEYS, INPUTS };

/* Weights are always passed, so batches with and without them have one trace. The input of another
 * column that is absent has no axes. */
static weft_status call(const weft_trainer *t, weft_compiled *compiled, const weft_batch *batch,
                        double scale, double factor)
{
    weft_array *ones = weft_ones(weft_shape(batch->targets), WEFT_FLOAT32), *loss, *in[INPUTS];
    weft_array *absent = weft_scalar(0, WEFT_FLOAT32);
    for (int c = 0; c < WEFT__COLUMNS; c++) {
        weft_array *column = *weft__batch_slot(batch, c);
        in[c] = column ? column : weft__columns[c].rule == WEFT__ONES ? ones : absent;
    }
    in[SCALE] = weft_scalar(scale, WEFT_FLOAT32);
    in[FACTOR] = weft_scalar(factor, WEFT_FLOAT64);
    in[KEYS] = t->row_keys;
    return weft_compiled_call(compiled, in, INPUTS, &loss, 1);
}

/* Computes the loss and gradients of a batch. The dropout keys of its rows are an input. */
static weft_array *differentiate(weft_trainer *t, weft_array *const *in)
{
    weft_batch batch = {.examples = t->o.objective->examples};
    for (int c = 0; c < WEFT__COLUMNS; c++)
        *weft__batch_slot(&batch, c) = weft_ndim(in[c]) > 0 ? in[c] : NULL;
    weft_array *keys = t->row_keys;
    t->row_keys = in[KEYS];
    weft_array *loss = weft__trainer_differentiate(t, &batch, in[SCALE]);
    t->row_keys = keys;
    return loss;
}

/* A failed loss fails the call. */
static int update(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_trainer *t = context;
    (void)n_in;
    (void)room;
    out[0] = differentiate(t, in);
    if (weft_ok(out[0]) &&
        weft__optim_set(t->optimizer, t->gradients, NULL, out[0], in[FACTOR], t->o.clip) != WEFT_OK)
        out[0] = weft_error_array("%s", weft_error_message());
    return 1;
}

static int add(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_trainer *t = context;
    (void)n_in;
    (void)room;
    out[0] = differentiate(t, in);
    if (weft_ok(out[0]) && weft__trainer_add_to_sums(t, out[0]) != WEFT_OK)
        out[0] = weft_error_array("%s", weft_error_message());
    return 1;
}

/* Compiles a function whose state is the parameters, the rewards and n_more further slots. */
static weft_status compile(weft_trainer *t, weft_function *function, const char *name,
                           weft_array ***more, int n_more, weft_compiled **out)
{
    enum { FIRST = 1, ALL = 3 }; /* dynamic axes */
    uint32_t dynamic[INPUTS] = {[KEYS] = FIRST};
    for (int c = 0; c < WEFT__COLUMNS; c++)
        dynamic[c] = ALL;
    const int n = t->parameters.n;
    weft_array ***slots = weft_calloc((size_t)(n + 1 + n_more), sizeof *slots);
    if (slots == NULL)
        return weft__out_of_memory("trainer", NULL);
    memcpy(slots, t->parameters.slots, (size_t)n * sizeof *slots);
    slots[n] = &t->row_rewards;
    memcpy(slots + n + 1, more, (size_t)n_more * sizeof *slots);
    const weft_compile_options options = {.name = name, .dynamic = dynamic, .n_dynamic = INPUTS};
    const weft_status status = weft_compile(function, t, slots, n + 1 + n_more, &options, out);
    weft_free(slots);
    return status;
}

static weft_status compile_update(weft_trainer *t)
{
    int n;
    weft_array ***state = weft_optim_state(t->optimizer, &n);
    weft_array ***more = weft_calloc((size_t)n + 2, sizeof *more);
    if (more == NULL)
        return weft__out_of_memory("trainer", NULL);
    memcpy(more, state, (size_t)n * sizeof *more);
    weft__optim_results(t->optimizer, more + n);
    weft_status status = WEFT_OK;
    weft_scope_open_lean(); /* with all slots set, one trace is enough instead of two */
    for (int i = n; i < n + 2 && status == WEFT_OK; i++)
        status = weft_set(more[i], weft_scalar(0, WEFT_FLOAT32));
    weft_scope_close(NULL);
    if (status == WEFT_OK)
        status = compile(t, update, "update", more, n + 2, &t->compiled);
    weft_free(more);
    return status;
}

weft_status weft__trainer_compile(weft_trainer *t)
{
    weft_status status = weft_nn_parameters(weft_model_module(t->model), &t->parameters);
    if (status == WEFT_OK)
        status = compile_update(t);
    return status == WEFT_OK
               ? compile(t, add, "gradients", t->sum_slots, t->slots.n + 1, &t->compiled_sums)
               : status;
}

weft_status weft__trainer_update(weft_trainer *t, const weft_batch *batch, double scale,
                                 double lr_factor, weft_optim_call *result)
{
    const weft_status status = call(t, t->compiled, batch, scale, lr_factor);
    return status == WEFT_OK ? weft__optim_read(t->optimizer, true, result) : status;
}

weft_status weft__trainer_add(weft_trainer *t, const weft_batch *batch, double scale)
{
    return call(t, t->compiled_sums, batch, scale, 0);
}
