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
        *adapter; /* the folder of a LoRA adapter, natively as weft_adapters_load; NULL: none */
    const char *device; /* as for weft_device_get; NULL: the calling thread's default */
    /* The most tokens of a prompt and what is generated from it: longer prompts are refused,
     * generation ends with WEFT_FINISH_LENGTH. 0: the model's. */
    int64_t context;
    int64_t quantize;      /* as weft_model_options */
    weft_dtype dtype;      /* as weft_model_options */
    int64_t gpu_layers;    /* as weft_model_options */
    bool int8_activations; /* as weft_model_options */
    /* Calls that compute at the same time; 0: 1. Further ones wait, in the order in which they
     * came. Those of the native backend take turns, token by token. */
    int64_t max_concurrent;
    bool no_wait; /* further ones are refused instead, with WEFT_INVALID */
    /* Of the native backend: the most bytes of keys and values in a prompt cache of the engine's
     * own (weft/prompt_cache.h), which every generation uses whose options have no other and that
     * is not without a cache. Below 0: as many as that header says; 0: there is no prompt cache. */
    int64_t prompt_cache_bytes;

    /* Of the backends that are other programs. */
    const char *program; /* "subprocess": what is run. Else: Python, NULL: $WEFT_PYTHON, python3 */
    double answer_seconds; /* without a word from it, it is given up and ended; 0: 300 */
    double stop_seconds;   /* after a request to stop, then it is ended; 0: 10; at most the above */
} weft_engine_options;

/* Loads a model: a folder, a GGUF file, or ORG/NAME in the local cache (weft/hub.h). NULL options:
 * all zero. The message of a failure says what; *engine is then NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_load(const char *path,
                                                     const weft_engine_options *options,
                                                     weft_engine **engine) WEFT_NONNULL(3);

/* Ends all calls that are under way, as weft_engine_cancel does, refuses further ones with
 * WEFT_CANCELLED, and gives the model back when the last call has ended. Calling it again does
 * nothing. */
WEFT_API void weft_engine_close(weft_engine *engine) WEFT_NONNULL(1);

/* Closes it, waits for the calls of other threads, and frees it. Its streams must have been freed.
 * NULL is accepted. */
WEFT_API void weft_engine_free(weft_engine *engine);

/* ---- Asking --------------------------------------------------------------------------------- */

/* Strings belong to the engine. */
typedef struct weft_engine_info {
    const char *backend;
    const char *architecture; /* its model_type */
    int64_t vocab_size, n_layers, hidden_size;
    int64_t quant_bits, quant_group; /* of most quantised weights; 0: there are none */
    int64_t context_length;          /* options.context, or the model's; 0: unknown */
    bool tokenizer, chat_template;   /* whether there is one */
    /* Bytes of weights that a generated token reads: of experts those that it goes to, of an
     * embedding that is not the output head, nothing. 0: unknown. */
    int64_t weight_bytes;
} weft_engine_info;

/* Describes the engine's model. */
WEFT_API weft_engine_info weft_engine_info_of(const weft_engine *engine) WEFT_NONNULL(1);

/* The same of a model that is loaded already; backend, tokenizer and chat_template stay as they
 * are. */
WEFT_API void weft_engine_describe(weft_model *model, weft_engine_info *out) WEFT_NONNULL(2);

/* What the last call of weft_engine_generate that ended took. */
typedef struct weft_engine_metrics {
    weft_finish reason;
    weft_finish_detail detail;
    int64_t prompt_tokens, generated_tokens;
    int64_t cached_tokens;      /* of the prompt's, those that the prompt cache had */
    double first_token_seconds; /* the prompt's time is in it */
    double prefill_seconds, decode_seconds, total_seconds; /* waiting for others is in none */
    double prefill_per_second, decode_per_second;          /* tokens */
    /* Held for arrays in this process, idle buffers included, since the call began, if it was
     * alone; and in use by arrays at its end. */
    int64_t peak_memory;
    int64_t active_memory;
} weft_engine_metrics;

/* The metrics of the last finished call of weft_engine_generate. */
WEFT_API weft_engine_metrics weft_engine_metrics_of(weft_engine *engine) WEFT_NONNULL(1);

/* The message of the engine's last call that failed, in any thread; "" when none has. Valid on the
 * calling thread until it asks again. */
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

/* What is continued: one of prompt, ids and messages. */
typedef struct weft_engine_request {
    const char *prompt; /* text */
    size_t length;      /* of it; 0: up to its NUL */
    bool no_special;    /* without the special tokens that the tokenizer puts around a text */
    const int32_t *ids; /* or ids */
    size_t n_ids;
    const char *messages;          /* or a conversation, in JSON as weft_chat_render takes it */
    const weft_chat_options *chat; /* NULL: with the start of the assistant's turn */
    const weft_generate_options *options; /* NULL: all zero */
} weft_engine_request;

/* Generates as weft_generate does. WEFT_OK also when it was cancelled: metrics say why it ended. */
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

/* Reads the request's prompt into the engine's prompt cache, so that prompts that begin with it
 * start sooner: instructions that many of them share. Of the request's options only `cache` and
 * `prefill` matter. WEFT_INVALID without a prompt cache, WEFT_UNSUPPORTED where the backend has
 * none. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_warm(weft_engine *engine,
                                                     const weft_engine_request *request);

/* Ends all calls that are under way or waiting, at their next token, with WEFT_FINISH_CANCELLED.
 * From any thread, a callback too. */
WEFT_API void weft_engine_cancel(weft_engine *engine) WEFT_NONNULL(1);

/* One token for each of n texts, as weft_classify. A backend that cannot generates texts of one
 * token instead, with log-probabilities of NaN; WEFT_UNSUPPORTED when it is to give logits. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_classify(weft_engine *engine,
                                                         const char *const *texts, size_t n,
                                                         const weft_classify_options *options,
                                                         weft_classified *results);

/* Generates from n texts together, as weft_generate_batch, all with the same options (NULL: all
 * zero). WEFT_UNSUPPORTED where the backend cannot. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_batch(weft_engine *engine, const char *const *texts,
                                                      size_t n,
                                                      const weft_generate_options *options,
                                                      const weft_generate_batch_options *batch,
                                                      weft_generated_row *results);

/* The keys and queries of the request's prompt, layer by layer, as weft_inspect; its options are
 * not looked at. Another program may leave queries out (NULL, 0 heads), and its ids (NULL).
 * WEFT_UNSUPPORTED where the backend cannot. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_inspect(weft_engine *engine,
                                                        const weft_engine_request *request,
                                                        weft_inspection **out) WEFT_NONNULL(3);

/* ---- Training ------------------------------------------------------------------------------- */

/* A fine-tuning of the engine's model. Zero is what is said here, else the default of the struct
 * that the field is in. */
typedef struct weft_engine_train_options {
    const char *data;       /* as weft_dataset_load takes it */
    const char *validation; /* the same, for validation; NULL: none but the share of `split` */
    double split;           /* share of `data` that validates, in [0, 1); without `validation` */
    weft_dataset_options dataset; /* chat, NULL: the engine's template; examples: the objective's */
    int64_t batch_size;           /* as weft_batches_new */
    bool pack;                    /* as weft_batches_new_packed */
    weft_nn_lora_options lora;    /* targets, NULL: WEFT_LORA_ALL_LINEAR; drawn by trainer.seed */
    /* callback, cancel and folder are given here; lr, 0: WEFT_LORA_LEARNING_RATE; base_name and
     * data_name, NULL: the engine's path and `data`. `data` is set by the call. */
    weft_trainer_options trainer;
    const char *out; /* a folder that gets the adapter, as weft_adapter_save writes it; NULL: none
                        besides those of trainer.folder */
} weft_engine_train_options;

/* Trains a LoRA adapter around the engine's model by a weft_trainer, which the engine computes with
 * from then on; `out` is what weft_engine_options.adapter takes. Where the model has an adapter
 * already, from weft_engine_options.adapter or an earlier call, that one is trained further, and
 * `lora` is not looked at. The engine's own prompt cache is emptied; others must not be used
 * further.
 *
 * The call computes alone: it waits until no other call computes, whatever max_concurrent is, and
 * further ones wait for its end. weft_engine_cancel and trainer.cancel stop it after the update in
 * progress, with WEFT_CANCELLED; the adapter so far stays and is written. Failures before the first
 * update leave the model as it was. `result` may be NULL. WEFT_INVALID without `data`;
 * WEFT_UNSUPPORTED where the backend cannot train, which only the native one can, and without a
 * tokenizer. Else errors are those of weft_dataset_load, weft_nn_lora_inject, weft_trainer_new and
 * weft_trainer_run. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_train(weft_engine *engine,
                                                      const weft_engine_train_options *options,
                                                      weft_train_result *result);

/* ---- Backends ------------------------------------------------------------------------------- */

/* A program may register its own. Functions are called from any thread, `generate` of one state by
 * as many at a time as max_concurrent says. A failure leaves its message by weft_fail. */
typedef struct weft_engine_backend {
    const char *name;
    /* WEFT_OK when it can be used here; NULL: always. */
    weft_status (*available)(void);
    weft_status (*load)(const char *path, const weft_engine_options *options, void **state);
    void (*unload)(void *state);
    /* All but `backend`; strings are the state's. */
    void (*info)(void *state, weft_engine_info *out);
    /* NULL: WEFT_UNSUPPORTED. */
    weft_status (*encode)(void *state, const char *text, size_t length, unsigned flags,
                          int32_t **ids, size_t *count);
    weft_status (*decode)(void *state, const int32_t *ids, size_t count, unsigned flags,
                          char **text, size_t *length);
    /* The request's options are never NULL. The function must stop when their `cancel` is set. */
    weft_status (*generate)(void *state, const weft_engine_request *request,
                            weft_generate_fn *callback, void *context, weft_generate_stats *stats);
    /* NULL: texts of one token are generated. */
    weft_status (*classify)(void *state, const char *const *texts, size_t n,
                            const weft_classify_options *options, weft_classified *results);
    /* NULL: WEFT_UNSUPPORTED. `batch` is never NULL. The function must stop when its `cancel` is
     * set. */
    weft_status (*batch)(void *state, const char *const *texts, size_t n,
                         const weft_generate_options *options,
                         const weft_generate_batch_options *batch, weft_generated_row *results);
    /* NULL: WEFT_UNSUPPORTED. What it gives is freed with weft_inspection_free. */
    weft_status (*inspect)(void *state, const weft_engine_request *request, weft_inspection **out);
    /* NULL: WEFT_UNSUPPORTED. The request's options are never NULL. */
    weft_status (*warm)(void *state, const weft_engine_request *request);
    /* NULL: WEFT_UNSUPPORTED. While no other call computes; The function must stop when
     * options->trainer.cancel is set; `result` is never NULL. */
    weft_status (*train)(void *state, const weft_engine_train_options *options,
                         weft_train_result *result);
} weft_engine_backend;

/* Puts a backend behind those that there are; it must outlive the process's use of it. WEFT_INVALID
 * when the name is taken. */
WEFT_NODISCARD WEFT_API weft_status weft_engine_register(const weft_engine_backend *backend)
    WEFT_NONNULL(1);
/* By name; NULL: there is none. */
WEFT_API const weft_engine_backend *weft_engine_backend_find(const char *name);
/* All, in the order in which they are tried; NULL: there are no more. */
WEFT_API const weft_engine_backend *weft_engine_backend_at(int i);

#ifdef __cplusplus
}
#endif
#endif
