/* cli/chat_commands.c -- the slash commands of weft chat. */
#include <stdlib.h>
#include <string.h>

#include "cli/chat_server.h"

typedef struct chat_action {
    const char *name, *value, *help;
    void (*run)(chat_run *run, const char *value);
} chat_action;

static const chat_action *actions(size_t *n);

/* On a terminal, confirms that a command was carried out. */
static void say(const chat_run *run, const char *what)
{
    if (run->person)
        printf("(%s)\n", what);
}

static void check(chat_run *run, weft_status status, const char *done)
{
    if (status != WEFT_OK)
        chat_show_failure(run);
    else
        say(run, done);
}

static void help(chat_run *run, const char *value)
{
    size_t n;
    (void)run;
    (void)value;
    const chat_action *list = actions(&n);
    for (size_t i = 0; i < n; i++)
        printf("  /%s %-*s  %s\n", list[i].name, 17 - (int)strlen(list[i].name), list[i].value,
               list[i].help);
    puts("A line that ends with \\ goes on with the next; // begins a message with a slash; Tab "
         "completes\n"
         "commands; Ctrl-C stops an answer, Ctrl-D ends.");
}

static void clear(chat_run *run, const char *value)
{
    (void)value;
    weft_session_clear(run->session);
    run->pending = 0;
    say(run, "forgotten");
}

static void undo(chat_run *run, const char *value)
{
    (void)value;
    run->pending = 0;
    say(run, weft_session_undo(run->session) ? "removed the last message and its answer"
                                             : "there is no message");
}

static void system_text(chat_run *run, const char *value)
{
    check(run, weft_session_set_system(run->session, *value ? value : NULL),
          *value ? "system text set" : "system text removed");
}

static void save(chat_run *run, const char *value)
{
    if (*value)
        check(run, weft_session_save(run->session, value), "saved");
    else
        fputs("weft: /save needs the name of a file\n", stderr);
}

static void load(chat_run *run, const char *value)
{
    if (*value)
        check(run, weft_session_load(run->session, value), "loaded");
    else
        fputs("weft: /load needs the name of a file\n", stderr);
}

static void think(chat_run *run, const char *value)
{
    const bool on = strcmp(value, "on") == 0, off = strcmp(value, "off") == 0;
    if (!on && !off && strcmp(value, "auto") != 0) {
        fputs("weft: /think takes on, off or auto\n", stderr);
        return;
    }
    run->options.thinking = on ? WEFT_THINKING_ON : off ? WEFT_THINKING_OFF : WEFT_THINKING_DEFAULT;
    weft_session_set_thinking(run->session, run->options.thinking);
    say(run, on ? "thinking" : off ? "not thinking" : "thinking as the template has it");
}

static void history(chat_run *run, const char *value)
{
    const char *text = weft_session_messages(run->session);
    (void)value;
    if (text != NULL)
        cli_write_text(text, strlen(text));
    else
        chat_show_failure(run);
}

static void stats(chat_run *run, const char *value)
{
    char *text = NULL;
    size_t tokens = 0;
    (void)value;
    /* A template may refuse a conversation without messages; a server has one of its own. */
    if (run->server == NULL &&
        weft_session_prompt(run->session, NULL, &text, NULL, &tokens) == WEFT_OK)
        printf("the conversation has %s tokens\n", cli_count((int64_t)tokens));
    weft_free(text);
    if (run->stats.generations > 0)
        chat_show_stats(run, stdout);
}

static void model(chat_run *run, const char *value)
{
    if (run->server == NULL)
        fputs("weft: /model needs --server URL\n", stderr);
    else
        check(run, chat_server_choose(run, value), "chosen");
}

static void retry(chat_run *run, const char *value)
{
    (void)value;
    if (weft_session_rewind(run->session))
        chat_answer(run, NULL, false);
    else
        say(run, "there is no message");
}

static void go_on(chat_run *run, const char *value)
{
    (void)value;
    chat_answer(run, NULL, true);
}

static void quit(chat_run *run, const char *value)
{
    (void)value;
    run->quit = true;
}

static const chat_action *actions(size_t *n)
{
    static const chat_action list[] = {
        {"help", "", "this list", help},
        {"clear", "", "start a new conversation with the same system text", clear},
        {"undo", "", "take back the last message and its answer", undo},
        {"retry", "", "answer the last message again", retry},
        {"continue", "", "continue the last answer", go_on},
        {"compare", "TEXT", "base and adapter answer TEXT, or the last message", chat_compare},
        {"model", "NAME", "choose another model of --server; without NAME: list them", model},
        {"system", "TEXT", "set the system text; without TEXT: remove it", system_text},
        {"think", "on|off|auto", "whether the model thinks first", think},
        {"history", "", "print the messages", history},
        {"save", "FILE", "write the messages to a file", save},
        {"load", "FILE", "load messages from a file", load},
        {"stats", "", "tokens so far, speed of the last answer", stats},
        {"tokens", "", "the same", stats},
        {"quit", "", "end", quit},
    };
    *n = sizeof list / sizeof *list;
    return list;
}

const char *chat_command_name(int i)
{
    size_t n;
    const chat_action *list = actions(&n);
    return (size_t)i < n ? list[i].name : NULL;
}

void chat_command(chat_run *run, const char *line)
{
    const size_t length = strcspn(line + 1, " \t");
    const char *value = line + 1 + length + strspn(line + 1 + length, " \t");
    size_t n;
    const chat_action *list = actions(&n);
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].name) == length && strncmp(list[i].name, line + 1, length) == 0) {
            list[i].run(run, value);
            fflush(stdout);
            return;
        }
    fprintf(stderr, "weft: there is no command %s (/help lists them)\n",
            weft_printable_n(line, (size_t)length + 1));
}
