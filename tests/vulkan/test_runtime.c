/* tests/vulkan/test_runtime.c -- the Vulkan backend below its kernels: memory, transfers, order of
 * work, failures, threads, the cache on disk, profiles. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/gguf.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

static weft_device *vulkan, *cpu;

static bool devices(void)
{
    cpu = weft_device_get("cpu");
    vulkan = weft_device_get("vulkan");
    if (!vulkan) {
        check_skip("%s", weft_error_message());
    }
    return vulkan != NULL;
}

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* ---- traffic -------------------------------------------------------------------------------- */

static void the_device_describes_itself(void)
{
    if (!devices()) {
        return;
    }
    const char *words = weft_device_description(vulkan);
    CHECK_CONTAINS(words, "Vulkan 1.");
    CHECK_CONTAINS(words, "GiB");
    CHECK(weft_device_get("vulkan:0") == vulkan);
    CHECK(weft_device_get("vulkan:99") == NULL);
    CHECK_CONTAINS(weft_error_message(), "vulkan:99: expected an index below");
}

static void written_data_is_read_back(void)
{
    static const int64_t sizes[] = {1, 3, 1000, 1024, 1025, 70001, 1 << 20, 5000001};
    if (!devices()) {
        return;
    }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k];
        int32_t *from = malloc((size_t)n * sizeof *from), *to = calloc((size_t)n, sizeof *to);
        for (int64_t i = 0; i < n; i++) {
            from[i] = (int32_t)(i * 2654435761u);
        }
        weft_set_default_device(vulkan);
        weft_scope_open();
        weft_array *a = weft_from_data(from, WEFT_INT32, WEFT_DIMS(n));
        CHECK_OK(weft_read(a, WEFT_INT32, to, n));
        CHECK(memcmp(from, to, (size_t)n * sizeof *to) == 0);
        memset(to, 0, (size_t)n * sizeof *to);
        CHECK_OK(weft_read(weft_to(weft_to(a, cpu), vulkan), WEFT_INT32, to, n));
        CHECK(memcmp(from, to, (size_t)n * sizeof *to) == 0);
        weft_scope_close(NULL);
        weft_set_default_device(cpu);
        free(from);
        free(to);
    }
}

/* Sums of 160 MiB each: more than a storage buffer's range may be. */
static void large_arrays_work_by_address(void)
{
    const int64_t n = 40 << 20;
    if (!devices()) {
        return;
    }
    weft_set_default_device(vulkan);
    weft_scope_open();
    weft_array *ones = weft_full(WEFT_DIMS(n), 1.0, WEFT_FLOAT32);
    weft_array *a = weft_add(ones, weft_full(WEFT_DIMS(n), 0.5, WEFT_FLOAT32));
    CHECK_OK(weft_eval(a));
    weft_array *ends = weft_concatenate(
        (weft_array *[]){weft_slice(a, WEFT_DIMS(0), WEFT_DIMS(0), WEFT_DIMS(2), WEFT_DIMS(1)),
                         weft_slice(a, WEFT_DIMS(0), WEFT_DIMS(n - 2), WEFT_DIMS(n), WEFT_DIMS(1))},
        2, 0);
    double v[4] = {0};
    CHECK_OK(weft_read(ends, WEFT_FLOAT64, v, 4));
    CHECK(v[0] == 1.5 && v[1] == 1.5 && v[2] == 1.5 && v[3] == 1.5);
    weft_scope_close(NULL);
    weft_memory_clear_cache();
    weft_set_default_device(cpu);
}

/* ---- order ---------------------------------------------------------------------------------- */

enum { ARRAYS = 12, STEPS = 400, ELEMENTS = 300 };

/* A random program over a few arrays: each step replaces one by a function of two. */
static void run_program(weft_device *device, uint64_t seed, float *out)
{
    weft_array *slots[ARRAYS] = {NULL};
    state = seed;
    weft_set_default_device(device);
    weft_scope_open();
    for (int i = 0; i < ARRAYS; i++) {
        float v[ELEMENTS];
        for (int k = 0; k < ELEMENTS; k++) {
            v[k] = (float)draw(1000) / 1000;
        }
        slots[i] = weft_from_data(v, WEFT_FLOAT32, WEFT_DIMS(ELEMENTS));
    }
    for (int i = 0; i < STEPS; i++) {
        weft_array *a = slots[draw(ARRAYS)], *b = slots[draw(ARRAYS)];
        weft_array **to = &slots[draw(ARRAYS)];
        switch (draw(5)) {
        case 0:
            *to = weft_multiply(weft_add(a, b), weft_scalar(0.5, WEFT_FLOAT32));
            break;
        case 1:
            *to = weft_maximum(a, b);
            break;
        case 2:
            *to = weft_contiguous(weft_slice(a, WEFT_DIMS(0), WEFT_DIMS(ELEMENTS - 1),
                                             WEFT_DIMS(-ELEMENTS - 1), WEFT_DIMS(-1)));
            break;
        case 3:
            *to = weft_subtract(weft_abs(weft_subtract(a, b)), b);
            break;
        default:
            *to = weft_where(weft_less(a, b), a, weft_negative(b));
        }
    }
    CHECK_OK(weft_eval_n(slots, ARRAYS));
    for (int i = 0; i < ARRAYS; i++) {
        CHECK_OK(weft_read(slots[i], WEFT_FLOAT32, out + i * ELEMENTS, ELEMENTS));
    }
    weft_scope_close(NULL);
    weft_set_default_device(cpu);
}

/* Every operation here is exact or rounds once, so the elements are equal bit by bit; a missing
 * barrier shows as a difference. */
static void work_is_done_in_order(void)
{
    static float here[ARRAYS * ELEMENTS], there[ARRAYS * ELEMENTS];
    if (!devices()) {
        return;
    }
    for (uint64_t seed = 1; seed <= 12; seed++) {
        run_program(cpu, seed, here);
        run_program(vulkan, seed, there);
        CHECK(memcmp(here, there, sizeof here) == 0);
    }
}

static void *work(void *result)
{
    double *sum = result;
    weft_set_default_device(vulkan);
    for (int i = 0; i < 30; i++) {
        weft_scope_open();
        weft_array *a = weft_full(WEFT_DIMS(100 + i), 2.0, WEFT_FLOAT32);
        *sum += weft_item(weft_sum(weft_square(a), WEFT_ALL_AXES, false));
        weft_scope_close(NULL);
    }
    return NULL;
}

static void threads_share_the_device(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    double sums[THREADS] = {0};
    if (!devices()) {
        return;
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, &sums[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(sums[i] == 4.0 * (30 * 100 + 29 * 30 / 2));
    }
}

/* ---- failures ------------------------------------------------------------------------------- */

static double still_works(void)
{
    return weft_item(weft_sum(weft_full(WEFT_DIMS(1000), 0.5, WEFT_FLOAT32), WEFT_ALL_AXES, false));
}

static void no_memory_is_an_error_with_sizes(void)
{
    if (!devices()) {
        return;
    }
    weft_set_default_device(vulkan);
    weft_scope_open();
    CHECK_STATUS(weft_eval(weft_full(WEFT_DIMS((int64_t)1 << 40), 1, WEFT_FLOAT32)), WEFT_MEMORY);
    CHECK_CONTAINS(weft_error_message(), "out of memory: expected 4398046511104 bytes more");
    CHECK(still_works() == 500);
    weft_scope_close(NULL);
    weft_set_default_device(cpu);
}

static void bad_input_fails_the_evaluation_only(void)
{
    static const int32_t far[] = {0, 7, 100};
    if (!devices()) {
        return;
    }
    weft_set_default_device(vulkan);
    for (int i = 0; i < 3; i++) {
        weft_scope_open();
        weft_array *x = weft_full(WEFT_DIMS(8, 4), 1, WEFT_FLOAT32);
        weft_array *taken = weft_take(x, weft_from_data(far, WEFT_INT32, WEFT_DIMS(3)), 0);
        CHECK_STATUS(weft_eval(weft_square(taken)), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(),
                       "take: index 100 is out of range for an axis of size 8");
        CHECK(still_works() == 500);
        weft_scope_close(NULL);
    }
    weft_set_default_device(cpu);
}

/* Runs a case in a process of its own, whose cache is in the folder. Returns whether it wrote the
 * cache. */
static bool writes_cache(const char *folder)
{
    char self[1024], line[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(line, sizeof line,
             "cd %s && touch before && XDG_CACHE_HOME=%s '%s' threads_share >/dev/null && "
             "stat -c %%y weft/vulkan-*.bin >now",
             folder, folder, self);
    CHECK_EQ_INT(system(line), 0);
    snprintf(line, sizeof line, "cd %s && ! cmp -s before now && mv now before", folder);
    return system(line) == 0;
}

/* A run that finds all pipelines in the cache does not write it; the first runs leave few out. A
 * cache of another driver or version is ignored. */
static void a_damaged_pipeline_cache_is_ignored(void)
{
    char folder[] = "/tmp/weft-cache-XXXXXX", line[200];
    int runs = 0;
    if (!devices() || !CHECK(mkdtemp(folder) != NULL)) {
        return;
    }
    while (writes_cache(folder) && runs < 5) {
        runs++;
    }
    CHECK(runs > 0 && runs < 5);
    snprintf(line, sizeof line, "for f in %s/weft/*; do echo garbage > $f; done", folder);
    CHECK_EQ_INT(system(line), 0);
    writes_cache(folder);
    snprintf(line, sizeof line, "rm -r '%s'", folder);
    CHECK_EQ_INT(system(line), 0);
}

/* ---- ten thousand steps --------------------------------------------------------------------- */

typedef struct net {
    weft_array *w1, *w2, *x, *y;
} net;

static weft_array *loss_of(void *context)
{
    const net *m = context;
    weft_array *h = weft_tanh(weft_matmul(m->x, m->w1));            /* (16, 8) */
    weft_array *error = weft_subtract(weft_matmul(h, m->w2), m->y); /* (16, 1) */
    return weft_mean(weft_square(error), WEFT_ALL_AXES, false);
}

static double step(net *m)
{
    weft_array **const slots[] = {&m->w1, &m->w2};
    weft_array *grads[2], *next[3];
    weft_scope_open();
    weft_array *loss = weft_value_and_grad_slots(loss_of, m, slots, 2, grads);
    weft_array *rate = weft_scalar(0.05, WEFT_FLOAT32);
    for (int i = 0; i < 2; i++) {
        next[i] = weft_subtract(*slots[i], weft_multiply(rate, grads[i]));
    }
    next[2] = weft_keep(loss);
    CHECK_OK(weft_update(slots, next, 2));
    double value = weft_item(loss);
    weft_drop(loss);
    weft_scope_close(NULL);
    return value;
}

static int64_t resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &pages, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return resident * sysconf(_SC_PAGESIZE) / 1024;
}

static void memory_stays_flat(void)
{
    const char *wanted = getenv("WEFT_TEST_STEPS");
    const int steps = wanted ? atoi(wanted) : 600, settled = steps / 2;
    if (!devices()) {
        return;
    }
    weft_set_default_device(vulkan);
    weft_scope_open();
    net m = {NULL, NULL, NULL, NULL};
    weft_array *key = weft_random_key(3);
    CHECK_OK(weft_set(&m.w1, weft_random_normal(key, WEFT_DIMS(4, 8), 0, 1, WEFT_FLOAT32)));
    CHECK_OK(weft_set(&m.w2, weft_random_normal(key, WEFT_DIMS(8, 1), 0, 1, WEFT_FLOAT32)));
    CHECK_OK(weft_set(&m.x, weft_random_normal(key, WEFT_DIMS(16, 4), 0, 1, WEFT_FLOAT32)));
    CHECK_OK(weft_set(&m.y, weft_sum(m.x, WEFT_DIMS(1), true)));
    double first = 0, last = 0;
    int64_t active = 0, cached = 0, resident = 0;
    for (int i = 0; i < steps; i++) {
        last = step(&m);
        first = i == 0 ? last : first;
        if (i == settled) {
            active = weft_memory_active();
            cached = weft_memory_cached();
            resident = resident_kib();
        }
    }
    CHECK(last < first / 10);
    CHECK_EQ_INT(weft_memory_active(), active);
    CHECK_EQ_INT(weft_memory_cached(), cached);
    int64_t grown = resident_kib() - resident;
#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory */
    /* Earlier cases change the allocator's state; a long run has a tighter bound. */
    if (!CHECK(grown < (wanted ? 512 : 2048))) {
        printf("  resident memory grew by %lld KiB\n", (long long)grown);
    }
#endif
    if (wanted) {
        printf("  %d steps: device memory %lld bytes throughout, resident %+lld KiB since step %d, "
               "loss %.4g to %.4g\n",
               steps, (long long)(active + cached), (long long)grown, settled, first, last);
    }
    CHECK_OK(weft_set(&m.w1, NULL));
    CHECK_OK(weft_set(&m.w2, NULL));
    CHECK_OK(weft_set(&m.x, NULL));
    CHECK_OK(weft_set(&m.y, NULL));
    weft_scope_close(NULL);
    weft_set_default_device(cpu);
}

/* ---- Profiles ------------------------------------------------------------------------------- */

/* Evaluates on the device under a profile, and checks the one kernel of an op. */
static void check_profiled(weft_array *a, const char *op, const char *variant, double flops,
                           double bytes)
{
    weft_kernel_report kernels[16];
    int found = 0;
    CHECK_OK(weft_device_profile(vulkan, true));
    CHECK_OK(weft_eval(a));
    const int n = weft_device_kernels(vulkan, kernels, 16);
    CHECK_OK(weft_device_profile(vulkan, false));
    for (int i = 0; i < n; i++) {
        const weft_kernel_report *k = &kernels[i];
        if (strcmp(k->op, op) != 0) {
            continue;
        }
        found++;
        CHECK_STR(k->variant, variant);
        CHECK_EQ_INT(k->calls, 1);
        CHECK_CLOSE(k->work.flops, flops, 0);
        CHECK_CLOSE(k->work.bytes, bytes, 0);
        CHECK(k->nanoseconds > 0); /* by the device's timestamps */
    }
    CHECK_EQ_INT(found, 1);
}

static weft_array *on_device(weft_dims shape, weft_dtype dtype)
{
    weft_array *x = weft_random_normal(weft_random_key(1), shape, 0, 1, dtype);
    CHECK_OK(weft_eval(x));
    return x;
}

/* The operations and bytes of kernels are those of the same ops on the CPU. Lengths count only if
 * the host has them; kernels return before the device has computed anything, so all keys count. */
static void kernels_have_work_and_time(void)
{
    if (!devices()) {
        return;
    }
    weft_set_default_device(vulkan);
    weft_scope_open();
    weft_array *x = on_device(WEFT_DIMS(96, 64), WEFT_FLOAT32);
    weft_array *w = on_device(WEFT_DIMS(80, 64), WEFT_FLOAT32);
    check_profiled(weft_linear(x, w, NULL), "linear", "float32", 2 * 96 * 64 * 80,
                   4 * (96 * 64 + 80 * 64 + 96 * 80));
    weft_array *blocks = weft_encode(w, weft_gguf_encoding("Q8_0")); /* 34 bytes for 32 elements */
    CHECK_OK(weft_eval(blocks));
    check_profiled(weft_linear(x, blocks, NULL), "linear", "q8_0", 2 * 96 * 64 * 80,
                   4 * (96 * 64 + 96 * 80) + 80 * 2 * 34);
    /* Kernels that add a residual, or gate two products (a b / (1 + exp -a), 9 operations with the
     * choice by a's sign), without storing the products. */
    weft_array *row = on_device(WEFT_DIMS(1, 64), WEFT_FLOAT32);
    weft_array *residual = on_device(WEFT_DIMS(1, 80), WEFT_FLOAT32);
    weft_array *twin = on_device(WEFT_DIMS(80, 64), WEFT_FLOAT32);
    weft_scope_open_lean();
    check_profiled(weft_add(weft_linear(row, w, NULL), residual), "linear", "float32",
                   2 * 64 * 80 + 80, 4 * (64 + 80 * 64 + 80 + 80));
    weft_array *gated = weft_swiglu(weft_linear(row, w, NULL), weft_linear(row, twin, NULL));
    check_profiled(gated, "linear", "float32", 2 * 2 * 64 * 80 + 80 * 9,
                   4 * (64 + 2 * 80 * 64 + 80));
    weft_scope_close(NULL);
    weft_array *q = on_device(WEFT_DIMS(2, 3, 4, 64), WEFT_FLOAT32);
    weft_array *k = on_device(WEFT_DIMS(2, 5, 4, 64), WEFT_FLOAT32);
    weft_array *lengths = weft_full(WEFT_DIMS(2), 4, WEFT_INT32);
    CHECK_OK(weft_eval(lengths));
    check_profiled(weft_attention(q, k, k, &(weft_attention_options){.lengths = lengths}),
                   "attention", "float32", 2 * 2 * (3 * 5) * 4 * (64 + 64),
                   4 * (2 * 24 * 64 + 2 * 40 * 64 + 24) + 4 * 2);
    weft_scope_close(NULL);
    weft_set_default_device(cpu);
}

CHECK_MAIN("vulkan_runtime", CHECK_CASE(the_device_describes_itself),
           CHECK_CASE(written_data_is_read_back), CHECK_CASE(large_arrays_work_by_address),
           CHECK_CASE(work_is_done_in_order), CHECK_CASE(threads_share_the_device),
           CHECK_CASE(no_memory_is_an_error_with_sizes),
           CHECK_CASE(bad_input_fails_the_evaluation_only),
           CHECK_CASE(a_damaged_pipeline_cache_is_ignored), CHECK_CASE(kernels_have_work_and_time),
           CHECK_CASE(memory_stays_flat))
