/* cli/classify_choices.c -- computes the model's choices for weft classify. */
#include <stdlib.h>
#include <string.h>

#include "cli/classify.h"
#include "cli/shared.h"

static int best_first(const void *a, const void *b)
{
    const classify_choice *x = a, *y = b;
    if (x->logprob != y->logprob)
        return x->logprob > y->logprob ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Sorts the choices, and computes the softmax of their log-probabilities. */
static void finish(classify_choice *choices, size_t n)
{
    double sum = 0;
    qsort(choices, n, sizeof *choices, best_first);
    for (size_t i = 0; i < n; i++)
        sum += exp(choices[i].logprob - choices[0].logprob);
    for (size_t i = 0; i < n; i++)
        choices[i].share = exp(choices[i].logprob - choices[0].logprob) / sum;
}

/* The number of logits: the vocabulary size, or the number of labels of a classifier. */
static size_t count_outputs(const weft_model *model)
{
    const weft_model_info *info = weft_model_info_of(model);
    return (size_t)(info->n_labels > 0 ? info->n_labels : info->vocab_size);
}

/* ---- Tokens --------------------------------------------------------------------------------- */

enum {
    BEFORE = 8
}; /* preceding tokens that are decoded first, since a token's text can depend on them */

/* The text of a token that follows a prompt, in new memory (weft_free); NULL after a failure. */
static char *token_text(const weft_tokenizer *tokenizer, const cli_input *t, int32_t id)
{
    const size_t first = t->n_ids > BEFORE ? t->n_ids - BEFORE : 0;
    weft_detokenizer *d = NULL;
    const char *text = "", *rest = "";
    char *all = NULL, *pushed = NULL;
    weft_status status = weft_detokenizer_new(tokenizer, 0, &d);
    for (size_t i = first; status == WEFT_OK && i < t->n_ids; i++)
        status = weft_detokenizer_push(d, t->ids[i], &text, NULL);
    if (status == WEFT_OK)
        status = weft_detokenizer_push(d, id, &text, NULL);
    pushed = status == WEFT_OK ? weft_strdup(text)
                               : NULL; /* copied, since the next call overwrites it */
    if (pushed != NULL && weft_detokenizer_finish(d, &rest, NULL) == WEFT_OK)
        all = weft_format("%s%s", pushed, rest);
    weft_free(pushed);
    weft_detokenizer_free(d);
    return all;
}

static void print_tokens(const classify_values *v, const classify_run *r, cli_input *t,
                         const float *logits, classify_choice *choices)
{
    const size_t V = count_outputs(r->model);
    const size_t top = v->top == CLI_ABSENT ? 1 : (size_t)v->top;
    const size_t n = V < top ? V : top;
    for (size_t i = 0; i < V; i++)
        choices[i] = (classify_choice){.id = (int32_t)i, .logprob = (double)logits[i]};
    finish(choices, V);
    for (size_t i = 0; i < n; i++) {
        choices[i].logprob = log(choices[i].share);
        choices[i].text = token_text(r->tokenizer, t, choices[i].id);
        choices[i].length = choices[i].text != NULL ? strlen(choices[i].text) : 0;
        if (choices[i].text == NULL)
            cli_input_fail(t);
    }
    classify_print(v, t, choices, t->message == NULL ? n : 0);
    for (size_t i = 0; i < n; i++)
        weft_free((char *)choices[i].text);
}

/* Prints a classifier's labels like those of --labels. */
static void print_classes(const classify_values *v, const classify_run *r, const cli_input *t,
                          const float *logits, classify_choice *choices)
{
    const size_t n = count_outputs(r->model);
    classify_values shown = *v;
    shown.labels = "";
    for (size_t i = 0; i < n; i++) {
        const char *label = weft_model_label(r->model, (int64_t)i);
        choices[i] = (classify_choice){
            .text = label, .length = strlen(label), .id = (int32_t)i, .logprob = (double)logits[i]};
    }
    finish(choices, n);
    for (size_t i = 0; i < n; i++)
        choices[i].logprob = log(choices[i].share);
    classify_print(&shown, t, choices, n);
}

/* Prints the token that was drawn. */
static void print_drawn(const classify_values *v, const classify_run *r, cli_input *t,
                        const weft_classified *drawn)
{
    classify_choice choice = {.id = drawn->token, .logprob = drawn->logprob};
    choice.share = exp(choice.logprob);
    choice.text = token_text(r->tokenizer, t, choice.id);
    choice.length = choice.text != NULL ? strlen(choice.text) : 0;
    if (choice.text == NULL)
        cli_input_fail(t);
    classify_print(v, t, &choice, t->message == NULL ? 1 : 0);
    weft_free((char *)choice.text);
}

static weft_status show_tokens(const classify_values *v, classify_run *r,
                               const weft_classified *results)
{
    const size_t V = count_outputs(r->model);
    classify_choice *choices = malloc(V * sizeof *choices);
    if (choices == NULL)
        return weft_fail(WEFT_MEMORY, "classify: no memory");
    for (size_t i = 0; i < r->texts.n; i++) {
        cli_input *t = &r->texts.at[i];
        if (t->message == NULL && results[i].status != WEFT_OK) {
            weft_fail(results[i].status, "%s", results[i].message);
            cli_input_fail(t);
        }
        if (t->message == NULL && v->temperature > 0)
            print_drawn(v, r, t, &results[i]);
        else if (t->message == NULL && weft_model_info_of(r->model)->n_labels > 0)
            print_classes(v, r, t, results[i].logits, choices);
        else if (t->message == NULL)
            print_tokens(v, r, t, results[i].logits, choices);
        else
            classify_print(v, t, NULL, 0);
    }
    free(choices);
    return WEFT_OK;
}

/* Writes all logits to --logits FILE. */
static weft_status write_logits(const classify_values *v, const classify_run *r,
                                const weft_classified *results)
{
    const size_t V = count_outputs(r->model), n = r->texts.n;
    float *all = malloc((n * V + 1) * sizeof *all);
    if (all == NULL)
        return weft_fail(WEFT_MEMORY, "classify: no memory for the logits of %zu texts", n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < V; k++)
            all[i * V + k] = results[i].logits != NULL ? results[i].logits[k] : NAN;
    }
    weft_scope_open();
    weft_array *logits = weft_from_data(all, WEFT_FLOAT32, WEFT_DIMS((int64_t)n, (int64_t)V));
    const weft_status status = weft_safetensors_save(v->logits, &(const char *){"logits"}, &logits,
                                                     1, CLI_LOGITS_METADATA, 1);
    weft_scope_close(NULL);
    free(all);
    return status;
}

/* Prints a token from another program, of which only the text is known. */
static void print_foreign(const classify_values *v, const classify_run *r, cli_input *t,
                          const weft_classified *found)
{
    classify_choice choice = {
        .id = found->token, .logprob = found->logprob, .share = exp(found->logprob)};
    char *text = NULL;
    if (t->message == NULL && found->status != WEFT_OK) {
        weft_fail(found->status, "%s", found->message);
        cli_input_fail(t);
    } else if (t->message == NULL &&
               weft_engine_decode(r->engine, &choice.id, 1, 0, &text, &choice.length) != WEFT_OK) {
        cli_input_fail(t);
    }
    choice.text = text;
    classify_print(v, t, &choice, t->message == NULL ? 1 : 0);
    weft_free(text);
}

weft_status classify_by_engine(const classify_values *v, classify_run *r)
{
    const size_t n = r->texts.n;
    const char **texts = malloc((n + 1) * sizeof *texts);
    weft_classified *results = calloc(n + 1, sizeof *results);
    weft_status status = WEFT_OK;
    if (texts == NULL || results == NULL)
        status = weft_fail(WEFT_MEMORY, "classify: no memory");
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        cli_input *t = &r->texts.at[i];
        texts[i] = t->message == NULL ? t->text : "";
        if (t->message == NULL && strlen(t->text) != t->length) {
            weft_fail(WEFT_INVALID,
                      "classify: a text with a NUL, which another program cannot be given");
            cli_input_fail(t);
        }
    }
    const weft_classify_options o = {.sampler.temperature = v->temperature,
                                     .seed = (uint64_t)v->seed};
    if (status == WEFT_OK)
        status = weft_engine_classify(r->engine, texts, n, &o, results);
    for (size_t i = 0; status == WEFT_OK && i < n; i++)
        print_foreign(v, r, &r->texts.at[i], &results[i]);
    if (results != NULL)
        weft_classified_free(results, n);
    free(results);
    free(texts);
    return status;
}

weft_status classify_by_token(const classify_values *v, classify_run *r)
{
    weft_prompt *prompts = malloc((r->texts.n + 1) * sizeof *prompts);
    weft_classified *results = calloc(r->texts.n + 1, sizeof *results);
    weft_status status = WEFT_OK;
    if (prompts == NULL || results == NULL)
        status = weft_fail(WEFT_MEMORY, "classify: no memory");
    for (size_t i = 0; status == WEFT_OK && i < r->texts.n; i++)
        prompts[i] = (weft_prompt){r->texts.at[i].ids, r->texts.at[i].n_ids};
    const weft_classify_options o = {.sampler.temperature = v->temperature,
                                     .seed = (uint64_t)v->seed,
                                     .logits = v->temperature == 0 || v->logits != NULL,
                                     .batch = {v->batch_tokens, v->invariant}};
    if (status == WEFT_OK)
        status = weft_classify(r->model, prompts, r->texts.n, &o, results);
    if (status == WEFT_OK && v->logits != NULL)
        status = write_logits(v, r, results);
    if (status == WEFT_OK)
        status = show_tokens(v, r, results);
    if (results != NULL)
        weft_classified_free(results, r->texts.n);
    free(results);
    free(prompts);
    return status;
}

/* ---- Labels --------------------------------------------------------------------------------- */

/* The labels, and a scoring request for each pair of text and label. */
typedef struct labeling {
    classify_choice *labels; /* in the order of the command line */
    size_t n;
    weft_score_request *requests; /* text i with label l has index i n + l */
    weft_scored *results;
    size_t n_requests;
} labeling;

static weft_status split_labels(const char *text, labeling *x)
{
    size_t most = 1;
    for (const char *p = text; *p != '\0'; p++)
        most += *p == ',';
    x->labels = calloc(most, sizeof *x->labels);
    if (x->labels == NULL)
        return weft_fail(WEFT_MEMORY, "classify: no memory");
    for (const char *p = text; x->n < most; p += x->labels[x->n++].length + 1)
        x->labels[x->n] = (classify_choice){.text = p, .length = strcspn(p, ",")};
    for (size_t i = 0; i < x->n; i++) {
        if (x->labels[i].length == 0)
            return weft_fail(WEFT_INVALID, "classify: --labels: label %zu is empty", i + 1);
    }
    return WEFT_OK;
}

/* The ids of a text followed by a label. Tokens at the boundary may differ from the text's own. */
static weft_status encode_pair(const classify_run *r, const cli_input *t,
                               const classify_choice *label, unsigned flags, weft_prompt *out)
{
    const size_t n = t->length + label->length;
    char *both = malloc(n + 1);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (both == NULL)
        return weft_fail(WEFT_MEMORY, "classify: no memory");
    memcpy(both, t->text, t->length);
    memcpy(both + t->length, label->text, label->length);
    weft_status status = weft_tokenizer_encode(r->tokenizer, both, n, flags, &ids, &n_ids);
    *out = (weft_prompt){ids, n_ids};
    free(both);
    return status;
}

static size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* All labels of a text are scored from where the first of them differs from the text alone, so that
 * they are compared over the same characters. */
static weft_status make_requests(const classify_run *r, cli_input *t, const labeling *x,
                                 unsigned flags, weft_score_request *requests)
{
    size_t from = t->n_ids;
    weft_status status = WEFT_OK;
    for (size_t l = 0; status == WEFT_OK && l < x->n; l++) {
        weft_prompt *own = &requests[l].text;
        status = encode_pair(r, t, &x->labels[l], flags, own);
        const size_t same = common(t->ids, t->n_ids, own->ids, own->n);
        from = same < from ? same : from;
    }
    if (status == WEFT_OK && from == 0)
        status = weft_fail(WEFT_INVALID, "classify: no token stands in front of the labels");
    for (size_t l = 0; l < x->n; l++)
        requests[l].from = from;
    return status;
}

static weft_status show_labels(const classify_values *v, classify_run *r, labeling *x)
{
    classify_choice *choices = malloc((x->n + 1) * sizeof *choices);
    if (choices == NULL)
        return weft_fail(WEFT_MEMORY, "classify: no memory");
    for (size_t i = 0; i < r->texts.n; i++) {
        cli_input *t = &r->texts.at[i];
        for (size_t l = 0; l < x->n; l++) {
            const weft_scored *s = &x->results[i * x->n + l];
            if (t->message == NULL && s->status != WEFT_OK) {
                weft_fail(s->status, "%s", s->message);
                cli_input_fail(t);
            }
            choices[l] = x->labels[l];
            choices[l].id = (int32_t)l;
            choices[l].logprob = s->logprob;
        }
        finish(choices, x->n);
        classify_print(v, t, choices, t->message == NULL ? x->n : 0);
    }
    free(choices);
    return WEFT_OK;
}

weft_status classify_by_labels(const classify_values *v, classify_run *r)
{
    const unsigned flags = v->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL;
    labeling x = {0};
    weft_status status = split_labels(v->labels, &x);
    if (status == WEFT_OK) {
        x.n_requests = r->texts.n * x.n;
        x.requests = calloc(x.n_requests + 1, sizeof *x.requests);
        x.results = calloc(x.n_requests + 1, sizeof *x.results);
        if (x.requests == NULL || x.results == NULL)
            status = weft_fail(WEFT_MEMORY, "classify: no memory");
    }
    for (size_t i = 0; status == WEFT_OK && i < r->texts.n; i++) {
        cli_input *t = &r->texts.at[i];
        if (t->message == NULL && make_requests(r, t, &x, flags, x.requests + i * x.n) != WEFT_OK)
            cli_input_fail(t);
    }
    const weft_batch_options o = {v->batch_tokens, v->invariant};
    if (status == WEFT_OK)
        status = weft_score(r->model, x.requests, x.n_requests, &o, x.results);
    if (status == WEFT_OK)
        status = show_labels(v, r, &x);
    for (size_t i = 0; x.requests != NULL && i < x.n_requests; i++)
        weft_free((int32_t *)x.requests[i].text.ids);
    if (x.results != NULL)
        weft_scored_free(x.results, x.n_requests);
    free(x.requests);
    free(x.results);
    free(x.labels);
    return status;
}
