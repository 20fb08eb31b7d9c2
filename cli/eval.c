/* cli/eval.c -- weft eval: measures how well models predict a text or solve a task. */
#include "cli/eval.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/profile.h"
#include "cli/shared.h"
#include "cli/words.h"

#define AT(field) .offset = offsetof(eval_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(eval_values, model), false}};

static const cli_option options[] = {
    CLI_DATA_PATHS_OPTION(eval_values),
    CLI_DATA_READING_OPTIONS(eval_values),
    CLI_ADAPTER_OPTION(eval_values),
    {.name = "compare",
     .kind = CLI_TEXTS,
     .value = "DIR",
     AT(compare),
     .help = "measure this too, an adapter of MODEL (or several, as --adapter takes them) or "
             "another model, and print all in one table; may be given several times"},
    {.name = "task",
     .kind = CLI_CHOICE,
     .value = "loss|exact|choices|retrieval",
     .fallback = "loss",
     AT(task),
     .help =
         "what to measure. loss: the loss on the data. exact: generated answers, from rows "
         "with prompt and answer (a text or an array of texts), or training rows. choices: the "
         "most probable choice, from rows with prompt, choices and answer (an index from 0, or "
         "a text). retrieval: how well the vectors of queries find their passages, from rows of "
         "weft train --task embed"},
    {.name = "chat",
     .kind = CLI_FLAG,
     AT(chat),
     .help = "with --task: put each prompt into the model's chat template as a user message; rows "
             "with messages always use it, and training rows that training renders with it"},
    {.name = "stop",
     .kind = CLI_TEXTS,
     .value = "TEXT",
     AT(stop),
     .help =
         "with --task exact: end answers in front of TEXT; default: a newline, unless an answer "
         "has one or the prompt is in a chat template"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "256",
     .low = 1,
     .high = CLI_ANY,
     AT(max_tokens),
     .help = "with --task exact: the most tokens of an answer"},
    {.name = "rows",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     AT(rows),
     .help = "of a task: only the first N rows"},
    {.name = "details",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(details),
     .help = "of a task: write a line of JSON for each row and model"},
    CLI_FORCE_OPTION(eval_values, "replace the file of --details"),
    {.name = "window",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 1,
     .high = 1 << 20,
     AT(window),
     .help = "tokens predicted in one window, or the most in one sample; with --task retrieval the "
             "most in one text, by default the checkpoint's longest text or the model's positions"},
    {.name = "last",
     .kind = CLI_REAL,
     .value = "SHARE",
     .low = CLI_ABOVE_ZERO,
     .high = 0.999,
     AT(last),
     .help = "only the last part of the data: 0.1 is the last tenth"},
    {.name = "batch-size",
     .letter = 'b',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "8",
     .low = 1,
     .high = 1 << 20,
     AT(batch_size),
     .help = "windows, chunks or answers computed together"},
    {.name = "context",
     .kind = CLI_INT,
     .value = "N",
     .low = 4,
     .high = 1 << 20,
     AT(context),
     .help = "perplexity as llama.cpp reports it: all of --data as one text, in chunks of N "
             "tokens, each computed alone, the second half of each counted"},
    {.name = "chunks",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     AT(chunks),
     .help = "with --context: only the first N chunks"},
    CLI_JSON_OPTION(eval_values, "print one JSON object"),
    CLI_PLACE_OPTIONS(eval_values),
    CLI_ACTIVATIONS_OPTION(eval_values),
};

/* ---- What is measured ----------------------------------------------------------------------- */

static bool is_file(const char *folder, const char *name)
{
    struct stat what;
    char *path = weft_format("%s/%s", folder, name);
    const bool found = path && stat(path, &what) == 0 && S_ISREG(what.st_mode);
    weft_free(path);
    return found;
}

static bool is_gguf_adapter(const char *path)
{
    const size_t n = strlen(path);
    weft_gguf *file = NULL;
    weft_gguf_string type = {0};
    if (n < 5 || strcmp(path + n - 5, ".gguf") != 0 || weft_gguf_open(path, &file) != WEFT_OK)
        return false;
    const weft_gguf_value *value = weft_gguf_value_find(file, "general.type");
    const bool adapter = value && weft_gguf_value_string(value, 0, &type) && type.n == 7 &&
                         memcmp(type.at, "adapter", 7) == 0;
    weft_gguf_close(file);
    return adapter;
}

/* Whether a value of --compare lists adapters, as --adapter does; otherwise it names a model. */
static bool is_adapter(const char *text)
{
    char *first = weft_format("%.*s", (int)strcspn(text, ":,"), text);
    const bool adapter = first && (is_file(first, "adapter_config.json") || is_gguf_adapter(first));
    weft_free(first);
    return adapter;
}

static weft_status find_subject(const eval_values *v, int i, eval_subject *out)
{
    const char *compared = i > 0 ? v->compare.at[i - 1] : NULL;
    const bool adapter = compared && is_adapter(compared);
    *out = (eval_subject){.name = compared     ? compared
                                  : v->adapter ? v->adapter
                                               : v->model,
                          .adapter = adapter    ? compared
                                     : compared ? NULL
                                                : v->adapter};
    const char *model = compared && !adapter ? compared : v->model;
    return cli_find_model(&v->place, model, out->path, sizeof out->path);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static weft_status open_run(eval_run *run)
{
    const eval_subject *s = run->subject;
    weft_status status = weft_adapter_tokenizer(s->path, s->adapter, &run->tokenizer);
    if (status == WEFT_OK && run->values->context == CLI_ABSENT)
        status = cli_load_template(s->path, s->adapter, &run->chat);
    if (status == WEFT_OK)
        status = cli_load_model(s->path, &run->values->place, s->adapter, &run->model);
    if (status == WEFT_OK && run->labels->n == 0 && weft_model_info_of(run->model)->n_labels > 0)
        status = weft_fail(WEFT_UNSUPPORTED, "eval: several adapters of which one is of a "
                                             "classifier");
    if (status == WEFT_OK && run->labels->n > 0 &&
        (run->values->task != EVAL_LOSS || run->values->context != CLI_ABSENT))
        status =
            weft_fail(WEFT_UNSUPPORTED, "eval: classifiers have a loss and an accuracy: --task %s",
                      run->values->task == EVAL_LOSS ? "loss without --context" : "loss");
    return status;
}

static void close_run(eval_run *run)
{
    weft_model_free(run->model);
    weft_chat_free(run->chat);
    weft_tokenizer_free(run->tokenizer);
}

/* Measures one subject. With `profiled`, --profile starts once the model is loaded. */
static weft_status measure(eval_run *run, const weft_task_rows *rows, bool profiled,
                           eval_result *out)
{
    const int task = run->values->task;
    weft_perplexity p = {0};
    *out = (eval_result){.name = run->subject->name};
    weft_status status = open_run(run);
    const double start = cli_seconds();
    if (status == WEFT_OK && profiled)
        status = cli_profile_start(&run->values->place);
    if (status == WEFT_OK && run->values->context != CLI_ABSENT) {
        status = eval_perplexity(run, &p);
        out->metrics[0] = (eval_metric){
            "loss", p.loss, p.perplexity > 0 ? p.uncertainty / p.perplexity : 0, NULL, false};
        out->metrics[1] = (eval_metric){"perplexity", p.perplexity, p.uncertainty, NULL, false};
        out->n_metrics = 2;
        out->n = p.targets;
        out->chunks = p.chunks;
    } else if (status == WEFT_OK) {
        status = task == EVAL_EXACT       ? eval_exact(run, rows, out)
                 : task == EVAL_CHOICES   ? eval_choices(run, rows, out)
                 : task == EVAL_RETRIEVAL ? eval_retrieval(run, out)
                 : run->labels->n > 0     ? eval_classifier(run, out)
                                          : eval_loss(run, out);
    }
    close_run(run);
    cli_progress_clear(run->progress);
    out->seconds = cli_seconds() - start;
    return status;
}

/* Says why the results of two subjects cannot be compared. */
static void warn_of_numbers(const eval_result *r, const eval_result *first)
{
    if (r->rows)
        weft_log_message(WEFT_LOG_WARNING,
                         "%s is measured on %lld rows and the first model on %lld: they cannot be "
                         "compared",
                         weft_printable(r->name), (long long)r->n, (long long)first->n);
    else
        weft_log_message(WEFT_LOG_WARNING,
                         "%s has another tokenizer: losses per token cannot be compared",
                         weft_printable(r->name));
}

static weft_status measure_all(const eval_values *v, const weft_task_rows *rows,
                               eval_result *results, FILE *details)
{
    const int n = v->compare.n + 1;
    eval_subject *subjects = calloc((size_t)n, sizeof *subjects);
    weft_labels labels = {0};
    cli_progress progress;
    cli_progress_start(&progress);
    weft_status status = WEFT_OK;
    if (subjects == NULL)
        status = weft_fail(WEFT_MEMORY, "eval: out of memory for %d models", n);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        status = find_subject(v, i, &subjects[i]);
    if (status == WEFT_OK)
        status = eval_find_labels(subjects, n, &labels);
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        eval_run run = {.values = v,
                        .subject = &subjects[i],
                        .labels = &labels,
                        .progress = &progress,
                        .details = details};
        status = measure(&run, rows, i == 0, &results[i]);
        if (status == WEFT_OK && results[i].n != results[0].n)
            warn_of_numbers(&results[i], &results[0]);
    }
    cli_progress_clear(&progress);
    weft_labels_free(&labels);
    free(subjects);
    return status;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* Options that only some tasks accept. */
static const struct {
    const char *name;
    unsigned tasks; /* a bit for each task that accepts it */
    const char *complaint;
} limited[] = {
    {"window", 1 << EVAL_LOSS | 1 << EVAL_RETRIEVAL, "--window is for --task loss and retrieval"},
    {"batch-size", 1 << EVAL_LOSS | 1 << EVAL_EXACT | 1 << EVAL_CHOICES,
     "--batch-size is not for --task retrieval"},
    {"last", 1 << EVAL_LOSS, "--last is for --task loss"},
    {"context", 1 << EVAL_LOSS, "--context is for --task loss"},
    {"long", 1 << EVAL_LOSS | 1 << EVAL_RETRIEVAL, "--long is for --task loss and retrieval"},
    {"token-cache", 1 << EVAL_LOSS | 1 << EVAL_RETRIEVAL,
     "--token-cache is for --task loss and retrieval"},
    {"chat", 1 << EVAL_EXACT | 1 << EVAL_CHOICES, "--chat is for --task exact and choices"},
    {"rows", 1 << EVAL_EXACT | 1 << EVAL_CHOICES, "--rows is for --task exact and choices"},
    {"details", 1 << EVAL_EXACT | 1 << EVAL_CHOICES, "--details is for --task exact and choices"},
    {"max-tokens", 1 << EVAL_EXACT, "--max-tokens is for --task exact"},
    {"stop", 1 << EVAL_EXACT, "--stop is for --task exact"},
};

static const char *complaint(const eval_values *v)
{
    if (v->source.paths.n == 0)
        return "--data FILE is needed";
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++) {
        if (!(limited[i].tasks >> v->task & 1) &&
            cli_is_given(&cli_eval, &v->given, limited[i].name))
            return limited[i].complaint;
    }
    if (v->chunks != CLI_ABSENT && v->context == CLI_ABSENT)
        return "--chunks needs --context N";
    if (v->context != CLI_ABSENT && v->last > 0)
        return "--last and --context cannot be combined";
    return cli_place_complaint(&v->place);
}

static weft_status run_with(const eval_values *v, eval_result *results)
{
    weft_task_rows rows = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *details = v->details ? open_memstream(&text, &size) : NULL;
    weft_status status = cli_check_file(v->details, "{\"model\":", v->force);
    for (int i = 0; status == WEFT_OK && i < v->source.paths.n; i++)
        status = cli_check_input(v->details, v->source.paths.at[i]);
    if (status == WEFT_OK && v->details && details == NULL)
        status = weft_fail(WEFT_MEMORY, "eval: out of memory for --details");
    if (status == WEFT_OK && (v->task == EVAL_EXACT || v->task == EVAL_CHOICES))
        status = eval_rows_read(v, &rows);
    if (status == WEFT_OK)
        status = measure_all(v, &rows, results, details);
    weft_task_rows_free(&rows);
    if (details && fclose(details) != 0 && status == WEFT_OK)
        status = weft_fail(WEFT_MEMORY, "eval: out of memory for --details");
    if (details && status == WEFT_OK)
        status = weft_file_write(v->details, text, size);
    free(text);
    return status;
}

static int run_on(const eval_values *v)
{
    if (complaint(v) != NULL)
        return cli_usage("eval", "%s", complaint(v));
    const int n = v->compare.n + 1;
    eval_result *results = calloc((size_t)n, sizeof *results);
    if (results == NULL)
        return cli_fail("eval", "out of memory");
    const weft_status status = run_with(v, results);
    if (status == WEFT_OK)
        eval_print(v, results, n);
    for (int i = 0; i < n * EVAL_METRICS; i++)
        free(results[i / EVAL_METRICS].metrics[i % EVAL_METRICS].scores);
    free(results);
    return cli_status(status);
}

/* Measures on test.jsonl of folders in mlx-lm's layout. */
static int run(void *context)
{
    eval_values v = *(const eval_values *)context;
    char *parts[CLI_MOST];
    if (cli_data_parts(&v.source, "test.jsonl", parts) < 0)
        return cli_fail("eval", "out of memory");
    for (int i = 0; i < v.source.paths.n; i++) {
        if (parts[i])
            v.source.paths.at[i] = parts[i];
    }
    const int code = run_on(&v);
    cli_data_parts_free(&v.source, parts);
    return code;
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "measure the loss of models on data, or how well they do a task",
    .description =
        "Measures the mean negative log-likelihood of the tokens of a text, in windows "
        "without overlap; each token is predicted from the previous ones of its window. The "
        "number after +/- is the standard error over windows or rows.\n\n"
        "--compare adds a row for another adapter or model, such as a fused one. The first "
        "row is MODEL, and a change is the difference from it; for tasks its standard error "
        "is that of the differences per row.\n\n"
        "With a classifier, or an adapter of weft train --task classify, the rows of --data have "
        "text and label, and "
        "the loss and the accuracy of the labels are measured. A MODEL that is no classifier is "
        "then the row \"label frequencies\": it always predicts the most frequent label, with the "
        "probabilities of the labels in the data.\n\n"
        "--task exact generates an answer for each row, greedily, and counts those that equal "
        "the row's answer, or one of several, ignoring white space around them. Rows are read as "
        "weft train reads them, in the same formats: without \"answer\", the answer is the row's "
        "completion, output or response, or the last message of a conversation.\n\n"
        "--task choices compares the log-probabilities of the choices after the prompt. acc "
        "is the share of rows where the right choice has the largest sum over its tokens; "
        "acc_norm divides the sum by the number of characters, as lm-evaluation-harness does. "
        "A space is inserted between prompt and choice unless one of them has white space "
        "there or the prompt is in a chat template.\n\n"
        "--task retrieval ranks all passages of the rows for each query by the cosines of their "
        "vectors, as weft embed makes them. ndcg@10 and mrr@10 value passages of the row among the "
        "first ten, the earlier the more; recall@k is the share of them among the first k. "
        "Negatives in the rows are passages as well, and equal texts are one.\n\n"
        "--context N prints the perplexity that llama.cpp's llama-perplexity computes with "
        "that context. The text is divided into chunks of N tokens; an incomplete last chunk "
        "is dropped. If the tokenizer adds a begin token, it replaces the first token of each "
        "chunk. Tokens at positions N/2 + 1 to N - 1 count. With x the negative "
        "log-likelihoods of these M tokens, perplexity is exp(mean(x)), and the number after "
        "+/- is perplexity times sqrt((mean(x^2) - mean(x)^2) / (M - 1)).",
    .example = "weft eval storyteller --data book.txt\n"
               "weft eval MODEL --data valid.jsonl --compare weft-run/best --compare fused\n"
               "weft eval MODEL --task exact --data questions.jsonl --chat\n"
               "weft eval MODEL --task choices --data choices.jsonl --compare weft-run/best\n"
               "weft eval MODEL --task retrieval --data pairs.jsonl --compare weft-run/best\n"
               "weft eval MODEL --data wiki.test.raw --context 512 --chunks 100",
    CLI_TABLE(eval_values, arguments, options),
    .given = offsetof(eval_values, given),
    .run = run,
};
