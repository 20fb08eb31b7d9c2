/* generate/session/session.h -- the struct weft_session, and functions shared by its files. */
#ifndef WEFT_GENERATE_SESSION_SESSION_H
#define WEFT_GENERATE_SESSION_SESSION_H

#include <json-c/json.h>

#include "core/io/text.h"
#include "weft/constrain.h"
#include "weft/session.h"

struct weft_session {
    weft_model *model;
    const weft_tokenizer *tokenizer;
    const weft_chat *chat;
    weft_generate_options generate;
    bool no_prompt_cache;
    weft_prompt_cache *prompt_cache; /* its own, created with the first prompt */
    weft_thinking thinking;
    char *variables; /* for the template; NULL: none */
    int64_t max_rounds;
    char *system;          /* NULL: none */
    json_object *messages; /* an array, without the system text */
    weft_tool *tools;
    size_t n_tools;
    char *tools_json;             /* in the format of templates; NULL: none */
    int64_t max_prompt;           /* 0: unlimited */
    size_t left_out;              /* number of messages at the start that prompts omit */
    char *tool_open, *tool_close; /* NULL: those of the markup */
    bool has_markup;
    weft_chat_markup markup; /* replaces the template's */
    int32_t *stop;           /* ids that end a turn */
    int n_stop;
    const char **stop_texts; /* texts that end a turn, if they are not tokens */
    int n_stop_texts;
    weft_session_source *source;
    void *source_context;
    int64_t calls; /* number of ids given to calls */
    char *written; /* result of weft_session_messages */
    /* The last constraint, for the next answer with the same schema (NULL: any JSON). */
    weft_constraint *constraint;
    char *constraint_schema;
    bool constraint_open;
};

/* A turn in progress. */
typedef struct session_run {
    weft_session *session;
    weft_session_turn turn;
    weft_session_event_fn *callback;
    void *context;
    weft_session_stats stats;
    bool stopped;      /* by the callback or a tool: no further events */
    bool ended;        /* by options.cancel or the timeout */
    char *instruction; /* appended to the system text; NULL: none */
    int64_t attempt;
} session_run;

static inline weft_status weft__session_no_memory(void)
{
    return weft_fail(WEFT_MEMORY, "session: no memory");
}

/* Passes an event to the callback; false, and `stopped`, if it wants no more. */
bool weft__session_emit(session_run *run, weft_session_event event);

/* Whether the turn has tools. */
bool weft__session_with_tools(const session_run *run);

/* Appends a message to an array, and takes it over. */
weft_status weft__session_append(json_object *messages, json_object *message);

/* A message with a role and a content. NULL when out of memory. */
json_object *weft__session_message(const char *role, const char *content);

/* ---- prompt.c ------------------------------------------------------------------------------- */

/* Renders the prompt of a run; the caller frees it. */
weft_status weft__session_render(const session_run *run, char **text, size_t *length);

/* ---- answer.c ------------------------------------------------------------------------------- */

/* Runs one generation; *message is the assistant's, owned by the caller. */
weft_status weft__session_generate(session_run *run, json_object **message);

/* ---- tools.c -------------------------------------------------------------------------------- */

/* Appends a message to the conversation, or its content to the message that is continued. Takes the
 * message over. */
weft_status weft__session_add_answer(session_run *run, json_object *message);

/* Generates, runs the called tools, and repeats. All messages are added to the conversation except
 * the last one, without calls, which the caller owns. */
weft_status weft__session_rounds(session_run *run, json_object **message);

/* ---- structured.c --------------------------------------------------------------------------- */

/* Writes the instruction about the required document; does nothing for other turns. */
weft_status weft__session_instruct(session_run *run);

/* The message of an answer that fits the schema, after its STRUCTURED event; NULL: stopped before.
 */
weft_status weft__session_structured(session_run *run, json_object **message);

/* ---- extract.c ------------------------------------------------------------------------------ */

/* Finds the part of an answer that is a document of the schema (NULL: any JSON): the whole answer,
 * the contents of a code fence, or from a bracket to its closing one. False: none, and `complaint`
 * describes the best candidate's error. */
bool weft__session_extract(const char *text, json_object *schema, const char **at, size_t *length,
                           weft__text *complaint);

#endif
