/* text/jinja/expressions.c -- parses expressions with Jinja's operator precedence. */
#include <string.h>

#include "text/jinja/node.h"

static jinja_node *parse_unary(jinja_parser *p, bool with_filters);
static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node);

static jinja_node *binary(jinja_parser *p, jinja_node_kind kind, const char *sign, jinja_node *a,
                          jinja_node *b)
{
    jinja_node *node = weft__jinja_node(p, kind);
    if (!node)
        return NULL;
    strncpy(node->sign, sign, sizeof node->sign - 1);
    node->a = a;
    node->b = b;
    return node;
}

static jinja_node *constant(jinja_parser *p, jinja_value value)
{
    jinja_node *node = weft__jinja_node(p, NODE_CONSTANT);
    if (node)
        node->value = value;
    return node;
}

/* ---- primaries ------------------------------------------------------------------------------ */

/* Adjacent string literals are concatenated. */
static jinja_node *parse_string(jinja_parser *p)
{
    jinja_value text = weft__jinja_peek(p)->value;
    for (p->at++; weft__jinja_peek(p)->kind == TOKEN_STRING; p->at++) {
        const jinja_value next = weft__jinja_peek(p)->value;
        char *joined = weft__jinja_parser_take(p, text.n + next.n + 1);
        if (!joined)
            return NULL;
        memcpy(joined, text.as.s, text.n);
        memcpy(joined + text.n, next.as.s, next.n);
        text = weft__jinja_view(joined, text.n + next.n);
    }
    return constant(p, text);
}

static void note_special(jinja_parser *p, const char *name)
{
    p->varargs = p->varargs || strcmp(name, "varargs") == 0;
    p->kwargs = p->kwargs || strcmp(name, "kwargs") == 0;
    p->caller = p->caller || strcmp(name, "caller") == 0;
}

static jinja_node *parse_name(jinja_parser *p)
{
    const char *name = weft__jinja_peek(p)->name;
    p->at++;
    if (strcmp(name, "true") == 0 || strcmp(name, "True") == 0)
        return constant(p, weft__jinja_bool(true));
    if (strcmp(name, "false") == 0 || strcmp(name, "False") == 0)
        return constant(p, weft__jinja_bool(false));
    if (strcmp(name, "none") == 0 || strcmp(name, "None") == 0)
        return constant(p, weft__jinja_none());
    note_special(p, name);
    jinja_node *node = weft__jinja_node(p, NODE_NAME);
    if (node)
        node->name = name;
    return node;
}

static jinja_node *parse_list(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_LIST);
    p->at++;
    while (node && !p->status && !weft__jinja_at_sign(p, "]")) {
        if (node->list.n > 0)
            weft__jinja_expect_sign(p, ",");
        if (weft__jinja_at_sign(p, "]"))
            break;
        weft__jinja_add(p, &node->list, weft__jinja_expression(p, true));
    }
    weft__jinja_expect_sign(p, "]");
    return node;
}

static jinja_node *parse_dict(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_DICT);
    p->at++;
    while (node && !p->status && !weft__jinja_at_sign(p, "}")) {
        if (node->list.n > 0)
            weft__jinja_expect_sign(p, ",");
        if (weft__jinja_at_sign(p, "}"))
            break;
        weft__jinja_add(p, &node->list, weft__jinja_expression(p, true));
        weft__jinja_expect_sign(p, ":");
        weft__jinja_add(p, &node->list, weft__jinja_expression(p, true));
    }
    weft__jinja_expect_sign(p, "}");
    return node;
}

/* Whether a tuple ends here: at a bracket, the end of a tag, or the name `end`. */
static bool tuple_ends(const jinja_parser *p, const char *end)
{
    const jinja_token *token = weft__jinja_peek(p);
    return token->kind == TOKEN_BLOCK_END || token->kind == TOKEN_PRINT_END ||
           token->kind == TOKEN_END || weft__jinja_at_sign(p, ")") ||
           (end && weft__jinja_at_name(p, end));
}

static jinja_node *parse_primary(jinja_parser *p);

/* A target of an assignment, or one of several: namespace.name, or a primary. */
static jinja_node *parse_target(jinja_parser *p)
{
    const jinja_token *next = &p->tokens[p->at + 1];
    if (weft__jinja_peek(p)->kind != TOKEN_NAME || next->kind != TOKEN_SIGN || *next->text != '.')
        return parse_primary(p);
    jinja_node *node = weft__jinja_node(p, NODE_MEMBER);
    jinja_node *name = parse_name(p);
    p->at++;
    const char *member = weft__jinja_expect_name(p);
    if (node) {
        node->a = name;
        node->name = member;
    }
    return node;
}

static jinja_node *parse_row(jinja_parser *p, bool choice, const char *end, bool targets,
                             bool parentheses)
{
    jinja_node *tuple = weft__jinja_node(p, NODE_LIST);
    bool commas = false;
    while (tuple && !p->status) {
        if (tuple->list.n > 0)
            weft__jinja_expect_sign(p, ",");
        if (tuple_ends(p, end))
            break;
        weft__jinja_add(p, &tuple->list,
                        targets ? parse_target(p) : weft__jinja_expression(p, choice));
        if (!weft__jinja_at_sign(p, ","))
            break;
        commas = true;
    }
    if (!tuple || p->status)
        return NULL;
    tuple->form = FORM_TUPLE;
    if (!commas && tuple->list.n > 0)
        return tuple->list.at[0];
    if (!commas && !parentheses)
        weft__jinja_unexpected(p, "an expression");
    return tuple;
}

jinja_node *weft__jinja_tuple(jinja_parser *p, bool choice, const char *end)
{
    return parse_row(p, choice, end, false, false);
}

static jinja_node *parse_primary(jinja_parser *p)
{
    const jinja_token *token = weft__jinja_peek(p);
    if (token->kind == TOKEN_NAME)
        return parse_name(p);
    if (token->kind == TOKEN_STRING)
        return parse_string(p);
    if (token->kind == TOKEN_NUMBER) {
        p->at++;
        return constant(p, token->value);
    }
    if (weft__jinja_at_sign(p, "["))
        return parse_list(p);
    if (weft__jinja_at_sign(p, "{"))
        return parse_dict(p);
    if (weft__jinja_skip_sign(p, "(")) {
        jinja_node *node = parse_row(p, true, NULL, false, true);
        weft__jinja_expect_sign(p, ")");
        return node;
    }
    weft__jinja_unexpected(p, "an expression");
    return NULL;
}

/* Only names and, with `members`, members of namespaces can be assigned to. */
static void check_target(jinja_parser *p, const jinja_node *target, bool members)
{
    if (p->status || target->kind == NODE_NAME || (members && target->kind == NODE_MEMBER))
        return;
    if (target->kind != NODE_LIST || target->form != FORM_TUPLE)
        weft__jinja_parse_fail(p, target->line, "expected a name to assign to");
    for (size_t i = 0; i < target->list.n && !p->status; i++)
        check_target(p, target->list.at[i], members);
}

jinja_node *weft__jinja_target(jinja_parser *p, bool members)
{
    jinja_node *target = parse_row(p, true, "in", true, false);
    check_target(p, target, members);
    return target;
}

/* ---- postfix operators ----------------------------------------------------------------------- */

static void parse_argument(jinja_parser *p, jinja_call *call)
{
    const bool positional = !call->star && !call->star_star;
    if (weft__jinja_skip_sign(p, "*")) {
        call->star = weft__jinja_expression(p, true);
        if (!positional)
            weft__jinja_unexpected(p, "one * before one **");
    } else if (weft__jinja_skip_sign(p, "**")) {
        if (call->star_star)
            weft__jinja_unexpected(p, "one **");
        call->star_star = weft__jinja_expression(p, true);
    } else if (weft__jinja_peek(p)->kind == TOKEN_NAME && p->tokens[p->at + 1].kind == TOKEN_SIGN &&
               strcmp(p->tokens[p->at + 1].text, "=") == 0) {
        const size_t n = call->named.n;
        const char **names = weft__jinja_parser_take(p, (n + 1) * sizeof *names);
        if (!names)
            return;
        if (n > 0)
            memcpy(names, call->names, n * sizeof *names);
        names[n] = weft__jinja_peek(p)->name;
        call->names = names;
        p->at += 2;
        weft__jinja_add(p, &call->named, weft__jinja_expression(p, true));
    } else {
        if (!positional || call->named.n > 0)
            weft__jinja_unexpected(p, "arguments without names first");
        weft__jinja_add(p, &call->arguments, weft__jinja_expression(p, true));
    }
}

/* Parses arguments; "(" is next. */
static jinja_call *parse_call(jinja_parser *p)
{
    jinja_call *call = weft__jinja_parser_take(p, sizeof *call);
    weft__jinja_expect_sign(p, "(");
    for (bool first = true; call && !p->status && !weft__jinja_at_sign(p, ")"); first = false) {
        if (!first)
            weft__jinja_expect_sign(p, ",");
        if (weft__jinja_at_sign(p, ")"))
            break;
        parse_argument(p, call);
    }
    weft__jinja_expect_sign(p, ")");
    return call;
}

/* Parses a bound of a slice, which may be absent. */
static void parse_bound(jinja_parser *p, jinja_node *slice)
{
    jinja_node *bound = NULL;
    if (!weft__jinja_at_sign(p, ":") && !weft__jinja_at_sign(p, "]"))
        bound = weft__jinja_expression(p, true);
    if (!bound)
        bound = constant(p, weft__jinja_none());
    weft__jinja_add(p, &slice->list, bound);
}

static jinja_node *parse_subscript(jinja_parser *p, jinja_node *a)
{
    p->at++;
    jinja_node *slice = weft__jinja_node(p, NODE_SLICE);
    if (!slice)
        return NULL;
    slice->a = a;
    parse_bound(p, slice);
    if (weft__jinja_skip_sign(p, ":")) {
        parse_bound(p, slice);
        if (weft__jinja_skip_sign(p, ":"))
            parse_bound(p, slice);
        else
            weft__jinja_add(p, &slice->list, constant(p, weft__jinja_none()));
    } else if (slice->list.n > 0) {
        slice->kind = NODE_ITEM;
        slice->b = slice->list.at[0];
        if (weft__jinja_at_sign(p, ",")) { /* a[1, 2] is a[(1, 2)] */
            jinja_node *tuple = weft__jinja_node(p, NODE_LIST);
            if (!tuple)
                return NULL;
            tuple->form = FORM_TUPLE;
            weft__jinja_add(p, &tuple->list, slice->b);
            while (weft__jinja_skip_sign(p, ","))
                weft__jinja_add(p, &tuple->list, weft__jinja_expression(p, true));
            slice->b = tuple;
        }
    }
    weft__jinja_expect_sign(p, "]");
    return slice;
}

/* Parses .name, .0, [...] and calls after a value. */
static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node)
{
    while (node && !p->status) {
        if (weft__jinja_skip_sign(p, ".")) {
            const bool name = weft__jinja_peek(p)->kind == TOKEN_NAME;
            jinja_node *member = weft__jinja_node(p, name ? NODE_MEMBER : NODE_ITEM);
            if (!member)
                return NULL;
            member->a = node;
            if (!name && weft__jinja_peek(p)->kind != TOKEN_NUMBER)
                weft__jinja_unexpected(p, "a name");
            else if (name)
                member->name = weft__jinja_peek(p)->name;
            else
                member->b = constant(p, weft__jinja_peek(p)->value);
            p->at++;
            node = member;
        } else if (weft__jinja_at_sign(p, "[")) {
            node = parse_subscript(p, node);
        } else if (weft__jinja_at_sign(p, "(")) {
            jinja_node *call = weft__jinja_node(p, NODE_CALL);
            if (!call)
                return NULL;
            call->a = node;
            call->call = parse_call(p);
            node = call;
        } else {
            break;
        }
    }
    return p->status ? NULL : node;
}

/* Parses the name or name.name of a filter or test. */
static const char *parse_dotted(jinja_parser *p)
{
    const char *name = weft__jinja_expect_name(p);
    while (name && weft__jinja_skip_sign(p, ".")) {
        const char *next = weft__jinja_expect_name(p);
        if (!next)
            return NULL;
        const size_t n = strlen(name), more = strlen(next);
        char *joined = weft__jinja_parser_take(p, n + more + 2);
        if (!joined)
            return NULL;
        memcpy(joined, name, n);
        joined[n] = '.';
        memcpy(joined + n + 1, next, more);
        name = joined;
    }
    return name;
}

static jinja_node *parse_filter(jinja_parser *p, jinja_node *a)
{
    jinja_node *node = weft__jinja_node(p, NODE_FILTER);
    if (!node)
        return NULL;
    node->a = a;
    node->name = parse_dotted(p);
    if (weft__jinja_at_sign(p, "("))
        node->call = parse_call(p);
    return node;
}

jinja_node *weft__jinja_filters(jinja_parser *p, jinja_node *a)
{
    do
        a = parse_filter(p, a);
    while (!p->status && weft__jinja_skip_sign(p, "|"));
    return p->status ? NULL : a;
}

/* Whether a test's argument without parentheses follows. */
static bool argument_follows(const jinja_parser *p)
{
    const jinja_token *token = weft__jinja_peek(p);
    if (token->kind == TOKEN_NAME)
        return !weft__jinja_at_name(p, "else") && !weft__jinja_at_name(p, "or") &&
               !weft__jinja_at_name(p, "and");
    return token->kind == TOKEN_STRING || token->kind == TOKEN_NUMBER ||
           weft__jinja_at_sign(p, "[") || weft__jinja_at_sign(p, "{");
}

static jinja_node *parse_test(jinja_parser *p, jinja_node *a)
{
    const bool negated = weft__jinja_skip_name(p, "not");
    jinja_node *node = weft__jinja_node(p, NODE_TEST);
    if (!node)
        return NULL;
    node->a = a;
    node->name = parse_dotted(p);
    if (weft__jinja_at_sign(p, "(")) {
        node->call = parse_call(p);
    } else if (argument_follows(p)) {
        if (weft__jinja_at_name(p, "is"))
            weft__jinja_unexpected(p, "one test");
        node->call = weft__jinja_parser_take(p, sizeof *node->call);
        if (node->call)
            weft__jinja_add(p, &node->call->arguments, parse_postfix(p, parse_primary(p)));
    }
    return negated ? binary(p, NODE_NOT, "", node, NULL) : node;
}

/* Parses filters, tests and calls after a value. */
static jinja_node *parse_modifiers(jinja_parser *p, jinja_node *node)
{
    while (node && !p->status) {
        if (weft__jinja_skip_sign(p, "|")) {
            node = parse_filter(p, node);
        } else if (weft__jinja_skip_name(p, "is")) {
            node = parse_test(p, node);
        } else if (weft__jinja_at_sign(p, "(")) {
            jinja_node *call = weft__jinja_node(p, NODE_CALL);
            if (!call)
                return NULL;
            call->a = node;
            call->call = parse_call(p);
            node = call;
        } else {
            break;
        }
    }
    return p->status ? NULL : node;
}

/* ---- operators ------------------------------------------------------------------------------ */

static jinja_node *parse_unary(jinja_parser *p, bool with_filters)
{
    if (!weft__jinja_parser_enter(p))
        return NULL;
    jinja_node *node = NULL;
    if (weft__jinja_skip_sign(p, "-"))
        node = binary(p, NODE_UNARY, "-", parse_unary(p, false), NULL);
    else if (weft__jinja_skip_sign(p, "+"))
        node = binary(p, NODE_UNARY, "+", parse_unary(p, false), NULL);
    else
        node = parse_primary(p);
    node = parse_postfix(p, node);
    p->depth--;
    return with_filters ? parse_modifiers(p, node) : node;
}

static jinja_node *parse_power(jinja_parser *p)
{
    jinja_node *node = parse_unary(p, true);
    while (!p->status && weft__jinja_skip_sign(p, "**"))
        node = binary(p, NODE_BINARY, "**", node, parse_unary(p, true));
    return node;
}

static jinja_node *parse_product(jinja_parser *p)
{
    static const char *const signs[] = {"*", "/", "//", "%"};
    jinja_node *node = parse_power(p);
    for (size_t i = 0; i < 4 && !p->status; i++) {
        if (weft__jinja_skip_sign(p, signs[i])) {
            node = binary(p, NODE_BINARY, signs[i], node, parse_power(p));
            i = (size_t)-1; /* restarts the search with the first operator */
        }
    }
    return node;
}

static jinja_node *parse_join(jinja_parser *p)
{
    jinja_node *first = parse_product(p);
    if (p->status || !weft__jinja_at_sign(p, "~"))
        return first;
    jinja_node *node = weft__jinja_node(p, NODE_JOIN);
    if (!node)
        return NULL;
    weft__jinja_add(p, &node->list, first);
    while (!p->status && weft__jinja_skip_sign(p, "~"))
        weft__jinja_add(p, &node->list, parse_product(p));
    return node;
}

static jinja_node *parse_sum(jinja_parser *p)
{
    jinja_node *node = parse_join(p);
    while (!p->status && (weft__jinja_at_sign(p, "+") || weft__jinja_at_sign(p, "-"))) {
        const char *sign = weft__jinja_skip_sign(p, "+") ? "+" : "-";
        if (*sign == '-')
            p->at++;
        node = binary(p, NODE_BINARY, sign, node, parse_join(p));
    }
    return node;
}

/* The next token as a comparison operator, or NULL. */
static const char *comparison(jinja_parser *p)
{
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (weft__jinja_skip_sign(p, signs[i]))
            return signs[i];
    if (weft__jinja_skip_name(p, "in"))
        return "in";
    const jinja_token *next = &p->tokens[p->at];
    if (weft__jinja_at_name(p, "not") && next[1].kind == TOKEN_NAME && next[1].name &&
        strcmp(next[1].name, "in") == 0) {
        p->at += 2;
        return "not in";
    }
    return NULL;
}

static jinja_node *parse_compare(jinja_parser *p)
{
    jinja_node *first = parse_sum(p), *node = NULL;
    for (const char *sign = NULL; !p->status && (sign = comparison(p));) {
        if (!node) {
            node = weft__jinja_node(p, NODE_COMPARE);
            if (!node)
                return NULL;
            weft__jinja_add(p, &node->list, first);
        }
        const char **names = weft__jinja_parser_take(p, (node->n_names + 1) * sizeof *names);
        if (!names)
            return NULL;
        if (node->n_names > 0)
            memcpy(names, node->names, node->n_names * sizeof *names);
        names[node->n_names++] = sign;
        node->names = names;
        weft__jinja_add(p, &node->list, parse_sum(p));
    }
    return node ? node : first;
}

static jinja_node *parse_not(jinja_parser *p)
{
    if (!weft__jinja_skip_name(p, "not"))
        return parse_compare(p);
    if (!weft__jinja_parser_enter(p))
        return NULL;
    jinja_node *node = binary(p, NODE_NOT, "", parse_not(p), NULL);
    p->depth--;
    return node;
}

static jinja_node *parse_and(jinja_parser *p)
{
    jinja_node *node = parse_not(p);
    while (!p->status && weft__jinja_skip_name(p, "and"))
        node = binary(p, NODE_AND, "", node, parse_not(p));
    return node;
}

static jinja_node *parse_or(jinja_parser *p)
{
    jinja_node *node = parse_and(p);
    while (!p->status && weft__jinja_skip_name(p, "or"))
        node = binary(p, NODE_OR, "", node, parse_and(p));
    return node;
}

jinja_node *weft__jinja_expression(jinja_parser *p, bool choice)
{
    if (!weft__jinja_parser_enter(p))
        return NULL;
    jinja_node *node = parse_or(p);
    while (choice && !p->status && weft__jinja_skip_name(p, "if")) {
        jinja_node *wide = weft__jinja_node(p, NODE_CHOICE);
        if (!wide)
            break;
        wide->a = node;
        wide->b = parse_or(p);
        wide->c = weft__jinja_skip_name(p, "else") ? weft__jinja_expression(p, true) : NULL;
        node = wide;
    }
    p->depth--;
    return p->status ? NULL : node;
}
