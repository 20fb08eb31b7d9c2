/* generate/probes.c -- probe events: arrays are kept in slots with the token until it is read. */
#include "generate/probes.h"

#include "core/failure.h"

static bool wants(const weft_generator *g, unsigned kinds)
{
    return g->options.probe && (g->options.probe->kinds & kinds) != 0;
}

static int64_t layers_of(const weft_generator *g)
{
    return weft_model_info_of(g->model)->n_layers;
}

/* ---- slots ---------------------------------------------------------------------------------- */

weft_status weft__probed_new(const weft_generator *g, weft__probed **out)
{
    *out = NULL;
    const bool layers = wants(g, WEFT_PROBE_ROUTER | WEFT_PROBE_RESIDUAL);
    if (!layers && !wants(g, WEFT_PROBE_LOGITS | WEFT_PROBE_ENTROPY))
        return WEFT_OK;
    weft__probed *p = weft_calloc(1, sizeof *p);
    if (p != NULL && layers)
        p->layers = weft_calloc((size_t)layers_of(g) + 1, sizeof *p->layers);
    if (p == NULL || (layers && p->layers == NULL)) {
        weft_free(p);
        return weft__out_of_memory("generate", "the probe");
    }
    *out = p;
    return WEFT_OK;
}

int weft__probed_count(const weft_generator *g)
{
    const bool layers = g->probed != NULL && g->probed->layers != NULL;
    return g->probed == NULL ? 0 : 2 + (layers ? 3 * (int)layers_of(g) : 0);
}

weft_array **weft__probed_slot(weft_generator *g, int i)
{
    weft__probed *p = g->probed;
    if (i < 2)
        return i == 0 ? &p->logits : &p->entropy;
    weft_layer_summary *s = &p->layers[(i - 2) / 3];
    weft_array **const each[] = {&s->rms, &s->experts, &s->weights};
    return each[(i - 2) % 3];
}

void weft__probed_free(const weft_generator *g, weft__probed *p)
{
    if (p == NULL)
        return;
    weft_drop(p->logits);
    weft_drop(p->entropy);
    for (int64_t i = 0; p->layers != NULL && i < layers_of(g); i++) {
        weft_drop(p->layers[i].rms);
        weft_drop(p->layers[i].experts);
        weft_drop(p->layers[i].weights);
    }
    weft_free(p->layers);
    weft_free(p);
}

weft_status weft__probed_copy(const weft_generator *g, const weft__probed *p, weft__probed **out)
{
    *out = NULL;
    if (p == NULL)
        return WEFT_OK;
    const weft_status status = weft__probed_new(g, out);
    if (status != WEFT_OK)
        return status;
    weft__probed *copy = *out;
    copy->logits = weft_keep(p->logits);
    copy->entropy = weft_keep(p->entropy);
    for (int64_t i = 0; p->layers != NULL && i < layers_of(g); i++) {
        const weft_layer_summary *s = &p->layers[i];
        copy->layers[i] =
            (weft_layer_summary){weft_keep(s->rms), weft_keep(s->experts), weft_keep(s->weights)};
    }
    return WEFT_OK;
}

weft_status weft__probe_logits(weft_generator *g, weft_array *logits)
{
    weft_status status = WEFT_OK;
    if (!wants(g, WEFT_PROBE_LOGITS | WEFT_PROBE_ENTROPY))
        return WEFT_OK;
    weft_array *x = weft_squeeze(weft_astype(logits, WEFT_FLOAT32), 0); /* (V) */
    if (wants(g, WEFT_PROBE_ENTROPY)) {
        weft_array *terms = weft_multiply(weft_softmax(x, -1), weft_log_softmax(x, -1));
        /* 0 log 0 is 0. */
        weft_array *none = weft_equal(weft_softmax(x, -1), weft_scalar(0, WEFT_FLOAT32));
        terms = weft_where(none, weft_scalar(0, WEFT_FLOAT32), terms);
        status =
            weft_set(&g->probed->entropy, weft_negative(weft_sum(terms, WEFT_ALL_AXES, false)));
    }
    if (status == WEFT_OK && wants(g, WEFT_PROBE_LOGITS))
        status = weft_set(&g->probed->logits, x);
    return status;
}

/* ---- events --------------------------------------------------------------------------------- */

static void send(const weft_generator *g, weft_probe_event event)
{
    if (wants(g, event.kind))
        g->options.probe->event(g->options.probe->context, &event);
}

static void send_layers(const weft_generator *g, const weft__probed *p, weft_probe_event event)
{
    for (int64_t i = 0; p != NULL && p->layers != NULL && i < layers_of(g); i++) {
        const weft_layer_summary *s = &p->layers[i];
        event.layer = i;
        event.kind = WEFT_PROBE_RESIDUAL;
        event.values = s->rms;
        if (s->rms != NULL)
            send(g, event);
        event.kind = WEFT_PROBE_ROUTER;
        event.values = NULL;
        event.experts = s->experts;
        event.weights = s->weights;
        if (s->experts != NULL)
            send(g, event);
        event.experts = event.weights = NULL;
    }
}

/* Sends events that need no array. */
static void send_counts(const weft_generator *g, weft_probe_event event)
{
    event.kind = WEFT_PROBE_CACHE;
    for (int64_t i = 0; g->caches && i < weft_model_info_of(g->model)->n_caches; i++) {
        weft_array **slots[WEFT_CACHE_SLOTS];
        const int n = weft_cache_state(g->caches[i], slots);
        for (int k = 0; k < n; k++)
            event.cache_bytes += *slots[k] ? weft_nbytes(*slots[k]) : 0;
        event.cache_tokens = weft_cache_length(g->caches[0]);
    }
    send(g, event);
    event.kind = WEFT_PROBE_MEMORY;
    event.memory_active = weft_memory_active();
    event.memory_peak = weft_memory_peak();
    send(g, event);
}

void weft__probe_chunk(weft_generator *g)
{
    if (g->options.probe == NULL)
        return;
    const weft_probe_event event = {.phase = WEFT_PROBE_PREFILL, .layer = -1, .token = -1};
    send_layers(g, g->probed, event);
    send_counts(g, event);
}

weft_status weft__probe_token(weft_generator *g, weft__probed *p, int32_t id, double logprob)
{
    weft_probe_event event = {.phase =
                                  g->stats.tokens == 0 ? WEFT_PROBE_PREFILL : WEFT_PROBE_DECODE,
                              .step = g->stats.tokens,
                              .layer = -1,
                              .token = id,
                              .logprob = logprob};
    if (g->options.probe == NULL)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    send_layers(g, p, event);
    event.kind = WEFT_PROBE_LOGITS;
    event.values = p != NULL ? p->logits : NULL;
    send(g, event);
    event.kind = WEFT_PROBE_ENTROPY;
    event.values = NULL;
    if (p != NULL && p->entropy != NULL) {
        float entropy = 0;
        status = weft_read(p->entropy, WEFT_FLOAT32, &entropy, 1);
        event.entropy = (double)entropy;
        send(g, event);
    }
    event.kind = WEFT_PROBE_TOKEN;
    send(g, event);
    send_counts(g, event);
    return status;
}
