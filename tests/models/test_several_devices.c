/* tests/models/test_several_devices.c -- a model whose layers are on several devices: where each
 * parameter and cache is, and the bits of one device for forward passes, generation, training,
 * resumed runs and saved adapters. The devices are two test-only ones, and Vulkan's first one,
 * opened twice, if WEFT_TEST_DEVICE names Vulkan. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/hidden.h"
#include "tests/train/recipes.h"
#include "weft/batch.h"
#include "weft/device.h"
#include "weft/generate.h"
#include "weft/train.h"

enum { TOTAL = 16, MOST_STEPS = 32, STEPS = 2 };

/* The names of the devices over which the layers are spread. */
static const char *spread(void)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    const bool vulkan = device && strncmp(device, "vulkan", 6) == 0;
    CHECK(hidden_device() != NULL);
    return vulkan ? "vulkan,vulkan:1" : "hidden,hidden:1";
}

static const char *one(void)
{
    return spread()[0] == 'v' ? "vulkan" : "hidden";
}

static weft_model *load_with(const char *name, const char *names, weft_model_options o)
{
    weft_device *devices[WEFT_MODEL_DEVICES];
    char path[256];
    weft_model *model = NULL;
    if (!CHECK_OK(weft_devices_get(names, devices, WEFT_MODEL_DEVICES, &o.n_devices)))
        return NULL;
    o.devices = devices;
    snprintf(path, sizeof path, "models/%s", name);
    CHECK_OK(weft_model_load(check_fixture(path), &o, &model));
    return model;
}

static weft_model *load(const char *name, const char *names)
{
    return load_with(name, names, (weft_model_options){0});
}

/* ---- names ---------------------------------------------------------------------------------- */

static void lists_of_names_are_read(void)
{
    weft_device *out[2];
    int n;
    CHECK(hidden_device() != NULL);
    CHECK_OK(weft_devices_get("hidden", out, 2, &n));
    CHECK(n == 1 && out[0] == hidden_device());
    CHECK_OK(weft_devices_get("hidden:1,cpu", out, 2, &n));
    CHECK(n == 2 && out[0] == weft_device_get("hidden:1") && out[1] == weft_device_get("cpu"));
    CHECK_STATUS(weft_devices_get("cpu,hidden,hidden:1", out, 2, &n), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "at most 2");
    CHECK_STATUS(weft_devices_get("cpu,hidden,cpu:0", out, 2, &n), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "listed twice");
    static const char *const wrong[] = {"",        "cpu,", ",cpu", "cpu,,hidden", "cpu,nowhere",
                                        "cpu, cpu"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STATUS(weft_devices_get(wrong[i], out, 2, &n), WEFT_DEVICE);
}

/* ---- devices of parameters and caches ------------------------------------------------------- */

typedef struct expected {
    weft_device *first, *last;
    int n;
} expected;

/* Of models with two layers: an independent implementation of the contract. */
static weft_status check_place(void *context, const weft_nn_item *item)
{
    expected *e = context;
    const bool first = strncmp(item->path, "model.layers.0.", 15) == 0 ||
                       strcmp(item->path, "model.embed_tokens.weight") == 0;
    if (!CHECK(weft_device_of(*item->slot->address) == (first ? e->first : e->last)))
        CHECK_FAIL("%s", item->path);
    e->n++;
    return WEFT_OK;
}

static expected expect(void)
{
    weft_device *devices[2] = {NULL};
    int n = 0;
    CHECK_OK(weft_devices_get(spread(), devices, 2, &n));
    return (expected){devices[0], devices[1], 0};
}

static void parameters_are_where_their_layer_is(void)
{
    static const char *const models[] = {"llama", "qwen3", "qwen2"}; /* the last is tied */
    for (int i = 0; i < 3; i++) {
        weft_model *model = load(models[i], spread());
        expected e = expect();
        const weft_nn_lora_options o = {.n_targets = 1, .targets = (const char *[]){"down_proj"}};
        if (model == NULL)
            continue;
        CHECK_EQ_INT(weft_model_info_of(model)->tied, i == 2);
        CHECK_EQ_INT(weft_model_info_of(model)->n_layers, 2);
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
        CHECK_OK(weft_nn_visit(weft_model_module(model), check_place, &e));
        CHECK(e.n > 20);
        weft_scope_open();
        CHECK(weft_device_of(weft_model_head_weight(model)) == e.last);
        weft_scope_close(NULL);
        weft_model_free(model);
    }
}

static void what_excludes_several_devices_is_refused(void)
{
    weft_device *devices[] = {weft_device_get("cpu"), hidden_device()};
    const weft_model_options wrong[] = {
        {.devices = devices, .n_devices = 2, .gpu_layers = 1},
        {.devices = devices, .n_devices = 2, .stream = true},
        {.devices = devices, .n_devices = WEFT_MODEL_DEVICES + 1},
    };
    weft_model *model = NULL;
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(weft_model_load(check_fixture("models/llama"), &wrong[i], &model),
                     WEFT_INVALID);
    const weft_model_options two = {.devices = devices, .n_devices = 2};
    CHECK_STATUS(weft_model_load(check_fixture("models/bert"), &two, &model), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "bert models compute on one device");
}

/* ---- forward -------------------------------------------------------------------------------- */

static double logits_difference(weft_model *a, weft_model *b)
{
    int32_t ids[2 * 9];
    for (int i = 0; i < 18; i++)
        ids[i] = 1 + 7 * i % 50;
    weft_scope_open();
    weft_device *cpu = weft_device_get("cpu");
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2, 9));
    weft_array *x = weft_to(weft_model_forward(a, tokens, NULL), cpu);
    weft_array *y = weft_to(weft_model_forward(b, tokens, NULL), cpu);
    const double most = weft_item(weft_max(weft_abs(weft_subtract(x, y)), WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    return most;
}

static void logits_have_the_bits_of_one_device(void)
{
    static const char *const models[] = {
        "llama",        "qwen2",         "qwen3",          "gemma2",    "gemma3",
        "gemma4-dense", "gemma4-moe",    "granite4",       "lfm2",      "falcon-h1",
        "nemotron-h",   "gpt-oss",       "mixtral",        "qwen3-moe", "glm4-moe-lite",
        "minicpm3",     "phi3-longrope", "exaone4-hybrid", "mlx-qwen3", "rope-dynamic",
        "olmo3",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        weft_model *whole = load(models[i], one()), *parted = load(models[i], spread());
        if (whole && parted && !CHECK(logits_difference(whole, parted) == 0))
            CHECK_FAIL("%s", models[i]);
        weft_model_free(whole);
        weft_model_free(parted);
    }
}

/* More devices than layers: some have none. */
static void devices_without_layers_are_allowed(void)
{
    char names[64];
    snprintf(names, sizeof names, "%s,cpu", spread());
    weft_model *whole = load("qwen2", one()), *parted = load("qwen2", names);
    if (whole && parted)
        CHECK_CLOSE(logits_difference(whole, parted), 0, 1e-4);
    weft_model_free(whole);
    weft_model_free(parted);
}

/* ---- generation ------------------------------------------------------------------------------ */

static void generate(weft_model *model, const weft_generate_options *o, int32_t *ids)
{
    int32_t prompt[12];
    for (int i = 0; i < 12; i++)
        prompt[i] = 5 + 3 * i;
    generated_ids(model, prompt, 12, o, ids, TOTAL);
}

static void generation_gives_the_same_tokens(void)
{
    const weft_generate_options ways[] = {
        {.max_tokens = TOTAL, .ignore_eos = true, .prefill = 5},
        {.max_tokens = TOTAL, .ignore_eos = true, .cache = {.kv_bits = 8}},
        {.max_tokens = TOTAL, .ignore_eos = true, .tokens_per_eval = 4, .cache = {.kv_bits = 16}},
        {.max_tokens = TOTAL, .ignore_eos = true, .seed = 4, .sampler = {.temperature = 0.7}},
    };
    static const char *const models[] = {"qwen3", "qwen2", "gemma3"};
    for (int m = 0; m < 3; m++) {
        weft_model *whole = load(models[m], one()), *parted = load(models[m], spread());
        for (int i = 0; whole && parted && i < 4; i++) {
            int32_t wanted[TOTAL] = {0}, got[TOTAL] = {0};
            generate(whole, &ways[i], wanted);
            generate(parted, &ways[i], got);
            CHECK_BYTES(got, wanted, sizeof wanted);
        }
        weft_model_free(whole);
        weft_model_free(parted);
    }
}

static void batches_give_the_same_tokens(void)
{
    enum { N = 3 };
    static const int32_t prompts[N][5] = {{3, 1, 4, 1, 5}, {9, 2, 6, 5, 3}, {5, 8, 9, 7, 9}};
    const weft_generate_options o = {.max_tokens = 8, .ignore_eos = true};
    weft_generated_row rows[2][N];
    weft_model *models[] = {load("qwen3", one()), load("qwen3", spread())};
    for (int m = 0; m < 2; m++) {
        weft_generate_request requests[N];
        memset(rows[m], 0, sizeof rows[m]);
        for (int i = 0; i < N; i++)
            requests[i] = (weft_generate_request){
                .prompt = {.ids = prompts[i], .n = 3 + (size_t)i % 3}, .options = &o};
        if (models[m])
            CHECK_OK(weft_generate_batch(models[m], NULL, requests, N, NULL, NULL, NULL, rows[m]));
    }
    for (int i = 0; models[0] && models[1] && i < N; i++) {
        CHECK_OK(rows[1][i].status);
        if (CHECK(rows[0][i].stats.tokens == 8 && rows[1][i].stats.tokens == 8))
            CHECK_BYTES(rows[1][i].ids, rows[0][i].ids, 8 * sizeof(int32_t));
    }
    for (int m = 0; m < 2; m++) {
        if (models[m])
            weft_generated_rows_free(rows[m], N);
        weft_model_free(models[m]);
    }
}

/* ---- training ------------------------------------------------------------------------------- */

typedef struct trajectory {
    double losses[MOST_STEPS], norms[MOST_STEPS];
    int n, stop_after; /* 0: never */
} trajectory;

static bool remember(void *context, const weft_train_report *report)
{
    trajectory *t = context;
    t->losses[t->n] = report->loss;
    t->norms[t->n++] = report->grad_norm;
    return t->n != t->stop_after;
}

static weft_status drop_out(void *context, const char *path, weft_module **field)
{
    (void)context;
    (void)path;
    if ((*field)->type == &weft_nn_lora_linear_type)
        ((weft_nn_dropout *)((weft_nn_lora_linear *)*field)->lora_dropout)->p = 0.25;
    return WEFT_OK;
}

/* A few updates of the recipe's adapter (`full`: of all parameters); the model, to be freed. Of a
 * micro-batch for each sample, the adapter has dropout. */
static weft_model *train(const recipe *r, const char *names, weft_trainer_options like, bool full,
                         trajectory *out)
{
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_model *model = load(r->model, names);
    weft_trainer_options o = recipe_options(r);
    o.steps = STEPS;
    o.clip = like.clip;
    o.checkpoint = like.checkpoint;
    o.accumulate = like.accumulate;
    o.micro_batch = like.micro_batch;
    o.folder = like.folder;
    o.resume = like.resume;
    o.compile = like.compile;
    o.save_minutes = -1;
    o.callback = remember;
    o.context = out;
    if (model && (full || CHECK_OK(weft_adapter_load(model, recipe_path(r, "initial"), NULL))) &&
        CHECK_OK(weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        if (o.micro_batch == 1)
            CHECK_OK(weft_nn_visit_modules(weft_model_module(model), drop_out, NULL));
        (void)weft_trainer_run(trainer, batches, NULL, NULL);
    }
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    return model;
}

typedef struct bytes {
    weft_model *other;
    int n;
} bytes;

/* Compares a parameter with that of the other model bit by bit. */
static weft_status compare(void *context, const weft_nn_item *item)
{
    bytes *b = context;
    weft_array **slot = weft_nn_find(weft_model_module(b->other), item->path);
    weft_scope_open();
    weft_array *x = weft_astype(*item->slot->address, WEFT_FLOAT32);
    const int64_t n = weft_size(x);
    float *mine = malloc((size_t)n * sizeof *mine), *other = malloc((size_t)n * sizeof *other);
    if (CHECK(slot && mine && other) && CHECK_OK(weft_read(x, WEFT_FLOAT32, mine, n)) &&
        CHECK_OK(weft_read(weft_astype(*slot, WEFT_FLOAT32), WEFT_FLOAT32, other, n)) &&
        !CHECK(memcmp(mine, other, (size_t)n * sizeof *mine) == 0))
        CHECK_FAIL("%s", item->path);
    free(mine);
    free(other);
    weft_scope_close(NULL);
    b->n++;
    return WEFT_OK;
}

static void check_equal(weft_model *a, weft_model *b)
{
    bytes context = {b, 0};
    CHECK_OK(weft_nn_visit(weft_model_module(a), compare, &context));
    CHECK(context.n > 10);
}

/* The norm is that of one device up to rounding, since each device adds up its own squares. */
static void training_has_the_bits_of_one_device(void)
{
    const struct {
        const char *recipe;
        bool full;
        weft_trainer_options options;
    } ways[] = {
        {"lora-qwen3", false, {.accumulate = 5}},
        {"lora-qwen3", false, {.accumulate = 2, .checkpoint = true}},
        {"lora-llama", false, {.micro_batch = 1}},
        {"lora-qwen2-tied", false, {.accumulate = 3}},
        {"lora-qwen2-tokens", false, {.accumulate = 2}},
        {"lora-qwen2-tied", true, {.accumulate = 3}},
        {"lora-gemma3", false, {.accumulate = 2}},
        {"lora-qwen3-moe", false, {.accumulate = 2}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        trajectory wanted = {.n = 0}, got = {.n = 0};
        const recipe *r = recipe_named(ways[i].recipe);
        weft_model *whole = train(r, one(), ways[i].options, ways[i].full, &wanted);
        weft_model *parted = train(r, spread(), ways[i].options, ways[i].full, &got);
        CHECK_EQ_INT(wanted.n, STEPS);
        for (int k = 0; k < STEPS; k++) {
            if (!CHECK(got.losses[k] == wanted.losses[k]))
                CHECK_FAIL("%s, way %zu: losses %.9g and %.9g", ways[i].recipe, i, got.losses[k],
                           wanted.losses[k]);
            CHECK_RELATIVE(got.norms[k], wanted.norms[k], 1e-6);
        }
        if (whole && parted) {
            check_equal(parted, whole);
            CHECK(logits_difference(parted, whole) == 0);
        }
        weft_model_free(whole);
        weft_model_free(parted);
    }
}

static void check_same_file(const char *a, const char *b, const char *name)
{
    char path[600], *data[2] = {NULL};
    size_t size[2] = {0};
    snprintf(path, sizeof path, "%s/%s", a, name);
    CHECK_OK(weft_file_read(path, 0, &data[0], &size[0]));
    snprintf(path, sizeof path, "%s/%s", b, name);
    CHECK_OK(weft_file_read(path, 0, &data[1], &size[1]));
    if (CHECK_EQ_INT((int64_t)size[0], (int64_t)size[1]) && data[0] && data[1])
        CHECK(memcmp(data[0], data[1], size[0]) == 0);
    weft_free(data[0]);
    weft_free(data[1]);
}

/* The run that is stopped continues on one device, and ends with the bytes of one that never
 * stopped on two; merged and saved they are the same, too. */
static void resumed_runs_and_files_are_the_same(void)
{
    char a[512], b[512], merged[2][512];
    const recipe *r = recipe_named("lora-qwen2-tied");
    trajectory whole = {.n = 0}, begun = {.stop_after = 1}, rest = {.n = 0};
    snprintf(a, sizeof a, "%s", check_temporary("whole"));
    snprintf(b, sizeof b, "%s", check_temporary("stopped"));
    const weft_trainer_options to_a = {.accumulate = 4, .folder = a};
    weft_trainer_options to_b = {.accumulate = 4, .folder = b};
    weft_model *models[] = {train(r, spread(), to_a, false, &whole), NULL};
    weft_model_free(train(r, spread(), to_b, false, &begun));
    CHECK_EQ_INT(begun.n, 1);
    to_b.resume = true;
    models[1] = train(r, one(), to_b, false, &rest);
    CHECK_EQ_INT(rest.n, STEPS - 1);
    CHECK(rest.losses[0] == whole.losses[1]);
    check_same_file(a, b, "last/adapter_model.safetensors");
    for (int i = 0; i < 2 && models[0] && models[1]; i++) {
        snprintf(merged[i], sizeof merged[i], "%s", check_temporary(i ? "merged-1" : "merged-0"));
        CHECK_OK(weft_nn_lora_merge(weft_model_module(models[i])));
        weft_nn_lora_remove(weft_model_module(models[i]));
        CHECK_OK(weft_model_save(models[i], merged[i]));
    }
    check_same_file(merged[0], merged[1], "model.safetensors");
    weft_model_free(models[0]);
    weft_model_free(models[1]);
}

static void compiled_updates_take_the_same_way(void)
{
    trajectory wanted = {.n = 0}, got = {.n = 0};
    const weft_trainer_options o = {.accumulate = 2, .compile = true};
    const recipe *r = recipe_named("lora-qwen3");
    weft_model *whole = train(r, one(), o, false, &wanted);
    weft_model *parted = train(r, spread(), o, false, &got);
    if (CHECK_EQ_INT(got.n, STEPS))
        CHECK_BYTES(got.losses, wanted.losses, sizeof wanted.losses);
    weft_model_free(whole);
    weft_model_free(parted);
}

/* ---- micro-batches at the same time ---------------------------------------------------------- */

static struct {
    weft_device *fails; /* the device on which additions fail; NULL: none */
    atomic_int running[2], together;
    int moments; /* that an addition waits for one on the other device */
} watch;

/* An addition waits until one on the other device has begun, or for a limited time. */
static weft_status look(weft_device *device)
{
    const int own = device == weft_device_get("hidden:1");
    const struct timespec moment = {.tv_nsec = 300000};
    if (device == watch.fails)
        return weft_fail(WEFT_DEVICE, "the card was removed");
    atomic_fetch_add(&watch.running[own], 1);
    for (int i = 0; i < watch.moments && atomic_load(&watch.together) == 0; i++) {
        if (atomic_load(&watch.running[1 - own]) > 0)
            atomic_fetch_add(&watch.together, 1);
        nanosleep(&moment, NULL);
    }
    atomic_fetch_sub(&watch.running[own], 1);
    return WEFT_OK;
}

static void never(void *context, weft_pause_point point)
{
    (void)context;
    (void)point;
}

/* The second micro-batch begins on the first device while the first one is on the second. A thread
 * that pauses computes one at a time, with the same bits. */
static void micro_batches_overlap(void)
{
    const recipe *r = recipe_named("lora-llama");
    const weft_trainer_options o = {.accumulate = 4};
    trajectory t[3] = {{.n = 0}};
    CHECK(hidden_device() != NULL);
    hidden_watch = look;
    for (int i = 0; i < 3; i++) {
        atomic_store(&watch.together, 0);
        watch.moments = i == 2 ? 200 : 1;
        weft_set_pause(i == 1 ? never : NULL, NULL);
        weft_model_free(train(r, i == 0 ? "hidden" : "hidden,hidden:1", o, false, &t[i]));
        CHECK_EQ_INT(t[i].n, STEPS);
        CHECK((atomic_load(&watch.together) > 0) == (i == 2));
    }
    hidden_watch = NULL;
    CHECK_BYTES(&t[2], &t[1], sizeof t[1]);
    CHECK_BYTES(t[2].losses, t[0].losses, sizeof t[0].losses);
}

/* An update that fails on one of the devices changes nothing, and the next one has the bits that it
 * would have had. */
static void a_failure_on_one_device_changes_nothing(void)
{
    const recipe *r = recipe_named("lora-llama");
    weft_model *models[2] = {NULL};
    weft_trainer_options o = recipe_options(r);
    o.steps = 1;
    CHECK(hidden_device() != NULL);
    for (int i = 0; i < 2; i++) {
        weft_batches *all = NULL;
        weft_trainer *trainer = NULL;
        weft_batch batches[4];
        weft_train_report report;
        models[i] = load(r->model, "hidden,hidden:1");
        if (models[i] == NULL ||
            !CHECK_OK(weft_adapter_load(models[i], recipe_path(r, "initial"), NULL)) ||
            !CHECK_OK(weft_batches_open(recipe_path(r, "trajectory.safetensors"), &all)) ||
            !CHECK_OK(weft_trainer_new(models[i], &o, &trainer)))
            break;
        weft_scope_open();
        for (int b = 0; b < 4; b++)
            CHECK_OK(weft_batches_at(all, b, &batches[b]));
        for (int d = 0; i == 0 && d < 2; d++) {
            watch.fails = weft_device_get(d ? "hidden:1" : "hidden");
            hidden_watch = look;
            CHECK_STATUS(weft_trainer_step(trainer, batches, 4, 1, &report), WEFT_DEVICE);
            CHECK_CONTAINS(weft_error_message(), "the card was removed");
            hidden_watch = NULL;
            watch.fails = NULL;
        }
        CHECK_OK(weft_trainer_step(trainer, batches, 4, 1, &report));
        for (int b = 0; b < 4; b++)
            weft_batch_free(&batches[b]);
        weft_scope_close(NULL);
        weft_trainer_free(trainer);
        weft_batches_free(all);
    }
    if (models[0] && models[1])
        check_equal(models[0], models[1]);
    weft_model_free(models[0]);
    weft_model_free(models[1]);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Each device's arrays are counted. With too little memory for several micro-batches fewer are
 * under way, and the result has the same bits. */
static void memory_is_counted_and_suffices(void)
{
    const recipe *r = recipe_named("lora-llama");
    const weft_trainer_options o = {.accumulate = 4, .clip = 0.5};
    trajectory plenty = {.n = 0}, little = {.n = 0}, single = {.n = 0};
    expected e = expect();
    weft_memory_reset_peak();
    weft_model *model = train(r, spread(), o, false, &plenty);
    const int64_t most = weft_memory_peak();
    CHECK(weft_device_peak(e.first) > weft_device_active(e.first));
    CHECK(weft_device_active(e.last) > 0 && weft_device_peak(e.last) > weft_device_active(e.last));
    CHECK(weft_device_active(e.first) + weft_device_active(e.last) <= weft_memory_active());
    weft_model_free(model);
    weft_memory_reset_peak();
    weft_set_pause(never, NULL);
    weft_model_free(train(r, spread(), o, false, &single));
    weft_set_pause(NULL, NULL);
    const int64_t one_at_a_time = weft_memory_peak();
    CHECK(one_at_a_time < most);
    (void)weft_memory_set_limit(one_at_a_time + (most - one_at_a_time) / 4);
    weft_model_free(train(r, spread(), o, false, &little));
    (void)weft_memory_set_limit(INT64_MAX);
    CHECK_EQ_INT(little.n, STEPS);
    CHECK_BYTES(&little, &plenty, sizeof plenty);
    CHECK_BYTES(&single, &plenty, sizeof plenty);
}

static void buffers_are_freed(void)
{
    CHECK_EQ_INT(weft_memory_active(), 0);
    weft_memory_clear_cache();
    CHECK_EQ_INT(hidden_live_buffers(), 0);
}

/* Before Vulkan is used. */
__attribute__((constructor)) static void open_twice(void)
{
    (void)setenv("WEFT_VULKAN_DEVICES", "0,0", 0);
}

CHECK_MAIN("several_devices", CHECK_CASE(lists_of_names_are_read),
           CHECK_CASE(parameters_are_where_their_layer_is),
           CHECK_CASE(what_excludes_several_devices_is_refused),
           CHECK_CASE(logits_have_the_bits_of_one_device),
           CHECK_CASE(devices_without_layers_are_allowed),
           CHECK_CASE(generation_gives_the_same_tokens), CHECK_CASE(batches_give_the_same_tokens),
           CHECK_CASE(training_has_the_bits_of_one_device),
           CHECK_CASE(resumed_runs_and_files_are_the_same),
           CHECK_CASE(compiled_updates_take_the_same_way), CHECK_CASE(micro_batches_overlap),
           CHECK_CASE(a_failure_on_one_device_changes_nothing),
           CHECK_CASE(memory_is_counted_and_suffices), CHECK_CASE(buffers_are_freed))
