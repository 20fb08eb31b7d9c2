/* tests/engine/fake_engine.c -- an engine program for test_program.c: follows the protocol, or
 * breaks it in the way that the path of the model names. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

static char line[3 << 20];
static char mode[100];

static bool is(const char *name)
{
    return strcmp(mode, name) == 0;
}

static void say(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

static void hang(void)
{
    for (;;)
        pause();
}

static void find_mode(void)
{
    const char *at = strstr(line, "\"path\": \"");
    if (at != NULL)
        sscanf(at + 9, "%99[^\"]", mode);
}

static void say_long_line(void)
{
    for (int i = 0; i < (1 << 20) + 10; i++)
        putchar('x');
    say("");
}

static void load(void)
{
    find_mode();
    if (is("dies"))
        fputs("first\nout of \001luck\n", stderr);
    if (is("dies"))
        exit(3);
    if (is("killed"))
        raise(SIGKILL);
    if (is("refuses"))
        say("{\"error\": \"load: no such model\"}");
    else if (is("junk"))
        say("hello, I am a program");
    else if (is("no-object"))
        say("[1]");
    else if (is("not-ok"))
        say("{\"ok\": false}");
    else if (is("long"))
        say_long_line();
    else if (is("silent"))
        hang();
    else if (is("closes")) {
        close(0);
        close(1);
        hang();
    } else
        say("{\"ok\": true, \"model_type\": \"fake\"}");
}

static void info(void)
{
    say("{\"model_type\": \"fake\", \"vocab_size\": 100, \"layers\": 3, "
        "\"hidden_size\": 8, \"context_len\": 64}");
    if (is("leaves"))
        raise(SIGKILL);
    if (is("unreading"))
        hang();
}

/* Whether a cancel has come; waits a little for it. */
static bool cancelled(void)
{
    struct timeval soon = {.tv_usec = 2000};
    fd_set in;
    FD_ZERO(&in);
    FD_SET(0, &in);
    if (select(1, &in, NULL, NULL, &soon) <= 0)
        return false;
    char *rest = fgets(line, sizeof line, stdin);
    return rest != NULL && strstr(rest, "cancel") != NULL;
}

static void count(int most)
{
    int i = 0;
    for (; i < most && !cancelled(); i++)
        printf("{\"token\": \"%d \", \"token_id\": %d}\n", i, i), fflush(stdout);
    printf("{\"done\": true, \"tokens_generated\": %d, \"prompt_tokens\": 2}\n", i);
    fflush(stdout);
}

/* Describes the request in one token. */
static void echo(void)
{
    line[strcspn(line, "\n")] = '\0';
    fputs("{\"token\": \"", stdout);
    for (const char *c = line; *c != '\0' && c - line < 3000; c++) {
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar(*c);
    }
    say("\", \"token_id\": 1}\n{\"done\": true}");
}

static void generate(void)
{
    const char *most = strstr(line, "\"max_tokens\": ");
    const int n = most != NULL ? atoi(most + 14) : 0;
    if (is("echo"))
        echo();
    else if (is("fails"))
        say("{\"error\": \"generate: no memory left\"}");
    else if (is("hostile")) /* terminal commands */
        say("{\"error\": \"generate: \\u001b[2J\\u009b31m\\u0007\\rdone\\n\"}");
    else if (is("hostile-end")) {
        fputs("Traceback: \033[2J\302\2331m\007boom\r\n\033]0;x\007\n", stderr);
        exit(1);
    } else if (is("dies-later")) {
        say("{\"token\": \"a\", \"token_id\": 1}");
        fputs("Traceback: boom\n", stderr);
        exit(1);
    } else if (is("junk-later"))
        say("{\"token\": \"a\", \"token_id\": 1}\n{\"token\": 5}");
    else if (is("hangs-later")) {
        say("{\"token\": \"a\", \"token_id\": 1}");
        hang();
    } else if (is("deaf")) /* ignores cancellation */
        for (;;) {
            say("{\"token\": \"a\", \"token_id\": 1}");
            usleep(1000);
        }
    else if (is("loud")) { /* more on standard error than a pipe holds */
        for (int i = 0; i < 20000; i++)
            fprintf(stderr, "warning %d\n", i);
        count(n);
    } else if (is("generous"))
        count(n + 100);
    else if (is("wordy")) /* without ids */
        for (int i = 0; i < n + 100 || !cancelled(); i++)
            say("{\"token\": \"a\"}");
    else
        count(n);
    if (is("wordy"))
        say("{\"done\": true}");
}

static void write_floats(const char *folder, const char *name, int from, int n)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    for (int i = 0; file != NULL && i < n; i++) {
        const float x = (float)(from + i);
        fwrite(&x, sizeof x, 1, file);
    }
    if (file != NULL)
        fclose(file);
}

/* Two layers of two tokens, with one key head and two query heads of two numbers. */
static void inspect(void)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s/shown-XXXXXX", getenv("TMPDIR"));
    if (is("blind")) {
        say("{\"error\": \"inspect: nothing can be seen\"}");
        return;
    }
    if (mkdtemp(folder) == NULL)
        exit(1);
    write_floats(folder, "keys_00.bin", 0, is("short") ? 3 : 4);
    write_floats(folder, "keys_01.bin", 10, 4);
    if (is("keys-only")) {
        printf("{\"path\": \"%s\", \"shapes\": [[1, 2, 2], [1, 2, 2]]}\n", folder);
    } else {
        write_floats(folder, "queries_00.bin", 20, 8);
        write_floats(folder, "queries_01.bin", 30, 8);
        printf("{\"ok\": true, \"path\": \"%s\", \"shapes\": [[1, 2, 2], [1, 2, %d]], "
               "\"query_shapes\": [[2, 2, 2], [2, 2, 2]], \"sources\": [0, 0], \"ids\": [5, 7]}\n",
               folder, is("odd") ? -2 : 2);
    }
    fflush(stdout);
}

int main(void)
{
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strstr(line, "\"cmd\": \"load\"") != NULL)
            load();
        else if (strstr(line, "\"cmd\": \"info\"") != NULL)
            info();
        else if (strstr(line, "\"cmd\": \"quit\"") != NULL && !is("stubborn"))
            return 0;
        else if (strstr(line, "\"cmd\": \"generate\"") != NULL ||
                 strstr(line, "\"cmd\": \"chat\"") != NULL)
            generate();
        else if (strstr(line, "\"cmd\": \"inspect\"") != NULL)
            inspect();
    }
    if (is("stubborn")) {
        signal(SIGTERM, SIG_IGN);
        hang();
    }
    return 0;
}
