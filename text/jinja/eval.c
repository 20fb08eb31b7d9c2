/* text/jinja/eval.c -- evaluates expressions: names, literals, calls, filters, tests. */
#include <string.h>

#include "text/jinja/node.h"

static jinja_value view(const char *name)
{
    return weft__jinja_view(name, strlen(name));
}

/* ---- names and literals --------------------------------------------------------------------- */

static jinja_value look_up(jinja *j, const char *name)
{
    for (const jinja_frame *frame = j->frame; frame; frame = frame->parent)
        for (size_t i = 0; i < frame->n; i++)
            if (frame->at[i].name == name)
                return frame->at[i].value;
    return weft__jinja_global(j, name);
}

static jinja_value evaluate_list(jinja *j, const jinja_node *node)
{
    const jinja_value list = weft__jinja_list(j, node->form);
    for (size_t i = 0; i < node->list.n && !j->status; i++)
        weft__jinja_push(j, list, weft__jinja_evaluate(j, node->list.at[i]));
    return list;
}

static jinja_value evaluate_dict(jinja *j, const jinja_node *node)
{
    const jinja_value dict = weft__jinja_dict(j);
    for (size_t i = 0; i + 1 < node->list.n && !j->status; i += 2) {
        const jinja_value key = weft__jinja_evaluate(j, node->list.at[i]);
        const jinja_value value = weft__jinja_evaluate(j, node->list.at[i + 1]);
        if (!j->status)
            weft__jinja_put(j, dict, key, value);
    }
    return dict;
}

static jinja_value evaluate_join(jinja *j, const jinja_node *node)
{
    jinja_buffer out = {0};
    for (size_t i = 0; i < node->list.n && !j->status; i++)
        weft__jinja_write(j, &out, weft__jinja_evaluate(j, node->list.at[i]));
    return weft__jinja_taken(&out);
}

/* a < b < c is true if each pair is; operands after the first false pair are not evaluated. */
static jinja_value evaluate_compare(jinja *j, const jinja_node *node)
{
    jinja_value left = weft__jinja_evaluate(j, node->list.at[0]);
    for (size_t i = 0; i < node->n_names && !j->status; i++) {
        const jinja_value right = weft__jinja_evaluate(j, node->list.at[i + 1]);
        if (!weft__jinja_compare(j, node->names[i], left, right))
            return weft__jinja_bool(false);
        left = right;
    }
    return weft__jinja_bool(true);
}

static jinja_value evaluate_slice(jinja *j, const jinja_node *node)
{
    jinja_value bounds[3];
    const jinja_value a = weft__jinja_evaluate(j, node->a);
    for (size_t i = 0; i < 3; i++)
        bounds[i] =
            i < node->list.n ? weft__jinja_evaluate(j, node->list.at[i]) : weft__jinja_none();
    return j->status ? weft__jinja_undefined(NULL)
                     : weft__jinja_slice(j, a, bounds[0], bounds[1], bounds[2]);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void spread(jinja *j, const jinja_call *call, jinja_value list, jinja_value named)
{
    if (call->star) {
        const jinja_list *more = weft__jinja_items(j, weft__jinja_evaluate(j, call->star));
        for (size_t i = 0; more && i < more->n && !j->status; i++)
            weft__jinja_push(j, list, more->at[i]);
    }
    if (!call->star_star)
        return;
    const jinja_value more = weft__jinja_evaluate(j, call->star_star);
    if (more.kind != JINJA_DICT)
        weft__jinja_fail(j, "** expects a dictionary, got \"%s\"", weft__jinja_type(more));
    for (size_t i = 0; !j->status && i < more.as.dict->n; i++)
        weft__jinja_put(j, named, more.as.dict->at[i].key, more.as.dict->at[i].value);
}

jinja_args weft__jinja_evaluate_arguments(jinja *j, const jinja_call *call)
{
    jinja_args args = {0};
    if (!call || j->status)
        return args;
    const jinja_value list = weft__jinja_list(j, FORM_LIST), named = weft__jinja_dict(j);
    for (size_t i = 0; i < call->arguments.n && !j->status; i++)
        weft__jinja_push(j, list, weft__jinja_evaluate(j, call->arguments.at[i]));
    for (size_t i = 0; i < call->named.n && !j->status; i++) {
        const jinja_value value = weft__jinja_evaluate(j, call->named.at[i]);
        if (!j->status)
            weft__jinja_put(j, named, view(call->names[i]), value);
    }
    if (!j->status)
        spread(j, call, list, named);
    if (j->status)
        return args;
    args.at = list.as.list->at;
    args.n = list.as.list->n;
    args.named = named.as.dict->at;
    args.n_named = named.as.dict->n;
    return args;
}

jinja_value weft__jinja_call(jinja *j, jinja_value callee, const jinja_args *args)
{
    if (j->status)
        return weft__jinja_undefined(NULL);
    if (callee.kind == JINJA_MACRO)
        return weft__jinja_call_macro(j, callee.as.macro, args, NULL);
    if (callee.kind == JINJA_LOOP)
        return weft__jinja_call_loop(j, callee.as.loop, args);
    if (callee.kind == JINJA_FUNCTION)
        return callee.as.bound->call(j, callee.as.bound->self, args);
    if (callee.kind == JINJA_UNDEFINED)
        return weft__jinja_fail(j, "\"%s\" is undefined and cannot be called",
                                weft_printable(callee.as.s ? callee.as.s : "a value"));
    return weft__jinja_fail(j, "\"%s\" cannot be called", weft__jinja_type(callee));
}

static jinja_value evaluate_call(jinja *j, const jinja_node *node)
{
    const jinja_value callee = weft__jinja_evaluate(j, node->a);
    const jinja_args args = weft__jinja_evaluate_arguments(j, node->call);
    return weft__jinja_call(j, callee, &args);
}

/* `base`: the input of the filters of a block. */
static jinja_value evaluate_filter(jinja *j, const jinja_node *node, const jinja_value *base)
{
    jinja_value value;
    if (!weft__jinja_enter(j))
        return weft__jinja_undefined(NULL);
    if (!node->a && base)
        value = *base;
    else if (base && node->a->kind == NODE_FILTER)
        value = evaluate_filter(j, node->a, base);
    else
        value = weft__jinja_evaluate(j, node->a);
    const jinja_args args = weft__jinja_evaluate_arguments(j, node->call);
    if (!j->status)
        value = weft__jinja_filter(j, node->name, value, &args);
    weft__jinja_leave(j);
    return value;
}

jinja_value weft__jinja_run_filters(jinja *j, const jinja_node *filters, jinja_value value)
{
    return evaluate_filter(j, filters, &value);
}

static jinja_value evaluate_test(jinja *j, const jinja_node *node)
{
    const jinja_value value = weft__jinja_evaluate(j, node->a);
    const jinja_args args = weft__jinja_evaluate_arguments(j, node->call);
    return weft__jinja_bool(!j->status && weft__jinja_test(j, node->name, value, &args));
}

static jinja_value evaluate_choice(jinja *j, const jinja_node *node)
{
    if (weft__jinja_truth(j, weft__jinja_evaluate(j, node->b)))
        return weft__jinja_evaluate(j, node->a);
    return node->c ? weft__jinja_evaluate(j, node->c)
                   : weft__jinja_undefined("the value of an if without else");
}

/* ---- expressions ---------------------------------------------------------------------------- */

static jinja_value evaluate_logic(jinja *j, const jinja_node *node)
{
    const jinja_value a = weft__jinja_evaluate(j, node->a);
    const bool truth = weft__jinja_truth(j, a);
    if (node->kind == NODE_NOT)
        return weft__jinja_bool(!truth);
    return truth == (node->kind == NODE_OR) ? a : weft__jinja_evaluate(j, node->b);
}

static jinja_value evaluate_binary(jinja *j, const jinja_node *node)
{
    const jinja_value a = weft__jinja_evaluate(j, node->a);
    const jinja_value b = weft__jinja_evaluate(j, node->b);
    if (j->status)
        return weft__jinja_undefined(NULL);
    return node->kind == NODE_ITEM ? weft__jinja_item(j, a, b)
                                   : weft__jinja_binary(j, node->sign, a, b);
}

static jinja_value evaluate(jinja *j, const jinja_node *node)
{
    switch (node->kind) {
    case NODE_CONSTANT:
        return node->value;
    case NODE_NAME:
        return look_up(j, node->name);
    case NODE_LIST:
        return evaluate_list(j, node);
    case NODE_DICT:
        return evaluate_dict(j, node);
    case NODE_MEMBER: {
        const jinja_value a = weft__jinja_evaluate(j, node->a);
        return j->status ? a : weft__jinja_member(j, a, view(node->name));
    }
    case NODE_ITEM:
    case NODE_BINARY:
        return evaluate_binary(j, node);
    case NODE_SLICE:
        return evaluate_slice(j, node);
    case NODE_CALL:
        return evaluate_call(j, node);
    case NODE_FILTER:
        return evaluate_filter(j, node, NULL);
    case NODE_TEST:
        return evaluate_test(j, node);
    case NODE_CHOICE:
        return evaluate_choice(j, node);
    case NODE_NOT:
    case NODE_AND:
    case NODE_OR:
        return evaluate_logic(j, node);
    case NODE_COMPARE:
        return evaluate_compare(j, node);
    case NODE_JOIN:
        return evaluate_join(j, node);
    case NODE_UNARY: {
        const jinja_value a = weft__jinja_evaluate(j, node->a);
        return j->status ? a : weft__jinja_unary(j, *node->sign, a);
    }
    default:
        break;
    }
    return weft__jinja_undefined(NULL);
}

jinja_value weft__jinja_evaluate(jinja *j, const jinja_node *node)
{
    if (!weft__jinja_enter(j))
        return weft__jinja_undefined(NULL);
    const jinja_value value = evaluate(j, node);
    weft__jinja_leave(j);
    return value;
}
