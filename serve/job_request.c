/* serve/job_request.c -- reads a request for a fine-tuning job, and writes the job's record. A job
 * is a run of weft train; its words are options of that command. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve/teach.h"
#include "weft/memory.h"

/* OpenAI's limits of metadata: pairs, and characters. */
enum { PAIRS = 16, KEY = 64, VALUE = 512 };

/* ---- reading a request ---------------------------------------------------------------------- */

static void add_word(json_object *words, const char *name, const char *value)
{
    char option[64];
    snprintf(option, sizeof option, "--%s", name);
    json_object_array_add(words, json_object_new_string(option));
    json_object_array_add(words, json_object_new_string(value));
}

static void add_number(json_object *words, const char *name, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    add_word(words, name, text);
}

/* Members of `weft` that are numbers: each is an option of weft train. */
static const struct {
    const char *key, *option;
    double low, high;
    bool whole;
} numbers[] = {
    {"rank", "rank", 1, 65536, true},
    {"alpha", "alpha", 1e-9, 65536, false},
    {"dropout", "dropout", 0, 0.999, false},
    {"learning_rate", NULL, 1e-12, 1e3, false}, /* times the multiplier */
    {"weight_decay", "weight-decay", 0, 1e3, false},
    {"max_length", "length", 2, 1 << 24, true},
    {"steps", "steps", 1, 1e9, true},
    {"warmup", "warmup", 0, 1e9, true},
    {"accumulate", "accumulate", 1, 1 << 20, true},
    {"micro_batch", "micro-batch", 1, 1 << 20, true},
    {"save_every", "save-every", 0, 1e9, true},
    {"validate_every", "val-every", 0, 1e9, true},
};

static weft_status read_number(json_object *object, const char *key, double low, double high,
                               bool whole, double *out)
{
    double number = NAN;
    const char *word = serve_plain(json_object_object_get(object, key));
    if (word != NULL && strcmp(word, "auto") == 0)
        return WEFT_OK;
    const weft_status status = serve_read_number(object, key, low, high, &number);
    if (status == WEFT_OK && whole && !isnan(number) && number != floor(number))
        return weft_fail(WEFT_INVALID, "%s: expected a whole number, got %.15g", key, number);
    if (status == WEFT_OK && !isnan(number))
        *out = number;
    return status;
}

/* Names of modules, joined for --targets. */
static weft_status read_targets(json_object *list, json_object *words)
{
    serve_text joined = {0};
    const size_t n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    bool fits = n > 0 && n <= 64;
    for (size_t i = 0; i < n && fits; i++) {
        const char *name = serve_plain(json_object_array_get_idx(list, i));
        fits = name != NULL && serve_is_name(name);
        serve_put(&joined, "%r%r", i > 0 ? "," : "", fits ? name : "");
    }
    if (fits && !joined.failed)
        add_word(words, "targets", joined.at);
    serve_text_free(&joined);
    return fits ? WEFT_OK
                : weft_fail(WEFT_INVALID, "weft: targets: expected a list of names of modules, as "
                                          "[\"q_proj\", \"v_proj\"]");
}

/* The extension object. *rate: its learning rate. */
static weft_status read_extension(json_object *weft, json_object *words, double *rate)
{
    enum { N = sizeof numbers / sizeof *numbers };
    if (weft == NULL)
        return WEFT_OK;
    if (!json_object_is_type(weft, json_type_object))
        return weft_fail(WEFT_INVALID, "weft: expected an object");
    json_object_object_foreach(weft, key, value)
    {
        size_t i = 0;
        double number = NAN;
        while (i < N && strcmp(numbers[i].key, key) != 0)
            i++;
        if (i == N && strcmp(key, "targets") != 0)
            return weft_fail(WEFT_INVALID, "weft: there is no member \"%s\"", weft_printable(key));
        const weft_status status = i == N ? read_targets(value, words)
                                          : read_number(weft, key, numbers[i].low, numbers[i].high,
                                                        numbers[i].whole, &number);
        if (status != WEFT_OK)
            return status;
        if (i < N && !isnan(number) && numbers[i].option == NULL)
            *rate = number;
        else if (i < N && !isnan(number))
            add_number(words, numbers[i].option, number);
    }
    return WEFT_OK;
}

/* The method and its hyperparameters, which older clients put beside it. */
static weft_status read_method(json_object *body, serve_job_request *q)
{
    json_object *method = json_object_object_get(body, "method");
    q->kind = "supervised";
    q->settings = json_object_object_get(body, "hyperparameters");
    if (method != NULL && !json_object_is_type(method, json_type_object))
        return weft_fail(WEFT_INVALID, "method: expected an object");
    weft_status status = method != NULL ? serve_read_text(method, "type", &q->kind) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (strcmp(q->kind, "supervised") != 0 && strcmp(q->kind, "dpo") != 0)
        return weft_fail(WEFT_UNSUPPORTED, "method: type: expected supervised or dpo, got \"%s\"",
                         weft_printable(q->kind));
    json_object *own = method != NULL ? json_object_object_get(method, q->kind) : NULL;
    json_object *inner = json_object_is_type(own, json_type_object)
                             ? json_object_object_get(own, "hyperparameters")
                             : NULL;
    q->settings = inner != NULL ? inner : q->settings;
    if (q->settings != NULL && !json_object_is_type(q->settings, json_type_object))
        return weft_fail(WEFT_INVALID, "hyperparameters: expected an object");
    if (q->settings == NULL)
        return WEFT_OK;
    status = read_number(q->settings, "n_epochs", 1e-6, 1e6, false, &q->epochs);
    if (status == WEFT_OK)
        status = read_number(q->settings, "batch_size", 1, 1 << 20, true, &q->batch);
    if (status == WEFT_OK)
        status =
            read_number(q->settings, "learning_rate_multiplier", 1e-9, 1e6, false, &q->multiplier);
    if (status == WEFT_OK)
        status = read_number(q->settings, "beta", 0, 1e3, false, &q->beta);
    return status;
}

static weft_status read_options(json_object *body, serve_job_request *q)
{
    double rate = WEFT_LORA_LEARNING_RATE;
    weft_status status = read_method(body, q);
    if (status == WEFT_OK)
        status = serve_read_count(body, "seed", 0, INT32_MAX, &q->seed);
    if (status == WEFT_OK)
        status = read_extension(json_object_object_get(body, "weft"), q->words, &rate);
    if (status != WEFT_OK)
        return status;
    json_object *weft = json_object_object_get(body, "weft");
    if (!isnan(q->epochs) && weft != NULL && json_object_object_get(weft, "steps") != NULL)
        return weft_fail(WEFT_INVALID, "weft: steps and n_epochs exclude each other");
    if (!isnan(q->epochs))
        add_number(q->words, "epochs", q->epochs);
    if (!isnan(q->batch))
        add_number(q->words, "batch-size", q->batch);
    add_number(q->words, "lr", isnan(q->multiplier) ? rate : rate * q->multiplier);
    add_number(q->words, "seed", (double)q->seed);
    if (strcmp(q->kind, "dpo") == 0)
        add_word(q->words, "objective", "dpo");
    if (strcmp(q->kind, "dpo") == 0 && !isnan(q->beta))
        add_number(q->words, "beta", q->beta);
    return WEFT_OK;
}

static size_t count_characters(json_object *text)
{
    const char *at = json_object_get_string(text);
    size_t n = 0;
    for (int i = 0; i < json_object_get_string_len(text); i++)
        n += ((unsigned char)at[i] & 0xC0) != 0x80;
    return n;
}

static weft_status read_metadata(json_object *body, serve_job_request *q)
{
    json_object *object = q->metadata = json_object_object_get(body, "metadata");
    if (object == NULL)
        return WEFT_OK;
    if (!json_object_is_type(object, json_type_object) || json_object_object_length(object) > PAIRS)
        return weft_fail(WEFT_INVALID, "metadata: expected an object of up to %d pairs",
                         (int)PAIRS);
    json_object_object_foreach(object, key, value)
    {
        json_object *name = json_object_new_string(key);
        const size_t n = name != NULL ? count_characters(name) : 0;
        json_object_put(name);
        if (n > KEY)
            return weft_fail(WEFT_INVALID,
                             "metadata: expected keys of up to %d characters, got %zu", (int)KEY,
                             n);
        if (serve_plain(value) == NULL || count_characters(value) > VALUE)
            return weft_fail(WEFT_INVALID, "metadata: %s: expected a string of up to %d characters",
                             weft_printable(key), (int)VALUE);
    }
    return WEFT_OK;
}

static weft_status read_names(serve_request *r, serve_job_request *q)
{
    const char *model = NULL;
    json_object *integrations = json_object_object_get(r->json, "integrations");
    weft_status status = serve_read_text(r->json, "model", &model);
    if (status == WEFT_OK)
        status = serve_read_text(r->json, "training_file", &q->training);
    if (status == WEFT_OK)
        status = serve_read_text(r->json, "validation_file", &q->validation);
    if (status == WEFT_OK)
        status = serve_read_text(r->json, "suffix", &q->suffix);
    if (status != WEFT_OK)
        return status;
    if (model == NULL || strcmp(model, r->server->options.name) != 0)
        return weft_fail(WEFT_INVALID, "model: expected \"%s\", whose adapters can be trained",
                         r->server->options.name);
    if (q->training == NULL)
        return weft_fail(WEFT_INVALID, "training_file: expected the id of a file");
    if (q->suffix != NULL && (!serve_is_name(q->suffix) || strlen(q->suffix) > 64))
        return weft_fail(WEFT_INVALID, "suffix: expected up to 64 letters, digits, '.', '_' and "
                                       "'-'");
    if (json_object_is_type(integrations, json_type_array) &&
        json_object_array_length(integrations) > 0)
        return weft_fail(WEFT_UNSUPPORTED, "integrations: expected none");
    return WEFT_OK;
}

weft_status serve_read_job(serve_request *r, serve_job_request *q)
{
    *q = (serve_job_request){.epochs = NAN, .batch = NAN, .multiplier = NAN, .beta = NAN};
    weft_status status = read_names(r, q);
    if (status == WEFT_OK)
        status = read_metadata(r->json, q);
    if (status == WEFT_OK && (q->words = json_object_new_array()) == NULL)
        status = weft_fail(WEFT_MEMORY, "out of memory for a job");
    return status == WEFT_OK ? read_options(r->json, q) : status;
}

/* ---- the record -------------------------------------------------------------------------------
 */

static void put_setting(serve_text *out, const char *name, double value)
{
    if (isnan(value))
        serve_put(out, "'%r': 'auto'", name);
    else
        serve_put(out, "'%r': %f", name, value);
}

static void put_settings(serve_text *out, const serve_job_request *q)
{
    serve_put(out, "{");
    put_setting(out, "n_epochs", q->epochs);
    serve_put(out, ", ");
    put_setting(out, "batch_size", q->batch);
    serve_put(out, ", ");
    put_setting(out, "learning_rate_multiplier", q->multiplier);
    if (strcmp(q->kind, "dpo") == 0) {
        serve_put(out, ", ");
        put_setting(out, "beta", q->beta);
    }
    serve_put(out, "}");
}

void serve_put_job(serve_text *text, const serve_request *r, const serve_job_request *q,
                   const char *id)
{
    const int64_t now = (int64_t)time(NULL);
    const serve_options *o = &r->server->options;
    serve_put(
        text,
        "{'id': %s, 'created_at': %i, 'base': %s, 'words': %o, 'events': [], 'object': "
        "{'id': %s, 'object': 'fine_tuning.job', 'created_at': %i, 'error': null, "
        "'fine_tuned_model': null, 'finished_at': null, 'model': %s, 'organization_id': "
        "'weft', 'result_files': [], 'seed': %i, 'status': 'queued', 'trained_tokens': null, ",
        id, now, o->identity, q->words, id, now, o->name, q->seed);
    serve_put(text,
              "'training_file': %s, 'validation_file': %s, 'user_provided_suffix': %s, "
              "'estimated_finish': null, 'integrations': [], 'hyperparameters': ",
              q->training, q->validation, q->suffix);
    put_settings(text, q);
    serve_put(text, ", 'method': {'type': %s, '%r': {'hyperparameters': ", q->kind, q->kind);
    put_settings(text, q);
    serve_put(text, "}}, 'metadata': ");
    if (q->metadata != NULL)
        serve_put(text, "%o}}", q->metadata);
    else
        serve_put(text, "null}}");
}
