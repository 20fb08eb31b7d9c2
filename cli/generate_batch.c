/* cli/generate_batch.c -- weft generate --batch: many texts from lines of JSON, and drafts. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/generate.h"
#include "cli/lines.h"
#include "cli/profile.h"

/* ---- a line --------------------------------------------------------------------------------- */

enum { STOPS = 16 };

typedef struct batch_line {
    json_object *object;
    json_object *id; /* what it calls itself, or NULL */
    size_t number;
    int32_t *ids;
    size_t n_ids;
    const char *stops[STOPS];
    weft_generate_options options;
    char *message; /* why it cannot be, or NULL */
} batch_line;

typedef struct batch_run {
    const generate_values *values;
    weft_model *model;
    const weft_tokenizer *tokenizer;
    weft_chat *chat; /* NULL: no line has messages, or the model no template */
    const weft_generate_options *options;
    cli_lines lines;
    batch_line *at;
} batch_run;

static weft_status read_number(json_object *object, const char *key, double low, double high,
                               double *out)
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
    *out = number;
    return WEFT_OK;
}

/* "stop": a text or a list of texts, which take the place of the command's. */
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
        line->stops[i] = json_object_get_string(one);
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
        double low, high, *out;
    } numbers[] = {
        {"max_tokens", 1, 1e15, &max_tokens},
        {"seed", 0, 9007199254740992.0, &seed},
        {"temperature", 0, 1e6, &o->sampler.temperature},
        {"top_p", 0, 1, &o->sampler.top_p},
        {"top_k", 0, 1e15, &top_k},
        {"min_p", 0, 1, &o->sampler.min_p},
        {"timeout", 0, 1e15, &o->timeout},
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof numbers / sizeof *numbers; i++)
        status = read_number(line->object, numbers[i].key, numbers[i].low, numbers[i].high,
                             numbers[i].out);
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
        status = weft_chat_load(path, &r->chat);
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

/* Unless a line says otherwise, its seed is the command's and as much more as lines are in front.
 */
static void read_line(batch_run *r, size_t i, const char *path)
{
    batch_line *line = &r->at[i];
    weft_status status = WEFT_OK;
    line->number = r->lines.at[i].number;
    line->options = *r->options;
    line->options.seed += i;
    line->object = cli_parse_line(r->lines.at[i].text, r->lines.at[i].length);
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

static void print_id(const batch_line *line)
{
    if (line->id != NULL)
        printf("{\"id\": %s", json_object_to_json_string_ext(line->id, JSON_C_TO_STRING_PLAIN));
    else
        printf("{\"id\": %zu", line->number);
}

static void print_error(const batch_line *line, const char *message)
{
    print_id(line);
    fputs(", \"error\": ", stdout);
    cli_json_text(stdout, message, strlen(message));
    puts("}");
}

static void print_row(const batch_line *line, const weft_generated_row *row)
{
    if (row->status != WEFT_OK) {
        print_error(line, row->message ? row->message : weft_status_name(row->status));
        return;
    }
    print_id(line);
    fputs(", \"text\": ", stdout);
    cli_json_text(stdout, row->text ? row->text : "", row->length);
    fputs(", \"ids\": [", stdout);
    for (size_t i = 0; i < row->n; i++)
        printf("%s%d", i > 0 ? ", " : "", (int)row->ids[i]);
    printf("], \"reason\": \"%s\", \"reason_detail\": \"%s\", \"prompt_tokens\": %lld, "
           "\"tokens\": %lld}\n",
           weft_finish_name(row->stats.reason), weft_finish_detail_name(row->stats.detail),
           (long long)row->stats.prompt_tokens, (long long)row->stats.tokens);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Lines that could not be read have no request: the others' results are printed among them. */
static bool print_all(const batch_run *r, const weft_generated_row *rows, double took)
{
    int64_t prompts = 0, tokens = 0;
    size_t next = 0;
    bool good = true;
    for (size_t i = 0; i < r->lines.n; i++) {
        const batch_line *line = &r->at[i];
        if (line->message != NULL) {
            print_error(line, line->message);
            good = false;
            continue;
        }
        const weft_generated_row *row = &rows[next++];
        print_row(line, row);
        good = good && row->status == WEFT_OK;
        prompts += row->stats.prompt_tokens;
        tokens += row->stats.tokens;
    }
    if (r->values->stats)
        fprintf(stderr,
                "%s texts: %s prompt tokens, %s generated in %.3f s: %.1f tokens/s; peak memory "
                "%s\n",
                cli_count((int64_t)r->lines.n), cli_count(prompts), cli_count(tokens), took,
                took > 0 ? (double)tokens / took : 0, cli_bytes(weft_memory_peak()));
    return good;
}

/* ---- running -------------------------------------------------------------------------------- */

static weft_status run_requests(batch_run *r, bool *good)
{
    const size_t n = r->lines.n;
    weft_generate_request *requests = calloc(n + 1, sizeof *requests);
    weft_generated_row *rows = calloc(n + 1, sizeof *rows);
    size_t m = 0;
    weft_status status = WEFT_OK;
    if (requests == NULL || rows == NULL)
        status = weft_fail(WEFT_MEMORY, "generate: no memory");
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const batch_line *line = &r->at[i];
        if (line->message == NULL)
            requests[m++] = (weft_generate_request){{line->ids, line->n_ids}, &line->options};
    }
    const weft_generate_batch_options o = {.rows = r->values->batch_rows,
                                           .batch.invariant = r->values->invariant,
                                           .cancel = r->options->cancel};
    const double start = seconds();
    if (status == WEFT_OK)
        status = weft_generate_batch(r->model, r->tokenizer, requests, m, &o, NULL, NULL, rows);
    if (status == WEFT_OK) {
        *good = print_all(r, rows, seconds() - start);
        cli_profile_print();
    }
    if (rows != NULL)
        weft_generated_rows_free(rows, m);
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
    cli_lines_free(&r->lines);
    weft_chat_free(r->chat);
}

weft_status generate_batch(const generate_values *v, const char *path, weft_model *model,
                           const weft_tokenizer *tokenizer, const weft_generate_options *options,
                           bool *good)
{
    batch_run r = {.values = v, .model = model, .tokenizer = tokenizer, .options = options};
    weft_status status = cli_lines_read(v->batch, &r.lines);
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

/* Two models understand each other when every id means the same to both. */
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
                             name, (int)i, y ? y : "", x ? x : "");
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
