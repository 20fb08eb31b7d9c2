/* cli/generate_batch.c -- weft generate --batch: generates a text for each JSON line. Also loads
 * the model of --draft. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/generate.h"
#include "cli/lines.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "cli/suggest.h"

/* ---- a line --------------------------------------------------------------------------------- */

enum { STOPS = 16 };

typedef struct batch_line {
    json_object *object;
    json_object *id; /* its member "id", or NULL */
    size_t number;
    int32_t *ids;
    size_t n_ids;
    const char *stops[STOPS];
    weft_generate_options options;
    char *message; /* its error, or NULL */
} batch_line;

typedef struct batch_run {
    const generate_values *values;
    weft_model *model;
    const weft_tokenizer *tokenizer;
    weft_chat *chat; /* NULL: no line has messages, or the model has no template */
    const weft_generate_options *options;
    cli_lines lines;
    batch_line *at;
    size_t *which; /* index of the line of each request */
    cli_progress progress;
    double start;
    int64_t prompts, tokens; /* prompt tokens of finished texts; tokens generated so far */
    size_t ended, cut, failed, requests; /* numbers of texts */
} batch_run;

/* Rejects unknown keys, since a misspelt option would be ignored silently. */
static weft_status check_keys(json_object *object)
{
    static const char *const known[] = {"id",          "prompt", "messages", "tools",
                                        "max_tokens",  "seed",   "top_k",    "top_p",
                                        "temperature", "min_p",  "stop",     "timeout"};
    json_object_object_foreach(object, key, value)
    {
        cli_suggestion near = {.word = key};
        size_t i = 0;
        for (; i < sizeof known / sizeof *known && strcmp(known[i], key) != 0; i++)
            cli_suggest_from(&near, known[i]);
        (void)value;
        if (i < sizeof known / sizeof *known)
            continue;
        return near.name != NULL
                   ? weft_fail(WEFT_INVALID, "unknown key '%s'; did you mean %s?",
                               weft_printable(key), near.name)
                   : weft_fail(WEFT_INVALID,
                               "unknown key '%s' (known: id, prompt, messages, tools, max_tokens, "
                               "seed, temperature, top_p, top_k, min_p, stop, timeout)",
                               weft_printable(key));
    }
    return WEFT_OK;
}

static weft_status read_number(json_object *object, const char *key, bool whole, double low,
                               double high, double *out)
{
    json_object *value;
    if (!json_object_object_get_ex(object, key, &value) || value == NULL)
        return WEFT_OK;
    if (!json_object_is_type(value, json_type_int) && !json_object_is_type(value, json_type_double))
        return weft_fail(WEFT_INVALID, "%s: expected a number", key);
    const double number = json_object_get_double(value);
    if (!(number >= low && number <= high))
        return weft_fail(WEFT_INVALID, "%s: expected a number from %g to %g, got %g", key, low,
                         high, number);
    if (whole && number != floor(number))
        return weft_fail(WEFT_INVALID, "%s: expected a whole number, got %g", key, number);
    *out = number;
    return WEFT_OK;
}

/* "stop": a string or a list of strings, instead of the command's. */
static weft_status read_stops(batch_line *line)
{
    json_object *value;
    if (!json_object_object_get_ex(line->object, "stop", &value) || value == NULL)
        return WEFT_OK;
    const bool list = json_object_is_type(value, json_type_array);
    const size_t n = list ? json_object_array_length(value) : 1;
    if (n > STOPS)
        return weft_fail(WEFT_INVALID, "stop: expected at most %d texts, got %zu", STOPS, n);
    for (size_t i = 0; i < n; i++) {
        json_object *one = list ? json_object_array_get_idx(value, i) : value;
        if (!json_object_is_type(one, json_type_string))
            return weft_fail(WEFT_INVALID, "stop: expected a text or a list of texts");
        if (cli_plain_text(one) == NULL)
            return weft_fail(WEFT_INVALID, "stop: expected a string without \\u0000");
        line->stops[i] = cli_plain_text(one);
    }
    line->options.stop_texts = line->stops;
    line->options.n_stop_texts = (int)n;
    return WEFT_OK;
}

static weft_status read_options(batch_line *line)
{
    weft_generate_options *o = &line->options;
    double max_tokens = (double)o->max_tokens, seed = -1, top_k = (double)o->sampler.top_k;
    const struct {
        const char *key;
        bool whole;
        double low, high, *out;
    } numbers[] = {
        {"max_tokens", true, 1, 1e15, &max_tokens},
        {"seed", true, 0, 9007199254740992.0, &seed},
        {"temperature", false, 0, 1e6, &o->sampler.temperature},
        {"top_p", false, 0, 1, &o->sampler.top_p},
        {"top_k", true, 0, 1e15, &top_k},
        {"min_p", false, 0, 1, &o->sampler.min_p},
        {"timeout", false, 0, 1e15, &o->timeout},
    };
    weft_status status = check_keys(line->object);
    for (size_t i = 0; status == WEFT_OK && i < sizeof numbers / sizeof *numbers; i++)
        status = read_number(line->object, numbers[i].key, numbers[i].whole, numbers[i].low,
                             numbers[i].high, numbers[i].out);
    o->max_tokens = (int64_t)max_tokens;
    o->sampler.top_k = (int64_t)top_k;
    if (seed >= 0)
        o->seed = (uint64_t)seed;
    return status == WEFT_OK ? read_stops(line) : status;
}

static weft_status encode_messages(batch_run *r, batch_line *line, json_object *messages,
                                   const char *path)
{
    weft_status status = WEFT_OK;
    json_object *tools = NULL;
    if (r->chat == NULL)
        status = weft_adapter_chat(path, r->values->adapter, &r->chat);
    json_object_object_get_ex(line->object, "tools", &tools);
    const weft_chat_options o = {.generation_prompt = true,
                                 .tools = tools ? json_object_to_json_string(tools) : NULL};
    return status == WEFT_OK
               ? weft_chat_encode(r->chat, r->tokenizer, json_object_to_json_string(messages), &o,
                                  &line->ids, &line->n_ids)
               : status;
}

static weft_status encode_line(batch_run *r, batch_line *line, const char *path)
{
    json_object *prompt = NULL, *messages = NULL;
    json_object_object_get_ex(line->object, "prompt", &prompt);
    if (json_object_object_get_ex(line->object, "messages", &messages) && prompt == NULL)
        return encode_messages(r, line, messages, path);
    if (messages != NULL || !json_object_is_type(prompt, json_type_string))
        return weft_fail(WEFT_INVALID, "expected a text as prompt, or messages");
    return weft_tokenizer_encode(
        r->tokenizer, json_object_get_string(prompt), (size_t)json_object_get_string_len(prompt),
        r->values->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, &line->ids, &line->n_ids);
}

/* Reads line i. Its default seed is the command's seed plus i. */
static void read_line(batch_run *r, size_t i, const char *path)
{
    batch_line *line = &r->at[i];
    weft_status status = WEFT_OK;
    line->number = r->lines.at[i].number;
    line->options = *r->options;
    line->options.seed += i;
    line->object = cli_parse_json(r->lines.at[i].text, r->lines.at[i].length);
    if (!json_object_is_type(line->object, json_type_object)) {
        status = weft_fail(WEFT_INVALID, "expected a JSON object");
    } else {
        json_object_object_get_ex(line->object, "id", &line->id);
        status = read_options(line);
    }
    if (status == WEFT_OK)
        status = encode_line(r, line, path);
    if (status != WEFT_OK)
        line->message = weft_format("line %zu: %s", line->number, weft_error_message());
}

/* ---- results -------------------------------------------------------------------------------- */

/* Prints the first members of a line's object. */
static void print_id(const batch_run *r, size_t i)
{
    const batch_line *line = &r->at[i];
    if (line->id != NULL)
        printf("{\"id\": %s", json_object_to_json_string_ext(line->id, JSON_C_TO_STRING_PLAIN));
    else
        printf("{\"id\": %zu", line->number);
    printf(", \"index\": %zu", i);
}

static void print_error(const batch_run *r, size_t i, const char *message)
{
    print_id(r, i);
    fputs(", \"error\": ", stdout);
    cli_json_text(stdout, message, strlen(message));
    puts("}");
}

static void print_row(const batch_run *r, size_t i, const weft_generated_row *row)
{
    if (row->status != WEFT_OK) {
        print_error(r, i, row->message ? row->message : weft_status_name(row->status));
        return;
    }
    print_id(r, i);
    fputs(", \"text\": ", stdout);
    cli_json_text(stdout, row->text ? row->text : "", row->length);
    fputs(", \"ids\": [", stdout);
    for (size_t k = 0; k < row->n; k++)
        printf("%s%d", k > 0 ? ", " : "", (int)row->ids[k]);
    printf("], \"reason\": \"%s\", \"reason_detail\": \"%s\", \"prompt_tokens\": %lld, "
           "\"tokens\": %lld, \"shifts\": %lld",
           weft_finish_name(row->stats.reason), weft_finish_detail_name(row->stats.detail),
           (long long)row->stats.prompt_tokens, (long long)row->stats.tokens,
           (long long)row->stats.shifts);
    cli_place_json(stdout, &r->values->place);
    puts("}");
}

static double per_second(const batch_run *r)
{
    const double took = cli_seconds() - r->start;
    return took > 0 ? (double)r->tokens / took : 0;
}

static void show_progress(batch_run *r)
{
    cli_progress_show(&r->progress, (double)r->ended / (double)r->requests, false,
                      "%s of %s texts, %.1f tokens/s", cli_count((int64_t)r->ended),
                      cli_count((int64_t)r->requests), per_second(r));
}

static bool take_token(void *context, size_t index, const weft_generated *token)
{
    batch_run *r = context;
    (void)index;
    r->tokens += token->id >= 0;
    show_progress(r);
    return true;
}

/* A line is printed as soon as its sequence has ended, so that finished results are not lost. */
static void take_text(void *context, size_t index, const weft_generated_row *row)
{
    batch_run *r = context;
    cli_progress_clear(&r->progress);
    print_row(r, r->which[index], row);
    fflush(stdout);
    r->prompts += row->stats.prompt_tokens;
    r->ended++;
    r->failed += row->status != WEFT_OK;
    r->cut += row->status == WEFT_OK && row->stats.reason == WEFT_FINISH_CANCELLED;
    show_progress(r);
}

static void print_end(const batch_run *r)
{
    if (weft_cancel_is_set(r->options->cancel))
        fprintf(stderr,
                "weft: generate: interrupted: of %s texts %s have ended, %s were cut off, %s have "
                "not begun\n",
                cli_count((int64_t)r->requests), cli_count((int64_t)(r->ended - r->cut)),
                cli_count((int64_t)r->cut), cli_count((int64_t)(r->requests - r->ended)));
    if (r->values->stats)
        fprintf(stderr,
                "%s texts: %s prompt tokens, %s generated in %.3f s: %.1f tokens/s; peak memory "
                "%s\n",
                cli_count((int64_t)r->ended), cli_count(r->prompts), cli_count(r->tokens),
                cli_seconds() - r->start, per_second(r), cli_bytes(weft_memory_peak_held()));
}

/* ---- running -------------------------------------------------------------------------------- */

/* Prints the errors of lines that could not be read, and generates for the others. */
static weft_status generate_lines(batch_run *r, weft_generate_request *requests,
                                  weft_generated_row *rows)
{
    for (size_t i = 0; i < r->lines.n; i++) {
        const batch_line *line = &r->at[i];
        if (line->message != NULL) {
            print_error(r, i, line->message);
            r->failed++;
        } else {
            r->which[r->requests] = i;
            requests[r->requests++] = (weft_generate_request){.prompt = {line->ids, line->n_ids},
                                                              .options = &line->options};
        }
    }
    fflush(stdout);
    const weft_generate_batch_options o = {.rows = r->values->batch_rows,
                                           .batch.invariant = r->values->invariant,
                                           .cancel = r->options->cancel,
                                           .ended = take_text,
                                           .ended_context = r};
    cli_progress_start(&r->progress);
    r->start = cli_seconds();
    const weft_status status =
        weft_generate_batch(r->model, r->tokenizer, requests, r->requests, &o, take_token, r, rows);
    cli_progress_clear(&r->progress);
    weft_generated_rows_free(rows, r->requests);
    return status;
}

static weft_status run_requests(batch_run *r, bool *good)
{
    const size_t n = r->lines.n;
    weft_generate_request *requests = calloc(n + 1, sizeof *requests);
    weft_generated_row *rows = calloc(n + 1, sizeof *rows);
    r->which = calloc(n + 1, sizeof *r->which);
    weft_status status = WEFT_OK;
    if (requests == NULL || rows == NULL || r->which == NULL)
        status = weft_fail(WEFT_MEMORY, "generate: no memory");
    if (status == WEFT_OK)
        status = generate_lines(r, requests, rows);
    if (status == WEFT_OK) {
        print_end(r);
        cli_profile_print();
    }
    *good = r->failed == 0;
    free(rows);
    free(requests);
    return status;
}

static void close_run(batch_run *r)
{
    for (size_t i = 0; r->at != NULL && i < r->lines.n; i++) {
        json_object_put(r->at[i].object);
        weft_free(r->at[i].ids);
        weft_free(r->at[i].message);
    }
    free(r->at);
    free(r->which);
    cli_lines_free(&r->lines);
    weft_chat_free(r->chat);
}

weft_status generate_batch(const generate_values *v, const char *path, weft_model *model,
                           const weft_tokenizer *tokenizer, const weft_generate_options *options,
                           bool *good)
{
    batch_run r = {.values = v, .model = model, .tokenizer = tokenizer, .options = options};
    weft_status status = cli_lines_read(v->batch, false, &r.lines);
    if (status == WEFT_OK && r.lines.n == 0)
        status = weft_fail(WEFT_INVALID, "generate: --batch %s: there are no lines", v->batch);
    if (status == WEFT_OK) {
        r.at = calloc(r.lines.n + 1, sizeof *r.at);
        if (r.at == NULL)
            status = weft_fail(WEFT_MEMORY, "generate: no memory");
    }
    for (size_t i = 0; status == WEFT_OK && i < r.lines.n; i++)
        read_line(&r, i, path);
    if (status == WEFT_OK)
        status = run_requests(&r, good);
    close_run(&r);
    return status;
}

/* ---- the draft ------------------------------------------------------------------------------ */

/* Checks that every id has the same token in both vocabularies. */
static weft_status compare_vocabularies(const weft_tokenizer *a, const weft_tokenizer *b,
                                        const char *name)
{
    const int32_t n = weft_tokenizer_vocab_size(a);
    if (weft_tokenizer_vocab_size(b) != n)
        return weft_fail(WEFT_INVALID, "generate: --draft %s: its vocabulary has %d tokens, not %d",
                         name, (int)weft_tokenizer_vocab_size(b), (int)n);
    for (int32_t i = 0; i < n; i++) {
        const char *x = weft_tokenizer_id_to_token(a, i), *y = weft_tokenizer_id_to_token(b, i);
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0))
            return weft_fail(WEFT_INVALID,
                             "generate: --draft %s: another vocabulary: token %d is '%s', not '%s'",
                             name, (int)i, weft_printable(y ? y : ""), weft_printable(x ? x : ""));
    }
    return WEFT_OK;
}

weft_status generate_load_draft(const generate_values *v, const weft_tokenizer *tokenizer,
                                weft_model **out)
{
    char path[4096];
    weft_tokenizer *own = NULL;
    *out = NULL;
    if (v->draft == NULL)
        return WEFT_OK;
    weft_status status = cli_model_path(v->draft, path, sizeof path);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &own);
    if (status == WEFT_OK)
        status = compare_vocabularies(tokenizer, own, v->draft);
    weft_tokenizer_free(own);
    return status == WEFT_OK ? cli_load_model(path, &v->place, NULL, out) : status;
}
