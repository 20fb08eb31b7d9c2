/* text/jinja/tables.h -- tables of the functions that templates can call. */
#ifndef WEFT_TEXT_JINJA_TABLES_H
#define WEFT_TEXT_JINJA_TABLES_H

#include "text/jinja/value.h"

typedef struct jinja_row {
    const char *name;
    jinja_function *call;
} jinja_row;

/* Each ends with a row of NULLs. */
extern const jinja_row weft__jinja_text_filters[];
extern const jinja_row weft__jinja_list_filters[];
extern const jinja_row weft__jinja_string_methods[];
extern const jinja_row weft__jinja_case_methods[];
extern const jinja_row weft__jinja_list_methods[];
extern const jinja_row weft__jinja_dict_methods[];
extern const jinja_row weft__jinja_loop_methods[];

/* Shared by several of them. */
jinja_value weft__jinja_trim(jinja *j, jinja_value s, jinja_value characters, bool left,
                             bool right);
jinja_value weft__jinja_replace(jinja *j, jinja_value s, jinja_value old, jinja_value fresh,
                                int64_t count);
/* The position of `part` in s[from..], or s.n + 1. */
size_t weft__jinja_find(jinja *j, jinja_value s, jinja_value part, size_t from);
bool weft__jinja_space(uint32_t code);
typedef enum jinja_case { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE } jinja_case;
jinja_value weft__jinja_change_case(jinja *j, jinja_value s, jinja_case how);
jinja_value weft__jinja_escape(jinja *j, jinja_value value);
jinja_value weft__jinja_percent(jinja *j, jinja_value format, jinja_value arguments);
jinja_value weft__jinja_format(jinja *j, jinja_value format, const jinja_args *args);
jinja_value weft__jinja_tojson(jinja *j, jinja_value value, const jinja_args *args);
/* int("...") and float("..."): false if the text is not a number (of 64 bits). */
bool weft__jinja_to_integer(jinja_value text, int base, int64_t *out);
bool weft__jinja_to_number(jinja_value text, double *out);
/* int("...") of any size; undefined if the text is not an integer. */
jinja_value weft__jinja_integer_of(jinja *j, jinja_value text, int base);
/* Sorts items by keys, where keys[i] belongs to items[i]. Stable. */
void weft__jinja_sort(jinja *j, jinja_value *items, jinja_value *keys, size_t n, bool reverse);

#endif
