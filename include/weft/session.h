/* weft/session.h -- conversations with a model: turns, reasoning, tools, structured answers.
 *
 *     static bool show(void *context, const weft_session_event *event)
 *     {
 *         if (event->kind == WEFT_SESSION_TEXT)
 *             fwrite(event->text, 1, event->length, stdout);
 *         return true;
 *     }
 *     ...
 *     weft_session_options options = {.system = "You are terse.", .tools = tools, .n_tools = 2};
 *     status = weft_session_new(model, tokenizer, chat, &options, &session);
 *     status = weft_session_send(session, "What is the weather in Rome?", NULL, show, NULL, NULL);
 *
 * A session holds the messages. Each answer is generated from the whole conversation as rendered by
 * the chat template; the prompt cache supplies the part that has not changed. The reasoning of past
 * answers is stored with their messages, and the template decides whether the model sees it again.
 * One thread at a time may use a session.
 */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include "weft/chat.h"
#include "weft/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_session weft_session;

/* ---- events --------------------------------------------------------------------------------- */

typedef enum weft_session_event_kind {
    WEFT_SESSION_TEXT,        /* the next piece of the answer */
    WEFT_SESSION_REASONING,   /* the next piece of the reasoning before it */
    WEFT_SESSION_TOOL_CALL,   /* the model calls a tool */
    WEFT_SESSION_TOOL_RESULT, /* the tool's result */
    WEFT_SESSION_STRUCTURED,  /* the requested document */
    WEFT_SESSION_DONE,        /* the end of the turn */
    WEFT_SESSION_NOTE         /* what is ignored in the schema, in lines; before the answer */
} weft_session_event_kind;

/* Statistics of a turn, over all its generations. */
typedef struct weft_session_stats {
    int64_t generations;      /* tool rounds and attempts, at least 1 */
    int64_t prompt_tokens;    /* of the last generation */
    int64_t tokens;           /* generated */
    int64_t tool_calls;       /* executed */
    int64_t pending_calls;    /* of tools without a function, to be answered by the caller */
    bool tool_limit;          /* the model still called tools in the last round */
    int64_t left_out;         /* oldest messages dropped from the last prompt (max_prompt) */
    weft_generate_stats last; /* of the last generation */
} weft_session_stats;

/* Pointers are valid during the callback. */
typedef struct weft_session_event {
    weft_session_event_kind kind;
    const char *text; /* the text, result, note or the document's JSON, NUL-terminated */
    size_t length;
    const char *name, *arguments, *id; /* TOOL_CALL, TOOL_RESULT */
    bool failed;                       /* TOOL_RESULT: the result is an error message */
    int64_t generation;                /* within the turn, from 0 */
    int64_t attempt;                   /* at a structured answer, from 0 */
    const weft_session_stats *stats;   /* DONE */
} weft_session_event;

/* Return false to stop. The answer so far stays in the conversation. */
typedef bool weft_session_event_fn(void *context, const weft_session_event *event);

/* ---- tools ---------------------------------------------------------------------------------- */

/* Executes a call. `arguments` is a JSON object that conforms to the tool's parameters. *result is
 * a string from weft_malloc or weft_strdup, which the session frees. On a failure the model
 * receives weft_error_message as the result, except that WEFT_CANCELLED ends the turn. */
typedef weft_status weft_tool_fn(void *context, const char *arguments, char **result);

/* A tool; its strings are borrowed. */
typedef struct weft_tool {
    const char *name, *description;
    const char *parameters; /* a JSON Schema of an object; NULL: no arguments */
    weft_tool_fn *call;     /* NULL: a call ends the turn, and the caller answers it */
    void *context;
} weft_tool;

/* ---- sources of answers --------------------------------------------------------------------- */

typedef struct weft_session_request {
    const char *prompt; /* as rendered by the template, NUL-terminated */
    size_t length;
    const int32_t *ids; /* its token ids; NULL without a tokenizer */
    size_t n_ids;
    const weft_generate_options *options;
} weft_session_request;

/* A replacement for weft_generate, with the same contract. */
typedef weft_status weft_session_source(void *context, const weft_session_request *request,
                                        weft_generate_fn *callback, void *callback_context,
                                        weft_generate_stats *stats);

/* ---- sessions ------------------------------------------------------------------------------- */

typedef struct weft_session_options {
    const char *system; /* the system message, copied; may be NULL */
    weft_thinking thinking;
    /* For every generation; its pointers are borrowed. The template's end-of-turn markup ends an
     * answer in any case. The session has a prompt cache of its own unless prompt_cache is set. */
    weft_generate_options generate;
    bool no_prompt_cache;   /* compute every prompt from its start */
    const char *variables;  /* as weft_chat_options.variables, for every prompt; copied */
    const weft_tool *tools; /* copied; their strings are borrowed */
    size_t n_tools;
    int64_t max_rounds; /* tool rounds in one turn; 0: 8; below 0: none */
    /* The markup of answers; NULL: that of the template (weft_chat_markup_of). */
    const weft_chat_markup *markup;
    /* Delimiters of tool calls, which are JSON objects with name and arguments; copied. They
     * replace those of the markup unless NULL. */
    const char *tool_open, *tool_close;
    /* The largest number of tokens in a prompt; needs a tokenizer. A longer conversation loses its
     * oldest turns from this and later prompts until at most three quarters remain; a turn is a
     * user message and everything up to the next one. The system message and the last turn are
     * always included, and the session keeps all messages. 0: no limit but the model's positions,
     * beyond which generation fails. */
    int64_t max_prompt;
    weft_session_source *source; /* NULL: weft_generate */
    void *source_context;
} weft_session_options;

/* Creates a session in *out; free it with weft_session_free. Borrows model, tokenizer and chat;
 * with a source in the options, model and tokenizer may be NULL. NULL options: all zero.
 * WEFT_INVALID for tools without a name, with duplicate names or with parameters that are not a
 * JSON object; WEFT_UNSUPPORTED if the template does not support tools. */
WEFT_NODISCARD WEFT_API weft_status weft_session_new(weft_model *model,
                                                     const weft_tokenizer *tokenizer,
                                                     const weft_chat *chat,
                                                     const weft_session_options *options,
                                                     weft_session **out) WEFT_NONNULL(5);
WEFT_API void weft_session_free(weft_session *session); /* NULL is accepted */

/* Change the session for later turns, with the same failures and ownership as weft_session_new. */
WEFT_NODISCARD WEFT_API weft_status weft_session_set_system(weft_session *session,
                                                            const char *system) WEFT_NONNULL(1);
WEFT_API void weft_session_set_thinking(weft_session *session, weft_thinking thinking)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_session_set_generate(weft_session *session,
                                                              const weft_generate_options *options)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_session_set_tools(weft_session *session,
                                                           const weft_tool *tools, size_t n)
    WEFT_NONNULL(1);

/* ---- turns ---------------------------------------------------------------------------------- */

typedef enum weft_structured {
    WEFT_STRUCTURED_NONE = 0,
    /* The schema is added to the system message. The document is extracted from the answer, which
     * may contain other text or code fences; if it does not conform, the model is told why and
     * tries again. */
    WEFT_STRUCTURED_PROMPTED,
    /* In addition, generation is constrained to such a document (weft/constrain.h), after the
     * reasoning if thinking is on. Without tools. */
    WEFT_STRUCTURED_CONSTRAINED
} weft_structured;

/* Options of one turn. All zero: an answer, with the session's tools. */
typedef struct weft_session_turn {
    weft_structured structured;
    const char *schema;  /* JSON; NULL: any JSON */
    bool open_schema;    /* generated objects may have undeclared properties (weft/constrain.h) */
    int64_t retries;     /* after the first attempt; 0: 2; below 0: none */
    bool no_tools;       /* ignore the session's tools */
    bool continue_final; /* continue the assistant's message at the end of the conversation */
} weft_session_turn;

/* Generates an answer to the conversation. NULL turn: all zero; `callback` and `stats` may be NULL.
 * Answers, calls and results are added to the conversation; of a structured answer only the attempt
 * that conforms. A failure leaves the conversation unchanged: WEFT_INVALID if the template rejects
 * it or no attempt conforms to the schema, WEFT_UNSUPPORTED for schema keywords that
 * weft/constrain.h does not support. */
WEFT_NODISCARD WEFT_API weft_status weft_session_answer(weft_session *session,
                                                        const weft_session_turn *turn,
                                                        weft_session_event_fn *callback,
                                                        void *context, weft_session_stats *stats)
    WEFT_NONNULL(1);

/* Adds a user message and generates an answer; fails as weft_session_answer. */
WEFT_NODISCARD WEFT_API weft_status weft_session_send(weft_session *session, const char *text,
                                                      const weft_session_turn *turn,
                                                      weft_session_event_fn *callback,
                                                      void *context, weft_session_stats *stats)
    WEFT_NONNULL(1);

/* ---- the conversation ----------------------------------------------------------------------- */

/* Adds a message, such as a question, an example answer or the result of a pending
 * call. Fails as weft_chat_messages. */
WEFT_NODISCARD WEFT_API weft_status weft_session_add(weft_session *session,
                                                     const weft_chat_message *message)
    WEFT_NONNULL(1);
/* Removes the last user message and everything after it. Returns false without a user message. */
WEFT_API bool weft_session_undo(weft_session *session);
/* Removes only what follows the last user message, for another answer. */
WEFT_API bool weft_session_rewind(weft_session *session);
/* Removes all messages except the system message. */
WEFT_API void weft_session_clear(weft_session *session);

/* The messages as JSON for weft_chat_render, including the system message. Owned by the session and
 * valid until the next call; NULL when out of memory. */
WEFT_API const char *weft_session_messages(weft_session *session) WEFT_NONNULL(1);
/* Replaces all messages; a leading system message becomes that of the session. WEFT_INVALID for
 * malformed JSON. */
WEFT_NODISCARD WEFT_API weft_status weft_session_set_messages(weft_session *session,
                                                              const char *json);
/* Saves and loads the messages as a JSON file: an array, or an object with "messages". Saving
 * writes a complete file or none, and replaces only files with messages. WEFT_IO for a file that
 * cannot be read or written, WEFT_INVALID for one that is malformed or of another kind. */
WEFT_NODISCARD WEFT_API weft_status weft_session_save(weft_session *session, const char *path);
WEFT_NODISCARD WEFT_API weft_status weft_session_load(weft_session *session, const char *path);

/* The text of the last message if it is from the assistant, else NULL. Owned by the session and
 * valid until the conversation changes. */
WEFT_API const char *weft_session_reply(const weft_session *session) WEFT_NONNULL(1);

/* Renders the prompt of a turn. The caller frees *text with weft_free; `length` and `tokens` (the
 * number of tokens) may be NULL. Fails as weft_session_answer. */
WEFT_NODISCARD WEFT_API weft_status weft_session_prompt(weft_session *session,
                                                        const weft_session_turn *turn, char **text,
                                                        size_t *length, size_t *tokens)
    WEFT_NONNULL(1, 3);

#ifdef __cplusplus
}
#endif
#endif
