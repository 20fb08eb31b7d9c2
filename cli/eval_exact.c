/* cli/eval_exact.c -- weft eval --task exact: generates answers and counts exact matches. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"

/* The requests for all rows, and the number of finished ones. */
typedef struct batch {
    const eval_run *run;
    const weft_task_rows *rows;
    weft_generate_options options, chat; /* for plain prompts, for prompts in a chat template */
    weft_generate_request *requests;     /* (n) own their ids */
    weft_generated_row *results;
    size_t ended;
} batch;

static void show(void *context, size_t index, const weft_generated_row *row)
{
    batch *b = context;
    (void)index;
    (void)row;
    b->ended++;
    cli_progress_show(b->run->progress, (double)b->ended / (double)b->rows->n, false,
                      "%s: %s of %s rows", b->run->subject->name, cli_count((int64_t)b->ended),
                      cli_count((int64_t)b->rows->n));
}

static weft_status encode(const eval_run *run, const weft_task_row *row, weft_prompt *out)
{
    char *text;
    int32_t *ids = NULL;
    weft_status status = eval_prompt(run, row, &text);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(run->tokenizer, text, strlen(text),
                                       eval_is_spoken(run, row) ? 0 : WEFT_TOKENIZER_ADD_SPECIAL,
                                       &ids, &out->n);
    out->ids = ids;
    weft_free(text);
    return status;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static bool take_text(void *context, const weft_chat_event *event)
{
    char **text = context;
    if (event->kind != WEFT_CHAT_TEXT)
        return true;
    char *more = weft_format("%s%s", *text, event->text);
    weft_free(*text);
    *text = more;
    return more != NULL;
}

/* Extracts the answer from the generated text. For a prompt in a chat template, the reasoning is
 * removed. NULL when out of memory. */
static char *answer_of(const eval_run *run, const weft_task_row *row, const char *generated)
{
    char *prompt = NULL, *text = weft_strdup("");
    weft_chat_parser *parser = NULL;
    weft_status status = eval_prompt(run, row, &prompt);
    if (status == WEFT_OK && !eval_is_spoken(run, row)) {
        weft_free(text);
        text = weft_strdup(generated);
    } else if (status == WEFT_OK && text != NULL) {
        const weft_chat_markup markup = weft_chat_markup_of(run->chat, prompt, false);
        status = weft_chat_parser_new(&markup, take_text, &text, &parser);
        if (status == WEFT_OK)
            status = weft_chat_parser_push(parser, generated, strlen(generated));
        if (status == WEFT_OK)
            status = weft_chat_parser_finish(parser);
        weft_chat_parser_free(parser);
    }
    weft_free(prompt);
    if (status != WEFT_OK) {
        weft_free(text);
        text = NULL;
    }
    return text;
}

/* Whether two texts are equal, ignoring white space at both ends. */
static bool same(const char *a, const char *b)
{
    static const char space[] = " \t\n\v\f\r";
    a += strspn(a, space);
    b += strspn(b, space);
    size_t n = strlen(a), m = strlen(b);
    while (n > 0 && strchr(space, a[n - 1]))
        n--;
    while (m > 0 && strchr(space, b[m - 1]))
        m--;
    return n == m && memcmp(a, b, n) == 0;
}

static bool is_right(const weft_task_row *row, const char *answer)
{
    for (int i = 0; i < row->n_texts; i++) {
        if (same(row->texts[i], answer))
            return true;
    }
    return false;
}

static void print_details(const eval_run *run, const weft_task_row *row, const char *answer,
                          bool right)
{
    FILE *f = run->details;
    fputs("{\"model\": ", f);
    cli_json_text(f, run->subject->name, strlen(run->subject->name));
    fprintf(f, ", \"line\": %lld, \"exact\": %s, \"generated\": ", (long long)row->number,
            right ? "true" : "false");
    cli_json_text(f, answer, strlen(answer));
    fputs("}\n", f);
}

static weft_status judge(const batch *b, double *scores)
{
    for (size_t i = 0; i < b->rows->n; i++) {
        const weft_task_row *row = &b->rows->at[i];
        const weft_generated_row *r = &b->results[i];
        if (r->status != WEFT_OK)
            return weft_fail(r->status, "%s: %s", row->where, r->message);
        char *answer = answer_of(b->run, row, r->text);
        if (answer == NULL)
            return weft_fail(WEFT_MEMORY, "eval: out of memory for an answer");
        scores[i] = is_right(row, answer);
        if (b->run->details)
            print_details(b->run, row, answer, scores[i] > 0);
        weft_free(answer);
    }
    return WEFT_OK;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* Whether answers end at a newline: without --stop, for plain prompts, unless an accepted answer
 * has several lines. */
static bool stops_at_newline(const eval_run *run, const weft_task_rows *rows)
{
    bool one_line = run->values->stop.n == 0;
    for (size_t i = 0; i < rows->n; i++) {
        one_line = one_line && !eval_is_spoken(run, &rows->at[i]);
        for (int k = 0; k < rows->at[i].n_texts; k++)
            one_line = one_line && strchr(rows->at[i].texts[k], '\n') == NULL;
    }
    return one_line;
}

static weft_status generate(batch *b, double *scores)
{
    const eval_values *v = b->run->values;
    const weft_generate_batch_options o = {
        .rows = v->batch_size, .ended = show, .ended_context = b};
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < b->rows->n; i++) {
        const weft_task_row *row = &b->rows->at[i];
        b->requests[i].options = eval_is_spoken(b->run, row) ? &b->chat : &b->options;
        status = encode(b->run, row, &b->requests[i].prompt);
    }
    if (status == WEFT_OK)
        status = weft_generate_batch(b->run->model, b->run->tokenizer, b->requests, b->rows->n, &o,
                                     NULL, NULL, b->results);
    if (status == WEFT_OK)
        status = judge(b, scores);
    return status;
}

static bool has_chat(const eval_run *run, const weft_task_rows *rows)
{
    bool chat = false;
    for (size_t i = 0; i < rows->n; i++)
        chat = chat || eval_is_spoken(run, &rows->at[i]);
    return chat && run->chat;
}

/* Sets the options for both kinds of prompts. `texts` receives the stop texts for prompts in a chat
 * template. */
static void set_options(batch *b, const char **texts, const char *end)
{
    static const char *const newline = "\n";
    const eval_values *v = b->run->values;
    const bool line = stops_at_newline(b->run, b->rows);
    b->options = (weft_generate_options){.max_tokens = v->max_tokens,
                                         .stop_texts = line ? &newline : v->stop.at,
                                         .n_stop_texts = line ? 1 : v->stop.n};
    memcpy(texts, v->stop.at, (size_t)v->stop.n * sizeof *texts);
    texts[v->stop.n] = end;
    b->chat = (weft_generate_options){.max_tokens = v->max_tokens,
                                      .stop_texts = texts,
                                      .n_stop_texts = v->stop.n + (end != NULL),
                                      .keep_special = true}; /* markup may be special tokens */
}

weft_status eval_exact(const eval_run *run, const weft_task_rows *rows, eval_result *out)
{
    const char *texts[CLI_MOST + 1];
    char *end = NULL;
    double *scores = calloc(rows->n, sizeof *scores);
    batch b = {.run = run,
               .rows = rows,
               .requests = calloc(rows->n, sizeof *b.requests),
               .results = calloc(rows->n, sizeof *b.results)};
    weft_status status = WEFT_OK;
    if (b.requests == NULL || b.results == NULL || scores == NULL)
        status = weft_fail(WEFT_MEMORY, "eval: out of memory for %zu rows", rows->n);
    if (status == WEFT_OK && has_chat(run, rows))
        status = cli_end_of_turn(run->chat, &end);
    set_options(&b, texts, end);
    if (status == WEFT_OK)
        status = generate(&b, scores);
    for (size_t i = 0; b.requests != NULL && i < rows->n; i++)
        weft_free((int32_t *)b.requests[i].prompt.ids);
    if (b.results != NULL)
        weft_generated_rows_free(b.results, rows->n);
    free(b.requests);
    free(b.results);
    weft_free(end);
    if (status == WEFT_OK)
        eval_add_scores(out, "exact", scores, (int64_t)rows->n);
    else
        free(scores);
    return status;
}
