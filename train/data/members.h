/* train/data/members.h -- the members of rows: which kind of row has which, and what each is for.
 */
#ifndef WEFT_TRAIN_DATASET_MEMBERS_H
#define WEFT_TRAIN_DATASET_MEMBERS_H

#include "core/io/json.h"
#include "train/data/cache.h"
#include "weft/train.h"

/* What a member of a row is for. */
typedef enum weft__member {
    WEFT__MEMBER_LIST,     /* a conversation: an array of messages */
    WEFT__MEMBER_CHOSEN,   /* the completions of a preference pair */
    WEFT__MEMBER_REJECTED, /* */
    WEFT__MEMBER_PROMPT,
    WEFT__MEMBER_EARLIER, /* the prompt of a preference pair as an array of messages */
    WEFT__MEMBER_ANSWER,
    WEFT__MEMBER_CONTEXT, /* follows the prompt after a blank line */
    WEFT__MEMBER_HISTORY, /* earlier turns: an array of pairs of prompt and answer */
    WEFT__MEMBER_SYSTEM,  /* the first message, unless there is a system message */
    WEFT__MEMBER_TOOLS,
    WEFT__MEMBER_VARIABLES, /* of the chat template */
    WEFT__MEMBER_TEXT,
    WEFT__MEMBER_LABEL,
} weft__member;

/* A row, its kind, and which of its members have been taken. */
typedef struct weft__data_row {
    const weft__json *json;
    weft_row_kind kind;
    uint32_t taken; /* bit i: entry i of the table of members */
} weft__data_row;

/* Finds the kind of a row: the first of which it has the required members. Where the options
 * request pairs or labeled samples, rows with such members are of these kinds. */
weft_status weft__data_row_open(const weft__json *json, weft_examples examples,
                                weft__data_row *row);

/* Takes the member with this purpose: of several the first that is not empty. out->value is NULL if
 * there is none, or only null. Returns its name, or NULL. */
const char *weft__data_row_take(weft__data_row *row, weft__member purpose, weft__json *out);

/* Whether the row has a member with this purpose, also an empty one. */
bool weft__data_row_has(const weft__data_row *row, weft__member purpose);

/* Whether a value holds nothing: null, and an empty string, array or object. */
bool weft__value_is_empty(json_object *value);

/* The members that rows have and no sample contains, with the number of rows of each. */
typedef struct weft__unused {
    struct {
        char name[64];
        int64_t rows;
    } at[10];
    int n;
    int64_t others; /* rows with further members */
} weft__unused;

/* Counts a member of a row; *counted is false before the row's first one. */
void weft__unused_add(weft__unused *unused, const char *name, bool *counted);

/* Counts the members of the row that are not empty and have not been taken. */
void weft__data_row_count_unused(const weft__data_row *row, weft__unused *unused);

/* Logs one note about them, if there are any. */
void weft__unused_report(const weft__unused *unused, const char *source, weft__said *said);

#endif
