/* generate/session/session.h -- what a weft_session is, and what its files share. */
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
    weft_prompt_cache *prompt_cache; /* its own, made with the first prompt */
    weft_thinking thinking;
    int64_t max_rounds;
    char *system;          /* NULL: none */
    json_object *messages; /* an array, without the system text */
    weft_tool *tools;
    size_t n_tools;
    char *tools_json;             /* as templates take them; NULL: there are none */
    int64_t max_prompt;           /* 0: unlimited */
    size_t left_out;              /* messages at the start that prompts are without */
    char *tool_open, *tool_close; /* NULL: the markup's */
    bool has_markup;
    weft_chat_markup markup; /* instead of the template's */
    int32_t *stop;           /* ids that end a turn */
    int n_stop;
    const char **stop_texts; /* texts that do, where they are no token */
    int n_stop_texts;
    weft_session_source *source;
    void *source_context;
    int64_t calls; /* ids given to calls */
    char *written; /* what weft_session_messages gave */
    /* Of the last constrained answer, for the next one of the same schema (NULL: any JSON). */
    weft_constraint *constraint;
    char *constraint_schema;
};

/* A turn under way. */
typedef struct session_run {
    weft_session *session;
    weft_session_turn turn;
    weft_session_event_fn *callback;
    void *context;
    weft_session_stats stats;
    bool stopped;      /* by the callback or a tool: no more events */
    bool ended;        /* by options.cancel or the timeout */
    char *instruction; /* put behind the system text; NULL: none */
    int64_t attempt;
} session_run;

static inline weft_status weft__session_no_memory(void)
{
    return weft_fail(WEFT_MEMORY, "session: no memory");
}

/* Gives an event to the callback; false, and `stopped`, when it wants no more. */
bool weft__session_emit(session_run *run, weft_session_event event);

/* Whether the turn has tools. */
bool weft__session_with_tools(const session_run *run);

/* Takes over a message, at the end of an array. */
weft_status weft__session_append(json_object *messages, json_object *message);

/* A message with a role and a content. NULL without memory. */
json_object *weft__session_message(const char *role, const char *content);

/* ---- prompt.c ------------------------------------------------------------------------------- */

/* The prompt of a run, the caller's. */
weft_status weft__session_render(const session_run *run, char **text, size_t *length);

/* ---- answer.c ------------------------------------------------------------------------------- */

/* One generation; *message is the assistant's, the caller's. */
weft_status weft__session_generate(session_run *run, json_object **message);

/* ---- tools.c -------------------------------------------------------------------------------- */

/* Puts a message at the end of the conversation, or what it adds to the one that is gone on with,
 * which is then done. Takes the message over. */
weft_status weft__session_add_answer(session_run *run, json_object *message);

/* Generates, runs the tools that are called, and so on; every message goes to the conversation but
 * the last one, without calls, which is the caller's. */
weft_status weft__session_rounds(session_run *run, json_object **message);

/* ---- structured.c --------------------------------------------------------------------------- */

/* Writes what the model is told of the document that it is to give; nothing for other turns. */
weft_status weft__session_instruct(session_run *run);

/* The message of an answer that fits the schema, which STRUCTURED has told; NULL: it was stopped
 * before there was one. */
weft_status weft__session_structured(session_run *run, json_object **message);

/* ---- extract.c ------------------------------------------------------------------------------ */

/* The part of an answer that is a document of the schema (NULL: any JSON): the whole, what stands
 * in a code fence, or from a bracket to the one that closes it. False: there is none, and
 * `complaint` says what is wrong with what comes nearest. */
bool weft__session_extract(const char *text, json_object *schema, const char **at, size_t *length,
                           weft__text *complaint);

#endif
