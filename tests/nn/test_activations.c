/* tests/nn/test_activations.c -- activation functions and their gradients against PyTorch's. */
#include <math.h>

#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/activations.h"

/* clang-format off */
#define ONE(name, expression)                                                                      \
    static weft_array *name(weft_array *const *in) { weft_array *x = in[0]; return expression; }
ONE(relu2, weft_relu2(x))
ONE(relu6, weft_relu6(x))
ONE(leaky_relu, weft_leaky_relu(x, 0.1))
ONE(elu, weft_elu(x, 1.5))
ONE(celu, weft_celu(x, 0.7))
ONE(selu, weft_selu(x))
ONE(mish, weft_mish(x))
ONE(gelu_fast_approx, weft_gelu_fast_approx(x))
ONE(log_sigmoid, weft_log_sigmoid(x))
ONE(softsign, weft_softsign(x))
ONE(softmin, weft_softmin(x, 0))
ONE(hardswish, weft_hardswish(x))
ONE(hard_tanh, weft_hard_tanh(x, -1.5, 0.5))
ONE(hard_shrink, weft_hard_shrink(x, 0.6))
ONE(softshrink, weft_softshrink(x, 0.6))
ONE(sigmoid, weft_sigmoid(x))
ONE(relu, weft_relu(x))
ONE(silu, weft_silu(x))
ONE(softplus, weft_softplus(x))
ONE(hyperbolic, weft_tanh(x))
ONE(gelu, weft_gelu(x))
ONE(gelu_tanh, weft_gelu_tanh(x))
ONE(softmax, weft_softmax(x, 1))
ONE(log_softmax, weft_log_softmax(x, 0))
ONE(glu, weft_glu(x, 0))
ONE(step, weft_binary_step(x, 0.25))
ONE(prelu, weft_prelu(x, in[1]))
#undef ONE
/* clang-format on */

static void all_equal_pytorch(void)
{
    static const struct {
        const char *name;
        weft_array *(*f)(weft_array *const *in);
    } rows[] = {
        {"relu2", relu2},
        {"relu6", relu6},
        {"leaky_relu", leaky_relu},
        {"elu", elu},
        {"celu", celu},
        {"selu", selu},
        {"mish", mish},
        {"gelu_fast_approx", gelu_fast_approx},
        {"log_sigmoid", log_sigmoid},
        {"softsign", softsign},
        {"softmin", softmin},
        {"hardswish", hardswish},
        {"hard_tanh", hard_tanh},
        {"hard_shrink", hard_shrink},
        {"softshrink", softshrink},
        {"sigmoid", sigmoid},
        {"relu", relu},
        {"silu", silu},
        {"softplus", softplus},
        {"tanh", hyperbolic},
        {"gelu", gelu},
        {"gelu_tanh", gelu_tanh},
        {"softmax", softmax},
        {"log_softmax", log_softmax},
        {"glu", glu},
        {"step", step},
        {"prelu", prelu},
    };
    if (!golden_open("nn/functions"))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        against_function(rows[i].name, rows[i].f, 1e-6); /* some roundings of float32 */
    golden_close();
}

static void dtypes_and_edges(void)
{
    weft_scope_open();
    weft_array *whole = weft_scalar_int(7, WEFT_INT32);
    CHECK_EQ_INT(weft_dtype_of(weft_relu6(whole)), WEFT_INT32);
    CHECK_EQ_INT(weft_item_int(weft_relu6(whole)), 6);
    CHECK_EQ_INT(weft_dtype_of(weft_elu(whole, 1)), WEFT_FLOAT32);
    CHECK_EQ_INT(weft_dtype_of(weft_binary_step(whole, 7)), WEFT_INT32);
    CHECK_EQ_INT(weft_item_int(weft_binary_step(whole, 7)), 1);
    CHECK_EQ_INT(weft_dtype_of(weft_mish(weft_scalar(1, WEFT_BFLOAT16))), WEFT_BFLOAT16);
    CHECK(isnan(weft_item(weft_elu(weft_scalar(NAN, WEFT_FLOAT32), 1))));
    CHECK_CLOSE(weft_item(weft_elu(weft_scalar(-INFINITY, WEFT_FLOAT32), 2)), -2, 0);
    CHECK_EQ_INT(weft_size(weft_glu(weft_zeros(WEFT_DIMS(0, 4), WEFT_FLOAT32), -1)), 0);
    CHECK(!weft_ok(weft_glu(weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32), 0)));
    weft_scope_close(NULL);
}

CHECK_MAIN("activations", CHECK_CASE(all_equal_pytorch), CHECK_CASE(dtypes_and_edges))
