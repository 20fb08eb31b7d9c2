/* cli/chat.h -- shared by chat.c (the loop), chat_show.c (output) and chat_commands.c (slash
 * commands). */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/caching.h"
#include "cli/sampling.h"

typedef struct chat_values {
    const char *model, *adapter, *prompt, *system, *load, *json_schema, *tools, *format,
        *template_file, *backend, *tool_pattern;
    cli_place place;
    cli_sampling sampling;
    cli_caching caching;
    int think; /* -1: as the template has it; 0: on; 1: off */
    int64_t retries, tokens_per_eval;
    double timeout;
    bool prompted, json, stats, shift;
} chat_values;

/* What a chat has open. */
typedef struct chat_run {
    const chat_values *values;
    weft_model *model;
    weft_engine *engine; /* the backend program, or NULL */
    weft_tokenizer *tokenizer;
    weft_chat *chat;
    weft_session *session;
    weft_cancel *cancel; /* set by Ctrl-C */
    cli_ids keep;        /* tokens that XTC keeps */
    char *schema;        /* NULL: none */
    weft_tool *tools;
    size_t n_tools;
    void *tools_json;             /* what their texts are of */
    char *tool_open, *tool_close; /* of --tool-pattern; NULL: none */
    int64_t pending;              /* calls that the user is to answer */
    int64_t left_out;             /* dropped messages that the user was warned about */
    bool asked;                   /* the user was told how to answer a call */
    bool person;                  /* a terminal on both sides */
    bool color;
    bool quit;
    int failures;

    /* Of the answer under way. */
    bool dim;     /* reasoning is being shown */
    bool started; /* something stands on the line */
    int64_t attempt;
    weft_session_stats stats; /* of the last answer */
} chat_run;

/* ---- chat_show.c ---------------------------------------------------------------------------- */

/* Before an answer, for its events, after it. */
void chat_show_start(chat_run *run);
weft_session_event_fn chat_show_event;
void chat_show_end(chat_run *run);

/* A failure: on standard error, with --json as an event too. */
void chat_show_failure(chat_run *run);

void chat_show_stats(const chat_run *run, FILE *file);

/* ---- chat.c --------------------------------------------------------------------------------- */

/* Answers the conversation; `text` is the user's message, NULL: it is there already. */
void chat_answer(chat_run *run, const char *text, bool continue_final);

/* ---- chat_commands.c ------------------------------------------------------------------------ */

/* Runs a slash command. */
void chat_command(chat_run *run, const char *line);

#endif
