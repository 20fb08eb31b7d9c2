/* text/jinja/value.h -- the values of templates, and the run that owns them.
 *
 * A value is passed by value; what it points to belongs to the run's arena and lives as long as the
 * run. The first failure sticks: afterwards every function does nothing and gives an undefined
 * value, and one look at `status` at the end of a loop or of the run is enough.
 */
#ifndef WEFT_TEXT_JINJA_VALUE_H
#define WEFT_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "weft/status.h"

typedef enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_MISSING, /* an argument that was not given; no template sees it */
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, /* and everything else that is a row of values: jinja_form */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION /* a global function, or a method with what it is of */
} jinja_kind;

/* What a row of values is in Python: it decides how it is written and what may be done with it. */
typedef enum jinja_form {
    FORM_LIST,
    FORM_TUPLE,
    FORM_RANGE,
    FORM_KEYS,
    FORM_VALUES,
    FORM_ITEMS,
    FORM_GENERATOR /* can be gone through once */
} jinja_form;

typedef struct jinja_value {
    jinja_kind kind;
    bool safe; /* STRING: `+` escapes what is joined to it, as the filter "safe" has it */
    size_t n;  /* STRING: bytes */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* STRING: UTF-8; UNDEFINED: its name, NUL-terminated, or NULL */
        struct jinja_list *list;
        struct jinja_dict *dict; /* NAMESPACE too */
        struct jinja_loop *loop;
        const struct jinja_macro *macro;
        const struct jinja_bound *bound;
    } as;
} jinja_value;

typedef struct jinja_list {
    jinja_value *at;
    size_t n, capacity;
    jinja_form form;
} jinja_list;

typedef struct jinja_entry {
    jinja_value key, value;
} jinja_entry;

/* In the order of insertion; found through `index` once there are many. */
typedef struct jinja_dict {
    jinja_entry *at;
    size_t n, capacity;
    uint32_t *index; /* 1 + position, 0: free */
    size_t index_size;
} jinja_dict;

typedef struct jinja_buffer {
    char *at;
    size_t n, capacity;
} jinja_buffer;

/* A run of a template. */
typedef struct jinja {
    weft__arena arena;
    const char *name; /* the template, for messages */
    int line;
    weft_status status;
    uint64_t steps;    /* that are left */
    size_t output;     /* bytes that may yet be written */
    int depth;         /* of evaluation */
    int64_t now;       /* seconds since 1970 */
    jinja_buffer *out; /* where text goes */
    struct jinja_frame *frame;
} jinja;

enum { JINJA_MAX_DEPTH = 900 };

/* The arguments of a call. */
typedef struct jinja_args {
    const jinja_value *at;
    size_t n;
    const jinja_entry *named;
    size_t n_named;
} jinja_args;

typedef jinja_value jinja_function(jinja *j, jinja_value self, const jinja_args *args);

typedef struct jinja_bound {
    const char *name;
    jinja_function *call;
    jinja_value self;
} jinja_bound;

/* ---- the run -------------------------------------------------------------------------------- */

/* Records "name: line N: message", unless something failed before. Gives an undefined value. */
jinja_value weft__jinja_fail(jinja *j, const char *format, ...) WEFT_PRINTF(2, 3);

/* Memory, or NULL after a failure. */
void *weft__jinja_take(jinja *j, size_t size);

/* Counts work; false when there was too much, or something failed before. */
bool weft__jinja_charge(jinja *j, size_t steps);

/* Counts a level of nesting; every call that gives true is followed by one `leave`. */
bool weft__jinja_enter(jinja *j);
void weft__jinja_leave(jinja *j);

/* ---- making values -------------------------------------------------------------------------- */

jinja_value weft__jinja_undefined(const char *name);
jinja_value weft__jinja_none(void);
jinja_value weft__jinja_bool(bool value);
jinja_value weft__jinja_int(int64_t value);
jinja_value weft__jinja_float(double value);
/* Text that outlives the run, or is a part of a string of it. */
jinja_value weft__jinja_view(const char *text, size_t n);
jinja_value weft__jinja_string(jinja *j, const char *text, size_t n);
jinja_value weft__jinja_list(jinja *j, jinja_form form);
jinja_value weft__jinja_pair(jinja *j, jinja_value a, jinja_value b);
jinja_value weft__jinja_dict(jinja *j);

void weft__jinja_push(jinja *j, jinja_value list, jinja_value item);

/* Sets a member; fails on a key that has no hash. */
void weft__jinja_put(jinja *j, jinja_value dict, jinja_value key, jinja_value value);
/* A member, NULL when it is absent. */
jinja_value *weft__jinja_get(jinja *j, jinja_value dict, jinja_value key);
jinja_value *weft__jinja_get_text(jinja *j, jinja_value dict, const char *key);
/* Removes a member, if it is there. */
void weft__jinja_remove(jinja *j, jinja_value dict, jinja_value key);

void weft__jinja_append(jinja *j, jinja_buffer *buffer, const char *text, size_t n);
void weft__jinja_append_code(jinja *j, jinja_buffer *buffer, uint32_t code);
/* What a buffer holds; it is not to grow any more. */
jinja_value weft__jinja_taken(const jinja_buffer *buffer);

/* ---- asking values -------------------------------------------------------------------------- */

/* The name of the type in Python. */
const char *weft__jinja_type(jinja_value value);
bool weft__jinja_is(jinja_value value, const char *text);
bool weft__jinja_truth(jinja *j, jinja_value value);
/* bool, int and float as numbers. */
bool weft__jinja_is_integer(jinja_value value, int64_t *out);
bool weft__jinja_is_number(jinja_value value, double *out);
bool weft__jinja_is_mapping(jinja_value value);

bool weft__jinja_equal(jinja *j, jinja_value a, jinja_value b);
/* -1, 0, 1 (2: unordered, a NaN); fails when the types have no order. */
int weft__jinja_order(jinja *j, jinja_value a, jinja_value b, const char *sign);

/* The number of characters, members or items; false when there is none (not a failure). */
bool weft__jinja_length(jinja_value value, int64_t *out);

/* What a loop goes through: characters, keys, items. NULL after a failure. A generator is empty
 * afterwards. */
jinja_list *weft__jinja_items(jinja *j, jinja_value value);
bool weft__jinja_iterable(jinja_value value);

/* ---- text ----------------------------------------------------------------------------------- */

/* The value as Python's str() gives it; a string is itself. */
jinja_value weft__jinja_text(jinja *j, jinja_value value);
void weft__jinja_write(jinja *j, jinja_buffer *out, jinja_value value);
void weft__jinja_write_repr(jinja *j, jinja_buffer *out, jinja_value value);

enum { JINJA_FLOAT_TEXT = 40 };
/* The fewest digits that are the number, as Python's repr() writes them. */
int weft__jinja_float_text(double value, char out[JINJA_FLOAT_TEXT]);

typedef struct jinja_json_style {
    bool ascii, sorted;
    const char *item, *key; /* separators */
    size_t n_item, n_key;
    const char *indent; /* NULL: on one line */
    size_t n_indent;
} jinja_json_style;

void weft__jinja_write_json(jinja *j, jinja_buffer *out, jinja_value value,
                            const jinja_json_style *style, int level);

/* ---- arguments ------------------------------------------------------------------------------ */

/* Sorts arguments into `out` by the names of a signature ("width,first,blank"), JINJA_MISSING where
 * one was not given. False, with a message that begins with `what`, when they do not fit. */
bool weft__jinja_arguments(jinja *j, const char *what, const jinja_args *args, const char *names,
                           jinja_value *out);

/* An argument of a type; `fallback` when it was not given. */
bool weft__jinja_integer_argument(jinja *j, const char *what, jinja_value value, int64_t fallback,
                                  int64_t *out);
bool weft__jinja_string_argument(jinja *j, const char *what, jinja_value value);

#endif
