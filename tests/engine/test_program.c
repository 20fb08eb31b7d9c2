/* tests/engine/test_program.c -- engines that are other programs: one that follows the protocol,
 * and others that break it in every way. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/weft.h"

/* Time limits in seconds: for immediate answers, and one that is never reached. */
enum { AT_ONCE = 120, PATIENCE = 600 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status load(const char *mode, double patience, weft_engine **engine)
{
    const weft_engine_options o = {.backend = "subprocess",
                                   .program = check_built("tests/fake_engine"),
                                   .adapter = "lora",
                                   .context = 50,
                                   .answer_seconds = patience};
    return weft_engine_load(mode, &o, engine);
}

static bool is_built_in(void)
{
    return weft_engine_backend_find("subprocess") != NULL;
}

/* No child of this process is left, and no file of one. */
static int open_files(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n;
}

static int files_before;

static void nothing_is_left(void)
{
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    CHECK_EQ_INT(open_files(), files_before);
}

typedef struct seen {
    int n, stop_at;
    char text[4000];
    weft_engine *cancel;
    int cancel_at;
} seen;

static bool look(void *context, const weft_generated *token)
{
    seen *s = context;
    s->n++;
    strncat(s->text, token->text, sizeof s->text - strlen(s->text) - 1);
    if (s->cancel != NULL && s->n == s->cancel_at)
        weft_engine_cancel(s->cancel);
    return s->stop_at == 0 || s->n < s->stop_at;
}

static weft_status generate(weft_engine *engine, int64_t most, seen *s)
{
    const weft_generate_options o = {.max_tokens = most};
    return weft_engine_generate(engine, &(weft_engine_request){.prompt = "x", .options = &o}, look,
                                s);
}

/* ---- correct programs ----------------------------------------------------------------------- */

static void a_program_generates(void)
{
    weft_engine *engine;
    if (!CHECK_OK(load("good", PATIENCE, &engine)))
        return;
    weft_engine_info info = weft_engine_info_of(engine);
    CHECK_STR(info.architecture, "fake");
    CHECK_STR(info.backend, "subprocess");
    CHECK(info.vocab_size == 100 && info.n_layers == 3 && info.hidden_size == 8);
    CHECK_EQ_INT(info.context_length, 50);
    seen all = {.n = 0}, some = {.stop_at = 3}, again = {.n = 0};
    CHECK_OK(generate(engine, 5, &all));
    CHECK_STR(all.text, "0 1 2 3 4 ");
    weft_engine_metrics took = weft_engine_metrics_of(engine);
    CHECK(took.reason == WEFT_FINISH_LENGTH && took.generated_tokens == 5);
    CHECK(took.prompt_tokens == 2 && took.first_token_seconds > 0);
    CHECK_OK(generate(engine, 1000000, &some));
    CHECK_EQ_INT(some.n, 3);
    CHECK(weft_engine_metrics_of(engine).detail == WEFT_FINISH_CALLBACK);
    CHECK_OK(generate(engine, 2, &again)); /* nothing of the previous call is left */
    CHECK_STR(again.text, "0 1 ");
    const char *const texts[] = {"a"};
    weft_classified result;
    CHECK_STATUS(
        weft_engine_classify(engine, texts, 1, &(weft_classify_options){.logits = true}, &result),
        WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "the backend 'subprocess' cannot give logits");
    int32_t *ids;
    size_t n;
    CHECK_STATUS(weft_engine_encode(engine, "a", 1, 0, &ids, &n), WEFT_UNSUPPORTED);
    weft_engine_close(engine);
    weft_engine_close(engine);
    weft_engine_free(engine);
    nothing_is_left();
}

static void cancelling_is_seen_at_the_next_token(void)
{
    weft_engine *engine;
    if (!CHECK_OK(load("good", PATIENCE, &engine)))
        return;
    seen own = {.cancel = engine, .cancel_at = 4};
    CHECK_OK(generate(engine, 1000000, &own));
    CHECK_EQ_INT(own.n, 4);
    CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_CANCELLED);
    const weft_generate_options o = {.max_tokens = 1000000, .timeout = 0.05};
    double start = now();
    CHECK_OK(weft_engine_generate(engine, &(weft_engine_request){.prompt = "x", .options = &o},
                                  NULL, NULL));
    CHECK(now() - start < AT_ONCE);
    CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_DEADLINE);
    weft_engine_free(engine);
    nothing_is_left();
}

static void requests_contain_all_options(void)
{
    static const int32_t ids[] = {7, 8}, stop[] = {3};
    weft_engine *engine;
    if (!CHECK_OK(load("echo", PATIENCE, &engine)))
        return;
    const weft_generate_options o = {.sampler = {.temperature = 0.5, .top_k = 4, .min_p = 0.25},
                                     .max_tokens = 9,
                                     .seed = 11,
                                     .stop = stop,
                                     .n_stop = 1,
                                     .ignore_eos = true};
    seen text = {.n = 0}, numbers = {.n = 0}, chat = {.n = 0};
    weft_engine_request r = {.prompt = "a \"b\"\n\xc3\xa9", .no_special = true, .options = &o};
    CHECK_OK(weft_engine_generate(engine, &r, look, &text));
    CHECK_CONTAINS(text.text, "\"prompt\": \"a \\\"b\\\"\\u000a\xc3\xa9\"");
    CHECK_CONTAINS(text.text, "\"add_special_tokens\": false");
    CHECK_CONTAINS(text.text, "\"max_tokens\": 9, \"temperature\": 0.5, \"top_k\": 4");
    CHECK_CONTAINS(text.text, "\"seed\": 11, \"ignore_eos\": true");
    CHECK_CONTAINS(text.text, "\"stop_ids\": [3]");
    r = (weft_engine_request){.ids = ids, .n_ids = 2, .options = &o};
    CHECK_OK(weft_engine_generate(engine, &r, look, &numbers));
    CHECK_CONTAINS(numbers.text, "\"prompt_ids\": [7, 8]");
    const weft_chat_options off = {.generation_prompt = true, .thinking = WEFT_THINKING_OFF};
    CHECK_OK(weft_engine_chat(engine, "[{\"role\":\n \"user\", \"content\": \"hi\"}]", &off, &o,
                              look, &chat));
    CHECK_CONTAINS(chat.text, "\"cmd\": \"chat\", \"messages\": [{\"role\":\"user\"");
    CHECK_CONTAINS(chat.text, "\"enable_thinking\": false");
    CHECK_STATUS(weft_engine_chat(engine, "[{", NULL, &o, NULL, NULL), WEFT_INVALID);
    weft_engine_free(engine);
    nothing_is_left();
}

static void unsupported_requests_are_refused(void)
{
    weft_engine *engine = NULL;
    if (!CHECK_OK(load("good", PATIENCE, &engine)))
        return;
    const weft_generate_options with[] = {{.logprobs = true},
                                          {.no_cache = true},
                                          {.sampler.presence_penalty = 1},
                                          {.sampler.xtc_probability = 0.5}};
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(
            weft_engine_generate(engine, &(weft_engine_request){.prompt = "x", .options = &with[i]},
                                 NULL, NULL),
            WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_engine_error(engine), "the backend 'subprocess' has no XTC");
    const weft_generate_options numbers[] = {{.sampler.top_p = NAN},
                                             {.sampler.min_p = INFINITY},
                                             {.sampler.top_k = -1},
                                             {.sampler.temperature = NAN},
                                             {.sampler.repetition_penalty = -INFINITY}};
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(
            weft_engine_generate(
                engine, &(weft_engine_request){.prompt = "x", .options = &numbers[i]}, NULL, NULL),
            WEFT_INVALID);
    size_t size = 1200000;
    char *text = malloc(size + 1);
    if (CHECK(text != NULL)) {
        memset(text, 'a', size);
        text[size] = '\0';
        CHECK_STATUS(
            weft_engine_generate(engine, &(weft_engine_request){.prompt = text}, NULL, NULL),
            WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "at most 1048576 can be sent");
        text[size - 300000] = '\0'; /* but this fits, and is longer than a socket holds */
        seen some = {.stop_at = 2};
        CHECK_OK(weft_engine_generate(engine, &(weft_engine_request){.prompt = text}, look, &some));
        CHECK_EQ_INT(some.n, 2);
    }
    free(text);
    CHECK_STATUS(weft_engine_generate(engine, &(weft_engine_request){.prompt = "a\0b", .length = 3},
                                      NULL, NULL),
                 WEFT_INVALID);
    weft_engine_free(engine);
    weft_engine_options o = {.backend = "subprocess"};
    CHECK_STATUS(weft_engine_load("x", &o, &engine), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "needs a program");
    o.program = "/no/such/program";
    CHECK_STATUS(weft_engine_load("x", &o, &engine), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "cannot run /no/such/program: No such file");
    o.quantize = 4;
    CHECK_STATUS(weft_engine_load("x", &o, &engine), WEFT_UNSUPPORTED);
    o = (weft_engine_options){.backend = "subprocess", .program = "x", .max_concurrent = 2};
    CHECK_STATUS(weft_engine_load("x", &o, &engine), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "one call at a time");
    nothing_is_left();
}

/* ---- incorrect programs --------------------------------------------------------------------- */

typedef struct trouble {
    const char *mode;
    weft_status status;
    const char *part;
} trouble;

static void programs_that_do_not_load(void)
{
    static const trouble troubles[] = {
        {"dies", WEFT_IO, "subprocess: the program ended with status 3: first | out of luck"},
        {"killed", WEFT_IO, "ended by signal 9"},
        {"refuses", WEFT_IO, "subprocess: load: no such model"},
        {"junk", WEFT_INVALID, "expected a JSON object, got the line 'hello, I am a program'"},
        {"no-object", WEFT_INVALID, "expected a JSON object, got the line '[1]'"},
        {"not-ok", WEFT_INVALID, "load: expected \"ok\": true"},
        {"long", WEFT_INVALID, "a line of more than 1048576 bytes"},
        {"silent", WEFT_IO, "said nothing for 0.5 seconds and was ended"},
        {"closes", WEFT_IO, "closed its output"},
    };
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        weft_engine *engine;
        double start = now();
        const double patience = strcmp(troubles[i].mode, "silent") == 0 ? 0.5 : PATIENCE;
        CHECK_STATUS(load(troubles[i].mode, patience, &engine), troubles[i].status);
        CHECK(engine == NULL);
        CHECK_CONTAINS(weft_error_message(), troubles[i].part);
        CHECK(now() - start < AT_ONCE);
        nothing_is_left();
    }
}

/* Loads a program that takes too long once it has given tokens, and generates: with more patience
 * where it was late before that. Returns how generating ended. */
static weft_status late(const char *mode, int64_t most, weft_engine **engine, seen *s)
{
    const int stop_at = s->stop_at;
    for (double patience = 0.5;; patience *= 10) {
        weft_status status = load(mode, patience, engine);
        *s = (seen){.stop_at = stop_at};
        if (status == WEFT_OK)
            status = generate(*engine, most, s);
        if (s->n > 0 && s->n >= stop_at)
            return status;
        if (!CHECK(patience < 500)) {
            weft_engine_free(*engine);
            return WEFT_OK;
        }
        weft_engine_free(*engine);
    }
}

static void programs_that_end_early(void)
{
    static const trouble troubles[] = {
        {"dies-later", WEFT_IO, "the program ended with status 1: Traceback: boom"},
        {"junk-later", WEFT_INVALID, "malformed token"},
        {"hangs-later", WEFT_IO, "said nothing for "},
    };
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        weft_engine *engine;
        seen one = {.n = 0}, none = {.n = 0};
        if (!CHECK_STATUS(late(troubles[i].mode, 5, &engine, &one), troubles[i].status))
            return;
        CHECK_CONTAINS(weft_error_message(), troubles[i].part);
        CHECK_CONTAINS(weft_engine_error(engine), troubles[i].part);
        CHECK_EQ_INT(one.n, 1);
        CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_ERROR);
        CHECK_STATUS(generate(engine, 5, &none), WEFT_IO);
        CHECK_CONTAINS(weft_error_message(), "the program has ended");
        weft_engine_free(engine);
        nothing_is_left();
    }
}

static void programs_that_ignore_a_cancellation_are_killed(void)
{
    weft_engine *engine;
    seen some = {.stop_at = 5};
    if (!CHECK_STATUS(late("deaf", 5, &engine, &some), WEFT_IO))
        return;
    CHECK_CONTAINS(weft_error_message(), "did not stop for ");
    CHECK_CONTAINS(weft_error_message(), " seconds and was ended");
    CHECK_EQ_INT(some.n, 5);
    weft_engine_free(engine);
    nothing_is_left();
}

/* The time limit for an answer does not apply to stopping. */
static void a_program_has_less_time_to_stop_than_to_answer(void)
{
    const weft_engine_options o = {
        .backend = "subprocess", .program = check_built("tests/fake_engine"), .stop_seconds = 0.5};
    weft_engine *engine;
    seen some = {.stop_at = 5};
    if (!CHECK_OK(weft_engine_load("deaf", &o, &engine)))
        return;
    const double start = now();
    CHECK_STATUS(generate(engine, 50, &some), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "did not stop for 0.5 seconds and was ended");
    CHECK(now() - start < AT_ONCE);
    weft_engine_free(engine);
    nothing_is_left();
}

/* A request that is longer than what a socket holds. */
static void a_request_that_is_not_read_can_be_cancelled(void)
{
    enum { LONG = 900000 };
    const weft_engine_options o = {
        .backend = "subprocess", .program = check_built("tests/fake_engine"), .stop_seconds = 0.3};
    const weft_generate_options late = {.timeout = 0.2};
    weft_engine *engine;
    char *prompt = malloc(LONG + 1);
    if (!CHECK(prompt != NULL) || !CHECK_OK(weft_engine_load("unreading", &o, &engine)))
        return;
    memset(prompt, 'x', LONG);
    prompt[LONG] = '\0';
    const double start = now();
    CHECK_STATUS(weft_engine_generate(engine,
                                      &(weft_engine_request){.prompt = prompt, .options = &late},
                                      NULL, NULL),
                 WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "did not stop for 0.3 seconds and was ended");
    CHECK(now() - start < AT_ONCE);
    free(prompt);
    weft_engine_free(engine);
    nothing_is_left();
}

static void programs_give_no_more_tokens_than_were_asked_for(void)
{
    static const char *const modes[] = {"generous", "wordy"};
    for (size_t i = 0; i < 2; i++) {
        weft_engine *engine;
        seen all = {.n = 0}, again = {.n = 0};
        if (!CHECK_OK(load(modes[i], 20, &engine)))
            return;
        CHECK_OK(generate(engine, 5, &all));
        CHECK_EQ_INT(all.n, 5);
        const weft_engine_metrics took = weft_engine_metrics_of(engine);
        CHECK(took.reason == WEFT_FINISH_LENGTH && took.detail == WEFT_FINISH_MAX);
        CHECK_EQ_INT(took.generated_tokens, i == 0 ? 5 : 0);
        CHECK_OK(generate(engine, 3, &again));
        CHECK_EQ_INT(again.n, 3);
        weft_engine_free(engine);
        nothing_is_left();
    }
}

static void errors_of_programs_do_not_end_them(void)
{
    weft_engine *engine;
    seen none = {.n = 0};
    if (!CHECK_OK(load("fails", PATIENCE, &engine)))
        return;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(generate(engine, 5, &none), WEFT_IO);
        CHECK_STR(weft_error_message(), "subprocess: generate: no memory left");
    }
    weft_engine_free(engine);
    nothing_is_left();
}

/* Control characters in the program's answers and error output are escaped. */
static void programs_cannot_write_controls_into_messages(void)
{
    static const char *const modes[] = {"hostile", "hostile-end"};
    for (size_t i = 0; i < 2; i++) {
        weft_engine *engine;
        seen none = {.n = 0};
        if (!CHECK_OK(load(modes[i], 20, &engine)))
            return;
        CHECK(generate(engine, 5, &none) != WEFT_OK);
        const char *message = weft_error_message();
        for (const char *c = message; *c != '\0'; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f ||
                ((unsigned char)*c == 0xc2 && (unsigned char)c[1] < 0xa0))
                CHECK_FAIL("%s: byte %td is 0x%02x", modes[i], c - message, (unsigned char)*c);
        CHECK_CONTAINS(message, i == 0 ? "\\x1b[2J\\u009b31m\\x07\\rdone" : "boom");
        weft_engine_free(engine);
    }
    nothing_is_left();
}

static void long_error_output_is_read(void)
{
    weft_engine *engine;
    seen all = {.n = 0};
    if (!CHECK_OK(load("loud", PATIENCE, &engine)))
        return;
    CHECK_OK(generate(engine, 3, &all));
    CHECK_STR(all.text, "0 1 2 ");
    weft_engine_free(engine);
    nothing_is_left();
}

static void programs_that_do_not_quit_are_killed(void)
{
    weft_engine *engine;
    if (!CHECK_OK(load("stubborn", PATIENCE, &engine)))
        return;
    double start = now();
    weft_engine_close(engine);
    CHECK(now() - start > 1.8 && now() - start < AT_ONCE);
    weft_engine_free(engine);
    nothing_is_left();
}

/* A program that ended between two calls; SIGPIPE keeps the process's setting. */
static void broken_pipes_do_not_end_the_process(void)
{
    struct sigaction action;
    weft_engine *engine;
    seen none = {.n = 0};
    if (!CHECK_OK(load("leaves", PATIENCE, &engine)))
        return;
    usleep(50000);
    CHECK_STATUS(generate(engine, 5, &none), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "ended by signal 9");
    weft_engine_free(engine);
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    nothing_is_left();
}

/* The fake engine makes its folders here. */
static void use_temporary_folder(void)
{
    CHECK_OK(weft_folder_make(check_temporary("shown")));
    setenv("TMPDIR", check_temporary("shown"), 1);
}

static void no_folder_is_left(void)
{
    CHECK(rmdir(check_temporary("shown")) == 0); /* it is empty */
    unsetenv("TMPDIR");
}

static void programs_show_keys_and_queries(void)
{
    const weft_engine_request request = {.prompt = "x"};
    weft_inspection *found = NULL;
    weft_engine *engine = NULL;
    use_temporary_folder();
    if (!CHECK_OK(load("shows", PATIENCE, &engine)))
        return;
    if (CHECK_OK(weft_engine_inspect(engine, &request, &found))) {
        CHECK_STR(found->architecture, "fake");
        CHECK(found->n_layers == 2 && found->length == 2);
        CHECK(found->ids[0] == 5 && found->ids[1] == 7);
        const weft_inspected_layer *last = &found->layers[1];
        CHECK(last->source == 0 && last->n_kv_heads == 1 && last->n_heads == 2);
        CHECK_EQ_INT(last->head_dim, 2);
        CHECK(((const float *)weft_data(last->keys))[3] == 13);
        CHECK(((const float *)weft_data(last->queries))[7] == 37);
        CHECK(((const float *)weft_data(found->layers[0].keys))[1] == 1);
    }
    weft_inspection_free(found);
    weft_engine_free(engine);
    if (!CHECK_OK(load("keys-only", PATIENCE, &engine)))
        return;
    const char *path = check_temporary("keys.safetensors");
    weft_safetensors *file = NULL;
    if (CHECK_OK(weft_engine_inspect(engine, &request, &found))) {
        CHECK(found->ids == NULL && found->length == 2 && found->layers[1].source == 1);
        CHECK(found->layers[0].queries == NULL && found->layers[0].n_heads == 0);
        CHECK_OK(weft_inspection_save(found, path));
        if (CHECK_OK(weft_safetensors_open(path, &file)))
            CHECK_EQ_INT(weft_safetensors_count(file), 2);
        weft_safetensors_close(file);
    }
    weft_inspection_free(found);
    weft_engine_free(engine);
    no_folder_is_left();
}

static void keys_and_queries_of_programs_are_checked(void)
{
    static const struct {
        const char *mode, *part;
    } wrong[] = {{"blind", "nothing can be seen"},
                 {"short", "keys_00.bin: expected (1, 2, 2) float32, got 12 bytes"},
                 {"odd", "shapes: expected positive numbers"}};
    use_temporary_folder();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_inspection *found = NULL;
        weft_engine *engine = NULL;
        if (!CHECK_OK(load(wrong[i].mode, 5, &engine)))
            continue;
        CHECK(weft_engine_inspect(engine, &(weft_engine_request){.prompt = "x"}, &found) !=
              WEFT_OK);
        CHECK(found == NULL);
        CHECK_CONTAINS(weft_engine_error(engine), wrong[i].part);
        seen s = {.n = 0};
        CHECK_OK(generate(engine, 2, &s)); /* it continues */
        CHECK_EQ_INT(s.n, 2);
        weft_engine_free(engine);
    }
    no_folder_is_left();
}

static void builds_without_programs_report_it(void)
{
    weft_engine *engine;
    CHECK_STATUS(load("good", PATIENCE, &engine), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "backend 'subprocess' is unknown (known: native)");
}

int main(int argc, char **argv)
{
    static const check_case with[] = {
        CHECK_CASE(a_program_generates),
        CHECK_CASE(cancelling_is_seen_at_the_next_token),
        CHECK_CASE(requests_contain_all_options),
        CHECK_CASE(unsupported_requests_are_refused),
        CHECK_CASE(programs_that_do_not_load),
        CHECK_CASE(programs_that_end_early),
        CHECK_CASE(programs_that_ignore_a_cancellation_are_killed),
        CHECK_CASE(a_program_has_less_time_to_stop_than_to_answer),
        CHECK_CASE(a_request_that_is_not_read_can_be_cancelled),
        CHECK_CASE(programs_give_no_more_tokens_than_were_asked_for),
        CHECK_CASE(errors_of_programs_do_not_end_them),
        CHECK_CASE(programs_cannot_write_controls_into_messages),
        CHECK_CASE(long_error_output_is_read),
        CHECK_CASE(programs_that_do_not_quit_are_killed),
        CHECK_CASE(broken_pipes_do_not_end_the_process),
        CHECK_CASE(programs_show_keys_and_queries),
        CHECK_CASE(keys_and_queries_of_programs_are_checked),
    };
    static const check_case without[] = {CHECK_CASE(builds_without_programs_report_it)};
    files_before = open_files();
    return is_built_in() ? check_main(argc, argv, "program", with, sizeof with / sizeof *with)
                         : check_main(argc, argv, "program", without, 1);
}
