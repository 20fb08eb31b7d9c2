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
 * A session holds the messages; each answer is generated from the whole conversation as the chat
 * template writes it, of which the caches hold what has not changed since the answer before. The
 * reasoning of past answers is kept with their messages; whether a model sees it again is for its
 * template to say. One thread at a time may use a session.
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
    WEFT_SESSION_REASONING,   /* the next piece of what comes before it */
    WEFT_SESSION_TOOL_CALL,   /* the model calls a tool */
    WEFT_SESSION_TOOL_RESULT, /* what it was answered */
    WEFT_SESSION_STRUCTURED,  /* the document that was asked for */
    WEFT_SESSION_DONE         /* the end of the turn */
} weft_session_event_kind;

/* What a turn took, all its generations together. */
typedef struct weft_session_stats {
    int64_t generations;   /* rounds of tools and attempts, at least 1 */
    int64_t prompt_tokens; /* of the last generation's prompt */
    int64_t tokens;        /* generated */
    int64_t tool_calls;    /* that were answered */
    int64_t pending_calls; /* of tools without a function: the caller is to answer them */
    bool tool_limit;       /* the model went on calling after the last round */
    int64_t left_out;      /* messages at the start that the last prompt was without (max_prompt) */
    weft_generate_stats last; /* of the last generation: why it ended, for one */
} weft_session_stats;

/* What is pointed to is valid during the call. */
typedef struct weft_session_event {
    weft_session_event_kind kind;
    const char *text; /* TEXT, REASONING; the result; the document's JSON. NUL-terminated */
    size_t length;
    const char *name, *arguments, *id; /* TOOL_CALL, TOOL_RESULT */
    bool failed;                       /* TOOL_RESULT: the result is an error message */
    int64_t generation;                /* within the turn, from 0 */
    int64_t attempt;                   /* at a structured answer, from 0 */
    const weft_session_stats *stats;   /* DONE */
} weft_session_event;

/* False: stop. What has come of the answer stays in the conversation. */
typedef bool weft_session_event_fn(void *context, const weft_session_event *event);

/* ---- tools ---------------------------------------------------------------------------------- */

/* Answers a call: `arguments` is a JSON object that fits the tool's parameters; *result is a text
 * made by weft_malloc or weft_strdup, which the session frees. After another status the model gets
 * weft_error_message as the result; WEFT_CANCELLED ends the turn. */
typedef weft_status weft_tool_fn(void *context, const char *arguments, char **result);

/* Texts are borrowed. */
typedef struct weft_tool {
    const char *name, *description;
    const char *parameters; /* a JSON Schema of an object; NULL: no arguments */
    weft_tool_fn *call;     /* NULL: the turn ends with the call, which the caller answers */
    void *context;
} weft_tool;

/* ---- where answers come from ---------------------------------------------------------------- */

typedef struct weft_session_request {
    const char *prompt; /* as the template writes it, NUL-terminated */
    size_t length;
    const int32_t *ids; /* the same as ids; NULL without a tokenizer */
    size_t n_ids;
    const weft_generate_options *options;
} weft_session_request;

/* Generates as weft_generate does, which is the default source of a session. */
typedef weft_status weft_session_source(void *context, const weft_session_request *request,
                                        weft_generate_fn *callback, void *callback_context,
                                        weft_generate_stats *stats);

/* ---- sessions ------------------------------------------------------------------------------- */

typedef struct weft_session_options {
    const char *system; /* copied; NULL: none */
    weft_thinking thinking;
    /* For every generation. Its pointers are borrowed. What ends a turn in the template's markup
     * ends an answer by itself. Keys and values are kept in the session's own prompt cache, unless
     * prompt_cache is another. */
    weft_generate_options generate;
    bool no_prompt_cache;   /* compute every prompt from its start */
    const weft_tool *tools; /* copied, their texts borrowed */
    size_t n_tools;
    int64_t max_rounds; /* of calls in one turn; 0: 8 */
    /* The markup of answers; NULL: what the template says (weft_chat_markup_of). */
    const weft_chat_markup *markup;
    /* The model writes calls as JSON objects with name and arguments between these two, whatever
     * the template says of calls; copied. NULL: as the markup has it. */
    const char *tool_open, *tool_close;
    /* The most tokens of a prompt, counted by the tokenizer (without one this has no effect). Where
     * the conversation is longer, its oldest turns are left out of the prompt until it has at most
     * three quarters of that, and out of later prompts too; a turn is a message of the user's and
     * all up to the next one. The system text and the last turn always stay, and all messages stay
     * in the session. 0: nothing is left out, and the model refuses what is longer than its
     * positions. */
    int64_t max_prompt;
    weft_session_source *source; /* NULL: weft_generate */
    void *source_context;
} weft_session_options;

/* Borrows model, tokenizer and chat. With a source of one's own `model` may be NULL, and so may
 * `tokenizer`. NULL options: all zero. WEFT_INVALID when tools have no name, the same name, or
 * parameters that are no JSON object; WEFT_UNSUPPORTED when the template knows no tools. */
WEFT_NODISCARD WEFT_API weft_status weft_session_new(weft_model *model,
                                                     const weft_tokenizer *tokenizer,
                                                     const weft_chat *chat,
                                                     const weft_session_options *options,
                                                     weft_session **out) WEFT_NONNULL(5);
WEFT_API void weft_session_free(weft_session *session); /* NULL is accepted */

/* For the turns to come. */
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
    /* The schema is put into the system text. The document is found in the answer, be there words
     * or code fences around it; a document that does not fit is answered with the reason and tried
     * again. */
    WEFT_STRUCTURED_PROMPTED,
    /* The same, and nothing but such a document can be generated (weft/constrain.h), once the
     * reasoning is over; there is none unless thinking is on. No tools. */
    WEFT_STRUCTURED_CONSTRAINED
} weft_structured;

/* How one turn goes. All zero: an answer, with tools if there are any. */
typedef struct weft_session_turn {
    weft_structured structured;
    const char *schema;  /* JSON; NULL: any JSON */
    int64_t retries;     /* after a first attempt; 0: 2, below 0: none */
    bool no_tools;       /* as if the session had none */
    bool continue_final; /* continue the assistant's message at the end of the conversation */
} weft_session_turn;

/* Answers the conversation as it stands. NULL turn: all zero; `callback` and `stats` may be NULL.
 * Answers, calls and results are added to the conversation, of a structured answer only the attempt
 * that fits. After a failure the conversation is as it was: WEFT_INVALID when the template refuses
 * it, or no attempt fits the schema; WEFT_UNSUPPORTED when the schema has keywords that
 * weft/constrain.h does not know. */
WEFT_NODISCARD WEFT_API weft_status weft_session_answer(weft_session *session,
                                                        const weft_session_turn *turn,
                                                        weft_session_event_fn *callback,
                                                        void *context, weft_session_stats *stats)
    WEFT_NONNULL(1);

/* Adds a user's message and answers it. */
WEFT_NODISCARD WEFT_API weft_status weft_session_send(weft_session *session, const char *text,
                                                      const weft_session_turn *turn,
                                                      weft_session_event_fn *callback,
                                                      void *context, weft_session_stats *stats)
    WEFT_NONNULL(1);

/* ---- the conversation ----------------------------------------------------------------------- */

/* Adds a message: a question, an answer given as an example, the result of a pending call. */
WEFT_NODISCARD WEFT_API weft_status weft_session_add(weft_session *session,
                                                     const weft_chat_message *message)
    WEFT_NONNULL(1);
/* Takes back the last message of the user and everything behind it. False: there is none. */
WEFT_API bool weft_session_undo(weft_session *session);
/* Takes back only what is behind that message, for another answer. */
WEFT_API bool weft_session_rewind(weft_session *session);
/* Forgets everything but the system text. */
WEFT_API void weft_session_clear(weft_session *session);

/* The messages, the system text among them, as weft_chat_render takes them; the session's, until
 * it is called again. NULL: out of memory. */
WEFT_API const char *weft_session_messages(weft_session *session) WEFT_NONNULL(1);
/* Replaces them all; a system message at the start becomes the system text. */
WEFT_NODISCARD WEFT_API weft_status weft_session_set_messages(weft_session *session,
                                                              const char *json);
/* To and from a file: an array, or an object with "messages". Written complete or not at all. */
WEFT_NODISCARD WEFT_API weft_status weft_session_save(weft_session *session, const char *path);
WEFT_NODISCARD WEFT_API weft_status weft_session_load(weft_session *session, const char *path);

/* The text of the last message, if it is the assistant's; else NULL. The session's, until the
 * conversation changes. */
WEFT_API const char *weft_session_reply(const weft_session *session) WEFT_NONNULL(1);

/* The prompt of the turn, which is the caller's (weft_free); `length` and `tokens`, its number of
 * tokens, may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_session_prompt(weft_session *session,
                                                        const weft_session_turn *turn, char **text,
                                                        size_t *length, size_t *tokens)
    WEFT_NONNULL(1, 3);

#ifdef __cplusplus
}
#endif
#endif
