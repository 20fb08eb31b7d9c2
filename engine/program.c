/* engine/program.c -- backends that are other programs, with a protocol of one JSON object per
 * line. The programs are the embedded bridge, run by Python with transformers or mlx-lm, or any
 * other that implements the protocol. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/child.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/options.h"
#include "engine/engine.h"
#include "engine/program.h"
#include "weft/memory.h"

enum { SECONDS = 300, STOP_SECONDS = 10 };

typedef struct program {
    const char *name; /* of the backend */
    weft__child *child;
    double seconds;            /* time limit for an answer, after which it is killed */
    double stop_seconds;       /* time limit after a stop request, after which it is killed */
    weft_tokenizer *tokenizer; /* the checkpoint's, for encode and decode; NULL: none */
    char *architecture;
    weft_engine_info info;
} program;

/* ---- answers -------------------------------------------------------------------------------- */

/* Receives the next object. An "error" object is a failure with its message, after which the
 * program continues; a line that is not an object ends the program. */
static weft_status receive(program *p, weft__child_idle *idle, void *context, weft__json_doc *doc)
{
    const char *line, *error = NULL;
    size_t n;
    *doc = (weft__json_doc){0};
    weft_status status = weft__child_receive(p->child, idle, context, &line, &n);
    if (status != WEFT_OK)
        return status;
    if (weft__json_parse(line, n, p->name, doc) != WEFT_OK ||
        !json_object_is_type(doc->root, json_type_object)) {
        weft__json_free(doc);
        return weft__child_give_up(p->child, WEFT_INVALID,
                                   "expected a JSON object, got the line '%s'",
                                   weft_printable(line));
    }
    const weft__json root = weft__json_root(doc);
    if (weft__json_find_string(&root, "error", &error) == WEFT_OK && error != NULL)
        status = weft_fail(WEFT_IO, "%s: %.900s", p->name, error);
    if (status != WEFT_OK)
        weft__json_free(doc);
    return status;
}

static weft_status send_line(program *p, weft__child_idle *idle, void *context, weft__text *line)
{
    const weft_status status = line->failed
                                   ? weft__out_of_memory(p->name, NULL)
                                   : weft__child_send(p->child, idle, context, line->at, line->n);
    weft_free(line->at);
    return status;
}

/* ---- loading -------------------------------------------------------------------------------- */

static void program_unload(void *state)
{
    program *p = state;
    weft__child_end(p->child, "{\"cmd\": \"quit\"}");
    weft_tokenizer_free(p->tokenizer);
    weft_free(p->architecture);
    weft_free(p);
}

static weft_status ask_load(program *p, const char *path, const weft_engine_options *o)
{
    if (o->stream)
        return weft_fail(WEFT_UNSUPPORTED, "engine: stream: only the native backend has it");
    weft__text line = {0};
    weft__json_doc doc;
    bool ok = false;
    weft__text_format(&line, "{\"cmd\": \"load\"");
    weft__program_add_text(&line, "path", path);
    weft__program_add_text(&line, "adapter_path", o->adapter);
    weft__program_add_text(&line, "device", o->device);
    weft__program_add_text(&line, "dtype", o->dtype != 0 ? weft_dtype_name(o->dtype) : NULL);
    weft__text_format(&line,
                      ", \"context_len\": %lld, \"gpu_layers\": %lld, "
                      "\"parallel_slots\": 1}",
                      (long long)o->context,
                      o->gpu_layers == 0 ? -1LL
                                         : (long long)(o->gpu_layers > 0 ? o->gpu_layers : 0));
    weft_status status = send_line(p, NULL, NULL, &line);
    if (status == WEFT_OK)
        status = receive(p, NULL, NULL, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    if (weft__json_find_bool(&root, "ok", &ok) != WEFT_OK || !ok)
        status = weft__child_give_up(p->child, WEFT_INVALID, "load: expected \"ok\": true");
    weft__json_free(&doc);
    return status;
}

static weft_status read_info(program *p, const weft__json *at)
{
    const char *architecture = NULL;
    weft_engine_info *i = &p->info;
    weft_status status = weft__json_find_string(at, "architecture", &architecture);
    if (status == WEFT_OK && architecture == NULL)
        status = weft__json_find_string(at, "model_type", &architecture);
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {{"vocab_size", &i->vocab_size},   {"layers", &i->n_layers},
                   {"hidden_size", &i->hidden_size}, {"context_len", &i->context_length},
                   {"quant_bits", &i->quant_bits},   {"quant_group", &i->quant_group}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers && status == WEFT_OK; k++)
        status = weft__json_find_int(at, numbers[k].key, numbers[k].to);
    if (status == WEFT_OK)
        status = weft__json_find_bool(at, "chat_template", &i->chat_template);
    if (status != WEFT_OK)
        return status;
    p->architecture = weft_strdup(architecture != NULL ? architecture : "");
    return p->architecture != NULL ? WEFT_OK : weft__out_of_memory(p->name, NULL);
}

static weft_status ask_info(program *p)
{
    static const char line[] = "{\"cmd\": \"info\"}";
    weft__json_doc doc;
    weft_status status = weft__child_send(p->child, NULL, NULL, line, sizeof line - 1);
    if (status == WEFT_OK)
        status = receive(p, NULL, NULL, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = read_info(p, &root);
    weft__json_free(&doc);
    return status;
}

static weft_status check_options(const char *name, const weft_engine_options *o)
{
    if (o->quantize != 0)
        return weft_fail(WEFT_UNSUPPORTED, "engine: the backend '%s' does not quantize",
                         weft_printable(name));
    if (o->int8_activations)
        return weft_fail(WEFT_UNSUPPORTED,
                         "engine: the backend '%s' has no option for 8-bit activations",
                         weft_printable(name));
    if (o->max_concurrent > 1)
        return weft_fail(WEFT_UNSUPPORTED,
                         "engine: the backend '%s' computes one call at a time: "
                         "max_concurrent: expected 1, got %lld",
                         weft_printable(name), (long long)o->max_concurrent);
    return WEFT_OK;
}

static weft_status load(const char *name, const char *const *argv, const char *path,
                        const weft_engine_options *o, void **state)
{
    weft_status status = check_options(name, o);
    if (status != WEFT_OK)
        return status;
    program *p = weft_calloc(1, sizeof *p);
    if (p == NULL)
        return weft__out_of_memory(path, NULL);
    p->name = name;
    p->seconds = o->answer_seconds > 0 ? o->answer_seconds : (double)SECONDS;
    p->stop_seconds = weft__or_default(o->stop_seconds, STOP_SECONDS);
    if (p->stop_seconds > p->seconds)
        p->stop_seconds = p->seconds;
    status = weft__child_start(argv, name, p->seconds, &p->child);
    if (status == WEFT_OK)
        status = ask_load(p, path, o);
    if (status == WEFT_OK)
        status = ask_info(p);
    if (status != WEFT_OK) {
        char *message = weft_strdup(weft_error_message()); /* ending it may overwrite the message */
        program_unload(p);
        status = weft_fail(status, "%s", message != NULL ? message : "no memory");
        weft_free(message);
        return status;
    }
    if (weft_adapter_tokenizer(path, o->adapter, &p->tokenizer) != WEFT_OK)
        p->tokenizer = NULL;
    *state = p;
    return WEFT_OK;
}

static void program_info(void *state, weft_engine_info *out)
{
    const program *p = state;
    *out = p->info;
    out->architecture = p->architecture;
    out->tokenizer = p->tokenizer != NULL;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static weft_status no_tokenizer(const program *p)
{
    return weft_fail(WEFT_UNSUPPORTED,
                     "engine: the backend '%s' gives no ids, and the model has "
                     "no tokenizer that Weft reads",
                     p->name);
}

static weft_status program_encode(void *state, const char *text, size_t length, unsigned flags,
                                  int32_t **ids, size_t *n)
{
    const program *p = state;
    return p->tokenizer != NULL ? weft_tokenizer_encode(p->tokenizer, text, length, flags, ids, n)
                                : no_tokenizer(p);
}

static weft_status program_decode(void *state, const int32_t *ids, size_t n, unsigned flags,
                                  char **text, size_t *length)
{
    const program *p = state;
    return p->tokenizer != NULL ? weft_tokenizer_decode(p->tokenizer, ids, n, flags, text, length)
                                : no_tokenizer(p);
}

/* ---- generation ----------------------------------------------------------------------------- */

typedef struct answering {
    program *p;
    const weft_generate_options *options;
    weft_generate_fn *callback;
    void *context;
    weft_generate_stats *stats;
    double start, first, last;
    int64_t texts; /* tokens that came without an id */
    bool reported; /* whether and when the cancellation was sent */
    double when;
    bool done;
} answering;

static weft_status check_stopping(const answering *a)
{
    if (a->when == 0 || weft__seconds() - a->when <= a->p->stop_seconds)
        return WEFT_OK;
    return weft__child_give_up(a->p->child, WEFT_IO,
                               "the program did not stop for %g seconds and was ended",
                               a->p->stop_seconds);
}

static bool is_cancelled(const answering *a)
{
    return a->options->cancel != NULL && weft_cancel_is_set(a->options->cancel);
}

static bool is_late(const answering *a)
{
    return a->options->timeout > 0 && weft__seconds() - a->start > a->options->timeout;
}

/* Asks the program to stop, once, and records the reason. */
static weft_status stop(answering *a, weft_finish reason, weft_finish_detail detail)
{
    static const char line[] = "{\"cmd\": \"cancel\"}";
    if (a->reported)
        return WEFT_OK;
    a->reported = true;
    a->when = weft__seconds();
    a->stats->reason = reason;
    a->stats->detail = detail;
    return weft__child_send(a->p->child, NULL, NULL, line, sizeof line - 1);
}

static weft_status look(void *context)
{
    answering *a = context;
    const weft_status status = check_stopping(a);
    if (status != WEFT_OK)
        return status;
    if (is_cancelled(a))
        return stop(a, WEFT_FINISH_CANCELLED, WEFT_FINISH_DETAIL_NONE);
    if (is_late(a))
        return stop(a, WEFT_FINISH_DEADLINE, WEFT_FINISH_DETAIL_NONE);
    return WEFT_OK;
}

/* "cancel" cannot be sent in the middle of a request, so a program that stops reading is killed. */
static weft_status check_while_sending(void *context)
{
    answering *a = context;
    if (a->when == 0 && (is_cancelled(a) || is_late(a)))
        a->when = weft__seconds();
    return check_stopping(a);
}

static weft_status ask(answering *a, const weft_engine_request *r)
{
    weft__text line = {0};
    const weft_status status = weft__program_generate(&line, a->p->name, r);
    if (status == WEFT_OK)
        return send_line(a->p, check_while_sending, a, &line);
    weft_free(line.at);
    return status;
}

static weft_status take_token(answering *a, const weft__json *at)
{
    weft__json string;
    const char *text = "";
    size_t length = 0;
    int64_t id = -1;
    weft_status status = weft__json_get(at, "token", &string);
    if (status == WEFT_OK)
        status = weft__json_as_string(&string, &text, &length);
    if (status == WEFT_OK)
        status = weft__json_find_int(at, "token_id", &id);
    if (status != WEFT_OK || id < -1 || id > INT32_MAX)
        return weft__child_give_up(a->p->child, WEFT_INVALID, "malformed token");
    if (a->reported)
        return look(a); /* the token arrived after the cancellation */
    /* A text without an id may be the end of the previous token's text. */
    if ((id >= 0 ? a->stats->tokens : a->texts) >= weft__program_most_tokens(a->options))
        return stop(a, WEFT_FINISH_LENGTH, WEFT_FINISH_MAX);
    a->last = weft__seconds();
    a->texts += id < 0;
    if (id >= 0 && a->stats->tokens++ == 0)
        a->first = a->last;
    const weft_generated token = {.id = (int32_t)id, .text = text, .length = length};
    if (a->callback != NULL && !a->callback(a->context, &token))
        return stop(a, WEFT_FINISH_CANCELLED, WEFT_FINISH_CALLBACK);
    return look(a);
}

/* "finish" is "stop" or "length"; if it is missing, the number of tokens decides. */
static weft_status take_done(answering *a, const weft__json *at)
{
    const char *finish = NULL;
    weft_status status = weft__json_find_string(at, "finish", &finish);
    if (status == WEFT_OK)
        status = weft__json_find_int(at, "prompt_tokens", &a->stats->prompt_tokens);
    if (status != WEFT_OK)
        return weft__child_give_up(a->p->child, WEFT_INVALID, "malformed end of the answer");
    a->done = true;
    if (a->reported)
        return WEFT_OK;
    const bool length = finish != NULL ? strcmp(finish, "length") == 0
                                       : a->stats->tokens >= weft__program_most_tokens(a->options);
    a->stats->reason = length ? WEFT_FINISH_LENGTH : WEFT_FINISH_STOP;
    a->stats->detail = length ? WEFT_FINISH_MAX : WEFT_FINISH_EOS;
    return WEFT_OK;
}

static weft_status take(answering *a)
{
    weft__json_doc doc;
    bool done = false;
    weft_status status = receive(a->p, look, a, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    if (weft__json_find_bool(&root, "done", &done) == WEFT_OK && done)
        status = take_done(a, &root);
    else
        status = take_token(a, &root);
    weft__json_free(&doc);
    return status;
}

static void measure(answering *a)
{
    weft_generate_stats *s = a->stats;
    if (s->tokens == 0)
        return;
    s->first_token_seconds = a->first - a->start;
    s->decode_seconds = a->last - a->first;
    if (s->first_token_seconds > 0)
        s->prompt_per_second = (double)s->prompt_tokens / s->first_token_seconds;
    if (s->decode_seconds > 0)
        s->decode_per_second = (double)(s->tokens - 1) / s->decode_seconds;
}

static weft_status program_generate(void *state, const weft_engine_request *request,
                                    weft_generate_fn *callback, void *context,
                                    weft_generate_stats *stats)
{
    program *p = state;
    answering a = {.p = p,
                   .options = request->options,
                   .callback = callback,
                   .context = context,
                   .stats = stats,
                   .start = weft__seconds()};
    weft_status status = weft__program_check(p->name, request->options);
    if (status == WEFT_OK)
        status = ask(&a, request);
    while (status == WEFT_OK && !a.done)
        status = take(&a);
    if (status != WEFT_OK)
        stats->reason = WEFT_FINISH_ERROR;
    measure(&a);
    return status;
}

/* ---- keys and queries ------------------------------------------------------------------------ */

static weft_status program_inspect(void *state, const weft_engine_request *request,
                                   weft_inspection **out)
{
    program *p = state;
    weft__text line = {0};
    weft__json_doc doc;
    weft__text_format(&line, "{\"cmd\": \"inspect\"");
    weft_status status = weft__program_add_prompt(&line, p->name, request);
    weft__text_append(&line, "}", 1);
    if (status != WEFT_OK) {
        weft_free(line.at);
        return status;
    }
    status = send_line(p, NULL, NULL, &line);
    if (status == WEFT_OK)
        status = receive(p, NULL, NULL, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = weft__inspection_read(&root, p->architecture, out);
    weft__json_free(&doc);
    return status;
}

/* ---- the backends --------------------------------------------------------------------------- */

static weft_status load_bridge(const char *name, const char *path, const weft_engine_options *o,
                               void **state)
{
    const char *python = o->program != NULL ? o->program : getenv("WEFT_PYTHON");
    if (python == NULL || *python == '\0')
        python = "python3";
    const char *const argv[] = {python, "-c", weft__bridge, name, NULL};
    return load(name, argv, path, o, state);
}

static weft_status load_transformers(const char *path, const weft_engine_options *o, void **state)
{
    return load_bridge("transformers", path, o, state);
}

static weft_status load_mlx_lm(const char *path, const weft_engine_options *o, void **state)
{
    return load_bridge("mlx-lm", path, o, state);
}

static weft_status load_program(const char *path, const weft_engine_options *o, void **state)
{
    const char *const argv[] = {o->program, NULL};
    if (o->program == NULL)
        return weft_fail(WEFT_INVALID, "engine: the backend 'subprocess' needs a program");
    return load("subprocess", argv, path, o, state);
}

#define PROGRAM(NAME, LOAD)                                                                        \
    {                                                                                              \
        .name = NAME, .load = LOAD, .unload = program_unload, .info = program_info,                \
        .encode = program_encode, .decode = program_decode, .generate = program_generate,          \
        .inspect = program_inspect                                                                 \
    }
static const weft_engine_backend transformers = PROGRAM("transformers", load_transformers);
static const weft_engine_backend mlx_lm = PROGRAM("mlx-lm", load_mlx_lm);
static const weft_engine_backend any = PROGRAM("subprocess", load_program);
#undef PROGRAM

const weft_engine_backend *const weft__engine_programs[] = {&transformers, &mlx_lm, &any};
const int weft__engine_n_programs = 3;
