/* engine/program.c -- backends that are other programs: what they are asked and what they answer, a
 * JSON object a line. The programs are the embedded bridge, run by Python over transformers or
 * mlx-lm, or any that speaks the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "engine/child.h"
#include "engine/engine.h"
#include "engine/program.h"
#include "weft/memory.h"

enum { SECONDS = 300, STOP_SECONDS = 10, DEFAULT_MAX_TOKENS = 256 };

typedef struct program {
    const char *name; /* of the backend */
    weft__child *child;
    double seconds;            /* without an answer, then it is ended */
    double stop_seconds;       /* after a request to stop, then it is ended */
    weft_tokenizer *tokenizer; /* the checkpoint's, for encode and decode; NULL: none */
    char *architecture;
    weft_engine_info info;
} program;

/* ---- answers -------------------------------------------------------------------------------- */

/* The next object. One with "error" is a failure with its message, after which the program goes on;
 * a line that is no object is its end. */
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

static void add_text(weft__text *line, const char *key, const char *value)
{
    if (value != NULL) {
        weft__text_format(line, ", \"%s\": ", key);
        weft__text_quote(line, value);
    }
}

static weft_status ask_load(program *p, const char *path, const weft_engine_options *o)
{
    weft__text line = {0};
    weft__json_doc doc;
    bool ok = false;
    weft__text_format(&line, "{\"cmd\": \"load\"");
    add_text(&line, "path", path);
    add_text(&line, "adapter_path", o->adapter);
    add_text(&line, "device", o->device);
    add_text(&line, "dtype", o->dtype != 0 ? weft_dtype_name(o->dtype) : NULL);
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
        return weft_fail(WEFT_UNSUPPORTED, "engine: the backend '%s' does not quantise",
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
    p->stop_seconds = o->stop_seconds > 0 ? o->stop_seconds : (double)STOP_SECONDS;
    if (p->stop_seconds > p->seconds)
        p->stop_seconds = p->seconds;
    status = weft__child_start(argv, name, p->seconds, &p->child);
    if (status == WEFT_OK)
        status = ask_load(p, path, o);
    if (status == WEFT_OK)
        status = ask_info(p);
    if (status != WEFT_OK) {
        char *message = weft_strdup(weft_error_message()); /* ending may fail too */
        program_unload(p);
        status = weft_fail(status, "%s", message != NULL ? message : "no memory");
        weft_free(message);
        return status;
    }
    if (weft_tokenizer_load(path, &p->tokenizer) != WEFT_OK)
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

/* ---- requests ------------------------------------------------------------------------------- */

/* What there are no words for in the protocol. */
static weft_status check_request(const program *p, const weft_generate_options *o)
{
    const weft_sampler_options *s = &o->sampler;
    const char *what = o->constraint != NULL              ? "constraints"
                       : o->n_stop_texts > 0              ? "texts that end a text"
                       : o->logprobs                      ? "log-probabilities"
                       : o->no_cache                      ? "generation without caches"
                       : o->cache.max_context > 0         ? "max_context"
                       : o->cache.kv_bits != 0            ? "caches in codes"
                       : s->n_bias + s->n_suppress > 0    ? "biases and suppressed tokens"
                       : s->presence_penalty != 0         ? "presence penalties"
                       : s->frequency_penalty != 0        ? "frequency penalties"
                       : s->xtc_probability != 0          ? "XTC"
                       : o->draft != NULL || o->ngram > 0 ? "speculative decoding"
                       : o->probe != NULL                 ? "probes"
                                                          : NULL;
    if (what != NULL)
        return weft_fail(WEFT_UNSUPPORTED, "engine: the backend '%s' has no %s", p->name, what);
    if (!(s->temperature >= 0) || !(s->top_p >= 0) || !(s->min_p >= 0) ||
        !(s->repetition_penalty >= 0) || s->top_k < 0 || o->max_tokens < 0)
        return weft_fail(WEFT_INVALID, "engine: temperature, top_p, min_p, repetition_penalty, "
                                       "top_k and max_tokens: expected at least 0");
    if (isinf(s->temperature + s->top_p + s->min_p + s->repetition_penalty)) /* none in JSON */
        return weft_fail(WEFT_INVALID, "engine: temperature, top_p, min_p and repetition_penalty: "
                                       "expected finite numbers");
    return WEFT_OK;
}

static void add_ids(weft__text *line, const char *key, const int32_t *ids, size_t n)
{
    weft__text_format(line, ", \"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        weft__text_format(line, "%s%d", i > 0 ? ", " : "", (int)ids[i]);
    weft__text_format(line, "]");
}

/* JSON of the caller's, in one line. */
static weft_status add_json(weft__text *line, const char *key, const char *json)
{
    weft__json_doc doc;
    if (json == NULL)
        return WEFT_OK;
    const weft_status status = weft__json_parse(json, strlen(json), key, &doc);
    if (status != WEFT_OK)
        return status;
    const char *plain = json_object_to_json_string_ext(doc.root, JSON_C_TO_STRING_PLAIN);
    weft__text_format(line, ", \"%s\": ", key);
    if (plain != NULL)
        weft__text_append(line, plain, strlen(plain));
    line->failed |= plain == NULL;
    weft__json_free(&doc);
    return WEFT_OK;
}

static weft_status add_chat(weft__text *line, const weft_engine_request *r)
{
    static const weft_chat_options answer = {.generation_prompt = true};
    const weft_chat_options *o = r->chat != NULL ? r->chat : &answer;
    weft_status status = add_json(line, "messages", r->messages);
    if (status == WEFT_OK)
        status = add_json(line, "tools", o->tools);
    if (status == WEFT_OK)
        status = add_json(line, "documents", o->documents);
    if (status == WEFT_OK)
        status = add_json(line, "variables", o->variables);
    add_text(line, "template", o->template_name);
    weft__text_format(line, ", \"add_generation_prompt\": %s",
                      o->generation_prompt ? "true" : "false");
    if (o->thinking != WEFT_THINKING_DEFAULT)
        weft__text_format(line, ", \"enable_thinking\": %s",
                          o->thinking == WEFT_THINKING_ON ? "true" : "false");
    return status;
}

static weft_status add_prompt(weft__text *line, const program *p, const weft_engine_request *r)
{
    const size_t length = r->length > 0 ? r->length : r->prompt != NULL ? strlen(r->prompt) : 0;
    if (r->ids != NULL) {
        add_ids(line, "prompt_ids", r->ids, r->n_ids);
        return WEFT_OK;
    }
    char *text = weft_malloc(length + 1);
    if (text == NULL)
        return weft__out_of_memory(p->name, "a prompt");
    if (length > 0)
        memcpy(text, r->prompt, length);
    text[length] = '\0';
    const bool whole = strlen(text) == length;
    add_text(line, "prompt", text);
    weft_free(text);
    if (r->no_special)
        weft__text_format(line, ", \"add_special_tokens\": false");
    return whole
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: the prompt has a NUL, which cannot be sent", p->name);
}

static int64_t most_tokens(const weft_generate_options *o)
{
    return o->max_tokens > 0 ? o->max_tokens : DEFAULT_MAX_TOKENS;
}

/* ---- generation ----------------------------------------------------------------------------- */

typedef struct answering {
    program *p;
    const weft_generate_options *options;
    weft_generate_fn *callback;
    void *context;
    weft_generate_stats *stats;
    double start, first, last;
    int64_t texts; /* that came without an id */
    bool told;     /* to cancel, at */
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

/* Tells the program to stop, once, and remembers why. */
static weft_status stop(answering *a, weft_finish reason, weft_finish_detail detail)
{
    static const char line[] = "{\"cmd\": \"cancel\"}";
    if (a->told)
        return WEFT_OK;
    a->told = true;
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

/* "cancel" cannot be sent in the middle of a request: a program that does not read on is ended. */
static weft_status look_while_sending(void *context)
{
    answering *a = context;
    if (a->when == 0 && (is_cancelled(a) || is_late(a)))
        a->when = weft__seconds();
    return check_stopping(a);
}

static weft_status ask(answering *a, const weft_engine_request *r)
{
    program *p = a->p;
    weft__text line = {0};
    const weft_generate_options *o = r->options;
    const weft_sampler_options *s = &o->sampler;
    weft__text_format(&line, "{\"cmd\": \"%s\"", r->messages != NULL ? "chat" : "generate");
    weft_status status = r->messages != NULL ? add_chat(&line, r) : add_prompt(&line, p, r);
    weft__text_format(&line,
                      ", \"max_tokens\": %lld, \"temperature\": %.17g, \"top_k\": %lld, "
                      "\"top_p\": %.17g, \"min_p\": %.17g, \"repeat_penalty\": %.17g, "
                      "\"seed\": %llu, \"ignore_eos\": %s, \"keep_special\": %s",
                      (long long)most_tokens(o), s->temperature, (long long)s->top_k, s->top_p,
                      s->min_p, s->repetition_penalty, (unsigned long long)(o->seed & INT64_MAX),
                      o->ignore_eos ? "true" : "false", o->keep_special ? "true" : "false");
    if (o->n_stop > 0)
        add_ids(&line, "stop_ids", o->stop, (size_t)o->n_stop);
    weft__text_append(&line, "}", 1);
    if (status == WEFT_OK)
        return send_line(p, look_while_sending, a, &line);
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
        return weft__child_give_up(a->p->child, WEFT_INVALID, "a token that is none");
    if (a->told)
        return look(a); /* it came too late */
    /* A text without an id may be the end of the last token's. */
    if ((id >= 0 ? a->stats->tokens : a->texts) >= most_tokens(a->options))
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

/* "finish" is "stop" or "length"; without it the number of tokens tells. */
static weft_status take_done(answering *a, const weft__json *at)
{
    const char *finish = NULL;
    weft_status status = weft__json_find_string(at, "finish", &finish);
    if (status == WEFT_OK)
        status = weft__json_find_int(at, "prompt_tokens", &a->stats->prompt_tokens);
    if (status != WEFT_OK)
        return weft__child_give_up(a->p->child, WEFT_INVALID, "an end that is none");
    a->done = true;
    if (a->told)
        return WEFT_OK;
    const bool length = finish != NULL ? strcmp(finish, "length") == 0
                                       : a->stats->tokens >= most_tokens(a->options);
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
    weft_status status = check_request(p, request->options);
    if (status == WEFT_OK)
        status = ask(&a, request);
    while (status == WEFT_OK && !a.done)
        status = take(&a);
    if (status != WEFT_OK)
        stats->reason = WEFT_FINISH_ERROR;
    measure(&a);
    return status;
}

/* ---- what attention works on ---------------------------------------------------------------- */

static weft_status program_inspect(void *state, const weft_engine_request *request,
                                   weft_inspection **out)
{
    program *p = state;
    weft__text line = {0};
    weft__json_doc doc;
    weft__text_format(&line, "{\"cmd\": \"inspect\"");
    weft_status status =
        request->messages != NULL ? add_chat(&line, request) : add_prompt(&line, p, request);
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
