/* tests/support/hidden.c -- a test-only backend whose memory the host cannot read. */
#include "tests/support/hidden.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct hidden_buffer {
    int64_t bytes;
    char *memory;
} hidden_buffer;

weft_status (*hidden_watch)(weft_device *device);

static atomic_int live;
static atomic_llong n_read;

static int two_devices(void)
{
    return 2;
}

static weft_status open_hidden(int index, void **state)
{
    (void)index;
    *state = NULL;
    return WEFT_OK;
}

static void *allocate_hidden(void *state, int64_t bytes, void **host)
{
    (void)state;
    hidden_buffer *b = malloc(sizeof *b);
    char *memory = b ? malloc((size_t)bytes) : NULL;
    if (!memory) {
        free(b);
        return NULL;
    }
    *b = (hidden_buffer){bytes, memory};
    *host = NULL;
    atomic_fetch_add(&live, 1);
    return b;
}

static void release_hidden(void *state, void *buffer)
{
    (void)state;
    hidden_buffer *b = buffer;
    free(b->memory);
    free(b);
    atomic_fetch_sub(&live, 1);
}

/* An out-of-range transfer is a bug in the core. */
static bool in_range(const hidden_buffer *b, int64_t offset, int64_t bytes)
{
    return offset >= 0 && bytes >= 0 && offset + bytes <= b->bytes;
}

static weft_status write_hidden(void *state, void *buffer, int64_t offset, const void *from,
                                int64_t bytes)
{
    (void)state;
    hidden_buffer *b = buffer;
    if (!in_range(b, offset, bytes)) {
        return weft_fail(WEFT_DEVICE, "hidden: write outside the buffer");
    }
    memcpy(b->memory + offset, from, (size_t)bytes);
    return WEFT_OK;
}

static weft_status read_hidden(void *state, void *buffer, int64_t offset, void *to, int64_t bytes)
{
    (void)state;
    hidden_buffer *b = buffer;
    if (!in_range(b, offset, bytes)) {
        return weft_fail(WEFT_DEVICE, "hidden: read outside the buffer");
    }
    memcpy(to, b->memory + offset, (size_t)bytes);
    atomic_fetch_add(&n_read, bytes);
    return WEFT_OK;
}

static float *floats(const weft_tensor *t)
{
    const hidden_buffer *b = t->buffer;
    return (float *)(void *)(b->memory + t->offset);
}

/* The one kernel: float32 addition, row-major. */
static weft_status add_floats(const weft_call *call)
{
    const weft_status status = hidden_watch ? hidden_watch(call->device) : WEFT_OK;
    if (status != WEFT_OK) {
        return status;
    }
    const float *a = floats(&call->in[0]), *b = floats(&call->in[1]);
    float *out = floats(&call->out[0]);
    int64_t n = weft_tensor_size(&call->out[0]);
    for (int64_t i = 0; i < n; i++) {
        out[i] = a[i] + b[i];
    }
    return WEFT_OK;
}

static const weft_kernel_row rows[] = {
    {.op = "add",
     .signature = "f",
     .layout = WEFT_CONTIGUOUS,
     .in_place = {3},
     .kernel = add_floats},
};

static const weft_backend hidden = {
    .name = "hidden",
    .count = two_devices,
    .open = open_hidden,
    .allocate = allocate_hidden,
    .release = release_hidden,
    .write = write_hidden,
    .read = read_hidden,
    .rows = rows,
    .n_rows = 1,
};

static weft_status registered;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void register_hidden(void)
{
    registered = weft_backend_register(&hidden);
}

weft_device *hidden_device(void)
{
    pthread_once(&once, register_hidden);
    return registered == WEFT_OK ? weft_device_get("hidden") : NULL;
}

int hidden_live_buffers(void)
{
    return atomic_load(&live);
}

int64_t hidden_bytes_read(void)
{
    return atomic_load(&n_read);
}
