/* tests/core/test_checks.c -- WEFT_CHECK_NAN and WEFT_TRAP, which are read once: each case runs in
 * its own process. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "core/graph.h"
#include "tests/check.h"
#include "tests/support/child.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static void say_status(weft_status status)
{
    fprintf(stderr, "%s: %s", weft_status_name(status),
            status == WEFT_OK ? "" : weft_error_message());
}

static void nan_in_a_module(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data((float[]){1, -2, 3}, WEFT_FLOAT32, WEFT_DIMS(3));
    weft__path_push("model");
    weft__path_push("layers.3");
    weft_array *y = weft_log(weft_exp(x));
    weft_array *bad = weft_sqrt(y);
    weft__path_pop();
    weft__path_pop();
    say_status(weft_eval(weft_add(bad, x)));
    weft_scope_close(NULL);
}

static void nan_in_the_input(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data((float[]){1, NAN}, WEFT_FLOAT32, WEFT_DIMS(2));
    weft_array *y = weft_matmul(weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32), x);
    say_status(weft_eval(y));
    weft_scope_close(NULL);
}

static bool infer_same(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static void expand_root(weft_array *node, weft_array **outs)
{
    outs[0] = weft_add_scalar(weft_sqrt(weft_node_input(node, 0)), 1);
}

static const weft_op op_root = {
    .name = "test_root",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .infer = infer_same,
    .expand = expand_root,
};

static void nan_inside_an_expansion(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data((float[]){-1, 4}, WEFT_FLOAT32, WEFT_DIMS(2));
    weft__path_push("head");
    weft_array *y = weft_apply(&op_root, &x, 1, NULL);
    weft__path_pop();
    say_status(weft_eval(y));
    weft_scope_close(NULL);
}

static weft_array *root_sum(void *context, weft_array *const *in, int n_in)
{
    (void)context;
    (void)n_in;
    weft__path_push("norm");
    weft_array *y = weft_sum(weft_sqrt(weft_multiply(in[0], in[0])), WEFT_ALL_AXES, false);
    weft__path_pop();
    return y;
}

static void nan_in_a_gradient(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data((float[]){0, 2}, WEFT_FLOAT32, WEFT_DIMS(2)), *grad;
    weft_array *y = weft_value_and_grad(root_sum, NULL, &x, 1, &grad);
    fprintf(stderr, "value %g; ", weft_item(y));
    say_status(weft_eval(grad)); /* 0 times infinity */
    weft_scope_close(NULL);
}

static void the_first_nan_is_named(void)
{
    char said[4096];
    CHECK_EQ_INT(in_child("WEFT_CHECK_NAN", "1", nan_in_a_module, said, sizeof said), 0);
    CHECK_CONTAINS(said, "invalid: model.layers.3: sqrt: first NaN: output 0, element 1");
    CHECK_EQ_INT(in_child("WEFT_CHECK_NAN", "1", nan_in_the_input, said, sizeof said), 0);
    CHECK_CONTAINS(said, "matmul: first NaN");
    CHECK_CONTAINS(said, "came in with input 1");
    CHECK_EQ_INT(in_child("WEFT_CHECK_NAN", "1", nan_inside_an_expansion, said, sizeof said), 0);
    CHECK_CONTAINS(said, "head: sqrt: first NaN: output 0, element 0");
    CHECK_EQ_INT(in_child("WEFT_CHECK_NAN", "1", nan_in_a_gradient, said, sizeof said), 0);
    CHECK_CONTAINS(said, "value 2; invalid: norm: multiply: first NaN");
}

static void without_the_switch_nans_pass(void)
{
    char said[4096];
    CHECK_EQ_INT(in_child("WEFT_CHECK_NAN", "0", nan_in_a_module, said, sizeof said), 0);
    CHECK_STR(said, "ok: ");
    CHECK_EQ_INT(in_child("WEFT_CHECK_NAN", "", nan_in_a_module, said, sizeof said), 0);
    CHECK_STR(said, "ok: ");
}

static void add_shapes_that_differ(void)
{
    weft_scope_open();
    weft__path_push("block");
    weft_array *y =
        weft_add(weft_ones(WEFT_DIMS(2), WEFT_FLOAT32), weft_ones(WEFT_DIMS(3), WEFT_FLOAT32));
    weft__path_pop();
    fprintf(stderr, "went on: %s", weft_error(y));
    weft_scope_close(NULL);
}

static void the_trap_stops_at_the_first_error(void)
{
    char said[4096];
    int status = in_child("WEFT_TRAP", "1", add_shapes_that_differ, said, sizeof said);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_CONTAINS(said, "WEFT_TRAP: block: add: shapes do not broadcast: (2,) and (3,)");
    CHECK_EQ_INT(in_child("WEFT_TRAP", "0", add_shapes_that_differ, said, sizeof said), 0);
    CHECK_CONTAINS(said, "went on: block: add: shapes do not broadcast");
}

CHECK_MAIN("checks", CHECK_CASE(the_first_nan_is_named), CHECK_CASE(without_the_switch_nans_pass),
           CHECK_CASE(the_trap_stops_at_the_first_error))
