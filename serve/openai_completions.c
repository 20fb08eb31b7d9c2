/* serve/openai_completions.c -- POST /v1/completions of OpenAI: text after a prompt. */
#include <string.h>

#include "serve/server.h"
#include "weft/memory.h"

enum { PROMPTS = 256 };

/* ---- answers -------------------------------------------------------------------------------- */

/* Those that begin in the bytes of a token. */
static int64_t count_characters(json_object *bytes)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_object_array_length(bytes); i++)
        n += (json_object_get_int(json_object_array_get_idx(bytes, i)) & 0xC0) != 0x80;
    return n;
}

/* The best tokens of an entry by their text, with its own one; null for the first of a prompt. Of
 * tokens with the same text, such as parts of characters, the most probable one counts. */
static void put_best(json_object *entry, serve_text *out)
{
    json_object *best = json_object_object_get(entry, "top_logprobs");
    json_object *named = best != NULL ? json_object_new_object() : NULL;
    out->failed = out->failed || (best != NULL && named == NULL);
    for (size_t k = 0; named != NULL && k <= json_object_array_length(best); k++) {
        const bool own = k == json_object_array_length(best);
        json_object *one = own ? entry : json_object_array_get_idx(best, k);
        const char *text = json_object_get_string(json_object_object_get(one, "token"));
        json_object *value = json_object_object_get(one, "logprob");
        if (text == NULL)
            out->failed = true;
        else if (!json_object_object_get_ex(named, text, NULL) &&
                 json_object_object_add(named, text, json_object_get(value)) != 0) {
            json_object_put(value);
            out->failed = true;
        }
    }
    serve_put(out, "%o", named);
    json_object_put(named);
}

/* "logprobs" of this API: lists by token, from entries of the chat's form. */
static void put_logprobs(serve_choice *c, const char *entries, serve_text *out)
{
    serve_text all = {0}, lists[4] = {0}; /* tokens, their log-probabilities, the best, offsets */
    serve_put(&all, "[%r]", entries);
    json_object *list = all.failed ? NULL : serve_parse(all.at);
    out->failed = out->failed || list == NULL;
    const size_t n = list != NULL ? json_object_array_length(list) : 0;
    for (size_t k = 0; k < 4; k++)
        serve_text_add(&lists[k], "", 0);
    for (size_t i = 0; i < n; i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        json_object *offset = json_object_object_get(entry, "text_offset");
        for (size_t k = 0; k < 4 && i > 0; k++)
            serve_put(&lists[k], ", ");
        serve_put(&lists[0], "%o", json_object_object_get(entry, "token"));
        serve_put(&lists[1], "%o", json_object_object_get(entry, "logprob"));
        put_best(entry, &lists[2]);
        serve_put(&lists[3], "%i", offset != NULL ? json_object_get_int64(offset) : c->offset);
        c->offset += offset != NULL ? 0 : count_characters(json_object_object_get(entry, "bytes"));
    }
    serve_put(out,
              "{'tokens': [%r], 'token_logprobs': [%r], 'top_logprobs': [%r], 'text_offset': "
              "[%r]}",
              lists[0].at, lists[1].at, lists[2].at, lists[3].at);
    json_object_put(list);
    serve_text_free(&all);
    for (size_t k = 0; k < 4; k++) {
        out->failed = out->failed || lists[k].failed;
        serve_text_free(&lists[k]);
    }
}

static void put_choice(serve_choice *c, const serve_text *text, const char *entries,
                       const char *reason, serve_text *out)
{
    serve_put(out, "{'index': %i, 'text': %t, 'logprobs': ", (int64_t)c->index, text);
    if (entries != NULL && c->request->settings.generate.logprobs)
        put_logprobs(c, entries, out);
    else
        serve_put(out, "null");
    serve_put(out, ", 'finish_reason': %s}", reason);
}

static void event(serve_choice *c, const serve_event *event)
{
    serve_text out = {0}, text = {0};
    if (event->kind == SERVE_BEGIN && c->prompt.at == NULL)
        return;
    if (event->kind == SERVE_BEGIN)
        serve_text_add(&text, c->prompt.at, c->prompt.n);
    else
        serve_text_add(&text, event->text, event->length);
    serve_put_chunk(c->request, &out);
    put_choice(c, &text, event->kind == SERVE_BEGIN ? c->prompt_logprobs.at : event->logprobs,
               event->kind == SERVE_END ? serve_finish_reason(c) : NULL, &out);
    serve_put(&out, "]}");
    serve_send(c->request, NULL, &out);
    serve_text_free(&text);
}

static void answer(serve_request *r, serve_text *out)
{
    serve_put_chunk(r, out);
    for (size_t i = 0; i < r->n_choices; i++) {
        serve_choice *c = &r->choices[i];
        serve_text text = {0}, *entries = &c->prompt_logprobs;
        serve_put(out, i > 0 ? ", " : "");
        serve_text_add(&text, c->prompt.at, c->prompt.n);
        serve_text_add(&text, c->text.at, c->text.n);
        serve_put(entries, entries->n > 0 && c->logprobs.n > 0 ? ", " : "");
        serve_text_add(entries, c->logprobs.at, c->logprobs.n);
        put_choice(c, &text, entries->at, serve_finish_reason(c), out);
        out->failed = out->failed || text.failed || entries->failed;
        serve_text_free(&text);
    }
    serve_put(out, "], 'usage': ");
    serve_put_usage(r, out);
    serve_put(out, "}");
}

const serve_api serve_completion_api = {.event = event,
                                        .close = serve_close_chunks,
                                        .answer = answer,
                                        .error = serve_put_error,
                                        .chunk = "text_completion"};

/* ---- prompts -------------------------------------------------------------------------------- */

weft_status serve_read_ids(const serve_server *server, const char *key, json_object *list,
                           serve_choice *c)
{
    const size_t n = json_object_array_length(list);
    c->ids = weft_malloc((n + 1) * sizeof *c->ids);
    c->n_ids = n;
    if (c->ids == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the prompt");
    for (size_t i = 0; i < n; i++) {
        json_object *id = json_object_array_get_idx(list, i);
        const int64_t value =
            json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
        if (value < 0 || value >= server->vocabulary)
            return weft_fail(WEFT_INVALID, "%s: token %zu: expected one of the vocabulary's %lld",
                             key, i, (long long)server->vocabulary);
        c->ids[i] = (int32_t)value;
    }
    return WEFT_OK;
}

static weft_status read_prompt(serve_request *r, json_object *prompt, serve_choice *c)
{
    const weft_tokenizer *tokenizer = r->server->loaded.tokenizer;
    weft_status status = WEFT_OK;
    if (json_object_is_type(prompt, json_type_array))
        status = serve_read_ids(r->server, "prompt", prompt, c);
    else if (json_object_is_type(prompt, json_type_string))
        status = weft_tokenizer_encode(tokenizer, json_object_get_string(prompt),
                                       (size_t)json_object_get_string_len(prompt),
                                       WEFT_TOKENIZER_ADD_SPECIAL, &c->ids, &c->n_ids);
    else
        return weft_fail(WEFT_INVALID, "prompt: expected a string, a list of token ids, or a list "
                                       "of either");
    if (status == WEFT_OK && c->n_ids == 0)
        status = weft_fail(WEFT_INVALID, "prompt: expected at least one token");
    if (status == WEFT_OK)
        status = serve_check_room(r, c->n_ids);
    if (status == WEFT_OK && r->settings.echo && json_object_is_type(prompt, json_type_string))
        serve_text_add(&c->prompt, json_object_get_string(prompt),
                       (size_t)json_object_get_string_len(prompt));
    else if (status == WEFT_OK && r->settings.echo)
        status = weft_tokenizer_decode(tokenizer, c->ids, c->n_ids, WEFT_TOKENIZER_SKIP_SPECIAL,
                                       &c->prompt.at, &c->prompt.n);
    return status == WEFT_OK && c->prompt.failed
               ? weft_fail(WEFT_MEMORY, "out of memory for the prompt")
               : status;
}

/* The prompt of the choice before. */
static weft_status copy_prompt(serve_choice *c)
{
    const serve_choice *from = c - 1;
    c->ids = weft_malloc(from->n_ids * sizeof *c->ids);
    c->n_ids = from->n_ids;
    if (from->prompt.at != NULL)
        serve_text_add(&c->prompt, from->prompt.at, from->prompt.n);
    if (c->ids == NULL || c->prompt.failed)
        return weft_fail(WEFT_MEMORY, "out of memory for the prompt");
    memcpy(c->ids, from->ids, from->n_ids * sizeof *c->ids);
    return WEFT_OK;
}

static weft_status read_prompts(serve_request *r)
{
    json_object *prompt = json_object_object_get(r->json, "prompt");
    const size_t length =
        json_object_is_type(prompt, json_type_array) ? json_object_array_length(prompt) : 0;
    const bool list =
        length > 0 && !json_object_is_type(json_object_array_get_idx(prompt, 0), json_type_int);
    const size_t prompts = list ? length : 1;
    int64_t n = 1;
    weft_status status = serve_read_count(r->json, "n", 1, r->server->options.rows, &n);
    if (status == WEFT_OK && prompts * (size_t)n > PROMPTS)
        status = weft_fail(WEFT_INVALID, "prompt: expected at most %d texts", (int)PROMPTS);
    if (status == WEFT_OK)
        status = serve_make_choices(r, prompts * (size_t)n);
    r->settings.each = (size_t)n;
    r->settings.same = prompts == 1 && n > 1;
    for (size_t i = 0; status == WEFT_OK && i < r->n_choices; i++)
        status =
            i % (size_t)n > 0
                ? copy_prompt(&r->choices[i])
                : read_prompt(r, list ? json_object_array_get_idx(prompt, i / (size_t)n) : prompt,
                              &r->choices[i]);
    return status;
}

weft_status serve_run_completion(serve_request *r)
{
    int64_t top = -1;
    weft_status status = serve_parse_body(r);
    if (status == WEFT_OK)
        status = serve_read_generation(r);
    if (status == WEFT_OK)
        status = serve_read_stops(r, "stop");
    if (status == WEFT_OK)
        status = serve_read_count(r->json, "logprobs", 0, WEFT_TOP_LOGPROBS, &top);
    if (status == WEFT_OK)
        status = serve_read_flag(r->json, "echo", &r->settings.echo);
    if (status == WEFT_OK && json_object_object_get(r->json, "suffix") != NULL)
        status = weft_fail(WEFT_UNSUPPORTED, "suffix: insertion is not supported");
    r->settings.generate.logprobs = top >= 0;
    r->settings.generate.top_logprobs = top > 0 ? top : 0;
    if (status == WEFT_OK)
        status = read_prompts(r);
    serve_make_id("cmpl-", r->id, sizeof r->id);
    return status == WEFT_OK ? serve_start_choices(r, r->n_choices, serve_complete) : status;
}
