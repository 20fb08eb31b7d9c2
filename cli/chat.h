/* cli/chat.h -- between chat.c, which runs, chat_show.c, which shows what happens, and
 * chat_commands.c, which does what begins with a slash. */
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
    weft_engine *engine; /* that computes instead of the model; NULL: none */
    weft_tokenizer *tokenizer;
    weft_chat *chat;
    weft_session *session;
    weft_cancel *cancel; /* set by Ctrl-C */
    cli_ids keep;        /* what XTC leaves alone */
    char *schema;        /* NULL: none */
    weft_tool *tools;
    size_t n_tools;
    void *tools_json;             /* what their texts are of */
    char *tool_open, *tool_close; /* of --tool-pattern; NULL: none */
    int64_t pending;              /* calls that the user is to answer */
    int64_t left_out; /* messages of which the user was told that prompts are without them */
    bool asked;       /* the user was told what a call wants */
    bool person;      /* a terminal on both sides */
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

/* Does what a line that begins with a slash says. */
void chat_command(chat_run *run, const char *line);

#endif
