/* hub/hub.h -- between the files of this folder: names, the cache's places, what a repository has,
 * hashes, verified blobs, requests. */
#ifndef WEFT_HUB_HUB_H
#define WEFT_HUB_HUB_H

#include <stddef.h>
#include <sys/stat.h>

#include "weft/hub.h"

/* ---- cache.c -------------------------------------------------------------------------------- */

/* NAME or ORG/NAME, of letters, digits, "-", "_" and ".". */
bool weft__hub_is_name(const char *name);
/* A path inside a repository: relative, no "..", nothing that a file name cannot be. */
bool weft__hub_is_path(const char *path);
/* n lower-case hexadecimal digits. */
bool weft__hub_is_hex(const char *text, size_t n);

/* The repository's folder in the cache; NULL, with the message, when there is no place for one. */
char *weft__hub_folder(const char *name);

/* A variable of the environment that is not empty, or NULL. */
const char *weft__hub_variable(const char *name);

/* ---- list.c --------------------------------------------------------------------------------- */

typedef struct weft__hub_file {
    char *path;
    char hash[65]; /* SHA-256 of a large file, git's SHA-1 of a small one; the blob's name */
    int64_t size;
    int first; /* of the files with this blob, the index of the first (weft__hub_list_share) */
} weft__hub_file;

typedef struct weft__hub_list {
    char commit[41];
    weft__hub_file *files;
    int n;
} weft__hub_list;

/* From the answer of /api/models/NAME/revision/REVISION?blobs=true. */
weft_status weft__hub_list_parse(const char *json, size_t length, const char *where,
                                 weft__hub_list *out);
/* Keeps those that are wanted (weft_hub_options.include). */
weft_status weft__hub_list_choose(weft__hub_list *list, const char *include, const char *where);
/* Finds files that are the same blob. */
weft_status weft__hub_list_share(weft__hub_list *list, const char *where);
void weft__hub_list_free(weft__hub_list *list);

/* Called while a file is fetched, verified or waited for; `done` bytes of it are there. `message`
 * is what is going on besides, or NULL. False: stop, with WEFT_CANCELLED. */
typedef bool weft__hub_step(void *context, int64_t done, const char *message);

/* ---- hash.c --------------------------------------------------------------------------------- */

/* The hash of an open file as weft__hub_file has it: SHA-256 when `digits` is 64, git's SHA-1 of a
 * file of `size` bytes when it is 40. `step` (NULL: none) is called between pieces. */
weft_status weft__hub_hash(int fd, const char *path, size_t digits, int64_t size,
                           weft__hub_step *step, void *context, char out[65]);

/* ---- verified.c ----------------------------------------------------------------------------- */

/* Which blobs of a repository had the content that their names promise, in a file of its folder:
 * lines of a blob's name, size, modification time and inode. A blob that is not as its line says
 * was changed since. */
typedef struct weft__hub_verified weft__hub_verified;

/* What cannot be read counts as empty: its blobs are verified again. */
weft_status weft__hub_verified_load(const char *folder, weft__hub_verified **out);
bool weft__hub_verified_has(const weft__hub_verified *v, const char *hash, const struct stat *blob);
weft_status weft__hub_verified_add(weft__hub_verified *v, const char *hash,
                                   const struct stat *blob);
/* Writes the file if something was added. */
weft_status weft__hub_verified_save(const weft__hub_verified *v);
void weft__hub_verified_free(weft__hub_verified *v); /* NULL is accepted */

/* ---- http.c --------------------------------------------------------------------------------- */

typedef struct weft__http weft__http; /* a connection that is kept */

typedef struct weft__http_options {
    const char *endpoint, *token; /* token: NULL: none */
    int retries;                  /* after HTTP 429, 5xx and broken connections */
    double seconds;               /* for a whole text; for a file below the slowest rate */
} weft__http_options;

weft_status weft__http_new(const weft__http_options *options, weft__http **out);
void weft__http_free(weft__http *http); /* NULL is accepted */

/* A whole answer in memory (weft_free), of at most `limit` bytes. `step` gets messages only. */
weft_status weft__http_text(weft__http *http, const char *url, size_t limit, weft__hub_step *step,
                            void *context, char **text, size_t *length);

/* Appends to an open file what it lacks of `size` bytes; it has `from` already. Where the server
 * starts from the beginning, or sends another range, the file is written from its beginning. */
weft_status weft__http_file(weft__http *http, const char *url, int fd, int64_t from, int64_t size,
                            weft__hub_step *step, void *context);

#endif
