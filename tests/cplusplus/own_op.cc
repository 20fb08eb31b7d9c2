/* tests/cplusplus/own_op.cc -- ops of one's own from C++17, one from a formula, one from a kernel
 * with parameters: example 07. */
#include <cmath>

#include <weft/weft.h>

#include "tests/cplusplus/check.h"

namespace {

const weft_op mish_op = [] {
    weft_op op{};
    op.name = "test_mish";
    op.family = WEFT_ELEMENTWISE;
    op.arity = 1;
    op.formula.real = "a * tanh(log1p(exp(a)))";
    return op;
}();

struct roll_params {
    int64_t places;
};

const weft_field roll_fields[] = {WEFT_FIELD(INT, roll_params, places), WEFT_FIELDS_END};

bool roll_infer(const weft_array *node, weft_spec *out, weft_why *)
{
    const weft_array *x = weft_node_input(node, 0);
    *out = weft_spec{};
    out->dtype = weft_dtype_of(x);
    out->shape = weft_shape(x);
    return true;
}

weft_status roll_reference(const weft_call *call)
{
    const roll_params *p = static_cast<const roll_params *>(call->params);
    const int64_t n = weft_tensor_size(&call->in[0]);
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(&call->out[0], (i + p->places) % n, weft_tensor_get(&call->in[0], i));
    return WEFT_OK;
}

const weft_op roll_op = [] {
    weft_op op{};
    op.name = "test_roll";
    op.family = WEFT_CORE_RANK;
    op.arity = 1;
    op.params_size = sizeof(roll_params);
    op.params_fields = roll_fields;
    op.infer = roll_infer;
    op.reference = roll_reference;
    return op;
}();

} // namespace

int main()
{
    CHECK(weft_op_register(&mish_op) == WEFT_OK);
    CHECK(weft_op_register(&roll_op) == WEFT_OK);
    weft_scope_open();
    weft_array *x = weft_arange(0, 3, 1, WEFT_FLOAT32);
    float values[3];
    CHECK(weft_eval(x) == WEFT_OK);
    CHECK(weft_read(weft_apply_elementwise(&mish_op, &x, 1), WEFT_FLOAT32, values, 3) == WEFT_OK);
    CHECK(std::fabs(values[1] - std::tanh(std::log1p(std::exp(1.0F)))) < 1e-6F);
    const roll_params params = {1};
    CHECK(weft_read(weft_apply(&roll_op, &x, 1, &params), WEFT_FLOAT32, values, 3) == WEFT_OK);
    CHECK(values[0] == 2 && values[1] == 0 && values[2] == 1);
    weft_scope_close(nullptr);
    return failures != 0;
}
