/* tests/models/test_gpu_layers.c -- a model on two devices, or streamed from one to the other: the
 * device of each parameter, and the same numbers as on one device for everything that a model does.
 * The second device is the test-only one, and Vulkan where it is present. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/hidden.h"
#include "tests/train/recipes.h"
#include "weft/generate.h"
#include "weft/train.h"

enum { LAYERS = 2, PROMPT = 12, TOTAL = 16, MOST_STEPS = 32 };

typedef struct part {
    int64_t gpu_layers;
    bool stream;
} part;

static const part parts[] = {{-1, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1}, {1, 1}, {3, 1}};
enum { PARTS = (int)(sizeof parts / sizeof *parts) };

static weft_device *cpu;

/* The test-only device, then Vulkan's; NULL after the last that is present. */
static weft_device *second_device(int i)
{
    cpu = weft_device_get("cpu");
    return i == 0 ? hidden_device() : i == 1 ? weft_device_get("vulkan") : NULL;
}

static const part whole;

static weft_model *load(const char *name, weft_device *device, part p)
{
    char path[256];
    weft_model *model = NULL;
    const weft_model_options o = {.device = device, .gpu_layers = p.gpu_layers, .stream = p.stream};
    snprintf(path, sizeof path, "models/%s", name);
    CHECK_OK(weft_model_load(check_fixture(path), &o, &model));
    return model;
}

/* ---- devices of parameters and caches ------------------------------------------------------- */

typedef struct expected {
    weft_device *device;
    part part;
    bool tied;
    int n;
} expected;

/* An independent implementation of the contract. */
static weft_device *place_of(const expected *e, const char *path)
{
    const int64_t n = e->part.gpu_layers;
    const char *end = strrchr(path, '.');
    const bool matrix = strcmp(end, ".weight") == 0 && strstr(path, "norm") == NULL;
    bool there = n > LAYERS;
    if (strncmp(path, "model.layers.1.", 15) == 0)
        there = n >= 1;
    else if (strncmp(path, "model.layers.0.", 15) == 0)
        there = n >= 2;
    else if (strcmp(path, "model.embed_tokens.weight") == 0)
        there = there && e->tied;
    return there || (e->part.stream && !matrix) ? e->device : cpu;
}

static weft_status check_place(void *context, const weft_nn_item *item)
{
    expected *e = context;
    if (!CHECK(weft_device_of(*item->slot->address) == place_of(e, item->path)))
        CHECK_FAIL("%s, gpu_layers %lld%s", item->path, (long long)e->part.gpu_layers,
                   e->part.stream ? ", streamed" : "");
    e->n++;
    return WEFT_OK;
}

static void layers_are_where_they_should_be(void)
{
    weft_device *device;
    for (int d = 0; (device = second_device(d)) != NULL; d++) {
        for (int i = 0; i < 2 * PARTS; i++) {
            weft_model *model = load(i % 2 ? "qwen2" : "qwen3", device, parts[i / 2]);
            if (model == NULL)
                continue;
            const weft_nn_lora_options o = {.n_targets = 1,
                                            .targets = (const char *[]){"down_proj"}};
            CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
            expected e = {device, parts[i / 2], weft_model_info_of(model)->tied, 0};
            CHECK_EQ_INT(e.tied, i % 2);
            CHECK_OK(weft_nn_visit(weft_model_module(model), check_place, &e));
            CHECK(e.n > 20);
            weft_model_free(model);
        }
    }
}

static void caches_are_where_their_layer_is(void)
{
    weft_device *device;
    for (int d = 0; (device = second_device(d)) != NULL; d++) {
        for (int s = 0; s < 2; s++) {
            const bool stream = s == 1;
            weft_model *model = load("llama", device, (part){1, stream});
            weft_cache **caches = model ? weft_model_new_caches(model, NULL) : NULL;
            if (CHECK(caches != NULL)) {
                const int32_t ids[] = {3, 1, 4, 1, 5};
                weft_scope_open();
                weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 5));
                const weft_model_call call = {.caches = caches};
                CHECK_OK(weft_eval(weft_model_forward(model, tokens, &call)));
                for (int layer = 0; layer < LAYERS; layer++) {
                    weft_array **slots[4];
                    CHECK_EQ_INT(weft_cache_state(caches[layer], slots), 2);
                    CHECK(weft_device_of(*slots[0]) == (layer == 1 || stream ? device : cpu));
                    CHECK(weft_device_of(*slots[1]) == (layer == 1 || stream ? device : cpu));
                    CHECK_EQ_INT(weft_cache_offset(caches[layer]), 5);
                }
                weft_scope_close(NULL);
                weft_model_free_caches(model, caches);
            }
            weft_model_free(model);
        }
    }
}

/* ---- forward -------------------------------------------------------------------------------- */

static double logits_difference(weft_model *a, weft_model *b)
{
    int32_t ids[2 * 9];
    for (int i = 0; i < 18; i++)
        ids[i] = 1 + 7 * i % 100;
    weft_scope_open();
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2, 9));
    weft_array *x = weft_to(weft_model_forward(a, tokens, NULL), cpu);
    weft_array *y = weft_to(weft_model_forward(b, tokens, NULL), cpu);
    const double most = weft_item(weft_max(weft_abs(weft_subtract(x, y)), WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    return most;
}

/* For every default device of the thread. */
static void logits_are_those_of_one_device(void)
{
    static const char *const families[] = {"llama", "llama-bias", "mistral", "qwen2", "qwen3"};
    weft_device *device;
    for (int d = 0; (device = second_device(d)) != NULL; d++) {
        for (int i = 0; i < 5 * PARTS; i++) {
            weft_set_default_device(cpu);
            weft_model *plain = load(families[i % 5], cpu, whole);
            weft_set_default_device(i % 2 ? device : cpu);
            weft_model *parted = load(families[i % 5], device, parts[i / 5]);
            if (plain && parted)
                CHECK_CLOSE(logits_difference(plain, parted), 0, 1e-4);
            weft_set_default_device(cpu);
            weft_model_free(plain);
            weft_model_free(parted);
        }
    }
}

static void generate(weft_model *model, const weft_generate_options *o, int32_t *ids)
{
    int32_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 5 + 3 * i;
    generated_ids(model, prompt, PROMPT, o, ids, TOTAL);
}

/* Greedy and drawn with all that the sampler keeps, in chunks, with caches and without. */
static void generation_gives_the_same_tokens(void)
{
    const weft_generate_options ways[] = {
        {.max_tokens = TOTAL, .ignore_eos = true, .prefill = 5},
        {.max_tokens = TOTAL, .ignore_eos = true, .no_cache = true},
        {.max_tokens = TOTAL,
         .ignore_eos = true,
         .seed = 4,
         .sampler = {.temperature = 0.5, .repetition_penalty = 1.2, .top_k = 20}},
    };
    weft_device *device;
    for (int d = 0; (device = second_device(d)) != NULL; d++) {
        weft_model *plain = load("qwen3", cpu, whole);
        for (int i = 0; plain && i < PARTS; i++) {
            int32_t wanted[TOTAL] = {0}, got[TOTAL] = {0};
            weft_model *parted = load("qwen3", device, parts[(i + 1) % PARTS]);
            generate(plain, &ways[i % 3], wanted);
            if (parted) {
                generate(parted, &ways[i % 3], got);
                CHECK_BYTES(got, wanted, sizeof wanted);
            }
            weft_model_free(parted);
        }
        weft_model_free(plain);
    }
}

/* ---- training ------------------------------------------------------------------------------- */

typedef struct trajectory {
    double losses[MOST_STEPS], norms[MOST_STEPS];
    int n;
} trajectory;

static bool remember(void *context, const weft_train_report *report)
{
    trajectory *t = context;
    t->losses[t->n] = report->loss;
    t->norms[t->n++] = report->grad_norm;
    return true;
}

/* A few updates of the recipe's adapter; the model, to be freed. */
static weft_model *train(const recipe *r, weft_device *device, part p,
                         const weft_trainer_options *like, trajectory *out)
{
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_model *model = load(r->model, device, p);
    weft_trainer_options o = recipe_options(r);
    o.steps = 3;
    o.clip = like->clip;
    o.checkpoint = like->checkpoint;
    o.accumulate = like->accumulate;
    o.folder = like->folder;
    o.callback = remember;
    o.context = out;
    *out = (trajectory){0};
    if (model && CHECK_OK(weft_adapter_load(model, recipe_path(r, "initial"), NULL)) &&
        CHECK_OK(weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        CHECK_OK(weft_trainer_run(trainer, batches, NULL, NULL));
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    CHECK_EQ_INT(out->n, o.steps);
    return model;
}

static void check_same(const trajectory *got, const trajectory *wanted)
{
    for (int s = 0; s < wanted->n; s++) {
        CHECK_RELATIVE(got->losses[s], wanted->losses[s], 1e-5);
        CHECK_RELATIVE(got->norms[s], wanted->norms[s], 1e-4);
    }
}

static void training_takes_the_same_way(void)
{
    const struct {
        part part;
        weft_trainer_options options;
    } ways[] = {
        {{1, false}, {.clip = 0.5}},
        {{1, false}, {.checkpoint = true}},
        {{2, false}, {.accumulate = 2, .clip = 0.5}},
        {{3, false}, {.checkpoint = true}},
        {{0, true}, {.clip = 0.5}},
        {{1, true}, {.accumulate = 2}},
        {{3, true}, {.checkpoint = true}},
    };
    weft_device *device;
    for (int d = 0; (device = second_device(d)) != NULL; d++) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            trajectory wanted, got;
            weft_model *plain = train(&recipes[i % 2], cpu, whole, &ways[i].options, &wanted);
            weft_model *parted =
                train(&recipes[i % 2], device, ways[i].part, &ways[i].options, &got);
            check_same(&got, &wanted);
            if (plain && parted) {
                expected e = {device, ways[i].part, weft_model_info_of(parted)->tied, 0};
                CHECK_OK(weft_nn_visit(weft_model_module(parted), check_place, &e));
                CHECK_CLOSE(logits_difference(plain, parted), 0, 1e-3);
                CHECK_OK(weft_nn_lora_merge(weft_model_module(parted)));
                CHECK_CLOSE(logits_difference(plain, parted), 0, 1e-3);
            }
            weft_model_free(plain);
            weft_model_free(parted);
        }
    }
}

/* Results do not depend on where the weights are stored. Checkpoints do not keep copies either: an
 * evaluation holds the copies of one layer at a time. */
static void streamed_weights_give_the_same_bits(void)
{
    const weft_trainer_options o = {.checkpoint = true, .clip = 0.5};
    weft_device *device;
    for (int d = 0; (device = second_device(d)) != NULL; d++) {
        trajectory resident, streamed;
        weft_model *a = train(&recipes[0], device, whole, &o, &resident);
        weft_model *b = train(&recipes[0], device, (part){0, true}, &o, &streamed);
        CHECK_BYTES(&streamed, &resident, sizeof resident);
        if (a && b)
            CHECK(logits_difference(a, b) == 0);
        weft_model_free(a);
        weft_model_free(b);
    }
}

/* The adapter that a run on two devices saved is an ordinary PEFT adapter. */
static void a_saved_adapter_loads_anywhere(void)
{
    char folder[512];
    trajectory t;
    snprintf(folder, sizeof folder, "%s", check_temporary("parted"));
    weft_model *trained = train(&recipes[0], second_device(0), (part){1, false},
                                &(weft_trainer_options){.folder = folder}, &t);
    weft_model *model = load(recipes[0].model, cpu, whole);
    strncat(folder, "/last", sizeof folder - strlen(folder) - 1);
    if (trained && model && CHECK_OK(weft_adapter_load(model, folder, NULL)))
        CHECK_CLOSE(logits_difference(trained, model), 0, 1e-4);
    weft_model_free(trained);
    weft_model_free(model);
}

/* Whole parameters, one of each device, clipped by the norm over both. */
static void the_optimizer_takes_two_devices(void)
{
    enum { N = 4, STEPS = 3 };
    weft_device *device = second_device(0);
    double values[2][2 * N], norms[2][STEPS];
    for (int parted = 0; parted < 2; parted++) {
        weft_array *slots[2] = {NULL}, **at[] = {&slots[0], &slots[1]};
        char *paths[] = {"a", "b"};
        weft_optim *o = NULL;
        const float p[N] = {1, -2, 3, -4};
        weft_scope_open();
        for (int i = 0; i < 2; i++) { /* the second is stored in 16 bits */
            weft_array *x = weft_astype(weft_from_data(p, WEFT_FLOAT32, WEFT_DIMS(N)),
                                        i ? WEFT_BFLOAT16 : WEFT_FLOAT32);
            CHECK_OK(weft_set(&slots[i], parted && i ? weft_to(x, device) : x));
        }
        weft_scope_close(NULL);
        const weft_nn_slots both = {.slots = at, .paths = paths, .n = 2};
        const weft_optim_group group = {.type = &weft_optim_adamw, .learning_rate = 0.1};
        CHECK_OK(weft_optim_new(&both, &group, 1, &o));
        for (int s = 0; o && s < STEPS; s++) {
            weft_optim_call call = {.lr_factor = 1, .clip = 1};
            weft_scope_open();
            weft_array *g[] = {weft_astype(slots[0], WEFT_FLOAT32),
                               weft_square(weft_astype(slots[1], WEFT_FLOAT32))};
            CHECK_OK(weft_optim_apply(o, g, &call));
            CHECK(call.applied);
            norms[parted][s] = call.grad_norm;
            weft_scope_close(NULL);
        }
        int n = 0;
        weft_array ***state = o ? weft_optim_state(o, &n) : NULL;
        for (int i = 0; i < n; i++) {
            const bool second = weft_optim_state_names(o)[i][0] == 'b';
            CHECK(weft_device_of(*state[i]) == (parted && second ? device : cpu));
        }
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weft_read(slots[i], WEFT_FLOAT64, values[parted] + N * i, N));
            weft_drop(slots[i]);
        }
        weft_optim_free(o);
    }
    for (int i = 0; i < 2 * N; i++)
        CHECK_CLOSE(values[1][i], values[0][i], 1e-6);
    for (int s = 0; s < STEPS; s++)
        CHECK_RELATIVE(norms[1][s], norms[0][s], 1e-6);
}

/* ---- families of a program's own ------------------------------------------------------------ */

static void other_families_are_refused(void)
{
    static weft_model_family fixed;
    char folder[512], from[512], path[600], *data = NULL;
    size_t size = 0;
    fixed = *weft_model_family_find("llama");
    fixed.model_type = "fixed";
    fixed.follows_parameters = false;
    CHECK_OK(weft_model_register(&fixed));
    snprintf(folder, sizeof folder, "%s", check_temporary("fixed"));
    snprintf(from, sizeof from, "%s", check_fixture("models/llama/model.safetensors"));
    CHECK_OK(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (CHECK_OK(weft_file_read(from, 0, &data, &size)))
        CHECK_OK(weft_file_write(path, data, size));
    weft_free(data);
    CHECK_OK(weft_file_read(check_fixture("models/llama/config.json"), 0, &data, &size));
    char *type = strstr(data, "\"model_type\": \"llama\"");
    if (CHECK(type != NULL)) {
        memcpy(type + 15, "fixed", 5);
        snprintf(path, sizeof path, "%s/config.json", folder);
        CHECK_OK(weft_file_write(path, data, size));
        weft_model *model = NULL;
        const weft_model_options o = {.device = second_device(0), .gpu_layers = 1};
        CHECK_STATUS(weft_model_load(folder, &o, &model), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "fixed models compute on one device");
        CHECK_OK(weft_model_load(folder, NULL, &model));
        weft_model_free(model);
    }
    weft_free(data);
}

static void buffers_are_freed(void)
{
    CHECK_EQ_INT(weft_memory_active(), 0);
    weft_memory_clear_cache();
    CHECK_EQ_INT(hidden_live_buffers(), 0);
}

CHECK_MAIN("gpu_layers", CHECK_CASE(layers_are_where_they_should_be),
           CHECK_CASE(caches_are_where_their_layer_is), CHECK_CASE(logits_are_those_of_one_device),
           CHECK_CASE(generation_gives_the_same_tokens), CHECK_CASE(training_takes_the_same_way),
           CHECK_CASE(streamed_weights_give_the_same_bits),
           CHECK_CASE(a_saved_adapter_loads_anywhere), CHECK_CASE(the_optimizer_takes_two_devices),
           CHECK_CASE(other_families_are_refused), CHECK_CASE(buffers_are_freed))
