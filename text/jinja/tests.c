/* text/jinja/tests.c -- the tests ("is"), and lookup of filters and methods by name. */
#include <string.h>

#include "text/jinja/node.h"
#include "text/jinja/tables.h"

/* ---- arguments ------------------------------------------------------------------------------ */

static size_t name_length(const char *names)
{
    return strcspn(names, ",");
}

/* The position of a name in "a,b,c"; SIZE_MAX: absent. */
static size_t name_position(const char *names, jinja_value name)
{
    for (size_t i = 0; *names; i++) {
        const size_t n = name_length(names);
        if (name.kind == JINJA_STRING && name.n == n && memcmp(name.as.s, names, n) == 0)
            return i;
        names += n + (names[n] == ',');
    }
    return SIZE_MAX;
}

bool weft__jinja_arguments(jinja *j, const char *what, const jinja_args *args, const char *names,
                           jinja_value *out)
{
    size_t n = *names != '\0';
    for (const char *p = names; *p; p++)
        n += *p == ',';
    if (args->n > n)
        weft__jinja_fail(j, "%s: expected at most %zu arguments, got %zu", what, n, args->n);
    for (size_t i = 0; i < n && !j->status; i++)
        out[i] = i < args->n ? args->at[i] : (jinja_value){.kind = JINJA_MISSING};
    for (size_t i = 0; i < args->n_named && !j->status; i++) {
        const size_t at = name_position(names, args->named[i].key);
        if (at == SIZE_MAX || at < args->n)
            weft__jinja_fail(j, "%s: unexpected argument \"%s\"", what,
                             weft_printable_n(args->named[i].key.as.s, args->named[i].key.n));
        else
            out[at] = args->named[i].value;
    }
    return !j->status;
}

bool weft__jinja_integer_argument(jinja *j, const char *what, jinja_value value, int64_t fallback,
                                  int64_t *out)
{
    *out = fallback;
    if (value.kind == JINJA_MISSING || weft__jinja_is_integer(value, out))
        return !j->status;
    weft__jinja_fail(j, "%s: expected an integer%s, got \"%s\"", what,
                     value.kind == JINJA_BIG ? " of 64 bits" : "", weft__jinja_type(value));
    return false;
}

bool weft__jinja_string_argument(jinja *j, const char *what, jinja_value value)
{
    if (value.kind != JINJA_STRING)
        weft__jinja_fail(j, "%s: expected a string, got \"%s\"", what, weft__jinja_type(value));
    return !j->status;
}

/* ---- filters and methods -------------------------------------------------------------------- */

static jinja_function *find(const jinja_row *rows, jinja_value name)
{
    for (; rows->name; rows++)
        if (weft__jinja_is(name, rows->name))
            return rows->call;
    return NULL;
}

static jinja_function *find_filter(jinja_value name)
{
    jinja_function *call = find(weft__jinja_text_filters, name);
    return call ? call : find(weft__jinja_list_filters, name);
}

bool weft__jinja_has_filter(jinja_value name)
{
    return find_filter(name) != NULL;
}

jinja_value weft__jinja_filter(jinja *j, const char *name, jinja_value value,
                               const jinja_args *args)
{
    jinja_function *call = find_filter(weft__jinja_view(name, strlen(name)));
    if (!call)
        return weft__jinja_fail(j, "no filter is called \"%s\"", weft_printable(name));
    return call(j, value, args);
}

jinja_value weft__jinja_method(jinja *j, jinja_value self, jinja_value name)
{
    jinja_function *call = NULL;
    if (self.kind == JINJA_STRING) {
        call = find(weft__jinja_string_methods, name);
        call = call ? call : find(weft__jinja_case_methods, name);
    } else if (self.kind == JINJA_DICT) {
        call = find(weft__jinja_dict_methods, name);
    } else if (self.kind == JINJA_LIST && self.as.list->form <= FORM_TUPLE) {
        call = find(weft__jinja_list_methods, name);
        if (self.as.list->form == FORM_TUPLE && !weft__jinja_is(name, "index") &&
            !weft__jinja_is(name, "count"))
            call = NULL;
    } else if (self.kind == JINJA_LOOP) {
        call = find(weft__jinja_loop_methods, name);
    }
    jinja_bound *bound = call ? weft__jinja_take(j, sizeof *bound) : NULL;
    if (!bound)
        return weft__jinja_undefined(NULL);
    bound->name = "method";
    bound->call = call;
    bound->self = self;
    return (jinja_value){.kind = JINJA_FUNCTION, .as.bound = bound};
}

/* ---- tests ---------------------------------------------------------------------------------- */

typedef bool test_function(jinja *j, jinja_value v);

static bool is_defined(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind != JINJA_UNDEFINED;
}

static bool is_undefined(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_UNDEFINED;
}

static bool is_none(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_NONE;
}

static bool is_boolean(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_BOOL;
}

static bool is_true(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_BOOL && v.as.b;
}

static bool is_false(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_BOOL && !v.as.b;
}

static bool is_integer(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_INT || v.kind == JINJA_BIG;
}

static bool is_float(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_FLOAT;
}

static bool is_number(jinja *j, jinja_value v)
{
    double number;
    (void)j;
    return weft__jinja_is_number(v, &number);
}

static bool is_string(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_STRING;
}

static bool is_mapping(jinja *j, jinja_value v)
{
    (void)j;
    return weft__jinja_is_mapping(v);
}

static bool is_iterable(jinja *j, jinja_value v)
{
    (void)j;
    return weft__jinja_iterable(v);
}

/* Whether the value has a length and items, which includes undefined. */
static bool is_sequence(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_STRING || v.kind == JINJA_DICT ||
           (v.kind == JINJA_LIST && v.as.list->form <= FORM_RANGE);
}

static bool is_callable(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_MACRO || v.kind == JINJA_FUNCTION || v.kind == JINJA_UNDEFINED;
}

static bool is_escaped(jinja *j, jinja_value v)
{
    (void)j;
    return v.kind == JINJA_STRING && v.safe;
}

static bool has_case(jinja *j, jinja_value v, const char *method)
{
    static const jinja_args no_arguments = {0};
    v = weft__jinja_text(j, v);
    return weft__jinja_truth(
        j, weft__jinja_call(j, weft__jinja_method(j, v, weft__jinja_view(method, strlen(method))),
                            &no_arguments));
}

static bool is_lower(jinja *j, jinja_value v)
{
    return has_case(j, v, "islower");
}

static bool is_upper(jinja *j, jinja_value v)
{
    return has_case(j, v, "isupper");
}

static bool divides(jinja *j, jinja_value v, int64_t by, int64_t rest)
{
    const jinja_value got = weft__jinja_binary(j, "%", v, weft__jinja_int(by));
    return !j->status && weft__jinja_equal(j, got, weft__jinja_int(rest));
}

static bool is_odd(jinja *j, jinja_value v)
{
    return divides(j, v, 2, 1);
}

static bool is_even(jinja *j, jinja_value v)
{
    return divides(j, v, 2, 0);
}

/* Lists and dictionaries cannot be used as names. */
static bool is_name(jinja *j, jinja_value v)
{
    if ((v.kind == JINJA_LIST && v.as.list->form != FORM_TUPLE) || v.kind == JINJA_DICT)
        weft__jinja_fail(j, "expected a name, got \"%s\"", weft__jinja_type(v));
    return !j->status;
}

static bool is_filter(jinja *j, jinja_value v)
{
    return is_name(j, v) && weft__jinja_has_filter(v);
}

static bool is_test(jinja *j, jinja_value v)
{
    return is_name(j, v) && weft__jinja_has_test(v);
}

static const struct {
    const char *name;
    test_function *call;
} tests[] = {
    {"defined", is_defined},   {"undefined", is_undefined}, {"none", is_none},
    {"boolean", is_boolean},   {"true", is_true},           {"false", is_false},
    {"integer", is_integer},   {"float", is_float},         {"number", is_number},
    {"string", is_string},     {"mapping", is_mapping},     {"iterable", is_iterable},
    {"sequence", is_sequence}, {"callable", is_callable},   {"escaped", is_escaped},
    {"lower", is_lower},       {"upper", is_upper},         {"odd", is_odd},
    {"even", is_even},         {"filter", is_filter},       {"test", is_test},
};

/* Tests that compare with an argument. */
static const struct {
    const char *name, *sign;
} comparisons[] = {
    {"equalto", "=="},    {"eq", "=="},     {"==", "=="},         {"ne", "!="}, {"!=", "!="},
    {"lt", "<"},          {"<", "<"},       {"lessthan", "<"},    {"gt", ">"},  {">", ">"},
    {"greaterthan", ">"}, {"le", "<="},     {"<=", "<="},         {"ge", ">="}, {">=", ">="},
    {"in", "in"},         {"sameas", "is"}, {"divisibleby", "%"},
};

enum {
    N_TESTS = sizeof tests / sizeof *tests,
    N_COMPARISONS = sizeof comparisons / sizeof *comparisons
};

bool weft__jinja_has_test(jinja_value name)
{
    for (size_t i = 0; i < N_TESTS; i++)
        if (weft__jinja_is(name, tests[i].name))
            return true;
    for (size_t i = 0; i < N_COMPARISONS; i++)
        if (weft__jinja_is(name, comparisons[i].name))
            return true;
    return false;
}

/* Python's "is": object identity. */
static bool same(jinja *j, jinja_value a, jinja_value b)
{
    if (a.kind != b.kind || a.kind == JINJA_UNDEFINED) /* each undefined value is a new object */
        return false;
    if (a.kind == JINJA_LIST || a.kind >= JINJA_DICT)
        return a.as.bound == b.as.bound;
    return weft__jinja_equal(j, a, b);
}

static bool compare(jinja *j, const char *sign, jinja_value a, jinja_value b)
{
    int64_t by = 0;
    if (strcmp(sign, "is") == 0)
        return same(j, a, b);
    if (strcmp(sign, "%") == 0)
        return weft__jinja_integer_argument(j, "divisibleby", b, 0, &by) && divides(j, a, by, 0);
    return weft__jinja_compare(j, sign, a, b);
}

bool weft__jinja_test(jinja *j, const char *name, jinja_value value, const jinja_args *args)
{
    jinja_value other;
    for (size_t i = 0; i < N_TESTS; i++)
        if (strcmp(name, tests[i].name) == 0)
            return weft__jinja_arguments(j, name, args, "", NULL) && tests[i].call(j, value);
    for (size_t i = 0; i < N_COMPARISONS; i++) {
        if (strcmp(name, comparisons[i].name) != 0)
            continue;
        if (!weft__jinja_arguments(j, name, args, "other", &other))
            return false;
        if (other.kind == JINJA_MISSING) {
            weft__jinja_fail(j, "%s: expected an argument", name);
            return false;
        }
        return compare(j, comparisons[i].sign, value, other);
    }
    weft__jinja_fail(j, "no test is called \"%s\"", weft_printable(name));
    return false;
}
