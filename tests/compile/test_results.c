/* tests/compile/test_results.c -- the number of a function's results, which the call returns: for
 * compiled, exported and imported functions, checkpoints and custom rules. */
#include <stdio.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/export.h"
#include "weft/ops.h"

/* The first n multiples of x, n being the context's. */
typedef struct multiples_call {
    int n, calls;
} multiples_call;

static int multiples(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    multiples_call *c = context;
    (void)n_in;
    c->calls++;
    for (int i = 0; i < c->n && c->n <= room; i++)
        out[i] = weft_scale(in[0], i + 1);
    return c->n;
}

/* Has two results, whatever the room. */
static int pair(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_exp(in[0]);
    out[1] = weft_log(in[0]);
    return 2;
}

/* Needs more room in each call. */
static int insatiable(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)in, (void)n_in, (void)out;
    return room + 1;
}

enum { MANY = 100 };

static weft_array *vector(void)
{
    return weft_arange(1, 4, 1, WEFT_FLOAT32);
}

static void check_multiples(weft_array *const *out, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_CLOSE(weft_item(weft_sum(out[i], WEFT_ALL_AXES, false)), 6 * (i + 1), 0);
}

static void a_compiled_function_decides_how_many_results_it_has(void)
{
    static const int numbers[] = {0, 1, 15, 16, 17, MANY};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        multiples_call call = {.n = numbers[k]};
        weft_compiled *c;
        weft_array *out[MANY + 3];
        weft_scope_open();
        weft_array *x = vector();
        CHECK_OK(weft_compile(multiples, &call, NULL, 0, NULL, &c));
        CHECK_EQ_INT(weft_compiled_n_results(c), 0);
        CHECK_OK(weft_compiled_call(c, &x, 1, out, MANY + 3));
        CHECK_EQ_INT(weft_compiled_n_results(c), call.n);
        check_multiples(out, call.n);
        CHECK(out[call.n] == NULL && out[MANY + 2] == NULL);
        const int traced = call.calls;
        CHECK_EQ_INT(traced, call.n > WEFT_RESULT_ROOM ? 2 : 1);
        CHECK_OK(weft_compiled_call(c, &x, 1, out, call.n)); /* the same trace */
        check_multiples(out, call.n);
        CHECK_EQ_INT(call.calls, traced);
        weft_compiled_free(c);
        weft_scope_close(NULL);
    }
}

static void results_that_do_not_fit_are_an_error(void)
{
    weft_compiled *c;
    weft_array *out[2];
    weft_scope_open();
    weft_array *x = vector();
    CHECK_OK(weft_compile(pair, NULL, NULL, 0, NULL, &c));
    for (int compiled = 0; compiled < 2; compiled++) {
        weft_compile_enable(compiled == 1);
        CHECK_STATUS(weft_compiled_call(c, &x, 1, out, 1), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "the function has 2 results, there is room for 1");
        CHECK(!weft_ok(out[0]));
        CHECK_OK(weft_compiled_call(c, &x, 1, out, 2));
        CHECK_CLOSE(weft_item(weft_max(out[1], WEFT_ALL_AXES, false)), 1.0986123, 1e-6);
    }
    weft_compiled_free(c);
    CHECK_EQ_INT(weft_checkpoint(pair, NULL, &x, 1, out, 1), 2);
    CHECK_CONTAINS(weft_error(out[0]), "the function has 2 results, there is room for 1");
    CHECK_EQ_INT(weft_custom(pair, NULL, &(weft_custom_rules){0}, &x, 1, out, 1), 2);
    CHECK_CONTAINS(weft_error(out[0]), "the function has 2 results, there is room for 1");
    weft_scope_close(NULL);
}

static void too_few_results_are_an_error(void)
{
    weft_array *out[3], *grad, *ones[3];
    weft_scope_open();
    weft_array *x = vector();
    for (int i = 0; i < 3; i++)
        ones[i] = weft_ones_like(x);
    CHECK_STATUS(weft_vjp(pair, NULL, &x, 1, ones, out, 3, &grad), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "vjp: expected 3 results, the function has 2");
    CHECK_STATUS(weft_vmap(pair, NULL, &x, NULL, 1, out, NULL, 3), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "vmap: expected 3 results, the function has 2");
    CHECK_OK(weft_vjp(pair, NULL, &x, 1, ones, out, 1, &grad)); /* the first is enough */
    CHECK_OK(weft_eval(grad));
    weft_scope_close(NULL);
}

static void a_function_that_keeps_asking_for_room_is_refused(void)
{
    weft_compiled *c;
    weft_array *out[4];
    weft_scope_open();
    weft_array *x = vector();
    CHECK_OK(weft_compile(insatiable, NULL, NULL, 0, NULL, &c));
    CHECK_STATUS(weft_compiled_call(c, &x, 1, out, 4), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "after it had asked for room");
    weft_compiled_free(c);
    CHECK_STATUS(weft_export(check_temporary("f.safetensors"), insatiable, NULL, &x, 1),
                 WEFT_INVALID);
    weft_scope_close(NULL);
}

static void files_know_how_many_results_a_function_has(void)
{
    char path[512];
    weft_imported *imported;
    weft_array *out[MANY + 1];
    multiples_call call = {.n = MANY};
    snprintf(path, sizeof path, "%s", check_temporary("many.safetensors"));
    weft_scope_open();
    weft_array *x = vector();
    CHECK_OK(weft_export(path, multiples, &call, &x, 1));
    if (CHECK_OK(weft_import(path, &imported))) {
        CHECK_EQ_INT(weft_imported_call(imported, "main", &x, 1, out, MANY + 1), MANY);
        check_multiples(out, MANY);
        CHECK(out[MANY] == NULL);
        CHECK_EQ_INT(weft_imported_call(imported, "main", &x, 1, out, 3), MANY);
        CHECK_CONTAINS(weft_error(out[2]), "main has 100 results, there is room for 3");
        CHECK_EQ_INT(weft_imported_call(imported, "other", &x, 1, out, 3), 3);
        CHECK_CONTAINS(weft_error(out[2]), "no function other(float32 (3,))");
        weft_imported_free(imported);
    }
    weft_scope_close(NULL);
}

static int in_checkpoint(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return weft_checkpoint(multiples, context, in, n_in, out, room);
}

static void checkpoints_have_up_to_16_results(void)
{
    weft_array *out[WEFT_MAX_OUTPUTS + 1], *grad, *ones[WEFT_MAX_OUTPUTS];
    multiples_call call = {.n = WEFT_MAX_OUTPUTS};
    weft_scope_open();
    weft_array *x = vector();
    CHECK_EQ_INT(weft_checkpoint(multiples, &call, &x, 1, out, WEFT_MAX_OUTPUTS + 1), call.n);
    check_multiples(out, call.n);
    for (int i = 0; i < call.n; i++)
        ones[i] = weft_ones_like(x);
    CHECK_OK(weft_vjp(in_checkpoint, &call, &x, 1, ones, NULL, call.n, &grad));
    CHECK_CLOSE(weft_item(weft_max(grad, WEFT_ALL_AXES, false)), 136, 0);
    weft_scope_close(NULL);
}

CHECK_MAIN("results", CHECK_CASE(a_compiled_function_decides_how_many_results_it_has),
           CHECK_CASE(results_that_do_not_fit_are_an_error),
           CHECK_CASE(too_few_results_are_an_error),
           CHECK_CASE(a_function_that_keeps_asking_for_room_is_refused),
           CHECK_CASE(files_know_how_many_results_a_function_has),
           CHECK_CASE(checkpoints_have_up_to_16_results))
