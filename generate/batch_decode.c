/* generate/batch_decode.c -- the model's part of a step of a batch, and its compiled forms: one for
 * each adapter that all sequences have, and one for sequences with different ones. */
#include <string.h>

#include "core/failure.h"
#include "generate/batch.h"
#include "generate/sampler.h"

enum {
    WORTH = 8, /* number of steps from which compiling pays */
    KEPT = 8   /* variants of a compiled step that are kept: numbers of sequences and cache sizes */
};

weft_array *weft__batch_argmax(weft_array *logits)
{
    return weft__sampler_checked(logits, weft_argmax(logits, -1, false));
}

/* weft_function: as weft__batch_decode. */
static int decode(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_running_batch *b = context;
    weft_nn_lora_bank *bank = b->options.adapters;
    (void)room;
    const weft_model_call call = {
        .caches = b->caches, .offset = in[1], .positions = weft_expand_dims(in[1], 1)};
    b->paging = (weft__paging){.table = in[2], .places = in[3]};
    if (n_in > 4)
        weft__lora_bank_set_rows(bank, in[4]);
    weft_array *hidden = weft_model_hidden(b->model, weft_expand_dims(in[0], 1), &call);
    out[WEFT__LOGITS] = weft_squeeze(weft_model_head(b->model, hidden), 1);
    out[WEFT__ARGMAX] = weft__batch_argmax(out[WEFT__LOGITS]);
    if (n_in > 4)
        weft__lora_bank_set_rows(bank, NULL);
    return WEFT__RESULTS;
}

static weft_status make(weft_running_batch *b, weft_compiled **out)
{
    const int64_t n_caches = weft_model_info_of(b->model)->n_caches;
    weft_array ***slots = weft_malloc(((size_t)n_caches * WEFT_CACHE_SLOTS + 1) * sizeof *slots);
    if (slots == NULL)
        return weft__out_of_memory("generate", NULL);
    int n = 0;
    for (int64_t i = 0; i < n_caches; i++)
        n += weft_cache_state(b->caches[i], slots + n);
    const weft_compile_options options = {
        .name = "batch decode", .cache = KEPT, .async = true, .own_pages = true};
    const weft_status status = weft_compile(decode, b, slots, n, &options, out);
    weft_free(slots);
    return status;
}

/* ---- the list ------------------------------------------------------------------------------- */

/* Frees the step at i; those after it move up. */
static void drop(weft_running_batch *b, int i)
{
    weft_compiled_free(b->steps[i].compiled);
    memmove(&b->steps[i], &b->steps[i + 1], (size_t)(WEFT__STEPS - 1 - i) * sizeof *b->steps);
    b->steps[WEFT__STEPS - 1] = (weft__decoder){0};
}

void weft__batch_drop_steps(weft_running_batch *b)
{
    while (b->steps[0].compiled)
        drop(b, 0);
    b->compiled = false;
}

/* Frees the steps of adapters that are no longer in the bank, and the mixed one. */
static void drop_old(weft_running_batch *b)
{
    const weft_nn_lora_bank *bank = b->options.adapters;
    if (bank == NULL || b->version == bank->version)
        return;
    b->version = bank->version;
    for (int i = 0; i < WEFT__STEPS && b->steps[i].compiled;) {
        bool kept = b->steps[i].adapter == 0;
        for (int k = 0; k < bank->n; k++)
            kept = kept || bank->members[k]->id == b->steps[i].adapter;
        if (kept)
            i++;
        else
            drop(b, i);
    }
}

/* Makes the step of the adapter the first of the list. *out is NULL if it is not compiled and not
 * worth compiling. */
static weft_status find(weft_running_batch *b, uint64_t adapter, bool worth, weft_compiled **out)
{
    weft__decoder step = {.adapter = adapter};
    weft_status status = WEFT_OK;
    int i = 0;
    drop_old(b);
    while (i < WEFT__STEPS && b->steps[i].compiled && b->steps[i].adapter != adapter)
        i++;
    if (i < WEFT__STEPS && b->steps[i].compiled)
        step = b->steps[i];
    else if (worth)
        status = make(b, &step.compiled);
    *out = step.compiled;
    if (step.compiled == NULL)
        return status;
    if (i == WEFT__STEPS)
        drop(b, --i);
    memmove(&b->steps[1], &b->steps[0], (size_t)i * sizeof *b->steps);
    b->steps[0] = step;
    return WEFT_OK;
}

weft_status weft__batch_decode(weft_running_batch *b, weft_array *const *in,
                               const weft_nn_lora_member *adapter, int64_t left, weft_array **out)
{
    const int n = in[4] ? 5 : 4;
    const bool worth = !b->options.no_compile && weft_compile_enabled() && left >= WORTH;
    const uint64_t id = in[4] ? WEFT__MIXED : adapter ? adapter->id : 0;
    weft_compiled *compiled;
    const weft_status status = find(b, id, worth, &compiled);
    b->compiled = compiled != NULL;
    if (status != WEFT_OK)
        return status;
    if (compiled)
        return weft_compiled_call(compiled, in, n, out, WEFT__RESULTS);
    decode(b, in, n, out, WEFT__RESULTS);
    return weft_eval_n(out, WEFT__RESULTS);
}
