/* hub/verified.c -- remembers which blobs of a repository were verified, between runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/list.h"
#include "hub/hub.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { LARGEST = 32 << 20 };

/* A blob's properties when it was verified. */
typedef struct entry {
    char hash[65];
    long long size, seconds, nanoseconds, inode;
} entry;

struct weft__hub_verified {
    char *path; /* of the file */
    entry *at;
    int n;
    int sorted; /* number of entries from the file, sorted by hash; new ones follow */
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->hash, ((const entry *)b)->hash);
}

static entry entry_of(const char *hash, const struct stat *blob)
{
    entry e = {.size = blob->st_size,
               .seconds = blob->st_mtim.tv_sec,
               .nanoseconds = blob->st_mtim.tv_nsec,
               .inode = (long long)blob->st_ino};
    snprintf(e.hash, sizeof e.hash, "%s", hash);
    return e;
}

static weft_status add(weft__hub_verified *v, const entry *e)
{
    if (!weft__list_more(v->at, v->n))
        return weft__out_of_memory(v->path, NULL);
    v->at[v->n++] = *e;
    return WEFT_OK;
}

static weft_status parse(weft__hub_verified *v, const char *text)
{
    weft_status status = WEFT_OK;
    for (const char *line = text; *line != '\0' && status == WEFT_OK;) {
        entry e;
        if (sscanf(line, "%64[0-9a-f] %lld %lld %lld %lld", e.hash, &e.size, &e.seconds,
                   &e.nanoseconds, &e.inode) == 5)
            status = add(v, &e);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (v->n > 0)
        qsort(v->at, (size_t)v->n, sizeof *v->at, compare);
    v->sorted = v->n;
    return status;
}

weft_status weft__hub_verified_load(const char *folder, weft__hub_verified **out)
{
    weft__hub_verified *v = *out = weft_calloc(1, sizeof *v);
    if (v == NULL || (v->path = weft_format("%s/.weft-verified", folder)) == NULL)
        return weft__out_of_memory(folder, NULL);
    struct stat there;
    char *text = NULL;
    weft_status status = WEFT_OK;
    if (stat(v->path, &there) == 0 && weft_file_read(v->path, LARGEST, &text, NULL) == WEFT_OK)
        status = parse(v, text);
    weft_free(text);
    return status;
}

bool weft__hub_verified_has(const weft__hub_verified *v, const char *hash, const struct stat *blob)
{
    const entry wanted = entry_of(hash, blob);
    const entry *e =
        v->sorted > 0 ? bsearch(&wanted, v->at, (size_t)v->sorted, sizeof *e, compare) : NULL;
    return e != NULL && e->size == wanted.size && e->seconds == wanted.seconds &&
           e->nanoseconds == wanted.nanoseconds && e->inode == wanted.inode;
}

weft_status weft__hub_verified_add(weft__hub_verified *v, const char *hash, const struct stat *blob)
{
    const entry e = entry_of(hash, blob);
    entry *older = v->sorted > 0 ? bsearch(&e, v->at, (size_t)v->sorted, sizeof e, compare) : NULL;
    if (older != NULL)
        older->size = -1; /* invalidates the entry of the file */
    return add(v, &e);
}

weft_status weft__hub_verified_save(const weft__hub_verified *v)
{
    weft__text text = {0};
    if (v == NULL || v->n == v->sorted)
        return WEFT_OK;
    for (int i = 0; i < v->n; i++) {
        const entry *e = &v->at[i];
        if (e->size >= 0)
            weft__text_format(&text, "%s %lld %lld %lld %lld\n", e->hash, e->size, e->seconds,
                              e->nanoseconds, e->inode);
    }
    const weft_status status = text.failed ? weft__out_of_memory(v->path, NULL)
                                           : weft_file_write(v->path, text.at, text.n);
    weft_free(text.at);
    return status;
}

void weft__hub_verified_free(weft__hub_verified *v)
{
    if (v == NULL)
        return;
    weft_free(v->path);
    weft_free(v->at);
    weft_free(v);
}
