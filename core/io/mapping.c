/* core/io/mapping.c -- memory-mapped files, shared by the arrays that view them. */
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

static weft_status map_file(int fd, const char *path, weft__mapping *mapping)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return weft_fail(WEFT_IO, "%s: stat: %s", path, strerror(errno));
    mapping->size = (size_t)info.st_size;
    if (mapping->size == 0)
        return WEFT_OK; /* an empty file cannot be mapped; the header check reports it */
    void *address = mmap(NULL, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED)
        return weft_fail(WEFT_IO, "%s: map: %s", path, strerror(errno));
    mapping->address = address;
    return WEFT_OK;
}

weft_status weft__mapping_open(const char *path, weft__mapping **out)
{
    *out = NULL;
    int fd;
    weft_status status = weft__file_open(path, O_RDONLY, &fd);
    if (status != WEFT_OK)
        return status;
    weft__mapping *mapping = weft_calloc(1, sizeof *mapping);
    char *copy = weft_strdup(path);
    if (mapping == NULL || copy == NULL)
        status = weft__out_of_memory(path, "opening it");
    else
        status = map_file(fd, path, mapping);
    close(fd);
    if (status != WEFT_OK) {
        weft_free(mapping);
        weft_free(copy);
        return status;
    }
    mapping->path = copy;
    atomic_init(&mapping->refs, 1);
    *out = mapping;
    return WEFT_OK;
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
    if (mapping->address)
        munmap(mapping->address, mapping->size);
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
    if (r->bytes >= before + page)
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
