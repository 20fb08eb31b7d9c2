/* tests/vulkan/test_precompile.c -- the pipelines of a plan are compiled on several threads before
 * its first command that needs one; a dry run of kernels changes no results. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/vulkan/backend.h"
#include "backends/vulkan/device.h"
#include "tests/check.h"
#include "weft/weft.h"

static weft_device *vulkan;

/* Modules compiled since `watch`; those of them after a command was recorded; and the most threads
 * that compiled at the same time. */
static atomic_int compiled, late, inside, together;
static int64_t commands;

static int64_t recorded(void)
{
    const weft__vulkan_device *d = weft_device_state(vulkan);
    return d->stream.counts.commands + d->stream.batches.n;
}

/* The first thread waits for a second one, for at most two minutes. */
static void wait_for_company(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 120000 && atomic_load(&together) < 2; i++) {
        nanosleep(&pause, NULL);
    }
}

static void watch_compiling(const char *shader, uint32_t *words, size_t n)
{
    (void)shader;
    (void)words;
    (void)n;
    const int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > 1) {
        atomic_store(&together, now);
    }
    atomic_fetch_add(&late, recorded() != commands);
    if (atomic_fetch_add(&compiled, 1) == 0) {
        wait_for_company();
    }
    atomic_fetch_sub(&inside, 1);
}

static void watch(void)
{
    commands = recorded();
    atomic_store(&compiled, 0);
    atomic_store(&late, 0);
    atomic_store(&together, 0);
}

static bool prepare(void)
{
    setenv("XDG_CACHE_HOME", check_temporary("cache"), 1);
    setenv("WEFT_VULKAN_SELF_TEST", "skip", 1);
    weft_set_threads(4);
    vulkan = weft_device_get("vulkan");
    if (!vulkan) {
        check_skip("%s", weft_error_message());
        return false;
    }
    weft__vulkan_compiling = watch_compiling;
    return true;
}

static weft_array *numbers(weft_dtype dtype)
{
    float v[32 * 32];
    for (int i = 0; i < 32 * 32; i++) {
        v[i] = (float)(i * 37 % 101) / 64 - 0.5f;
    }
    return weft_astype(weft_from_data(v, WEFT_FLOAT32, WEFT_DIMS(32, 32)), dtype);
}

/* Different kernels one after another, and four equal ones that do not depend on each other. */
static weft_array *compute(weft_dtype dtype)
{
    weft_array *x = numbers(dtype), *sum = NULL;
    x = weft_softmax(weft_matmul(x, x), -1);
    x = weft_cumsum(weft_sort(weft_add(x, weft_sin(x)), -1), 1, false, true);
    for (int i = 0; i < 4; i++) {
        weft_array *part =
            weft_max(weft_multiply(x, weft_scalar(i + 1.0, dtype)), WEFT_DIMS(i % 2), true);
        part = weft_contiguous(weft_broadcast_to(part, WEFT_DIMS(32, 32)));
        sum = sum ? weft_add(sum, part) : part;
    }
    return weft_astype(sum, WEFT_FLOAT32);
}

static void read_result(weft_device *device, weft_dtype dtype, float *out)
{
    weft_set_default_device(device);
    weft_scope_open();
    CHECK_OK(weft_read(compute(dtype), WEFT_FLOAT32, out, 32 * 32));
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

static void pipelines_are_compiled_together_before_the_first_command(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
    float first[32 * 32], again[32 * 32], expected[32 * 32];
    for (int i = 0; i < 3 && prepare(); i++) {
        watch();
        read_result(vulkan, dtypes[i], first);
        CHECK(atomic_load(&compiled) >= 6);
        CHECK_EQ_INT(atomic_load(&late), 0);
        CHECK(atomic_load(&together) >= 2);
        watch();
        read_result(vulkan, dtypes[i], again);
        CHECK_EQ_INT(atomic_load(&compiled), 0);
        CHECK_BYTES(again, first, sizeof first);
        read_result(weft_device_get("cpu"), dtypes[i], expected);
        for (int k = 0; k < 32 * 32; k += 7) {
            CHECK_CLOSE(first[k], expected[k], dtypes[i] == WEFT_FLOAT32 ? 2e-5 : 1);
        }
    }
}

static weft_kernel *own_softmax;
static int calls;

static weft_status count_and_run(const weft_call *call)
{
    calls++;
    return own_softmax(call);
}

/* A program's own kernel may do more than record launches, so it is not part of a dry run. */
static void kernels_of_the_program_are_called_once(void)
{
    static weft_kernel_row row;
    if (!prepare()) {
        return;
    }
    for (int i = 0; i < weft__vulkan_backend.n_rows && !row.op; i++) {
        if (strcmp(weft__vulkan_backend.rows[i].op, "softmax") == 0) {
            row = weft__vulkan_backend.rows[i];
        }
    }
    own_softmax = row.kernel;
    row.kernel = count_and_run;
    CHECK_OK(weft_backend_add_rows("vulkan", &row, 1));
    watch();
    weft_set_default_device(vulkan);
    weft_scope_open();
    weft_array *x =
        weft_matmul(numbers(WEFT_FLOAT32), weft_transpose(numbers(WEFT_FLOAT32), WEFT_DIMS(1, 0)));
    CHECK_OK(weft_eval(weft_sum(weft_softmax(weft_tan(x), 0), WEFT_ALL_AXES, false)));
    CHECK(atomic_load(&compiled) > 0);
    CHECK_EQ_INT(calls, 1);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_precompile",
           CHECK_CASE(pipelines_are_compiled_together_before_the_first_command),
           CHECK_CASE(kernels_of_the_program_are_called_once))
