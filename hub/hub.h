/* hub/hub.h -- internal interface of the hub: names, cache locations, file lists, verified
 * blobs, requests. */
#ifndef WEFT_HUB_HUB_H
#define WEFT_HUB_HUB_H

#include <stddef.h>
#include <sys/stat.h>

#include "core/io/digest.h"
#include "weft/hub.h"

/* ---- cache.c -------------------------------------------------------------------------------- */

/* NAME or ORG/NAME, of letters, digits, "-", "_" and ".". */
bool weft__hub_is_name(const char *name);
/* A relative path inside a repository, without "..", and with valid file names only. */
bool weft__hub_is_path(const char *path);
/* n lower-case hexadecimal digits. */
bool weft__hub_is_hex(const char *text, size_t n);

/* The folder in the cache of a model or a dataset; NULL, with the message, if no location is known.
 */
char *weft__hub_folder(const char *name, bool dataset);

/* weft_hub_find, also of datasets. */
weft_status weft__hub_snapshot(const char *name, bool dataset, const char *revision, char **folder);

/* A non-empty environment variable, or NULL. */
const char *weft__hub_variable(const char *name);

/* ---- list.c --------------------------------------------------------------------------------- */

typedef struct weft__hub_file {
    char *path;
    char hash[65]; /* SHA-256 for large files, git's SHA-1 for small ones; the name of the blob */
    int64_t size;
    int first; /* index of the first file with this blob (weft__hub_list_share) */
} weft__hub_file;

typedef struct weft__hub_list {
    char commit[41];
    weft__hub_file *files;
    int n;
} weft__hub_list;

/* Parses the response of /api/models/NAME/revision/REVISION?blobs=true. */
weft_status weft__hub_list_parse(const char *json, size_t length, const char *where,
                                 weft__hub_list *out);
/* Keeps the wanted files (weft_hub_options.include). */
weft_status weft__hub_list_choose(weft__hub_list *list, const char *include, bool dataset,
                                  const char *where);
/* Finds files that share a blob. */
weft_status weft__hub_list_share(weft__hub_list *list, const char *where);
void weft__hub_list_free(weft__hub_list *list);

/* Called while a file is downloaded, verified or waited for; `done` bytes of it are present.
 * `message` describes other activity, or is NULL. False: stop, with WEFT_CANCELLED. */
typedef weft__digest_step weft__hub_step;

/* ---- verified.c ----------------------------------------------------------------------------- */

/* The blobs of a repository whose contents were verified, stored in a file in its folder: lines
 * with a blob's name, size, modification time and inode. A blob that differs from its line has
 * changed since. */
typedef struct weft__hub_verified weft__hub_verified;

/* An unreadable file counts as empty, so its blobs are verified again. */
weft_status weft__hub_verified_load(const char *folder, weft__hub_verified **out);
bool weft__hub_verified_has(const weft__hub_verified *v, const char *hash, const struct stat *blob);
weft_status weft__hub_verified_add(weft__hub_verified *v, const char *hash,
                                   const struct stat *blob);
/* Writes the file if something was added. */
weft_status weft__hub_verified_save(const weft__hub_verified *v);
void weft__hub_verified_free(weft__hub_verified *v); /* NULL is accepted */

/* ---- http.c --------------------------------------------------------------------------------- */

typedef struct weft__http weft__http; /* a persistent connection */

typedef struct weft__http_options {
    const char *endpoint, *token; /* token: may be NULL */
    int retries;                  /* after HTTP 429, 5xx and broken connections */
    double seconds;               /* time limit for a text response; for a file, the time below the
                                   * slowest rate */
} weft__http_options;

weft_status weft__http_new(const weft__http_options *options, weft__http **out);
void weft__http_free(weft__http *http); /* NULL is accepted */

/* Reads a whole response into memory (weft_free), at most `limit` bytes. `step` is called for
 * messages only. */
weft_status weft__http_text(weft__http *http, const char *url, size_t limit, weft__hub_step *step,
                            void *context, char **text, size_t *length);

/* Appends the missing part of `size` bytes to an open file, which already has `from`. If the server
 * starts from the beginning, or sends another range, the file is rewritten from its beginning. */
weft_status weft__http_file(weft__http *http, const char *url, int fd, int64_t from, int64_t size,
                            weft__hub_step *step, void *context);

#endif
