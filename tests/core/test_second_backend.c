/* tests/core/test_second_backend.c -- a user-defined device whose memory the host cannot read:
 * where ops run, which arrays are transferred, and training with the CPU's numbers. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/hidden.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_device *cpu, *hidden;

static bool devices(void)
{
    cpu = weft_device_get("cpu");
    hidden = hidden_device();
    return CHECK(cpu && hidden && cpu != hidden);
}

static weft_array *sine(weft_device *device, weft_dims shape, double start)
{
    float v[64];
    weft_dims at = shape;
    int64_t n = 1;
    for (int i = 0; i < at.n; i++) {
        n *= at.at[i];
    }
    for (int64_t i = 0; i < n; i++) {
        v[i] = (float)sin(start + (double)i);
    }
    weft_device *before = weft_default_device();
    weft_set_default_device(device);
    weft_array *a = weft_from_data(v, WEFT_FLOAT32, shape);
    weft_set_default_device(before);
    return a;
}

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

static void devices_have_names(void)
{
    if (!devices()) {
        return;
    }
    CHECK_STR(weft_device_name(hidden), "hidden");
    CHECK(weft_device_get("hidden") == hidden);
    CHECK(weft_device_get("hidden:0") == hidden);
    CHECK(weft_device_get("hidden:2") == NULL);
    CHECK(weft_device_get("hidden:x") == NULL);
    CHECK(weft_device_get("nowhere") == NULL);
    CHECK_CONTAINS(weft_error_message(), "hidden");
    CHECK_STR(weft_device_description(hidden), "");
    weft_scope_open();
    CHECK(!weft_ok(weft_to(sine(cpu, WEFT_DIMS(2), 0), NULL)));
    weft_scope_close(NULL);
}

static void devices_can_be_listed(void)
{
    char name[64];
    int n = 0, hidden_at = -1;
    if (!devices()) {
        return;
    }
    CHECK(!weft_device_at(-1, name, sizeof name));
    CHECK(weft_device_at(0, name, sizeof name));
    CHECK_STR(name, "cpu");
    for (; weft_device_at(n, name, sizeof name); n++) {
        weft_device *d = weft_device_get(name);
        CHECK(!d || strcmp(weft_device_name(d), name) == 0);
        hidden_at = d == hidden ? n : hidden_at;
    }
    CHECK_EQ_INT(hidden_at, n - 2); /* registered last, and it has two devices */
}

static void mixed_devices_are_an_error_with_a_hint(void)
{
    if (!devices()) {
        return;
    }
    weft_scope_open();
    weft_array *here = sine(cpu, WEFT_DIMS(3), 0), *there = sine(hidden, WEFT_DIMS(3), 0);
    weft_array *sum = weft_add(here, there), *product = weft_matmul(here, there);
    CHECK(!weft_ok(sum) && !weft_ok(product));
    CHECK_CONTAINS(weft_error(sum), "move them with weft_to");
    CHECK_CONTAINS(weft_error(product), "weft_to");
    CHECK(weft_to(there, hidden) == there);
    weft_scope_close(NULL);
}

static void scalars_take_the_device_of_the_array(void)
{
    if (!devices()) {
        return;
    }
    weft_scope_open();
    weft_array *there = sine(hidden, WEFT_DIMS(3), 0), *two = weft_scalar(2, WEFT_FLOAT32);
    weft_array *moved = weft_multiply(two, weft_add_scalar(there, 1));
    CHECK(weft_device_of(moved) == hidden);
    CHECK_CLOSE(weft_item(total(moved)), 2 * (3 + sin(1) + sin(2)), 1e-5);
    weft_array *chosen = weft_minimum(there, two);
    CHECK(weft_device_of(chosen) == hidden);
    CHECK_CLOSE(weft_item(total(chosen)), sin(1) + sin(2), 1e-5);
    weft_array *here = weft_multiply(sine(cpu, WEFT_DIMS(3), 1), total(there));
    CHECK(weft_device_of(here) == cpu);
    CHECK_OK(weft_eval(here));
    weft_scope_close(NULL);
}

static void elements_move_both_ways(void)
{
    if (!devices()) {
        return;
    }
    weft_scope_open();
    weft_array *x = sine(cpu, WEFT_DIMS(2, 3), 0);
    weft_array *there = weft_to(weft_swapaxes(x, 0, 1), hidden); /* copied row-major */
    CHECK(weft_device_of(there) == hidden);
    float got[6];
    CHECK_OK(weft_read(there, WEFT_FLOAT32, got, 6));
    CHECK_CLOSE(got[1], sin(3), 1e-6);
    CHECK(weft_data(there) == NULL);
    CHECK_CONTAINS(weft_error_message(), "weft_read");
    weft_array *back = weft_to(weft_slice_axis(weft_to(x, hidden), 1, 1, 3), cpu);
    CHECK_OK(weft_read(back, WEFT_FLOAT32, got, 4));
    CHECK_CLOSE(got[0], sin(1), 1e-6);
    CHECK_CLOSE(got[2], sin(4), 1e-6);
    CHECK(weft_data(back) != NULL);
    weft_array *none = weft_to(weft_zeros(WEFT_DIMS(0, 2), WEFT_FLOAT32), hidden);
    CHECK_OK(weft_read(none, WEFT_FLOAT32, got, 0));
    weft_scope_close(NULL);
}

/* cpu -> hidden -> cpu, with a part that is computed again. */
static int away(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    weft_array *there = weft_to(weft_square(in[0]), hidden);
    out[0] = weft_to(weft_multiply(there, weft_add_scalar(there, 1)), cpu);
    return 1;
}

static weft_array *round_trip(void *context, weft_array *const *in, int n_in)
{
    weft_array *out;
    if (context) {
        weft_checkpoint(away, NULL, in, n_in, &out, 1);
    } else {
        away(NULL, in, n_in, &out, 1);
    }
    return total(out);
}

static void gradients_move_back(void)
{
    if (!devices()) {
        return;
    }
    for (int checkpointed = 0; checkpointed < 2; checkpointed++) {
        weft_scope_open();
        weft_array *x = sine(cpu, WEFT_DIMS(4), 1), *grad;
        int once;
        weft_array *y = weft_value_and_grad(round_trip, checkpointed ? &once : NULL, &x, 1, &grad);
        CHECK(weft_device_of(grad) == cpu);
        float got[4];
        CHECK_OK(weft_read(grad, WEFT_FLOAT32, got, 4));
        for (int i = 0; i < 4; i++) { /* (x^4 + x^2)' */
            double v = sin(1 + i);
            CHECK_CLOSE(got[i], 4 * v * v * v + 2 * v, 1e-5);
        }
        CHECK_OK(weft_eval(y));
        weft_scope_close(NULL);
    }
}

static void counts_say_where_nodes_ran(void)
{
    if (!devices()) {
        return;
    }
    weft_scope_open();
    weft_array *x = sine(hidden, WEFT_DIMS(2, 3), 0);
    weft_device_reset_counts(hidden);
    weft_array *sum = weft_add(x, x);
    CHECK_OK(weft_eval(sum));
    weft_counts counts = weft_device_counts(hidden);
    CHECK_EQ_INT(counts.rows, 1);
    CHECK_EQ_INT(counts.references + counts.expansions + counts.elementwise + counts.copies, 0);
    CHECK_OK(weft_eval(weft_add(weft_swapaxes(x, 0, 1), weft_swapaxes(sum, 0, 1))));
    counts = weft_device_counts(hidden);
    CHECK_EQ_INT(counts.rows, 2); /* the row takes row-major operands: two copies, two views */
    CHECK_EQ_INT(counts.copies, 2);
    CHECK_EQ_INT(counts.views, 2);
    weft_device_reset_counts(hidden);
    CHECK_OK(weft_eval(weft_exp(weft_cumsum(x, 0, false, true))));
    counts = weft_device_counts(hidden);
    CHECK_EQ_INT(counts.rows + counts.expansions + counts.elementwise, 0);
    CHECK_EQ_INT(counts.references, 2);
    CHECK_OK(weft_eval(weft_add(weft_astype(x, WEFT_FLOAT64), weft_astype(x, WEFT_FLOAT64))));
    CHECK_EQ_INT(weft_device_counts(hidden).rows, 0); /* the row is for float32 */
    weft_array *norm =
        weft_rms_norm(x, weft_slice_axis(weft_reshape(x, WEFT_DIMS(6)), 0, 0, 3), 1e-5, 0);
    CHECK_OK(weft_eval(norm));
    CHECK(weft_device_counts(hidden).expansions > 0);
    weft_scope_close(NULL);
}

static weft_op_report report_of(const weft_op_report *all, int n, const char *op)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i].op, op) == 0) {
            return all[i];
        }
    }
    return (weft_op_report){.op = op};
}

/* By op, with the clock; evaluations that are waited for and those that are not. */
static void a_profile_has_each_op(void)
{
    enum { MOST = 64 };
    weft_op_report all[MOST];
    weft_totals totals;
    if (!devices()) {
        return;
    }
    weft_scope_open();
    weft_array *x = sine(hidden, WEFT_DIMS(8, 4), 0);
    CHECK_EQ_INT(weft_device_report(hidden, all, MOST, NULL), 0);
    CHECK_OK(weft_device_profile(hidden, true));
    weft_array *a = weft_add(x, x);
    CHECK_OK(weft_eval(a));
    weft_array *y = weft_add(weft_exp(a), weft_swapaxes(weft_reshape(a, WEFT_DIMS(4, 8)), 0, 1));
    CHECK_OK(weft_eval_async(&y, 1));
    CHECK_OK(weft_eval(weft_to(y, cpu)));
    CHECK_OK(weft_eval(weft_to(weft_exp(sine(cpu, WEFT_DIMS(3), 0)), hidden)));
    int n = weft_device_report(hidden, all, MOST, &totals);
    CHECK_EQ_INT(report_of(all, n, "add").ran.rows, 2);
    CHECK_EQ_INT(report_of(all, n, "add").calls, 2);
    CHECK_EQ_INT(report_of(all, n, "exp").ran.references, 1); /* the other was the CPU's */
    CHECK_EQ_INT(report_of(all, n, "reshape").ran.views, 1);
    CHECK_EQ_INT(report_of(all, n, "reshape").calls, 0);
    CHECK_EQ_INT(report_of(all, n, "copy").ran.copies, 1);
    CHECK_EQ_INT(report_of(all, n, "copy").ran.host_copies, 1);
    CHECK_EQ_INT(report_of(all, n, "to").ran.transfers, 1);
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += all[i].nanoseconds;
        CHECK(i == 0 || all[i].nanoseconds <= all[i - 1].nanoseconds);
    }
    CHECK(report_of(all, n, "exp").nanoseconds > 0);
    CHECK_EQ_INT(sum, totals.running);
    /* The device ran neither the reference kernels nor the transfer. */
    CHECK_EQ_INT(totals.busy, report_of(all, n, "add").nanoseconds);
    CHECK(totals.planning > 0 && totals.planning + totals.running <= 2 * totals.wall);
    CHECK_EQ_INT(weft_device_report(hidden, all, 1, NULL), 1);
    CHECK_OK(weft_device_profile(hidden, true)); /* forgets */
    CHECK_EQ_INT(weft_device_report(hidden, all, MOST, &totals), 0);
    CHECK_EQ_INT(totals.running, 0);
    CHECK_OK(weft_device_profile(hidden, false));
    CHECK_OK(weft_eval(weft_add(x, a)));
    CHECK_EQ_INT(weft_device_report(hidden, all, MOST, NULL), 0);
    weft_counter counter;
    CHECK_EQ_INT(weft_device_counters(hidden, &counter, 1), 0);
    weft_scope_close(NULL);
}

/* ---- training ------------------------------------------------------------------------------- */

enum { SLOTS = 3, STEPS = 3 };

typedef struct mlp {
    weft_array *w1, *b1, *w2;
    weft_array *m[SLOTS], *v[SLOTS];
    weft_array *x, *y;
} mlp;

/* mean((gelu(x w1^T + b1) w2^T - y)^2), the hidden layer computed again for its gradient */
static int layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    mlp *net = context;
    (void)n_in;
    (void)room;
    out[0] = weft_gelu(weft_linear(in[0], net->w1, net->b1));
    return 1;
}

static weft_array *mlp_loss(void *context)
{
    mlp *net = context;
    weft_array *h;
    weft_checkpoint(layer, net, &net->x, 1, &h, 1);
    weft_array *scaled = weft_rms_norm(h, NULL, 1e-5, 0);
    return weft_mse(weft_linear(scaled, net->w2, NULL), net->y);
}

static weft_status train_step(mlp *net, int step, double *loss)
{
    weft_array **slots[] = {&net->w1, &net->b1, &net->w2}, *grads[SLOTS];
    weft_array **all[3 * SLOTS], *next[3 * SLOTS];
    weft_scope_open();
    float hyper[] = {0.05f, 1, 1 - powf(0.9f, (float)step), 1 - powf(0.99f, (float)step), 1};
    weft_array *numbers = weft_from_data(hyper, WEFT_FLOAT32, WEFT_DIMS(5));
    weft_array *value = weft_value_and_grad_slots(mlp_loss, net, slots, SLOTS, grads);
    for (int i = 0; i < SLOTS; i++) {
        weft_adamw(*slots[i], grads[i], net->m[i], net->v[i], numbers, 0.9, 0.99, 1e-8, 0.01,
                   next + 3 * i);
        all[3 * i] = slots[i];
        all[3 * i + 1] = &net->m[i];
        all[3 * i + 2] = &net->v[i];
    }
    weft_status status = weft_update(all, next, 3 * SLOTS);
    *loss = status == WEFT_OK ? weft_item(value) : 0;
    weft_scope_close(NULL);
    return status;
}

/* Losses, and the sum of every parameter after training on `device`. */
static void train_on(weft_device *device, double losses[STEPS], double sums[SLOTS])
{
    mlp net = {0};
    weft_array **slots[] = {&net.w1, &net.b1, &net.w2};
    weft_set_default_device(device);
    weft_scope_open();
    weft_array *first[] = {sine(device, WEFT_DIMS(8, 4), 0), sine(device, WEFT_DIMS(8), 3),
                           sine(device, WEFT_DIMS(2, 8), 7)};
    net.x = weft_keep(sine(device, WEFT_DIMS(5, 4), 11));
    net.y = weft_keep(sine(device, WEFT_DIMS(5, 2), 13));
    for (int i = 0; i < SLOTS; i++) {
        CHECK_OK(weft_set(slots[i], first[i]));
        CHECK_OK(weft_set(&net.m[i], weft_zeros_like(first[i])));
        CHECK_OK(weft_set(&net.v[i], weft_zeros_like(first[i])));
    }
    weft_scope_close(NULL);
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(train_step(&net, step + 1, &losses[step]));
    }
    weft_scope_open();
    for (int i = 0; i < SLOTS; i++) {
        CHECK(weft_device_of(*slots[i]) == device);
        sums[i] = weft_item(total(weft_square(*slots[i])));
        CHECK_OK(weft_set(slots[i], NULL));
        CHECK_OK(weft_set(&net.m[i], NULL));
        CHECK_OK(weft_set(&net.v[i], NULL));
    }
    weft_drop(net.x);
    weft_drop(net.y);
    weft_scope_close(NULL);
    weft_set_default_device(NULL);
}

static void training_gives_the_cpus_numbers(void)
{
    if (!devices()) {
        return;
    }
    double here[STEPS], there[STEPS], sums[SLOTS], other[SLOTS];
    train_on(cpu, here, sums);
    weft_device_reset_counts(hidden);
    train_on(hidden, there, other);
    CHECK(weft_device_counts(hidden).rows > 0);
    for (int i = 0; i < STEPS; i++) {
        CHECK_RELATIVE(there[i], here[i], 1e-5);
    }
    CHECK(here[STEPS - 1] < here[0]);
    for (int i = 0; i < SLOTS; i++) {
        CHECK_RELATIVE(other[i], sums[i], 1e-5);
    }
}

/* The same with arrays of the second device while the default stays the CPU: arrays that gradients
 * and expansions create must be on that device too. */
static weft_array *softened(void *context, weft_array *const *in, int n_in)
{
    (void)context;
    (void)n_in;
    weft_array *p = weft_softmax(weft_linear(in[0], in[1], NULL), -1);
    return total(weft_multiply(weft_cumsum(p, -1, false, true), weft_max(p, WEFT_DIMS(-1), true)));
}

static void gradients_stay_on_their_device(void)
{
    if (!devices()) {
        return;
    }
    double values[2], norms[2];
    for (int i = 0; i < 2; i++) {
        weft_device *d = i ? hidden : cpu;
        weft_scope_open();
        weft_array *in[] = {sine(d, WEFT_DIMS(3, 4), 1), sine(d, WEFT_DIMS(5, 4), 2)}, *grads[2];
        weft_array *y = weft_value_and_grad(softened, NULL, in, 2, grads);
        CHECK(weft_device_of(grads[0]) == d && weft_device_of(grads[1]) == d);
        values[i] = weft_item(y);
        norms[i] = weft_item(weft_add(total(weft_square(grads[0])), total(weft_square(grads[1]))));
        weft_scope_close(NULL);
    }
    CHECK_RELATIVE(values[1], values[0], 1e-5);
    CHECK_RELATIVE(norms[1], norms[0], 1e-5);
}

/* ---- rows from outside ---------------------------------------------------------------------- */

static bool same_spec(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    const weft_array *x = weft_node_input(node, 0);
    *out = (weft_spec){.dtype = weft_dtype_of(x), .shape = weft_shape(x)};
    return true;
}

static weft_status fill(const weft_call *call, double value)
{
    for (int64_t i = 0; i < weft_tensor_size(&call->out[0]); i++) {
        weft_tensor_set(&call->out[0], i, value);
    }
    return WEFT_OK;
}

static weft_status fill_1(const weft_call *call)
{
    return fill(call, 1);
}

static weft_status fill_2(const weft_call *call)
{
    return fill(call, 2);
}

static weft_status fill_3(const weft_call *call)
{
    return fill(call, 3);
}

static const weft_op which_op = {
    .name = "test_which_row",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .infer = same_spec,
    .reference = fill_1,
};

/* Which kernel computed it: 1 the definition, 2 and 3 the rows. */
static double which(weft_dtype dtype)
{
    weft_array *x = weft_zeros(WEFT_DIMS(1), dtype);
    return weft_item(weft_apply(&which_op, &x, 1, NULL));
}

static void rows_can_be_added_to_a_backend(void)
{
    static const weft_kernel_row floats = {
        .op = "test_which_row", .signature = "F", .kernel = fill_2};
    static const weft_kernel_row float32 = {
        .op = "test_which_row", .signature = "f", .kernel = fill_3};
    static const weft_kernel_row negative = {.op = "negative", .signature = "f", .kernel = fill_3};
    static const weft_kernel_row without_kernel = {.op = "test_which_row"};
    weft_scope_open();
    CHECK_CLOSE(which(WEFT_FLOAT32), 1, 0);
    CHECK_OK(weft_backend_add_rows("cpu", &floats, 1)); /* while the device is open */
    CHECK_CLOSE(which(WEFT_FLOAT32), 2, 0);
    CHECK_OK(weft_backend_add_rows("cpu", &float32, 1)); /* the latest goes first */
    CHECK_CLOSE(which(WEFT_FLOAT32), 3, 0);
    CHECK_CLOSE(which(WEFT_FLOAT64), 2, 0);
    CHECK_CLOSE(which(WEFT_INT32), 1, 0);
    CHECK_STATUS(weft_backend_add_rows("nowhere", &floats, 1), WEFT_DEVICE);
    CHECK_CONTAINS(weft_error_message(), "nowhere");
    CHECK_STATUS(weft_backend_add_rows("cpu", &without_kernel, 1), WEFT_INVALID);
    CHECK_OK(weft_backend_add_rows("cpu", NULL, 0));
    CHECK_CLOSE(weft_item(weft_negative(weft_ones(WEFT_DIMS(1), WEFT_FLOAT32))), -1, 0);
    CHECK_OK(weft_backend_add_rows("cpu", &negative, 1)); /* an op that was registered before */
    CHECK_CLOSE(weft_item(weft_negative(weft_ones(WEFT_DIMS(1), WEFT_FLOAT32))), 3, 0);
    weft_scope_close(NULL);
}

/* ---- compiled functions --------------------------------------------------------------------- */

static int add_twice(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    const int32_t *numbers = context;
    for (int i = 0; i < 2; i++) {
        out[i] = weft_add(in[0], weft_from_data(&numbers[i], WEFT_INT32, WEFT_DIMS(1)));
    }
    return 2;
}

/* Equal constants are one, though the host cannot see their memory, and so are sums with them. */
static void equal_constants_are_merged(void)
{
    if (!devices()) {
        return;
    }
    int32_t numbers[][2] = {{3, 3}, {3, 4}};
    weft_set_default_device(hidden);
    for (int i = 0; i < 2; i++) {
        weft_compiled *c;
        const int32_t five = 5;
        weft_scope_open();
        weft_array *x = weft_from_data(&five, WEFT_INT32, WEFT_DIMS(1)), *out[2];
        CHECK_OK(weft_compile(add_twice, numbers[i], NULL, 0,
                              &(weft_compile_options){.name = "sums"}, &c));
        CHECK_OK(weft_compiled_call(c, &x, 1, out, 2));
        char *text = weft_compile_explain(c);
        CHECK_CONTAINS(text, i == 0 ? "traced: 2 nodes, 1 after" : "traced: 2 nodes, 2 after");
        CHECK_CONTAINS(text, i == 0 ? "constants: 1 (4 bytes)" : "constants: 2 (8 bytes)");
        CHECK_EQ_INT(weft_item_int(out[0]), 8);
        CHECK_EQ_INT(weft_item_int(out[1]), 5 + numbers[i][1]);
        weft_free(text);
        weft_compiled_free(c);
        weft_scope_close(NULL);
    }
    weft_set_default_device(cpu);
}

static void the_backend_has_no_memory_left(void)
{
    CHECK_EQ_INT(weft_memory_active(), 0);
    weft_memory_clear_cache();
    CHECK_EQ_INT(hidden_live_buffers(), 0);
}

CHECK_MAIN("second_backend", CHECK_CASE(devices_have_names), CHECK_CASE(devices_can_be_listed),
           CHECK_CASE(mixed_devices_are_an_error_with_a_hint),
           CHECK_CASE(scalars_take_the_device_of_the_array), CHECK_CASE(elements_move_both_ways),
           CHECK_CASE(gradients_move_back), CHECK_CASE(counts_say_where_nodes_ran),
           CHECK_CASE(a_profile_has_each_op), CHECK_CASE(training_gives_the_cpus_numbers),
           CHECK_CASE(gradients_stay_on_their_device), CHECK_CASE(rows_can_be_added_to_a_backend),
           CHECK_CASE(equal_constants_are_merged), CHECK_CASE(the_backend_has_no_memory_left))
