/* text/jinja/globals.c -- the global functions of templates, and those of loops. */
#include <string.h>
#include <time.h>

#include "text/jinja/node.h"
#include "text/jinja/tables.h"

enum { MAX_RANGE = 100000 }; /* the limit of Jinja's sandbox */

static jinja_value global_range(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value a[3];
    int64_t from = 0, to = 0, step = 1;
    (void)self;
    if (!weft__jinja_arguments(j, "range", args, "start,stop,step", a))
        return weft__jinja_nothing();
    if (a[0].kind == JINJA_MISSING)
        return weft__jinja_fail(j, "range: expected an argument");
    const bool one = a[1].kind == JINJA_MISSING;
    if (!weft__jinja_integer_argument(j, "range", one ? a[1] : a[0], 0, &from) ||
        !weft__jinja_integer_argument(j, "range", one ? a[0] : a[1], 0, &to) ||
        !weft__jinja_integer_argument(j, "range", a[2], 1, &step))
        return weft__jinja_nothing();
    if (step == 0)
        return weft__jinja_fail(j, "range: the step is 0");
    const double count = ((double)to - (double)from) / (double)step;
    if (count > (double)MAX_RANGE)
        return weft__jinja_fail(j, "range: more than %d numbers", MAX_RANGE);
    const jinja_value list = weft__jinja_list(j, FORM_RANGE);
    for (int64_t i = from; (step > 0 ? i < to : i > to) && !j->status;) {
        weft__jinja_push(j, list, weft__jinja_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return list;
}

/* dict(a, b=1): from dictionaries or pairs, and keyword arguments. */
static jinja_value make_dict(jinja *j, const char *what, const jinja_args *args)
{
    const jinja_value dict = weft__jinja_dict(j);
    if (args->n > 1 || (args->n == 1 && args->at[0].kind == JINJA_UNDEFINED))
        return weft__jinja_fail(j, "%s: expected at most one defined argument without a name",
                                what);
    if (args->n == 1 && args->at[0].kind == JINJA_DICT) {
        const jinja_dict *from = args->at[0].as.dict;
        for (size_t i = 0; i < from->n && !j->status; i++)
            weft__jinja_put(j, dict, from->at[i].key, from->at[i].value);
    } else if (args->n == 1) {
        const jinja_list *pairs = weft__jinja_items(j, args->at[0]);
        for (size_t i = 0; pairs && i < pairs->n && !j->status; i++) {
            const jinja_list *pair = weft__jinja_items(j, pairs->at[i]);
            if (pair && pair->n != 2)
                weft__jinja_fail(j, "%s: expected pairs, got %zu items", what, pair->n);
            else if (pair)
                weft__jinja_put(j, dict, pair->at[0], pair->at[1]);
        }
    }
    for (size_t i = 0; i < args->n_named && !j->status; i++)
        weft__jinja_put(j, dict, args->named[i].key, args->named[i].value);
    return dict;
}

static jinja_value global_dict(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)self;
    return make_dict(j, "dict", args);
}

static jinja_value global_namespace(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)self;
    jinja_value space = make_dict(j, "namespace", args);
    if (space.kind == JINJA_DICT)
        space.kind = JINJA_NAMESPACE;
    return space;
}

static jinja_value global_raise(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value message;
    (void)self;
    if (!weft__jinja_arguments(j, "raise_exception", args, "message", &message))
        return weft__jinja_nothing();
    message = weft__jinja_text(j, message);
    return weft__jinja_fail(j, "the template refuses this: %.*s", (int)message.n, message.as.s);
}

static jinja_value global_strftime(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value format;
    char text[256];
    struct tm now;
    const time_t seconds = (time_t)j->now;
    (void)self;
    if (!weft__jinja_arguments(j, "strftime_now", args, "format", &format) ||
        !weft__jinja_string_argument(j, "strftime_now", format))
        return weft__jinja_nothing();
    char *copy = weft__jinja_take(j, format.n + 2);
    if (!copy || !localtime_r(&seconds, &now))
        return weft__jinja_fail(j, "strftime_now: the time is out of range");
    memcpy(copy, format.as.s, format.n);
    copy[format.n] = ' '; /* so that an empty result differs from a failure */
    const size_t n = strftime(text, sizeof text, copy, &now);
    if (n == 0)
        return weft__jinja_fail(j, "strftime_now: expected a text below %zu bytes", sizeof text);
    return weft__jinja_string(j, text, n - 1);
}

/* A call of joiner()'s result: "" at the first call, then its text. */
static jinja_value joiner_call(jinja *j, jinja_value self, const jinja_args *args)
{
    if (!weft__jinja_arguments(j, "joiner", args, "", NULL))
        return weft__jinja_nothing();
    jinja_list *state = self.as.list; /* the text, and whether it has been called */
    const bool called = weft__jinja_truth(j, state->at[1]);
    state->at[1] = weft__jinja_bool(true);
    return called ? state->at[0] : weft__jinja_view("", 0);
}

static jinja_value bind(jinja *j, const char *name, jinja_function *call, jinja_value self)
{
    jinja_bound *bound = weft__jinja_take(j, sizeof *bound);
    if (!bound)
        return weft__jinja_nothing();
    bound->name = name;
    bound->call = call;
    bound->self = self;
    return (jinja_value){.kind = JINJA_FUNCTION, .as.bound = bound};
}

static jinja_value global_joiner(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value separator;
    (void)self;
    if (!weft__jinja_arguments(j, "joiner", args, "sep", &separator))
        return weft__jinja_nothing();
    if (separator.kind == JINJA_MISSING)
        separator = weft__jinja_view(", ", 2);
    const jinja_value state = weft__jinja_pair(j, separator, weft__jinja_bool(false));
    return bind(j, "joiner", joiner_call, state);
}

static const jinja_row globals[] = {
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"raise_exception", global_raise},
    {"strftime_now", global_strftime},
    {"joiner", global_joiner},
    {NULL, NULL},
};

jinja_value weft__jinja_global(jinja *j, const char *name)
{
    for (const jinja_row *row = globals; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return bind(j, row->name, row->call, weft__jinja_none());
    return weft__jinja_undefined(name);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static jinja_value loop_cycle(jinja *j, jinja_value self, const jinja_args *args)
{
    if (args->n == 0)
        return weft__jinja_fail(j, "cycle: expected values to go through");
    return args->at[self.as.loop->index % args->n];
}

static jinja_value loop_changed(jinja *j, jinja_value self, const jinja_args *args)
{
    const jinja_value now = weft__jinja_list(j, FORM_TUPLE);
    for (size_t i = 0; i < args->n && !j->status; i++)
        weft__jinja_push(j, now, args->at[i]);
    if (j->status)
        return weft__jinja_nothing();
    const bool changed = !weft__jinja_equal(j, self.as.loop->changed, now);
    self.as.loop->changed = now;
    return weft__jinja_bool(changed);
}

const jinja_row weft__jinja_loop_methods[] = {
    {"cycle", loop_cycle},
    {"changed", loop_changed},
    {NULL, NULL},
};
