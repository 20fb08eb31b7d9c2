/* weft/hub.h -- finding and downloading models.
 *
 *     char *folder;
 *     status = weft_hub_pull("Qwen/Qwen3-0.6B", NULL, &folder);
 *     ... weft_model_load(folder, NULL, &model) ...
 *     weft_free(folder);
 *
 * The cache is that of Python's huggingface_hub, in the same layout, so that what one has fetched
 * the other finds: $HF_HUB_CACHE, else $HF_HOME/hub, else huggingface/hub in $XDG_CACHE_HOME or
 * ~/.cache.
 */
#ifndef WEFT_HUB_H
#define WEFT_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The cache ------------------------------------------------------------------------------ */

/* The folder of a repository's snapshot in the local cache; `revision` is a branch, a tag or a
 * commit, NULL: "main". *folder is the caller's, freed with weft_free. WEFT_INVALID when `name` is
 * not of the form ORG/NAME, WEFT_IO when the cache has no such snapshot. */
WEFT_NODISCARD WEFT_API weft_status weft_hub_find(const char *name, const char *revision,
                                                  char **folder);

/* What a person means by a model: a path that exists, as it is, or else the snapshot of ORG/NAME in
 * the local cache. *path is the caller's, freed with weft_free. A name that is neither is WEFT_IO.
 */
WEFT_NODISCARD WEFT_API weft_status weft_hub_resolve(const char *name, char **path);

/* ---- Fetching ------------------------------------------------------------------------------- */

/* How far fetching is. */
typedef struct weft_hub_progress {
    const char *file; /* the one that is being fetched; in the cache already: done is size. "" with
                       * a message and zeros while the list of files is asked for */
    const char *message; /* NULL, or what the call is doing besides: "HTTP 503, trying again in 2 s
                          * (1 of 5)", "verifying its hash" */
    int64_t done, size;  /* its bytes */
    int index, count;    /* which of how many files */
    int64_t all_done, all_size; /* bytes of all files */
} weft_hub_progress;

/* Called several times a second. False: stop, with WEFT_CANCELLED. */
typedef bool weft_hub_progress_fn(void *context, const weft_hub_progress *progress);

typedef struct weft_hub_options {
    const char *revision; /* NULL: "main" */
    /* Which files: shell patterns separated by commas; * also matches slashes.
     * NULL: what Weft reads: config.json and generation_config.json, the tokenizer's and the chat
     * template's files and *.safetensors with their index, or, where there are none, the only
     * *.gguf. */
    const char *include;
    const char *endpoint; /* NULL: $HF_ENDPOINT, or https://huggingface.co */
    const char *token;    /* NULL: $HF_TOKEN, or the file that huggingface_hub's login writes */
    weft_hub_progress_fn *progress; /* NULL: none */
    void *context;
    int retries;    /* after HTTP 429, 5xx and broken connections; 0: 5, negative: none */
    double seconds; /* for the whole list of files, and with less than 1 KiB a second of a file,
                     * until the call fails; 0: 120 */
} weft_hub_options;

/* Downloads the files of a repository that are not in the cache and sets *folder to the snapshot's
 * folder, which the caller frees with weft_free. A file is written under a temporary name, resumes
 * where an earlier call stopped, and is renamed when its SHA-256 (for small files git's SHA-1)
 * matches the hub's. Files in the cache are verified once in the same way, and fetched again if
 * their hash is wrong; which were verified is kept in the repository's folder, in .weft-verified.
 * After HTTP 429 and 5xx (but 501 and 505) the call waits, as long as Retry-After says or 0.5 s,
 * then twice as long each time, and tries again; it does not wait for more than 300 s. After a
 * broken connection it waits likewise and asks for the rest of the file; each MiB of it begins a
 * new count of retries. A server that cannot be reached at all, and one that is too slow, is not
 * tried again. A server that cannot go on where a file ends has it sent from its beginning. The
 * token goes to the endpoint only, never to where it redirects. WEFT_IO when the server or the disk
 * refuses (the message has the HTTP status), WEFT_INVALID for a wrong hash, a wrong length, another
 * commit than the one asked for and for malformed answers, WEFT_UNSUPPORTED when Weft was built
 * without libcurl. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_hub_pull(const char *name, const weft_hub_options *options,
                                                  char **folder);

/* ---- Folders -------------------------------------------------------------------------------- */

/* A model that was found. */
typedef struct weft_discovered {
    char *path;       /* a folder, or a GGUF file */
    char *model_type; /* by config.json or by the file's metadata; "" when they do not say */
    int64_t bits;     /* of most weights, where they are quantised; 0: they are not */
    int64_t files;    /* with weights */
    int64_t bytes;    /* of these */
} weft_discovered;

/* All models below a folder, and it itself: folders with config.json and *.safetensors, and folders
 * with one *.gguf; sorted by path. It goes `depth` folders down (0: 8), does not follow links to
 * folders that it is in already, and passes over what it may not read. *list is the caller's, freed
 * with weft_discovered_free. WEFT_IO when the folder itself cannot be read. */
WEFT_NODISCARD WEFT_API weft_status weft_discover(const char *folder, int depth,
                                                  weft_discovered **list, int *count)
    WEFT_NONNULL(3, 4);
WEFT_API void weft_discovered_free(weft_discovered *list, int count); /* NULL is accepted */

#ifdef __cplusplus
}
#endif
#endif
