/* text/chat/chat.h -- the struct weft_chat, for this folder, and rendering with spans. */
#ifndef WEFT_TEXT_CHAT_CHAT_H
#define WEFT_TEXT_CHAT_CHAT_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "text/jinja/jinja.h"
#include "weft/chat.h"

typedef struct chat_template {
    char *name, *source;
    jinja_template *parsed; /* NULL: `error` says why it cannot be rendered */
    weft_status status;
    char *error;
    bool renders_texts, renders_lists; /* content that is a text, or a list of parts */
} chat_template;

struct weft_chat {
    char *where; /* the folder or the name, for messages */
    chat_template *templates;
    size_t count;
    json_object *tokens; /* bos_token and other special tokens */
};

/* Renders as weft_chat_render does, and reports what the template marks as generated. */
weft_status weft__chat_render_spans(const weft_chat *chat, const char *messages,
                                    const weft_chat_options *options, char **text, size_t *length,
                                    jinja_spans *spans);

/* A new, empty chat; NULL when out of memory. */
weft_chat *weft__chat_new(const char *where);
/* Parses a template and adds it; messages call it `where`. One that is malformed or has unsupported
 * tags is added too, and fails when it is rendered. */
weft_status weft__chat_add(weft_chat *chat, const char *name, const char *where, const char *source,
                           size_t length);
/* Adds the special tokens that a tokenizer knows by role. */
weft_status weft__chat_tokens_of(weft_chat *chat, const weft_tokenizer *tokenizer);

/* Finds out which content a parsed template renders. */
weft_status weft__chat_probe(chat_template *t);
/* Content that the template renders: the text of a list of texts, or a list with the text, if it
 * does not render the other. The caller owns the result; NULL when out of memory. */
json_object *weft__chat_convert_content(const chat_template *t, json_object *content);
/* Appends the text of content that is a text or a list of texts; false: it is neither. */
bool weft__chat_content_text(json_object *content, weft__text *out);

/* For a prompt that ends within its last message: marks the end of that message's content, and cuts
 * the rendered text at the mark. */
weft_status weft__chat_mark_final(json_object *messages);
weft_status weft__chat_cut_final(json_object *messages, char *text, size_t *length);

/* Reads the templates and special tokens from the GGUF file `gguf` or, if that is NULL, from the
 * files of `folder`. There may be no template. The caller owns *out. */
weft_status weft__chat_templates(const char *folder, const char *gguf, weft_chat **out);

/* The source of a built-in format, or NULL. */
const char *weft__chat_format(const char *model_type, const char *version);

#endif
