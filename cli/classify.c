/* cli/classify.c -- weft classify: one token, or the best of some labels, for each of many texts.
 */
#include "cli/classify.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/profile.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(classify_values, field)

static const cli_argument arguments[] = {
    {"MODEL", offsetof(classify_values, model), false},
    {"TEXT", offsetof(classify_values, texts), CLI_MANY},
};

static const cli_option options[] = {
    CLI_INPUTS_OPTION(classify_values),
    {.name = "labels",
     .letter = 'l',
     .kind = CLI_TEXT,
     .value = "A,B,C",
     AT(labels),
     .help = "choose among these: the one whose tokens are the most probable behind the text"},
    {.name = "top",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = 1000,
     AT(top),
     .help = "show the N most probable tokens, or labels; default: 1, and with --json all labels"},
    {.name = "temperature",
     .letter = 't',
     .kind = CLI_REAL,
     .value = "T",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(temperature),
     .help = "above 0: draw the token, as weft generate does, and show only "
             "that one"},
    {.name = "seed",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(seed),
     .help = "of the draws: text i draws with N + i"},
    {.name = "logits",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(logits),
     .help = "also write all logits to a safetensors file: float32 logits (texts, vocabulary), NaN "
             "for a text that failed"},
    CLI_ADAPTER_OPTION(classify_values),
    CLI_BACKEND_OPTION(classify_values),
    CLI_NO_SPECIAL_OPTION(classify_values),
    {.name = "batch-tokens",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "2048",
     .low = 1,
     .high = CLI_ANY,
     AT(batch_tokens),
     .help = "tokens of one forward, the padding counted"},
    CLI_INVARIANT_OPTION(classify_values),
    CLI_FORCE_OPTION(classify_values, "replace the file of --logits"),
    CLI_JSON_OPTION(classify_values, "print one JSON object a text, with log-probabilities"),
    CLI_PLACE_OPTIONS(classify_values),
    CLI_ACTIVATIONS_OPTION(classify_values),
};

/* ---- Output --------------------------------------------------------------------------------- */

static void print_plain(const classify_values *v, const cli_input *t,
                        const classify_choice *choices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putchar('\t');
        if (v->labels != NULL)
            cli_write_text(choices[i].text, choices[i].length);
        else
            cli_json_text(stdout, choices[i].text, choices[i].length);
        if (!isnan(choices[i].share))
            printf("\t%.4f", choices[i].share);
    }
    putchar('\n');
    if (t->message != NULL)
        fprintf(stderr, "weft: %s\n", t->message);
}

static void print_json(const classify_values *v, const cli_input *t, const classify_choice *choices,
                       size_t n)
{
    fputs("{\"prompt\": ", stdout);
    cli_json_text(stdout, t->text, t->length);
    if (t->message != NULL) {
        fputs(", \"error\": ", stdout);
        cli_json_text(stdout, t->message, strlen(t->message));
        puts("}");
        return;
    }
    fputs(v->labels ? ", \"label\": " : ", \"text\": ", stdout);
    cli_json_text(stdout, choices[0].text, choices[0].length);
    fputs(v->labels ? ", \"labels\": [" : ", \"tokens\": [", stdout);
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? ", {" : "{", stdout);
        if (!v->labels)
            printf("\"id\": %d, ", (int)choices[i].id);
        fputs(v->labels ? "\"label\": " : "\"text\": ", stdout);
        cli_json_text(stdout, choices[i].text, choices[i].length);
        cli_json_member("logprob", choices[i].logprob);
        cli_json_member("probability", choices[i].share);
        putchar('}');
    }
    putchar(']');
    cli_place_json(stdout, &v->place);
    puts("}");
}

void classify_print(const classify_values *v, const cli_input *t, const classify_choice *choices,
                    size_t n)
{
    const bool all = v->top == CLI_ABSENT && v->json && v->labels != NULL;
    const size_t top = v->top == CLI_ABSENT ? 1 : (size_t)v->top;
    n = all || n < top ? n : top;
    if (v->json)
        print_json(v, t, choices, n);
    else
        print_plain(v, t, choices, n);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static const char *complaint(const classify_values *v)
{
    const bool other = cli_is_other_backend(v->backend);
    if (cli_inputs_complaint(&v->texts, v->file) != NULL)
        return cli_inputs_complaint(&v->texts, v->file);
    if (v->temperature > 0 && (v->labels != NULL || v->top != CLI_ABSENT))
        return "a drawn token is shown alone: --temperature goes without --labels and --top";
    if (v->logits != NULL && v->labels != NULL)
        return "takes --labels or --logits FILE, not both";
    if (other && (v->labels != NULL || v->top != CLI_ABSENT || v->logits != NULL || v->no_special))
        return "--labels, --top, --logits and --no-special need the native backend";
    return cli_place_complaint(&v->place);
}

static weft_status open_all(const classify_values *v, const char *path, classify_run *r)
{
    if (cli_is_other_backend(v->backend))
        return cli_load_engine(path, &v->place, v->adapter, v->backend, 0, &r->engine);
    weft_status status = weft_adapter_tokenizer(path, v->adapter, &r->tokenizer);
    return status == WEFT_OK ? cli_load_model(path, &v->place, v->adapter, &r->model) : status;
}

static weft_status classify(const classify_values *v, classify_run *r)
{
    if (r->engine != NULL)
        return classify_by_engine(v, r);
    if (weft_model_info_of(r->model)->n_labels > 0 && (v->labels != NULL || v->temperature > 0))
        return weft_fail(WEFT_UNSUPPORTED,
                         "classify: the adapter is of a classifier with labels of "
                         "its own: no --labels and no --temperature");
    cli_inputs_encode(&r->texts, r->tokenizer, NULL, v->no_special);
    return v->labels != NULL ? classify_by_labels(v, r) : classify_by_token(v, r);
}

/* ---- Running -------------------------------------------------------------------------------- */

static int run(void *values)
{
    const classify_values *v = values;
    if (complaint(v) != NULL)
        return cli_usage("classify", "%s", complaint(v));
    char path[4096];
    classify_run r = {0};
    weft_status status = cli_check_file(v->logits, CLI_LOGITS_MARKER, v->force);
    if (status == WEFT_OK)
        status = cli_check_input(v->logits, v->file);
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = cli_inputs_read("classify", &v->texts, v->file, &r.texts);
    if (status == WEFT_OK)
        status = open_all(v, path, &r);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = classify(v, &r);
    if (status == WEFT_OK)
        cli_profile_print();
    int code = cli_status(status);
    if (code == CLI_OK && cli_inputs_any_failed(&r.texts))
        code = CLI_FAILURE;
    cli_inputs_free(&r.texts);
    weft_tokenizer_free(r.tokenizer);
    weft_model_free(r.model);
    weft_engine_free(r.engine);
    return code;
}

const cli_command cli_classify = {
    .name = "classify",
    .summary = "one token or label for each of many texts",
    .description =
        "Prints one line for each text and computes many texts together. By default a line has "
        "the most probable next token with its probability. With --labels it has the most "
        "probable label with its share among the labels. With an adapter of weft train --task "
        "classify it has the label with its probability. With --temperature it has a token "
        "drawn from the probabilities. Backends other than native print tokens only.\n\n"
        "A text that cannot be read gets an empty line, or with --json an \"error\", and the "
        "exit status is 1.",
    .example = "weft classify MODEL \"Once upon a\" \"The end of the\" --top 5\n"
               "weft classify MODEL -f reviews.txt --labels \" good, bad\"\n"
               "weft classify MODEL -f prompts.jsonl --json",
    CLI_TABLE(classify_values, arguments, options),
    .run = run,
};
