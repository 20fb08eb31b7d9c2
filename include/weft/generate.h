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

/* The order of top-p and top-k. It matters when both are set: the second one sees only the tokens
 * that the first one kept, with their probabilities scaled to add up to 1. min-p compares with the
 * largest probability and is the same in either order. */
typedef enum weft_sampler_order {
    WEFT_SAMPLER_TOP_P_FIRST = 0, /* top-p over the whole vocabulary, then top-k */
    WEFT_SAMPLER_TOP_K_FIRST      /* top-k, then top-p over those k tokens, as in transformers */
} weft_sampler_order;

/* How a token is drawn. The steps are applied in the order of the fields (`order` chooses between
 * top-p and top-k), then a token is drawn. All zero: greedy. */
typedef struct weft_sampler_options {
    /* Added to the logits of n_bias tokens; -INFINITY: never that token. */
    const int32_t *bias_ids;
    const float *bias_values;
    int n_bias;
    const int32_t *suppress; /* n_suppress tokens that are never drawn */
    int n_suppress;
    /* A token that occurred before has its logit divided by this if it is positive, else multiplied
     * (Keskar et al. 2019). 0 or 1: off. */
    double repetition_penalty;
    double presence_penalty;  /* subtracted from the logit of a token that occurred before */
    double frequency_penalty; /* subtracted as often as the token occurred */
    /* Logits are divided by it. 0: the token with the largest logit, whatever is set below. */
    double temperature;
    /* The fewest tokens whose probability adds up to this (Holtzman et al. 2020). 0 or 1: off. */
    double top_p;
    int64_t top_k; /* the k most probable tokens; 0: off */
    weft_sampler_order order;
    /* Tokens with at least this share of the largest probability. 0: off. */
    double min_p;
    /* Exclude top choices ("XTC", P. Weidmann 2024): with this probability a draw leaves out all
     * tokens whose probability among those that are left is at least xtc_threshold, but for the
     * least probable of them. n_xtc_keep tokens (ends of lines and of the text, for instance) are
     * never left out. Probability 0: off. */
    double xtc_probability, xtc_threshold;
    const int32_t *xtc_keep;
    int n_xtc_keep;
} weft_sampler_options;

/* What a draw depends on besides the logits (B, V); each may be NULL. */
typedef struct weft_sampler_inputs {
    weft_array *seen; /* (B, V): how often each token occurred, for the penalties; NULL: never */
    /* bool (B, V) or (V): no other token is drawn, before all other steps; NULL: all are allowed */
    weft_array *allowed;
    weft_array *key; /* as for weft_random_categorical; no meaning at temperature 0 */
} weft_sampler_inputs;

/* What a draw is made from: logits (B, V) after all steps, float32 (B, V), -inf for tokens that
 * were cut off. Tokens that tie with the last one that stays also stay. NULL inputs: all NULL; NULL
 * options: all zero. Numbers out of range and ids that are not in the vocabulary make an error
 * array.
 */
WEFT_API weft_array *weft_sampler_logits(weft_array *logits, const weft_sampler_inputs *inputs,
                                         const weft_sampler_options *options);

/* Draws a token for each row of logits (B, V): int32 (B). NULL as above: greedy. -1 for a row with
 * NaN or +infinity, from which no token can be drawn; generation fails there. */
WEFT_API weft_array *weft_sampler_draw(weft_array *logits, const weft_sampler_inputs *inputs,
                                       const weft_sampler_options *options);

/* ---- Generation ----------------------------------------------------------------------------- */

typedef struct weft_generate_options {
    weft_sampler_options sampler;
    uint64_t seed;

    /* What ends the text. */
    int64_t max_tokens;  /* 0: 256 */
    bool ignore_eos;     /* continue after a token that ends the sequence */
    const int32_t *stop; /* further tokens that end the text */
    int n_stop;
    /* Texts that end the text, also where they begin or end in the midst of a token; of those that
     * end at the same place the longest counts. What is given ends in front of it, or behind it
     * with include_stop_text; text that may become one waits for its decision. weft_generator_next,
     * which has no texts, does not look at them. */
    const char *const *stop_texts;
    int n_stop_texts;
    bool include_stop_text;
    double timeout;            /* seconds from the first token asked for; 0: none */
    const weft_cancel *cancel; /* borrowed; looked at, as the time is, before every token and
                                  every chunk of the prompt; NULL: none */
    /* Borrowed: what is generated keeps to it, and the text ends only where its document does, or
     * with max_tokens. It is taken from where it stands, and moved on. NULL: none. */
    weft_constraint *constraint;

    /* How it is computed. */
    int64_t prefill; /* prompt tokens computed at a time; 0: 512 */
    /* Steps that are enqueued before a token is read; then so many are read at once. What was
     * computed behind the end of the text is thrown away. With a constraint or no_cache each step
     * waits for the token before, whatever is said here. 0: 1. */
    int64_t tokens_per_eval;
    const weft_probe *probe;  /* borrowed: receives events; tokens_per_eval is then 1; NULL: none */
    bool logprobs;            /* also compute each token's log-probability */
    weft_cache_options cache; /* options of the KV caches (weft/cache.h) */
    /* Speculative decoding (Leviathan et al. 2023): `draft`, a smaller model with the same
     * vocabulary (borrowed), proposes draft_tokens (0: 4) tokens at a time, and the model looks at
     * all of them in one step. Text and its distribution are those without: greedy tokens are the
     * same, drawn ones are others with the same probabilities. Instead of a draft, ngram > 0
     * proposes what followed when the text's last `ngram` tokens occurred before. Not with a
     * constraint or a probe, nor where layers keep states (WEFT_UNSUPPORTED);
     * tokens_per_eval has no meaning. */
    weft_model *draft;
    int64_t draft_tokens, ngram;
    /* Where beginnings of the prompt are looked up, and the text is left when the generator is
     * freed (weft/prompt_cache.h); borrowed. NULL: nowhere. */
    weft_prompt_cache *prompt_cache;
    /* weft_generate continues when the model has no positions left (and prompts may be longer than
     * that): the first tokens, cache.sink_tokens of them (0: 4; below 0: none), and half as many of
     * the last ones as there are positions left for are read again from position 0, as if they were
     * the prompt. Draws continue with seed + 1, + 2 and so on, and penalties count what is read
     * again. Not with a constraint (WEFT_UNSUPPORTED). Without it, and of a weft_generator in any
     * case, a text ends with WEFT_FINISH_POSITIONS. */
    bool shift;
    bool no_cache; /* compute the whole text again for every token: slow, for comparison */
    /* weft_generate's texts hold special tokens too, for those who look for a model's markup. */
    bool keep_special;
    /* Steps of one token are compiled (weft/compile.h) where model, caches and weft_compile_enabled
     * let them be and there are enough of them; the parameters are then those of the second token
     * on. This leaves them as graphs. */
    bool no_compile;
} weft_generate_options;

/* Sets what the checkpoint's generation_config.json says of the sampler: temperature (0 where
 * do_sample is false, 1 where it is true and there is none), top_p, top_k, min_p,
 * repetition_penalty, xtc_probability, xtc_threshold, suppress_tokens (the model's list). A GGUF
 * file says it in its metadata: general.sampling.* (temp, top_p, top_k, min_p, xtc_*,
 * penalty_repeat unless penalty_last_n is 0) and tokenizer.ggml.suppress_tokens. When it sets
 * top_k, top_p or min_p, `order` becomes WEFT_SAMPLER_TOP_K_FIRST, the order that these values were
 * chosen for. All else stays as it is; so does everything where there is no such file. */
WEFT_API void weft_model_generation_defaults(const weft_model *model,
                                             weft_generate_options *options);

typedef enum weft_finish {
    WEFT_FINISH_NONE = 0,
    /* not finished yet */ WEFT_FINISH_STOP, /* the end of the sequence */
    WEFT_FINISH_LENGTH,                      /* max_tokens or the positions are used up */
    WEFT_FINISH_CANCELLED,                   /* cancelled by the caller */
    WEFT_FINISH_DEADLINE,                    /* the timeout */
    WEFT_FINISH_ERROR                        /* a failure, which was returned */
} weft_finish;

/* Which of several causes it was. */
typedef enum weft_finish_detail {
    WEFT_FINISH_DETAIL_NONE = 0,
    WEFT_FINISH_EOS,       /* stop: a token with which the model ends its text */
    WEFT_FINISH_TOKEN,     /* stop: a token of options.stop */
    WEFT_FINISH_TEXT,      /* stop: a text of options.stop_texts */
    WEFT_FINISH_DOCUMENT,  /* stop: nothing can follow the constraint's document */
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
    int64_t cached_tokens;      /* of them, those that the prompt cache had */
    int64_t tokens;             /* generated, without the one that ended the text */
    double first_token_seconds; /* from the start to the first token */
    double decode_seconds;      /* from the first token to the last */
    double prompt_per_second;   /* computed ones of the prompt / first_token_seconds */
    double decode_per_second;   /* tokens after the first / decode_seconds; 0: there were none */
    int64_t peak_memory;        /* weft_memory_peak_held at the end */
    int64_t drafted, accepted;  /* tokens that were proposed, and those of them that were taken */
    int64_t shifts;             /* how often the text went on beyond the positions */
    int64_t compiles;           /* of the step of one token: one a size of the caches; 0: graphs */
} weft_generate_stats;

/* One sequence that is being generated. It borrows the model. */
typedef struct weft_generator weft_generator;

/* Creates a generator in *out; free it with weft_generator_free. The options are copied and nothing
 * is computed yet. WEFT_INVALID for a prompt that is empty, has ids outside the vocabulary or is
 * longer than the model's positions, and for options out of range; WEFT_UNSUPPORTED for
 * combinations of options that their comments exclude. */
WEFT_NODISCARD WEFT_API weft_status weft_generator_new(weft_model *model, const int32_t *prompt,
                                                       size_t n,
                                                       const weft_generate_options *options,
                                                       weft_generator **out) WEFT_NONNULL(5);

/* The next token, or *id = -1 when the text has ended (weft_generator_stats says why). `logprob`
 * (NULL allowed) is log softmax(logits)[id] before any step of the sampler; 0 without the option.
 * While this token is with the caller the next one is computed already. After a failure there are
 * no more tokens. */
WEFT_NODISCARD WEFT_API weft_status weft_generator_next(weft_generator *generator, int32_t *id,
                                                        double *logprob) WEFT_NONNULL(1, 2);

/* Why and how far the sequence was generated, so far. */
WEFT_API weft_generate_stats weft_generator_stats(const weft_generator *generator) WEFT_NONNULL(1);

WEFT_API void weft_generator_free(weft_generator *generator); /* NULL is accepted */

/* A token as the callback gets it. The text is what this token completed (often empty, never half a
 * character), NUL-terminated, valid until the callback returns. A call with id -1 brings text of
 * tokens that came before, which was held back. With stop texts, tokens come as their text does, so
 * that none of which all text is part of a stop text does. */
typedef struct weft_generated {
    int32_t id;
    const char *text;
    size_t length;
    double logprob;
} weft_generated;

/* False: stop. */
typedef bool weft_generate_fn(void *context, const weft_generated *token);

/* Generates from a prompt of n ids and calls `callback` for every token. `tokenizer` NULL: texts
 * are empty. `stats` may be NULL; it is filled also after a failure. */
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
