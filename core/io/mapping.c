/* core/io/mapping.c -- files in memory, mapped or read, shared by the arrays that view them.
 *
 * A page of a mapped file that another program has truncated causes SIGBUS. Mapping is for weights,
 * of which several processes share one copy; other files are read. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/failure.h"
#include "core/graph.h"
#include "core/io/fileio.h"
#include "core/io/safetensors.h"

/* ---- what is mapped where ------------------------------------------------------------------- */

enum { PLACES = 1024 }; /* of more mapped files, weft_mapped_file_at finds the first */

/* Written when a file is mapped and unmapped, and read by handlers of signals. */
static struct place {
    atomic_bool used;
    _Atomic(const char *) path;    /* printable; NULL: none is mapped */
    _Atomic(const char *) address; /* valid if there is a path */
    atomic_size_t size;
} places[PLACES];

static void remember(weft__mapping *mapping)
{
    for (struct place *p = places; p < places + PLACES; p++) {
        bool used = false;
        if (atomic_compare_exchange_strong(&p->used, &used, true)) {
            atomic_store(&p->address, mapping->address);
            atomic_store(&p->size, mapping->size);
            atomic_store(&p->path, mapping->printable);
            return;
        }
    }
}

static void forget(const weft__mapping *mapping)
{
    for (struct place *p = places; p < places + PLACES; p++) {
        if (atomic_load(&p->path) == mapping->printable) {
            atomic_store(&p->path, NULL);
            atomic_store(&p->used, false);
            return;
        }
    }
}

const char *weft_mapped_file_at(const void *address)
{
    for (struct place *p = places; p < places + PLACES; p++) {
        const char *path = atomic_load(&p->path);
        const size_t offset = (uintptr_t)address - (uintptr_t)atomic_load(&p->address);
        if (path && offset < atomic_load(&p->size))
            return path;
    }
    return NULL;
}

/* ---- opening -------------------------------------------------------------------------------- */

static weft_status map(const char *path, weft__mapping *mapping)
{
    int fd;
    const weft_status status = weft__file_open(path, O_RDONLY, &fd);
    if (status != WEFT_OK)
        return status;
    struct stat info;
    const bool known = fstat(fd, &info) == 0;
    mapping->size = known ? (size_t)info.st_size : 0;
    void *address = NULL; /* an empty file cannot be mapped; the header check reports it */
    if (mapping->size > 0)
        address = mmap(NULL, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (!known || address == MAP_FAILED)
        return weft_fail(WEFT_IO, "%s: map: %s", path, strerror(error));
    mapping->address = address;
    return WEFT_OK;
}

static weft_status open_as(const char *path, bool mapped, weft__mapping **out)
{
    *out = NULL;
    weft__mapping *mapping = weft_calloc(1, sizeof *mapping);
    char *copy = weft_strdup(path), *printable = weft_strdup(weft_printable(path));
    weft_status status = WEFT_OK;
    if (mapping == NULL || copy == NULL || printable == NULL)
        status = weft__out_of_memory(path, "opening it");
    else if (mapped)
        status = map(path, mapping);
    else
        status = weft_file_read(path, SIZE_MAX / 4, &mapping->contents, &mapping->size);
    if (status != WEFT_OK) {
        weft_free(mapping);
        weft_free(copy);
        weft_free(printable);
        return status;
    }
    mapping->path = copy;
    mapping->printable = printable;
    if (mapping->contents)
        mapping->address = mapping->contents;
    else if (mapping->address)
        remember(mapping);
    atomic_init(&mapping->refs, 1);
    *out = mapping;
    return WEFT_OK;
}

weft_status weft__mapping_open(const char *path, weft__mapping **out)
{
    return open_as(path, true, out);
}

weft_status weft__mapping_read(const char *path, weft__mapping **out)
{
    return open_as(path, false, out);
}

void weft__mapping_ref(weft__mapping *mapping)
{
    atomic_fetch_add_explicit(&mapping->refs, 1, memory_order_relaxed);
}

void weft__mapping_unref(void *context)
{
    weft__mapping *mapping = context;
    if (atomic_fetch_sub_explicit(&mapping->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (mapping->address && mapping->contents == NULL) {
        forget(mapping);
        munmap(mapping->address, mapping->size);
    }
    weft_free(mapping->printable);
    weft_free(mapping->contents);
    weft_free(mapping->path);
    weft_free(mapping);
}

/* ---- ranges --------------------------------------------------------------------------------- */

typedef struct range {
    weft__mapping *mapping;
    char *data;
    size_t bytes;
} range;

void *weft__mapping_range(weft__mapping *mapping, void *data, size_t bytes)
{
    range *r = weft_calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    *r = (range){.mapping = mapping, .data = data, .bytes = bytes};
    weft__mapping_ref(mapping);
    return r;
}

static void evict(const range *r)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t before = (page - (uintptr_t)r->data % page) % page;
    if (r->mapping->contents == NULL && r->bytes >= before + page)
        (void)madvise(r->data + before, (r->bytes - before) / page * page, MADV_DONTNEED);
}

void weft__mapping_range_release(void *context)
{
    range *r = context;
    evict(r);
    weft__mapping_unref(r->mapping);
    weft_free(r);
}

bool weft__mapping_is_viewed(const weft_array *a)
{
    return atomic_load_explicit(&a->leaf, memory_order_relaxed) && a->view.buffer &&
           a->view.buffer->release == weft__mapping_range_release;
}

void weft__mapping_evict(const weft_array *a)
{
    if (weft__mapping_is_viewed(a))
        evict(a->view.buffer->release_context);
}
