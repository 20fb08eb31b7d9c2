/* train/data/turn.h -- conversations as they are rendered, and the turns of the assistant in them.
 */
#ifndef WEFT_TRAIN_DATASET_TURN_H
#define WEFT_TRAIN_DATASET_TURN_H

#include "core/io/json.h"
#include "text/chat/chat.h"
#include "train/data/builder.h"

/* A trained assistant turn: text[begin, end) of the conversation up to that turn. */
typedef struct weft__turn {
    size_t index; /* index of its message */
    double weight;
    char *text;
    size_t begin, end;
} weft__turn;

/* One conversation. */
typedef struct weft__conversation {
    const weft_dataset_options *o;
    const weft_tokenizer *tokenizer;
    const weft__json *list; /* for error messages */
    json_object *given;     /* the messages, as copies; owned */
    double *weights;        /* of each: 0: not trained; below 0: not of the assistant; owned */
    json_object *messages;  /* the messages before the current turn, then including it; owned */
    const char *tools;      /* JSON; NULL: none */
    const char *variables;  /* JSON: further template variables; NULL: none */
    const char *eos;        /* the end token as text; NULL: none */
    weft__turn *turns;      /* the trained turns */
    size_t n_turns;
    weft__builder sample;
    int64_t group;
    weft_dataset *out;
} weft__conversation;

/* Renders messages. `spans` (NULL: not wanted) gets what the template marks as generated. */
weft_status weft__conversation_render(const weft__conversation *c, json_object *messages,
                                      bool generation_prompt, char **text, size_t *n,
                                      jinja_spans *spans);

/* Appends a message, of which it takes ownership. */
weft_status weft__conversation_append(const weft__conversation *c, json_object *message);

/* Appends a message, of which it takes ownership, as a trained turn. The turn begins where the
 * generation prompt and the rendered message differ, and ends after its end token. */
weft_status weft__conversation_add_turn(weft__conversation *c, json_object *message, size_t index,
                                        double weight);

#endif
