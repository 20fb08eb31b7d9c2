/* examples/07_own_op.c -- custom operations: one from a formula, one from a kernel. */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

/* ---- From a formula: mish(a) = a tanh(log(1 + e^a)) (Misra 2019) ---------------------------- */

/* d mish / da, from functions that there are. It may call anything that makes arrays. */
static weft_array *mish_partial(weft_array *node, int i)
{
    (void)i;
    weft_array *a = weft_node_input(node, 0);
    weft_array *t = weft_tanh(weft_softplus(a));
    weft_array *slope = weft_subtract(weft_ones_like(a), weft_square(t));
    return weft_add(t, weft_multiply(weft_multiply(a, weft_sigmoid(a)), slope));
}

static const weft_op mish_op = {
    .name = "example_mish",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "a * tanh(log1p(exp(a)))"},
    .partial = mish_partial,
};

static weft_array *mish(weft_array *a)
{
    return weft_apply_elementwise(&mish_op, &a, 1);
}

/* ---- From a kernel: roll(x, n), the last axis turned by n places ---------------------------- */

typedef struct roll_params {
    int64_t places;
} roll_params;

static const weft_field roll_fields[] = {WEFT_FIELD(INT, roll_params, places), WEFT_FIELDS_END};

static bool roll_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_array *x = weft_node_input(node, 0);
    if (weft_ndim(x) < 1)
        return weft_because(why, "roll: expected at least one axis, got a 0-d array");
    *out = (weft_spec){.dtype = weft_dtype_of(x), .shape = weft_shape(x)};
    return true;
}

/* The definition of the values, for any dtype and strides. */
static weft_status roll_reference(const weft_call *call)
{
    const roll_params *p = call->params;
    const weft_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t size = weft_tensor_size(x), E = x->shape.at[x->shape.n - 1];
    for (int64_t i = 0; i < size; i++) {
        int64_t row = i / E * E, column = ((i - row + p->places) % E + E) % E;
        weft_tensor_set(y, row + column, weft_tensor_get(x, i));
    }
    return WEFT_OK;
}

static weft_array *roll(weft_array *x, int64_t places);

/* What came out at a place went in so many places before. */
static void roll_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    const roll_params *p = weft_node_params(node);
    if (wanted[0])
        grads[0] = roll(cts[0], -p->places);
}

static const weft_op roll_op = {
    .name = "example_roll",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(roll_params),
    .params_fields = roll_fields,
    .infer = roll_infer,
    .vjp = roll_vjp,
    .reference = roll_reference,
};

static weft_array *roll(weft_array *x, int64_t places)
{
    return weft_apply(&roll_op, &x, 1, &(roll_params){.places = places});
}

/* ---- Trying them ---------------------------------------------------------------------------- */

static int function(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = mish(roll(weft_multiply(in[0], in[0]), 2));
    return 1;
}

static weft_status try_ops(int *failures)
{
    float values[3];
    weft_array *x = weft_arange(0, 3, 1, WEFT_FLOAT32); /* 0 1 2 */
    weft_status status = weft_eval(x); /* named, so that it stays for more than one use */
    if (status == WEFT_OK)
        status = weft_read(mish(x), WEFT_FLOAT32, values, 3);
    if (status != WEFT_OK)
        return status;
    double wanted = tanh(log1p(exp(1.0)));
    printf("mish(1) = %.6f, wanted %.6f\n", (double)values[1], wanted);
    *failures += !(fabs((double)values[1] - wanted) < 1e-6);

    status = weft_read(roll(x, 1), WEFT_FLOAT32, values, 3);
    printf("roll(0 1 2) = %g %g %g\n", (double)values[0], (double)values[1], (double)values[2]);
    *failures += values[0] != 2 || values[1] != 0 || values[2] != 1;
    if (status != WEFT_OK)
        return status;

    weft_array *in = weft_random_normal(weft_random_key(1), WEFT_DIMS(3, 5), 0, 1, WEFT_FLOAT64);
    status = weft_gradcheck(function, NULL, &in, 1, NULL);
    if (status == WEFT_OK)
        printf("gradients agree with finite differences\n");
    return status;
}

int main(void)
{
    int failures = 0;
    weft_scope_open();
    weft_status status = weft_op_register(&mish_op);
    if (status == WEFT_OK)
        status = weft_op_register(&roll_op);
    if (status == WEFT_OK)
        status = try_ops(&failures);
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    return status != WEFT_OK || failures != 0;
}
