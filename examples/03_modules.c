/* examples/03_modules.c -- modules: a small custom network, trained with AdamW, saved and
 * loaded. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { HIDDEN = 32, POINTS = 128, STEPS = 300 };

/* ---- The module: fields are slots, and their names are the names in a file ------------------ */

typedef struct mlp {
    weft_module module;
    weft_module *up_proj, *down_proj;
} mlp;

/* x (N, 1) -> (N, 1) */
static weft_array *mlp_forward(weft_module *self, weft_array *x)
{
    mlp *m = (mlp *)self;
    weft_array *h = weft_gelu(weft_nn_call(m->up_proj, x)); /* (N, HIDDEN) */
    return weft_nn_call(m->down_proj, h);
}

static const weft_module_type mlp_type = {.name = "mlp", .forward = mlp_forward};

static weft_module *mlp_new(void)
{
    mlp *m = weft_nn_new(mlp, &mlp_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, up_proj, weft_nn_linear_new(1, HIDDEN, true));
    weft_nn_child(m, down_proj, weft_nn_linear_new(HIDDEN, 1, true));
    return weft_nn_finish(m);
}

/* ---- Training: learn |x| -------------------------------------------------------------------- */

static weft_array *loss(void *context)
{
    weft_array *x = weft_arange(-POINTS / 2, POINTS / 2, 1, WEFT_FLOAT32);
    x = weft_reshape(weft_scale(x, 2.0 / (double)POINTS), WEFT_DIMS(POINTS, 1)); /* -1 to 1 */
    return weft_mse(weft_nn_call(context, x), weft_abs(x));
}

static weft_status train(weft_module *m, double *last)
{
    const weft_optim_group adam = {.type = &weft_optim_adam,
                                   .options = &(weft_optim_adam_options){.bias_correction = true},
                                   .learning_rate = 1e-2};
    weft_nn_slots p;
    weft_optim *optimizer = NULL;
    weft_array **grads = NULL;
    weft_status status = weft_nn_trainable(m, &p);
    if (status == WEFT_OK)
        status = weft_optim_new(&p, &adam, 1, &optimizer);
    if (status == WEFT_OK && (grads = malloc((size_t)p.n * sizeof *grads)) == NULL)
        status = weft_fail(WEFT_MEMORY, "no memory");
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        weft_scope_open();
        weft_optim_call call = {.lr_factor = 1 - (double)step / (double)STEPS};
        call.loss = weft_value_and_grad_slots(loss, m, p.slots, p.n, grads);
        status = weft_optim_apply(optimizer, grads, &call);
        if (step % 60 == 0 || step == STEPS - 1)
            printf("step %3d  loss %.6f\n", step, call.loss_value);
        *last = call.loss_value;
        weft_scope_close(NULL);
    }
    free(grads);
    weft_optim_free(optimizer);
    weft_nn_slots_free(&p);
    return status;
}

/* The parameters through a file into a fresh module: the same function. */
static weft_status reload(weft_module *m, const char *path, double *loss_value)
{
    weft_safetensors *file = NULL;
    weft_module *fresh = mlp_new();
    weft_status status = fresh != NULL ? weft_nn_save(m, path, NULL) : WEFT_MEMORY;
    if (status == WEFT_OK)
        status = weft_safetensors_open(path, &file);
    if (status == WEFT_OK)
        status = weft_nn_load(fresh, file, NULL);
    weft_scope_open();
    if (status == WEFT_OK)
        *loss_value = weft_item(loss(fresh));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    weft_nn_free(fresh);
    remove(path);
    return status;
}

int main(void)
{
    char path[] = "/tmp/weft-03-XXXXXX";
    weft_random_seed(1);
    weft_module *m = mlp_new();
    char *tree = m != NULL ? weft_nn_describe(m) : NULL;
    printf("%s%lld parameters\n", tree != NULL ? tree : "", (long long)weft_nn_count(m, false));
    weft_free(tree);

    double last = NAN, again = NAN;
    weft_scope_open();
    double first = weft_item(loss(m));
    weft_scope_close(NULL);
    weft_status status = train(m, &last);
    int descriptor = mkstemp(path);
    if (status == WEFT_OK && descriptor >= 0)
        status = reload(m, path, &again);
    weft_nn_free(m);
    if (status != WEFT_OK) {
        printf("%s\n", weft_error_message());
        return 1;
    }
    printf("loss %.6f before, %.6f after, %.6f from the file\n", first, last, again);
    return !(last < 0.01 * first && again <= last);
}
