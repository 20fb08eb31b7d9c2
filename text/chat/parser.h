/* text/chat/parser.h -- the parser of answers, shared by its parts. */
#ifndef WEFT_TEXT_CHAT_PARSER_H
#define WEFT_TEXT_CHAT_PARSER_H

#include <json-c/json_object.h>

#include "core/io/text.h"
#include "text/chat/marks.h"

typedef enum weft__chat_mode {
    MODE_START,
    MODE_TEXT,
    MODE_REASONING,
    MODE_CALL,
    MODE_PYTHON,
    MODE_HEADER, /* of a message in Harmony */
    MODE_BODY
} weft__chat_mode;

/* State of the search for the end of a call. */
typedef struct weft__chat_scan {
    size_t at;
    int depth;
    bool string, escape, three; /* three: the string is in three quotes */
    char quote;
} weft__chat_scan;

struct weft_chat_parser {
    weft_chat_markup markup;
    weft_chat_event_fn *callback;
    void *context;
    bool stopped;
    weft__chat_mode mode;
    bool skip_newlines; /* newlines that follow a mark */
    bool skip_line;     /* skipping the name of Gemma's channel, up to the end of its line */
    const char *open;   /* the mark that began the call; "" for JSON without a mark */
    weft__text pending; /* not yet emitted; in a call: the bytes after its mark */
    weft__chat_scan scan;
    weft__text piece;  /* of an event */
    weft__text header; /* of the message, in Harmony */
    weft__text content, reasoning, calls;
};

/* ---- markup.c ------------------------------------------------------------------------------- */

/* The position of `mark` in a text; n if it is absent. Lowers *held to the first position at which
 * the mark may begin and is not complete yet. */
size_t weft__chat_find_mark(const char *text, size_t n, const char *mark, size_t *held);
/* How much can be emitted while more input may come: excludes the start of a mark, newlines that
 * may belong to one, and an incomplete character. */
size_t weft__chat_safe_end(const char *text, size_t n, size_t held);
/* Drops pending bytes. */
void weft__chat_drop(weft_chat_parser *p, size_t n);
weft_status weft__chat_emit_text(weft_chat_parser *p, bool reasoning, const char *text, size_t n);
/* An object with name, arguments and perhaps id. */
weft_status weft__chat_emit_call(weft_chat_parser *p, json_object *call);

/* ---- harmony.c ------------------------------------------------------------------------------ */

#define WEFT__HARMONY_SIGN "<|channel|>"
#define WEFT__HARMONY_THINKS "<|channel|>analysis<|message|>"

bool weft__harmony_is_mark(const char *token);
void weft__harmony_begin(weft_chat_parser *p);
/* Takes a header, or a part of a body; *more: there is input left. */
weft_status weft__harmony_take(weft_chat_parser *p, bool final, bool *more);

#endif
