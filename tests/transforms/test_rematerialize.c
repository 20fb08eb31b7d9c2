/* tests/transforms/test_rematerialize.c -- gradients compute large results of norms and activations
 * again instead of keeping them: less memory, and the same bits. */
#include <stdio.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

/* A block keeps x (R, E), and gate and up (R, F): 9 MiB. With the norm (R, E) and the gated product
 * (R, F), which are computed again, it would be 14. */
enum { R = 4096, E = 64, F = 256, BLOCKS = 8, MIB = 1 << 20 };

typedef weft_array *activation_function(weft_array *gate, weft_array *up);

typedef struct network {
    activation_function *activation;
    bool stored; /* results are evaluated in the forward pass, so nothing is computed again */
} network;

static weft_array *relu_gate(weft_array *gate, weft_array *up)
{
    return weft_multiply(weft_relu(gate), up);
}

static weft_array *silu_of_sum(weft_array *gate, weft_array *up)
{
    return weft_silu(weft_add(gate, up));
}

static weft_array *gelu_of_sum(weft_array *gate, weft_array *up)
{
    return weft_gelu(weft_add(gate, up));
}

static weft_array *stored(const network *n, weft_array *x)
{
    if (n->stored) {
        CHECK_OK(weft_eval(x));
    }
    return x;
}

/* in: x, then gain, gate, up and down of each block. The mean of the last block's squares. */
static weft_array *forward(void *context, weft_array *const *in, int n_in)
{
    const network *n = context;
    weft_array *x = in[0];
    for (int i = 1; i < n_in; i += 4) {
        weft_array *normed = stored(n, weft_rms_norm(x, in[i], 1e-6, 0));
        weft_array *gate = weft_linear(normed, in[i + 1], NULL);
        weft_array *up = weft_linear(normed, in[i + 2], NULL);
        weft_array *product = stored(n, n->activation(gate, up));
        x = weft_add(x, weft_linear(product, in[i + 3], NULL));
    }
    return weft_mean(weft_square(x), WEFT_ALL_AXES, false);
}

enum { N_IN = 1 + 4 * BLOCKS };

static void make_inputs(weft_array **in)
{
    const weft_dims shapes[] = {WEFT_DIMS(E), WEFT_DIMS(F, E), WEFT_DIMS(F, E), WEFT_DIMS(E, F)};
    weft_random_seed(3);
    in[0] = weft_random_normal(NULL, WEFT_DIMS(R, E), 0, 1, WEFT_FLOAT32);
    for (int i = 1; i < N_IN; i++) {
        in[i] = weft_random_normal(NULL, shapes[(i - 1) % 4], i % 4 == 1, 0.1, WEFT_FLOAT32);
    }
    CHECK_OK(weft_eval_n(in, N_IN));
}

/* Gradients of all inputs; returns the most bytes beyond the inputs. */
static int64_t gradients(network n, weft_array *const *in, weft_array **grads)
{
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    weft_scope_open_lean();
    weft_value_and_grad(forward, &n, in, N_IN, grads);
    CHECK_OK(weft_eval_n(grads, N_IN));
    const int64_t peak = weft_memory_peak() - before;
    weft_scope_close_n(grads, N_IN);
    return peak;
}

static void check_equal(weft_array *const *a, weft_array *const *b)
{
    weft_device *cpu = weft_device_get("cpu");
    for (int i = 0; i < N_IN; i++) {
        weft_array *x = weft_to(a[i], cpu), *y = weft_to(b[i], cpu);
        if (CHECK_OK(weft_eval(x)) && CHECK_OK(weft_eval(y)))
            CHECK_BYTES(weft_data(x), weft_data(y), (size_t)weft_nbytes(a[i]));
    }
}

static void gradients_equal_those_of_stored_results(void)
{
    static activation_function *const activations[] = {weft_swiglu, weft_geglu, relu_gate,
                                                       silu_of_sum, gelu_of_sum};
    weft_array *in[N_IN], *again[N_IN], *kept[N_IN];
    weft_scope_open();
    make_inputs(in);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        weft_scope_open();
        gradients((network){activations[i], false}, in, again);
        gradients((network){activations[i], true}, in, kept);
        check_equal(again, kept);
        weft_scope_close(NULL);
    }
    weft_scope_close(NULL);
}

/* The last block's two norms and products are there at the same time, and its gradients. */
static void gradients_keep_inputs_only(void)
{
    weft_array *in[N_IN], *grads[N_IN];
    weft_scope_open();
    make_inputs(in);
    const int64_t peak = gradients((network){weft_swiglu, false}, in, grads);
    printf("  %.1f MiB\n", (double)peak / MIB);
    CHECK(peak < (BLOCKS * 9 + 20) * (int64_t)MIB);
    weft_scope_close(NULL);
}

static int compiled_step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    network n = {weft_swiglu, false};
    weft_array *grads[N_IN];
    (void)context;
    weft_value_and_grad(forward, &n, in, n_in, grads);
    for (int i = 0; i < n_in && i < room; i++) {
        out[i] = grads[i];
    }
    return n_in;
}

static void compiled_gradients_keep_inputs_only(void)
{
    weft_array *in[N_IN], *grads[N_IN], *expected[N_IN];
    weft_scope_open();
    make_inputs(in);
    gradients((network){weft_swiglu, false}, in, expected);
    weft_compiled *step = NULL;
    CHECK_OK(weft_compile(compiled_step, NULL, NULL, 0, NULL, &step));
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    CHECK_OK(weft_compiled_call(step, in, N_IN, grads, N_IN));
    const int64_t peak = weft_memory_peak() - before;
    printf("  %.1f MiB\n", (double)peak / MIB);
    CHECK(peak < (BLOCKS * 9 + 20) * (int64_t)MIB);
    check_equal(grads, expected);
    weft_compiled_free(step);
    weft_scope_close(NULL);
}

CHECK_MAIN("rematerialize", CHECK_CASE(gradients_equal_those_of_stored_results),
           CHECK_CASE(gradients_keep_inputs_only), CHECK_CASE(compiled_gradients_keep_inputs_only))
