/* tests/cli/test_cli_nan.c -- a model with NaN among its weights: every command that computes with
 * it reports this and fails; so does the library, for each text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/batch.h"
#include "weft/generate.h"
#include "weft/io.h"
#include "weft/model.h"
#include "weft/ops.h"
#include "weft/tokenizer.h"

enum { MOST = 256 };

/* The storyteller's tensors with the final norm's weights NaN, and its other files. */
static bool save_damaged(const char *folder)
{
    const char *names[MOST];
    weft_array *arrays[MOST];
    char path[1100];
    weft_safetensors *file;
    snprintf(path, sizeof path, "%s/model.safetensors", check_source("examples/storyteller"));
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return false;
    weft_scope_open();
    const int n = weft_safetensors_count(file);
    bool found = false;
    for (int i = 0; i < n && i < MOST; i++) {
        names[i] = weft_safetensors_name(file, i);
        arrays[i] = weft_safetensors_get_at(file, i);
        if (strcmp(names[i], "model.norm.weight") == 0) {
            arrays[i] = weft_full_like(arrays[i], NAN);
            found = true;
        }
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    bool saved = CHECK(n <= MOST && found) &&
                 CHECK_OK(weft_safetensors_save(path, names, arrays, n, NULL, 0));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return saved;
}

/* Made by the first call; NULL, and a failed check, when that fails. */
static const char *damaged(void)
{
    static char folder[1000];
    static bool made;
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s", check_temporary("damaged"));
        output o = shell_command(NULL, "mkdir -p %s && cp %s/*.json %s", folder,
                                 check_source("examples/storyteller"), folder);
        made = CHECK_EQ_INT(o.code, 0) && save_damaged(folder);
    }
    return made ? folder : NULL;
}

static void check_failure(const char *what, const output *o)
{
    if (o->code != 1 || (strstr(o->err, "NaN") == NULL && strstr(o->out, "NaN") == NULL))
        CHECK_FAIL("%s: expected status 1 and NaN in the message, got %d: %s%s", what, o->code,
                   o->out, o->err);
    else
        CHECK(strstr(o->out, "!!!!") == NULL);
}

static void every_command_reports_nan_and_fails(void)
{
    static const char *const lines[] = {
        "generate %s -p 'Once upon' --max-tokens 8",
        "generate %s -p 'Once upon' --max-tokens 8 --temperature 1 --top-k 5 --top-p 0.9",
        "generate %s -p 'Once upon' --max-tokens 8 --json",
        "generate %s -p 'Once upon a time there upon a time' --max-tokens 8 --ngram 2",
        "generate %s -p 'Once upon' --max-tokens 8 --repetition-penalty 1.2",
        "generate %s --batch %s.jsonl --max-tokens 8",
        "classify %s 'Once upon' 'a time'",
        "classify %s 'Once upon' --labels yes,no",
        "eval %s -d %s",
        "eval %s -d %s --context 8",
        "embed %s 'Once upon'",
        "train %s -d %s -o %s.out --steps 2",
        "train %s -d %s -o %s.out2 --steps 2 --val-data %s",
    };
    const char *model = damaged();
    const char *text = text_file("text.txt", "Once upon a time there was a little girl.\n"
                                             "She had a dog, and the dog had a ball.\n");
    if (model == NULL)
        return;
    text_file("text.txt.jsonl", "{\"prompt\": \"Once upon\"}\n{\"prompt\": \"a time\"}\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[8192], *at = line;
        int place = 0;
        for (const char *c = lines[i]; *c != '\0'; c++) { /* the model, then the text file */
            if (c[0] == '%' && c[1] == 's') {
                at += sprintf(at, "%s", place++ == 0 ? model : text);
                c++;
            } else {
                *at++ = *c;
            }
        }
        *at = '\0';
        output o = weft_command(NULL, "%s", line);
        check_failure(lines[i], &o);
    }
}

/* A turn of a chat fails; with one message that is the command's result. */
static void a_chat_reports_nan(void)
{
    const char *model = damaged();
    if (model == NULL)
        return;
    const char *template = text_file("template.jinja", "{{ messages[-1].content }}");
    output o = weft_command("hello\n", "chat %s --template %s", model, template);
    check_failure("chat", &o);
}

static void logits_are_written_and_counted(void)
{
    const char *model = damaged();
    const int32_t ids[] = {1, 2, 3};
    char in[1024], out[1024];
    if (model == NULL)
        return;
    snprintf(in, sizeof in, "%s", check_temporary("ids.safetensors"));
    snprintf(out, sizeof out, "%s", check_temporary("logits.safetensors"));
    weft_scope_open();
    weft_array *array = weft_from_data(ids, WEFT_INT32, (weft_dims){2, {1, 3}});
    CHECK_OK(weft_safetensors_save(in, &(const char *){"input_ids"}, &array, 1, NULL, 0));
    weft_scope_close(NULL);
    output o = weft_command(NULL, "logits %s --ids %s --out %s", model, in, out);
    check_failure("logits", &o);
}

/* ---- The library ---------------------------------------------------------------------------- */

static bool count_tokens(void *context, const weft_generated *token)
{
    *(int *)context += token->id >= 0;
    return true;
}

static void check_message(weft_status status, const char *message)
{
    CHECK_EQ_INT(status, WEFT_INVALID);
    CHECK_CONTAINS(message ? message : "", "NaN");
}

static void texts_of_the_library_fail_with_the_reason(void)
{
    const int32_t ids[] = {2010, 370, 627, 258};
    const char *folder = damaged();
    weft_model *model = NULL, *good = NULL;
    weft_tokenizer *tokenizer = NULL;
    if (folder == NULL || !CHECK_OK(weft_model_load(folder, NULL, &model)) ||
        !CHECK_OK(weft_model_load(check_source("examples/storyteller"), NULL, &good)))
        return;
    const weft_generate_options each[] = {
        {.max_tokens = 6},
        {.max_tokens = 6, .logprobs = true, .tokens_per_eval = 4},
        {.max_tokens = 6, .sampler = {.temperature = 0.8, .top_p = 0.9}},
        {.max_tokens = 6, .no_cache = true},
        {.max_tokens = 6, .no_compile = true, .sampler = {.frequency_penalty = 0.5}},
        {.max_tokens = 6, .draft = good},
        {.max_tokens = 6, .draft = good, .sampler = {.temperature = 0.8}},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        int n = 0;
        check_message(weft_generate(model, tokenizer, ids, 4, &each[i], count_tokens, &n, NULL),
                      weft_error_message());
        CHECK_EQ_INT(n, 0);
    }
    /* A damaged draft of a valid model. */
    int n = 0;
    const weft_generate_options drafted = {.max_tokens = 6, .draft = model};
    check_message(weft_generate(good, tokenizer, ids, 4, &drafted, count_tokens, &n, NULL),
                  weft_error_message());
    weft_generate_request requests[5];
    weft_generated_row rows[5];
    for (int i = 0; i < 5; i++)
        requests[i] = (weft_generate_request){.prompt = {ids, 4}, .options = &each[i]};
    CHECK_OK(weft_generate_batch(model, NULL, requests, 5, NULL, NULL, NULL, rows));
    for (int i = 0; i < 5; i++) {
        check_message(rows[i].status, rows[i].message);
        CHECK_EQ_INT(rows[i].n, 0);
    }
    weft_generated_rows_free(rows, 5);
    const weft_prompt prompts[] = {{ids, 4}, {ids, 2}};
    weft_classified answers[2];
    CHECK_OK(weft_classify(model, prompts, 2, NULL, answers));
    check_message(answers[1].status, answers[1].message);
    weft_classified_free(answers, 2);
    const weft_score_request scores[] = {{.text = {ids, 4}, .from = 1},
                                         {.text = {ids, 3}, .from = 2}};
    weft_scored scored[2];
    CHECK_OK(weft_score(model, scores, 2, NULL, scored));
    check_message(scored[0].status, scored[0].message);
    check_message(scored[1].status, scored[1].message);
    weft_scored_free(scored, 2);
    weft_model_free(model);
    weft_model_free(good);
}

/* One damaged row of logits among valid ones; masked logits may be damaged. */
static void a_draw_names_the_rows_without_a_token(void)
{
    const float logits[] = {1, 3, 2, 1, NAN, 2, 0, 1, INFINITY, NAN, NAN, NAN, -INFINITY, 5, 1};
    const bool allowed[] = {true, false, true};
    int32_t token[5];
    weft_scope_open();
    weft_array *x = weft_from_data(logits, WEFT_FLOAT32, (weft_dims){2, {5, 3}});
    weft_array *mask = weft_from_data(allowed, WEFT_BOOL, (weft_dims){2, {1, 3}});
    CHECK_OK(weft_eval_n((weft_array *[]){x, mask}, 2));
    CHECK_OK(weft_read(weft_sampler_draw(x, NULL, NULL), WEFT_INT32, token, 5));
    CHECK(token[0] == 1 && token[1] == -1 && token[2] == -1 && token[3] == -1 && token[4] == 1);
    weft_sampler_options o = {.temperature = 1, .top_k = 2, .min_p = 0.1, .xtc_probability = 1};
    CHECK_OK(weft_read(weft_sampler_draw(x, NULL, &o), WEFT_INT32, token, 5));
    CHECK(token[0] >= 0 && token[1] == -1 && token[2] == -1 && token[3] == -1 && token[4] >= 0);
    weft_sampler_inputs in = {.allowed = mask};
    CHECK_OK(weft_read(weft_sampler_draw(x, &in, NULL), WEFT_INT32, token, 5));
    CHECK(token[0] == 2 && token[1] == 2 && token[2] == -1 && token[3] == -1 && token[4] == 2);
    weft_scope_close(NULL);
}

CHECK_MAIN("cli_nan", CHECK_CASE(every_command_reports_nan_and_fails),
           CHECK_CASE(a_chat_reports_nan), CHECK_CASE(logits_are_written_and_counted),
           CHECK_CASE(texts_of_the_library_fail_with_the_reason),
           CHECK_CASE(a_draw_names_the_rows_without_a_token))
