/* tests/cli/test_cli_eval_tasks.c -- weft eval --task and --compare: choices and answers against
 * transformers', tables of several models, and malformed rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/task.h"

#define GOLDEN "tests/golden/generate/"

/* Sums of log-probabilities from float32 logits: the order of the additions inside a product
 * depends on the compiler's options. The largest differences seen are 1.2e-5, and 3.7e-5 in a build
 * with the sanitizers, which does not vectorize. */
static const double tolerance = 5e-5;

static json_object *parsed(const char *text)
{
    json_object *value = json_tokener_parse(text);
    CHECK(value != NULL);
    return value;
}

static double number(json_object *object, const char *key)
{
    json_object *value = NULL;
    return CHECK(json_object_object_get_ex(object, key, &value)) ? json_object_get_double(value)
                                                                 : (double)NAN;
}

static json_object *member(json_object *object, const char *key)
{
    json_object *value = NULL;
    CHECK(json_object_object_get_ex(object, key, &value));
    return value;
}

/* Line `i` of a file as JSON. */
static json_object *line_of(const char *path, int i)
{
    FILE *file = fopen(path, "r");
    static char line[1 << 16];
    json_object *value = NULL;
    for (int k = 0; file && k <= i && fgets(line, sizeof line, file); k++)
        value = k == i ? parsed(line) : NULL;
    if (file)
        fclose(file);
    CHECK(value != NULL);
    return value;
}

static const char *storyteller_folder(void)
{
    return check_source("examples/storyteller");
}

static void choices_are_those_of_transformers(void)
{
    static const char *const metrics[] = {"acc", "acc_stderr", "acc_norm", "acc_norm_stderr"};
    const char *details = check_temporary("choices.jsonl");
    const output o =
        weft_command(NULL, "eval %s --task choices --data %s --details %s --json",
                     storyteller_folder(), check_source(GOLDEN "tasks_choices.jsonl"), details);
    if (!CHECK_EQ_INT(o.code, 0))
        return;
    json_object *found = parsed(o.out);
    json_object *golden = json_object_from_file(check_source(GOLDEN "tasks.json"));
    json_object *rows = member(golden, "logprobs");
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        CHECK_RELATIVE(number(found, metrics[i]), number(golden, metrics[i]), 1e-12);
    const int n = (int)json_object_array_length(rows);
    CHECK_EQ_INT(number(found, "rows"), n);
    for (int i = 0; i < n; i++) {
        json_object *row = line_of(details, i), *sums = member(row, "logprobs");
        json_object *expected = json_object_array_get_idx(rows, (size_t)i);
        CHECK_EQ_INT(json_object_array_length(sums), json_object_array_length(expected));
        for (size_t k = 0; k < json_object_array_length(sums); k++) {
            const double a = json_object_get_double(json_object_array_get_idx(sums, k));
            const double b = json_object_get_double(json_object_array_get_idx(expected, k));
            CHECK(fabs(a - b) <= tolerance);
        }
        json_object_put(row);
    }
    json_object_put(found);
    json_object_put(golden);
}

static void answers_are_those_of_transformers(void)
{
    const char *details = check_temporary("exact.jsonl");
    const char *data = check_source(GOLDEN "tasks_exact.jsonl");
    output o = weft_command(NULL, "eval %s --task exact --data %s -n 12 --details %s --json",
                            storyteller_folder(), data, details);
    json_object *golden = json_object_from_file(check_source(GOLDEN "tasks.json"));
    json_object *texts = member(golden, "generated");
    CHECK_EQ_INT(o.code, 0);
    for (int i = 0; i < (int)json_object_array_length(texts); i++) {
        json_object *row = line_of(details, i);
        CHECK_STR(json_object_get_string(member(row, "generated")),
                  json_object_get_string(json_object_array_get_idx(texts, (size_t)i)));
        json_object_put(row);
    }
    json_object_put(golden);
    /* "They lived happily ever after." is right when the answer ends in front of a stop. */
    o = weft_command(NULL, "eval %s --task exact --data %s -n 12 --stop . --stop , --json",
                     storyteller_folder(), data);
    json_object *found = parsed(o.out);
    CHECK_RELATIVE(number(found, "exact"), 1.0 / 3, 1e-12);
    CHECK_RELATIVE(number(found, "exact_stderr"), 1.0 / 3, 1e-12);
    json_object_put(found);
}

/* A prompt with --chat is a message of the user. */
static void prompts_go_through_the_template(void)
{
    const char *data =
        text_file("chat.jsonl", "{\"prompt\": \"Tell a tale\", \"answer\": \"no\"}\n"
                                "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell a "
                                "tale\"}], \"answer\": \"no\"}\n");
    const char *details = check_temporary("chat-details.jsonl");
    output o = weft_command(NULL, "eval %s --task exact --chat --data %s -n 6 --details %s",
                            storyteller_folder(), data, details);
    if (!CHECK_EQ_INT(o.code, 0))
        return;
    json_object *a = line_of(details, 0), *b = line_of(details, 1);
    CHECK_STR(json_object_get_string(member(a, "generated")),
              json_object_get_string(member(b, "generated")));
    json_object_put(a);
    o = weft_command(NULL, "eval %s --task exact --data %s -n 6 --details %s", storyteller_folder(),
                     data, details);
    a = line_of(details, 0);
    CHECK(strcmp(json_object_get_string(member(a, "generated")),
                 json_object_get_string(member(b, "generated"))) != 0);
    json_object_put(a);
    json_object_put(b);
}

/* What a template cannot render is named by its row. */
static void messages_that_do_not_render_are_named(void)
{
    const char *data = text_file("messages.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n"
                                                   "{\"messages\": [5], \"answer\": \"b\"}\n");
    const output o =
        weft_command(NULL, "eval %s --task exact --data %s -n 1", storyteller_folder(), data);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "messages.jsonl:2: ");
}

/* ---- Formats -------------------------------------------------------------------------------- */

/* The generated answers, the chosen answers or the loss of all rows, as text. */
static char *measured(const char *task, const char *data, const char *more)
{
    const char *details = check_temporary("formats.jsonl");
    const bool loss = strcmp(task, "loss") == 0;
    const output o = weft_command(NULL, "eval %s --task %s --data %s%s%s%s --json %s",
                                  storyteller_folder(), task, data, loss ? "" : " --details ",
                                  loss ? "" : details, loss ? "" : " --force", more);
    if (!CHECK_EQ_INT(o.code, 0)) {
        CHECK_FAIL("%s: %s", data, o.err);
        return weft_strdup("");
    }
    if (loss) {
        json_object *found = parsed(o.out);
        char *text = weft_format("%.12g of %g", number(found, "loss"), number(found, "targets"));
        json_object_put(found);
        return text;
    }
    char *text = weft_strdup("");
    for (int i = 0; i < (task[0] == 'e' ? 3 : 2); i++) {
        json_object *row = line_of(details, i);
        json_object_object_del(row, "line");
        char *longer = weft_format("%s%s\n", text, json_object_to_json_string(row));
        weft_free(text);
        text = longer;
        json_object_put(row);
    }
    return text;
}

static const char *format_of(const char *task, const char *end)
{
    static char path[512];
    char name[200];
    snprintf(name, sizeof name, GOLDEN "task_formats/%s.%s", task, end);
    snprintf(path, sizeof path, "%s", check_source(name));
    return path;
}

/* Each task gives the same result in every format, and for a dataset on the hub. */
static void formats_make_no_difference(void)
{
    static const char *const tasks[][2] = {
        {"exact", "-n 8"}, {"choices", ""}, {"loss", ""}, {"loss", "--context 16"}};
    static const char *const ends[] = {"json",     "csv",     "tsv",      "parquet",
                                       "jsonl.gz", "csv.zst", "rows:eval"};
    static const char snapshot[] = "hub/datasets--org--rows/snapshots/"
                                   "0123456789abcdef0123456789abcdef01234567";
    CHECK_OK(weft_folder_make(check_temporary("hub/datasets--org--rows/refs")));
    CHECK_OK(weft_folder_make(check_temporary(snapshot)));
    text_file("hub/datasets--org--rows/refs/main", strrchr(snapshot, '/') + 1);
    setenv("HF_HUB_CACHE", check_temporary("hub"), 1);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        const char *task = tasks[i][0];
        char *expected = measured(task, format_of(task, "jsonl"), tasks[i][1]);
        shell_command(NULL, "cp %s %s/eval-00000-of-00001.parquet", format_of(task, "parquet"),
                      check_temporary(snapshot));
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            const bool hub = strchr(ends[k], ':') != NULL;
            char *found =
                measured(task, hub ? "org/rows:eval" : format_of(task, ends[k]), tasks[i][1]);
            if (!CHECK_STR(found, expected))
                CHECK_FAIL("%s %s: %s", task, ends[k], found);
            weft_free(found);
        }
        weft_free(expected);
    }
    char *rows = measured("loss", format_of("loss", "jsonl"), "--context 16");
    char *text = measured("loss", format_of("loss", "txt"), "--context 16");
    CHECK_STR(rows, text);
    weft_free(rows);
    weft_free(text);
    unsetenv("HF_HUB_CACHE");
}

/* Training rows of every kind with the prompts and answers of exact.jsonl. Those that training
 * renders with the chat template are like prompts with --chat. */
static void training_rows_are_tasks(void)
{
#define ASK(USER, SAID) "[{" USER "Hi\"}, {" SAID "ho\"}]"
    static const struct {
        const char *row;
        bool spoken;
    } layouts[] = {
        {"{\"prompt\": \"Hi\", \"answer\": \"ho\"}", false},
        {"{\"prompt\": \"Hi\", \"completion\": \"ho\"}", false},
        {"{\"prompt\": \"Hi\", \"response\": \"ho\"}", false},
        {"{\"question\": \"Hi\", \"answer\": \"ho\"}", true},
        {"{\"question\": \"Hi\", \"answer\": [\"no\", \"ho\"]}", true},
        {"{\"instruction\": \"Hi\", \"output\": \"ho\", \"input\": \"\"}", true},
        {"{\"messages\": " ASK("\"role\": \"user\", \"content\": \"",
                               "\"role\": \"assistant\", \"content\": \"") "}",
         true},
        {"{\"conversations\": " ASK("\"from\": \"human\", \"value\": \"",
                                    "\"from\": \"gpt\", \"value\": \"") "}",
         true},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"answer\": \"ho\"}", true},
        {"{\"prompt\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"completion\": "
         "[{\"role\": \"assistant\", \"content\": \"ho\"}]}",
         true},
    };
#undef ASK
    weft_task_rows rows;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const weft_data_source source = {.path = text_file("layout.jsonl", layouts[i].row)};
        if (!CHECK_OK(weft_task_rows_load(&source, 1, NULL, &rows)) || !CHECK(rows.n == 1))
            continue;
        const weft_task_row *row = rows.at;
        CHECK_STR(row->texts[row->n_texts - 1], "ho");
        CHECK_STR(row->messages, "[{\"role\":\"user\",\"content\":\"Hi\"}]");
        CHECK(row->spoken == layouts[i].spoken || row->prompt == NULL);
        if (!layouts[i].spoken)
            CHECK_STR(row->prompt, "Hi");
        weft_task_rows_free(&rows);
    }
    /* With context, a system prompt and history, as training renders them. */
    const weft_data_source source = {
        .path = text_file("layout.jsonl",
                          "{\"question\": \"Who?\", \"context\": \"A fox.\", \"system\": \"Be "
                          "brief.\", \"history\": [[\"Hi\", \"Ho\"]], \"answer\": \"The fox\"}")};
    if (!CHECK_OK(weft_task_rows_load(&source, 1, NULL, &rows)))
        return;
    CHECK_STR(rows.at->messages, "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                 "{\"role\":\"user\",\"content\":\"Hi\"},"
                                 "{\"role\":\"assistant\",\"content\":\"Ho\"},"
                                 "{\"role\":\"user\",\"content\":\"Who?\\n\\nA fox.\"}]");
    CHECK(rows.at->prompt == NULL);
    weft_task_rows_free(&rows);
}

/* ---- Several models ------------------------------------------------------------------------- */

static const char *const tales =
    "{\"prompt\": \"The fox said:\", \"completion\": \" I will wait until the moon is high.\"}\n"
    "{\"prompt\": \"The crow said:\", \"completion\": \" I will wait until the bread is mine.\"}\n"
    "{\"prompt\": \"The king said:\", \"completion\": \" I will wait until my son is home.\"}\n"
    "{\"prompt\": \"The wolf said:\", \"completion\": \" I will wait until the sheep sleep.\"}\n";

/* The base, its adapter and the fused model: each as it is alone, and the change from the first. */
static void models_are_compared(void)
{
    const char *folder = storyteller_folder(), *data = text_file("tales.jsonl", tales);
    char run[512], fused[512];
    snprintf(run, sizeof run, "%s", check_temporary("run"));
    snprintf(fused, sizeof fused, "%s", check_temporary("fused"));
    output o = weft_command(NULL, "train %s --data %s --steps 8 --lr 2e-3 --out %s --overwrite",
                            folder, data, run);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "fuse %s %s/last %s --type f32 --force", folder, run, fused);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "eval %s --adapter %s/last --data %s --json", folder, run, data);
    json_object *alone = parsed(o.out);
    o = weft_command(NULL, "eval %s --data %s --compare %s/last --compare %s --json", folder, data,
                     run, fused);
    if (!CHECK_EQ_INT(o.code, 0))
        return;
    json_object *root = parsed(o.out), *models = member(root, "models");
    if (!CHECK_EQ_INT(json_object_array_length(models), 3))
        return;
    json_object *base = json_object_array_get_idx(models, 0);
    json_object *adapted = json_object_array_get_idx(models, 1);
    json_object *merged = json_object_array_get_idx(models, 2);
    CHECK(number(adapted, "loss") < number(base, "loss") - 0.3);
    CHECK_RELATIVE(number(adapted, "loss_change"), number(adapted, "loss") - number(base, "loss"),
                   1e-9);
    CHECK_RELATIVE(number(adapted, "loss"), number(alone, "loss"), 1e-12);
    CHECK_RELATIVE(number(adapted, "loss_stderr"), number(alone, "loss_stderr"), 1e-12);
    CHECK_RELATIVE(number(merged, "loss"), number(alone, "loss"), 1e-5);
    CHECK_STR(json_object_get_string(member(merged, "name")), fused);
    json_object_put(root);
    json_object_put(alone);
    /* The adapter in the other formats: the same loss. */
    static const char *const formats[] = {"mlx", "gguf"};
    char other[512];
    for (int i = 0; i < 2; i++) {
        snprintf(other, sizeof other, "%s", check_temporary(i ? "other.gguf" : "other-mlx"));
        o = weft_command(NULL, "convert %s/last %s --adapter-format %s --base %s --force", run,
                         other, formats[i], folder);
        CHECK_EQ_INT(o.code, 0);
        o = weft_command(NULL, "eval %s --data %s --adapter %s --compare %s/last --json", folder,
                         data, other, run);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", formats[i], o.err);
        root = parsed(o.out);
        models = member(root, "models");
        CHECK_RELATIVE(number(json_object_array_get_idx(models, 0), "loss"),
                       number(json_object_array_get_idx(models, 1), "loss"), 1e-6);
        json_object_put(root);
    }
    o = weft_command(NULL, "eval %s --data %s --compare %s/last", folder, data, run);
    CHECK_CONTAINS(o.out, "change");
    CHECK_CONTAINS(o.out, "tokens\n");
    CHECK(strstr(o.out, " \n") == NULL);
}

/* The standard error of a change is that of the differences row by row: none where they are all
 * the same. */
static void changes_are_paired(void)
{
    const char *folder = storyteller_folder();
    const output o = weft_command(NULL, "eval %s --task choices --data %s --compare %s --json",
                                  folder, check_source(GOLDEN "tasks_choices.jsonl"), folder);
    json_object *root = parsed(o.out);
    json_object *second = json_object_array_get_idx(member(root, "models"), 1);
    CHECK(number(second, "acc_stderr") > 0.1);
    CHECK(number(second, "acc_change") == 0);
    CHECK(number(second, "acc_change_stderr") == 0);
    json_object_put(root);
}

/* ---- Refused input -------------------------------------------------------------------------- */

static const struct {
    const char *task, *row, *message;
} bad_rows[] = {
    {"choices", "{", "rows.jsonl:2: "},
    {"choices", "[1]", "expected object, got array"},
    {"choices", "{\"choices\": [\"a\", \"b\"]}",
     "expected one of prompt and messages, got neither"},
    {"exact", "{\"prompt\": \"a\", \"messages\": []}", "got both"},
    {"exact", "{\"prompt\": 5, \"answer\": \"b\"}", "prompt: expected string, got integer"},
    {"exact", "{\"messages\": 5, \"answer\": \"b\"}", "messages: expected array, got integer"},
    {"exact", "{\"prompt\": \"a\"}", "answer is missing"},
    {"exact", "{\"prompt\": \"a\", \"answer\": []}",
     "answer: expected an array of 1 or more texts, got fewer"},
    {"exact", "{\"prompt\": \"a\", \"answer\": [\"b\", null]}", "got null"},
    {"exact", "{\"prompt\": \"a\", \"answer\": \"\"}",
     "answer: expected text, got an empty string"},
    {"choices", "{\"prompt\": \"a\", \"answer\": 0}", "choices is missing"},
    {"choices", "{\"prompt\": \"a\", \"choices\": \"b\"}",
     "choices: expected an array of 2 or more texts"},
    {"choices", "{\"prompt\": \"a\", \"choices\": [\"b\"]}",
     "choices: expected an array of 2 or more texts"},
    {"choices", "{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"]}", "answer is missing"},
    {"choices", "{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}",
     "answer: expected an index from 0 to 1, got 2"},
    {"choices", "{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": \"d\"}",
     "answer: expected one of the choices, got 'd'"},
    {"choices", "{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 1.5}",
     "answer: expected the index or the text of a choice, got number"},
};

static void bad_rows_are_named(void)
{
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        char text[512];
        const bool choices = strcmp(bad_rows[i].task, "choices") == 0;
        snprintf(text, sizeof text, "\xEF\xBB\xBF{\"prompt\": \"The\", %s}\n%s\n",
                 choices ? "\"choices\": [\"a\", \"b\"], \"answer\": 1" : "\"answer\": \"a\"",
                 bad_rows[i].row);
        const char *data = text_file("rows.jsonl", text);
        output o = weft_command(NULL, "eval %s --task %s --data %s", storyteller_folder(),
                                bad_rows[i].task, data);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "rows.jsonl:2: ");
        CHECK_CONTAINS(o.err, bad_rows[i].message);
        o = weft_command(NULL, "eval %s --task %s --data %s --max-bad-rows 1 -n 1 --json",
                         storyteller_folder(), bad_rows[i].task, data);
        if (!choices) { /* -n applies only to exact */
            CHECK_EQ_INT(o.code, 0);
            CHECK_CONTAINS(o.err, "skipped a bad row");
            CHECK_CONTAINS(o.out, "\"rows\": 1");
        }
    }
}

static void options_that_do_not_fit_are_refused(void)
{
    static const char *const wrong[] = {"--task exact --window 8",
                                        "--task exact --context 16",
                                        "--task choices --last 0.5",
                                        "--task choices --max-tokens 4",
                                        "--task choices --stop x",
                                        "--task exact --token-cache x",
                                        "--task exact --long drop",
                                        "--chat",
                                        "--rows 3",
                                        "--details x",
                                        "--stop x",
                                        "--task loss --max-tokens 3",
                                        "--task nothing"};
    const char *data = text_file("tales.jsonl", tales);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const output o =
            weft_command(NULL, "eval %s --data %s %s", storyteller_folder(), data, wrong[i]);
        check_one_line(&o, 2);
    }
    /* Before anything is measured. */
    output o = weft_command(NULL, "eval %s --data %s --compare /no/such/model",
                            storyteller_folder(), data);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "/no/such/model");
    CHECK_STR(o.out, "");
    o = weft_command("", "eval %s --task exact --data -", storyteller_folder());
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "no rows");
}

CHECK_MAIN("cli_eval_tasks", CHECK_CASE(choices_are_those_of_transformers),
           CHECK_CASE(answers_are_those_of_transformers),
           CHECK_CASE(prompts_go_through_the_template), CHECK_CASE(formats_make_no_difference),
           CHECK_CASE(training_rows_are_tasks), CHECK_CASE(messages_that_do_not_render_are_named),
           CHECK_CASE(models_are_compared), CHECK_CASE(changes_are_paired),
           CHECK_CASE(bad_rows_are_named), CHECK_CASE(options_that_do_not_fit_are_refused))
