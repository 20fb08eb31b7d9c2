/* weft/probe.h -- probes: callbacks with internal values of generation and training.
 *
 *     static void show(void *context, const weft_probe_event *event)
 *     {
 *         printf("%lld: %g nats\n", (long long)event->step, event->entropy);
 *     }
 *     ...
 *     const weft_probe probe = {.kinds = WEFT_PROBE_ENTROPY, .event = show};
 *     weft_generate_options options = {.probe = &probe};
 */
#ifndef WEFT_PROBE_H
#define WEFT_PROBE_H

#include <stdint.h>

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of events, with the fields that they fill. */
typedef enum weft_probe_kind {
    WEFT_PROBE_TOKEN = 1 << 0,    /* token, logprob (0 without weft_generate_options.logprobs) */
    WEFT_PROBE_LOGITS = 1 << 1,   /* values (V): the token's logits before the sampler */
    WEFT_PROBE_ENTROPY = 1 << 2,  /* entropy of their softmax, in nats */
    WEFT_PROBE_ROUTER = 1 << 3,   /* layer; experts and weights (L, k) of L tokens */
    WEFT_PROBE_RESIDUAL = 1 << 4, /* layer; values (1, L): root mean square after it */
    WEFT_PROBE_CACHE = 1 << 5,    /* cache_tokens, cache_bytes */
    WEFT_PROBE_MEMORY = 1 << 6,   /* memory_active, memory_peak */
    WEFT_PROBE_TRAINING = 1 << 7  /* loss, grad_norm, lr */
} weft_probe_kind;

typedef enum weft_probe_phase {
    WEFT_PROBE_PREFILL, /* a chunk of the prompt; the last one comes with the first token */
    WEFT_PROBE_DECODE,
    WEFT_PROBE_UPDATE /* of training */
} weft_probe_phase;

/* Arrays are evaluated, float32 but for `experts`, int32, and valid until the callback returns. */
typedef struct weft_probe_event {
    weft_probe_kind kind;
    weft_probe_phase phase;
    int64_t step;  /* the number of earlier tokens, or the update, from 1 */
    int64_t layer; /* -1: no layer */
    int32_t token;
    double logprob, entropy;
    weft_array *values, *experts, *weights;
    int64_t cache_tokens, cache_bytes; /* of all layers, reserved memory included */
    int64_t memory_active, memory_peak;
    double loss, grad_norm, lr;
} weft_probe_event;

typedef struct weft_probe {
    unsigned kinds; /* the wanted weft_probe_kind values, combined with | */
    void (*event)(void *context, const weft_probe_event *event);
    void *context;
} weft_probe;

#ifdef __cplusplus
}
#endif
#endif
