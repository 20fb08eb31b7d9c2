/* text/jinja/parser.c -- parses statements; also the parser's shared functions. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/jinja/jinja.h"
#include "text/jinja/node.h"
#include "weft/memory.h"

enum { PARSER_MAX_DEPTH = 150, PARSER_MAX_BYTES = 256 << 20, PARSER_MAX_NAMES = 4096 };

/* ---- shared --------------------------------------------------------------------------------- */

void *weft__jinja_parser_take(jinja_parser *p, size_t size)
{
    if (p->status)
        return NULL;
    void *piece = weft__arena_take_zeroed(&p->template->arena, size);
    if (!piece)
        p->status = weft__out_of_memory(p->template->name, "the template");
    return piece;
}

static void fail_as(jinja_parser *p, weft_status status, int line, const char *format, va_list list)
{
    if (p->status)
        return;
    char message[256];
    vsnprintf(message, sizeof message, format, list);
    p->status = weft_fail(status, "%s: line %d: %s", p->template->name, line, message);
}

jinja_node *weft__jinja_parse_fail(jinja_parser *p, int line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail_as(p, WEFT_INVALID, line, format, list);
    va_end(list);
    return NULL;
}

static void unsupported(jinja_parser *p, int line, const char *format, ...) WEFT_PRINTF(3, 4);

static void unsupported(jinja_parser *p, int line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail_as(p, WEFT_UNSUPPORTED, line, format, list);
    va_end(list);
}

const char *weft__jinja_intern(jinja_parser *p, const char *text, size_t n)
{
    jinja_template *t = p->template;
    for (size_t i = 0; i < t->n_names; i++)
        if (strncmp(t->names[i], text, n) == 0 && t->names[i][n] == '\0')
            return t->names[i];
    if (t->n_names >= PARSER_MAX_NAMES) {
        weft__jinja_parse_fail(p, 1, "more than %d different names", PARSER_MAX_NAMES);
        return NULL;
    }
    if (t->n_names == t->names_capacity) {
        const size_t capacity = t->names_capacity ? 2 * t->names_capacity : 64;
        const char **larger = weft__jinja_parser_take(p, capacity * sizeof *larger);
        if (!larger)
            return NULL;
        if (t->n_names > 0)
            memcpy(larger, t->names, t->n_names * sizeof *larger);
        t->names = larger;
        t->names_capacity = capacity;
    }
    char *name = weft__jinja_parser_take(p, n + 1);
    if (!name)
        return NULL;
    memcpy(name, text, n);
    return t->names[t->n_names++] = name;
}

const jinja_token *weft__jinja_peek(const jinja_parser *p)
{
    return &p->tokens[p->at < p->n_tokens ? p->at : p->n_tokens - 1];
}

bool weft__jinja_at_sign(const jinja_parser *p, const char *sign)
{
    const jinja_token *token = weft__jinja_peek(p);
    return token->kind == TOKEN_SIGN && strcmp(token->text, sign) == 0;
}

bool weft__jinja_at_name(const jinja_parser *p, const char *name)
{
    const jinja_token *token = weft__jinja_peek(p);
    return token->kind == TOKEN_NAME && strcmp(token->name, name) == 0;
}

bool weft__jinja_skip_sign(jinja_parser *p, const char *sign)
{
    const bool there = weft__jinja_at_sign(p, sign);
    p->at += there;
    return there;
}

bool weft__jinja_skip_name(jinja_parser *p, const char *name)
{
    const bool there = weft__jinja_at_name(p, name);
    p->at += there;
    return there;
}

void weft__jinja_unexpected(jinja_parser *p, const char *expected)
{
    const jinja_token *token = weft__jinja_peek(p);
    const char *got = token->kind == TOKEN_NAME          ? token->name
                      : token->kind == TOKEN_SIGN        ? token->text
                      : token->kind == TOKEN_BLOCK_END   ? "%}"
                      : token->kind == TOKEN_PRINT_END   ? "}}"
                      : token->kind == TOKEN_BLOCK_BEGIN ? "{%"
                      : token->kind == TOKEN_PRINT_BEGIN ? "{{"
                      : token->kind == TOKEN_END         ? "the end of the template"
                      : token->kind == TOKEN_STRING      ? "a string"
                      : token->kind == TOKEN_NUMBER      ? "a number"
                                                         : "text";
    weft__jinja_parse_fail(p, token->line, "expected %s, got %s", expected, got);
}

void weft__jinja_expect_sign(jinja_parser *p, const char *sign)
{
    char expected[8];
    snprintf(expected, sizeof expected, "\"%s\"", sign);
    if (!p->status && !weft__jinja_skip_sign(p, sign))
        weft__jinja_unexpected(p, expected);
}

const char *weft__jinja_expect_name(jinja_parser *p)
{
    const jinja_token *token = weft__jinja_peek(p);
    if (p->status || token->kind != TOKEN_NAME) {
        weft__jinja_unexpected(p, "a name");
        return NULL;
    }
    p->at++;
    return token->name;
}

jinja_node *weft__jinja_node(jinja_parser *p, jinja_node_kind kind)
{
    jinja_node *node = weft__jinja_parser_take(p, sizeof *node);
    if (node) {
        node->kind = kind;
        node->line = weft__jinja_peek(p)->line;
    }
    return node;
}

void weft__jinja_add(jinja_parser *p, jinja_nodes *list, jinja_node *node)
{
    if (p->status || !node)
        return;
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 4;
        jinja_node **larger = weft__jinja_parser_take(p, capacity * sizeof *larger);
        if (!larger)
            return;
        if (list->n > 0)
            memcpy(larger, list->at, list->n * sizeof *larger);
        list->at = larger;
        list->capacity = capacity;
    }
    list->at[list->n++] = node;
}

bool weft__jinja_parser_enter(jinja_parser *p)
{
    if (p->status)
        return false;
    if (p->depth >= PARSER_MAX_DEPTH) {
        weft__jinja_parse_fail(p, weft__jinja_peek(p)->line, "nested deeper than %d levels",
                               PARSER_MAX_DEPTH);
        return false;
    }
    p->depth++;
    return true;
}

/* ---- statements ----------------------------------------------------------------------------- */

static jinja_node *parse_body(jinja_parser *p, const char *const ends[]);

static void expect_block_end(jinja_parser *p)
{
    if (!p->status && weft__jinja_peek(p)->kind != TOKEN_BLOCK_END)
        weft__jinja_unexpected(p, "%}");
    p->at++;
}

/* Parses statements up to the tag named `end`, and skips that tag. */
static jinja_node *parse_until(jinja_parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    jinja_node *body = parse_body(p, ends);
    p->at++;
    expect_block_end(p);
    return body;
}

static jinja_node *parse_if(jinja_parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node *node = weft__jinja_node(p, NODE_IF);
    while (node && !p->status) {
        weft__jinja_add(p, &node->list, weft__jinja_tuple(p, false, NULL));
        expect_block_end(p);
        weft__jinja_add(p, &node->list, parse_body(p, ends));
        if (weft__jinja_skip_name(p, "elif"))
            continue;
        if (weft__jinja_skip_name(p, "else")) {
            expect_block_end(p);
            node->c = parse_until(p, "endif");
        } else {
            p->at++;
            expect_block_end(p);
        }
        break;
    }
    return node;
}

static jinja_node *parse_for(jinja_parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    jinja_node *node = weft__jinja_node(p, NODE_FOR);
    if (!node)
        return NULL;
    node->names = weft__jinja_parser_take(p, sizeof *node->names);
    if (node->names)
        node->names[0] = weft__jinja_intern(p, "loop", 4);
    node->a = weft__jinja_target(p, false);
    if (!p->status && !weft__jinja_skip_name(p, "in"))
        weft__jinja_unexpected(p, "\"in\"");
    node->b = weft__jinja_tuple(p, false, "recursive");
    if (weft__jinja_skip_name(p, "if"))
        node->c = weft__jinja_expression(p, true);
    node->recursive = weft__jinja_skip_name(p, "recursive");
    expect_block_end(p);
    p->loops++;
    weft__jinja_add(p, &node->list, parse_body(p, ends));
    p->loops--;
    if (weft__jinja_skip_name(p, "else")) {
        expect_block_end(p);
        weft__jinja_add(p, &node->list, parse_until(p, "endfor"));
    } else {
        p->at++;
        expect_block_end(p);
    }
    return node;
}

static jinja_node *parse_set(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_SET);
    if (!node)
        return NULL;
    node->a = weft__jinja_target(p, true);
    if (weft__jinja_skip_sign(p, "=")) {
        node->b = weft__jinja_tuple(p, true, NULL);
        expect_block_end(p);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    if (!p->status && weft__jinja_skip_sign(p, "|"))
        node->b = weft__jinja_filters(p, NULL);
    expect_block_end(p);
    weft__jinja_add(p, &node->list, parse_until(p, "endset"));
    return node;
}

static jinja_node *parse_with(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_WITH);
    while (node && !p->status && weft__jinja_peek(p)->kind != TOKEN_BLOCK_END) {
        if (node->list.n > 0)
            weft__jinja_expect_sign(p, ",");
        weft__jinja_add(p, &node->list, weft__jinja_target(p, false));
        weft__jinja_expect_sign(p, "=");
        weft__jinja_add(p, &node->list, weft__jinja_expression(p, true));
    }
    expect_block_end(p);
    jinja_node *body = parse_until(p, "endwith");
    if (node)
        node->a = body;
    return node;
}

/* Parses (a, b=1): the parameters, and the defaults of the last ones. */
static void parse_parameters(jinja_parser *p, jinja_node *macro)
{
    weft__jinja_expect_sign(p, "(");
    while (!p->status && !weft__jinja_at_sign(p, ")")) {
        if (macro->n_names > 0)
            weft__jinja_expect_sign(p, ",");
        const char **names = weft__jinja_parser_take(p, (macro->n_names + 1) * sizeof *names);
        const char *name = weft__jinja_expect_name(p);
        if (!names || !name)
            return;
        if (macro->n_names > 0)
            memcpy(names, macro->names, macro->n_names * sizeof *names);
        names[macro->n_names++] = name;
        macro->names = names;
        if (weft__jinja_skip_sign(p, "="))
            weft__jinja_add(p, &macro->list, weft__jinja_expression(p, true));
        else if (macro->list.n > 0)
            weft__jinja_unexpected(p, "a default, as the parameter before has one");
    }
    weft__jinja_expect_sign(p, ")");
}

/* Parses a macro's body and records which of varargs, kwargs and caller it uses. */
static void parse_macro_body(jinja_parser *p, jinja_node *macro, const char *end)
{
    const bool varargs = p->varargs, kwargs = p->kwargs, caller = p->caller;
    const int loops = p->loops;
    p->varargs = p->kwargs = p->caller = false;
    p->loops = 0;
    static const char *const given[] = {"varargs", "kwargs", "caller"};
    const char **names = weft__jinja_parser_take(p, (macro->n_names + 3) * sizeof *names);
    for (size_t i = 0; names && i < macro->n_names; i++)
        names[i] = macro->names[i];
    for (size_t i = 0; names && i < 3; i++)
        names[macro->n_names + i] = weft__jinja_intern(p, given[i], strlen(given[i]));
    macro->names = names;
    macro->a = parse_until(p, end);
    macro->wants_varargs = p->varargs;
    macro->wants_kwargs = p->kwargs;
    macro->wants_caller = p->caller;
    p->varargs = p->varargs || varargs; /* a macro within this one counts too */
    p->kwargs = p->kwargs || kwargs;
    p->caller = p->caller || caller;
    p->loops = loops;
}

static jinja_node *parse_macro(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_MACRO);
    if (!node)
        return NULL;
    node->name = weft__jinja_expect_name(p);
    parse_parameters(p, node);
    expect_block_end(p);
    parse_macro_body(p, node, "endmacro");
    return node;
}

static jinja_node *parse_call_block(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_CALL_BLOCK);
    jinja_node *macro = weft__jinja_node(p, NODE_MACRO);
    if (!macro || !node)
        return NULL;
    macro->name = weft__jinja_intern(p, "caller", 6);
    if (weft__jinja_at_sign(p, "("))
        parse_parameters(p, macro);
    node->a = weft__jinja_expression(p, true);
    if (!p->status && node->a->kind != NODE_CALL)
        weft__jinja_parse_fail(p, node->line, "expected a call");
    expect_block_end(p);
    parse_macro_body(p, macro, "endcall");
    node->b = macro;
    return node;
}

static jinja_node *parse_filter_block(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_FILTER_BLOCK);
    if (!node)
        return NULL;
    node->a = weft__jinja_filters(p, NULL);
    expect_block_end(p);
    node->b = parse_until(p, "endfilter");
    return node;
}

/* Parses a body with its own variables, which cannot see the loops around it, up to the tag `end`,
 * which may repeat `name`. */
static jinja_node *parse_scope(jinja_parser *p, const char *end, const char *name)
{
    const char *const ends[] = {end, NULL};
    jinja_node *node = weft__jinja_node(p, NODE_SCOPE);
    const int loops = p->loops;
    p->loops = 0;
    expect_block_end(p);
    jinja_node *body = parse_body(p, ends);
    p->at++;
    if (name && !p->status)
        weft__jinja_skip_name(p, name);
    expect_block_end(p);
    p->loops = loops;
    if (node) {
        node->a = body;
        node->generated = strcmp(end, "endgeneration") == 0;
    }
    return node;
}

/* {% print a, b %} */
static jinja_node *parse_print_tag(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_PRINT), *join = weft__jinja_node(p, NODE_JOIN);
    while (join && !p->status && weft__jinja_peek(p)->kind != TOKEN_BLOCK_END) {
        if (join->list.n > 0)
            weft__jinja_expect_sign(p, ",");
        weft__jinja_add(p, &join->list, weft__jinja_expression(p, true));
    }
    expect_block_end(p);
    if (node)
        node->a = join;
    return node;
}

/* {% block name scoped %}: rendered in its place, since a chat template extends no other one. */
static jinja_node *parse_block(jinja_parser *p)
{
    const char *name = weft__jinja_expect_name(p);
    const bool scoped = weft__jinja_skip_name(p, "scoped");
    jinja_node *node = parse_scope(p, "endblock", name);
    if (node)
        node->outermost = !scoped;
    return node;
}

/* {% autoescape false %}, which is how chat templates are rendered anyway. */
static jinja_node *parse_autoescape(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_SCOPE);
    const jinja_node *value = weft__jinja_expression(p, true);
    if (!node || !value)
        return NULL;
    if (value->kind != NODE_CONSTANT || value->value.kind != JINJA_BOOL || value->value.as.b)
        unsupported(p, node->line, "autoescape is supported with false only");
    expect_block_end(p);
    node->a = parse_until(p, "endautoescape");
    return node;
}

static jinja_node *parse_jump(jinja_parser *p, jinja_node_kind kind, const char *name)
{
    jinja_node *node = weft__jinja_node(p, kind);
    if (node && p->loops == 0)
        weft__jinja_parse_fail(p, node->line, "%s outside of a loop", name);
    expect_block_end(p);
    return node;
}

static jinja_node *parse_statement(jinja_parser *p)
{
    const int line = weft__jinja_peek(p)->line;
    const char *name = weft__jinja_expect_name(p);
    if (!name)
        return NULL;
    if (strcmp(name, "if") == 0)
        return parse_if(p);
    if (strcmp(name, "for") == 0)
        return parse_for(p);
    if (strcmp(name, "set") == 0)
        return parse_set(p);
    if (strcmp(name, "macro") == 0)
        return parse_macro(p);
    if (strcmp(name, "call") == 0)
        return parse_call_block(p);
    if (strcmp(name, "filter") == 0)
        return parse_filter_block(p);
    if (strcmp(name, "with") == 0)
        return parse_with(p);
    if (strcmp(name, "generation") == 0)
        return parse_scope(p, "endgeneration", NULL);
    if (strcmp(name, "break") == 0)
        return parse_jump(p, NODE_BREAK, name);
    if (strcmp(name, "continue") == 0)
        return parse_jump(p, NODE_CONTINUE, name);
    if (strcmp(name, "print") == 0)
        return parse_print_tag(p);
    if (strcmp(name, "block") == 0)
        return parse_block(p);
    if (strcmp(name, "autoescape") == 0)
        return parse_autoescape(p);
    unsupported(p, line, "the tag \"%.100s\" is unsupported, or has nothing to end here", name);
    return NULL;
}

static bool ends_here(const jinja_parser *p, const char *const ends[])
{
    for (size_t i = 0; ends && ends[i]; i++)
        if (weft__jinja_at_name(p, ends[i]))
            return true;
    return false;
}

static jinja_node *parse_print(jinja_parser *p)
{
    jinja_node *node = weft__jinja_node(p, NODE_PRINT);
    if (!node)
        return NULL;
    node->a = weft__jinja_tuple(p, true, NULL);
    if (!p->status && weft__jinja_peek(p)->kind != TOKEN_PRINT_END)
        weft__jinja_unexpected(p, "}}");
    p->at++;
    return node;
}

/* Parses statements up to {% with one of `ends`, which is then next; NULL: up to the end of the
 * template. */
static jinja_node *parse_body(jinja_parser *p, const char *const ends[])
{
    jinja_node *block = weft__jinja_node(p, NODE_BLOCK);
    if (!block || !weft__jinja_parser_enter(p))
        return NULL;
    while (!p->status) {
        const jinja_token *token = weft__jinja_peek(p);
        jinja_node *node = NULL;
        if (token->kind == TOKEN_END) {
            if (ends)
                weft__jinja_parse_fail(p, block->line, "a block has no end: expected \"%s\"",
                                       weft_printable(ends[ends[1] ? ends[2] ? 2 : 1 : 0]));
            break;
        }
        p->at++;
        if (token->kind == TOKEN_DATA) {
            node = weft__jinja_node(p, NODE_TEXT);
            if (node)
                node->value = token->value;
        } else if (token->kind == TOKEN_PRINT_BEGIN) {
            node = parse_print(p);
        } else if (ends_here(p, ends)) {
            break;
        } else {
            node = parse_statement(p);
        }
        weft__jinja_add(p, &block->list, node);
    }
    p->depth--;
    return block;
}

/* ---- entry ---------------------------------------------------------------------------------- */

/* The source with \n as line ends and without the last one. */
static const char *normalized(jinja_parser *p, const char *source, size_t length, size_t *n)
{
    char *text = weft__jinja_parser_take(p, length + 1);
    *n = 0;
    for (size_t i = 0; i < length && text; i++) {
        if (source[i] == '\r') {
            text[(*n)++] = '\n';
            i += i + 1 < length && source[i + 1] == '\n';
        } else {
            text[(*n)++] = source[i];
        }
    }
    if (text && *n > 0 && text[*n - 1] == '\n')
        --*n;
    return text;
}

weft_status weft__jinja_parse(const char *source, size_t length, const char *name,
                              jinja_template **out)
{
    *out = NULL;
    const size_t valid = weft__utf8_valid(source, length);
    if (valid < length)
        return weft_fail(WEFT_INVALID, "%s: expected UTF-8, byte %zu is not", name, valid);
    jinja_template *t = weft_calloc(1, sizeof *t);
    char *copy = weft_strdup(name);
    if (!t || !copy) {
        weft_free(t);
        weft_free(copy);
        return weft__out_of_memory(name, "the template");
    }
    t->name = copy;
    t->arena.limit = PARSER_MAX_BYTES;
    jinja_parser p = {.template = t};
    p.source = normalized(&p, source, length, &p.length);
    if (!p.status && !weft__jinja_lex(&p))
        t->root = parse_body(&p, NULL);
    if (p.status)
        weft__jinja_free(t);
    else
        *out = t;
    return p.status;
}

void weft__jinja_free(jinja_template *template)
{
    if (!template)
        return;
    weft__arena_release(&template->arena);
    weft_free(template->name);
    weft_free(template);
}
