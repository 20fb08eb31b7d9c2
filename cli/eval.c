/* cli/eval.c -- weft eval: how well a model predicts a text. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "cli/shared.h"

typedef struct eval_values {
    const char *model, *adapter, *data;
    cli_place place;
    int64_t window, batch_size;
    double last;
    bool json;
} eval_values;

#define AT(field) .offset = offsetof(eval_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(eval_values, model), false}};

static const cli_option options[] = {
    CLI_DATA_OPTION(eval_values),
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
     .help = "windows computed together"},
    CLI_JSON_OPTION(eval_values, "print one JSON object"),
    CLI_PLACE_OPTIONS(eval_values),
};

static bool show(void *context, int64_t targets, int64_t total)
{
    cli_progress_show(context, (double)targets / (double)total, false, "%s of %s tokens",
                      cli_count(targets), cli_count(total));
    return true;
}

static weft_status load_data(const eval_values *v, const weft_tokenizer *tokenizer,
                             const weft_chat *chat, weft_dataset **out)
{
    /* The first token of a window is not predicted: it is the last of the window before. */
    const weft_dataset_options o = {.length = v->window + 1, .stride = v->window, .chat = chat};
    if (!(v->last > 0))
        return weft_dataset_load(v->data, tokenizer, &o, 0, out, NULL);
    weft_dataset *front = NULL;
    weft_status status = weft_dataset_load(v->data, tokenizer, &o, v->last, &front, out);
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

static int run(void *context)
{
    const eval_values *v = context;
    if (v->data == NULL)
        return cli_usage("eval", "--data FILE is needed");
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("eval", "%s", cli_place_complaint(&v->place));
    char path[4096];
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    weft_dataset *data = NULL;
    weft_evaluation result;
    cli_progress progress;
    cli_progress_start(&progress);
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &tokenizer);
    if (status == WEFT_OK)
        status = cli_load_template(path, &chat);
    if (status == WEFT_OK)
        status = load_data(v, tokenizer, chat, &data);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK) {
        const weft_evaluate_options o = {
            .batch_size = v->batch_size, .callback = show, .context = &progress};
        status = weft_evaluate(model, data, &o, &result);
    }
    cli_progress_clear(&progress);
    if (status == WEFT_OK)
        print_result(v, &result);
    weft_dataset_free(data);
    weft_tokenizer_free(tokenizer);
    weft_chat_free(chat);
    weft_model_free(model);
    return cli_status(status);
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "measure loss and perplexity on a text",
    .description = "Measures the mean negative log-likelihood of the tokens of a text, in windows "
                   "that do not overlap, each token predicted from those before it in its window.",
    .example = "weft eval storyteller --data book.txt\n"
               "weft eval MODEL --adapter weft-run/best --data valid.jsonl --json",
    CLI_TABLE(eval_values, arguments, options),
    .run = run,
};
