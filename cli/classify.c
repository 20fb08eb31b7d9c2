/* cli/classify.c -- weft classify: one token, or the best of some labels, for each of many texts.
 */
#include "cli/classify.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/profile.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(classify_values, field)

static const cli_argument arguments[] = {
    {"MODEL", offsetof(classify_values, model), false},
    {"TEXT", offsetof(classify_values, texts), CLI_MANY},
};

static const cli_option options[] = {
    CLI_FILE_OPTION(classify_values,
                    "read texts from a file, one a line; a line that is a JSON object has it as "
                    "\"prompt\" or \"text\"; - reads standard input"),
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
    CLI_ADAPTER_OPTION(classify_values),
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
    CLI_JSON_OPTION(classify_values, "print one JSON object a text, with log-probabilities"),
    CLI_PLACE_OPTIONS(classify_values),
};

/* ---- Texts ---------------------------------------------------------------------------------- */

/* The text of a line: itself, or what its JSON object says. */
static void read_line(const cli_line *line, classify_text *text)
{
    json_object *object = NULL, *value = NULL;
    text->text = line->text;
    text->length = line->length;
    if (line->text[0] != '{')
        return;
    object = cli_parse_json(line->text, line->length);
    if (object == NULL)
        weft_fail(WEFT_INVALID, "line %zu: not JSON", line->number);
    else if (!json_object_object_get_ex(object, "prompt", &value) &&
             !json_object_object_get_ex(object, "text", &value))
        weft_fail(WEFT_INVALID, "line %zu: neither prompt nor text", line->number);
    else if (!json_object_is_type(value, json_type_string))
        weft_fail(WEFT_INVALID, "line %zu: prompt: expected a string", line->number);
    else
        text->object = object;
    if (text->object == NULL) {
        json_object_put(object);
        classify_fail(text);
        return;
    }
    text->text = json_object_get_string(value);
    text->length = (size_t)json_object_get_string_len(value);
}

static weft_status read_texts(const classify_values *v, classify_run *r)
{
    const bool lines = v->texts.n == 0;
    weft_status status =
        lines ? cli_lines_read(v->file != NULL ? v->file : "-", &r->lines) : WEFT_OK;
    const size_t n = lines ? r->lines.n : (size_t)v->texts.n;
    if (status != WEFT_OK)
        return status;
    r->texts = calloc(n + 1, sizeof *r->texts);
    if (r->texts == NULL)
        return weft_fail(WEFT_MEMORY, "classify: no memory");
    r->n = n;
    if (n == 0)
        return weft_fail(WEFT_INVALID, "classify: there are no texts");
    for (size_t i = 0; i < n; i++) {
        if (lines)
            read_line(&r->lines.at[i], &r->texts[i]);
        else
            r->texts[i] = (classify_text){.text = v->texts.at[i], .length = strlen(v->texts.at[i])};
    }
    return WEFT_OK;
}

void classify_fail(classify_text *text)
{
    if (text->message == NULL)
        text->message = strdup(weft_error_message());
}

static void run_free(classify_run *r)
{
    for (size_t i = 0; i < r->n; i++) {
        json_object_put(r->texts[i].object);
        weft_free(r->texts[i].ids);
        free(r->texts[i].message);
    }
    free(r->texts);
    cli_lines_free(&r->lines);
    weft_tokenizer_free(r->tokenizer);
    weft_model_free(r->model);
}

/* The ids of every text; one that cannot be encoded fails alone. */
static void encode(classify_run *r, unsigned flags)
{
    for (size_t i = 0; i < r->n; i++) {
        classify_text *t = &r->texts[i];
        if (t->message == NULL && weft_tokenizer_encode(r->tokenizer, t->text, t->length, flags,
                                                        &t->ids, &t->n_ids) != WEFT_OK)
            classify_fail(t);
    }
}

/* ---- Output --------------------------------------------------------------------------------- */

static void print_plain(const classify_values *v, const classify_text *t,
                        const classify_choice *choices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putchar('\t');
        if (v->labels != NULL)
            cli_write_text(choices[i].text, choices[i].length);
        else
            cli_json_text(stdout, choices[i].text, choices[i].length);
        printf("\t%.4f", choices[i].share);
    }
    putchar('\n');
    if (t->message != NULL)
        fprintf(stderr, "weft: classify: %s\n", t->message);
}

static void print_json(const classify_values *v, const classify_text *t,
                       const classify_choice *choices, size_t n)
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
        fputs(", \"logprob\": ", stdout);
        cli_json_number(stdout, choices[i].logprob);
        fputs(", \"probability\": ", stdout);
        cli_json_number(stdout, choices[i].share);
        putchar('}');
    }
    puts("]}");
}

void classify_print(const classify_values *v, const classify_text *t,
                    const classify_choice *choices, size_t n)
{
    const bool all = v->top == CLI_ABSENT && v->json && v->labels != NULL;
    const size_t top = v->top == CLI_ABSENT ? 1 : (size_t)v->top;
    n = all || n < top ? n : top;
    if (v->json)
        print_json(v, t, choices, n);
    else
        print_plain(v, t, choices, n);
}

/* ---- Running -------------------------------------------------------------------------------- */

static int run(void *values)
{
    const classify_values *v = values;
    if (v->texts.n > 0 && v->file != NULL)
        return cli_usage("classify", "takes TEXT or --file FILE, not both");
    if (v->texts.n == 0 && v->file == NULL && isatty(STDIN_FILENO))
        return cli_usage("classify", "needs TEXT, --file FILE or texts on standard input");
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("classify", "%s", cli_place_complaint(&v->place));
    char path[4096];
    classify_run r = {0};
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = read_texts(v, &r);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &r.tokenizer);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &r.model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK) {
        encode(&r, v->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL);
        status = v->labels != NULL ? classify_by_labels(v, &r) : classify_by_token(v, &r);
    }
    if (status == WEFT_OK)
        cli_profile_print();
    int code = cli_status(status);
    for (size_t i = 0; code == CLI_OK && i < r.n; i++)
        code = r.texts[i].message != NULL ? CLI_FAILURE : CLI_OK;
    run_free(&r);
    return code;
}

const cli_command cli_classify = {
    .name = "classify",
    .summary = "one token or label for each of many texts",
    .description =
        "Reads each text once, many texts together, and prints a line for each: the most "
        "probable next token with its probability, or, with --labels, the label whose tokens "
        "are the most probable behind the text, with its share among the labels. A text that "
        "cannot be read gets an empty line, or with --json an \"error\", and the status is 1 "
        "in the end.",
    .example = "weft classify MODEL \"Once upon a\" \"The end of the\" --top 5\n"
               "weft classify MODEL -f reviews.txt --labels \" good, bad\"\n"
               "weft classify MODEL -f prompts.jsonl --json",
    CLI_TABLE(classify_values, arguments, options),
    .run = run,
};
