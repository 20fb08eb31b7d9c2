/* tests/cplusplus/module.cc -- a module of one's own, trained and saved from C++17: example 03. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <weft/weft.h>

#include "tests/cplusplus/check.h"

namespace {

enum { HIDDEN = 16, POINTS = 64, STEPS = 60 };

struct mlp {
    weft_module module;
    weft_module *up_proj, *down_proj;
};

weft_array *mlp_forward(weft_module *self, weft_array *x)
{
    mlp *m = reinterpret_cast<mlp *>(self);
    return weft_nn_call(m->down_proj, weft_gelu(weft_nn_call(m->up_proj, x)));
}

const weft_module_type mlp_type = [] {
    weft_module_type type{};
    type.name = "mlp";
    type.forward = mlp_forward;
    return type;
}();

weft_module *mlp_new()
{
    mlp *m = weft_nn_new(mlp, &mlp_type);
    if (m == nullptr)
        return nullptr;
    weft_nn_child(m, up_proj, weft_nn_linear_new(1, HIDDEN, true));
    weft_nn_child(m, down_proj, weft_nn_linear_new(HIDDEN, 1, true));
    return weft_nn_finish(m);
}

weft_array *loss(void *context)
{
    weft_array *x = weft_arange(-POINTS / 2, POINTS / 2, 1, WEFT_FLOAT32);
    x = weft_reshape(weft_scale(x, 2.0 / POINTS), WEFT_DIMS(POINTS, 1));
    return weft_mse(weft_nn_call(static_cast<weft_module *>(context), x), weft_abs(x));
}

double loss_of(weft_module *m)
{
    weft_scope_open();
    const double value = weft_item(loss(m));
    weft_scope_close(nullptr);
    return value;
}

weft_status train(weft_module *m)
{
    weft_nn_slots p;
    weft_optim *optimizer = nullptr;
    weft_optim_adam_options options{};
    options.bias_correction = true;
    weft_optim_group group{};
    group.type = &weft_optim_adam;
    group.options = &options;
    group.learning_rate = 1e-2;
    weft_status status = weft_nn_trainable(m, &p);
    if (status == WEFT_OK)
        status = weft_optim_new(&p, &group, 1, &optimizer);
    std::vector<weft_array *> grads(status == WEFT_OK ? static_cast<size_t>(p.n) : 0);
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        weft_scope_open();
        weft_optim_call call{};
        call.lr_factor = 1;
        call.loss = weft_value_and_grad_slots(loss, m, p.slots, p.n, grads.data());
        status = weft_optim_apply(optimizer, grads.data(), &call);
        weft_scope_close(nullptr);
    }
    weft_optim_free(optimizer);
    weft_nn_slots_free(&p);
    return status;
}

} // namespace

int main()
{
    weft_random_seed(1);
    weft_module *m = mlp_new();
    CHECK(weft_nn_count(m, false) == 3 * HIDDEN + 1);
    const double before = loss_of(m);
    CHECK(train(m) == WEFT_OK);
    const double after = loss_of(m);
    std::printf("loss %.6f before, %.6f after\n", before, after);
    CHECK(after < 0.5 * before);
    weft_nn_free(m);
    return failures != 0;
}
