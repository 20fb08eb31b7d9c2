/* tests/support/null_device.c -- a device that computes nothing: it has the kernels of the CPU
 * backend, which return at once, and memory that is never touched. Memory is planned and counted as
 * on other devices, so a command that is linked with it measures the memory of models of any
 * size. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/backend.h"

enum { MOST_ROWS = 512, HEAD = 64, MOST_COPIED = 1 << 16 };

static weft_kernel_row rows[MOST_ROWS];
static weft_backend null_backend;

static weft_status nothing(const weft_call *call)
{
    (void)call;
    return WEFT_OK;
}

static weft_status no_elements(const weft_call *call, const weft_tape *tape)
{
    (void)call, (void)tape;
    return WEFT_OK;
}

static int one_device(void)
{
    return 1;
}

/* The size is in front of the buffer. */
static void *reserve(void *state, int64_t bytes, void **host)
{
    (void)state;
    const size_t size = (size_t)bytes + HEAD;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    *(size_t *)(void *)at = size;
    *host = at + HEAD;
    return at + HEAD;
}

static void release(void *state, void *buffer)
{
    char *at = (char *)buffer - HEAD;
    (void)state;
    (void)munmap(at, *(size_t *)(void *)at);
}

/* Copies what a program reads again, such as counts; not weights, whose memory would become
 * resident.
 */
static weft_status write_small(void *state, void *buffer, int64_t offset, const void *from,
                               int64_t bytes)
{
    (void)state;
    if (bytes <= MOST_COPIED)
        memcpy((char *)buffer + offset, from, (size_t)bytes);
    return WEFT_OK;
}

/* Registers the device before the program begins. */
__attribute__((constructor)) static void add_null_device(void)
{
    const weft_backend *cpu = &weft__cpu_backend;
    null_backend = *cpu;
    null_backend.count = one_device;
    (void)cpu->count(); /* completes its rows */
    if (cpu->n_rows > MOST_ROWS)
        return;
    for (int i = 0; i < cpu->n_rows; i++) {
        rows[i] = cpu->rows[i];
        rows[i].kernel = nothing;
    }
    null_backend.name = "null";
    null_backend.memory = NULL;
    null_backend.check = NULL;
    null_backend.allocate = reserve;
    null_backend.release = release;
    null_backend.write = write_small;
    null_backend.rows = rows;
    null_backend.n_rows = cpu->n_rows;
    null_backend.elementwise = no_elements;
    null_backend.copy = nothing;
    (void)weft_backend_register(&null_backend); /* a failure is an unknown device in the command */
}
