/* tests/compile/test_trace.c -- converting graphs into traces and traces into graphs. */
#include "core/compile/trace.h"
#include "tests/check.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *three(double a, double b, double c)
{
    double v[] = {a, b, c};
    return weft_from_data(v, WEFT_FLOAT64, WEFT_DIMS(3));
}

static void check3(weft_array *a, double x, double y, double z)
{
    double got[3] = {0};
    CHECK_OK(weft_read(a, WEFT_FLOAT64, got, 3));
    CHECK_CLOSE(got[0], x, 0);
    CHECK_CLOSE(got[1], y, 0);
    CHECK_CLOSE(got[2], z, 0);
}

/* Placeholders, so that nothing of the traced graph is ever computed. */
static void stand_ins(weft_array **out, int n)
{
    weft_spec spec = {.dtype = WEFT_FLOAT64, .shape = WEFT_DIMS(3)};
    for (int i = 0; i < n; i++) {
        out[i] = weft__placeholder(&spec, weft_default_device(), i);
    }
}

static void a_trace_computes_what_the_graph_does(void)
{
    weft__trace t;
    weft_array *captured = weft_keep(three(10, 20, 30));
    weft_scope_open();
    weft_array *in[2], *out[3];
    stand_ins(in, 2);
    out[0] = weft_add(weft_multiply(in[0], in[1]), captured);
    out[1] = in[1];
    out[2] = weft_sum(out[0], WEFT_ALL_AXES, false);
    CHECK_OK(weft__trace_make(&t, in, 2, out, 3, 0));
    weft_scope_close(NULL);
    CHECK_EQ_INT(t.n_arguments, 2);
    CHECK_EQ_INT(t.n_constants, 1);
    CHECK_EQ_INT(t.n_nodes, 3);
    CHECK(t.constants[0] == captured);
    CHECK_EQ_INT(t.outputs[1].kind, WEFT__ARGUMENT);
    CHECK_EQ_INT(t.nodes[2].inputs[0].index, 1);
    for (int k = 0; k < 2; k++) {
        weft_scope_open();
        weft_array *args[] = {three(1, 2, 3 + k), three(4, 5, 6)}, *got[3];
        CHECK_OK(weft__trace_apply(&t, args, got));
        check3(got[0], 14, 30, 48 + 6 * k);
        CHECK(got[1] == args[1]);
        CHECK_CLOSE(weft_item(got[2]), 92 + 6 * k, 0);
        weft_scope_close(NULL);
    }
    weft__trace_free(&t);
    weft_drop(captured);
}

static weft_array *loss(void *context, weft_array *const *in, int n_in)
{
    (void)context;
    (void)n_in;
    return weft_sum(weft_square(weft_rms_norm(in[0], in[1], 1e-5, 0)), WEFT_ALL_AXES, false);
}

static void gradients_and_several_outputs_are_traced(void)
{
    weft__trace t;
    double traced[2][3], plain[2][3];
    weft_scope_open();
    weft_array *in[2], *grads[2], *got[2];
    stand_ins(in, 2);
    weft_value_and_grad(loss, NULL, in, 2, grads);
    CHECK_OK(weft__trace_make(&t, in, 2, grads, 2, 0));
    weft_array *args[] = {three(0.5, -1, 2), three(1, 2, 3)};
    CHECK_OK(weft__trace_apply(&t, args, got));
    weft_value_and_grad(loss, NULL, args, 2, grads);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_read(got[i], WEFT_FLOAT64, traced[i], 3));
        CHECK_OK(weft_read(grads[i], WEFT_FLOAT64, plain[i], 3));
    }
    CHECK_BYTES(traced, plain, sizeof plain);
    CHECK(plain[1][2] != 0);
    weft_scope_close(NULL);
    weft__trace_free(&t);
}

static void arrays_made_before_the_trace_are_constants(void)
{
    weft__trace t;
    weft_scope_open();
    weft_array *old = weft_exp(three(0, 0, 0)); /* lazy: evaluated by the tracing */
    const uint64_t since = weft__next_seq();
    weft_array *in[1], *out[1];
    stand_ins(in, 1);
    out[0] = weft_subtract(in[0], old);
    CHECK_OK(weft__trace_make(&t, in, 1, out, 1, since));
    CHECK(weft_is_evaluated(old));
    weft_scope_close(NULL);
    CHECK_EQ_INT(t.n_nodes, 1);
    CHECK_EQ_INT(t.n_constants, 1);
    weft_scope_open();
    weft_array *args[] = {three(1, 2, 3)};
    CHECK_OK(weft__trace_apply(&t, args, out));
    check3(out[0], 0, 1, 2);
    weft_scope_close(NULL);
    weft__trace_free(&t);
}

static void failures_are_reported(void)
{
    weft__trace t;
    weft_scope_open();
    weft_array *in[2], *out[1];
    stand_ins(in, 1);
    in[1] = in[0];
    out[0] = weft_add(in[0], weft_zeros(WEFT_DIMS(2), WEFT_FLOAT64));
    CHECK_STATUS(weft__trace_make(&t, in, 1, out, 1, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "shapes do not broadcast");
    CHECK(t.nodes == NULL);
    out[0] = NULL;
    CHECK_STATUS(weft__trace_make(&t, in, 1, out, 1, 0), WEFT_INVALID);
    out[0] = in[0];
    CHECK_STATUS(weft__trace_make(&t, in, 2, out, 1, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "argument 1 is there twice");
    CHECK_STATUS(weft_eval(weft_exp(in[0])), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "cannot read elements");
    /* other shapes than the trace's, which do not fit */
    out[0] = weft_reshape(in[0], WEFT_DIMS(3, 1));
    CHECK_OK(weft__trace_make(&t, in, 1, out, 1, 0));
    weft_array *args[] = {weft_zeros(WEFT_DIMS(4), WEFT_FLOAT64)};
    CHECK_OK(weft__trace_apply(&t, args, out));
    CHECK(!weft_ok(out[0]));
    weft__trace_free(&t);
    weft_scope_close(NULL);
}

static void every_allocation_may_fail(void)
{
    for (uint64_t nth = 1; nth < 200; nth++) {
        weft__trace t;
        weft_scope_open();
        weft_array *in[2], *out[1];
        weft_memory_fail_at(nth);
        stand_ins(in, 2);
        out[0] = weft_add(weft_exp(in[0]), weft_multiply(in[1], weft_scalar(2, WEFT_FLOAT64)));
        weft_status status = weft__trace_make(&t, in, 2, out, 1, 0);
        uint64_t made = weft_memory_fail_at(0);
        weft_scope_close(NULL);
        if (status == WEFT_OK) { /* also if a sort did without its scratch memory */
            CHECK_EQ_INT(t.n_outputs, 1);
            weft__trace_free(&t);
        } else {
            CHECK_EQ_INT(status, WEFT_MEMORY);
        }
        if (made < nth) {
            CHECK_EQ_INT(status, WEFT_OK);
            return;
        }
    }
    CHECK_FAIL("no run without a failure");
}

static void values_are_distinguished_by_output(void)
{
    const weft__value first = {WEFT__NODE, 3, 0}, second = {WEFT__NODE, 3, 1};
    CHECK(weft__value_equal(first, first));
    CHECK(!weft__value_equal(first, second));
}

CHECK_MAIN("trace", CHECK_CASE(a_trace_computes_what_the_graph_does),
           CHECK_CASE(gradients_and_several_outputs_are_traced),
           CHECK_CASE(arrays_made_before_the_trace_are_constants),
           CHECK_CASE(failures_are_reported), CHECK_CASE(values_are_distinguished_by_output),
           CHECK_CASE(every_allocation_may_fail))
