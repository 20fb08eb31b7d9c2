/* generate/decode.c -- the compiled step of one token. Its state is passed from step to step, so it
 * is traced once per cache size. */
#include <string.h>

#include "core/failure.h"
#include "generate/probes.h"

enum { WORTH = 8 }; /* number of steps from which compiling pays */

static bool can_compile(const weft_generator *g)
{
    const weft_model_info *info = weft_model_info_of(g->model);
    if (g->options.no_compile || !weft_compile_enabled() || g->limit - g->stats.tokens < WORTH ||
        !info->takes_offset)
        return false;
    for (int64_t i = 0; i < info->n_caches; i++) {
        if (!weft_cache_appends(g->caches[i]))
            return false;
    }
    return true;
}

/* Traces the step after the pending token. The compiled call fails if a slot cannot be set. */
static int decode(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_generator *g = context;
    (void)in;
    (void)n_in;
    (void)out;
    (void)room;
    weft_array *tokens = weft_reshape(g->token, WEFT_DIMS(1, 1));
    if (weft__put_step(g, tokens, g->offset) ==
        WEFT_OK) /* such a failure fails the compiled call */
        (void)weft_set(&g->offset, weft_add(g->offset, weft_scalar_int(1, WEFT_INT32)));
    return 0;
}

/* Sets the offset: the pending token follows the tokens in the caches. */
static weft_status put_offset(weft_generator *g)
{
    const int32_t at = (int32_t)weft_cache_offset(g->caches[0]);
    return weft_set(&g->offset, weft_to(weft_from_data(&at, WEFT_INT32, WEFT_DIMS(1)),
                                        weft_device_of(g->token)));
}

static weft_status make_decode(weft_generator *g)
{
    const int64_t caches = weft_model_info_of(g->model)->n_caches;
    weft_array **own[] = {&g->token, &g->logprob, &g->seen, &g->key, &g->offset, &g->logits};
    int n = sizeof own / sizeof *own;
    const int probed = weft__probed_count(g);
    weft_array ***slots =
        weft_malloc(((size_t)caches * WEFT_CACHE_SLOTS + (size_t)(n + probed)) * sizeof *slots);
    if (slots == NULL)
        return weft__out_of_memory("generate", NULL);
    memcpy(slots, own, sizeof own);
    for (int i = 0; i < probed; i++)
        slots[n++] = weft__probed_slot(g, i);
    for (int64_t i = 0; i < caches; i++)
        n += weft_cache_state(g->caches[i], slots + n);
    /* A cache that has grown never has its old shapes again, so one combination is kept. */
    const weft_compile_options options = {.name = "decode", .cache = 1, .async = true};
    const weft_status status = weft_compile(decode, g, slots, n, &options, &g->decode);
    weft_free(slots);
    return status;
}

static weft_status step_compiled(weft_generator *g)
{
    const int64_t caches = weft_model_info_of(g->model)->n_caches;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < caches && status == WEFT_OK; i++)
        status = weft_cache_reserve(g->caches[i], 1);
    if (status == WEFT_OK)
        status = weft_compiled_call(g->decode, NULL, 0, NULL, 0);
    for (int64_t i = 0; i < caches && status == WEFT_OK; i++)
        weft_cache_advance(g->caches[i], 1);
    g->undrawn = g->options.constraint != NULL;
    g->enqueued++;
    return status;
}

weft_status weft__step_next(weft_generator *g)
{
    weft_status status = WEFT_OK;
    if (g->decode == NULL && can_compile(g))
        status = make_decode(g);
    if (status == WEFT_OK && g->decode && g->offset == NULL)
        status = put_offset(g);
    if (status != WEFT_OK)
        return status;
    return g->decode ? step_compiled(g) : weft__step(g, weft_expand_dims(g->token, 0));
}
