/* examples/09_from_python.c -- differences from MLX, NumPy and PyTorch: ownership, errors, lazy
 * evaluation, random keys, scalars (docs/coming-from-*.md). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

static int failures;

static void expect(const char *what, bool fine)
{
    printf("%-44s %s\n", what, fine ? "yes" : "NO");
    failures += !fine;
}

/* ---- 1. Scopes own what is made in them ----------------------------------------------------- */

static weft_array *distance(weft_array *a, weft_array *b)
{
    weft_scope_open();
    weft_array *d = weft_subtract(a, b); /* goes with the scope */
    weft_array *y = weft_sqrt(weft_sum(weft_square(d), WEFT_DIMS(-1), false));
    return weft_scope_close(y); /* y alone is handed to the caller's scope */
}

static void ownership(void)
{
    weft_array *total = weft_keep(weft_zeros(WEFT_SCALAR, WEFT_FLOAT32)); /* held until dropped */
    for (int i = 0; i < 3; i++) {
        weft_scope_open();
        weft_array *x = weft_full(WEFT_DIMS(2, 4), i, WEFT_FLOAT32);
        weft_array *y = weft_max(distance(x, weft_ones_like(x)), WEFT_ALL_AXES, false);
        expect("the slot holds the new array, and the old one is freed",
               weft_set(&total, weft_add(total, y)) == WEFT_OK);
        weft_scope_close(NULL);
    }
    expect("a slot outlives its scopes", weft_item(total) == 4);
    weft_drop(total);
}

/* ---- 2. Errors propagate -------------------------------------------------------------------- */

static void errors(void)
{
    weft_array *a = weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32);
    weft_array *wrong = weft_matmul(a, a); /* (2, 3) x (2, 3): no exception */
    weft_array *later = weft_softmax(weft_add(wrong, a), -1);
    weft_status status = weft_eval(later); /* the one check */
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    expect("the first error is the one that is told",
           strstr(weft_error_message(), "matmul") != NULL);
}

/* ---- 3. Lazy, and readable until the scope closes ------------------------------------------- */

static void laziness(void)
{
    weft_array *x = weft_random_uniform(weft_random_key(1), WEFT_DIMS(4), 0, 1, WEFT_FLOAT32);
    weft_array *h = weft_exp(x);
    weft_array *y = weft_sum(h, WEFT_ALL_AXES, false);
    double sum = weft_item(y);                                     /* evaluates y */
    double largest = weft_item(weft_max(h, WEFT_ALL_AXES, false)); /* h and x stay readable */
    expect("all are readable until the scope closes", largest < sum && weft_eval(x) == WEFT_OK);

    weft_scope_open_lean();
    weft_array *g = weft_exp(weft_scale(x, 2));
    weft_status status = weft_eval(weft_sum(g, WEFT_ALL_AXES, false)); /* g's memory is reused */
    expect("in a lean scope g is consumed",
           status == WEFT_OK && weft_eval(weft_sqrt(g)) != WEFT_OK);
    printf("%s\n", weft_error_message());
    weft_scope_close(NULL);
}

/* ---- 4. Random keys are values -------------------------------------------------------------- */

static void keys(void)
{
    weft_array *key = weft_random_key(7), *first, *second;
    weft_random_split_pair(key, &first, &second);
    weft_array *a = weft_random_normal(first, WEFT_DIMS(3), 0, 1, WEFT_FLOAT32);
    weft_array *b = weft_random_normal(first, WEFT_DIMS(3), 0, 1, WEFT_FLOAT32);
    weft_array *c = weft_random_normal(second, WEFT_DIMS(3), 0, 1, WEFT_FLOAT32);
    expect("evaluated together", weft_eval_n((weft_array *[]){a, b, c}, 3) == WEFT_OK);
    expect("one key, the same numbers", weft_item_int(weft_array_equal(a, b, false)) == 1);
    expect("another key, others", weft_item_int(weft_array_equal(a, c, false)) == 0);
}

/* ---- 5. Scalars are weak, arrays are not ---------------------------------------------------- */

static void scalars(void)
{
    weft_array *h = weft_ones(WEFT_DIMS(3), WEFT_BFLOAT16);
    weft_array *weak = weft_scale(h, 0.5); /* x * 0.5: stays bfloat16 */
    weft_array *strong = weft_multiply(h, weft_scalar(0.5, WEFT_FLOAT32)); /* float32 */
    expect("a C number takes the array's dtype", weft_dtype_of(weak) == WEFT_BFLOAT16);
    expect("an array of rank 0 has its own", weft_dtype_of(strong) == WEFT_FLOAT32);
}

/* ---- Gradients: a function, its arguments, its context -------------------------------------- */

static weft_array *squares(void *context, weft_array *const *in, int n_in)
{
    (void)context, (void)n_in;
    return weft_sum(weft_square(in[0]), WEFT_ALL_AXES, false);
}

static void gradients(void)
{
    weft_array *x = weft_arange(0, 3, 1, WEFT_FLOAT32), *grad;
    weft_array *value = weft_value_and_grad(squares, NULL, &x, 1, &grad);
    expect("evaluated together", weft_eval_n((weft_array *[]){value, grad}, 2) == WEFT_OK);
    expect("value and gradient",
           weft_item(value) == 5 && weft_item(weft_sum(grad, WEFT_ALL_AXES, false)) == 6);
}

int main(void)
{
    weft_scope_open();
    ownership();
    errors();
    laziness();
    keys();
    scalars();
    gradients();
    weft_scope_close(NULL);
    return failures != 0;
}
