/* tests/serve/test_serve_teach.c -- files and fine-tuning jobs of `weft serve`: adapters trained
 * while the model answers, compared with those of `weft train`; restarts after kills; errors. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/jobs.h"
#include "weft/adapter.h"
#include "weft/io.h"
#include "weft/memory.h"

/* Longer than the path of an upload. */
#define LONG_NAME "a_name_that_is_longer_than_the_path_of_an_upload_in_the_folder_of_the_state_"

/* ---- a server of the command ---------------------------------------------------------------- */

typedef struct command {
    pid_t process;
    int port;
} command;

/* The port that the server has printed; 0: not yet. */
static int read_port(const char *log)
{
    static const char mark[] = "serving on http://127.0.0.1:";
    char *text = NULL;
    int port = 0;
    const char *at = weft_file_read(log, 0, &text, NULL) == WEFT_OK ? strstr(text, mark) : NULL;
    if (at != NULL && strchr(at, '\n') != NULL) /* the line is complete */
        port = atoi(at + sizeof mark - 1);
    weft_free(text);
    return port;
}

/* Starts `weft serve` with a state folder, and an option with its value (NULL: none). Fails when
 * it ends instead. */
static command start_with(const char *state, const char *option, const char *value)
{
    char log[600];
    command c = {0};
    snprintf(log, sizeof log, "%s.log", state);
    (void)unlink(log);
    c.process = fork();
    if (c.process == 0) {
        const int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || dup2(file, STDERR_FILENO) < 0)
            _exit(127);
        execl(check_built("cli/weft"), "weft", "serve", check_source("examples/storyteller"),
              "--name", "storyteller", "--port", "0", "--device", "cpu", "--dtype", "float32",
              "--state", state, "--teach-latency", "20", option, value, (char *)NULL);
        _exit(127);
    }
    bool ended = false;
    for (int i = 0; i < 60000 && c.port == 0 && !ended; i++) {
        client_pause(10);
        ended = waitpid(c.process, NULL, WNOHANG) == c.process;
        c.port = read_port(log);
    }
    if (!CHECK(c.port > 0 && !ended))
        c.process = ended ? 0 : c.process;
    return c;
}

static command start(const char *state)
{
    return start_with(state, NULL, NULL);
}

static void stop(command *c, int number)
{
    int code = 0;
    if (c->process <= 0)
        return;
    kill(c->process, number);
    CHECK(waitpid(c->process, &code, 0) == c->process);
    CHECK(number == SIGKILL ? WIFSIGNALED(code) : WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

/* ---- weft train ----------------------------------------------------------------------------- */

/* Trains with the command; the caller frees the bytes of the adapter. */
static char *train_alone(const char *name, const char *data, const char *options, size_t *n)
{
    char path[600], out[600], log[600], *bytes = NULL;
    snprintf(path, sizeof path, "%s.jsonl", check_temporary(name));
    snprintf(out, sizeof out, "%s.run", check_temporary(name));
    snprintf(log, sizeof log, "%s.txt", check_temporary(name));
    CHECK_OK(weft_file_write(path, data, strlen(data)));
    char *line = weft_format("%s train %s --data %s --val-split 0 --device cpu --dtype float32 "
                             "--out %s %s >%s 2>&1",
                             check_built("cli/weft"), check_source("examples/storyteller"), path,
                             out, options, log);
    CHECK(line != NULL && system(line) == 0);
    weft_free(line);
    char *adapter = weft_format("%s/last/adapter_model.safetensors", out);
    CHECK_OK(weft_file_read(adapter, 0, &bytes, n));
    weft_free(adapter);
    return bytes;
}

static void expect_adapter(const char *state, const char *id, const char *expected, size_t n)
{
    char *path = weft_format("%s/runs/%s/last/adapter_model.safetensors", state, id), *bytes = NULL;
    size_t size = 0;
    CHECK_OK(weft_file_read(path, 0, &bytes, &size));
    CHECK_EQ_INT((int)size, (int)n);
    if (bytes != NULL && size == n)
        CHECK_BYTES(bytes, expected, n);
    weft_free(bytes);
    weft_free(path);
}

/* ---- cases ---------------------------------------------------------------------------------- */

#define OPTIONS                                                                                    \
    ", \"seed\": 5, \"suffix\": \"cats\", \"hyperparameters\": {\"n_epochs\": 2, \"batch_size\": " \
    "4, \"learning_rate_multiplier\": 10}, \"weft\": {\"rank\": 4, \"dropout\": 0.1, "             \
    "\"targets\": [\"q_proj\", \"down_proj\"], \"save_every\": 5}"
#define WORDS                                                                                      \
    "--seed 5 --epochs 2 --batch-size 4 --lr 2e-3 --rank 4 --dropout 0.1 --targets "               \
    "q_proj,down_proj --save-every 5"

/* Longer jobs, with a number of epochs. */
#define LONG_OPTIONS                                                                               \
    ", \"seed\": 5, \"hyperparameters\": {\"n_epochs\": %d, \"batch_size\": 4}, \"weft\": "        \
    "{\"rank\": 4, \"dropout\": 0.1, \"save_every\": 5}"
#define LONG_WORDS                                                                                 \
    "--seed 5 --epochs %d --batch-size 4 --lr 2e-4 --rank 4 --dropout 0.1 --save-every 5"

/* The number of answers while a job trains, and the job once it has ended. */
static int answer_during(int port, const char *id, const char *expected, json_object **job)
{
    int answers = 0;
    *job = jobs_get(port, id, "");
    while (jobs_is(*job, "queued") || jobs_is(*job, "running")) {
        char *during = client_answer(port, "storyteller");
        CHECK_STR(during, expected);
        weft_free(during);
        answers++;
        json_object_put(*job);
        *job = jobs_get(port, id, "");
    }
    return answers;
}

static void a_job_trains_what_weft_train_does_while_clients_are_answered(void)
{
    const char *state = check_temporary("state");
    char *data = jobs_rows(48), *before = NULL, *during = NULL, *alone = NULL;
    size_t n = 0;
    command c = start(state);
    char *expected = train_alone("alone", data, WORDS, &n),
         *file = jobs_upload(c.port, "cats.jsonl", data);
    before = client_answer(c.port, "storyteller");
    char *id = NULL;
    int answers = 0;
    json_object *job = NULL;
    for (int i = 0; i < 5 && answers < 2; i++) { /* repeated if the job ended too soon */
        weft_free(id);
        json_object_put(job);
        id = jobs_create(c.port, file, OPTIONS);
        answers = answer_during(c.port, id, before, &job);
    }
    CHECK(answers > 1);
    jobs_ended(job, "succeeded");
    CHECK(json_object_get_int(client_at(job, "trained_tokens")) > 0);
    expect_adapter(state, id, expected, n);
    during = client_answer(c.port, "storyteller");
    CHECK_STR(during, before);
    weft_free(during);
    /* 24 updates, each with an event */
    CHECK_EQ_INT(jobs_count_metrics(c.port, id), 24);
    const char *model = client_text(job, "fine_tuned_model");
    CHECK(model != NULL && strncmp(model, "cats-", 5) == 0);
    char *taught = client_answer(c.port, model);
    CHECK(strcmp(taught, before) != 0);
    char *adapter = weft_format("%s/runs/%s/last", state, id);
    alone =
        client_alone_with(adapter, "Once upon a time", &(weft_generate_options){.max_tokens = 12});
    json_object *choice = json_tokener_parse(taught);
    CHECK_STR(client_text(choice, "text"), alone);
    json_object_put(choice);
    stop(&c, SIGTERM);
    c = start(state); /* which serves it again */
    during = client_answer(c.port, model);
    CHECK_STR(during, taught);
    stop(&c, SIGTERM);
    weft_free(during);
    weft_free(adapter);
    weft_free(alone);
    weft_free(taught);
    weft_free(before);
    weft_free(expected);
    weft_free(file);
    weft_free(data);
    json_object_put(job);
    weft_free(id);
}

/* The job's lines of metrics.jsonl so far, which have times; the caller frees them. */
static char *read_metrics(const char *state, const char *id)
{
    char *path = weft_format("%s/runs/%s/metrics.jsonl", state, id), *text = NULL;
    CHECK_OK(weft_file_read(path, 0, &text, NULL));
    weft_free(path);
    return text;
}

static bool record_has(const char *state, const char *id, const char *part)
{
    char *path = weft_format("%s/jobs/%s.json", state, id), *text = NULL;
    const bool has = CHECK_OK(weft_file_read(path, 0, &text, NULL)) && strstr(text, part) != NULL;
    weft_free(path);
    weft_free(text);
    return has;
}

/* Creates a job, kills the server during it, and stops the restarted server once more. Returns the
 * metrics at the kill, which the caller frees like the id; NULL: the job had already ended. */
static char *kill_and_stop(const char *state, const char *data, int epochs, char **id)
{
    static const char over[] = "\"status\":\"succeeded\"";
    command c = start(state);
    char *file = jobs_upload(c.port, "cats.jsonl", data), *more = weft_format(LONG_OPTIONS, epochs),
         *metrics = NULL;
    *id = jobs_create(c.port, file, more);
    weft_free(file);
    weft_free(more);
    jobs_await_steps(c.port, *id, 7);
    stop(&c, SIGKILL);
    if (!record_has(state, *id, over)) {
        CHECK(record_has(state, *id, "\"status\":\"running\""));
        metrics = read_metrics(state, *id);
        c = start(state);
        jobs_await_steps(c.port, *id, 12);
        stop(&c, SIGTERM);
        if (!record_has(state, *id, over)) {
            CHECK(record_has(state, *id, "\"status\":\"queued\""));
            return metrics;
        }
    }
    weft_free(metrics);
    weft_free(*id);
    return NULL;
}

/* Updates before the checkpoint are not repeated. If a job ended too soon, a longer one follows. */
static void jobs_continue_after_kills_and_stops(void)
{
    char state[600], name[32], *data = jobs_rows(48), *id = NULL, *before = NULL;
    size_t n = 0;
    int epochs = 8;
    for (;; epochs *= 3) {
        snprintf(name, sizeof name, "killed-%d", epochs);
        snprintf(state, sizeof state, "%s", check_temporary(name));
        before = kill_and_stop(state, data, epochs, &id);
        if (before != NULL || !CHECK(epochs < 72))
            break;
    }
    if (before == NULL)
        return;
    char *line = before, *words = weft_format(LONG_WORDS, epochs);
    for (int i = 0; i < 5 && line != NULL; i++)
        line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL;
    CHECK(line != NULL);
    char *expected = train_alone("unkilled", data, words, &n);
    command c = start(state);
    json_object *job = jobs_await(c.port, id);
    jobs_ended(job, "succeeded");
    expect_adapter(state, id, expected, n);
    CHECK_EQ_INT(jobs_count_metrics(c.port, id), 12 * epochs);
    char *after = read_metrics(state, id);
    if (line != NULL && after != NULL && CHECK(strlen(after) > (size_t)(line - before)))
        CHECK_BYTES(after, before, (size_t)(line - before));
    json_object_put(job);
    stop(&c, SIGTERM);
    weft_free(words);
    weft_free(before);
    weft_free(after);
    weft_free(expected);
    weft_free(data);
    weft_free(id);
}

/* A job trains beside a served adapter, whose answers do not change. */
static void jobs_train_beside_adapters(void)
{
    const char *state = check_temporary("beside");
    char *data = jobs_rows(48),
         *adapter = weft_format("style=%s.run/last", check_temporary("style"));
    size_t n = 0;
    weft_free(train_alone("style", data, "--steps 4 --lr 1e-2", &n));
    char *expected = train_alone("besides", data, WORDS, &n);
    command c = start_with(state, "--adapter", adapter);
    char *file = jobs_upload(c.port, "cats.jsonl", data), *before = client_answer(c.port, "style"),
         *plain = client_answer(c.port, "storyteller");
    CHECK(strcmp(before, plain) != 0);
    char *id = jobs_create(c.port, file, OPTIONS);
    json_object *job = jobs_get(c.port, id, "");
    for (int answers = 0; answers < 3 || jobs_is(job, "queued") || jobs_is(job, "running");
         answers++) {
        char *styled = client_answer(c.port, "style"),
             *other = client_answer(c.port, "storyteller");
        CHECK_STR(styled, before);
        CHECK_STR(other, plain);
        weft_free(styled);
        weft_free(other);
        json_object_put(job);
        job = jobs_get(c.port, id, "");
        if (job == NULL)
            break;
    }
    jobs_ended(job, "succeeded");
    expect_adapter(state, id, expected, n);
    json_object_put(job);
    stop(&c, SIGTERM);
    weft_free(adapter);
    weft_free(before);
    weft_free(plain);
    weft_free(expected);
    weft_free(file);
    weft_free(data);
    weft_free(id);
}

static char *pairs(int n)
{
    char *text = weft_strdup("");
    for (int i = 0; i < n; i++) {
        char *more =
            weft_format("%s{\"prompt\": \"The cat number %d says\", \"chosen\": \" hello to "
                        "the dog.\", \"rejected\": \" nothing to the sun %d times.\"}\n",
                        text, i, i);
        weft_free(text);
        text = more;
    }
    return text;
}

/* Creates a preference job and stops the server while it computes the reference, some milliseconds
 * after its beginning. The caller frees the id; NULL: it was too early or too late. */
static char *stop_in_reference(const char *state, const char *data, int ms)
{
    command c = start(state);
    char *file = jobs_upload(c.port, "pairs.jsonl", data),
         *id = jobs_create(c.port, file,
                           ", \"seed\": 3, \"weft\": {\"steps\": 3}, \"method\": {\"type\": "
                           "\"dpo\", \"dpo\": {\"hyperparameters\": {\"batch_size\": 2}}}");
    char *progress = weft_format("%s/runs/%s/unfinished-reference.safetensors", state, id),
         *folder = weft_format("%s/runs/%s", state, id);
    for (int i = 0; i < 60000 && access(folder, F_OK) != 0; i++) /* made before the reference */
        client_pause(1);
    client_pause(ms);
    stop(&c, SIGTERM);
    const bool begun = access(progress, F_OK) == 0;
    if (begun)
        CHECK(record_has(state, id, "\"status\":\"queued\""));
    else
        weft_free(id);
    weft_free(progress);
    weft_free(folder);
    weft_free(file);
    return begun ? id : NULL;
}

/* A preference job, which is stopped before its first update and continues there. The reference of
 * more pairs takes longer, and a late thread is a smaller part of that. */
static void preference_jobs_stop_before_the_first_update(void)
{
    char state[512], name[32], *id = NULL, *data = NULL;
    size_t n = 0;
    for (int i = 0; id == NULL && i < 7; i++) {
        const int size = 300 << i;
        weft_free(data);
        data = pairs(size);
        snprintf(name, sizeof name, "pairs-%d", size);
        snprintf(state, sizeof state, "%s", check_temporary(name));
        id = stop_in_reference(state, data, 50 << i);
    }
    if (!CHECK(id != NULL))
        return;
    char *expected = train_alone("pair", data,
                                 "--objective dpo --seed 3 --steps 3 --batch-size 2 --lr 2e-4", &n);
    command c = start(state);
    json_object *job = jobs_await(c.port, id);
    jobs_ended(job, "succeeded");
    expect_adapter(state, id, expected, n);
    json_object_put(job);
    stop(&c, SIGTERM);
    weft_free(expected);
    weft_free(data);
    weft_free(id);
}

/* With a validation file the adapter with the lowest validation loss is served. */
static void jobs_with_validation_serve_the_best_adapter(void)
{
    const char *state = check_temporary("validated");
    char *data = jobs_rows(48),
         *other = weft_strdup("{\"prompt\": \"The\", \"completion\": \" sun\"}\n");
    command c = start(state);
    char *file = jobs_upload(c.port, "cats.jsonl", data),
         *held_out = jobs_upload(c.port, "other.jsonl", other);
    char *more = weft_format(OPTIONS ", \"validation_file\": \"%s\"", held_out);
    char *id = jobs_create(c.port, file, more);
    json_object *job = jobs_await(c.port, id), *events = jobs_get(c.port, id, "/events?limit=100");
    jobs_ended(job, "succeeded");
    CHECK_CONTAINS(json_object_to_json_string(events), "validation loss=");
    CHECK_CONTAINS(json_object_to_json_string(events), "valid_loss");
    char *best = weft_format("%s/runs/%s/best", state, id);
    char *expected =
        client_alone_with(best, "Once upon a time", &(weft_generate_options){.max_tokens = 12});
    char *served = client_answer(c.port, client_text(job, "fine_tuned_model"));
    json_object *choice = json_tokener_parse(served);
    CHECK_STR(client_text(choice, "text"), expected);
    json_object_put(choice);
    json_object_put(events);
    json_object_put(job);
    stop(&c, SIGTERM);
    weft_free(best);
    weft_free(expected);
    weft_free(served);
    weft_free(more);
    weft_free(held_out);
    weft_free(other);
    weft_free(file);
    weft_free(data);
    weft_free(id);
}

static void malformed_jobs_are_refused(int port, const char *file)
{
    static const struct {
        const char *more, *part;
    } cases[] = {
        {"\"model\": \"other\"", "there is no model"},
        {"\"model\": \"storyteller\", \"training_file\": 3", "training_file: expected a string"},
        {"\"model\": \"storyteller\"", "training_file: expected the id"},
        {"\"model\": \"storyteller\", \"training_file\": \"file-x\"", "no training_file"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"suffix\": \"a b\"", "suffix"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"seed\": -1", "seed"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"weft\": {\"rnak\": 1}", "rnak"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"weft\": {\"rank\": 1.5}",
         "rank: expected a whole number"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"weft\": {\"targets\": \"x\"}",
         "targets"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"hyperparameters\": "
         "{\"batch_size\": 0}",
         "batch_size: expected a number from 1"},
        {"\"model\": \"storyteller\", \"training_file\": \"%s\", \"method\": {\"type\": "
         "\"reinforcement\"}",
         "supervised or dpo"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *hole = strstr(cases[i].more, "%s");
        const int before = hole != NULL ? (int)(hole - cases[i].more) : (int)strlen(cases[i].more);
        char *body = weft_format("{%.*s%s%s}", before, cases[i].more, hole != NULL ? file : "",
                                 hole != NULL ? hole + 2 : "");
        client_reply r = client_ask(port, "POST", JOBS, body);
        CHECK(r.status == 400 || r.status == 404 || r.status == 501);
        CHECK_CONTAINS(r.body != NULL ? r.body : "", cases[i].part);
        client_free(&r);
        weft_free(body);
    }
}

static void failures_name_the_line_and_jobs_can_be_cancelled(void)
{
    const char *state = check_temporary("failures");
    command c = start(state);
    char *good = jobs_rows(200);
    char *bad = jobs_upload(c.port, LONG_NAME "bad.jsonl",
                            "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n");
    char *id = jobs_create(c.port, bad, "");
    json_object *job = jobs_await(c.port, id);
    jobs_ended(job, "failed");
    CHECK_CONTAINS(client_text(job, "error.message"), LONG_NAME "bad.jsonl:2");
    CHECK_STR(client_text(job, "error.param"), "training_file");
    json_object_put(job);
    weft_free(id);
    char *file = jobs_upload(c.port, "good.jsonl", good);
    malformed_jobs_are_refused(c.port, file);
    id = jobs_create(c.port, file, ", \"hyperparameters\": {\"n_epochs\": 100000}");
    char *second = jobs_create(c.port, file, ""), *path = weft_format(JOBS "/%s/cancel", id),
         *other = weft_format(JOBS "/%s/cancel", second), *used = weft_format("/v1/files/%s", file);
    jobs_await_steps(c.port, id, 1);
    client_expect(c.port, "DELETE", used, NULL, 400, id);
    client_expect(c.port, "POST", other, "", 200, "\"cancelled\"");
    client_expect(c.port, "POST", path, "", 200, "\"cancelled\"");
    client_expect(c.port, "POST", path, "", 400, "has ended");
    job = jobs_await(c.port, id);
    jobs_ended(job, "cancelled");
    json_object_put(job);
    client_expect(c.port, "GET", JOBS "?limit=2", NULL, 200, "\"has_more\": true");
    client_expect(c.port, "GET", JOBS "?limit=x", NULL, 400, "limit");
    client_expect(c.port, "GET", JOBS "/ftjob-none", NULL, 404, "no job");
    client_expect(c.port, "POST", JOBS "/ftjob-none/cancel", "", 404, "no job");
    stop(&c, SIGTERM);
    weft_free(good);
    weft_free(bad);
    weft_free(file);
    weft_free(id);
    weft_free(second);
    weft_free(path);
    weft_free(other);
    weft_free(used);
}

/* A batch that does not fit into memory is not tried. */
static void jobs_that_need_too_much_memory_are_refused(void)
{
    const char *state = check_temporary("large");
    command c = start_with(state, "--max-memory", "0.06");
    char *data = jobs_rows(200), *file = jobs_upload(c.port, "a.jsonl", data);
    char *before = client_answer(c.port, "storyteller");
    char *id = jobs_create(c.port, file,
                           ", \"hyperparameters\": {\"batch_size\": 200}, \"weft\": "
                           "{\"micro_batch\": 200, \"steps\": 1}");
    json_object *job = jobs_await(c.port, id);
    jobs_ended(job, "failed");
    CHECK_STR(client_text(job, "error.code"), "insufficient_memory");
    CHECK_CONTAINS(client_text(job, "error.message"), "a smaller batch_size");
    json_object_put(job);
    weft_free(id);
    /* The micro-batch size can be set. */
    id = jobs_create(c.port, file,
                     ", \"hyperparameters\": {\"batch_size\": 200}, \"weft\": {\"steps\": 1}");
    job = jobs_await(c.port, id);
    jobs_ended(job, "succeeded");
    char *after = client_answer(c.port, "storyteller");
    CHECK_STR(after, before);
    json_object_put(job);
    stop(&c, SIGTERM);
    weft_free(before);
    weft_free(after);
    weft_free(data);
    weft_free(file);
    weft_free(id);
}

CHECK_MAIN("serve_teach", CHECK_CASE(a_job_trains_what_weft_train_does_while_clients_are_answered),
           CHECK_CASE(jobs_continue_after_kills_and_stops), CHECK_CASE(jobs_train_beside_adapters),
           CHECK_CASE(preference_jobs_stop_before_the_first_update),
           CHECK_CASE(jobs_with_validation_serve_the_best_adapter),
           CHECK_CASE(failures_name_the_line_and_jobs_can_be_cancelled),
           CHECK_CASE(jobs_that_need_too_much_memory_are_refused))
