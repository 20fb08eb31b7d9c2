/* examples/02_autograd.c -- gradients: of a function, checked against differences, and used to fit
 * a curve. */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

enum { POINTS = 64, STEPS = 400 };

/* The data to fit: y = 2 sin(1.5 x) + 0.3. */
typedef struct data {
    weft_array *x, *y; /* (POINTS) */
} data;

/* The loss of the model a sin(b x) + c; `in` are a, b and c, 0-d. */
static weft_array *loss(void *context, weft_array *const *in, int n)
{
    const data *d = context;
    (void)n;
    weft_array *wave = weft_multiply(in[0], weft_sin(weft_multiply(in[1], d->x)));
    return weft_mse(weft_add(wave, in[2]), d->y);
}

/* The same with the form that weft_vjp and weft_gradcheck take. */
static int loss_function(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    out[0] = loss(context, in, n_in);
    return 1;
}

static data make_data(weft_dtype dtype)
{
    data d;
    d.x = weft_scale(weft_arange(-POINTS / 2, POINTS / 2, 1, dtype), 0.1);
    d.y = weft_add_scalar(weft_scale(weft_sin(weft_scale(d.x, 1.5)), 2), 0.3);
    return d;
}

/* Weft's gradients against finite differences, in float64. */
static bool check_gradient(void)
{
    weft_scope_open();
    data d = make_data(WEFT_FLOAT64);
    weft_array *at[] = {weft_scalar(1.2, WEFT_FLOAT64), weft_scalar(1.3, WEFT_FLOAT64),
                        weft_scalar(0.1, WEFT_FLOAT64)};
    weft_status status = weft_gradcheck(loss_function, &d, at, 3, NULL);
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        printf("gradcheck: %s\n", weft_error_message());
    else
        printf("gradcheck: gradients agree with finite differences\n");
    return status == WEFT_OK;
}

/* Gradient descent. The parameters live in slots across steps; a scope a step keeps memory flat. */
static weft_status fit(weft_array **slots)
{
    weft_status status = WEFT_OK;
    for (int step = 0; step <= STEPS && status == WEFT_OK; step++) {
        weft_scope_open();
        data d = make_data(WEFT_FLOAT32);
        weft_array *grads[3], *updated[3];
        weft_array *value = weft_value_and_grad(loss, &d, slots, 3, grads);
        for (int i = 0; i < 3; i++)
            updated[i] = weft_subtract(slots[i], weft_scale(grads[i], 0.1));
        if (step % 100 == 0)
            printf("step %3d  loss %.6f\n", step, weft_item(value));
        weft_array **const addresses[] = {&slots[0], &slots[1], &slots[2]};
        status = weft_update(addresses, updated, 3);
        weft_scope_close(NULL);
    }
    return status;
}

int main(void)
{
    if (!check_gradient())
        return 1;
    weft_scope_open();
    weft_array *slots[3];
    const double start[] = {1.0, 1.2, 0.0}, wanted[] = {2.0, 1.5, 0.3};
    for (int i = 0; i < 3; i++)
        slots[i] = weft_keep(weft_scalar(start[i], WEFT_FLOAT32));
    weft_scope_close(NULL);

    int failures = 0;
    if (fit(slots) != WEFT_OK) {
        printf("%s\n", weft_error_message());
        failures++;
    }
    for (int i = 0; i < 3; i++) {
        double found = weft_item(slots[i]);
        printf("%c = %.4f\n", 'a' + i, found);
        failures += !(fabs(found - wanted[i]) < 1e-2);
        weft_drop(slots[i]);
    }
    return failures != 0;
}
