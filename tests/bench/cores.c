/* tests/bench/cores.c -- matrix products on matrix cores by each tile: TFLOP/s of the device, from
 * its own timestamps, for the table in backends/vulkan/kernels/core_tiles.c.
 *
 *     bench_cores [DEVICE [all|adapters|chosen|sums|rows|attention [TYPE]]]
 *
 * all (default): every tile for square products; adapters: every tile for products of LoRA of rank
 * 16 and of 16 rows, the bytes that they read and write once in GB/s; chosen: the tile that the
 * table chooses, for shapes of models and adapters, and what products take without matrix cores for
 * comparison with WEFT_VULKAN_DISABLE=matrix; sums: sums of products (linear_sum) of LoRA of rank
 * 16, TFLOP/s by the chosen tile (0x0) and by each of the largest ones; rows: chains of products
 * of 16 and 64 rows by each tile for narrow ones, microseconds, GB/s, and microseconds with an
 * adapter; attention: causal, of 4 x 32 heads of 128, visible pairs counted, forward and the
 * gradient alone. TYPE: bfloat16 (default) or float16.
 */
#include <math.h>

#include "backends/vulkan/kernels/product_plan.h"
#include "tests/bench/bench.h"
#include "weft/op_params.h"
#include "weft/weft.h"

enum { RUNS = 5, MOST_RUNS = 64, MOST_TERMS = 6 };

static weft_device *device;
static weft_dtype dtype = WEFT_BFLOAT16;

static weft_array *make(int64_t rows, int64_t columns)
{
    weft_array *x = weft_keep(weft_random_uniform(NULL, WEFT_DIMS(rows, columns), -1, 1, dtype));
    check(weft_eval(x));
    return x;
}

/* Microseconds that the device takes to evaluate the arrays. */
static double device_us(weft_array **ys, int n)
{
    weft_totals totals;
    weft_op_report ops[8];
    check(weft_device_profile(device, true));
    check(weft_eval_n(ys, n));
    check(weft_synchronize(device));
    weft_device_report(device, ops, 8, &totals);
    return 1e-3 * (double)totals.busy;
}

/* Microseconds of one product, the clock warm. `form` as in "NT". */
static double measure(int64_t M, int64_t N, int64_t K, const char *form)
{
    weft_scope_open();
    const bool a_turned = form[0] == 'T', b_turned = form[1] == 'T';
    weft_array *a = a_turned ? make(K, M) : make(M, K), *b = b_turned ? make(N, K) : make(K, N);
    double times[RUNS];
    const double flops = 2.0 * (double)M * (double)N * (double)K;
    const int wanted = (int)(4e12 / flops), count = wanted < 4           ? 4
                                                    : wanted > MOST_RUNS ? MOST_RUNS
                                                                         : wanted;
    for (int run = -2; run < RUNS; run++) {
        weft_array *ys[MOST_RUNS];
        weft_scope_open();
        for (int i = 0; i < count; i++)
            ys[i] = weft_matmul(a_turned ? weft_swapaxes(a, 0, 1) : a,
                                b_turned ? weft_swapaxes(b, 0, 1) : b);
        const double us = device_us(ys, count) / count;
        if (run >= 0)
            times[run] = us;
        weft_scope_close(NULL);
    }
    check(weft_device_profile(device, false));
    weft_drop(a);
    weft_drop(b);
    weft_scope_close(NULL);
    return median(times, RUNS);
}

/* The same of a sum of products; terms end with 0. */
static double measure_sum(int64_t M, int64_t N, const int64_t terms[MOST_TERMS], bool transposed)
{
    enum { COUNT = 8 };
    const weft_linear_sum_params params = {.transposed = transposed};
    weft_array *in[2 * MOST_TERMS];
    int n = 0;
    double times[RUNS];
    weft_scope_open();
    for (int i = 0; i < MOST_TERMS && terms[i] > 0; i++) {
        in[n++] = make(M, terms[i]);
        in[n++] = transposed ? make(terms[i], N) : make(N, terms[i]);
    }
    for (int run = -2; run < RUNS; run++) {
        weft_array *ys[COUNT];
        weft_scope_open();
        for (int i = 0; i < COUNT; i++)
            ys[i] = weft_apply(weft_op_find("linear_sum"), in, n, &params);
        const double us = device_us(ys, COUNT) / COUNT;
        if (run >= 0)
            times[run] = us;
        weft_scope_close(NULL);
    }
    check(weft_device_profile(device, false));
    for (int i = 0; i < n; i++)
        weft_drop(in[i]);
    weft_scope_close(NULL);
    return median(times, RUNS);
}

static void report(const char *with, int64_t M, int64_t N, int64_t K, const char *form)
{
    const double us = measure(M, N, K, form);
    printf("%s,%s,%s,%lld,%lld,%lld,%.1f,%.1f\n", with, weft_dtype_name(dtype), form, (long long)M,
           (long long)N, (long long)K, us, 2e-6 * (double)M * (double)N * (double)K / us);
    fflush(stdout);
}

static void for_every_tile(void (*run)(const char *name))
{
    const core_tile *tiles;
    const int n = weft__product_core_tiles(WEFT__VULKAN_CORES_NVIDIA, &tiles);
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%dx%dx%d %dx%dx%d", tiles[i].rows, tiles[i].columns,
                 tiles[i].terms, tiles[i].down, tiles[i].across, tiles[i].split);
        weft__product_force_core_tile(&tiles[i]);
        run(name);
    }
    weft__product_force_core_tile(NULL);
    run("chosen");
}

static void adapters(const char *name)
{
    static const struct {
        int64_t M, N, K;
        const char *form;
    } all[] = {
        {4096, 16, 2048, "NT"},  {4096, 16, 8192, "NN"}, {16, 2048, 4096, "TN"},
        {16, 8192, 4096, "TN"},  {512, 16, 4096, "TN"},  {8192, 16, 4096, "TN"},
        {4096, 2048, 16, "NT"},  {4096, 8192, 16, "NT"}, {4096, 2048, 16, "NN"},
        {16, 14336, 4096, "NT"}, {16, 4096, 4096, "NT"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int64_t M = all[i].M, N = all[i].N, K = all[i].K;
        const double us = measure(M, N, K, all[i].form);
        printf("%s,%s,%lld,%lld,%lld,%.1f,%.0f\n", name, all[i].form, (long long)M, (long long)N,
               (long long)K, us, 2e-3 * (double)(M * K + N * K + M * N) / us);
    }
    fflush(stdout);
}

static void squares(const char *name)
{
    static const char *const forms[] = {"NT", "NN", "TN"};
    for (int f = 0; f < 3; f++)
        report(name, 4096, 4096, 4096, forms[f]);
    report(name, 6144, 6144, 6144, "NT");
    report(name, 200, 312, 4096, "NT");
}

static void chosen(void)
{
    static const struct {
        int64_t M, N, K;
        const char *form;
    } all[] = {
        {4096, 4096, 4096, "NT"},  {4096, 4096, 4096, "NN"},  {4096, 4096, 4096, "TN"},
        {8192, 8192, 8192, "NT"},  {8192, 8192, 8192, "NN"},  {8192, 8192, 8192, "TN"},
        {4096, 14336, 4096, "NT"}, {4096, 4096, 14336, "NT"}, {4096, 14336, 4096, "NN"},
        {4096, 1024, 4096, "NT"},  {4096, 4096, 1024, "NN"},  {4096, 2048, 2048, "NT"},
        {4096, 8192, 2048, "NT"},  {4096, 2048, 8192, "NT"},  {4096, 512, 2048, "NT"},
        {512, 4096, 4096, "NT"},   {512, 14336, 4096, "NT"},  {512, 4096, 14336, "NT"},
        {128, 4096, 4096, "NT"},   {64, 4096, 4096, "NT"},    {32, 4096, 4096, "NT"},
        {16, 4096, 4096, "NT"},    {4096, 16, 4096, "NT"},    {4096, 4096, 16, "NT"},
        {4096, 16, 4096, "NN"},    {4096, 4096, 16, "NN"},    {16, 4096, 4096, "TN"},
        {4096, 16, 4096, "TN"},    {4096, 16, 14336, "NT"},   {4096, 14336, 16, "NT"},
        {128, 128256, 4096, "NT"}, {512, 128256, 4096, "NT"}, {512, 4096, 128256, "NN"},
        {4100, 4104, 4104, "NT"},  {1000, 1000, 1000, "NT"},  {2048, 2048, 2048, "NT"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        report("chosen", all[i].M, all[i].N, all[i].K, all[i].form);
}

static void sums(void)
{
    enum { M = 4096, LARGEST = 5 };
    static const struct {
        int64_t N, terms[MOST_TERMS];
        bool transposed;
    } all[] = {
        {4096, {4096, 16}, false},  {1024, {4096, 16}, false},
        {14336, {4096, 16}, false}, {4096, {14336, 16}, false},
        {2048, {2048, 16}, false},  {8192, {2048, 16}, false},
        {2048, {8192, 16}, false},  {512, {2048, 16}, false},
        {1024, {1024, 16}, false},  {3072, {1024, 16}, false},
        {4096, {4096, 16}, true},   {4096, {4096, 16, 1024, 16, 1024, 16}, true},
        {14336, {4096, 16}, true},  {4096, {14336, 16, 14336, 16}, true},
    };
    const core_tile *tiles;
    weft__product_core_tiles(WEFT__VULKAN_CORES_NVIDIA, &tiles);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double terms = 0;
        for (int k = 0; k < MOST_TERMS; k++)
            terms += (double)all[i].terms[k];
        for (int t = -1; t < LARGEST; t++) {
            if (t >= 0 && (tiles[t].a_by_row || (tiles[t].b_by_column && !all[i].transposed)))
                continue;
            weft__product_force_core_tile(t < 0 ? NULL : &tiles[t]);
            const double us = measure_sum(M, all[i].N, all[i].terms, all[i].transposed);
            printf("%dx%d,%s,%s,%d,%lld,%.0f,%.1f,%.1f\n", t < 0 ? 0 : tiles[t].rows,
                   t < 0 ? 0 : tiles[t].columns, weft_dtype_name(dtype),
                   all[i].transposed ? "NN" : "NT", M, (long long)all[i].N, terms, us,
                   2e-6 * M * (double)all[i].N * terms / us);
            fflush(stdout);
        }
        weft__product_force_core_tile(NULL);
    }
}

/* Microseconds of a product in a chain of them that read different weights, (N, K) and (K, N) in
 * turn; with `rank`, of a sum with the product of an adapter. */
static double in_chain(int64_t M, int64_t N, int64_t K, int64_t rank)
{
    enum { MOST = 96, ROOM = 1 << 30 };
    const weft_linear_sum_params params = {.transposed = false};
    const int64_t fit = ROOM / (2 * N * K);
    const int n = fit > MOST ? MOST : fit < 8 ? 8 : (int)fit / 2 * 2;
    double times[RUNS];
    weft_array *w[MOST], *b[MOST];
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        const int64_t from = i % 2 ? N : K, to = i % 2 ? K : N;
        const double most = sqrt(3.0 / (double)from);
        w[i] = weft_random_uniform(NULL, WEFT_DIMS(to, from), -most, most, dtype);
        b[i] = rank ? make(to, rank) : NULL;
        check(weft_eval(w[i]));
    }
    weft_array *x = make(M, K), *h = rank ? make(M, rank) : NULL;
    for (int run = -2; run < RUNS; run++) {
        weft_array *y = x;
        weft_scope_open();
        for (int i = 0; i < n; i++) {
            weft_array *in[] = {y, w[i], h, b[i]};
            y = rank ? weft_apply(weft_op_find("linear_sum"), in, 4, &params)
                     : weft_matmul(y, weft_swapaxes(w[i], 0, 1));
        }
        const double us = device_us(&y, 1) / n;
        if (run >= 0)
            times[run] = us;
        weft_scope_close(NULL);
    }
    check(weft_device_profile(device, false));
    for (int i = 0; rank && i < n; i++)
        weft_drop(b[i]);
    weft_drop(x);
    weft_drop(h);
    weft_scope_close(NULL);
    return median(times, RUNS);
}

static void rows(void)
{
    static const int64_t shapes[][2] = {{2048, 2048}, {512, 2048},  {8192, 2048},
                                        {4096, 4096}, {1024, 4096}, {14336, 4096}};
    const core_tile *tiles;
    const int n = weft__product_core_tiles(WEFT__VULKAN_CORES_NVIDIA, &tiles);
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        const int64_t M = i % 2 ? 64 : 16, N = shapes[i / 2][0], K = shapes[i / 2][1];
        for (int t = -1; t < n; t++) {
            if (t >= 0 && (!tiles[t].narrow || tiles[t].rows > M))
                continue;
            weft__product_force_core_tile(t < 0 ? NULL : &tiles[t]);
            const double us = in_chain(M, N, K, 0);
            printf("%dx%dx%d,%s,NT,%lld,%lld,%lld,%.1f,%.0f,%.1f\n", t < 0 ? 0 : tiles[t].rows,
                   t < 0 ? 0 : tiles[t].columns, t < 0 ? 0 : tiles[t].terms, weft_dtype_name(dtype),
                   (long long)M, (long long)N, (long long)K, us,
                   2e-3 * (double)(N * K + M * (N + K)) / us, in_chain(M, N, K, 16));
            fflush(stdout);
        }
        weft__product_force_core_tile(NULL);
    }
}

/* Milliseconds of the device for an op in the arrays' evaluation, which may have copies too. */
static double time_of(const char *op, weft_array **arrays, int n)
{
    weft_op_report ops[8];
    int64_t nanoseconds = 0;
    check(weft_device_profile(device, true));
    check(weft_eval_n(arrays, n));
    check(weft_synchronize(device));
    const int n_ops = weft_device_report(device, ops, 8, NULL);
    for (int i = 0; i < n_ops; i++)
        nanoseconds += strcmp(ops[i].op, op) == 0 ? ops[i].nanoseconds : 0;
    return 1e-6 * (double)nanoseconds;
}

static void attention(int64_t B, int64_t L, int64_t H, int64_t Hk, int64_t D)
{
    const weft_attention_params params = {.scale = 0.08, .causal = true};
    const double flops = 4.0 * (double)(B * H * D) * (double)L * (double)(L + 1) / 2;
    double forward[RUNS], backward[RUNS];
    for (int run = -2; run < RUNS; run++) {
        weft_scope_open();
        weft_array *in[6];
        for (int i = 0; i < 4; i++)
            in[i == 3 ? 5 : i] = weft_random_uniform(
                NULL, WEFT_DIMS(B, L, i == 1 || i == 2 ? Hk : H, D), -1, 1, dtype);
        weft_array *made[] = {in[0], in[1], in[2], in[5]};
        check(weft_eval_n(made, 4));
        check(weft_synchronize(device)); /* none of it counts as busy below */
        weft_array *node = weft_apply(weft_op_find("attention"), in, 3, &params);
        in[3] = weft_pick(node, 0);
        in[4] = weft_pick(node, 1);
        weft_array *vjp = weft_apply(weft_op_find("attention_vjp"), in, 6, &params);
        weft_array *gradients[] = {weft_pick(vjp, 0), weft_pick(vjp, 1), weft_pick(vjp, 2)};
        const double first = time_of("attention", in + 3, 2),
                     second = time_of("attention_vjp", gradients, 3);
        if (run >= 0) {
            forward[run] = first;
            backward[run] = second;
        }
        weft_scope_close(NULL);
    }
    check(weft_device_profile(device, false));
    const double f = median(forward, RUNS), b = median(backward, RUNS);
    printf("attention %lldx%lldx%lld/%lldx%lld: forward %.2f ms, %.1f TFLOP/s; gradient %.2f ms, "
           "%.1f TFLOP/s\n",
           (long long)B, (long long)L, (long long)H, (long long)Hk, (long long)D, f,
           1e-9 * flops / f, b, 2.5e-9 * flops / b);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    device = weft_device_get(argc > 1 ? argv[1] : "vulkan");
    if (!device) {
        fprintf(stderr, "bench_cores: no such device\n");
        return 77;
    }
    weft_set_default_device(device);
    if (argc > 3 && strcmp(argv[3], "float16") == 0)
        dtype = WEFT_FLOAT16;
    printf("# %s\ntile,type,form,M,N,K,us,TFLOP/s\n", weft_device_description(device));
    if (argc > 2 && strcmp(argv[2], "chosen") == 0)
        chosen();
    else if (argc > 2 && strcmp(argv[2], "sums") == 0)
        sums();
    else if (argc > 2 && strcmp(argv[2], "rows") == 0)
        rows();
    else if (argc > 2 && strcmp(argv[2], "attention") == 0) {
        attention(4, 4096, 32, 32, 128);
        attention(4, 1024, 32, 8, 128);
        attention(4, 1024, 32, 8, 64);
    } else
        for_every_tile(argc > 2 && strcmp(argv[2], "adapters") == 0 ? adapters : squares);
    return 0;
}
