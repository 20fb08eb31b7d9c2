/* tests/serve/test_serve_chat.c -- weft chat --server: with a server of the storyteller, and with
 * others that fail in each way. */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/serve/client.h"
#include "weft/memory.h"

#define LENGTH "-n 12 -t 0"
#define CUT "weft: the answer was cut off at 12 tokens: --max-tokens N allows more\n"

/* The server of the storyteller that cases share. */
static serve_server *shared;

static int port(void)
{
    if (shared == NULL)
        shared = client_server((serve_options){.rows = 2});
    return shared != NULL ? serve_port(shared) : 0;
}

/* The server's answer to messages; the caller frees it. */
static char *answer_to(int to, const char *model, const char *messages)
{
    char *body = weft_format("{\"model\": \"%s\", \"messages\": [%s], \"max_tokens\": 12, "
                             "\"temperature\": 0}",
                             model, messages);
    json_object *root = client_json(to, "/v1/chat/completions", body, 200);
    const char *text = client_text(root, "choices.0.message.content");
    char *copy = weft_strdup(text != NULL ? text : "");
    json_object_put(root);
    weft_free(body);
    return copy;
}

#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"

/* ---- conversations -------------------------------------------------------------------------- */

static void answers_are_those_of_the_server(void)
{
    char *hi = answer_to(port(), "storyteller", USER("Hi")),
         *terse = answer_to(port(), "storyteller",
                            "{\"role\": \"system\", \"content\": \"Be terse.\"}, " USER("Hi"));
    char *line = weft_format("%s\n", hi), *second = weft_format("%s\n", terse);
    output o = weft_command(NULL, "chat --server http://127.0.0.1:%d -p Hi " LENGTH, port());
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, line);
    CHECK_STR(o.err, CUT);
    o = weft_command("Hi\n",
                     "chat storyteller --server http://127.0.0.1:%d/v1/ --system "
                     "\"Be terse.\" " LENGTH,
                     port());
    CHECK_STR(o.out, second);
    o = weft_command(NULL, "chat --server http://127.0.0.1:%d -p Hi --json " LENGTH, port());
    CHECK_CONTAINS(o.out, "\"reason\": \"length\"");
    CHECK_CONTAINS(o.out, "\"tokens\": 12");
    CHECK(strstr(o.out, "\"prompt_tokens\": 0") == NULL && strstr(o.out, "\"device\"") == NULL);
    weft_free(hi);
    weft_free(terse);
    weft_free(line);
    weft_free(second);
}

/* Messages so far go with the next one; /continue continues the answer. */
static void conversations_continue(void)
{
    char *first = answer_to(port(), "storyteller", USER("Hi"));
    json_object *quoted = json_object_new_string(first);
    char *so_far = weft_format(USER("Hi") ", {\"role\": \"assistant\", \"content\": %s}",
                               json_object_to_json_string(quoted)),
         *both = weft_format("%s, " USER("And then?"), so_far);
    char *second = answer_to(port(), "storyteller", both);
    char *body = weft_format("{\"messages\": [%s], \"max_tokens\": 12, \"temperature\": 0, "
                             "\"continue_final_message\": true}",
                             so_far);
    json_object *more = client_json(port(), "/v1/chat/completions", body, 200);
    char *expected = weft_format("%s\n%s\n%s\n%s\n", first, second, second,
                                 client_text(more, "choices.0.message.content"));
    const output o = weft_command("Hi\nAnd then?\n/retry\n/undo\n/continue\n/quit\n",
                                  "chat --server http://127.0.0.1:%d " LENGTH, port());
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, expected);
    json_object_put(more);
    json_object_put(quoted);
    weft_free(body);
    weft_free(expected);
    weft_free(first);
    weft_free(so_far);
    weft_free(both);
    weft_free(second);
}

/* /model lists and chooses models, and /compare shows the base's answer before the adapter's. */
static void models_are_chosen_and_compared(void)
{
    char out[600];
    snprintf(out, sizeof out, "%s", check_temporary("adapter"));
    const char *data = text_file("rows.jsonl", "{\"text\": \"All the birds of the town sing.\"}\n");
    CHECK_EQ_INT(weft_command(NULL, "train %s --data %s --steps 6 --lr 0.02 --device cpu --out %s",
                              check_source("examples/storyteller"), data, out)
                     .code,
                 0);
    strcat(out, "/last");
    const serve_adapter_path adapter = {"birds", out};
    serve_server *server =
        client_server((serve_options){.rows = 2, .adapters = &adapter, .n_adapters = 1});
    if (server == NULL)
        return;
    const int to = serve_port(server);
    char *base = answer_to(to, "storyteller", USER("Hi")),
         *birds = answer_to(to, "birds", USER("Hi"));
    CHECK(strcmp(base, birds) != 0);
    char *expected = weft_format("%s\n* storyteller\n  birds\n%s\n(storyteller)\n%s\n(birds)\n%s\n",
                                 base, birds, base, birds);
    output o = weft_command("Hi\n/model\n/model birds\n/retry\n/compare\n/quit\n",
                            "chat --server http://127.0.0.1:%d " LENGTH, to);
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, expected);
    o = weft_command("Hi\n/model cats\n", "chat birds --server http://127.0.0.1:%d " LENGTH, to);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, birds);
    CHECK_CONTAINS(o.err, "the server has no model \"cats\"");
    serve_stop(server, 0);
    weft_free(base);
    weft_free(birds);
    weft_free(expected);
}

/* ---- keys and usage ------------------------------------------------------------------------- */

static void keys_are_sent(void)
{
    serve_server *server = client_server(
        (serve_options){.rows = 2, .keys = (const char *const[]){"sesame"}, .n_keys = 1});
    if (server == NULL)
        return;
    const char *key = text_file("key", "sesame\n"), *weft = check_built("cli/weft");
    output o = shell_command(NULL, "%s chat --server http://127.0.0.1:%d -p Hi -n 2", weft,
                             serve_port(server));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "status 401");
    CHECK_CONTAINS(o.err, "--api-key-file FILE or WEFT_API_KEY");
    o = shell_command(NULL, "%s chat --server http://127.0.0.1:%d -p Hi -n 2 --api-key-file %s",
                      weft, serve_port(server), key);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL, "WEFT_API_KEY=sesame %s chat --server http://127.0.0.1:%d -p Hi -n 2",
                      weft, serve_port(server));
    CHECK_EQ_INT(o.code, 0);
    serve_stop(server, 0);
}

static void wrong_usage_is_explained(void)
{
    static const struct {
        const char *options, *part;
        int code;
    } cases[] = {
        {"--server http://127.0.0.1:1 -p Hi", "is the server running?", 1},
        {"--server ftp://127.0.0.1 -p Hi", "expected http://HOST:PORT", 1},
        {"--server http://127.0.0.1:1 --adapter x -p Hi", "choose an adapter of the server", 2},
        {"--server http://127.0.0.1:1 --format chatml -p Hi", "the server applies the template", 2},
        {"--server http://127.0.0.1:1 --json-schema x -p Hi", "tools and JSON Schemas", 2},
        {"--server http://127.0.0.1:1 --backend transformers -p Hi", "choose one", 2},
        {"--server http://127.0.0.1:1 --suppress 1 -p Hi", "--sampler-order", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o = weft_command(NULL, "chat %s", cases[i].options);
        CHECK_EQ_INT(o.code, cases[i].code);
        CHECK_CONTAINS(o.err, cases[i].part);
    }
    const output o = weft_command(NULL, "chat --server http://127.0.0.1:1 --api-key-file %s -p Hi",
                                  text_file("no-key", "\n"));
    CHECK_CONTAINS(o.err, "expected a key");
}

/* ---- other servers -------------------------------------------------------------------------- */

/* A server that lists a model and answers each chat with the same bytes, or the first one with
 * others. */
static struct other {
    int listens, port;
    const char *models, *chat; /* whole answers of HTTP; NULL: a list with "m" */
    const char *first;         /* the first chat's answer; NULL: that of all */
    bool stays;                /* the connection stays open after the chat's answer */
    char asked[65536];         /* the last chat's request */
    atomic_int chats;
    pthread_t thread;
} other;

#define MODELS "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"data\": [{\"id\": \"m\"}]}"
#define STREAM "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"
#define DELTA(member, text) "data: {\"choices\": [{\"delta\": {\"" member "\": \"" text "\"}}]}\n\n"
#define END                                                                                        \
    "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n"

static void serve_one(int s)
{
    char request[65536] = "", *end = NULL;
    size_t n = 0;
    ssize_t got = 1;
    while (got > 0 && n + 1 < sizeof request) {
        got = recv(s, request + n, sizeof request - 1 - n, 0);
        n += got > 0 ? (size_t)got : 0;
        request[n] = '\0';
        end = strstr(request, "\r\n\r\n");
        const char *length = strstr(request, "Content-Length: ");
        if (end != NULL &&
            n >= (size_t)(end + 4 - request) + (length != NULL ? (size_t)atoi(length + 16) : 0))
            break;
    }
    const bool chat = strncmp(request, "POST ", 5) == 0;
    const char *chats = other.chats == 0 && other.first != NULL ? other.first : other.chat;
    const char *text = chat ? chats : other.models != NULL ? other.models : MODELS;
    other.chats += chat;
    if (chat)
        memcpy(other.asked, request, n + 1);
    for (size_t at = 0; at < strlen(text);) {
        const ssize_t m = send(s, text + at, strlen(text) - at, MSG_NOSIGNAL);
        if (m <= 0)
            break;
        at += (size_t)m;
    }
    while (chat && other.stays && recv(s, request, sizeof request, 0) > 0)
        continue;
    close(s);
}

static void *serve_all(void *context)
{
    (void)context;
    for (int s; (s = accept(other.listens, NULL, NULL)) >= 0;)
        serve_one(s);
    return NULL;
}

static void other_start(const char *models, const char *chat, bool stays)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    other.models = models;
    other.chat = chat;
    other.first = NULL;
    other.stays = stays;
    other.chats = 0;
    other.listens = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(other.listens, (const struct sockaddr *)&at, sizeof at) == 0 &&
          listen(other.listens, 8) == 0 &&
          getsockname(other.listens, (struct sockaddr *)&at, &size) == 0);
    other.port = ntohs(at.sin_port);
    CHECK(pthread_create(&other.thread, NULL, serve_all, NULL) == 0);
}

static void other_stop(void)
{
    shutdown(other.listens, SHUT_RDWR);
    pthread_join(other.thread, NULL);
    close(other.listens);
}

/* The last answer stays when the other model's answer to /compare fails. */
static void a_failed_comparison_keeps_the_last_answer(void)
{
    other_start("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"data\": [{\"id\": \"m\"}, "
                "{\"id\": \"other\"}]}",
                "HTTP/1.1 500 No\r\nConnection: close\r\n\r\nbroken", false);
    other.first = STREAM DELTA("content", "An answer.") END;
    const output o =
        weft_command("Hi\n/compare\n/history\n", "chat --server http://127.0.0.1:%d", other.port);
    CHECK_EQ_INT(atomic_load(&other.chats), 2);
    CHECK_CONTAINS(o.out, "(other)");
    CHECK_CONTAINS(o.out, "\"content\": \"An answer.\"");
    CHECK_CONTAINS(o.err, "broken");
    other_stop();
}

/* Of the sampling options only those that are given are sent. */
static void given_options_are_sent(void)
{
    static const char *const members[] = {"\"seed\":0", "\"max_tokens\":5", "\"top_k\":3"};
    for (int given = 0; given < 2; given++) {
        other_start(NULL, STREAM DELTA("content", "Yes") END, false);
        const output o = weft_command(NULL, "chat --server http://127.0.0.1:%d -p Hi %s",
                                      other.port, given ? "--seed 0 -n 5 --top-k 3" : "");
        CHECK_EQ_INT(o.code, 0);
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            char name[32];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(members[i], ":"), members[i]);
            CHECK((strstr(other.asked, given ? members[i] : name) != NULL) == given);
        }
        other_stop();
    }
}

static void failing_servers_are_explained(void)
{
    static const struct {
        const char *models, *chat, *part;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "", "lists no models"},
        {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"data\": []}", "", "lists no models"},
        {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "",
         "status 302"},
        {"nonsense\r\n\r\n", "", "weft: http://127.0.0.1"},
        {NULL, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n<b>\033[31mbroken", "\\x1b[31mbroken"},
        {NULL,
         "HTTP/1.1 400 No\r\nConnection: close\r\n\r\n{\"error\": {\"message\": \"too long\"}}",
         "status 400: too long"},
        {NULL, "HTTP/1.1 400 No\r\nConnection: close\r\n\r\n{\"error\": \"as text\"}", ": as text"},
        {NULL, STREAM DELTA("content", "half"), "before the answer was complete"},
        {NULL, STREAM "data: {\"error\": {\"message\": \"no memory\"}}\n\n", "failed: no memory"},
        {NULL, STREAM "data: [1]\n\n", "no JSON object"},
        {NULL, STREAM "data: {\n\n", "no JSON object"},
        {NULL, "", "weft: http://127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        other_start(cases[i].models, cases[i].chat, false);
        const output o = weft_command(NULL, "chat --server http://127.0.0.1:%d -p Hi", other.port);
        if (!CHECK_EQ_INT(o.code, 1) || strstr(o.err, cases[i].part) == NULL)
            CHECK_FAIL("case %zu: %s", i, o.err);
        other_stop();
    }
}

/* Reasoning is separate from the answer, under each of its names and within the text. */
static void reasoning_is_apart(void)
{
    static const char *const chats[] = {
        STREAM DELTA("reasoning_content", "So ") DELTA("reasoning_content", "what.")
            DELTA("content", "Yes") DELTA("content", ".") END,
        STREAM DELTA("reasoning", "So what.") ": ping\r\n\r\n" DELTA("content", "Yes.") END,
        STREAM DELTA("content", "<think>So what.</think>Yes.") END,
    };
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        other_start(NULL, chats[i], false);
        output o = weft_command(NULL, "chat --server http://127.0.0.1:%d -p Hi", other.port);
        CHECK_EQ_INT(o.code, 0);
        CHECK_STR(o.out, "Yes.\n");
        o = weft_command("Hi\n/history\n", "chat --server http://127.0.0.1:%d", other.port);
        CHECK_CONTAINS(o.out, "\"reasoning_content\": \"So what.\"");
        other_stop();
    }
}

static void a_timeout_ends_an_answer(void)
{
    static const char part[] = "\"content\": \"half\"";
    output o = {.code = -1};
    other_start(NULL, STREAM DELTA("content", "half"), true);
    for (double seconds = 0.3; seconds < 100; seconds *= 10) { /* more if half were late */
        o = weft_command("Hi\n/history\n", "chat --server http://127.0.0.1:%d --timeout %g",
                         other.port, seconds);
        if (o.code != 0 || strstr(o.out, part) != NULL)
            break;
    }
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, part);
    other_stop();
}

/* What a terminal has shown, and where the search for the next text starts. */
static struct shown {
    char text[1 << 16];
    size_t n, from;
} shown;

/* Waits for a text of a terminal after the one before. */
static bool await(int master, const char *text)
{
    const char *at;
    while ((at = strstr(shown.text + shown.from, text)) == NULL) {
        struct pollfd ready = {.fd = master, .events = POLLIN};
        const ssize_t got =
            poll(&ready, 1, 60000) > 0 && shown.n + 1 < sizeof shown.text
                ? read(master, shown.text + shown.n, sizeof shown.text - 1 - shown.n)
                : -1;
        if (got <= 0) {
            CHECK_FAIL("the terminal lacks '%s': %s", text, shown.text);
            return false;
        }
        shown.n += (size_t)got;
        shown.text[shown.n] = '\0';
    }
    shown.from = (size_t)(at - shown.text) + strlen(text);
    return true;
}

/* On a terminal Ctrl-C stops the answer of a server that sends no more, and the chat continues. */
static void an_interrupt_stops_the_answer(void)
{
    char url[64];
    int master = -1, code = 0;
    other_start(NULL, STREAM DELTA("content", "half"), true);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", other.port);
    /* Nothing is allocated in the child: another thread may hold the allocator's lock. */
    char *const words[] = {"weft", "chat", "--server", url, "--history", "off", NULL};
    const char *weft = check_built("cli/weft");
    setenv("TERM", "dumb", 1);
    const pid_t chat = forkpty(&master, NULL, NULL, NULL);
    if (chat == 0) {
        execv(weft, words);
        _exit(127);
    }
    if (chat < 0) {
        check_skip("there are no pseudo-terminals (/dev/pts)");
        other_stop();
        return;
    }
    if (await(master, "> ") && write(master, "Hi\r", 3) == 3 && await(master, "half") &&
        write(master, "\003", 1) == 1 && await(master, "(stopped)") && await(master, "> "))
        CHECK(write(master, "/quit\r", 6) == 6);
    else
        kill(chat, SIGKILL);
    for (char rest[256]; read(master, rest, sizeof rest) > 0;) /* to its end */
        continue;
    CHECK(waitpid(chat, &code, 0) == chat && WIFEXITED(code) && WEXITSTATUS(code) == 0);
    close(master);
    other_stop();
}

static void the_shared_server_stops(void)
{
    CHECK(port() > 0);
    serve_stop(shared, 5);
    shared = NULL;
}

CHECK_MAIN("serve_chat", CHECK_CASE(answers_are_those_of_the_server),
           CHECK_CASE(conversations_continue), CHECK_CASE(models_are_chosen_and_compared),
           CHECK_CASE(keys_are_sent), CHECK_CASE(wrong_usage_is_explained),
           CHECK_CASE(a_failed_comparison_keeps_the_last_answer),
           CHECK_CASE(given_options_are_sent), CHECK_CASE(failing_servers_are_explained),
           CHECK_CASE(reasoning_is_apart), CHECK_CASE(a_timeout_ends_an_answer),
           CHECK_CASE(an_interrupt_stops_the_answer), CHECK_CASE(the_shared_server_stops))
