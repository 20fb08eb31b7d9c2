/* tests/bench/inferena.c -- the measurements of kvark/inferena for causal language models: a
 * forward and backward pass over 128 tokens without an update, a forward pass with all logits, and
 * a forward pass of one token without a KV cache.
 *
 *     bench_inferena MODEL [DEVICE [DTYPE [ROUNDS [profile]]]]
 *
 * Prints one line of JSON: medians in milliseconds of ROUNDS (20) after 5 that are not counted, of
 * the time and of the processor time (which other load changes less), the seconds of the first
 * training pass, which compiles, and the loss and the norm of all gradients of the last. Token i is
 * i and its target i + 2, as the labels 1 to 128 mean in transformers. DTYPE: float32 (default), or
 * bfloat16 for weights and activations.
 */
#include "tests/bench/bench.h"
#include "weft/weft.h"

enum { LENGTH = 128, WARM_UP = 5, ROUNDS = 20, MOST_ROUNDS = 1000 };

typedef struct bench {
    weft_device *device;
    weft_model *model;
    weft_array *tokens, *one, *targets; /* (1, L), (1, 1), (L); the last target is ignored */
    double loss, norm;
} bench;

static weft_array *loss_of(void *context)
{
    const bench *b = context;
    const weft_model_info *info = weft_model_info_of(b->model);
    weft_array *hidden = weft_reshape(weft_model_hidden(b->model, b->tokens, NULL),
                                      WEFT_DIMS(LENGTH, info->hidden_size));
    weft_array *losses = weft_linear_cross_entropy(hidden, weft_model_head_weight(b->model),
                                                   b->targets, info->softcap);
    return weft_divide_scalar(weft_sum(losses, WEFT_ALL_AXES, false), LENGTH - 1);
}

static void train(bench *b)
{
    weft_nn_gradients gradients;
    weft_array *loss = weft_nn_value_and_grad(weft_model_module(b->model), loss_of, b, &gradients);
    const int n = gradients.parameters.n;
    weft_array **all = calloc((size_t)n + 1, sizeof *all);
    if (all == NULL)
        exit(1);
    for (int i = 0; i < n; i++)
        all[i] = gradients.arrays[i];
    all[n] = loss;
    check(weft_eval_n(all, n + 1));
    check(weft_read(loss, WEFT_FLOAT64, &b->loss, 1));
    check(weft_synchronize(b->device));
    free(all);
    weft_nn_gradients_free(&gradients);
}

/* The norm of all gradients, of a pass that is not measured. */
static void find_norm(bench *b)
{
    weft_nn_gradients gradients;
    double sum = 0;
    weft_scope_open();
    check(weft_eval(weft_nn_value_and_grad(weft_model_module(b->model), loss_of, b, &gradients)));
    for (int i = 0; i < gradients.parameters.n; i++) {
        double square;
        weft_array *g = weft_astype(gradients.arrays[i], WEFT_FLOAT32);
        check(weft_read(weft_sum(weft_multiply(g, g), WEFT_ALL_AXES, false), WEFT_FLOAT64, &square,
                        1));
        sum += square;
    }
    check(weft_read(weft_sqrt(weft_scalar(sum, WEFT_FLOAT64)), WEFT_FLOAT64, &b->norm, 1));
    weft_nn_gradients_free(&gradients);
    weft_scope_close(NULL);
}

static void infer(bench *b)
{
    check(weft_eval(weft_model_forward(b->model, b->tokens, NULL)));
    check(weft_synchronize(b->device));
}

static void infer_one(bench *b)
{
    check(weft_eval(weft_model_forward(b->model, b->one, NULL)));
    check(weft_synchronize(b->device));
}

static void profile(bench *b)
{
    weft_kernel_report kernels[24];
    weft_totals totals;
    weft_op_report op;
    check(weft_device_profile(b->device, true));
    weft_scope_open_lean();
    train(b);
    weft_scope_close(NULL);
    weft_device_report(b->device, &op, 1, &totals);
    fprintf(stderr, "ms: device %.1f, wall %.1f, planning %.1f, running %.1f, waiting %.1f\n",
            1e-6 * (double)totals.busy, 1e-6 * (double)totals.wall, 1e-6 * (double)totals.planning,
            1e-6 * (double)totals.running, 1e-6 * (double)totals.waiting);
    const int n = weft_device_kernels(b->device, kernels, 24);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%-24s %-9s %5lld %8.2f ms %8.1f GFLOP/s\n", kernels[i].op,
                kernels[i].variant, (long long)kernels[i].calls,
                1e-6 * (double)kernels[i].nanoseconds,
                (double)kernels[i].work.flops / (double)kernels[i].nanoseconds);
    check(weft_device_profile(b->device, false));
}

/* Medians in milliseconds of the time and of the processor time, and the seconds of the first call.
 */
static double measure(bench *b, void (*run)(bench *b), int rounds, double *cpu, double *first)
{
    double times[MOST_ROUNDS], cpu_times[MOST_ROUNDS];
    for (int i = -WARM_UP; i < rounds; i++) {
        const double began = seconds(), cpu_began = seconds_by(CLOCK_PROCESS_CPUTIME_ID);
        weft_scope_open_lean();
        run(b);
        weft_scope_close(NULL);
        const double took = seconds() - began;
        if (i == -WARM_UP)
            *first = took;
        if (i >= 0) {
            times[i] = 1e3 * took;
            cpu_times[i] = 1e3 * (seconds_by(CLOCK_PROCESS_CPUTIME_ID) - cpu_began);
        }
    }
    *cpu = median(cpu_times, rounds);
    return median(times, rounds);
}

static void make_inputs(bench *b)
{
    int32_t ids[LENGTH], targets[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        ids[i] = i;
        targets[i] = i + 2;
    }
    targets[LENGTH - 1] = -1;
    b->tokens = weft_keep(weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, LENGTH)));
    b->one = weft_keep(weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 1)));
    b->targets = weft_keep(weft_from_data(targets, WEFT_INT32, WEFT_DIMS(LENGTH)));
}

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : "cpu";
    const bool narrow = argc > 3 && strcmp(argv[3], "bfloat16") == 0;
    const int rounds = argc > 4 ? atoi(argv[4]) : ROUNDS;
    bench b = {.device = weft_device_get(name)};
    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS || b.device == NULL) {
        fprintf(stderr, "bench_inferena MODEL [DEVICE [float32|bfloat16 [ROUNDS]]]: %s\n",
                b.device == NULL ? weft_error_message() : "expected a model, and 1 to 1000 rounds");
        return 2;
    }
    weft_set_default_device(b.device);
    const weft_model_options options = {.device = b.device,
                                        .dtype = narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32};
    check(weft_model_load(argv[1], &options, &b.model));
    make_inputs(&b);
    double cpu[3], first, ignored;
    const double training = measure(&b, train, rounds, &cpu[0], &first),
                 inference = measure(&b, infer, rounds, &cpu[1], &ignored),
                 latency = measure(&b, infer_one, rounds, &cpu[2], &ignored);
    find_norm(&b);
    printf("{\"training_ms\": %.3f, \"inference_ms\": %.3f, \"latency_ms\": %.3f, "
           "\"training_cpu_ms\": %.3f, \"inference_cpu_ms\": %.3f, \"compile_s\": %.2f, "
           "\"loss\": %.6f, \"gradient_norm\": %.6f}\n",
           training, inference, latency, cpu[0], cpu[1], first, b.loss, b.norm);
    if (argc > 5 && strcmp(argv[5], "profile") == 0)
        profile(&b);
    weft_drop(b.tokens);
    weft_drop(b.one);
    weft_drop(b.targets);
    weft_model_free(b.model);
    return 0;
}
