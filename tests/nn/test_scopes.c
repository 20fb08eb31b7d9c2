/* tests/nn/test_scopes.c -- modules, optimizers and caches leave only their results in the caller's
 * scope, and own the parameters they are built from. */
#include "tests/check.h"
#include "weft/cache.h"
#include "weft/layers.h"
#include "weft/nn.h"
#include "weft/nn_tools.h"
#include "weft/ops.h"
#include "weft/optim.h"
#include "weft/random.h"

static weft_array *uniform(weft_dims shape)
{
    return weft_random_uniform(NULL, shape, -1, 1, WEFT_FLOAT32);
}

/* Whether the scope has `more` arrays than `before`. */
static void left(const char *what, int64_t before, int64_t more)
{
    const int64_t now = weft_scope_count();
    if (now - before != more) {
        CHECK_FAIL("%s: %lld more arrays in the scope, expected %lld", what,
                   (long long)(now - before), (long long)more);
    }
}

/* ---- modules -------------------------------------------------------------------------------- */

/* A module built and called on x leaves one array; in training too. */
static void built_and_called(const char *what, int64_t before, weft_module *m, weft_dims shape)
{
    left(what, before, 0);
    CHECK(m != NULL);
    weft_array *x = uniform(shape);
    for (int training = 0; training < 2 && m; training++) {
        weft_nn_train(m, training);
        const int64_t now = weft_scope_count();
        weft_array *y = weft_nn_call(m, x);
        CHECK(weft_ok(y));
        left(what, now, y != x);
    }
    weft_nn_free(m);
}

#define LEAVES(module, ...)                                                                        \
    do {                                                                                           \
        const int64_t before = weft_scope_count();                                                 \
        built_and_called(#module, before, module, WEFT_DIMS(__VA_ARGS__));                         \
    } while (0)

static void modules_of_one_array_leave_their_result(void)
{
    const weft_dims two = WEFT_DIMS(2), none = {0};
    const double scale[] = {2, 2};
    weft_scope_open();
    LEAVES(weft_nn_linear_new(3, 4, true), 2, 3);
    LEAVES(weft_nn_rms_norm_new(4, 0), 2, 4);
    LEAVES(weft_nn_layer_norm_new(4, 0, true), 2, 4);
    LEAVES(weft_nn_dropout_new(0.5), 2, 4);
    LEAVES(weft_nn_dropout2d_new(0.5), 1, 2, 2, 4);
    LEAVES(weft_nn_dropout3d_new(0.5), 1, 2, 2, 2, 4);
    LEAVES(weft_nn_activation_new("gelu"), 4);
    LEAVES(weft_nn_activation_with("leaky_relu", 0.1), 4);
    LEAVES(weft_nn_prelu_new(1, 0.25), 4);
    LEAVES(weft_nn_batch_norm_new(3, NULL), 4, 3);
    LEAVES(weft_nn_group_norm_new(2, 4, NULL), 2, 5, 4);
    LEAVES(weft_nn_instance_norm_new(3, 0, true), 2, 5, 3);
    LEAVES(weft_nn_rope_new(4, false, 10000, 1), 1, 2, 3, 4);
    LEAVES(weft_nn_sinusoidal_new(4, NULL), 3);
    LEAVES(weft_nn_conv1d_new(2, 3, two, NULL), 1, 6, 2);
    LEAVES(weft_nn_conv2d_new(2, 3, WEFT_DIMS(2, 2), NULL), 1, 6, 6, 2);
    LEAVES(weft_nn_conv_transpose1d_new(2, 3, two, NULL), 1, 6, 2);
    LEAVES(weft_nn_max_pool1d_new(two, none, none), 1, 6, 2);
    LEAVES(weft_nn_avg_pool2d_new(WEFT_DIMS(2, 2), none, none), 1, 6, 6, 2);
    LEAVES(weft_nn_upsample_new(scale, 2, NULL), 1, 3, 3, 2);
    LEAVES(weft_nn_identity_new(), 3);
    weft_scope_close(NULL);
}

static void modules_of_several_arrays_leave_their_results(void)
{
    weft_array *cells;
    weft_scope_open();
    int64_t before = weft_scope_count();
    weft_module *modules[] = {
        weft_nn_embedding_new(5, 4),
        weft_nn_bilinear_new(4, 4, 2, true),
        weft_nn_rnn_new(4, 3, true, NULL),
        weft_nn_gru_new(4, 3, true),
        weft_nn_lstm_new(4, 3, true),
        weft_nn_multi_head_attention_new(4, 2, NULL),
        weft_nn_encoder_new(2, 4, 2, NULL),
        weft_nn_decoder_new(1, 4, 2, NULL),
        weft_nn_alibi_new(),
    };
    enum { MODULES = sizeof modules / sizeof *modules };
    left("constructors", before, 0);
    weft_array *x = uniform(WEFT_DIMS(2, 3, 4));
    weft_array *ids = weft_random_randint(NULL, WEFT_DIMS(2, 3), 0, 5, WEFT_INT32);
    weft_array *scores = uniform(WEFT_DIMS(1, 2, 3, 3));
    before = weft_scope_count();
    weft_array *results[] = {
        weft_nn_call(modules[0], ids),
        weft_nn_embedding_head(modules[0], x),
        weft_nn_bilinear_call(modules[1], x, x),
        weft_nn_rnn_call(modules[2], x, NULL),
        weft_nn_gru_call(modules[3], x, NULL),
        weft_nn_lstm_call(modules[4], x, NULL, NULL, &cells),
        weft_nn_multi_head_attention_call(modules[5], x, x, x, NULL),
        weft_nn_encoder_call(modules[6], x, NULL),
        weft_nn_decoder_call(modules[7], x, x, NULL, NULL),
        weft_nn_alibi_call(modules[8], scores, 0, NULL),
    };
    enum { RESULTS = sizeof results / sizeof *results };
    left("calls", before, RESULTS + 1); /* and the cells */
    for (int i = 0; i < RESULTS; i++) {
        CHECK_OK(weft_eval(results[i]));
    }
    CHECK_OK(weft_eval(cells));
    for (int i = 0; i < MODULES; i++) {
        weft_nn_free(modules[i]);
    }
    weft_scope_close(NULL);
}

static weft_array *squares(void *context)
{
    weft_module *m = context;
    weft_array *x = weft_ones(WEFT_DIMS(2, 32), WEFT_FLOAT32);
    return weft_mean(weft_square(weft_nn_call(m, x)), WEFT_ALL_AXES, false);
}

static void tools_for_modules_leave_nothing(void)
{
    weft_scope_open();
    int64_t before = weft_scope_count();
    static const char *const targets[] = {"all-linear"};
    weft_module *m = weft_nn_sequential_new(2);
    weft_nn_sequential_append(m, weft_nn_linear_new(32, 32, true));
    weft_nn_sequential_append(m, weft_nn_linear_new(32, 32, true));
    CHECK_OK(weft_nn_eval(m));
    CHECK_OK(weft_nn_cast(m, WEFT_BFLOAT16));
    CHECK_OK(weft_nn_cast(m, WEFT_FLOAT32));
    CHECK_OK(weft_nn_lora_inject(
        m, &(weft_nn_lora_options){.rank = 2, .alpha = 4, .targets = targets, .n_targets = 1}));
    CHECK_OK(weft_nn_lora_merge(m));
    CHECK_OK(weft_nn_lora_unmerge(m));
    left("tools", before, 0);
    weft_nn_gradients gradients;
    weft_array *value = weft_nn_value_and_grad(m, squares, m, &gradients);
    left("value_and_grad", before, 1 + gradients.parameters.n);
    CHECK_OK(weft_eval(value));
    weft_nn_gradients_free(&gradients);
    weft_nn_lora_remove(m);
    weft_nn_unfreeze(m);
    before = weft_scope_count();
    const weft_nn_quantize_options codes = {.format = {.group_size = 32}};
    CHECK_OK(weft_nn_quantize(m, &codes));
    left("quantize", before, 0);
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* A replaced parameter is freed although the scope of its constructor is open. */
static void modules_own_their_parameters(void)
{
    enum { WIDE = 256, BYTES = 4 * WIDE * WIDE };
    weft_scope_open();
    weft_module *m = weft_nn_linear_new(WIDE, WIDE, false);
    CHECK_OK(weft_nn_eval(m));
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    weft_array **slot = weft_nn_find(m, "weight");
    for (int i = 0; i < 4; i++) {
        weft_scope_open();
        weft_array *value = weft_scale(*slot, 0.5);
        CHECK_OK(weft_update(&slot, &value, 1));
        weft_scope_close(NULL);
    }
    CHECK(weft_memory_peak() - before < BYTES / 2);
    weft_nn_free(m);
    CHECK(weft_memory_active() <= before - BYTES);
    weft_scope_close(NULL);
}

/* ---- optimizers ----------------------------------------------------------------------------- */

static void optimizers_leave_nothing(void)
{
    weft_scope_open();
    for (int i = 0; weft_optim_type_at(i); i++) {
        const weft_optim_type *type = weft_optim_type_at(i);
        weft_scope_open();
        weft_module *m = weft_nn_linear_new(4, 4, true);
        weft_nn_slots parameters;
        weft_optim *optimizer = NULL;
        weft_array *grads[2];
        CHECK_OK(weft_nn_trainable(m, &parameters));
        int64_t before = weft_scope_count();
        const weft_optim_group group = {.type = type, .learning_rate = 1e-2};
        CHECK_OK(weft_optim_new(&parameters, &group, 1, &optimizer));
        left(type->name, before, 0);
        for (int k = 0; k < parameters.n; k++) {
            grads[k] = weft_ones_like(*parameters.slots[k]);
        }
        before = weft_scope_count();
        CHECK_OK(weft_optim_update(optimizer, grads));
        CHECK_OK(weft_optim_update(optimizer, grads));
        left(type->name, before, 0);
        weft_array *norm = weft_global_norm(grads, parameters.n);
        left("global_norm", before, 1);
        CHECK_OK(weft_eval(norm));
        weft_optim_free(optimizer);
        weft_nn_slots_free(&parameters);
        weft_nn_free(m);
        weft_scope_close(NULL);
    }
    weft_scope_close(NULL);
}

/* ---- caches --------------------------------------------------------------------------------- */

static void caches_leave_only_their_views(void)
{
    weft_scope_open();
    const weft_attention_options options = {.causal = true};
    weft_cache *cache = weft_cache_new();
    weft_array *k = uniform(WEFT_DIMS(1, 3, 2, 8)), *q = uniform(WEFT_DIMS(1, 3, 2, 8));
    int64_t before = weft_scope_count();
    weft_cache_view view = weft_cache_update(cache, k, k);
    weft_array *y = weft_cache_attention(q, &view, &options);
    CHECK_OK(weft_eval(y));
    CHECK(weft_scope_count() - before <= 3); /* keys and values of the view, y */
    before = weft_scope_count();
    CHECK_OK(weft_cache_trim(cache, 1));
    weft_cache *copy = weft_cache_copy(cache);
    weft_cache_free(copy);
    weft_cache_reset(cache);
    left("trim, copy and reset", before, 0);
    weft_cache_free(cache);
    weft_scope_close(NULL);
}

CHECK_MAIN("nn_scopes", CHECK_CASE(modules_of_one_array_leave_their_result),
           CHECK_CASE(modules_of_several_arrays_leave_their_results),
           CHECK_CASE(tools_for_modules_leave_nothing), CHECK_CASE(modules_own_their_parameters),
           CHECK_CASE(optimizers_leave_nothing), CHECK_CASE(caches_leave_only_their_views))
