/* tests/bench/shapes.c -- models of published shapes with random bfloat16 weights, on a device:
 * tokens/s of LoRA updates, of full training, of prefill and of decoding, and memory.
 *
 *     bench_shapes DEVICE SHAPE [stream] WHAT... [profile]
 *
 * SHAPE: 70b-8 (8 layers of Llama 2), 8b, 1b (Llama 3), 0.6b (Qwen 3), gpt-oss-4 (LoRA of
 * attention, as PEFT's default; with lora-experts of all linears), lfm2 (1.2B), tiny. WHAT, in
 * turn: lora, checkpoint (lora with it), full and full16 (all weights are trained, with states in
 * float32 or 16 bits), prefill, whole (prefill, all tokens at a time), decode, batch16 (16
 * sequences decoded together, or another number; tokens/s of all); with -4 or 4 after it (lora4,
 * batch16-4): of linears in 4 bits, with k after it (lorak): of a GGUF file in Q4_K, with q: in
 * Q8_0. LoRA: rank 16 on all linears. Training: 4 x 1,024 tokens, or others as in
 * checkpoint:1x16384, or with more micro-batches an update as in lora:8x4x1024; the median of steps
 * 3 to 8 (with more than 8,192 tokens in a micro-batch 3 to 5, with more than 65,536 the first).
 * Prefill: 4,096 tokens, the median of 3 after one. Decoding: 128 tokens. With "stream", weights
 * are in host memory and copied for each use, with stream4 those of all but 4 layers. DEVICE may be
 * a list such as vulkan,vulkan:1, over which the layers are spread. With "profile", one more step
 * of each is profiled by op. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "weft/weft.h"

enum { STEPS = 8, FIRST = 3, LONG = 8192, LONGEST = 65536, PREFILL = 4096, DECODED = 128 };

static const struct {
    const char *name, *config;
} shapes[] = {
    {"70b-8", "{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 8192, "
              "\"intermediate_size\": 28672, \"num_hidden_layers\": 8, "
              "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, "
              "\"max_position_embeddings\": 131072, \"rope_theta\": 500000.0, "
              "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}"},
    {"8b", "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": 4096, "
           "\"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
           "\"num_key_value_heads\": 8, \"head_dim\": 128, \"max_position_embeddings\": 8192, "
           "\"rope_theta\": 500000.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}"},
    {"1b", "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": 2048, "
           "\"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_attention_heads\": 32, "
           "\"num_key_value_heads\": 8, \"head_dim\": 64, \"max_position_embeddings\": 8192, "
           "\"rope_theta\": 500000.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true}"},
    {"0.6b", "{\"model_type\": \"qwen3\", \"vocab_size\": 151936, \"hidden_size\": 1024, "
             "\"intermediate_size\": 3072, \"num_hidden_layers\": 28, \"num_attention_heads\": 16, "
             "\"num_key_value_heads\": 8, \"head_dim\": 128, \"max_position_embeddings\": 8192, "
             "\"rope_theta\": 1000000.0, \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": true}"},
    {"gpt-oss-4", /* 20B's, with 4 of its 24 layers */
     "{\"model_type\": \"gpt_oss\", \"vocab_size\": 201088, \"hidden_size\": 2880, "
     "\"intermediate_size\": 2880, \"num_hidden_layers\": 4, \"num_attention_heads\": 64, "
     "\"num_key_value_heads\": 8, \"head_dim\": 64, \"num_local_experts\": 32, "
     "\"num_experts_per_tok\": 4, \"sliding_window\": 128, \"max_position_embeddings\": 8192, "
     "\"rope_theta\": 150000.0, \"tie_word_embeddings\": false}"},
    {"lfm2",
     "{\"model_type\": \"lfm2\", \"vocab_size\": 65536, \"hidden_size\": 2048, \"block_ff_dim\": "
     "12288, "
     "\"num_hidden_layers\": 16, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
     "\"conv_L_cache\": 3, \"full_attn_idxs\": [2, 5, 8, 10, 12, 14], \"max_position_embeddings\": "
     "128000, \"rope_theta\": 1000000.0, \"norm_eps\": 1e-5, \"tie_embedding\": true}"},
    {"tiny", "{\"model_type\": \"llama\", \"vocab_size\": 4096, \"hidden_size\": 256, "
             "\"intermediate_size\": 768, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
             "\"num_key_value_heads\": 2, \"head_dim\": 64, \"max_position_embeddings\": 8192, "
             "\"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true}"},
};

enum { MOST_MICRO = 64 };

static weft_device *device, *devices[WEFT_MODEL_DEVICES];
static int n_devices;
static bool profiled, streams;
static int64_t resident; /* layers, of a model whose weights are streamed */

/* All linears, including experts, except the head. */
static bool is_inner(void *context, const char *path, const weft_module *m)
{
    (void)context;
    return (m->type == &weft_nn_linear_type || strstr(path, ".experts.") != NULL) &&
           strstr(path, "lm_head") == NULL;
}

/* The model from a GGUF file with blocks of the type. */
static weft_model *through_gguf(weft_model *model, const char *type)
{
    char path[] = "/tmp/bench-shapes-XXXXXX.gguf";
    weft_model *loaded = NULL;
    const int file = mkstemps(path, (int)strlen(".gguf"));
    if (file < 0) {
        perror(path);
        exit(2);
    }
    close(file);
    check(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.type = type}));
    weft_model_free(model);
    check(weft_model_load(path, NULL, &loaded));
    check(weft_synchronize(device));
    remove(path);
    return loaded;
}

/* The model from a folder, with its weights in host memory, or spread over the devices. */
static weft_model *through_folder(weft_model *model)
{
    char path[] = "/tmp/bench-shapes-XXXXXX", command[64];
    weft_model *loaded = NULL;
    if (mkdtemp(path) == NULL) {
        perror(path);
        exit(2);
    }
    check(weft_model_save(model, path));
    weft_model_free(model);
    weft_memory_clear_cache();
    const weft_model_options o = {.device = device,
                                  .devices = devices,
                                  .n_devices = n_devices,
                                  .stream = streams,
                                  .gpu_layers = resident};
    check(weft_model_load(path, &o, &loaded));
    snprintf(command, sizeof command, "rm -r %s", path); /* the files stay mapped */
    if (system(command) != 0)
        perror(command);
    return loaded;
}

/* The last character of `what` in front of the sizes selects how linears are stored. */
static weft_model *make(const char *name, const char *what)
{
    const size_t end = strcspn(what, ":");
    const bool batch =
        strncmp(what, "batch", 5) == 0 && what[end - 1] == '4' && what[end - 2] != '-';
    const char form = batch ? ' ' : what[end - 1];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            weft_config *config = NULL;
            weft_model *model = NULL;
            weft_random_seed(7);
            check(weft_config_parse(shapes[i].config, name, &config));
            check(weft_model_new(config, &model));
            weft_config_free(config);
            check(weft_nn_cast(weft_model_module(model), WEFT_BFLOAT16));
            if (form == '4')
                check(weft_nn_quantize(weft_model_module(model),
                                       &(weft_nn_quantize_options){.accepts = is_inner}));
            check(weft_synchronize(device));
            if (form == 'k')
                return through_gguf(model, "Q4_K");
            if (form == 'q')
                return through_gguf(model, "Q8_0");
            return streams || n_devices > 1 ? through_folder(model) : model;
        }
    }
    fprintf(stderr, "bench_shapes: no shape %s\n", name);
    exit(2);
}

static void begin_profile(void)
{
    check(weft_device_profile(device, true));
}

static void end_profile(void)
{
    weft_op_report ops[64];
    weft_counter counters[16];
    weft_totals t;
    int n = weft_device_report(device, ops, 64, &t);
    printf("  ms: device %.1f, wall %.1f, planning %.1f, recording %.1f, waiting %.1f\n ",
           1e-6 * (double)t.busy, 1e-6 * (double)t.wall, 1e-6 * (double)t.planning,
           1e-6 * (double)t.running, 1e-6 * (double)t.waiting);
    for (int i = 0; i < n && i < 16; i++)
        printf(" %s %.1f (%lld)", ops[i].op, 1e-6 * (double)ops[i].nanoseconds,
               (long long)ops[i].calls);
    n = weft_device_counters(device, counters, 16);
    printf("\n ");
    for (int i = 0; i < n; i++)
        printf(" %s %lld,", counters[i].name, (long long)counters[i].value);
    printf("\n");
    check(weft_device_profile(device, false));
}

/* ---- Training ------------------------------------------------------------------------------- */

static void synchronize(void)
{
    for (int i = 0; i < n_devices; i++)
        check(weft_synchronize(devices[i]));
}

static double update(weft_model *model, weft_trainer *trainer, weft_dims shape, int micro, int step,
                     double *loss)
{
    weft_scope_open();
    const int64_t V = weft_model_info_of(model)->vocab_size, n = shape.at[0] * shape.at[1];
    weft_batch batches[MOST_MICRO];
    for (int i = 0; i < micro; i++) {
        weft_array *key = weft_random_key((uint64_t)(step * micro + i) + 1),
                   *ids = weft_random_randint(key, shape, 0, V, WEFT_INT32);
        check(weft_eval(ids));
        batches[i] =
            (weft_batch){.tokens = ids, .targets = ids, .n_targets = (double)n, .n_tokens = n};
    }
    synchronize();
    const double began = seconds();
    weft_train_report report;
    check(weft_trainer_step(trainer, batches, micro, 1, &report));
    synchronize();
    *loss = report.loss;
    weft_scope_close(NULL);
    return seconds() - began;
}

static void bench_training(const char *name, const char *what)
{
    const bool checkpoint = what[0] == 'c';
    long long batch = 4, length = 1024;
    int micro = 1;
    const char *sizes = strchr(what, ':');
    const int read = sizes ? sscanf(sizes, ":%dx%lldx%lld", &micro, &batch, &length) : 0;
    if (read == 2) {
        length = batch;
        batch = micro;
        micro = 1;
    }
    if (sizes && (read < 2 || micro < 1 || micro > MOST_MICRO || batch < 1 || length < 1)) {
        fprintf(stderr, "bench_shapes: %s: expected sizes as in lora:4x1024\n", what);
        exit(2);
    }
    const weft_dims shape = WEFT_DIMS(batch, length);
    const long long tokens = batch * length;
    const int steps = tokens > LONGEST ? 1 : tokens > LONG ? 5 : STEPS;
    const int counted = steps < FIRST ? steps : FIRST;
    weft_model *model = make(name, what);
    weft_trainer *trainer;
    static const char *const all[] = {WEFT_LORA_ALL_LINEAR}, *const attention[] = {
                                                                 "q_proj", "k_proj", "v_proj",
                                                                 "o_proj"};
    const bool few = strcmp(name, "gpt-oss-4") == 0 && strcmp(what, "lora-experts") != 0;
    const weft_nn_lora_options lora = {
        .rank = 16, .targets = few ? attention : all, .n_targets = few ? 4 : 1};
    weft_random_seed(8);
    if (strncmp(what, "full", 4) != 0)
        check(weft_nn_lora_inject(weft_model_module(model), &lora));
    const weft_optim_type *type =
        strcmp(what, "full16") == 0 ? &weft_optim_adamw16bit : &weft_optim_adamw;
    const weft_trainer_options o = {
        .lr = 1e-4, .clip = 1, .checkpoint = checkpoint, .optimizer = type};
    check(weft_trainer_new(model, &o, &trainer));
    double times[STEPS + 1], first = 0, loss = 0;
    weft_memory_reset_peak();
    for (int step = 1; step <= steps; step++) {
        times[step] = update(model, trainer, shape, micro, step, &loss);
        first = step == 1 ? loss : first;
    }
    const double time = median(times + counted, steps - counted + 1);
    printf(
        "%s %s: %.0f tokens/s, %.1f ms a step, the first %.1f, peak %.1f GB, loss %.5f then %.5f\n",
        name, what, micro * (double)tokens / time, 1e3 * time, 1e3 * times[1],
        1e-9 * (double)weft_memory_peak(), first, loss);
    if (profiled) {
        begin_profile();
        update(model, trainer, shape, micro, steps + 1, &loss);
        end_profile();
    }
    fflush(stdout);
    weft_trainer_free(trainer);
    weft_model_free(model);
}

/* ---- Reading and writing -------------------------------------------------------------------- */

static bool ignore(void *context, const weft_generated *token)
{
    (void)context;
    (void)token;
    return true;
}

static weft_generate_stats generate(weft_model *model, int64_t prompt, int64_t n, int64_t at_a_time)
{
    static int32_t ids[PREFILL];
    const int64_t V = weft_model_info_of(model)->vocab_size;
    for (int64_t i = 0; i < prompt; i++)
        ids[i] = (int32_t)(i * 7919 % V);
    weft_generate_stats stats;
    const weft_generate_options o = {.max_tokens = n, .ignore_eos = true, .prefill = at_a_time};
    check(weft_generate(model, NULL, ids, prompt, &o, ignore, NULL, &stats));
    return stats;
}

static void bench_generate(const char *name, const char *what)
{
    weft_model *model = make(name, what);
    const bool decode = strncmp(what, "decode", 6) == 0;
    const int64_t prompt = decode ? 16 : PREFILL, n = decode ? DECODED : 1,
                  at_a_time = strncmp(what, "whole", 5) == 0 ? PREFILL : 0;
    double rates[3];
    generate(model, prompt, n, at_a_time);
    for (int i = 0; i < 3; i++) {
        const weft_generate_stats stats = generate(model, prompt, n, at_a_time);
        rates[i] = decode ? stats.decode_per_second : stats.prompt_per_second;
    }
    printf("%s %s: %.1f tokens/s\n", name, what, median(rates, 3));
    if (profiled) {
        begin_profile();
        generate(model, prompt, n, at_a_time);
        end_profile();
    }
    fflush(stdout);
    weft_model_free(model);
}

/* Tokens a second of `n` sequences that are decoded together. */
static double together(weft_model *model, size_t n)
{
    enum { PROMPT = 16 };
    const int64_t V = weft_model_info_of(model)->vocab_size;
    const weft_generate_options o = {.max_tokens = DECODED, .ignore_eos = true};
    weft_generate_request *requests = calloc(n, sizeof *requests);
    weft_generated_row *rows = calloc(n, sizeof *rows);
    int32_t *ids = malloc(n * PROMPT * sizeof *ids);
    if (!requests || !rows || !ids)
        exit(2);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < PROMPT; k++)
            ids[i * PROMPT + k] = (int32_t)((int64_t)((i + 1) * (k + 1) * 7919) % V);
        requests[i].prompt = (weft_prompt){ids + i * PROMPT, PROMPT};
        requests[i].options = &o;
    }
    const weft_generate_batch_options options = {.rows = (int)n};
    check(weft_generate_batch(model, NULL, requests, n, &options, NULL, NULL, rows));
    double rate = 0;
    for (size_t i = 0; i < n; i++) {
        check(rows[i].status);
        rate += rows[i].stats.decode_per_second;
    }
    weft_generated_rows_free(rows, n);
    free(requests);
    free(rows);
    free(ids);
    return rate;
}

static void bench_batch(const char *name, const char *what)
{
    const int n = atoi(what + strlen("batch"));
    if (n < 1) {
        fprintf(stderr, "bench_shapes: %s: expected a number of sequences, as in batch16\n", what);
        exit(2);
    }
    weft_model *model = make(name, what);
    double rates[3];
    together(model, (size_t)n);
    for (int i = 0; i < 3; i++)
        rates[i] = together(model, (size_t)n);
    printf("%s %s: %.1f tokens/s in all\n", name, what, median(rates, 3));
    if (profiled) {
        begin_profile();
        together(model, (size_t)n);
        end_profile();
    }
    fflush(stdout);
    weft_model_free(model);
}

int main(int argc, char **argv)
{
    if (argc > 3 && weft_devices_get(argv[1], devices, WEFT_MODEL_DEVICES, &n_devices) == WEFT_OK)
        device = devices[0];
    if (!device) {
        fprintf(
            stderr,
            "bench_shapes DEVICE SHAPE lora|checkpoint|full|prefill|decode|batch16... [profile]\n");
        return argc > 3 ? 77 : 2;
    }
    weft_set_default_device(device);
    profiled = strcmp(argv[argc - 1], "profile") == 0;
    for (int i = 3; i < argc - profiled; i++) {
        if (strncmp(argv[i], "stream", 6) == 0) {
            streams = true;
            resident = atoll(argv[i] + 6);
        } else if (strncmp(argv[i], "lora", 4) == 0 || strncmp(argv[i], "checkpoint", 10) == 0 ||
                   strncmp(argv[i], "full", 4) == 0)
            bench_training(argv[2], argv[i]);
        else if (strncmp(argv[i], "batch", 5) == 0)
            bench_batch(argv[2], argv[i]);
        else
            bench_generate(argv[2], argv[i]);
    }
    return 0;
}
