/* train/run/compare.h -- compares what a checkpoint records of its run with what there is now. */
#ifndef WEFT_TRAIN_RUN_COMPARE_H
#define WEFT_TRAIN_RUN_COMPARE_H

#include <json-c/json_object.h>

#include "core/io/text.h"

typedef enum weft__item {
    WEFT__BASE,
    WEFT__TOKENIZER,
    WEFT__ROWS,
    WEFT__OPTIONS,
    WEFT__BUILD,
    WEFT__ITEMS
} weft__item;

typedef enum weft__agreement {
    WEFT__EQUAL,
    WEFT__QUICK,   /* equal as far as blocks of some files show, which have no SHA-256 */
    WEFT__UNKNOWN, /* something is not recorded */
    WEFT__DIFFERS
} weft__agreement;

typedef struct weft__comparison {
    weft__agreement state[WEFT__ITEMS];
    weft__text differences[WEFT__ITEMS]; /* JSON strings, separated by commas: what differs, and
                                          * what was not or not wholly compared */
} weft__comparison;

/* Compares two objects that weft__identity_write wrote. Only what `recorded` has is compared, so
 * that members of later versions are no difference. */
void weft__compare(json_object *recorded, json_object *now, weft__comparison *out);
void weft__comparison_free(weft__comparison *comparison);

/* Adds a JSON string to a list. */
void weft__add_difference(weft__text *list, const char *format, ...) WEFT_PRINTF(2, 3);

/* Writes the member "items" of a JSON object, followed by a comma. */
void weft__comparison_write(weft__text *t, const weft__comparison *comparison);

#endif
