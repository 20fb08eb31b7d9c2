/* generate/generator.h -- the inside of a generator, which its files share.
 *
 * prepare.c makes it, step.c builds and enqueues what is computed, decode.c compiles the step of
 * one token, constrained.c draws where the host decides what may be drawn, generator.c reads.
 */
#ifndef WEFT_GENERATE_GENERATOR_H
#define WEFT_GENERATE_GENERATOR_H

#include "core/clock.h"
#include "generate/speculative.h"
#include "weft/compile.h"
#include "weft/generate.h"

typedef struct weft__probed weft__probed;

/* Tokens that are read together: enqueued, and not read yet. */
typedef struct weft__group {
    weft_array *tokens, *logprobs; /* (n) each, the second NULL without the option */
    int64_t n;
    weft__probed *probed; /* what was watched, with n 1; NULL: nothing that needs arrays */
} weft__group;

struct weft_generator {
    weft_model *model;
    weft_generate_options options; /* without what it pointed to, unless that is borrowed */
    void *sampler_lists;           /* what the sampler's options point to */
    int32_t *stop; /* ids that end the text: the model's, n_eos, then the caller's */
    int n_stop, n_eos;
    int32_t *text; /* the prompt, and behind it what weft_generator_next gave */
    int64_t n_text, room;
    int64_t limit; /* tokens that may be generated: max_tokens or the positions that are left */
    weft_cache **caches; /* NULL with no_cache */

    /* Slots that go from step to step; the first two are those of the last step enqueued. */
    weft_array *token, *logprob;
    weft_array *seen;   /* (1, V) float32, how often each token occurred; NULL without a penalty */
    weft_array *key;    /* of the steps to come; NULL when greedy */
    weft_array *offset; /* (1) int32, the position of `token`; of the compiled step */
    /* With a constraint: the logits (1, V) of a step whose token is not drawn yet, and which tokens
     * may be, bool (1, V). */
    weft_array *logits, *allowed;
    bool *allowed_here;   /* the same on the host */
    bool undrawn;         /* `logits` waits for its draw */
    weft__probed *probed; /* slots of what is watched; and what was, of the token that was read */
    weft__probed *shown;
    bool must_end; /* the document is whole, and nothing may follow */

    int64_t enqueued;  /* tokens that were asked of the device */
    weft__group ahead; /* under way */
    int32_t *ids;      /* read: n_read of them, of which the first `given` were given */
    float *logprobs;
    int64_t n_read, given;

    weft__speculation *speculation; /* NULL: each token has a step of its own */
    weft_compiled *decode;          /* a step of one token; NULL: it is not compiled (yet) */

    double start, first, last; /* seconds */
    weft_generate_stats stats;
};

/* ---- prepare.c ------------------------------------------------------------------------------ */

/* A token of the text behind those in g->text. */
weft_status weft__generator_append(weft_generator *g, int32_t id);

/* ---- step.c --------------------------------------------------------------------------------- */

/* All of the prompt but its last chunk through the layers, then the first step. Does less when it
 * is cancelled or late, which g->stats.reason then says. */
weft_status weft__step_prompt(weft_generator *g);

/* Starts the computation of n arrays, NULL ones aside, and of what the caches hold; `wait`: and
 * waits for it. */
weft_status weft__start(weft_generator *g, weft_array *const *arrays, int n, bool wait);

/* Enqueues one step from tokens (1, L): `token` is the next then, or with a constraint `logits` is
 * that from which weft__draw_constrained draws it. */
weft_status weft__step(weft_generator *g, weft_array *tokens);

/* The graph of such a step: sets the slots. `offset` as weft_model_call has it. */
weft_status weft__put_step(weft_generator *g, weft_array *tokens, weft_array *offset);
/* The graph of the draw from logits (1, V): sets the slots of the token under way. */
weft_status weft__put_draw(weft_generator *g, weft_array *logits);

/* Whether the caller cancelled or the time is over; g->stats.reason then says so. */
bool weft__interrupted(weft_generator *g);

/* ---- decode.c ------------------------------------------------------------------------------- */

/* A step from the token under way, compiled where that may be. */
weft_status weft__step_next(weft_generator *g);

/* ---- constrained.c -------------------------------------------------------------------------- */

/* Enqueues the draw from `logits` of what the constraint allows; sets must_end when that is
 * nothing. */
weft_status weft__draw_constrained(weft_generator *g);

#endif
