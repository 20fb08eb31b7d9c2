/* examples/01_arrays.c -- arrays: lazy operations, evaluation on reading, and errors that
 * propagate. */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

static int failures;

static void expect(const char *what, double got, double wanted)
{
    bool fine = fabs(got - wanted) < 1e-5;
    printf("%-34s %10.4f%s\n", what, got, fine ? "" : "   WRONG");
    failures += !fine;
}

/* Computes x and copies its n elements. */
static void read_floats(weft_array *x, float *out, int64_t n)
{
    if (weft_read(x, WEFT_FLOAT32, out, n) != WEFT_OK) {
        printf("%s\n", weft_error_message());
        failures++;
    }
}

/* A function of arrays borrows its inputs and returns a temporary of the caller's scope. Everything
 * else it makes goes when its own scope closes. */
static weft_array *standardize(weft_array *x)
{
    weft_scope_open();
    weft_dims last = WEFT_DIMS(-1);
    weft_array *centered = weft_subtract(x, weft_mean(x, last, true));
    weft_array *variance = weft_mean(weft_square(centered), last, true);
    return weft_scope_close(weft_divide(centered, weft_sqrt(variance)));
}

static void making_and_reading(void)
{
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    weft_array *a = weft_from_data(numbers, WEFT_FLOAT32, WEFT_DIMS(2, 3));
    weft_array *column = weft_arange(0, 2, 1, WEFT_FLOAT32); /* 0 1 */
    column = weft_reshape(column, WEFT_DIMS(2, 1));

    /* (2, 3) + (2, 1): shapes stretch as in NumPy. Nothing is computed yet. */
    weft_array *sum = weft_add(a, weft_scale(column, 10));
    printf("evaluated before reading: %s\n", weft_is_evaluated(sum) ? "yes" : "no");

    float out[6];
    read_floats(sum, out, 6); /* computes and copies */
    expect("a + 10 column, last element", (double)out[5], 16);
    expect("sum of a", weft_item(weft_sum(a, WEFT_ALL_AXES, false)), 21);

    /* A transpose is a view of the same memory. */
    weft_array *product = weft_matmul(a, weft_swapaxes(a, 0, 1)); /* (2, 2) */
    expect("trace of a a^T", weft_item(weft_sum(weft_square(a), WEFT_ALL_AXES, false)), 91);
    read_floats(product, out, 4);
    expect("a a^T [0][1]", (double)out[1], 32);

    read_floats(standardize(a), out, 6);
    expect("standardized, first element", (double)out[0], -sqrt(1.5));
}

static void dtypes_meet(void)
{
    weft_array *i = weft_arange(0, 4, 1, WEFT_INT32);
    weft_array *h = weft_full(WEFT_DIMS(4), 0.5, WEFT_BFLOAT16);
    weft_array *both = weft_add(i, h);
    printf("int32 + bfloat16 is %s\n", weft_dtype_name(weft_dtype_of(both)));
    expect("its sum", weft_item(weft_sum(both, WEFT_ALL_AXES, false)), 8);
}

/* A call that cannot be done gives an array that says why; what is made from it says the same. One
 * check at the end is enough. */
static void errors_ride_along(void)
{
    weft_array *wrong = weft_matmul(weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32),
                                    weft_ones(WEFT_DIMS(4, 5), WEFT_FLOAT32));
    weft_array *later = weft_exp(weft_add_scalar(wrong, 1));
    weft_status status = weft_eval(later);
    printf("status: %s\nmessage: %s\n", weft_status_name(status), weft_error_message());
    failures += status == WEFT_OK;
}

/* Arrays that outlive a scope are kept and dropped by hand. */
static void keeping(void)
{
    weft_scope_open();
    weft_array *kept = weft_keep(weft_full(WEFT_DIMS(3), 7, WEFT_FLOAT32));
    weft_scope_close(NULL);
    expect("kept across its scope", weft_item(weft_max(kept, WEFT_ALL_AXES, false)), 7);
    weft_drop(kept);
}

int main(void)
{
    weft_scope_open();
    making_and_reading();
    dtypes_meet();
    errors_ride_along();
    keeping();
    weft_scope_close(NULL);
    printf("%s\n", failures == 0 ? "all as expected" : "something was not as expected");
    return failures != 0;
}
