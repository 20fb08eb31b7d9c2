/* text/jinja/run.c -- executes statements, scopes, loops and macros. */
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "text/jinja/jinja.h"
#include "text/jinja/node.h"

typedef enum jump { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE } jump;

static jump run_block(jinja *j, const jinja_node *block);

/* ---- scopes --------------------------------------------------------------------------------- */

void weft__jinja_assign(jinja *j, const char *name, jinja_value value)
{
    jinja_frame *frame = j->frame;
    for (size_t i = 0; i < frame->n; i++) {
        if (frame->at[i].name == name) {
            frame->at[i].value = value;
            return;
        }
    }
    if (frame->n == frame->capacity) {
        const size_t capacity = frame->capacity ? 2 * frame->capacity : 8;
        jinja_variable *larger = weft__jinja_take(j, capacity * sizeof *larger);
        if (!larger)
            return;
        if (frame->n > 0)
            memcpy(larger, frame->at, frame->n * sizeof *larger);
        frame->at = larger;
        frame->capacity = capacity;
    }
    frame->at[frame->n++] = (jinja_variable){.name = name, .value = value};
}

/* Assigns to a name, a member of a namespace, or several names. */
static void assign_to(jinja *j, const jinja_node *target, jinja_value value)
{
    if (j->status)
        return;
    if (target->kind == NODE_NAME) {
        weft__jinja_assign(j, target->name, value);
        return;
    }
    if (target->kind == NODE_MEMBER) {
        const jinja_value space = weft__jinja_evaluate(j, target->a);
        if (space.kind != JINJA_NAMESPACE)
            weft__jinja_fail(j, "expected a namespace to set \"%s\" of, got \"%s\"",
                             weft_printable(target->name), weft__jinja_type(space));
        else
            weft__jinja_put(j, space, weft__jinja_view(target->name, strlen(target->name)), value);
        return;
    }
    const jinja_list *items = weft__jinja_items(j, value);
    if (items && items->n != target->list.n)
        weft__jinja_fail(j, "expected %zu values to assign, got %zu", target->list.n, items->n);
    for (size_t i = 0; items && i < target->list.n && !j->status; i++)
        assign_to(j, target->list.at[i], items->at[i]);
}

/* Runs a body with its own variables and returns its output; *result: how the body ended. */
static jinja_value capture(jinja *j, const jinja_node *body, jinja_frame *frame, jump *result)
{
    jinja_buffer text = {0}, *const out = j->out;
    jinja_frame *const before = j->frame;
    j->out = &text;
    j->frame = frame;
    *result = run_block(j, body);
    j->out = out;
    j->frame = before;
    return j->status ? weft__jinja_undefined(NULL) : weft__jinja_taken(&text);
}

/* ---- macros --------------------------------------------------------------------------------- */

static const jinja_entry *named_argument(const jinja_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (weft__jinja_is(args->named[i].key, name))
            return &args->named[i];
    return NULL;
}

/* Binds additional arguments to varargs and kwargs if the macro uses them. */
static void bind_rest(jinja *j, const jinja_node *node, const jinja_args *args)
{
    const jinja_value rest = weft__jinja_list(j, FORM_TUPLE), named = weft__jinja_dict(j);
    for (size_t i = node->n_names; i < args->n && !j->status; i++)
        weft__jinja_push(j, rest, args->at[i]);
    for (size_t i = 0; i < args->n_named && !j->status; i++) {
        bool parameter = node->wants_caller && weft__jinja_is(args->named[i].key, "caller");
        for (size_t k = 0; k < node->n_names && !parameter; k++)
            parameter = weft__jinja_is(args->named[i].key, node->names[k]);
        if (!parameter)
            weft__jinja_put(j, named, args->named[i].key, args->named[i].value);
    }
    if (j->status)
        return;
    if (node->wants_varargs)
        weft__jinja_assign(j, node->names[node->n_names], rest);
    else if (rest.as.list->n > 0)
        weft__jinja_fail(j, "macro \"%s\" takes %zu arguments, got %zu", weft_printable(node->name),
                         node->n_names, args->n);
    if (node->wants_kwargs)
        weft__jinja_assign(j, node->names[node->n_names + 1], named);
    else if (named.as.dict->n > 0)
        weft__jinja_fail(
            j, "macro \"%s\" takes no argument \"%s\"", weft_printable(node->name),
            weft_printable_n(named.as.dict->at[0].key.as.s, named.as.dict->at[0].key.n));
}

static void bind_parameters(jinja *j, const jinja_node *node, const jinja_args *args)
{
    for (size_t i = 0; i < node->n_names && !j->status; i++) {
        const jinja_entry *named = named_argument(args, node->names[i]);
        const size_t with_default = node->n_names - node->list.n;
        jinja_value value = weft__jinja_undefined(node->names[i]);
        if (i < args->n && named)
            weft__jinja_fail(j, "macro \"%s\" got \"%s\" twice", weft_printable(node->name),
                             weft_printable(node->names[i]));
        else if (i < args->n)
            value = args->at[i];
        else if (named)
            value = named->value;
        else if (i >= with_default)
            value = weft__jinja_evaluate(j, node->list.at[i - with_default]);
        weft__jinja_assign(j, node->names[i], value);
    }
}

jinja_value weft__jinja_call_macro(jinja *j, const jinja_macro *macro, const jinja_args *args,
                                   const jinja_value *caller)
{
    const jinja_node *node = macro->node;
    jinja_frame *frame = weft__jinja_take(j, sizeof *frame), *const before = j->frame;
    if (!frame || !weft__jinja_enter(j))
        return weft__jinja_undefined(NULL);
    const int line = j->line;
    frame->parent = macro->frame;
    j->frame = frame;
    bind_parameters(j, node, args);
    bind_rest(j, node, args);
    const jinja_entry *named = named_argument(args, "caller");
    if (node->wants_caller)
        weft__jinja_assign(j, node->names[node->n_names + 2],
                           caller  ? *caller
                           : named ? named->value
                                   : weft__jinja_undefined("caller"));
    else if (caller)
        weft__jinja_fail(j, "macro \"%s\" was called with a block but does not use caller",
                         weft_printable(node->name));
    jump end;
    const jinja_value text = capture(j, node->a, frame, &end);
    j->frame = before;
    j->line = j->status ? j->line : line;
    weft__jinja_leave(j);
    return text;
}

static jinja_value macro_value(jinja *j, const jinja_node *node)
{
    jinja_macro *macro = weft__jinja_take(j, sizeof *macro);
    if (!macro)
        return weft__jinja_undefined(NULL);
    macro->node = node;
    macro->frame = j->frame;
    return (jinja_value){.kind = JINJA_MACRO, .as.macro = macro};
}

static void run_call_block(jinja *j, const jinja_node *node)
{
    const jinja_value caller = macro_value(j, node->b);
    const jinja_value callee = weft__jinja_evaluate(j, node->a->a);
    const jinja_args args = weft__jinja_evaluate_arguments(j, node->a->call);
    if (j->status)
        return;
    if (callee.kind != JINJA_MACRO) {
        weft__jinja_fail(j, "a call block expects a macro, got \"%s\"", weft__jinja_type(callee));
        return;
    }
    weft__jinja_write(j, j->out, weft__jinja_call_macro(j, callee.as.macro, &args, &caller));
}

/* ---- loops ---------------------------------------------------------------------------------- */

/* The items that satisfy the loop's condition, in which `loop` is not defined. */
static const jinja_list *filtered(jinja *j, const jinja_node *node, const jinja_list *items)
{
    if (!node->c || !items)
        return items;
    const jinja_value passed = weft__jinja_list(j, FORM_LIST);
    for (size_t i = 0; i < items->n && !j->status; i++) {
        assign_to(j, node->a, items->at[i]);
        if (weft__jinja_truth(j, weft__jinja_evaluate(j, node->c)))
            weft__jinja_push(j, passed, items->at[i]);
    }
    return j->status ? NULL : passed.as.list;
}

/* False if no iteration reached its end, after which Jinja2 runs the else branch. */
static bool run_items(jinja *j, const jinja_node *node, jinja_loop *loop, const char *loop_name)
{
    bool finished = false;
    jinja_frame *frame = j->frame;
    for (; loop->index < loop->n && !j->status; loop->index++) {
        frame->n = 0;
        assign_to(j, node->a, loop->items->at[loop->index]);
        weft__jinja_assign(j, loop_name, (jinja_value){.kind = JINJA_LOOP, .as.loop = loop});
        const jump end = run_block(j, node->list.at[0]);
        finished = finished || end == JUMP_NONE;
        if (end == JUMP_BREAK)
            break;
    }
    return finished;
}

/* Runs a loop over a value, in a frame within `parent`. */
static void run_loop(jinja *j, const jinja_node *node, jinja_value value, jinja_frame *parent,
                     int depth)
{
    const jinja_list *items = weft__jinja_items(j, value);
    jinja_frame *const before = j->frame, *frame = weft__jinja_take(j, sizeof *frame);
    jinja_loop *loop = weft__jinja_take(j, sizeof *loop);
    if (!loop || !items)
        return;
    frame->parent = parent;
    j->frame = frame;
    items = filtered(j, node, items);
    bool finished = false;
    if (items) {
        loop->items = items;
        loop->n = items->n;
        loop->depth = depth;
        loop->node = node;
        loop->frame = parent;
        loop->changed.kind = JINJA_MISSING;
        finished = run_items(j, node, loop, node->names[0]);
    }
    if (items && !finished && node->list.n > 1 && !j->status) {
        frame->n = 0;
        run_block(j, node->list.at[1]);
    }
    j->frame = before;
}

/* loop(items) in a recursive loop: the output of its body over other items. */
jinja_value weft__jinja_call_loop(jinja *j, const jinja_loop *loop, const jinja_args *args)
{
    jinja_value items;
    jinja_buffer text = {0}, *const out = j->out;
    if (!loop->node->recursive)
        return weft__jinja_fail(j, "loop(...) needs a loop that is declared recursive");
    if (!weft__jinja_arguments(j, "loop", args, "iterable", &items) || !weft__jinja_enter(j))
        return weft__jinja_undefined(NULL);
    const int line = j->line;
    j->out = &text;
    run_loop(j, loop->node, items, loop->frame, loop->depth + 1);
    j->out = out;
    j->line = j->status ? j->line : line;
    weft__jinja_leave(j);
    return j->status ? weft__jinja_undefined(NULL) : weft__jinja_taken(&text);
}

/* ---- statements ----------------------------------------------------------------------------- */

static jump run_if(jinja *j, const jinja_node *node)
{
    for (size_t i = 0; i + 1 < node->list.n && !j->status; i += 2) {
        const bool truth = weft__jinja_truth(j, weft__jinja_evaluate(j, node->list.at[i]));
        if (!j->status && truth)
            return run_block(j, node->list.at[i + 1]);
    }
    return node->c && !j->status ? run_block(j, node->c) : JUMP_NONE;
}

static jinja_frame *inner_frame(jinja *j)
{
    jinja_frame *frame = weft__jinja_take(j, sizeof *frame);
    if (frame)
        frame->parent = j->frame;
    return frame;
}

static jump run_with(jinja *j, const jinja_node *node)
{
    jinja_frame *const before = j->frame, *frame = inner_frame(j);
    if (!frame)
        return JUMP_NONE;
    for (size_t i = 0; i + 1 < node->list.n && !j->status; i += 2) {
        const jinja_value value = weft__jinja_evaluate(j, node->list.at[i + 1]);
        j->frame = frame;
        assign_to(j, node->list.at[i], value);
        j->frame = before;
    }
    j->frame = frame;
    const jump result = run_block(j, node->a);
    j->frame = before;
    return result;
}

/* A break or continue in the body drops the text. */
static jump run_captured(jinja *j, const jinja_node *node)
{
    const bool set = node->kind == NODE_SET_BLOCK;
    jump result;
    jinja_frame *frame = inner_frame(j);
    if (!frame)
        return JUMP_NONE;
    jinja_value text = capture(j, set ? node->list.at[0] : node->b, frame, &result);
    if (result != JUMP_NONE)
        return result;
    const jinja_node *filters = set ? node->b : node->a;
    if (filters)
        text = weft__jinja_run_filters(j, filters, text);
    if (set)
        assign_to(j, node->a, text);
    else
        weft__jinja_write(j, j->out, text);
    return JUMP_NONE;
}

static void add_span(jinja *j, size_t begin)
{
    jinja_spans *spans = j->spans;
    if (weft__list_more(spans->at, spans->n))
        spans->at[spans->n++] = (jinja_span){begin, j->out->n};
    else
        j->status = weft__out_of_memory(j->name, "the template");
}

/* A block that is not scoped sees the variables of the whole template only. */
static jump run_scope(jinja *j, const jinja_node *node)
{
    jinja_frame *const before = j->frame, *frame = inner_frame(j);
    const size_t begin = j->out->n;
    if (!frame)
        return JUMP_NONE;
    while (node->outermost && frame->parent->parent->parent)
        frame->parent = frame->parent->parent;
    j->frame = frame;
    const jump result = run_block(j, node->a);
    j->frame = before;
    if (node->generated && !j->status && j->spans && j->out == j->whole)
        add_span(j, begin);
    return result;
}

static jump run_statement(jinja *j, const jinja_node *node)
{
    switch (node->kind) {
    case NODE_TEXT:
        weft__jinja_append(j, j->out, node->value.as.s, node->value.n);
        break;
    case NODE_PRINT:
        weft__jinja_write(j, j->out, weft__jinja_evaluate(j, node->a));
        break;
    case NODE_IF:
        return run_if(j, node);
    case NODE_FOR:
        run_loop(j, node, weft__jinja_evaluate(j, node->b), j->frame, 1);
        break;
    case NODE_SET:
        assign_to(j, node->a, weft__jinja_evaluate(j, node->b));
        break;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return run_captured(j, node);
    case NODE_WITH:
        return run_with(j, node);
    case NODE_MACRO:
        weft__jinja_assign(j, node->name, macro_value(j, node));
        break;
    case NODE_CALL_BLOCK:
        run_call_block(j, node);
        break;
    case NODE_SCOPE:
        return run_scope(j, node);
    case NODE_BREAK:
        return JUMP_BREAK;
    case NODE_CONTINUE:
        return JUMP_CONTINUE;
    default:
        break;
    }
    return JUMP_NONE;
}

static jump run_block(jinja *j, const jinja_node *block)
{
    jump result = JUMP_NONE;
    if (!weft__jinja_enter(j))
        return JUMP_NONE;
    for (size_t i = 0; i < block->list.n && !j->status && result == JUMP_NONE; i++) {
        j->line = block->list.at[i]->line;
        result = run_statement(j, block->list.at[i]);
    }
    weft__jinja_leave(j);
    return result;
}

void weft__jinja_run(jinja *j, const jinja_node *body)
{
    run_block(j, body);
}
