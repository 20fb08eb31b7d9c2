/* tests/bench/steps.c -- compiled steps against the same steps as graphs, in interleaved rounds:
 * decoding in tokens/s, and an update in milliseconds.
 *
 *     bench_steps decode FOLDER|LAYERSxWIDTH [ROUNDS [TOKENS [DEVICE]]]
 *     bench_steps train FOLDER|LAYERSxWIDTH [ROUNDS [lora|full [DEVICE]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "train/trainer.h"
#include "weft/generate.h"
#include "weft/memory.h"
#include "weft/random.h"
#include "weft/train.h"

enum { MOST_ROUNDS = 101, BATCH = 8, LENGTH = 256 };

/* Qwen3's shape with random weights, or a checkpoint. */
static weft_model *load(const char *what)
{
    weft_model *model = NULL;
    int layers, width;
    if (sscanf(what, "%dx%d", &layers, &width) != 2) {
        check(weft_model_load(what, &(weft_model_options){.dtype = WEFT_FLOAT32}, &model));
        return model;
    }
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\": \"qwen3\", \"vocab_size\": 16384, \"hidden_size\": %d, "
             "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
             "\"num_key_value_heads\": %d, \"head_dim\": 64, \"max_position_embeddings\": 4096, "
             "\"tie_word_embeddings\": true}",
             width, 3 * width, layers, width / 64, width / 128 > 0 ? width / 128 : 1);
    weft_config *config = NULL;
    check(weft_config_parse(text, "bench", &config));
    check(weft_model_new(config, &model));
    weft_config_free(config);
    return model;
}

/* ---- decoding ------------------------------------------------------------------------------- */

typedef struct tokens {
    int64_t n;
    uint64_t hash;
} tokens;

static bool count(void *context, const weft_generated *token)
{
    tokens *t = context;
    if (token->id >= 0) {
        t->n++;
        t->hash = (t->hash ^ (uint64_t)token->id) * 1099511628211u;
    }
    return true;
}

static weft_generate_stats decode(weft_model *model, int64_t n, bool no_compile, tokens *t)
{
    static const int32_t prompt[] = {2010, 370, 627, 258, 550, 451, 309};
    const weft_generate_options o = {.max_tokens = n, .ignore_eos = true, .no_compile = no_compile};
    weft_generate_stats stats;
    weft_memory_reset_peak();
    check(weft_generate(model, NULL, prompt, sizeof prompt / sizeof *prompt, &o, count, t, &stats));
    return stats;
}

static void bench_decode(weft_model *model, int rounds, int64_t n)
{
    double rates[2][MOST_ROUNDS], ratios[MOST_ROUNDS];
    int64_t peak[2] = {0};
    uint64_t hash[2] = {0};
    for (int r = -1; r < rounds; r++) {
        for (int k = 0; k < 2; k++) {
            const int graph = (r + k) & 1;
            tokens t = {0};
            const weft_generate_stats stats = decode(model, n, graph, &t);
            peak[graph] = stats.peak_memory;
            hash[graph] = t.hash;
            if (r >= 0)
                rates[graph][r] = stats.decode_per_second;
        }
        if (r >= 0)
            ratios[r] = rates[0][r] / rates[1][r];
    }
    printf("%lld tokens: compiled %.0f tokens/s, graphs %.0f, ratio %.3f (%s); peak %.1f and %.1f "
           "MB\n",
           (long long)n, median(rates[0], rounds), median(rates[1], rounds), median(ratios, rounds),
           hash[0] == hash[1] ? "same tokens" : "OTHER TOKENS", 1e-6 * (double)peak[0],
           1e-6 * (double)peak[1]);
}

/* ---- training ------------------------------------------------------------------------------- */

enum { GRAPHS, COMPILED };

typedef struct side {
    weft_model *model;
    weft_trainer *trainer;
    double ms[MOST_ROUNDS], loss;
    int64_t extra; /* peak memory of an update above what there was before */
} side;

static side new_side(const char *what, bool lora, bool compile)
{
    weft_random_seed(7); /* random weights, and the adapter's, are the same on both sides */
    side s = {.model = load(what)};
    if (lora)
        check(weft_nn_lora_inject(weft_model_module(s.model), &(weft_nn_lora_options){.rank = 8}));
    const weft_trainer_options o = {.lr = 1e-4, .clip = 1, .compile = compile};
    check(weft_trainer_new(s.model, &o, &s.trainer));
    return s;
}

/* An update on (BATCH, length) tokens that number `r` makes. */
static void update(side *s, int r, int64_t length, int at)
{
    weft_scope_open();
    const int64_t V = weft_model_info_of(s->model)->vocab_size;
    weft_array *ids = weft_random_randint(weft_random_key((uint64_t)r + 1),
                                          WEFT_DIMS(BATCH, length), 0, V, WEFT_INT32);
    const weft_batch batch = {.tokens = ids,
                              .targets = ids,
                              .n_targets = (double)(BATCH * length),
                              .n_tokens = BATCH * length};
    check(weft_eval(ids));
    weft_memory_reset_peak();
    const int64_t before = weft_memory_active();
    const double began = seconds();
    weft_train_report report;
    check(weft_trainer_step(s->trainer, &batch, 1, 1, &report));
    if (at >= 0)
        s->ms[at] = 1e3 * (seconds() - began);
    s->loss = report.loss;
    const int64_t extra = weft_memory_peak() - before;
    s->extra = extra > s->extra ? extra : s->extra;
    weft_scope_close(NULL);
}

/* Lengths that differ from update to update when `vary`. */
static void bench_train(const char *what, int rounds, bool lora, bool vary)
{
    side sides[2] = {new_side(what, lora, false), new_side(what, lora, true)};
    double ratios[MOST_ROUNDS];
    bool same = true;
    for (int r = -2; r < rounds; r++) {
        const int64_t length = vary ? LENGTH - 16 * ((r + 2) * 5 % 13) : LENGTH;
        for (int k = 0; k < 2; k++)
            update(&sides[(r + k) & 1], r + 2, length, r);
        same = same && sides[0].loss == sides[1].loss;
        if (r >= 0)
            ratios[r] = sides[GRAPHS].ms[r] / sides[COMPILED].ms[r];
    }
    const weft_compile_counts c = weft_compiled_counts(sides[COMPILED].trainer->compiled);
    printf("%s%s: compiled %.1f ms, graphs %.1f, ratio %.3f (losses %s); memory of an update %.1f "
           "and %.1f MB; %lld compiles, %lld traces, %lld plans\n",
           lora ? "lora" : "full", vary ? ", lengths vary" : "", median(sides[COMPILED].ms, rounds),
           median(sides[GRAPHS].ms, rounds), median(ratios, rounds), same ? "equal" : "DIFFER",
           1e-6 * (double)sides[COMPILED].extra, 1e-6 * (double)sides[GRAPHS].extra,
           (long long)c.compiles, (long long)c.traces, (long long)c.plans);
    for (int i = 0; i < 2; i++) {
        weft_trainer_free(sides[i].trainer);
        weft_model_free(sides[i].model);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "bench_steps decode|train FOLDER|LAYERSxWIDTH [ROUNDS ...]\n");
        return 2;
    }
    int rounds = argc > 3 ? atoi(argv[3]) : 9;
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    if (argc > 5) {
        weft_device *device = weft_device_get(argv[5]);
        if (device == NULL) {
            fprintf(stderr, "bench_steps: no such device\n");
            return 2;
        }
        weft_set_default_device(device);
        printf("%s: ", weft_device_description(device));
    }
    if (strcmp(argv[1], "train") == 0) {
        const bool lora = argc <= 4 || strcmp(argv[4], "full") != 0;
        for (int vary = 0; vary < 2; vary++)
            bench_train(argv[2], rounds, lora, vary);
        return 0;
    }
    weft_model *model = load(argv[2]);
    bench_decode(model, rounds, argc > 4 ? atoi(argv[4]) : 200);
    weft_model_free(model);
    return 0;
}
