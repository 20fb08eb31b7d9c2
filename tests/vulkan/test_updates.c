/* tests/vulkan/test_updates.c -- training updates with launches recorded in batches: the same bits
 * as one launch at a time, for each optimizer and with several micro-batches; and the number of
 * commands and barriers of an update. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/batch.h"
#include "backends/vulkan/pace.h"
#include "tests/vulkan/both.h"
#include "weft/weft.h"

static const char config_format[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": 64, \"intermediate_size\": "
    "96, \"num_hidden_layers\": %d, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"head_dim\": 32, \"max_position_embeddings\": 64, \"rope_theta\": 10000.0, "
    "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true}";

enum { BATCH = 2, LENGTH = 8, STEPS = 3, RANK = 64 };

typedef struct recipe {
    const char *name;
    int layers;
    weft_dtype dtype;         /* of the model */
    weft_dtype adapter_dtype; /* 0: the model's */
    const weft_optim_type *optimizer;
    int64_t micro_batch;
    bool compile;
} recipe;

/* Counts of the last step. */
typedef struct result {
    int64_t launches, commands, barriers;
    double loss, norm;
    int n;
    float *parameters;
} result;

static int64_t counter(const char *name)
{
    weft_counter all[16];
    const int n = weft_device_counters(weft_default_device(), all, 16);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].value;
    return -1;
}

static weft_model *make_model(const recipe *r)
{
    char text[600];
    weft_config *config = NULL;
    weft_model *model = NULL;
    const char *const all[] = {WEFT_LORA_ALL_LINEAR};
    const weft_nn_lora_options lora = {.rank = RANK, .targets = all, .n_targets = 1};
    snprintf(text, sizeof text, config_format, r->layers);
    weft_random_seed(5);
    if (!CHECK_OK(weft_config_parse(text, "test", &config)) ||
        !CHECK_OK(weft_model_new(config, &model)) ||
        !CHECK_OK(weft_nn_cast(weft_model_module(model), r->dtype)) ||
        !CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &lora)))
        return NULL;
    weft_config_free(config);
    return model;
}

static void step(weft_trainer *trainer, int i, result *out)
{
    weft_scope_open();
    weft_array *ids = weft_random_randint(weft_random_key((uint64_t)i + 1),
                                          WEFT_DIMS(BATCH, LENGTH), 0, 64, WEFT_INT32);
    const weft_batch batch = {
        .tokens = ids, .targets = ids, .n_targets = BATCH * LENGTH, .n_tokens = BATCH * LENGTH};
    weft_train_report report = {0};
    CHECK_OK(weft_eval(ids));
    CHECK_OK(weft_device_profile(weft_default_device(), true));
    CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &report));
    out->launches = counter("launches");
    out->commands = counter("commands");
    out->barriers = counter("barriers");
    out->loss = report.loss;
    CHECK_OK(weft_device_profile(weft_default_device(), false));
    weft_scope_close(NULL);
}

static void read_parameters(weft_model *model, result *out)
{
    weft_nn_slots slots;
    int64_t size = 0, at = 0;
    weft_scope_open();
    if (CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots))) {
        for (int i = 0; i < slots.n; i++)
            size += weft_size(*slots.slots[i]);
        out->parameters = calloc((size_t)size, sizeof(float));
        for (int i = 0; i < slots.n && out->parameters; i++) {
            const int64_t n = weft_size(*slots.slots[i]);
            CHECK_OK(weft_read(*slots.slots[i], WEFT_FLOAT32, out->parameters + at, n));
            at += n;
        }
        weft_nn_slots_free(&slots);
    }
    out->n = (int)size;
    weft_scope_close(NULL);
}

static result train(const recipe *r, bool batched)
{
    result out = {0};
    weft__vulkan_unbatched = !batched;
    weft_set_default_device(weft_device_get("vulkan"));
    weft_model *model = make_model(r);
    weft_trainer *trainer = NULL;
    const weft_trainer_options o = {.lr = 1e-2,
                                    .clip = 0.5,
                                    .optimizer = r->optimizer,
                                    .micro_batch = r->micro_batch,
                                    .compile = r->compile};
    if (model && CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        for (int i = 0; i < STEPS; i++)
            step(trainer, i, &out);
        read_parameters(model, &out);
    }
    weft_trainer_free(trainer);
    weft_model_free(model);
    weft_set_default_device(weft_device_get("cpu"));
    weft__vulkan_unbatched = false;
    return out;
}

static void check_bits(const recipe *r)
{
    result alone = train(r, false), together = train(r, true);
    printf("%s: %lld launches; %lld commands, %lld barriers\n", r->name,
           (long long)together.launches, (long long)together.commands,
           (long long)together.barriers);
    CHECK(alone.commands >= alone.launches); /* the others are copies */
    CHECK_EQ_INT(together.launches, alone.launches);
    /* Submissions after other numbers of commands may add a barrier. */
    CHECK(together.barriers <= alone.barriers + 2);
    check_that(together.commands < alone.commands, __FILE__, __LINE__, "%s: no batches", r->name);
    check_that(alone.loss == together.loss, __FILE__, __LINE__, "%s: loss %g, %g", r->name,
               alone.loss, together.loss);
    check_that(alone.n > 0 && alone.n == together.n &&
                   memcmp(alone.parameters, together.parameters, (size_t)alone.n * sizeof(float)) ==
                       0,
               __FILE__, __LINE__, "%s: other bits", r->name);
    free(alone.parameters);
    free(together.parameters);
}

static void batches_change_no_bits(void)
{
    static const recipe recipes[] = {
        {.name = "adamw", .dtype = WEFT_BFLOAT16, .optimizer = &weft_optim_adamw},
        {.name = "adamw, compiled",
         .dtype = WEFT_BFLOAT16,
         .optimizer = &weft_optim_adamw,
         .compile = true},
        {.name = "adamw, micro-batches",
         .dtype = WEFT_FLOAT32,
         .optimizer = &weft_optim_adamw,
         .micro_batch = 1},
        {.name = "adamw8bit", .dtype = WEFT_FLOAT16, .optimizer = &weft_optim_adamw8bit},
        {.name = "adamw16bit", .dtype = WEFT_BFLOAT16, .optimizer = &weft_optim_adamw16bit},
        {.name = "lion", .dtype = WEFT_BFLOAT16, .optimizer = &weft_optim_lion},
    };
    if (!both_there())
        return;
    weft__vulkan_most_work = 1e18; /* no bound of a submission ends a batch */
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        recipe r = recipes[i];
        r.layers = 2;
        check_bits(&r);
    }
}

/* ---- Commands of the optimizer -------------------------------------------------------------- */

enum { MOST_PARAMETERS = 300 };

/* Parameters of three sizes: below and above the number of elements from which a sum has parts. */
static weft_array *parameter(int i, weft_dtype dtype)
{
    static const int64_t widths[] = {40, 1000, 3};
    return both_draw(WEFT_DIMS(16, widths[i % 3]), dtype, -1, 1);
}

/* Counts of the second update of n parameters, clipped. */
static result optimize(const weft_optim_type *type, weft_dtype dtype, int n)
{
    static weft_array *parameters[MOST_PARAMETERS];
    static weft_array **slots[MOST_PARAMETERS];
    static char names[MOST_PARAMETERS][8];
    static char *paths[MOST_PARAMETERS];
    weft_array *gradients[MOST_PARAMETERS];
    const weft_nn_slots all = {.n = n, .slots = slots, .paths = paths};
    const weft_optim_group group = {.type = type, .learning_rate = 1e-2};
    weft_optim *optimizer = NULL;
    result out = {0};
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        paths[i] = names[i];
        slots[i] = &parameters[i];
        CHECK_OK(weft_set(slots[i], parameter(i, dtype)));
        gradients[i] = parameter(i + 3, dtype);
    }
    CHECK_OK(weft_eval_n(gradients, n));
    if (CHECK_OK(weft_optim_new(&all, &group, 1, &optimizer))) {
        for (int i = 0; i < 2; i++) {
            weft_optim_call call = {.lr_factor = 1, .clip = 0.5};
            CHECK_OK(weft_device_profile(weft_default_device(), true));
            CHECK_OK(weft_optim_apply(optimizer, gradients, &call));
            CHECK(call.applied);
            out.launches = counter("launches");
            out.commands = counter("commands");
            out.barriers = counter("barriers");
            CHECK_OK(weft_device_profile(weft_default_device(), false));
        }
    }
    weft_optim_free(optimizer);
    weft_scope_close(NULL);
    for (int i = 0; i < n; i++)
        CHECK_OK(weft_set(slots[i], NULL));
    return out;
}

/* The same number for any number of parameters. */
static void the_optimizer_takes_few_commands(void)
{
    static const struct {
        const weft_optim_type *type;
        weft_dtype dtype;
        const char *name;
    } forms[] = {{&weft_optim_adamw, WEFT_FLOAT32, "adamw, float32"},
                 {&weft_optim_adamw, WEFT_BFLOAT16, "adamw, bfloat16"}, /* with master copies */
                 {&weft_optim_adamw8bit, WEFT_FLOAT32, "adamw8bit, float32"},
                 {&weft_optim_adamw16bit, WEFT_BFLOAT16, "adamw16bit, bfloat16"}};
    if (!both_there())
        return;
    weft__vulkan_most_work = 1e18; /* no bound of a submission ends a batch */
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const result few = optimize(forms[i].type, forms[i].dtype, 6);
        const result many = optimize(forms[i].type, forms[i].dtype, MOST_PARAMETERS);
        printf("%s: %lld launches, %lld commands, %lld barriers\n", forms[i].name,
               (long long)many.launches, (long long)many.commands, (long long)many.barriers);
        CHECK_EQ_INT(many.commands, few.commands);
        CHECK_EQ_INT(many.barriers, few.barriers);
    }
    weft_set_default_device(weft_device_get("cpu"));
}

/* Each launch of a batch has the workgroups of the largest one. */
static void large_launches_are_commands_of_their_own(void)
{
    enum { N = 6, LARGE = 1 << 23 };
    weft_array *casts[N];
    if (!both_there())
        return;
    weft__vulkan_most_work = 1e18; /* no bound of a submission ends a batch */
    weft_set_default_device(weft_device_get("vulkan"));
    weft_scope_open();
    for (int i = 0; i < N; i++)
        casts[i] = weft_full(WEFT_DIMS(i % 3 == 2 ? LARGE : 100 + i), i, WEFT_FLOAT32);
    CHECK_OK(weft_eval_n(casts, N));
    for (int i = 0; i < N; i++)
        casts[i] = weft_astype(casts[i], WEFT_BFLOAT16);
    CHECK_OK(weft_device_profile(weft_default_device(), true));
    CHECK_OK(weft_eval_n(casts, N));
    CHECK_EQ_INT(counter("launches"), N);
    CHECK_EQ_INT(counter("commands"), 3); /* four small launches, and two large ones */
    CHECK_OK(weft_device_profile(weft_default_device(), false));
    for (int i = 0; i < N; i++)
        CHECK(weft_item(weft_max(casts[i], WEFT_ALL_AXES, false)) == i);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_updates", CHECK_CASE(batches_change_no_bits),
           CHECK_CASE(the_optimizer_takes_few_commands),
           CHECK_CASE(large_launches_are_commands_of_their_own))
