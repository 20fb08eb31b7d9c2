/* backends/cpu/backend.c -- the CPU backend: memory allocation and the table of kernel rows. */
#include "backends/cpu/backend.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/isa.h"

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20, MAX_ROWS = 256 };

static int count_devices(void);

static weft_status open_device(int index, void **state)
{
    *state = NULL;
    if (index != 0)
        return weft_fail(WEFT_DEVICE, "cpu:%d: there is one CPU device, number 0", index);
    return WEFT_OK;
}

static void close_device(void *state)
{
    (void)state;
}

static const char *describe(void *state)
{
    (void)state;
    return weft__cpu_isa_description(weft__cpu_isa());
}

static int64_t memory(void *state)
{
    (void)state;
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? pages * page : 0;
}

weft_status weft__cpu_traits(int index, weft_device_traits *out)
{
    void *state;
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *out = (weft_device_traits){.fast_bfloat16 =
                                    strcmp(weft__cpu_isa_name(weft__cpu_isa()), "amx") == 0,
                                .free_memory = pages > 0 && page > 0 ? (int64_t)pages * page : 0};
    return open_device(index, &state);
}

/* Large buffers start on a huge page, so that the system can back them with huge pages, which gives
 * a fifth more bandwidth for weights (docs/performance-log.md). */
static void *allocate(void *state, int64_t bytes, void **host)
{
    (void)state;
    bool large = bytes >= 2 * HUGE_PAGE;
    size_t alignment = large ? HUGE_PAGE : ALIGNMENT;
    size_t size = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = NULL;
    if (bytes < 0 || posix_memalign(&memory, alignment, size ? size : ALIGNMENT) != 0)
        return NULL;
    if (large)
        (void)madvise(memory, size, MADV_HUGEPAGE);
    *host = memory;
    return memory;
}

static void release(void *state, void *buffer)
{
    (void)state;
    free(buffer);
}

static weft_status write_buffer(void *state, void *buffer, int64_t offset, const void *from,
                                int64_t bytes)
{
    (void)state;
    memcpy((char *)buffer + offset, from, (size_t)bytes);
    return WEFT_OK;
}

static weft_status read_buffer(void *state, void *buffer, int64_t offset, void *to, int64_t bytes)
{
    (void)state;
    memcpy(to, (const char *)buffer + offset, (size_t)bytes);
    return WEFT_OK;
}

/* ---- The literal ---------------------------------------------------------------------------- */

static weft_kernel_row all_rows[MAX_ROWS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

weft_backend weft__cpu_backend = {
    .name = "cpu",
    .count = count_devices,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .memory = memory,
    .allocate = allocate,
    .release = release,
    .write = write_buffer,
    .read = read_buffer,
    .host_memory = true,
    .rows = all_rows,
    .elementwise = weft__cpu_elementwise,
    .fuses = WEFT_TAPE_MAX_OPERANDS,
    .copy = weft__cpu_copy,
};

static void append(const weft_kernel_row *rows, int n)
{
    assert(weft__cpu_backend.n_rows + n <= MAX_ROWS);
    memcpy(all_rows + weft__cpu_backend.n_rows, rows, (size_t)n * sizeof *rows);
    weft__cpu_backend.n_rows += n;
}

static void join_rows(void)
{
    append(weft__cpu_nn_rows, weft__cpu_nn_row_count);
    append(weft__cpu_linalg_rows, weft__cpu_linalg_row_count);
    append(weft__cpu_quantized_rows, weft__cpu_quantized_row_count);
    append(weft__cpu_conv_rows, weft__cpu_conv_row_count);
    append(weft__cpu_structure_rows, weft__cpu_structure_row_count);
}

/* The registry calls this first, so the rows are assembled here. */
static int count_devices(void)
{
    pthread_once(&once, join_rows);
    return 1;
}
