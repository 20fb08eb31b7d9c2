/* tests/compile/test_explain.c -- descriptions of compiled functions, and drawings of graphs. */
#include "tests/check.h"
#include "weft/compile.h"
#include "weft/ops.h"

static weft_array *row(int64_t n, double first)
{
    return weft_add_scalar(weft_arange(0, (double)n, 1, WEFT_FLOAT32), first);
}

typedef struct scene {
    weft_array *w, *v;
} scene;

/* out = sum(x * v); w -> w + x; v is only read */
static int accumulate(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    out[0] = weft_sum(weft_multiply(in[0], s->v), WEFT_ALL_AXES, false);
    CHECK_OK(weft_set(&s->w, weft_add(s->w, in[0])));
    return 1;
}

static void the_explanation_says_what_and_why(void)
{
    scene s = {0};
    weft_compiled *c;
    const char *names[] = {"model.w"};
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(512, 0)));
    CHECK_OK(weft_set(&s.v, row(512, 1)));
    weft_array **state[] = {&s.w}, *out;
    CHECK_OK(weft_compile(accumulate, &s, state, 1,
                          &(weft_compile_options){.name = "step", .state_names = names}, &c));
    weft_array *x = row(512, 0);
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_OK(weft_set(&s.w, row(517, 0)));
    CHECK_OK(weft_set(&s.v, row(517, 1)));
    x = row(517, 0);
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    char *text = weft_compile_explain(c);
    CHECK_CONTAINS(text, "step: 2 calls, 0 inlined in transforms; 0 hits, 2 compiles");
    CHECK_CONTAINS(text, "compiled again: input 0 dim 0: 512 -> 517");
    CHECK_CONTAINS(text, "state 0 (model.w): float32 (517,), replaced");
    CHECK_CONTAINS(text, "captured constants: 1 (2068 bytes)\n    float32 (517,)");
    CHECK_CONTAINS(text, "1 inputs overwritten");
    weft_free(text);
    weft_compiled_free(c);
    weft_drop(s.w);
    weft_drop(s.v);
    weft_scope_close(NULL);
}

static void a_graph_is_drawn(void)
{
    char *text;
    weft_scope_open();
    weft_array *x = row(4, 0);
    CHECK_OK(weft_eval(x));
    weft_array *y[] = {weft_sum(weft_square(x), WEFT_ALL_AXES, false), x};
    CHECK_OK(weft_graph_dot(y, 2, NULL, &text));
    CHECK_CONTAINS(text, "digraph weft {");
    CHECK_CONTAINS(text, "[label=\"square\\nfloat32 (4,)\"]");
    CHECK_CONTAINS(text, "[shape=box, label=\"array\\nfloat32 (4,)\"]");
    CHECK_CONTAINS(text, "-> out1;");
    weft_free(text);
    CHECK_STATUS(weft_graph_dot(y, 2, "/nowhere/at/all.dot", NULL), WEFT_IO);
    y[0] = weft_error_array("no array");
    CHECK_STATUS(weft_graph_dot(y, 1, NULL, &text), WEFT_INVALID);
    weft_scope_close(NULL);
}

CHECK_MAIN("explain", CHECK_CASE(the_explanation_says_what_and_why), CHECK_CASE(a_graph_is_drawn))
