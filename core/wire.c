/* core/wire.c -- the wired limit: locks pages of arrays in physical memory. */
#include "core/wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/device.h"
#include "core/failure.h"
#include "weft/memory.h"

/* Smaller buffers share pages with others; unlocking one would unlock the pages of its neighbors.
 */
enum { SMALLEST_PAGES = 16 };

static _Atomic int64_t limit, wired;

/* The pages that are entirely inside the buffer's memory. */
static int64_t whole_pages(const weft__buffer *b, char **first)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    if (page <= 0 || !b->host || b->bytes < SMALLEST_PAGES * page) {
        return 0;
    }
    int64_t skip = (page - (int64_t)((uintptr_t)b->host % (uintptr_t)page)) % page;
    *first = (char *)b->host + skip;
    return (b->bytes - skip) / page * page;
}

void weft__wire(weft__buffer *b)
{
    char *first;
    int64_t bytes = whole_pages(b, &first);
    if (b->wired > 0 || bytes == 0 || !b->device->backend->host_memory ||
        atomic_load(&wired) + bytes > atomic_load(&limit) || mlock(first, (size_t)bytes) != 0) {
        return;
    }
    b->wired = bytes;
    atomic_fetch_add(&wired, bytes);
}

void weft__unwire(weft__buffer *b)
{
    char *first = NULL;
    if (b->wired > 0) {
        (void)whole_pages(b, &first);
        (void)munlock(first, (size_t)b->wired);
        atomic_fetch_sub(&wired, b->wired);
        b->wired = 0;
    }
}

/* Whether the system allows this process to lock so much. If not, the reason is recorded. */
static weft_status check_system(int64_t bytes)
{
    struct rlimit allowed;
    if (getrlimit(RLIMIT_MEMLOCK, &allowed) == 0 && geteuid() != 0 &&
        allowed.rlim_cur != RLIM_INFINITY && (uint64_t)bytes > (uint64_t)allowed.rlim_cur) {
        return weft_fail(WEFT_UNSUPPORTED,
                         "wired limit: expected at most the %lld bytes that the system lets this "
                         "process lock (ulimit -l), got %lld",
                         (long long)allowed.rlim_cur, (long long)bytes);
    }
    char *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return weft__out_of_memory("wired limit", NULL);
    }
    int error = mlock(page, 1) == 0 ? 0 : errno;
    (void)munmap(page, 1);
    return error == 0 ? WEFT_OK
                      : weft_fail(WEFT_UNSUPPORTED, "wired limit: the system locks no memory: %s",
                                  strerror(error));
}

weft_status weft_memory_set_wired_limit(int64_t bytes, int64_t *previous)
{
    bytes = bytes < 0 ? 0 : bytes;
    weft_status status = bytes > 0 ? check_system(bytes) : WEFT_OK;
    int64_t before = atomic_load(&limit);
    if (previous) {
        *previous = before;
    }
    if (status != WEFT_OK) {
        return status;
    }
    atomic_store(&limit, bytes);
    if (atomic_load(&wired) > bytes) {
        weft__buffer_each(weft__unwire);
    }
    weft__buffer_each(weft__wire);
    return WEFT_OK;
}

int64_t weft_memory_wired(void)
{
    return atomic_load(&wired);
}
