/* weft/generate.h -- sampling from logits, and generating text token by token.
 *
 *     static bool show(void *context, const weft_generated *token)
 *     {
 *         fwrite(token->text, 1, token->length, stdout);
 *         return true;
 *     }
 *     ...
 *     weft_generate_options options = {.sampler = {.temperature = 0.7}, .max_tokens = 100};
 *     status = weft_generate(model, tokenizer, ids, n_ids, &options, show, NULL, NULL);
 */
#ifndef WEFT_GENERATE_H
#define WEFT_GENERATE_H

#include "weft/cancel.h"
#include "weft/constrain.h"
#include "weft/model.h"
#include "weft/probe.h"
#include "weft/prompt_cache.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sampling ------------------------------------------------------------------------------- */

/* The order of top-p and top-k, when both are set: the second sees only the tokens that the first
 * kept, with probabilities normalized again. min-p compares with the largest probability, so it
 * does not depend on the order. */
typedef enum weft_sampler_order {
    WEFT_SAMPLER_TOP_P_FIRST = 0, /* top-p over the whole vocabulary, then top-k */
    WEFT_SAMPLER_TOP_K_FIRST      /* top-k, then top-p over those k tokens, as in transformers */
} weft_sampler_order;

/* Sampling options. They apply in the order of the fields (`order` decides between top-p and
 * top-k), then a token is drawn. All zero: greedy. */
typedef struct weft_sampler_options {
    /* Added to the logits of n_bias tokens; -INFINITY excludes a token. */
    const int32_t *bias_ids;
    const float *bias_values;
    int n_bias;
    const int32_t *suppress; /* n_suppress tokens that are never drawn */
    int n_suppress;
    /* Divides the positive logits and multiplies the negative logits of tokens that occurred before
     * (Keskar et al. 2019). 0 or 1: off. */
    double repetition_penalty;
    double presence_penalty;  /* subtracted from the logits of tokens that occurred before */
    double frequency_penalty; /* subtracted once per occurrence */
    /* Divides the logits. 0: greedy, whatever is set below. */
    double temperature;
    /* Keep the fewest tokens whose probabilities add up to this (Holtzman et al. 2020). 0 or 1:
     * off. */
    double top_p;
    int64_t top_k; /* keep the k most probable tokens; 0: off */
    weft_sampler_order order;
    /* Keep tokens with at least this fraction of the largest probability. 0: off. */
    double min_p;
    /* Exclude top choices ("XTC", P. Weidmann 2024): with probability xtc_probability, a draw
     * excludes all remaining tokens with a probability of at least xtc_threshold except the least
     * probable of them. The n_xtc_keep tokens, such as newline and EOS, are never excluded.
     * Probability 0: off. */
    double xtc_probability, xtc_threshold;
    const int32_t *xtc_keep;
    int n_xtc_keep;
} weft_sampler_options;

/* The inputs of a draw besides the logits (B, V); each may be NULL. */
typedef struct weft_sampler_inputs {
    weft_array *seen; /* (B, V): how often each token occurred, for the penalties; NULL: never */
    /* bool (B, V) or (V): the allowed tokens, applied before all other steps; NULL: all */
    weft_array *allowed;
    /* That of weft_random_categorical, also (B, 2), one for each row, without XTC; ignored at
     * temperature 0. */
    weft_array *key;
} weft_sampler_inputs;

/* Applies all sampling steps to logits (B, V) of any float dtype: float32 (B, V), -inf for excluded
 * tokens. Tokens that tie with the last kept one are kept. NULL inputs: all NULL; NULL options: all
 * zero. Options out of range and ids outside the vocabulary give an error array. */
WEFT_API weft_array *weft_sampler_logits(weft_array *logits, const weft_sampler_inputs *inputs,
                                         const weft_sampler_options *options);

/* Draws a token for each row of logits (B, V): int32 (B). NULL as above, so greedy by default. A
 * row with NaN or +infinity gives -1, which makes generation fail. */
WEFT_API weft_array *weft_sampler_draw(weft_array *logits, const weft_sampler_inputs *inputs,
                                       const weft_sampler_options *options);

/* ---- Generation ----------------------------------------------------------------------------- */

enum { WEFT_TOP_LOGPROBS = 20 };

typedef struct weft_generate_options {
    weft_sampler_options sampler;
    uint64_t seed;

    /* When generation ends. */
    int64_t max_tokens;  /* 0: 256; below 0: none */
    bool ignore_eos;     /* continue after a token that ends the sequence */
    const int32_t *stop; /* further tokens that end the sequence */
    int n_stop;
    /* Stop texts, which may begin and end within a token; of several that end at the same position
     * the longest counts. The output excludes the stop text unless include_stop_text; text that may
     * become one is held back until decided. weft_generator_next ignores them. */
    const char *const *stop_texts;
    int n_stop_texts;
    bool include_stop_text;
    double timeout;            /* seconds from the first request for a token; 0: none */
    const weft_cancel *cancel; /* borrowed; checked, like the timeout, before every token and every
                                  chunk of the prompt; may be NULL */
    /* Borrowed: the output conforms to it and ends only where its document may end, or at
     * max_tokens. Generation starts from its current state and advances it. May be NULL. */
    weft_constraint *constraint;

    /* How it is computed. */
    int64_t prefill; /* prompt tokens computed at a time; 0: 512 */
    /* The number of steps that are enqueued, and then read, together. Steps past the end of the
     * sequence are discarded. With a constraint or no_cache each step waits for the previous token,
     * so this is ignored. 0: 1. */
    int64_t tokens_per_eval;
    const weft_probe *probe; /* borrowed: receives events, with tokens_per_eval 1; may be NULL */
    bool logprobs;           /* also compute each token's log-probability */
    /* With logprobs: also those of so many of the most probable tokens, at most
     * WEFT_TOP_LOGPROBS. WEFT_UNSUPPORTED with speculative decoding. */
    int64_t top_logprobs;
    /* With logprobs: those of logits divided by the sampler's temperature. Ignored at temperature 0
     * and with speculative decoding. */
    bool scaled_logprobs;
    weft_cache_options cache; /* options of the KV caches (weft/cache.h) */
    /* Speculative decoding (Leviathan et al. 2023): `draft` (borrowed), a smaller model with the
     * same vocabulary, proposes draft_tokens (0: 4) tokens, which the model verifies in one step.
     * Greedy tokens are the same as without; sampled tokens have the same distribution. Instead of
     * a draft, ngram > 0 proposes what followed the previous occurrence of the last `ngram` tokens.
     * WEFT_UNSUPPORTED with a constraint, a probe or recurrent layers; ignores tokens_per_eval. */
    weft_model *draft;
    int64_t draft_tokens, ngram;
    /* Borrowed: supplies the KV cache of a known prefix of the prompt, and receives that of the
     * sequence when the generator is freed; in weft_generate_batch, for sequences computed
     * together, only that of the prompt (weft/prompt_cache.h). May be NULL. */
    weft_prompt_cache *prompt_cache;
    /* Context shift in weft_generate: when no positions are left, or the prompt is too long,
     * continue from position 0 with a prompt of the first cache.sink_tokens tokens (0: 4; below 0:
     * none) and the last tokens of the sequence, which fill half of the remaining positions. Seeds
     * continue with seed + 1 and so on; penalties count the new prompt. WEFT_UNSUPPORTED with a
     * constraint. Without it, and in a weft_generator, the sequence ends with
     * WEFT_FINISH_POSITIONS. */
    bool shift;
    int64_t positions; /* use only so many of the model's positions; 0: all */
    bool no_cache;     /* recompute the whole sequence for every token: slow, for comparison */
    bool keep_special; /* weft_generate's text includes special tokens, such as a model's markup */
    /* Do not compile decoding steps (weft/compile.h). By default they are compiled where the model,
     * its caches and weft_compile_enabled allow and enough steps follow; changes of the parameters
     * after the second token then have no effect. */
    bool no_compile;
} weft_generate_options;

/* Sets the sampler options that the checkpoint's generation_config.json defines: temperature (0 if
 * do_sample is false; 1 if it is true without a temperature), top_p, top_k, min_p,
 * repetition_penalty, xtc_probability, xtc_threshold and suppress_tokens (owned by the model). A
 * GGUF file defines them in its metadata: general.sampling.* (temp, top_p, top_k, min_p, xtc_*,
 * penalty_repeat unless penalty_last_n is 0) and tokenizer.ggml.suppress_tokens.
 *
 * If top_k, top_p or min_p is set, `order` becomes WEFT_SAMPLER_TOP_K_FIRST, for which these values
 * were chosen. Options that the checkpoint does not define are unchanged. */
WEFT_API void weft_model_generation_defaults(const weft_model *model,
                                             weft_generate_options *options);

typedef enum weft_finish {
    WEFT_FINISH_NONE = 0,  /* not finished */
    WEFT_FINISH_STOP,      /* the end of the sequence */
    WEFT_FINISH_LENGTH,    /* max_tokens or the positions are used up */
    WEFT_FINISH_CANCELLED, /* cancelled by the caller */
    WEFT_FINISH_DEADLINE,  /* the timeout */
    WEFT_FINISH_ERROR      /* a failure, which was returned */
} weft_finish;

/* The exact cause. */
typedef enum weft_finish_detail {
    WEFT_FINISH_DETAIL_NONE = 0,
    WEFT_FINISH_EOS,       /* stop: an EOS token of the model */
    WEFT_FINISH_TOKEN,     /* stop: a token of options.stop */
    WEFT_FINISH_TEXT,      /* stop: a text of options.stop_texts */
    WEFT_FINISH_DOCUMENT,  /* stop: the constraint's document is complete */
    WEFT_FINISH_MAX,       /* length: max_tokens */
    WEFT_FINISH_POSITIONS, /* length: the model has no more positions */
    WEFT_FINISH_CALLBACK   /* cancelled: by the callback, not by options.cancel */
} weft_finish_detail;

/* "none", "stop", "length", "cancelled", "deadline", "error". */
WEFT_API const char *weft_finish_name(weft_finish reason);
/* "", "eos", "token", "text", "document", "max_tokens", "positions", "callback". */
WEFT_API const char *weft_finish_detail_name(weft_finish_detail detail);

/* Statistics of a generation. Seconds are wall-clock time; those of the first token include the
 * prompt. */
typedef struct weft_generate_stats {
    weft_finish reason;
    weft_finish_detail detail;
    int64_t prompt_tokens;
    int64_t cached_tokens;      /* prompt tokens taken from the prompt cache */
    int64_t tokens;             /* generated, without the one that ended the sequence */
    double first_token_seconds; /* from the start to the first token */
    double decode_seconds;      /* from the first token to the last */
    double prompt_per_second;   /* computed prompt tokens / first_token_seconds */
    double decode_per_second;   /* tokens after the first / decode_seconds; 0 without any */
    int64_t peak_memory;        /* as weft_train_report.peak_memory */
    int64_t drafted, accepted;  /* tokens that were proposed, and accepted */
    int64_t shifts;             /* number of context shifts */
    int64_t compiles;           /* of the decoding step, one per cache size; 0: not compiled */
    int stop_text;              /* detail TEXT: the number of that text, from 0 */
} weft_generate_stats;

/* One sequence that is being generated. It borrows the model. */
typedef struct weft_generator weft_generator;

/* Creates a generator in *out; free it with weft_generator_free. Copies the options and computes
 * nothing yet. WEFT_INVALID for a prompt that is empty, has ids outside the vocabulary or is longer
 * than the model's positions, and for options out of range; WEFT_UNSUPPORTED for combinations of
 * options that their comments exclude. */
WEFT_NODISCARD WEFT_API weft_status weft_generator_new(weft_model *model, const int32_t *prompt,
                                                       size_t n,
                                                       const weft_generate_options *options,
                                                       weft_generator **out) WEFT_NONNULL(5);

/* Sets *id to the next token, or to -1 at the end (weft_generator_stats has the reason). *logprob
 * (may be NULL) is log softmax(logits)[id] before any sampling step; 0 without the option. The next
 * token is computed in the background meanwhile. WEFT_INVALID for logits with NaN or infinity;
 * other failures are those of weft_eval. After a failure there are no more tokens. */
WEFT_NODISCARD WEFT_API weft_status weft_generator_next(weft_generator *generator, int32_t *id,
                                                        double *logprob) WEFT_NONNULL(1, 2);

/* Statistics so far. */
WEFT_API weft_generate_stats weft_generator_stats(const weft_generator *generator) WEFT_NONNULL(1);

WEFT_API void weft_generator_free(weft_generator *generator); /* NULL is accepted */

/* A token and its log-probability, before any sampling step. */
typedef struct weft_top_logprob {
    int32_t id;
    float logprob;
} weft_top_logprob;

/* A token for the callback, valid until it returns. `text`, NUL-terminated, is what the token
 * completes: often empty, never part of a character. A call with id -1 delivers text of earlier
 * tokens that was held back. With stop texts a token is delivered together with its text, so tokens
 * that belong entirely to the stop text are not delivered. */
typedef struct weft_generated {
    int32_t id;
    const char *text;
    size_t length;
    double logprob;
    const weft_top_logprob *top; /* n_top of them, the most probable token first */
    int n_top;                   /* options.top_logprobs, or the size of a smaller vocabulary */
} weft_generated;

/* Return false to stop. */
typedef bool weft_generate_fn(void *context, const weft_generated *token);

/* Generates from a prompt of n ids and calls `callback` for every token. Without a tokenizer (NULL)
 * texts are empty. `stats` may be NULL; it is also filled on failure. Fails as weft_generator_new
 * and weft_generator_next. */
WEFT_NODISCARD WEFT_API weft_status weft_generate(weft_model *model,
                                                  const weft_tokenizer *tokenizer,
                                                  const int32_t *prompt, size_t n,
                                                  const weft_generate_options *options,
                                                  weft_generate_fn *callback, void *context,
                                                  weft_generate_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
