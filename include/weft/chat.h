/* weft/chat.h -- conversations as prompts, and a model's answer as text, reasoning and tool calls.
 *
 *     weft_chat *chat;
 *     status = weft_chat_load(folder, &chat);
 *     status = weft_chat_encode(chat, tokenizer, "[{\"role\": \"user\", \"content\": \"Hi\"}]",
 *                               &(weft_chat_options){.generation_prompt = true}, &ids, &count);
 *     ... weft_generate, whose texts go to weft_chat_parser_push ...
 *
 * A conversation is rendered by the checkpoint's own Jinja template, with the semantics of
 * transformers, or by a built-in format. Templates are untrusted input: rendering is bounded in
 * steps, memory and depth and has no access to anything but its arguments.
 */
#ifndef WEFT_CHAT_H
#define WEFT_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- templates ------------------------------------------------------------------------------ */

/* The templates of a checkpoint, by name, and its special tokens. It is immutable: several threads
 * may use it. Freed with weft_chat_free. */
typedef struct weft_chat weft_chat;

/* Loads the chat templates of a checkpoint's folder or GGUF file, from the first of these:
 * chat_template.jinja with additional_chat_templates/NAME.jinja; "chat_template" of
 * tokenizer_config.json, a text or a list of named ones; "chat_template" of chat_template.json; the
 * metadata of the GGUF file; the built-in format for the model_type. Free *out with weft_chat_free.
 * WEFT_UNSUPPORTED without a template. One that is malformed or has an unsupported tag is loaded
 * and fails when it is rendered. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_load(const char *path, weft_chat **out)
    WEFT_NONNULL(2);

/* Parses the text of a template; `name` is its name in messages. bos_token, eos_token and pad_token
 * come from the tokenizer; with NULL they are undefined. WEFT_INVALID, with name and line, when the
 * template is malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_parse(const char *source, size_t length,
                                                    const char *name,
                                                    const weft_tokenizer *tokenizer,
                                                    weft_chat **out) WEFT_NONNULL(5);

/* A built-in format by model_type, or "chatml"; free *out with weft_chat_free. `version` selects a
 * format of the family (NULL: the first one):
 *   qwen2    2.5, 2
 *   llama    3.1, 3.0
 *   mistral  v3, v3-tekken, v1, v7, v7-tekken
 *   minicpm  4, 5, 1
 *   gemma4   small, large
 * Only chatml, gemma4 and minicpm 5 support tools. WEFT_UNSUPPORTED for an unknown format. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_builtin(const char *model_type, const char *version,
                                                      const weft_tokenizer *tokenizer,
                                                      weft_chat **out) WEFT_NONNULL(4);

WEFT_API void weft_chat_free(weft_chat *chat); /* NULL is accepted */

/* Whether the template with that name (NULL: the default one) can be rendered: WEFT_INVALID, with
 * name and line, when it is malformed, and WEFT_UNSUPPORTED for an unsupported tag; WEFT_INVALID
 * for an unknown name. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_check(const weft_chat *chat, const char *name)
    WEFT_NONNULL(1);

/* The text of the template with that name (NULL: the default one), or NULL if unknown. Owned by the
 * chat. */
WEFT_API const char *weft_chat_source(const weft_chat *chat, const char *name);

/* ---- prompts -------------------------------------------------------------------------------- */

/* Whether the model is to think, for templates that ask (`enable_thinking`). */
typedef enum weft_thinking {
    WEFT_THINKING_DEFAULT = 0, /* the template decides */
    WEFT_THINKING_ON,
    WEFT_THINKING_OFF
} weft_thinking;

typedef struct weft_chat_options {
    bool generation_prompt; /* end with the start of the assistant's turn */
    /* End within the last message, after its content, for the model to continue it: as
     * transformers' continue_final_message. Not with generation_prompt. */
    bool continue_final;
    weft_thinking thinking;
    const char *tools;         /* JSON: an array of tools with their schemas */
    const char *documents;     /* JSON: an array of documents */
    const char *variables;     /* JSON: an object of further variables; they override all others */
    const char *template_name; /* NULL: "tool_use" with tools, else "default" */
    int64_t now; /* the time of strftime_now, in seconds since 1970; 0: the current time */
} weft_chat_options;

/* A message by fields; NULL: absent. */
typedef struct weft_chat_message {
    const char *role;    /* "system", "user", "assistant", "tool" */
    const char *content; /* text */
    const char *reasoning_content;
    const char *tool_calls; /* JSON: an array, as weft_chat_parser_message writes it */
    const char *tool_call_id;
    const char *name; /* of the tool that answers */
} weft_chat_message;

/* Converts messages to the JSON of the functions below; the caller frees *json with weft_free.
 * WEFT_INVALID for malformed JSON in tool_calls. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_messages(const weft_chat_message *messages,
                                                       size_t count, char **json) WEFT_NONNULL(3);

/* Renders messages, a JSON array of objects with role, content and so on. As in transformers, null
 * members are omitted, and a message's reasoning is available as reasoning_content, thinking and
 * reasoning. Content that is a text becomes a list with one text where the template renders only
 * lists (SmolVLM), and a list of texts becomes one text where it renders only those. The caller
 * frees *text with weft_free; `length` and `options` may be NULL. WEFT_INVALID, with the template's
 * name and line, if the template raises an error. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_render(const weft_chat *chat, const char *messages,
                                                     const weft_chat_options *options, char **text,
                                                     size_t *length) WEFT_NONNULL(1, 4);

/* Renders messages as ids, without the tokenizer's own special tokens, so there is never a second
 * BOS. The caller frees *ids with weft_free. */
WEFT_NODISCARD WEFT_API weft_status
weft_chat_encode(const weft_chat *chat, const weft_tokenizer *tokenizer, const char *messages,
                 const weft_chat_options *options, int32_t **ids, size_t *count) WEFT_NONNULL(5, 6);

/* ---- answers -------------------------------------------------------------------------------- */

/* How a family writes the calls of tools. */
typedef enum weft_tool_style {
    WEFT_TOOLS_NONE = 0, /* everything is text */
    WEFT_TOOLS_HERMES,   /* <tool_call>{"name", "arguments"}</tool_call>; within, also <function=..>
                          * or name<arg_key>key</arg_key><arg_value>value</arg_value> (GLM) */
    WEFT_TOOLS_LLAMA,    /* {"name", "parameters"} as the whole answer, or after <|python_tag|> */
    WEFT_TOOLS_MISTRAL,  /* [TOOL_CALLS][{"name", "arguments"}], or [TOOL_CALLS]name[ARGS]{...} */
    WEFT_TOOLS_GEMMA4,   /* <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|> */
    WEFT_TOOLS_FUNCTION, /* <function name="..."><param name="...">...</param></function> */
    WEFT_TOOLS_CUSTOM,   /* JSON between tool_open and tool_close */
    WEFT_TOOLS_HARMONY,  /* to=functions.name<|channel|>commentary json<|message|>{...}<|call|> */
    WEFT_TOOLS_PYTHON    /* <|tool_call_start|>[name(key="text", n=1)]<|tool_call_end|> */
} weft_tool_style;

/* The markup of a model's answers. Texts are borrowed for as long as a parser uses them. */
typedef struct weft_chat_markup {
    const char *think_open, *think_close; /* NULL: answers hold no reasoning */
    bool thinking;                        /* the prompt has opened the reasoning already */
    weft_tool_style tools;
    const char *tool_open, *tool_close; /* of WEFT_TOOLS_CUSTOM */
} weft_chat_markup;

/* The markup of the answers of a template's model. `prompt` is the rendered text, from which it is
 * known whether reasoning is open at its end, or NULL. Without `tools` calls are not parsed. The
 * texts belong to the chat. */
WEFT_API weft_chat_markup weft_chat_markup_of(const weft_chat *chat, const char *prompt,
                                              bool tools);

typedef enum weft_chat_event_kind {
    WEFT_CHAT_TEXT,
    WEFT_CHAT_REASONING,
    WEFT_CHAT_TOOL_CALL,
    WEFT_CHAT_DONE
} weft_chat_event_kind;

typedef struct weft_chat_event {
    weft_chat_event_kind kind;
    const char *text; /* TEXT, REASONING: the next piece, NUL-terminated */
    size_t length;
    const char *name, *arguments; /* TOOL_CALL: the tool, and a JSON object */
    const char *id;               /* TOOL_CALL: as the model gives it, or NULL */
} weft_chat_event;

/* Return false to stop. Later text is discarded, and push returns WEFT_CANCELLED. The event's
 * pointers are valid during the call. */
typedef bool weft_chat_event_fn(void *context, const weft_chat_event *event);

/* Parses a streamed answer incrementally, in pieces of any size. Markup never becomes text: a
 * possible start of a mark is held back until it is known. Newlines directly around reasoning and
 * calls belong to the markup. A malformed or truncated call is returned as raw text with its marks.
 */
typedef struct weft_chat_parser weft_chat_parser;

/* Creates a parser in *out; free it with weft_chat_parser_free. Fails only when out of memory. The
 * markup is copied, but not its texts. weft_chat_parser_push parses the next `length` bytes of the
 * answer: WEFT_CANCELLED when the callback has returned false. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_parser_new(const weft_chat_markup *markup,
                                                         weft_chat_event_fn *callback,
                                                         void *context, weft_chat_parser **out)
    WEFT_NONNULL(1, 4);
WEFT_API void weft_chat_parser_free(weft_chat_parser *parser); /* NULL is accepted */
WEFT_NODISCARD WEFT_API weft_status weft_chat_parser_push(weft_chat_parser *parser,
                                                          const char *text, size_t length)
    WEFT_NONNULL(1);
/* Ends the answer: reports text that was held back, then DONE. Fails as weft_chat_parser_push does.
 */
WEFT_NODISCARD WEFT_API weft_status weft_chat_parser_finish(weft_chat_parser *parser)
    WEFT_NONNULL(1);

/* What was parsed so far as a message for the conversation: {"role": "assistant", "content",
 * "reasoning_content", "tool_calls"}. *json is the caller's, freed with weft_free. */
WEFT_NODISCARD WEFT_API weft_status weft_chat_parser_message(const weft_chat_parser *parser,
                                                             char **json) WEFT_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif
