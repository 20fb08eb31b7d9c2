/* tests/serve/test_serve_teach.c -- files and fine-tuning jobs of `weft serve`: adapters trained
 * while the model answers, compared with those of `weft train`; restarts after kills; errors. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/adapter.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- a server of the command ---------------------------------------------------------------- */

typedef struct command {
    pid_t process;
    int port;
} command;

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* The port that the server has printed; 0: not yet. */
static int read_port(const char *log)
{
    static const char mark[] = "serving on http://127.0.0.1:";
    char *text = NULL;
    int port = 0;
    if (weft_file_read(log, 0, &text, NULL) == WEFT_OK && strstr(text, mark) != NULL)
        port = atoi(strstr(text, mark) + sizeof mark - 1);
    weft_free(text);
    return port;
}

/* Starts `weft serve` with a state folder. */
static command start(const char *state)
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
              "--state", state, "--teach-latency", "20", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 6000 && c.port == 0; i++) {
        pause_ms(10);
        c.port = read_port(log);
    }
    CHECK(c.port > 0);
    return c;
}

static void stop(command *c, int number)
{
    int code = 0;
    kill(c->process, number);
    CHECK(waitpid(c->process, &code, 0) == c->process);
    CHECK(number == SIGKILL ? WIFSIGNALED(code) : WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

/* ---- requests ------------------------------------------------------------------------------- */

static char *rows(int n)
{
    char *text = weft_strdup("");
    for (int i = 0; i < n; i++) {
        char *more = weft_format("%s{\"prompt\": \"The cat number %d says\", \"completion\": "
                                 "\" hello to the dog and the sun %d times.\"}\n",
                                 text, i, i + 1);
        weft_free(text);
        text = more;
    }
    return text;
}

static char *form(const char *name, const char *purpose, const char *data)
{
    return weft_format("--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n%s\r\n"
                       "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n"
                       "Content-Type: application/octet-stream\r\n\r\n%s\r\n--B--\r\n",
                       purpose, name, data);
}

static json_object *post_form(int port, const char *body, int status)
{
    client_reply r = client_read(client_open(
        port, "POST", "/v1/files", "Content-Type: multipart/form-data; boundary=B\r\n", body));
    if (!CHECK_EQ_INT(r.status, status))
        fprintf(stderr, "%s\n", r.body != NULL ? r.body : "");
    json_object *root = r.body != NULL ? json_tokener_parse(r.body) : NULL;
    client_free(&r);
    return root;
}

/* Uploads data; the caller frees the id. */
static char *upload(int port, const char *name, const char *data)
{
    char *body = form(name, "fine-tune", data);
    json_object *root = post_form(port, body, 200);
    const char *id = client_text(root, "id");
    char *copy = weft_strdup(id != NULL ? id : "");
    CHECK(strncmp(copy, "file-", 5) == 0);
    CHECK_EQ_INT(json_object_get_int(client_at(root, "bytes")), (int)strlen(data));
    CHECK_STR(client_text(root, "filename"), name);
    json_object_put(root);
    weft_free(body);
    return copy;
}

/* Creates a job; the caller frees the id. */
static char *create(int port, const char *file, const char *more)
{
    char *body =
        weft_format("{\"model\": \"storyteller\", \"training_file\": \"%s\"%s}", file, more);
    json_object *root = client_json(port, "/v1/fine_tuning/jobs", body, 200);
    const char *id = client_text(root, "id");
    char *copy = weft_strdup(id != NULL ? id : "");
    CHECK_STR(client_text(root, "object"), "fine_tuning.job");
    json_object_put(root);
    weft_free(body);
    return copy;
}

static json_object *job_at(int port, const char *id, const char *rest)
{
    char *path = weft_format("/v1/fine_tuning/jobs/%s%s", id, rest);
    json_object *root = client_json(port, path, NULL, 200);
    weft_free(path);
    return root;
}

static bool is(json_object *job, const char *status)
{
    const char *now = client_text(job, "status");
    return now != NULL && strcmp(now, status) == 0;
}

/* The job once it has ended. */
static json_object *await(int port, const char *id)
{
    json_object *job = NULL;
    for (int i = 0; i < 6000; i++) {
        json_object_put(job);
        job = job_at(port, id, "");
        if (job == NULL || !(is(job, "queued") || is(job, "running")))
            break;
        pause_ms(20);
    }
    return job;
}

/* Whether it has ended as expected; else prints it. */
static bool ended(json_object *job, const char *status)
{
    const bool well = CHECK_STR(client_text(job, "status"), status);
    if (!well)
        fprintf(stderr, "%s\n", json_object_to_json_string(job));
    return well;
}

/* The number of metrics among the latest events; -1: no answer. */
static int count_metrics(int port, const char *id)
{
    json_object *events = job_at(port, id, "/events?limit=1000");
    json_object *data = client_at(events, "data");
    int n = data != NULL ? 0 : -1;
    for (size_t i = 0; data != NULL && i < json_object_array_length(data); i++) {
        const char *type = client_text(json_object_array_get_idx(data, i), "type");
        n += type != NULL && strcmp(type, "metrics") == 0;
    }
    json_object_put(events);
    return n;
}

/* Waits until a job has made so many updates, or has ended. */
static void await_steps(int port, const char *id, int steps)
{
    for (int i = 0, n = 0; i < 6000 && n >= 0 && n < steps; i++) {
        json_object *job = job_at(port, id, "");
        const bool going = is(job, "queued") || is(job, "running");
        n = going ? count_metrics(port, id) : -1;
        json_object_put(job);
        pause_ms(20);
    }
}

/* The text of a greedy answer with all log-probabilities, which have 9 digits. */
static char *answer(int port, const char *model)
{
    char *body =
        weft_format("{\"model\": \"%s\", \"prompt\": \"Once upon a time\", \"max_tokens\": "
                    "12, \"temperature\": 0, \"logprobs\": 3}",
                    model);
    json_object *root = client_json(port, "/v1/completions", body, 200);
    json_object *choice = client_at(root, "choices.0");
    char *text = weft_strdup(choice != NULL ? json_object_to_json_string(choice) : "");
    json_object_put(root);
    weft_free(body);
    return text;
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

static void a_job_trains_what_weft_train_does_while_clients_are_answered(void)
{
    const char *state = check_temporary("state");
    char *data = rows(48), *before = NULL, *during = NULL, *alone = NULL;
    size_t n = 0;
    command c = start(state);
    char *expected = train_alone("alone", data, WORDS, &n),
         *file = upload(c.port, "cats.jsonl", data);
    before = answer(c.port, "storyteller");
    char *id = create(c.port, file, OPTIONS);
    int answers = 0;
    json_object *job = job_at(c.port, id, "");
    while (is(job, "queued") || is(job, "running")) {
        during = answer(c.port, "storyteller");
        CHECK_STR(during, before);
        weft_free(during);
        answers++;
        json_object_put(job);
        job = job_at(c.port, id, "");
    }
    CHECK(answers > 1);
    ended(job, "succeeded");
    CHECK(json_object_get_int(client_at(job, "trained_tokens")) > 0);
    expect_adapter(state, id, expected, n);
    during = answer(c.port, "storyteller");
    CHECK_STR(during, before);
    weft_free(during);
    /* 24 updates, each with an event */
    CHECK_EQ_INT(count_metrics(c.port, id), 24);
    const char *model = client_text(job, "fine_tuned_model");
    CHECK(model != NULL && strncmp(model, "cats-", 5) == 0);
    char *taught = answer(c.port, model);
    CHECK(strcmp(taught, before) != 0);
    char *adapter = weft_format("%s/runs/%s/last", state, id);
    alone =
        client_alone_with(adapter, "Once upon a time", &(weft_generate_options){.max_tokens = 12});
    json_object *choice = json_tokener_parse(taught);
    CHECK_STR(client_text(choice, "text"), alone);
    json_object_put(choice);
    stop(&c, SIGTERM);
    c = start(state); /* which serves it again */
    during = answer(c.port, model);
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

/* Kills the server in the middle of a job, and stops it once more. */
static void jobs_continue_after_kills_and_stops(void)
{
    const char *state = check_temporary("killed");
    char *data = rows(48);
    size_t n = 0;
    command c = start(state);
    char *expected = train_alone("unkilled", data, WORDS, &n);
    char *file = upload(c.port, "cats.jsonl", data), *id = create(c.port, file, OPTIONS);
    await_steps(c.port, id, 7);
    stop(&c, SIGKILL);
    c = start(state);
    await_steps(c.port, id, 12);
    stop(&c, SIGTERM);
    c = start(state);
    json_object *job = await(c.port, id);
    ended(job, "succeeded");
    expect_adapter(state, id, expected, n);
    CHECK_EQ_INT(count_metrics(c.port, id), 24);
    json_object_put(job);
    stop(&c, SIGTERM);
    weft_free(expected);
    weft_free(file);
    weft_free(data);
    weft_free(id);
}

static void expect(int port, const char *method, const char *path, const char *body, int status,
                   const char *part)
{
    client_reply r = client_ask(port, method, path, body);
    CHECK_EQ_INT(r.status, status);
    CHECK_CONTAINS(r.body != NULL ? r.body : "", part);
    client_free(&r);
}

#define JOBS "/v1/fine_tuning/jobs"

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
    char *good = rows(200);
    char *bad = upload(c.port, "bad.jsonl",
                       "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n");
    char *id = create(c.port, bad, "");
    json_object *job = await(c.port, id);
    ended(job, "failed");
    CHECK_CONTAINS(client_text(job, "error.message"), "bad.jsonl:2");
    CHECK_STR(client_text(job, "error.param"), "training_file");
    json_object_put(job);
    weft_free(id);
    char *file = upload(c.port, "good.jsonl", good);
    malformed_jobs_are_refused(c.port, file);
    id = create(c.port, file, ", \"hyperparameters\": {\"n_epochs\": 100}");
    char *second = create(c.port, file, ""), *path = weft_format(JOBS "/%s/cancel", id),
         *other = weft_format(JOBS "/%s/cancel", second), *used = weft_format("/v1/files/%s", file);
    await_steps(c.port, id, 1);
    expect(c.port, "DELETE", used, NULL, 400, id);
    expect(c.port, "POST", other, "", 200, "\"cancelled\"");
    expect(c.port, "POST", path, "", 200, "\"cancelled\"");
    expect(c.port, "POST", path, "", 400, "has ended");
    job = await(c.port, id);
    ended(job, "cancelled");
    json_object_put(job);
    expect(c.port, "GET", JOBS "?limit=2", NULL, 200, "\"has_more\": true");
    expect(c.port, "GET", JOBS "?limit=x", NULL, 400, "limit");
    expect(c.port, "GET", JOBS "/ftjob-none", NULL, 404, "no job");
    expect(c.port, "POST", JOBS "/ftjob-none/cancel", "", 404, "no job");
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

/* ---- a server of this process --------------------------------------------------------------- */

static int64_t asked_bytes;

/* serve_options.teach: puts an adapter into the model and asks for memory. */
static weft_status teach(void *context, const serve_task *task, weft_train_result *result)
{
    (void)context;
    (void)result;
    task->enter(task->context);
    weft_status status = weft_nn_lora_inject(weft_model_module(task->model), NULL);
    if (status == WEFT_OK)
        status = task->adapt(task->context);
    return status == WEFT_OK ? task->reserve(task->context, asked_bytes) : status;
}

static void uploads_are_checked(void)
{
    const char *state = check_temporary("uploads");
    serve_server *server =
        client_server((serve_options){.rows = 2, .state = state, .quota = 100, .teach = teach});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    static const struct {
        const char *body, *part;
        int status;
    } cases[] = {
        {"", "purpose", 400},
        {"--B--\r\n", "purpose", 400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune", "boundary",
         400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B--\r\n",
         "expected fine-tune", 400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--B--\r\n",
         "file: expected", 400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--B\r\n"
         "Content-Disposition: form-data; name=\"file\"\r\n\r\n\r\n--B--\r\n",
         "got no bytes", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_object *root = post_form(port, cases[i].body, cases[i].status);
        CHECK_CONTAINS(client_text(root, "error.message"), cases[i].part);
        json_object_put(root);
    }
    expect(port, "POST", "/v1/files", "{}", 400, "multipart/form-data");
    char *id = upload(port, "a.jsonl", "{\"text\": \"a\"}\n"), *path, *long_one;
    path = weft_format("/v1/files/%s/content", id);
    expect(port, "GET", path, NULL, 200, "{\"text\": \"a\"}\n");
    long_one = rows(3);
    char *body = form("long.jsonl", "fine-tune", long_one);
    json_object *root = post_form(port, body, 413);
    json_object_put(root);
    weft_free(path);
    weft_free(body);
    path = weft_format("/v1/files/%s", id);
    expect(port, "GET", "/v1/files", NULL, 200, id);
    expect(port, "GET", path, NULL, 200, "\"purpose\":\"fine-tune\"");
    expect(port, "DELETE", path, NULL, 200, "\"deleted\": true");
    expect(port, "DELETE", path, NULL, 404, "no file");
    expect(port, "GET", path, NULL, 404, "no file");
    expect(port, "GET", "/v1/files/../jobs", NULL, 404, "no file");
    weft_free(path);
    weft_free(long_one);
    weft_free(id);
    serve_stop(server, 0);
}

static void jobs_without_memory_are_refused(void)
{
    const char *state = check_temporary("memory");
    serve_server *server =
        client_server((serve_options){.rows = 2, .state = state, .teach = teach});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    char *file = upload(port, "a.jsonl", "{\"text\": \"a\"}\n"),
         *before = answer(port, "storyteller");
    asked_bytes = (int64_t)1 << 60;
    char *id = create(port, file, "");
    json_object *job = await(port, id);
    ended(job, "failed");
    CHECK_STR(client_text(job, "error.code"), "insufficient_memory");
    CHECK_CONTAINS(client_text(job, "error.message"), "GB of memory");
    char *after = answer(port, "storyteller");
    CHECK_STR(after, before);
    json_object_put(job);
    weft_free(before);
    weft_free(after);
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

/* Files that the server has not made stay. */
static void only_uploads_that_were_cut_off_are_removed(void)
{
    static const char *const names[] = {"mine.jsonl", "file-mine.jsonl",
                                        "file-0123456789abcdefghijklmn.jsonl"};
    char state[512], path[640];
    snprintf(state, sizeof state, "%s", check_temporary("kept"));
    snprintf(path, sizeof path, "%s/files", state);
    CHECK_OK(weft_folder_make(state));
    CHECK_OK(weft_folder_make(path));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/files/%s", state, names[i]);
        CHECK_OK(weft_file_write(path, "{}\n", 3));
    }
    serve_stop(client_server((serve_options){.rows = 2, .state = state, .teach = teach}), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/files/%s", state, names[i]);
        CHECK((access(path, F_OK) == 0) == (i < 2));
    }
}

static void a_state_folder_is_needed(void)
{
    serve_server *server = client_server((serve_options){.rows = 2});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    expect(port, "GET", "/v1/files", NULL, 501, "--state");
    expect(port, "POST", "/v1/files", "", 501, "--state");
    expect(port, "POST", JOBS, "{\"model\": \"storyteller\"}", 501, "--state");
    expect(port, "GET", JOBS "/ftjob-a/events", NULL, 501, "--state");
    serve_stop(server, 0);
    const char *link = check_temporary("link");
    serve_server *none = NULL;
    CHECK(symlink("/tmp", link) == 0);
    CHECK_STATUS(serve_start(&(serve_options){.name = "a", .state = link, .teach = teach}, &none),
                 WEFT_INVALID);
    serve_stop(none, 0);
}

CHECK_MAIN("serve_teach", CHECK_CASE(a_job_trains_what_weft_train_does_while_clients_are_answered),
           CHECK_CASE(jobs_continue_after_kills_and_stops),
           CHECK_CASE(failures_name_the_line_and_jobs_can_be_cancelled),
           CHECK_CASE(uploads_are_checked), CHECK_CASE(jobs_without_memory_are_refused),
           CHECK_CASE(only_uploads_that_were_cut_off_are_removed),
           CHECK_CASE(a_state_folder_is_needed))
