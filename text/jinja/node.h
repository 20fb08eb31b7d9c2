/* text/jinja/node.h -- the syntax tree of a parsed template, and the functions shared by parser and
 * interpreter. */
#ifndef WEFT_TEXT_JINJA_NODE_H
#define WEFT_TEXT_JINJA_NODE_H

#include "text/jinja/value.h"

typedef enum jinja_token_kind {
    TOKEN_END,
    TOKEN_DATA,        /* text between tags */
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_SIGN /* operator or bracket; its characters are in `text` */
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    char text[3];      /* SIGN */
    const char *name;  /* NAME: interned, so equal names have the same pointer */
    jinja_value value; /* DATA, STRING, NUMBER */
} jinja_token;

typedef enum jinja_node_kind {
    /* expressions */
    NODE_CONSTANT, /* value */
    NODE_NAME,     /* name */
    NODE_LIST,     /* list; `form` distinguishes tuples */
    NODE_DICT,     /* list: key, value, key, value */
    NODE_MEMBER,   /* a.name */
    NODE_ITEM,     /* a[b] */
    NODE_SLICE,    /* a[list[0]:list[1]:list[2]], NULL where absent */
    NODE_CALL,     /* a(call) */
    NODE_FILTER,   /* a|name(call); a is NULL within {% filter %} and {% set x | f %} */
    NODE_TEST,     /* a is name(call) */
    NODE_CHOICE,   /* a if b else c; c may be NULL */
    NODE_NOT,      /* a */
    NODE_AND,      /* a, b */
    NODE_OR,
    NODE_COMPARE, /* list: first, second ...; signs between them in `signs` */
    NODE_JOIN,    /* list, joined by ~ */
    NODE_BINARY,  /* a sign b */
    NODE_UNARY,   /* sign a */
    /* statements */
    NODE_TEXT,         /* value */
    NODE_PRINT,        /* a */
    NODE_IF,           /* list: condition, body, condition, body ...; c: else */
    NODE_FOR,          /* for a in b if condition c: list[0], else list[1] */
    NODE_SET,          /* a = b */
    NODE_SET_BLOCK,    /* a = list[0], through the filters b */
    NODE_BLOCK,        /* list of statements */
    NODE_WITH,         /* list: target, value ...; a: body */
    NODE_MACRO,        /* name, list: defaults of its last parameters; a: body; names: parameters */
    NODE_CALL_BLOCK,   /* a: the call; b: the macro that is caller() */
    NODE_FILTER_BLOCK, /* a: the filters; b: body */
    NODE_SCOPE,        /* a: a body with its own variables */
    NODE_BREAK,
    NODE_CONTINUE
} jinja_node_kind;

typedef struct jinja_node jinja_node;

typedef struct jinja_nodes {
    jinja_node **at;
    size_t n, capacity;
} jinja_nodes;

typedef struct jinja_call {
    jinja_nodes arguments, named;
    const char **names; /* of `named` */
    jinja_node *star, *star_star;
} jinja_call;

struct jinja_node {
    jinja_node_kind kind;
    int line;
    char sign[4]; /* BINARY, UNARY: "+", "//", ... */
    const char *name;
    jinja_value value;
    jinja_node *a, *b, *c;
    jinja_nodes list;
    /* COMPARE: the operators, including "in" and "not in". MACRO: n_names parameters, then
     * "varargs", "kwargs", "caller". FOR: "loop". */
    const char **names;
    size_t n_names;
    bool wants_varargs, wants_kwargs, wants_caller; /* MACRO: whether its body uses these names */
    bool recursive;                                 /* FOR */
    bool generated;                                 /* SCOPE: a generation block */
    bool outermost; /* SCOPE: has no access to the variables of loops and macros around it */
    jinja_form form;
    jinja_call *call;
};

typedef struct jinja_template {
    weft__arena arena;
    char *name;
    jinja_node *root;
    const char **names; /* all names in the template, without duplicates */
    size_t n_names, names_capacity;
} jinja_template;

/* State of the parser. */
typedef struct jinja_parser {
    jinja_template *template;
    const char *source; /* valid UTF-8 with \n as line ends */
    size_t length;
    jinja_token *tokens;
    size_t n_tokens, capacity;
    size_t at; /* index of the next token */
    int depth, loops;
    bool varargs, kwargs, caller; /* names seen since the macro began */
    weft_status status;
} jinja_parser;

/* Memory of the template; NULL after a failure, and in all later calls. */
void *weft__jinja_parser_take(jinja_parser *p, size_t size);
jinja_node *weft__jinja_parse_fail(jinja_parser *p, int line, const char *format, ...)
    WEFT_PRINTF(3, 4);
/* The interned copy of a name; NULL after a failure. */
const char *weft__jinja_intern(jinja_parser *p, const char *text, size_t n);

/* Splits the source into tokens and removes white space around tags as requested. */
weft_status weft__jinja_lex(jinja_parser *p);

/* ---- between the parser's two files ---------------------------------------------------------- */

const jinja_token *weft__jinja_peek(const jinja_parser *p);
bool weft__jinja_at_sign(const jinja_parser *p, const char *sign);
bool weft__jinja_at_name(const jinja_parser *p, const char *name);
/* Skips the sign or name if it is next. */
bool weft__jinja_skip_sign(jinja_parser *p, const char *sign);
bool weft__jinja_skip_name(jinja_parser *p, const char *name);
void weft__jinja_expect_sign(jinja_parser *p, const char *sign);
const char *weft__jinja_expect_name(jinja_parser *p);
void weft__jinja_unexpected(jinja_parser *p, const char *expected);

jinja_node *weft__jinja_node(jinja_parser *p, jinja_node_kind kind);
void weft__jinja_add(jinja_parser *p, jinja_nodes *list, jinja_node *node);
bool weft__jinja_parser_enter(jinja_parser *p);

jinja_node *weft__jinja_expression(jinja_parser *p, bool choice);
/* Parses an expression, or a tuple without parentheses, up to a tag's end or the name `end`. */
jinja_node *weft__jinja_tuple(jinja_parser *p, bool choice, const char *end);
/* Parses an assignment target: a name, name.attribute, or names separated by commas. */
jinja_node *weft__jinja_target(jinja_parser *p, bool members);
/* Parses |filter|filter after `a` (NULL: the contents of the block). */
jinja_node *weft__jinja_filters(jinja_parser *p, jinja_node *a);

/* ---- running -------------------------------------------------------------------------------- */

typedef struct jinja_variable {
    const char *name;
    jinja_value value;
} jinja_variable;

typedef struct jinja_frame {
    struct jinja_frame *parent;
    jinja_variable *at;
    size_t n, capacity;
} jinja_frame;

typedef struct jinja_loop {
    const jinja_list *items;
    size_t index, n;
    int depth;
    jinja_value changed; /* the previous argument of loop.changed(); JINJA_MISSING: none */
    const jinja_node *node;
    jinja_frame *frame; /* the one around the loop */
} jinja_loop;

typedef struct jinja_macro {
    const jinja_node *node;
    jinja_frame *frame; /* frame in which it was defined */
} jinja_macro;

void weft__jinja_assign(jinja *j, const char *name, jinja_value value);
jinja_value weft__jinja_evaluate(jinja *j, const jinja_node *node);
jinja_value weft__jinja_call(jinja *j, jinja_value callee, const jinja_args *args);
jinja_value weft__jinja_call_macro(jinja *j, const jinja_macro *macro, const jinja_args *args,
                                   const jinja_value *caller);
jinja_value weft__jinja_call_loop(jinja *j, const jinja_loop *loop, const jinja_args *args);
/* Evaluates the arguments of a call; NULL: no arguments. */
jinja_args weft__jinja_evaluate_arguments(jinja *j, const jinja_call *call);
/* Applies the filters of {% filter %} or {% set x | f %} to a value. */
jinja_value weft__jinja_run_filters(jinja *j, const jinja_node *filters, jinja_value value);
void weft__jinja_run(jinja *j, const jinja_node *body);

/* ---- operations on values -------------------------------------------------------------------- */

jinja_value weft__jinja_binary(jinja *j, const char *sign, jinja_value a, jinja_value b);
jinja_value weft__jinja_unary(jinja *j, char sign, jinja_value a);
bool weft__jinja_compare(jinja *j, const char *sign, jinja_value a, jinja_value b);
bool weft__jinja_contains(jinja *j, jinja_value box, jinja_value item);
/* a.name and a[key] by Jinja's lookup rules; undefined if absent. */
jinja_value weft__jinja_member(jinja *j, jinja_value a, jinja_value name);
jinja_value weft__jinja_item(jinja *j, jinja_value a, jinja_value key);
/* a[from:to:step]; JINJA_NONE for absent bounds. */
jinja_value weft__jinja_slice(jinja *j, jinja_value a, jinja_value from, jinja_value to,
                              jinja_value step);

jinja_value weft__jinja_filter(jinja *j, const char *name, jinja_value value,
                               const jinja_args *args);
bool weft__jinja_test(jinja *j, const char *name, jinja_value value, const jinja_args *args);
bool weft__jinja_has_filter(jinja_value name);
bool weft__jinja_has_test(jinja_value name);
/* A method of a value; undefined if it does not exist. */
jinja_value weft__jinja_method(jinja *j, jinja_value self, jinja_value name);
/* A global function; undefined if it does not exist. */
jinja_value weft__jinja_global(jinja *j, const char *name);

#endif
