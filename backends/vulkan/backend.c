/* backends/vulkan/backend.c -- the Vulkan backend: opens devices, and defines the backend's table.
 */
#include "backends/vulkan/backend.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/buffer.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/kernels/elementwise.h"
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/self_test/self_test.h"
#include "weft/memory.h"

enum { MAX_ROWS = 256 };

static void shut(weft__vulkan_device *d)
{
    if (d->handle && d->call.DeviceWaitIdle) {
        (void)d->call.DeviceWaitIdle(d->handle);
        weft__vulkan_uploads_close(d);
        weft__vulkan_stream_close(d);
        weft__vulkan_pipelines_close(d);
        weft__vulkan_memory_close(d);
        d->call.DestroyDevice(d->handle, NULL);
    }
}

static void close_device(void *state)
{
    shut(state);
    weft_free(state);
}

static weft_status start(weft__vulkan_device *d)
{
    weft_status status = weft__vulkan_probe(d->index, &d->physical);
    for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
        d->physical.used[i] = d->physical.used[i] && !d->failed[i];
    }
    weft__vulkan_cores_restrict(&d->physical);
    status = status == WEFT_OK ? weft__vulkan_create(&d->physical, &d->handle) : status;
    status = status == WEFT_OK ? weft__vulkan_load_device(d->handle, &d->call) : status;
    status = status == WEFT_OK ? weft__vulkan_memory_open(d) : status;
    status = status == WEFT_OK ? weft__vulkan_pipelines_open(d) : status;
    status = status == WEFT_OK ? weft__vulkan_stream_open(d) : status;
    return status == WEFT_OK ? weft__vulkan_uploads_open(d) : status;
}

static weft_status open_device(int index, void **state)
{
    weft__vulkan_device *d = weft_calloc(1, sizeof *d);
    if (!d) {
        return weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    d->index = index;
    weft_status status = start(d);
    if (status != WEFT_OK) {
        close_device(d);
        return status;
    }
    weft__vulkan_describe(d, d->description, sizeof d->description);
    *state = d;
    return WEFT_OK;
}

/* ---- The self-test -------------------------------------------------------------------------- */

/* Opens the device again without the features that failed. */
static weft_status start_without(weft__vulkan_device *d, const weft__vulkan_verdict *v)
{
    weft__vulkan_device again = {.index = d->index};
    for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
        again.failed[i] = d->failed[i] || v->wrong[i];
        if (v->wrong[i]) {
            weft_log_message(WEFT_LOG_WARNING, "vulkan: %s is not used: %s",
                             weft__vulkan_feature_name((weft__vulkan_feature)i), v->about);
        }
    }
    shut(d);
    *d = again;
    return start(d);
}

/* Each round disables a feature, or is the last. */
static weft_status check_device(weft_device *device)
{
    weft__vulkan_device *d = weft_device_state(device);
    weft__vulkan_verdict v, lost = {.about = ""};
    bool any = true;
    while (any) {
        weft_status status = weft__vulkan_self_test(device, d, &v);
        any = false;
        for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
            any = any || v.wrong[i];
        }
        if (status == WEFT_OK && any) {
            lost = v;
            status = start_without(d, &v);
        }
        if (status != WEFT_OK) {
            return status;
        }
    }
    weft__vulkan_describe(d, d->description, sizeof d->description);
    const size_t n = strlen(d->description);
    snprintf(d->description + n, sizeof d->description - n, "; %s%s%s", v.about,
             lost.about[0] ? " without what failed: " : "", lost.about);
    return WEFT_OK;
}

static const char *describe(void *state)
{
    return ((weft__vulkan_device *)state)->description;
}

static int64_t memory(void *state)
{
    VkDeviceSize size, available;
    weft__vulkan_heap(state, &size, &available);
    return size <= INT64_MAX ? (int64_t)size : INT64_MAX;
}

static bool flushes_subnormals(void *state)
{
    return !((weft__vulkan_device *)state)->physical.used[WEFT__VULKAN_SUBNORMALS];
}

static weft_dtype matrix_dtype(void *state)
{
    const weft__vulkan_physical *p = &((weft__vulkan_device *)state)->physical;
    const bool used = p->used[WEFT__VULKAN_MATRIX] &&
                      weft__vulkan_core_shape_of(&p->cores, WEFT_BFLOAT16) != NULL;
    return used ? WEFT_BFLOAT16 : WEFT_FLOAT32;
}

weft_status weft__vulkan_traits(int index, weft_device_traits *out)
{
    weft__vulkan_physical p;
    const weft_status status = weft__vulkan_probe(index, &p);
    if (status == WEFT_OK) {
        *out = (weft_device_traits){
            .discrete = p.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
            .fast_bfloat16 = p.cores.measured && p.used[WEFT__VULKAN_MATRIX] &&
                             weft__vulkan_core_shape_of(&p.cores, WEFT_BFLOAT16) != NULL,
            .free_memory = weft__vulkan_free_memory(&p),
        };
    }
    return status;
}

static weft_status flush(void *state)
{
    weft__vulkan_device *d = state;
    pthread_mutex_lock(&d->stream.lock);
    weft_status status = weft__vulkan_submit(d);
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}

static weft_status wait_all(void *state)
{
    weft__vulkan_device *d = state;
    pthread_mutex_lock(&d->stream.lock);
    weft_status status = weft__vulkan_finish_all(d);
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}

static weft_status mark(void *state, uint64_t *point)
{
    return weft__vulkan_mark_end(state, point);
}

static weft_status wait_until(void *state, uint64_t point)
{
    return weft__vulkan_finish_until(state, point);
}

/* ---- The literal ---------------------------------------------------------------------------- */

static int count_devices(void);

static weft_kernel_row all_rows[MAX_ROWS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

weft_backend weft__vulkan_backend = {
    .name = "vulkan",
    .count = count_devices,
    .open = open_device,
    .close = close_device,
    .check = check_device,
    .describe = describe,
    .memory = memory,
    .flushes_subnormals = flushes_subnormals,
    .matrix_dtype = matrix_dtype,
    .allocate = weft__vulkan_allocate,
    .release = weft__vulkan_release,
    .write = weft__vulkan_write,
    .upload = weft__vulkan_upload,
    .pin = weft__vulkan_pin,
    .unpin = weft__vulkan_unpin,
    .read = weft__vulkan_read,
    .rows = all_rows,
    .elementwise = weft__vulkan_elementwise,
    .elementwise_fits = weft__vulkan_elementwise_fits,
    .fuses = WEFT_MAX_OPERANDS,
    .copy = weft__vulkan_copy,
    .copy_fits = weft__vulkan_copy_fits,
    .flush = flush,
    .wait = wait_all,
    .mark = mark,
    .wait_until = wait_until,
    .profile = weft__vulkan_profile_set,
    .op_times = weft__vulkan_profile_read,
    .counters = weft__vulkan_profile_counters,
};

static void join_rows(void)
{
    static const weft__vulkan_family *const families[] = {
        &weft__vulkan_products,  &weft__vulkan_convolutions, &weft__vulkan_gathered,
        &weft__vulkan_quantized, &weft__vulkan_attention,    &weft__vulkan_norms,
        &weft__vulkan_losses,    &weft__vulkan_reductions,   &weft__vulkan_structure,
        &weft__vulkan_copies,
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const weft__vulkan_family *f = families[i];
        assert(weft__vulkan_backend.n_rows + f->n_rows <= MAX_ROWS);
        if (f->n_rows > 0) {
            memcpy(all_rows + weft__vulkan_backend.n_rows, f->rows,
                   (size_t)f->n_rows * sizeof *f->rows);
        }
        weft__vulkan_backend.n_rows += f->n_rows;
    }
}

/* The registry calls this first, so the rows are assembled here. */
static int count_devices(void)
{
    pthread_once(&once, join_rows);
    return weft__vulkan_physical_count();
}
