/* cli/eval.c -- weft eval: how well a model predicts a text. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/data_options.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "cli/shared.h"

typedef struct eval_values {
    const char *model, *adapter;
    cli_data_source source;
    cli_place place;
    int64_t window, batch_size, context, chunks;
    double last;
    bool json;
} eval_values;

#define AT(field) .offset = offsetof(eval_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(eval_values, model), false}};

static const cli_option options[] = {
    CLI_DATA_PATHS_OPTION(eval_values),
    CLI_DATA_READING_OPTIONS(eval_values),
    CLI_ADAPTER_OPTION(eval_values),
    {.name = "window",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 1,
     .high = 1 << 20,
     AT(window),
     .help = "tokens predicted in one window, or the most in one sample"},
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
     .help = "windows or chunks computed together"},
    {.name = "context",
     .kind = CLI_INT,
     .value = "N",
     .low = 4,
     .high = 1 << 20,
     AT(context),
     .help = "perplexity as llama.cpp reports it: the whole file as one text, in chunks of N "
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
};

static bool show(void *context, int64_t targets, int64_t total)
{
    cli_progress_show(context, (double)targets / (double)total, false, "%s of %s tokens",
                      cli_count(targets), cli_count(total));
    return true;
}

static weft_status load_data(const eval_values *v, const char *path,
                             const weft_tokenizer *tokenizer, const weft_chat *chat,
                             weft_dataset **out)
{
    /* The first token of a window is not predicted: it is the last of the window before. */
    const weft_dataset_options o = {
        .length = v->window + 1, .stride = v->window, .tokenizer_path = path, .chat = chat};
    if (!(v->last > 0))
        return cli_data_load(&v->source, tokenizer, &o, 0, out, NULL);
    weft_dataset *front = NULL;
    weft_status status = cli_data_load(&v->source, tokenizer, &o, v->last, &front, out);
    weft_dataset_free(front);
    return status;
}

static void print_result(const eval_values *v, const weft_evaluation *e)
{
    if (v->json) {
        fputs("{\"loss\": ", stdout);
        cli_json_number(stdout, e->loss);
        fputs(", \"perplexity\": ", stdout);
        cli_json_number(stdout, e->perplexity);
        printf(", \"targets\": %lld, \"seconds\": %.6g, \"peak_memory\": %lld",
               (long long)e->targets, e->seconds, (long long)weft_memory_peak());
        cli_profile_json(stdout);
        puts("}");
    } else {
        printf("loss %.4f nats a token, perplexity %.2f, over %s tokens in %.1f s\n", e->loss,
               e->perplexity, cli_count(e->targets), e->seconds);
        cli_profile_print();
    }
}

static weft_status eval_windows(const eval_values *v, const weft_tokenizer *tokenizer,
                                const char *path, cli_progress *progress)
{
    weft_chat *chat = NULL;
    weft_dataset *data = NULL;
    weft_model *model = NULL;
    weft_evaluation result;
    weft_status status = cli_load_template(path, &chat);
    if (status == WEFT_OK)
        status = load_data(v, path, tokenizer, chat, &data);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK) {
        const weft_evaluate_options o = {
            .batch_size = v->batch_size, .callback = show, .context = progress};
        status = weft_evaluate(model, data, &o, &result);
    }
    cli_progress_clear(progress);
    if (status == WEFT_OK)
        print_result(v, &result);
    weft_dataset_free(data);
    weft_chat_free(chat);
    weft_model_free(model);
    return status;
}

/* ---- Chunks --------------------------------------------------------------------------------- */

static bool show_chunks(void *context, const weft_perplexity *so_far, int64_t chunks)
{
    cli_progress_show(context, (double)so_far->chunks / (double)chunks, false,
                      "%s of %s chunks, perplexity %.2f", cli_count(so_far->chunks),
                      cli_count(chunks), so_far->perplexity);
    return true;
}

static void print_perplexity(const eval_values *v, const weft_perplexity *p, double seconds)
{
    if (v->json) {
        fputs("{\"loss\": ", stdout);
        cli_json_number(stdout, p->loss);
        fputs(", \"perplexity\": ", stdout);
        cli_json_number(stdout, p->perplexity);
        fputs(", \"uncertainty\": ", stdout);
        cli_json_number(stdout, p->uncertainty);
        printf(", \"context\": %lld, \"chunks\": %lld, \"targets\": %lld, \"seconds\": %.6g, "
               "\"peak_memory\": %lld",
               (long long)v->context, (long long)p->chunks, (long long)p->targets, seconds,
               (long long)weft_memory_peak());
        cli_profile_json(stdout);
        puts("}");
    } else {
        printf("perplexity %.4f +/- %.5f, over %s tokens in %s chunks of %s, in %.1f s\n",
               p->perplexity, p->uncertainty, cli_count(p->targets), cli_count(p->chunks),
               cli_count(v->context), seconds);
        cli_profile_print();
    }
}

/* The ids of the whole file. *bos is the begin token that the tokenizer puts in front of a text,
 * which is then among the ids too; -1: none. */
static weft_status read_ids(const eval_values *v, const weft_tokenizer *tokenizer, int32_t **ids,
                            size_t *n, int32_t *bos)
{
    char *text = NULL;
    size_t length = 0;
    int32_t *around = NULL, *inside = NULL;
    size_t n_around = 0;
    weft_status status =
        weft_tokenizer_encode(tokenizer, "", 0, WEFT_TOKENIZER_ADD_SPECIAL, &around, &n_around);
    if (status == WEFT_OK) {
        const int32_t id = weft_tokenizer_bos(tokenizer);
        *bos = n_around > 0 && around[0] == id ? id : -1;
        status = cli_read_text(NULL, cli_data_first(&v->source), &text, &length);
    }
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, text, length, 0, &inside, n);
    if (status == WEFT_OK) {
        const size_t front = *bos >= 0;
        *ids = weft_malloc((*n + front) * sizeof **ids + 1);
        if (*ids == NULL)
            status = weft_fail(WEFT_MEMORY, "%s: no memory for %zu tokens",
                               weft_printable(cli_data_first(&v->source)), *n);
        if (status == WEFT_OK && front)
            (*ids)[0] = *bos;
        for (size_t i = 0; status == WEFT_OK && i < *n; i++)
            (*ids)[i + front] = inside[i];
        *n += front;
    }
    weft_free(inside);
    weft_free(around);
    weft_free(text);
    return status;
}

static weft_status eval_chunks(const eval_values *v, const weft_tokenizer *tokenizer,
                               const char *path, cli_progress *progress)
{
    int32_t *ids = NULL, bos = -1;
    size_t n = 0;
    weft_model *model = NULL;
    weft_perplexity result;
    weft_status status = read_ids(v, tokenizer, &ids, &n, &bos);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    const double start = cli_seconds();
    if (status == WEFT_OK) {
        const weft_perplexity_options o = {.context = v->context,
                                           .chunks = v->chunks != CLI_ABSENT ? v->chunks : 0,
                                           .bos = bos >= 0 ? &bos : NULL,
                                           .batch.tokens = v->batch_size * v->context,
                                           .callback = show_chunks,
                                           .callback_context = progress};
        status = weft_perplexity_chunks(model, ids, n, &o, &result);
    }
    cli_progress_clear(progress);
    if (status == WEFT_OK)
        print_perplexity(v, &result, cli_seconds() - start);
    weft_free(ids);
    weft_model_free(model);
    return status;
}

/* ---- Running -------------------------------------------------------------------------------- */

static const char *complaint(const eval_values *v)
{
    if (v->source.paths.n == 0)
        return "--data FILE is needed";
    if (v->chunks != CLI_ABSENT && v->context == CLI_ABSENT)
        return "--chunks needs --context N";
    if (v->context != CLI_ABSENT && v->last > 0)
        return "--last and --context cannot be combined";
    return cli_place_complaint(&v->place);
}

static int run(void *context)
{
    const eval_values *v = context;
    if (complaint(v) != NULL)
        return cli_usage("eval", "%s", complaint(v));
    char path[4096];
    weft_tokenizer *tokenizer = NULL;
    cli_progress progress;
    cli_progress_start(&progress);
    weft_status status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &tokenizer);
    if (status == WEFT_OK)
        status = v->context != CLI_ABSENT ? eval_chunks(v, tokenizer, path, &progress)
                                          : eval_windows(v, tokenizer, path, &progress);
    cli_progress_clear(&progress);
    weft_tokenizer_free(tokenizer);
    return cli_status(status);
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "measure loss and perplexity on a text",
    .description =
        "Measures the mean negative log-likelihood of the tokens of a text, in windows "
        "that do not overlap, each token predicted from those before it in its window.\n\n"
        "With --context N it prints the perplexity that llama.cpp's llama-perplexity "
        "reports with the same context: chunks of N tokens that do not overlap, the "
        "incomplete last one left out, each chunk's first token replaced by the begin "
        "token where the tokenizer adds one, the tokens at positions N/2 + 1 to N - 1 "
        "counted. With x the negative log-likelihoods of all M counted tokens, "
        "perplexity is exp(mean(x)), and the number behind +/- is perplexity times "
        "sqrt((mean(x^2) - mean(x)^2) / (M - 1)).",
    .example = "weft eval storyteller --data book.txt\n"
               "weft eval MODEL --adapter weft-run/best --data valid.jsonl --json\n"
               "weft eval MODEL --data wiki.test.raw --context 512 --chunks 100",
    CLI_TABLE(eval_values, arguments, options),
    .run = run,
};
