/* weft/engine.h -- loading, generating and training with few calls, on several backends.
 *
 *     weft_engine *engine;
 *     status = weft_engine_load("path/or/ORG/NAME", &(weft_engine_options){.adapter = "lora"},
 *                               &engine);
 *     status = weft_engine_generate(engine, &(weft_engine_request){.prompt = "Once"}, show, NULL);
 *     weft_engine_train(engine, &(weft_engine_train_options){.data = "rows.jsonl"}, NULL);
 *     weft_engine_free(engine);
 *
 * An engine loads a model with its tokenizer and chat template, and is computed by a backend: Weft
 * itself ("native"), or another program ("transformers", "mlx-lm", "subprocess"). Its functions may
 * be called from any thread at the same time.
 */
#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

#include "weft/batch.h"
#include "weft/chat.h"
#include "weft/generate.h"
#include "weft/inspect.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_engine weft_engine;

/* ---- Loading -------------------------------------------------------------------------------- */

typedef struct weft_engine_options {
    const char *backend; /* NULL: the first of weft_engine_backend_at that can be used here */
    const char
        *adapter; /* the folder of a LoRA adapter, natively as weft_adapter_load_list; NULL: none */
    const char
        *device; /* as for weft_devices_get: the native backend spreads the layers over
                  * several (weft_model_options.devices); NULL: the calling thread's default */
    /* Positions of a sequence, as weft_generate_options.positions: longer prompts are refused, in a
     * batch the row, in weft_engine_classify the call. Generation ends with WEFT_FINISH_LENGTH
     * after the last position, of which one more token is generated, or the context shifts there
     * (weft_generate_options.shift). 0: the model's. */
    int64_t context;
    int64_t quantize;      /* as weft_model_options */
    weft_dtype dtype;      /* as weft_model_options */
    int64_t gpu_layers;    /* as weft_model_options */
    bool stream;           /* as weft_model_options; only native */
    bool int8_activations; /* as weft_model_options */
    /* Calls that compute at the same time; 0: 1. Further ones wait, in the order in which they
     * came. Those of the native backend take turns, token by token. */
    int64_t max_concurrent;
    bool no_wait; /* further ones are refused instead, with WEFT_INVALID */
    /* Native backend: the most bytes of keys and values in the engine's own prompt cache
     * (weft/prompt_cache.h). A generation uses it unless its options name another prompt cache or
     * turn the KV cache off. Below 0: the default of that header; 0: no prompt cache. */
    int64_t prompt_cache_bytes;

    /* Of the backends that are other programs. */
    const char *program; /* "subprocess": what is run. Else: Python, NULL: $WEFT_PYTHON, python3 */
    double answer_seconds; /* without a word from it, it is given up and ended; 0: 300 */
    double stop_seconds;   /* after a request to stop, then it is ended; 0: 10; below 0: at once; at
                            * most the above */
} weft_engine_options;

/* Loads a model: a folder, a GGUF file, or ORG/NAME in the local cache (weft/hub.h). NULL options:
 * all zero. The message of a failure says what; *engine is then NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_load(const char *path,
                                                     const weft_engine_options *options,
                                                     weft_engine **engine) WEFT_NONNULL(3);

/* Cancels all running calls as weft_engine_cancel does, makes later ones fail with WEFT_CANCELLED,
 * and frees the model when the last call has ended. Calling it again does nothing. */
WEFT_API void weft_engine_close(weft_engine *engine) WEFT_NONNULL(1);

/* Closes it, waits for the calls of other threads, and frees it. Its streams must have been freed.
 * NULL is accepted. */
WEFT_API void weft_engine_free(weft_engine *engine);

/* ---- Description ---------------------------------------------------------------------------- */

/* Strings belong to the engine. */
typedef struct weft_engine_info {
    const char *backend;
    const char *architecture; /* its model_type */
    int64_t vocab_size, n_layers, hidden_size;
    int64_t quant_bits, quant_group; /* of most quantized weights; 0: not quantized */
    int64_t context_length;          /* options.context, or the model's; 0: unknown */
    bool tokenizer, chat_template;   /* whether the model has one */
    /* Bytes of weights read per generated token: only the active experts, and no embedding unless
     * it is the output head. 0: unknown. */
    int64_t weight_bytes;
} weft_engine_info;

/* Describes the engine's model. */
WEFT_API weft_engine_info weft_engine_info_of(const weft_engine *engine) WEFT_NONNULL(1);

/* Describes a loaded model; does not set backend, tokenizer and chat_template. */
WEFT_API void weft_engine_describe(weft_model *model, weft_engine_info *out) WEFT_NONNULL(2);

/* Metrics of a call of weft_engine_generate. */
typedef struct weft_engine_metrics {
    weft_finish reason;
    weft_finish_detail detail;
    int64_t prompt_tokens, generated_tokens;
    int64_t cached_tokens;      /* prompt tokens taken from the prompt cache */
    double first_token_seconds; /* includes the prompt */
    double prefill_seconds, decode_seconds, total_seconds; /* without waiting for other calls */
    double prefill_per_second, decode_per_second;          /* tokens */
    /* The process's peak of array memory including idle buffers, meaningful if the call ran alone,
     * and the memory in use by arrays at its end. */
    int64_t peak_memory;
    int64_t active_memory;
} weft_engine_metrics;

/* The metrics of the last finished call of weft_engine_generate. */
WEFT_API weft_engine_metrics weft_engine_metrics_of(weft_engine *engine) WEFT_NONNULL(1);

/* The message of the engine's last failed call, in any thread, or "". Valid until the calling
 * thread calls this again. */
WEFT_API const char *weft_engine_error(weft_engine *engine) WEFT_NONNULL(1);

/* ---- Text and ids --------------------------------------------------------------------------- */

/* As weft_tokenizer_encode and weft_tokenizer_decode; WEFT_UNSUPPORTED without a tokenizer. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_encode(weft_engine *engine, const char *text,
                                                       size_t length, unsigned flags, int32_t **ids,
                                                       size_t *count) WEFT_NONNULL(1, 5, 6);
WEFT_NODISCARD WEFT_API weft_status weft_engine_decode(weft_engine *engine, const int32_t *ids,
                                                       size_t count, unsigned flags, char **text,
                                                       size_t *length) WEFT_NONNULL(1, 5);

/* ---- Generation ----------------------------------------------------------------------------- */

/* The input of a generation: one of prompt, ids and messages. */
typedef struct weft_engine_request {
    const char *prompt; /* text */
    size_t length;      /* of it; 0: up to its NUL */
    bool no_special;    /* without the special tokens that the tokenizer puts around a text */
    const int32_t *ids; /* or ids */
    size_t n_ids;
    const char *messages;                 /* or a conversation, JSON for weft_chat_render */
    const weft_chat_options *chat;        /* NULL: with the start of the assistant's turn */
    const weft_generate_options *options; /* NULL: all zero */
} weft_engine_request;

/* Generates as weft_generate, with the same failures. Returns WEFT_OK also when cancelled; the
 * metrics have the reason. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_generate(weft_engine *engine,
                                                         const weft_engine_request *request,
                                                         weft_generate_fn *callback, void *context)
    WEFT_NONNULL(2);

/* The same for a conversation, with the same failures. NULL chat and options: as in the request. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_chat(weft_engine *engine, const char *messages,
                                                     const weft_chat_options *chat,
                                                     const weft_generate_options *options,
                                                     weft_generate_fn *callback, void *context);

/* A generation from which the caller pulls tokens. Used by one thread at a time. */
typedef struct weft_engine_stream weft_engine_stream;

/* Starts a generation; free *stream with weft_engine_stream_free. Pointers in the request's options
 * must outlive the stream; the rest is copied. Failures are those of weft_engine_generate. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_stream_new(weft_engine *engine,
                                                           const weft_engine_request *request,
                                                           weft_engine_stream **stream)
    WEFT_NONNULL(2, 3);
/* Waits for the next token. Sets *more to false at the end. The token's text is valid until the
 * next call. A failure of the generation is returned. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_stream_next(weft_engine_stream *stream,
                                                            weft_generated *token, bool *more)
    WEFT_NONNULL(2, 3);
/* Cancels the generation and frees the stream. NULL is accepted. */
WEFT_API void weft_engine_stream_free(weft_engine_stream *stream);

/* Computes the request's prompt and stores it in the engine's prompt cache, for later prompts that
 * begin with it, such as shared instructions. Uses only `cache` and `prefill` of the request's
 * options. WEFT_INVALID without a prompt cache, WEFT_UNSUPPORTED if the backend does not support
 * it. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_warm(weft_engine *engine,
                                                     const weft_engine_request *request);

/* Ends all running and waiting calls at their next token with WEFT_FINISH_CANCELLED. May be called
 * from any thread and from callbacks. */
WEFT_API void weft_engine_cancel(weft_engine *engine) WEFT_NONNULL(1);

/* One token for each of n texts, as weft_classify. A backend without this function generates one
 * token per text, with log-probabilities of NaN; WEFT_UNSUPPORTED if logits are requested. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_classify(weft_engine *engine,
                                                         const char *const *texts, size_t n,
                                                         const weft_classify_options *options,
                                                         weft_classified *results);

/* Generates from n texts together, as weft_generate_batch, all with the same options (NULL: all
 * zero). WEFT_UNSUPPORTED if the backend does not support it. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_batch(weft_engine *engine, const char *const *texts,
                                                      size_t n,
                                                      const weft_generate_options *options,
                                                      const weft_generate_batch_options *batch,
                                                      weft_generated_row *results);

/* The keys and queries of each layer for the request's prompt, as weft_inspect; the request's
 * options are ignored. A backend that is another program may omit queries (NULL, 0 heads) and ids
 * (NULL). WEFT_UNSUPPORTED if the backend does not support it. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_inspect(weft_engine *engine,
                                                        const weft_engine_request *request,
                                                        weft_inspection **out) WEFT_NONNULL(3);

/* ---- Training ------------------------------------------------------------------------------- */

/* Options of a fine-tuning. Zero means the default given here, else that of the nested struct. */
typedef struct weft_engine_train_options {
    const char *data;       /* training data, for weft_dataset_load */
    const char *validation; /* validation data; may be NULL */
    double split; /* without `validation`: the share of `data` for validation, in [0, 1) */
    weft_dataset_options dataset; /* chat, NULL: the engine's template; examples: the objective's */
    int64_t batch_size;           /* as weft_batches_new */
    bool pack;                    /* as weft_batches_new_packed */
    weft_nn_lora_options lora;    /* targets, NULL: WEFT_LORA_ALL_LINEAR; drawn by trainer.seed */
    /* callback, cancel and folder are given here; lr, 0: WEFT_LORA_LEARNING_RATE; base_name and
     * data_name, NULL: the engine's path and `data`. `data` is set by the call. */
    weft_trainer_options trainer;
    const char *out; /* a folder for the adapter (weft_adapter_save); NULL: only those of
                        trainer.folder are written */
} weft_engine_train_options;

/* Trains a LoRA adapter of the engine's model with a weft_trainer; the engine uses it from then on.
 * If the model has an adapter already, from weft_engine_options.adapter or an earlier call, that
 * one is trained further and `lora` is ignored. The engine's own prompt cache is cleared; other
 * prompt caches must not be used any more. `out` can be passed as weft_engine_options.adapter.
 * `result` may be NULL.
 *
 * The call runs exclusively: it waits for running calls, and later calls wait for it.
 * weft_engine_cancel and trainer.cancel stop it after the current update with WEFT_CANCELLED; the
 * adapter so far is used and written. A failure before the first update leaves the model unchanged.
 * WEFT_INVALID without `data`; WEFT_UNSUPPORTED without a tokenizer and for backends other than the
 * native one; otherwise fails as weft_dataset_load, weft_nn_lora_inject, weft_trainer_new and
 * weft_trainer_run. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_train(weft_engine *engine,
                                                      const weft_engine_train_options *options,
                                                      weft_train_result *result);

/* Replaces the adapters of the engine's model: `adapter` is as weft_engine_options.adapter, NULL
 * removes them. The engine keeps its tokenizer and chat template. The call runs exclusively, as
 * weft_engine_train does. On a failure the previous adapters stay. Fails as
 * weft_adapter_replace_list; WEFT_UNSUPPORTED for backends other than the native one. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_adapt(weft_engine *engine, const char *adapter)
    WEFT_NONNULL(1);

/* ---- Backends ------------------------------------------------------------------------------- */

/* A backend; programs may register their own. Functions are called from any thread, `generate` of
 * one state by up to max_concurrent threads at a time. Report failures with weft_fail. */
typedef struct weft_engine_backend {
    const char *name;
    /* WEFT_OK if it can be used on this machine; NULL: always. */
    weft_status (*available)(void);
    weft_status (*load)(const char *path, const weft_engine_options *options, void **state);
    void (*unload)(void *state);
    /* Sets everything but `backend`; strings belong to the state. */
    void (*info)(void *state, weft_engine_info *out);
    /* NULL: WEFT_UNSUPPORTED. */
    weft_status (*encode)(void *state, const char *text, size_t length, unsigned flags,
                          int32_t **ids, size_t *count);
    weft_status (*decode)(void *state, const int32_t *ids, size_t count, unsigned flags,
                          char **text, size_t *length);
    /* The request's options are never NULL. The function must stop when their `cancel` is set. */
    weft_status (*generate)(void *state, const weft_engine_request *request,
                            weft_generate_fn *callback, void *context, weft_generate_stats *stats);
    /* NULL: one token is generated per text. */
    weft_status (*classify)(void *state, const char *const *texts, size_t n,
                            const weft_classify_options *options, weft_classified *results);
    /* NULL: WEFT_UNSUPPORTED. `batch` is never NULL. The function must stop when its `cancel` is
     * set. */
    weft_status (*batch)(void *state, const char *const *texts, size_t n,
                         const weft_generate_options *options,
                         const weft_generate_batch_options *batch, weft_generated_row *results);
    /* NULL: WEFT_UNSUPPORTED. *out is freed with weft_inspection_free. */
    weft_status (*inspect)(void *state, const weft_engine_request *request, weft_inspection **out);
    /* NULL: WEFT_UNSUPPORTED. The request's options are never NULL. */
    weft_status (*warm)(void *state, const weft_engine_request *request);
    /* NULL: WEFT_UNSUPPORTED. No other call computes meanwhile. The function must stop when
     * options->trainer.cancel is set. `result` is never NULL. */
    weft_status (*train)(void *state, const weft_engine_train_options *options,
                         weft_train_result *result);
    /* NULL: WEFT_UNSUPPORTED. No other call computes meanwhile. */
    weft_status (*adapt)(void *state, const char *adapter);
} weft_engine_backend;

/* Appends a backend to the list; it must not be freed. WEFT_INVALID if the name is taken. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_register(const weft_engine_backend *backend)
    WEFT_NONNULL(1);
/* The backend with that name, or NULL. "mlx_lm" is another name of "mlx-lm". */
WEFT_API const weft_engine_backend *weft_engine_backend_find(const char *name);
/* The backend with index i, in the order in which they are tried; NULL past the last. */
WEFT_API const weft_engine_backend *weft_engine_backend_at(int i);

#ifdef __cplusplus
}
#endif
#endif
