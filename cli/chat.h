/* cli/chat.h -- shared by chat.c (the loop), chat_show.c (output), chat_commands.c (slash
 * commands), chat_compare.c (answers without the adapter) and chat_server.c (a server's model). */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/caching.h"
#include "cli/sampling.h"

typedef struct chat_values {
    const char *model, *adapter, *prompt, *system, *load, *json_schema, *tools, *format,
        *template_file, *backend, *tool_pattern, *server, *key_file;
    cli_place place;
    cli_sampling sampling;
    cli_caching caching;
    int think;   /* -1: the template's default; 0: on; 1: off */
    int history; /* of typed lines; 0: on; 1: off */
    int64_t retries, tokens_per_eval;
    double timeout;
    bool prompted, schema_open, json, stats, shift;
} chat_values;

typedef struct chat_server chat_server;

/* The state of a running chat. */
typedef struct chat_run {
    const chat_values *values;
    weft_model *model;
    weft_engine *engine; /* the backend program, or NULL */
    chat_server *server; /* NULL: a model of this program */
    weft_tokenizer *tokenizer;
    weft_chat *chat;
    weft_session *session;
    weft_session_options options; /* of the session, as /think changes them */
    const char *name;             /* of the model, as the user gave it */
    weft_cancel *cancel;          /* set by Ctrl-C */
    cli_ids keep;                 /* tokens that XTC never excludes */
    char *schema;                 /* NULL: none */
    weft_tool *tools;
    size_t n_tools;
    void *tools_json;             /* the parsed JSON that owns the strings of `tools` */
    char *tool_open, *tool_close; /* the parts of --tool-pattern; NULL: none */
    int64_t pending;              /* number of tool calls that wait for the user's result */
    int64_t left_out;             /* number of dropped messages that the user was warned about */
    bool asked;                   /* the user has seen how to enter a tool result */
    bool person;                  /* standard input and output are terminals */
    bool color;
    bool quit;
    int failures;

    /* The current answer. */
    bool dim;     /* reasoning is being shown */
    bool started; /* the current line has output */
    int64_t attempt;
    weft_session_stats stats; /* statistics of the last answer */
} chat_run;

/* ---- chat_show.c ---------------------------------------------------------------------------- */

/* Show the start of an answer, its events, and its end. */
void chat_show_start(chat_run *run);
weft_session_event_fn chat_show_event;
void chat_show_end(chat_run *run);

/* Reports a failure on standard error, and with --json also as an event. */
void chat_show_failure(chat_run *run);

void chat_show_stats(const chat_run *run, FILE *file);

/* ---- chat.c --------------------------------------------------------------------------------- */

/* Generates and shows the next answer. `text` is the user's message; NULL: the conversation already
 * contains it. */
void chat_answer(chat_run *run, const char *text, bool continue_final);
/* The same for a session other than run->session. */
void chat_answer_of(chat_run *run, weft_session *session, const char *text, bool continue_final);

/* ---- chat_commands.c ------------------------------------------------------------------------ */

/* Runs a slash command. */
void chat_command(chat_run *run, const char *line);

/* The names of the slash commands, without the slash; NULL at the end. */
const char *chat_command_name(int i);

/* ---- chat_compare.c ------------------------------------------------------------------------- */

/* Shows the base model's answer to a message, then the adapter's, which stays in the conversation.
 * An empty text: to the last message. */
void chat_compare(chat_run *run, const char *text);

#endif
