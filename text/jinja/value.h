/* text/jinja/value.h -- the values of templates, and the run that owns them.
 *
 * Values are passed by value; the memory that they point to belongs to the run's arena and lives as
 * long as the run. After the first failure every function does nothing and returns an undefined
 * value, so checking `status` at the end of a loop or of the run suffices.
 */
#ifndef WEFT_TEXT_JINJA_VALUE_H
#define WEFT_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "weft/status.h"

typedef enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_MISSING, /* an argument that was not given; invisible to templates */
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_BIG, /* an integer beyond 64 bits */
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, /* and all other sequences: see jinja_form */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION /* a global function, or a method with its object */
} jinja_kind;

/* The Python type of a sequence, which decides how it is printed and which operations it has. */
typedef enum jinja_form {
    FORM_LIST,
    FORM_TUPLE,
    FORM_RANGE,
    FORM_KEYS,
    FORM_VALUES,
    FORM_ITEMS,
    FORM_GENERATOR /* can be iterated once */
} jinja_form;

typedef struct jinja_value {
    jinja_kind kind;
    bool safe;     /* STRING: marked safe, so that `+` escapes what is appended */
    bool negative; /* BIG */
    size_t n;      /* STRING: bytes; BIG: digits */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* STRING: UTF-8; BIG: decimal digits, the first one not 0; UNDEFINED: its
                          name, NUL-terminated, or NULL */
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

/* In insertion order, with a hash index once there are many. */
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
    const char *name; /* name of the template, for messages */
    int line;
    weft_status status;
    uint64_t steps;    /* steps left */
    size_t output;     /* bytes of output left */
    int depth;         /* of nested evaluation */
    int64_t now;       /* seconds since 1970 */
    jinja_buffer *out; /* destination of text */
    struct jinja_frame *frame;
    struct jinja_spans *spans; /* of generation blocks; NULL: not wanted */
    const jinja_buffer *whole; /* the text that they refer to */
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

/* Records "name: line N: message" unless something failed before. Returns an undefined value. */
jinja_value weft__jinja_fail(jinja *j, const char *format, ...) WEFT_PRINTF(2, 3);

/* Allocates memory; NULL after a failure. */
void *weft__jinja_take(jinja *j, size_t size);

/* Counts work; false if the limit is exceeded or something failed before. */
bool weft__jinja_charge(jinja *j, size_t steps);

/* Enters a nesting level; call `leave` if it returned true. */
bool weft__jinja_enter(jinja *j);
void weft__jinja_leave(jinja *j);

/* ---- creating values ------------------------------------------------------------------------- */

jinja_value weft__jinja_undefined(const char *name);

/* The result of a call that failed: undefined, without a name. */
static inline jinja_value weft__jinja_nothing(void)
{
    return weft__jinja_undefined(NULL);
}

jinja_value weft__jinja_none(void);
jinja_value weft__jinja_bool(bool value);
jinja_value weft__jinja_int(int64_t value);
jinja_value weft__jinja_float(double value);
/* An integer beyond 64 bits, over digits that outlive the run or belong to it. */
jinja_value weft__jinja_big(const char *digits, size_t n, bool negative);
/* The integer part of a finite number. */
jinja_value weft__jinja_truncated(jinja *j, double number);
/* A string over text that outlives the run or belongs to it. */
jinja_value weft__jinja_view(const char *text, size_t n);
jinja_value weft__jinja_string(jinja *j, const char *text, size_t n);
jinja_value weft__jinja_list(jinja *j, jinja_form form);
jinja_value weft__jinja_pair(jinja *j, jinja_value a, jinja_value b);
jinja_value weft__jinja_dict(jinja *j);

void weft__jinja_push(jinja *j, jinja_value list, jinja_value item);

/* Sets a member; fails on unhashable keys. */
void weft__jinja_put(jinja *j, jinja_value dict, jinja_value key, jinja_value value);
/* A pointer to a member; NULL if it is absent. */
jinja_value *weft__jinja_get(jinja *j, jinja_value dict, jinja_value key);
jinja_value *weft__jinja_get_text(jinja *j, jinja_value dict, const char *key);
/* Removes a member if it exists. */
void weft__jinja_remove(jinja *j, jinja_value dict, jinja_value key);

void weft__jinja_append(jinja *j, jinja_buffer *buffer, const char *text, size_t n);
void weft__jinja_append_code(jinja *j, jinja_buffer *buffer, uint32_t code);
/* The buffer's contents as a string; the buffer must not grow afterwards. */
jinja_value weft__jinja_taken(const jinja_buffer *buffer);

/* ---- examining values ------------------------------------------------------------------------ */

/* The name of the type in Python. */
const char *weft__jinja_type(jinja_value value);
bool weft__jinja_is(jinja_value value, const char *text);
bool weft__jinja_truth(jinja *j, jinja_value value);
/* Convert bool, int and float to numbers; an integer beyond 64 bits only to a double. */
bool weft__jinja_is_integer(jinja_value value, int64_t *out);
bool weft__jinja_is_number(jinja_value value, double *out);
bool weft__jinja_is_mapping(jinja_value value);

enum { JINJA_NO_NUMBERS = 3 };
/* -1, 0, 1, 2 (unordered, with NaN) or JINJA_NO_NUMBERS. Exact. */
int weft__jinja_order_numbers(jinja_value a, jinja_value b);
bool weft__jinja_equal(jinja *j, jinja_value a, jinja_value b);
/* -1, 0, 1, or 2 (unordered, with NaN); fails if the types cannot be ordered. */
int weft__jinja_order(jinja *j, jinja_value a, jinja_value b, const char *sign);

/* The number of characters, members or items; false if the value has no length (not a failure). */
bool weft__jinja_length(jinja_value value, int64_t *out);

/* The items that a loop iterates over: characters, keys, items. NULL after a failure. Consumes a
 * generator. */
jinja_list *weft__jinja_items(jinja *j, jinja_value value);
bool weft__jinja_iterable(jinja_value value);

/* ---- text ----------------------------------------------------------------------------------- */

/* Python's str() of the value. */
jinja_value weft__jinja_text(jinja *j, jinja_value value);
void weft__jinja_write(jinja *j, jinja_buffer *out, jinja_value value);
void weft__jinja_write_repr(jinja *j, jinja_buffer *out, jinja_value value);

enum { JINJA_FLOAT_TEXT = 40 };
/* The shortest digits that represent the number, in the form of Python's repr(). */
int weft__jinja_float_text(double value, char out[JINJA_FLOAT_TEXT]);

/* How values are written: as JSON, or as Python's repr(). */
typedef struct jinja_style {
    bool python, ascii, sorted;
    const char *item, *key; /* separators */
    size_t n_item, n_key;
    const char *indent; /* NULL: on one line */
    size_t n_indent;
} jinja_style;

void weft__jinja_write_json(jinja *j, jinja_buffer *out, jinja_value value,
                            const jinja_style *style);

/* ---- arguments ------------------------------------------------------------------------------ */

/* Matches arguments to the names of a signature ("width,first,blank") and stores them in `out`;
 * JINJA_MISSING for those not given. False, with a message that begins with `what`, when they do
 * not fit. */
bool weft__jinja_arguments(jinja *j, const char *what, const jinja_args *args, const char *names,
                           jinja_value *out);

/* The same for a function without arguments. */
static inline bool weft__jinja_no_arguments(jinja *j, const char *what, const jinja_args *args)
{
    return weft__jinja_arguments(j, what, args, "", NULL);
}

/* An argument of a type; `fallback` if it was not given. */
bool weft__jinja_integer_argument(jinja *j, const char *what, jinja_value value, int64_t fallback,
                                  int64_t *out);
bool weft__jinja_string_argument(jinja *j, const char *what, jinja_value value);

#endif
