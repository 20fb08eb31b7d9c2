/* tests/transforms/test_custom.c -- custom rules, results that checkpoints keep, depends, auxiliary
 * results, and the table of rules. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/arrays.h"
#include "weft/backend.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* ---- custom: y = x w, z = sum(sin(y)) ------------------------------------------------------- */

static int vjp_calls, jvp_calls, vmap_calls;
static double twist; /* factor of every rule; other than 1: the derivatives are wrong */

static int product(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_multiply(in[0], in[1]);
    out[1] = weft_sum(weft_sin(out[0]), WEFT_ALL_AXES, false);
    return 2;
}

static void product_vjp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                        int n_out, weft_array *const *cts, weft_array **grads)
{
    (void)context, (void)n_in, (void)n_out;
    vjp_calls++;
    weft_array *ct = weft_add(cts[0], weft_multiply(cts[1], weft_cos(outs[0])));
    ct = weft_scale(ct, twist);
    grads[0] = weft_multiply(ct, in[1]);
    grads[1] = weft_multiply(ct, in[0]);
}

static void product_jvp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                        int n_out, weft_array *const *tangents, weft_array **out)
{
    (void)context, (void)n_in, (void)n_out;
    jvp_calls++;
    out[0] = weft_add(weft_multiply(tangents[0], in[1]), weft_multiply(in[0], tangents[1]));
    out[0] = weft_scale(out[0], twist);
    out[1] = weft_sum(weft_multiply(weft_cos(outs[0]), out[0]), WEFT_ALL_AXES, false);
}

static void product_vmap(void *context, weft_array *const *in, int n_in, const bool *batched,
                         int64_t size, weft_array **outs, int n_out)
{
    (void)context, (void)n_in, (void)n_out, (void)size;
    vmap_calls++;
    weft_array *x = batched[0] ? in[0] : weft_expand_dims(in[0], 0);
    outs[0] = weft_multiply(x, batched[1] ? in[1] : weft_expand_dims(in[1], 0));
    outs[1] = weft_sum(weft_sin(outs[0]), WEFT_DIMS(-1), false);
}

static int customized(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return weft_custom(product, NULL, context, in, n_in, out,
                       room); /* whose rules are the context */
}

static int custom_once(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    static const int first[] = {0, WEFT_NO_AXIS};
    if (weft_vmap(customized, context, in, first, n_in, out, NULL, 2) != WEFT_OK) {
        out[0] = out[1] = weft_error_array("%s", weft_error_message());
    }
    return 2;
}

static int custom_twice(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    static const int second[] = {WEFT_NO_AXIS, 0};
    if (weft_vmap(custom_once, context, in, second, n_in, out, NULL, 2) != WEFT_OK) {
        out[0] = out[1] = weft_error_array("%s", weft_error_message());
    }
    return 2;
}

static int in_checkpoint(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return weft_checkpoint(custom_once, context, in, n_in, out, room);
}

static const weft_custom_rules by_vjp = {.vjp = product_vjp}, by_jvp = {.jvp = product_jvp},
                               by_both = {.vjp = product_vjp, .jvp = product_jvp},
                               by_vmap = {.vmap = product_vmap}, by_nothing = {0};

static void custom_rules_compose(void)
{
    const weft_custom_rules *all[] = {&by_vjp, &by_jvp, &by_both, &by_vmap, &by_nothing};
    weft_function *functions[] = {customized, custom_once, custom_twice, in_checkpoint};
    weft_gradcheck_options options = {.forward = true, .second = true};
    twist = 1;
    for (int r = 0; r < 5; r++) {
        for (int f = 0; f < 4; f++) {
            weft_scope_open();
            weft_array *in[] = {f ? arrays_sine(WEFT_DIMS(2, 4), 1, WEFT_FLOAT64)
                                  : arrays_sine(WEFT_DIMS(4), 1, WEFT_FLOAT64),
                                f == 2 ? arrays_sine(WEFT_DIMS(3, 4), 2, WEFT_FLOAT64)
                                       : arrays_sine(WEFT_DIMS(4), 2, WEFT_FLOAT64)};
            CHECK_OK(weft_gradcheck(functions[f], (void *)(uintptr_t)all[r], in, 2, &options));
            weft_scope_close(NULL);
        }
    }
    CHECK(vjp_calls > 0 && jvp_calls > 0 && vmap_calls > 0);
}

/* Rules that are wrong by a factor make every derivative wrong by the factor: so the rules are
 * used. */
static void custom_rules_replace_derived_ones(void)
{
    const weft_custom_rules *all[] = {&by_vjp, &by_jvp};
    for (int r = 0; r < 2; r++) {
        for (int mapped = 0; mapped < 2; mapped++) {
            weft_function *fn = mapped ? custom_once : customized;
            weft_scope_open();
            weft_array *in[] = {mapped ? arrays_sine(WEFT_DIMS(2, 4), 1, WEFT_FLOAT64)
                                       : arrays_sine(WEFT_DIMS(4), 1, WEFT_FLOAT64),
                                arrays_sine(WEFT_DIMS(4), 2, WEFT_FLOAT64)};
            weft_array *t[] = {weft_ones_like(in[0]), weft_ones_like(in[1])}, *out[2], *to[2];
            weft_array *want[2], *cts[2], *grads[2], *right[2];
            twist = 1;
            CHECK_OK(weft_jvp(fn, (void *)(uintptr_t)all[r], in, 2, t, out, 2, want));
            cts[0] = weft_ones_like(out[0]);
            cts[1] = weft_ones_like(out[1]);
            CHECK_OK(weft_vjp(fn, (void *)(uintptr_t)all[r], in, 2, cts, NULL, 2, right));
            twist = 3;
            CHECK_OK(weft_jvp(fn, (void *)(uintptr_t)all[r], in, 2, t, out, 2, to));
            CHECK_OK(weft_vjp(fn, (void *)(uintptr_t)all[r], in, 2, cts, NULL, 2, grads));
            for (int i = 0; i < 2; i++) {
                arrays_agree(to[i], weft_scale(want[i], 3), 1e-13, "tangent");
                arrays_agree(grads[i], weft_scale(right[i], 3), 1e-13, "gradient");
            }
            weft_scope_close(NULL);
        }
    }
}

/* Many results, for which it asks. */
enum { MANY = WEFT_MAX_OUTPUTS + 1 };

static int many(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in;
    for (int i = 0; i < MANY && room >= MANY; i++) {
        out[i] = in[0];
    }
    return MANY;
}

static void custom_refuses_too_many_results(void)
{
    weft_scope_open();
    weft_array *x = arrays_sine(WEFT_DIMS(2), 0, WEFT_FLOAT64), *out[MANY];
    CHECK_EQ_INT(weft_custom(many, NULL, &by_nothing, &x, 1, out, MANY), MANY);
    CHECK(!weft_ok(out[0]));
    CHECK_CONTAINS(weft_error(out[MANY - 1]), "at most 62 arguments and 16 results, got 1 and 17");
    weft_scope_close(NULL);
}

/* ---- results that checkpoints keep ---------------------------------------------------------- */

static int layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *h = weft_linear(in[0], in[1], NULL);
    h = weft_checkpoint_name(weft_softmax(h, -1), "scores");
    h = weft_matmul(h, in[1]);
    weft_array *heads = weft_reshape(h, WEFT_DIMS(1, 4, 1, 4));
    h = weft_reshape(weft_attention(heads, heads, heads, NULL), WEFT_DIMS(4, 4));
    out[0] = weft_add(in[0], weft_tanh(h));
    return 1;
}

static int layers(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const weft_checkpoint_options *options = context;
    (void)n_in, (void)room;
    weft_array *inputs[] = {in[0], in[1]};
    for (int i = 0; i < 3; i++) {
        if (options) {
            weft_checkpoint_with(layer, NULL, inputs, 2, inputs, 1, options);
        } else {
            layer(NULL, inputs, 2, inputs, 1);
        }
    }
    out[0] = inputs[0];
    return 1;
}

static weft_array *layers_loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *y;
    layers(context, in, n_in, &y, 1);
    return weft_sum(weft_square(y), WEFT_ALL_AXES, false);
}

/* How often an op runs in an evaluation of the value and the gradients. */
static int64_t times(weft_checkpoint_options *options, const char *op, weft_array **grads)
{
    weft_op_report ops[64];
    weft_array *in[] = {arrays_sine(WEFT_DIMS(4, 4), 1, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(4, 4), 5, WEFT_FLOAT64)};
    weft_device *device = weft_default_device();
    weft_array *value = weft_value_and_grad(layers_loss, options, in, 2, grads);
    CHECK_OK(weft_device_profile(device, true));
    CHECK_OK(weft_eval_n((weft_array *[]){value, grads[0], grads[1]}, 3));
    int64_t calls = 0;
    int n = weft_device_report(device, ops, 64, NULL);
    for (int i = 0; i < n; i++) {
        const weft_counts *ran = &ops[i].ran;
        calls += strcmp(ops[i].op, op) == 0 ? ran->rows + ran->references + ran->expansions : 0;
    }
    CHECK_OK(weft_device_profile(device, false));
    return calls;
}

static void checkpoints_keep_the_results_of_their_policy(void)
{
    static const char *const products[] = {"linear", "matmul", "attention", NULL};
    static const char *const names[] = {"other", "scores", NULL};
    weft_checkpoint_options nothing = {0};
    weft_checkpoint_options ops = {.keep = weft_keep_ops, .context = (void *)(uintptr_t)products};
    weft_checkpoint_options named = {.keep = weft_keep_named, .context = (void *)(uintptr_t)names};
    static const struct {
        const char *op;
        int64_t again[3]; /* runs more than without checkpoints: nothing kept, ops, named */
    } expected[] = {{"softmax", {3, 3, 0}}, {"attention", {3, 0, 3}}, {"linear", {3, 0, 0}}};
    weft_checkpoint_options *all[] = {&nothing, &ops, &named};
    for (int e = 0; e < 3; e++) {
        weft_scope_open();
        weft_array *want[2], *grads[2];
        int64_t plain = times(NULL, expected[e].op, want);
        CHECK(plain >= 3);
        for (int k = 0; k < 3; k++) {
            int64_t with = times(all[k], expected[e].op, grads);
            if (with - plain != expected[e].again[k]) {
                CHECK_FAIL("%s, policy %d: %lld runs more, expected %lld", expected[e].op, k,
                           (long long)(with - plain), (long long)expected[e].again[k]);
            }
            for (int i = 0; i < 2; i++) {
                arrays_agree(grads[i], want[i], 1e-14, "gradient");
            }
        }
        weft_scope_close(NULL);
    }
}

static void kept_results_compose(void)
{
    static const char *const products[] = {"linear", "softmax", "attention", NULL};
    weft_checkpoint_options ops = {.keep = weft_keep_ops, .context = (void *)(uintptr_t)products};
    weft_gradcheck_options options = {.forward = true, .second = true, .max_elements = 6};
    weft_scope_open();
    weft_array *in[] = {arrays_sine(WEFT_DIMS(4, 4), 1, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(4, 4), 5, WEFT_FLOAT64)},
               *batch[2];
    CHECK_OK(weft_gradcheck(layers, &ops, in, 2, &options));
    weft_array *both[] = {in[0], weft_scale(in[0], 0.5)}, *y[2];
    static const int axes[] = {0, WEFT_NO_AXIS};
    batch[0] = weft_stack(both, 2, 0);
    batch[1] = in[1];
    CHECK_OK(weft_vmap(layers, &ops, batch, axes, 2, y, NULL, 1));
    layers(NULL, (weft_array *[]){both[1], in[1]}, 2, y + 1, 1);
    arrays_agree(weft_squeeze(weft_slice_axis(y[0], 0, 1, 2), 0), y[1], 1e-13, "mapped");
    weft_scope_close(NULL);
}

/* ---- depends, results beside the value ------------------------------------------------------ */

static int through_depends(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *after[] = {weft_exp(in[0]), weft_sin(in[1])}, *x[] = {in[0], in[1]};
    weft_depends(x, 2, after, 2, x);
    out[0] = weft_multiply(x[0], weft_square(x[1]));
    return 1;
}

static void depends_is_the_same_values(void)
{
    weft_gradcheck_options options = {.forward = true, .second = true};
    weft_scope_open();
    weft_array *in[] = {arrays_sine(WEFT_DIMS(3), 1, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(3), 5, WEFT_FLOAT64)},
               *y[2], *bad;
    CHECK_OK(weft_gradcheck(through_depends, NULL, in, 2, &options));
    CHECK_OK(weft_vmap(through_depends, NULL, in, NULL, 2, y, NULL, 1));
    through_depends(NULL, in, 2, y + 1, 1);
    arrays_agree(y[0], y[1], 0, "mapped");
    bad = weft_error_array("no such thing");
    weft_depends(in, 1, &bad, 1, y);
    CHECK_CONTAINS(weft_error(y[0]), "no such thing");
    weft_depends(in, 1, NULL, 0, y);
    CHECK(y[0] == in[0]);
    weft_scope_close(NULL);
}

static int loss_and_more(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[1] = weft_multiply(in[0], in[1]);
    out[2] = weft_argmax(in[2], -1, false);
    out[0] = weft_sum(weft_multiply(out[1], in[2]), WEFT_ALL_AXES, false);
    return 3;
}

static weft_array *only_loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *out[3];
    loss_and_more(context, in, n_in, out, 3);
    return out[0];
}

static void chosen_arguments_and_results_beside_the_value(void)
{
    static const int argnums[] = {2, 0}, wrong[] = {3};
    weft_scope_open();
    weft_array *in[] = {arrays_sine(WEFT_DIMS(3), 1, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(3), 5, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(3), 9, WEFT_FLOAT64)};
    weft_array *out[3], *grads[3];
    CHECK_OK(weft_value_and_grad_aux(loss_and_more, NULL, in, 3, argnums, 2, out, 3, grads));
    CHECK_OK(weft_eval_n((weft_array *[]){out[1], grads[0], grads[1]}, 3));
    arrays_agree(grads[0], weft_multiply(in[0], in[1]), 1e-15, "gradient 2");
    arrays_agree(grads[1], weft_multiply(in[1], in[2]), 1e-15, "gradient 0");
    arrays_agree(out[1], weft_multiply(in[0], in[1]), 0, "beside");
    CHECK_EQ_INT(weft_dtype_of(out[2]), WEFT_UINT32);
    CHECK_OK(weft_grad(only_loss, NULL, in, 3, NULL, 0, grads));
    arrays_agree(grads[1], weft_multiply(in[0], in[2]), 1e-15, "gradient 1");
    CHECK_STATUS(weft_grad(only_loss, NULL, in, 3, wrong, 1, grads), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "argument 3 of 3");
    weft_scope_close(NULL);
}

/* ---- which rule ----------------------------------------------------------------------------- */

static void ops_use_the_expected_rules(void)
{
    static const struct {
        const char *op, *vjp, *jvp, *vmap;
    } expected[] = {
        {"multiply", "partial", "partial", "leading axis"},
        {"sum", "own", "linear", "leading axis"},
        {"matmul", "own", "twice", "own"},
        {"softmax_grad", "expansion", "expansion", "leading axis"},
        {"less", "zero", "zero", "leading axis"},
        {"full", "zero", "zero", "zero"},
        {"random_bits", "zero", "zero", "leading axis"},
        {"adamw", "expansion", "expansion", "expansion"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const weft_op *op = weft_op_find(expected[i].op);
        if (!CHECK(op != NULL)) {
            continue;
        }
        weft_op_rules rules = weft_op_rules_of(op);
        CHECK_STR(weft_rule_name(rules.vjp), expected[i].vjp);
        CHECK_STR(weft_rule_name(rules.jvp), expected[i].jvp);
        CHECK_STR(weft_rule_name(rules.vmap), expected[i].vmap);
    }
}

CHECK_MAIN("custom", CHECK_CASE(custom_rules_compose),
           CHECK_CASE(custom_rules_replace_derived_ones),
           CHECK_CASE(custom_refuses_too_many_results),
           CHECK_CASE(checkpoints_keep_the_results_of_their_policy),
           CHECK_CASE(kept_results_compose), CHECK_CASE(depends_is_the_same_values),
           CHECK_CASE(chosen_arguments_and_results_beside_the_value),
           CHECK_CASE(ops_use_the_expected_rules))
