/* generate/generator.h -- internal interface of a generator.
 *
 * prepare.c creates it, step.c builds and enqueues the computations, decode.c compiles the step of
 * one token, constrained.c draws when the host decides which tokens are allowed, generator.c reads
 * the tokens.
 */
#ifndef WEFT_GENERATE_GENERATOR_H
#define WEFT_GENERATE_GENERATOR_H

#include "core/clock.h"
#include "generate/speculative.h"
#include "weft/compile.h"
#include "weft/generate.h"

typedef struct weft__probed weft__probed;

/* Tokens that are read together: enqueued but not read yet. */
typedef struct weft__group {
    weft_array *tokens, *logprobs; /* (n), (n times weft__logprob_width); the second is NULL without
                                    * the option */
    int64_t n;
    weft__probed *probed; /* arrays for probes, with n = 1; NULL: none */
} weft__group;

struct weft_generator {
    weft_model *model;
    weft_generate_options options; /* pointers are cleared unless they are borrowed */
    void *sampler_lists;           /* memory of the sampler's options */
    int32_t *stop;                 /* stop tokens: n_eos of the model, then the caller's */
    int n_stop, n_eos;
    int32_t *text; /* the prompt, followed by the tokens returned by weft_generator_next */
    int64_t n_text, room;
    int64_t limit;       /* most tokens to generate: max_tokens, or the positions left */
    bool reading;        /* the text, or its end, is to be processed before the next step */
    int64_t known;       /* tokens of the text whose keys and values the caches had before that */
    bool waits;          /* for each part of the text */
    bool batched;        /* the steps after the text are those of a batch (batch.h) */
    weft_cache **caches; /* NULL with no_cache */

    /* Slots that are passed from step to step; the first two belong to the last enqueued step. */
    weft_array *token, *logprob;
    weft_array *seen;   /* (1, V) float32, number of occurrences of each token; NULL without a
                         * penalty */
    weft_array *key;    /* for the following steps; NULL when greedy */
    weft_array *offset; /* (1) int32, the position of `token`; for the compiled step */
    /* With a constraint: the logits (1, V) of a step whose token is not drawn yet, and the allowed
     * tokens, bool (1, V). */
    weft_array *logits, *allowed;
    bool *allowed_here;   /* the allowed tokens on the host */
    bool undrawn;         /* `logits` waits for its draw */
    weft__probed *probed; /* slots of probed arrays; and the arrays of the token that was read */
    weft__probed *shown;
    bool must_end; /* the document is complete, and nothing may follow */

    int64_t enqueued;      /* tokens enqueued on the device */
    weft__group ahead;     /* under way */
    int32_t *ids;          /* read tokens: n_read, of which the first `given` have been returned */
    float *logprobs;       /* weft__logprob_width for each of them */
    weft_top_logprob *top; /* room for options.top_logprobs; NULL without them */
    int64_t n_read, given;

    weft__speculation *speculation; /* NULL: one step per token */
    weft_compiled *decode;          /* the compiled step of one token; NULL: not compiled (yet) */

    double start, first, last; /* seconds */
    weft_generate_stats stats;
};

/* ---- prepare.c ------------------------------------------------------------------------------ */

/* The positions that a sequence may use: the model's, or fewer by options.positions; 0: unlimited.
 */
int64_t weft__positions(const weft_model *model, const weft_generate_options *options);

/* Appends a token to g->text. */
weft_status weft__generator_append(weft_generator *g, int32_t id);

/* Continues with the first and the last tokens of the text, which are processed from position 0,
 * and with the next seed. The generator has reached its limit. */
weft_status weft__generator_cut(weft_generator *g, int64_t first, int64_t last);

/* Passes the caches to the prompt cache, if there is one, and continues with empty ones. */
weft_status weft__generator_store(weft_generator *g);
/* Replaces the caches by those with which a text begins, which the prompt cache may have. */
weft_status weft__generator_take(weft_generator *g);

/* Whether all tokens have been returned, and the last one is the first beyond renews_at. The text
 * is then to be processed again, with empty caches. */
bool weft__generator_renew(weft_generator *g);

/* ---- step.c --------------------------------------------------------------------------------- */

/* Processes all of the prompt but its last chunk, then the first step. Stops early when cancelled
 * or timed out, and sets g->stats.reason. */
weft_status weft__step_prompt(weft_generator *g);

/* The length of the text that is being processed, for rotations that depend on it; 0 when it has
 * been. */
int64_t weft__whole_length(const weft_generator *g);

/* Processes L tokens of the prompt, but not its last one. */
weft_status weft__step_chunk(weft_generator *g, int64_t from, int64_t L);

/* Starts the computation of n arrays (entries may be NULL) and of the caches' arrays; with `wait`,
 * waits for it. */
weft_status weft__start(weft_generator *g, weft_array *const *arrays, int n, bool wait);

/* Enqueues one step for tokens (1, L). Afterwards `token` is the next one or, with a constraint,
 * `logits` is the input of weft__draw_constrained. */
weft_status weft__step(weft_generator *g, weft_array *tokens);

/* Builds the graph of such a step and sets the slots. `offset` is as for weft_model_call. */
weft_status weft__put_step(weft_generator *g, weft_array *tokens, weft_array *offset);
/* Builds the graph of the draw from logits (1, V) and sets the slots of the pending token. */
weft_status weft__put_draw(weft_generator *g, weft_array *logits);
/* What g's options ask for of tokens (B) drawn from logits (B, V): float32
 * (B, weft__logprob_width). */
weft_array *weft__draw_logprobs(const weft_generator *g, weft_array *logits, weft_array *tokens);

/* Whether the caller cancelled or the time is over; sets g->stats.reason. */
bool weft__interrupted(weft_generator *g);

/* ---- decode.c ------------------------------------------------------------------------------- */

/* A step after the pending token, compiled if possible. */
weft_status weft__step_next(weft_generator *g);

/* The numbers read for each token: its log-probability, the largest ones, and their tokens. */
static inline int64_t weft__logprob_width(const weft_generator *g)
{
    return 1 + 2 * g->options.top_logprobs;
}

/* ---- generator.c ---------------------------------------------------------------------------- */

/* Sets the most probable tokens of the token that was returned last. */
void weft__generator_top(weft_generator *g, weft_generated *token);

/* Adds the pending token to those that are read next. */
weft_status weft__generator_join(weft_generator *g);

/* Enqueues steps after the pending token, as many as are read together. */
weft_status weft__go_ahead(weft_generator *g);

/* ---- constrained.c -------------------------------------------------------------------------- */

/* Fails if no document of the constraint is short enough. */
weft_status weft__check_room(const weft_generator *g);
/* What sets g->limit, for messages. */
const char *weft__limit_name(const weft_generator *g);

/* Sets `allowed`, on that device, to the tokens that the constraint allows; sets must_end if there
 * are none. */
weft_status weft__allow(weft_generator *g, weft_device *device);

/* Enqueues the draw from `logits` among the tokens that the constraint allows; sets must_end if
 * there are none. */
weft_status weft__draw_constrained(weft_generator *g);

#endif
