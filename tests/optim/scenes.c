/* tests/optim/scenes.c -- the parameters, gradients and cases of the optimizers' tests. */
#include "tests/optim/scenes.h"

#include "tests/check.h"
#include "tests/support/golden.h"

static char path_w[] = "layer.w", path_b[] = "layer.b", path_k[] = "k";
static const char *const starts[] = {"start/w", "start/b", "start/k"};
static const char *const gradients[] = {"gradients/w", "gradients/b", "gradients/k"};

weft_array *scene_tensor(const char *name, weft_dtype dtype)
{
    return weft_to(golden_as(name, dtype), weft_default_device());
}

void scene_start(scene *s, weft_dtype dtype)
{
    *s = (scene){.paths = {path_w, path_b, path_k}};
    weft_scope_open();
    for (int i = 0; i < SCENE_PARAMETERS; i++) {
        CHECK_OK(weft_set(&s->arrays[i], scene_tensor(starts[i], dtype)));
        CHECK_OK(weft_eval(s->arrays[i])); /* if lazy, lost in an update that fails */
        s->addresses[i] = &s->arrays[i];
    }
    weft_scope_close(NULL);
    s->slots = (weft_nn_slots){SCENE_PARAMETERS, s->addresses, s->paths};
}

void scene_end(scene *s)
{
    for (int i = 0; i < SCENE_PARAMETERS; i++)
        weft_drop(s->arrays[i]);
}

void scene_gradients(int t, weft_dtype dtype, weft_array **out)
{
    for (int i = 0; i < SCENE_PARAMETERS; i++)
        out[i] = weft_squeeze(weft_slice_axis(scene_tensor(gradients[i], dtype), 0, t, t + 1), 0);
}

#define OPTIONS(type, ...)                                                                         \
    &(const weft_optim_##type##_options)                                                           \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
const run runs[] = {
    {"sgd", &weft_optim_sgd, NULL, 0.1},
    {"sgd_momentum", &weft_optim_sgd, OPTIONS(sgd, .momentum = 0.9, .weight_decay = 0.05), 0.1},
    {"sgd_nesterov", &weft_optim_sgd, OPTIONS(sgd, .momentum = 0.8, .nesterov = true), 0.1},
    {"sgd_dampening", &weft_optim_sgd, OPTIONS(sgd, .momentum = 0.9, .dampening = 0.3), 0.1},
    {"rmsprop", &weft_optim_rmsprop, NULL, 0.01},
    {"rmsprop_options", &weft_optim_rmsprop, OPTIONS(rmsprop, .alpha = 0.9, .eps = 1e-3), 0.01},
    {"adagrad", &weft_optim_adagrad, NULL, 0.1},
    {"adadelta", &weft_optim_adadelta, NULL, 1},
    {"adadelta_options", &weft_optim_adadelta, OPTIONS(adadelta, .rho = 0.8, .eps = 1e-3), 2},
    {"adam", &weft_optim_adam, NULL, 0.01},
    {"adam_corrected", &weft_optim_adam,
     OPTIONS(adam, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .bias_correction = true), 0.01},
    {"adamw", &weft_optim_adamw, NULL, 0.01},
    {"adamw_corrected", &weft_optim_adamw,
     OPTIONS(adamw, .weight_decay = 0.1, .bias_correction = true), 0.02},
    {"adamw", &weft_optim_adamw8bit, NULL, 0.01}, /* with so few elements it is AdamW */
    {"adamax_corrected", &weft_optim_adamax,
     OPTIONS(adamax, .beta1 = 0.85, .beta2 = 0.99, .eps = 1e-14, .bias_correction = true), 0.02},
    {"adamax", &weft_optim_adamax, NULL, 0.02},
    {"lion", &weft_optim_lion, NULL, 0.01},
    {"lion_decay", &weft_optim_lion,
     OPTIONS(lion, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.3), 0.02},
    {"adafactor", &weft_optim_adafactor, NULL, 0},
    {"adafactor_rate", &weft_optim_adafactor,
     OPTIONS(adafactor, .beta1 = 0.9, .weight_decay = 0.1, .no_scale_parameter = true,
             .no_relative_step = true),
     0.05},
    {"adafactor_warmup", &weft_optim_adafactor,
     OPTIONS(adafactor, .warmup_init = true, .clip_threshold = 0.5, .decay_rate = 0.6), 0},
    {"muon", &weft_optim_muon, NULL, 0.02},
    {"muon_options", &weft_optim_muon,
     OPTIONS(muon, .momentum = 0.8, .weight_decay = -1, .no_nesterov = true, .ns_steps = 3), 0.05},
};
#undef OPTIONS
const int n_runs = sizeof runs / sizeof *runs;
