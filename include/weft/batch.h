/* weft/batch.h -- batches of prompts: generation, classification, scoring, perplexity and
 * embeddings.
 *
 *     const weft_prompt prompts[] = {{first, n_first}, {second, n_second}};
 *     weft_classified results[2];
 *     status = weft_classify(model, prompts, 2, NULL, results);
 *     ...
 *     weft_classified_free(results, 2);
 *
 * Prompts of different lengths go through the model together, sorted by length and padded on the
 * right, where causality keeps every prompt from seeing what follows it. Results come in the
 * caller's order, each with its own failure. A running batch takes requests at any time.
 */
#ifndef WEFT_BATCH_H
#define WEFT_BATCH_H

#include "weft/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_prompt {
    const int32_t *ids;
    size_t n;
} weft_prompt;

/* How prompts are put together. All zero: together. Numbers differ from those of a prompt alone as
 * kernels for many rows add in another order than those for few: logits by about 1e-5 of their
 * range in float32. */
typedef struct weft_batch_options {
    /* Tokens of one forward, the padding counted; a longer prompt goes alone, in pieces of so many.
     * 0: 2,048. */
    int64_t tokens;
    /* Results are the same, to the last bit, whatever else is in the call: each prompt is computed
     * alone. */
    bool invariant;
} weft_batch_options;

/* ---- One token ------------------------------------------------------------------------------ */

typedef struct weft_classify_options {
    weft_sampler_options sampler; /* all zero: the most probable token */
    uint64_t seed;                /* prompt i draws what weft_generate draws first with seed + i */
    bool logits;                  /* results have all logits */
    weft_batch_options batch;
} weft_classify_options;

typedef struct weft_classified {
    weft_status status; /* of this prompt; not WEFT_OK: nothing below but the message is filled */
    char *message;      /* NULL after success */
    int32_t token;      /* the one after the prompt; -1 after a failure */
    double logprob;     /* log softmax(logits)[token], before any step of the sampler */
    float *logits;      /* (V), or NULL */
} weft_classified;

/* One forward over each prompt, and the token that follows it. A prompt without tokens, with ids
 * outside of the vocabulary or longer than the model's positions fails alone. `results` has room
 * for n and is filled in any case; free its insides with weft_classified_free. The status is that
 * of the options. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_classify(weft_model *model, const weft_prompt *prompts,
                                                  size_t n, const weft_classify_options *options,
                                                  weft_classified *results);

WEFT_API void weft_classified_free(weft_classified *results, size_t n); /* NULL is accepted */

/* ---- Given tokens --------------------------------------------------------------------------- */

/* A text whose tokens from `from` on (at least 1) are asked for. */
typedef struct weft_score_request {
    weft_prompt text;
    size_t from;
    /* NULL, or (text.n - from): receives log p(ids[i] | ids[0..i)) of each of these tokens. The
     * values are valid if the text's status is WEFT_OK. */
    double *logprobs;
    /* NULL, or (text.n - from, n_top): receives the n_top most probable tokens, at most
     * WEFT_TOP_LOGPROBS, at the position of each of these tokens, the most probable one first. */
    weft_top_logprob *top;
    int64_t n_top;
} weft_score_request;

typedef struct weft_scored {
    weft_status status; /* as weft_classified's */
    char *message;
    double logprob; /* the sum of log p(ids[i] | ids[0..i)) for i from `from` on; 0 for none */
    bool greedy;    /* each of these tokens is the most probable one */
} weft_scored;

/* The probability of each text's end given its beginning, as weft_classify otherwise. */
WEFT_NODISCARD WEFT_API weft_status weft_score(weft_model *model,
                                               const weft_score_request *requests, size_t n,
                                               const weft_batch_options *options,
                                               weft_scored *results);

WEFT_API void weft_scored_free(weft_scored *results, size_t n); /* NULL is accepted */

/* ---- Perplexity by chunks ------------------------------------------------------------------- */

/* Called after each batch of chunks with the result over all chunks so far. Return false to stop
 * with that result. */
typedef struct weft_perplexity weft_perplexity;
typedef bool weft_perplexity_fn(void *context, const weft_perplexity *so_far, int64_t chunks);

typedef struct weft_perplexity_options {
    int64_t context; /* tokens of a chunk, at least 4; 0: 512 */
    int64_t chunks;  /* use only the first chunks; 0: all */
    /* Replaces the first token of each chunk, as llama.cpp does if the tokenizer adds BOS. May be
     * NULL. */
    const int32_t *bos;
    weft_batch_options batch;
    weft_perplexity_fn *callback; /* NULL: none */
    void *callback_context;
} weft_perplexity_options;

struct weft_perplexity {
    double loss;        /* mean negative log-likelihood of the counted tokens, in nats */
    double perplexity;  /* exp(loss) */
    double uncertainty; /* perplexity times the standard error of the loss; 0 for one token */
    int64_t chunks, targets;
};

/* Perplexity of n ids, as computed by llama.cpp's llama-perplexity. The ids are divided into chunks
 * of C = context tokens without overlap; an incomplete last chunk is dropped. Each chunk is
 * computed separately from position 0. Counted are the tokens at positions C/2 + 1 to C - 1 of each
 * chunk (C/2 rounded down). With x_i = -log p(token i | previous tokens of its chunk) over all N
 * counted tokens,
 *
 *     loss = mean(x),   perplexity = exp(loss),
 *     uncertainty = perplexity sqrt((mean(x^2) - loss^2) / (N - 1)).
 *
 * Sums are in float64. WEFT_INVALID for fewer than one chunk of ids, a context above the model's
 * positions, and logits that are NaN or infinite. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_perplexity_chunks(weft_model *model, const int32_t *ids,
                                                           size_t n,
                                                           const weft_perplexity_options *options,
                                                           weft_perplexity *out) WEFT_NONNULL(5);

/* ---- Embeddings ----------------------------------------------------------------------------- */

/* Which of a prompt's final hidden states (L, E), the final norm applied, make its embedding. */
typedef enum weft_pooling {
    WEFT_POOLING_MEAN = 0, /* the mean over all tokens, special ones included */
    WEFT_POOLING_LAST,     /* the last token's */
    WEFT_POOLING_CLS,      /* the first token's */
    WEFT_POOLING_MAX       /* the largest of all tokens' in each dimension */
} weft_pooling;

typedef struct weft_embed_options {
    weft_pooling pooling;
    /* Applied to pooled hidden states (G, E) float32 before the normalization: (G, n). NULL: none.
     */
    weft_module *dense;
    /* Divide each embedding by its Euclidean norm, or by 1e-12 where that is larger. */
    bool normalize;
    weft_batch_options batch;
} weft_embed_options;

/* How a checkpoint of sentence-transformers makes embeddings. */
typedef struct weft_embed_settings {
    bool found; /* the folder has modules.json; otherwise all is zero */
    weft_pooling pooling;
    bool normalize;
    bool excludes_prompts; /* include_prompt: false: tokens of prompts are not pooled, which is
                            * unsupported: only texts without prompts have embeddings */
    bool chosen_length;    /* max_tokens is the caller's, not the folder's, and is saved */
    int64_t max_tokens;    /* of a text, special tokens included; further ones are cut off; 0: the
                            * model's positions */
    char *prompt;          /* precedes every text; NULL: none */
    char *query_prompt; /* the checkpoint's prompts "query", and the first of "document", "passage"
                         * and "corpus" that it has; NULL: none */
    char *passage_prompt;
    char *folder;       /* from which they were read */
    weft_module *dense; /* weft_embed_options.dense; NULL: none */
} weft_embed_settings;

/* Reads modules.json of a model's folder and the files that belong to it. `prompt` is the name of
 * one of its prompts; NULL: its default_prompt_name. A GGUF file says only the pooling: with it,
 * embeddings are normalized, as llama.cpp does. Any other path has no settings. Free them with
 * weft_embed_settings_free. WEFT_INVALID for an unknown prompt and malformed files,
 * WEFT_UNSUPPORTED for modules other than Transformer, Pooling, Dense and Normalize in this order
 * and for other kinds of pooling. */
WEFT_NODISCARD WEFT_API weft_status weft_embed_settings_load(const char *folder, const char *prompt,
                                                             weft_embed_settings *out)
    WEFT_NONNULL(1, 3);
/* Writes the settings to a folder, in the files from which they are read: with `found` copies those
 * of `folder`, and max_tokens only with `chosen_length`. The prompts for queries and passages, if
 * not NULL, are written as "query" and "document". `dimension` is the number of elements of a
 * pooled vector. */
WEFT_NODISCARD WEFT_API weft_status weft_embed_settings_save(const weft_embed_settings *settings,
                                                             int64_t dimension, const char *folder)
    WEFT_NONNULL(1, 3);
WEFT_API void weft_embed_settings_free(weft_embed_settings *settings) WEFT_NONNULL(1);

typedef struct weft_embedded {
    weft_status status; /* as weft_classified's */
    char *message;
    float *values; /* (n); NULL after a failure */
    size_t n;      /* weft_model_info's hidden_size, unless the options have a `dense` */
} weft_embedded;

/* One embedding for each prompt, as weft_classify otherwise. Pooling and norm are computed in
 * float32 or better, whatever the model's dtype. A prompt whose embedding is not finite fails
 * alone. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_embed(weft_model *model, const weft_prompt *prompts,
                                               size_t n, const weft_embed_options *options,
                                               weft_embedded *results);

WEFT_API void weft_embedded_free(weft_embedded *results, size_t n); /* NULL is accepted */

/* ---- Generation ----------------------------------------------------------------------------- */

typedef struct weft_generate_request {
    weft_prompt prompt;
    const weft_generate_options *options; /* its own, borrowed; NULL: all zero */
    /* The adapter it is computed with, of the batch's bank; borrowed until the sequence has ended.
     * NULL: none of the bank. */
    const weft_nn_lora_member *adapter;
} weft_generate_request;

typedef struct weft_generated_row {
    weft_status status; /* of this sequence; tokens before a failure are kept */
    char *message;      /* NULL after success */
    int32_t *ids;       /* the tokens generated */
    double *logprobs;   /* 0 without the option */
    size_t n;
    char *text; /* NUL-terminated; empty without a tokenizer */
    size_t length;
    weft_generate_stats stats; /* its own reason; reason cancelled and no tokens: it never began */
} weft_generated_row;

/* The callback of weft_generate, for request `index`. Return false to stop that sequence. */
typedef bool weft_generate_batch_fn(void *context, size_t index, const weft_generated *token);

/* Called when a sequence has ended or failed, with its final result. */
typedef void weft_generate_batch_ended_fn(void *context, size_t index,
                                          const weft_generated_row *row);

typedef struct weft_generate_batch_options {
    weft_batch_options batch; /* `tokens` are of prompts */
    int64_t rows;             /* sequences computed at a time; 0: 16 */
    const weft_cancel
        *cancel; /* cancels all sequences; each request may have its own. May be NULL */
    /* Called for each sequence when it ends, but not if it was cancelled, or the batch failed,
     * before it began. May be NULL. */
    weft_generate_batch_ended_fn *ended;
    void *ended_context;
    bool no_compile; /* that of weft_generate_options */
    /* The most tokens whose keys and values are held, those that sequences share counted once; 0:
     * three quarters of those that fit in memory. Prompts wait until there is room, and when it
     * runs out the youngest sequence is set back: its text is processed again later. One sequence
     * alone may be longer. */
    int64_t cache_tokens;
    /* Adapters of the model's tree, of which each request may choose one; borrowed, may be NULL.
     * Sequences with different ones share a step: the base's products are computed for all rows
     * together, then those of the adapters. While all have the same one, numbers are those of a
     * model with that adapter. A request whose adapter changes experts, and one beside it with
     * another adapter, waits until the others have ended. */
    weft_nn_lora_bank *adapters;
    /* Seconds that a step should take while sequences are generated: it processes as many tokens of
     * prompts as that leaves time for by the rate so far, but at least what takes half of it, and
     * 32. Numbers then depend on the time within rounding, as they depend on the batch. 0:
     * batch.tokens of them. */
    double latency;
} weft_generate_batch_options;

/* Generates from n prompts together: one step of all sequences reads the weights once. Each request
 * gives the tokens that weft_generate gives with its options. A sequence that ends is replaced by
 * the next one. Keys and values are in pages of 256 tokens, as many as each sequence needs; layers
 * with windows or states need those of all `rows`.
 *
 * These are computed one by one instead, in turns, with the exact logits of weft_generate; only
 * they use tokens_per_eval and prefill:
 *   - requests with a draft, a probe or no_cache, and those whose cache options differ from the
 *     ones of the sequences that are being computed together, or whose KV cache from the prompt
 *     cache was made for fewer or more tokens while memory was short;
 *   - models whose rotary embeddings depend on the length (but not if weft_model_info.renews_at is
 *     set), or with caches of their own;
 *   - everything if batch.invariant is set.
 *
 * `results` has room for n entries, all of which are filled; free them with
 * weft_generated_rows_free. The returned status covers the options and the memory of the batch;
 * failures of a sequence are in its result. `tokenizer`, `options` and `callback` may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_generate_batch(
    weft_model *model, const weft_tokenizer *tokenizer, const weft_generate_request *requests,
    size_t n, const weft_generate_batch_options *options, weft_generate_batch_fn *callback,
    void *context, weft_generated_row *results);

WEFT_API void weft_generated_rows_free(weft_generated_row *results, size_t n); /* NULL: accepted */

/* ---- Running batches ------------------------------------------------------------------------ */

/* A batch that requests enter while others are computed, for programs that receive requests over
 * time. Each advance computes a token for every sequence, as weft_generate_batch does:
 *
 *     weft_running_batch *batch;
 *     bool more = true;
 *     status = weft_running_batch_new(model, tokenizer, NULL, &batch);
 *     if (status == WEFT_OK)
 *         status = weft_running_batch_add(batch, &request, show, NULL, &result);
 *     while (status == WEFT_OK && more)
 *         status = weft_running_batch_advance(batch, &more);
 *     weft_running_batch_free(batch);
 *     ...
 *     weft_generated_rows_free(&result, 1);
 *
 * One thread at a time uses a batch and its model; cancelling may be done in any thread. */
typedef struct weft_running_batch weft_running_batch;

/* Creates an empty batch. Model and tokenizer are borrowed, and what the options point to; the
 * index for `ended` is the number of requests that were added before. WEFT_INVALID for negative
 * numbers in the options. Tokenizer and options may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_running_batch_new(
    weft_model *model, const weft_tokenizer *tokenizer, const weft_generate_batch_options *options,
    weft_running_batch **batch) WEFT_NONNULL(1, 4);

/* Adds a request, which begins with the next free row; requests begin in the order in which they
 * were added. The callback is that of weft_generate, for this request alone; NULL: none. Prompt,
 * options and `result` are borrowed until the sequence has ended: then result->stats.reason is set.
 * Before that `result` has the tokens so far. May be called in callbacks. WEFT_INVALID for an
 * adapter without a bank; otherwise fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_running_batch_add(
    weft_running_batch *batch, const weft_generate_request *request, weft_generate_fn *callback,
    void *context, weft_generated_row *result) WEFT_NONNULL(1, 2, 5);

/* Processes prompts, about options.batch.tokens tokens of them (see `latency`), and computes a
 * token for every sequence that has begun. *more: whether a sequence or a request is left; false
 * after a failure. A failure is one of the whole batch, and so of all its requests; others can be
 * added. The failure of one sequence is in its result. */
WEFT_NODISCARD WEFT_API weft_status weft_running_batch_advance(weft_running_batch *batch,
                                                               bool *more) WEFT_NONNULL(1, 2);

/* Pages of keys and values, in tokens. */
typedef struct weft_batch_cache {
    int64_t used;      /* by sequences; what several share counts once */
    int64_t allocated; /* 0: no sequence is being computed */
    int64_t most;      /* the budget; 0: it is set when the first sequence begins */
    int64_t set_back;  /* sequences that were set back so far */
} weft_batch_cache;

/* What the sequences that are computed together hold now. */
WEFT_API weft_batch_cache weft_running_batch_cache(const weft_running_batch *batch) WEFT_NONNULL(1);

/* Frees the batch. Sequences that have not ended are dropped; their results keep the tokens so far.
 * NULL is accepted. */
WEFT_API void weft_running_batch_free(weft_running_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
