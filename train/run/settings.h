/* train/run/settings.h -- the options and the command line of a run, as run.json and checkpoints
 * have them. */
#ifndef WEFT_TRAIN_RUN_SETTINGS_H
#define WEFT_TRAIN_RUN_SETTINGS_H

#include <json-c/json_object.h>

#include "core/io/text.h"
#include "train/trainer.h"

/* Writes the members "options" and, if the trainer has a command line, "command" of a JSON object,
 * each followed by a comma and a newline. */
void weft__settings_write(weft__text *t, const weft_trainer *trainer, const weft__plan *plan);

/* Write a member of an object in run.json, followed by `end` and a newline. */
void weft__write_string(weft__text *t, const char *key, const char *value, const char *end);
void weft__write_number(weft__text *t, const char *key, double value, const char *end);

/* Reads a recorded command line: set `words` (NULL and other types than a list have no options) and
 * zero the rest. */
typedef struct weft__options {
    json_object *words;
    size_t at;
    bool arguments;    /* the word -- has been read */
    const char *name;  /* without --; NULL: an argument */
    const char *value; /* NULL: a flag */
} weft__options;

/* Reads the next option or argument; false at the end. */
bool weft__options_next(weft__options *options);

/* The value of occurrence `number` of an option, "" for a flag; NULL: there is no such one. */
const char *weft__option_of(json_object *words, const char *name, int number);

typedef enum weft__effect {
    WEFT__OF_RESULT,  /* the option can change what is trained */
    WEFT__OF_RECORDS, /* it changes what is saved, measured or shown, or how memory is used */
    WEFT__OF_PLACE    /* it says where and how the command runs */
} weft__effect;

/* What an option of the command or a member of "options" changes. */
weft__effect weft__option_effect(const char *name);

#endif
