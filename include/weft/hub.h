/* weft/hub.h -- finding and downloading models and datasets.
 *
 *     char *folder;
 *     status = weft_hub_pull("Qwen/Qwen3-0.6B", NULL, &folder);
 *     ... weft_model_load(folder, NULL, &model) ...
 *     weft_free(folder);
 *
 * The cache is shared with Python's huggingface_hub: $HF_HUB_CACHE, else $HF_HOME/hub, else
 * huggingface/hub in $XDG_CACHE_HOME or ~/.cache.
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

/* Resolves a model's name: an existing path as it is, else the snapshot of ORG/NAME in the local
 * cache. The caller frees *path with weft_free. WEFT_IO for a name that is neither. */
WEFT_NODISCARD WEFT_API weft_status weft_hub_resolve(const char *name, char **path);

/* Finds the files of a dataset in the local cache that belong to a split: n paths, freed with
 * weft_hub_dataset_free. `name` is ORG/NAME (the split "train"), ORG/NAME:SPLIT or
 * ORG/NAME/CONFIG:SPLIT. As in Python's datasets, the dataset's card (README.md) says which files
 * they are, or else the names of files and folders do. A warning is logged if some of the files are
 * missing. WEFT_INVALID when `name` is malformed or there is no such configuration or split;
 * WEFT_IO when the cache does not have the dataset; WEFT_UNSUPPORTED when its card is in YAML and
 * this build has no libyaml. */
WEFT_NODISCARD WEFT_API weft_status weft_hub_dataset(const char *name, char ***files, int *n)
    WEFT_NONNULL(1, 2, 3);
WEFT_API void weft_hub_dataset_free(char **files, int n); /* NULL is accepted */

/* ---- Downloading ---------------------------------------------------------------------------- */

/* The progress of a download. */
typedef struct weft_hub_progress {
    const char *file; /* the current file, with done == size if it is cached; "" with a message and
                       * zeros while the list of files is requested */
    const char *message; /* NULL, or such as "HTTP 503, trying again in 2 s (1 of 5)", "verifying
                          * its hash" */
    int64_t done, size;  /* bytes of the file */
    int index, count;    /* the file's index, and the number of files */
    int64_t all_done, all_size; /* bytes of all files */
} weft_hub_progress;

/* Called several times a second. Return false to stop with WEFT_CANCELLED. */
typedef bool weft_hub_progress_fn(void *context, const weft_hub_progress *progress);

typedef struct weft_hub_options {
    const char *revision; /* NULL: "main" */
    /* Which files: shell patterns separated by commas; * also matches slashes. NULL: what Weft
     * reads: config.json, generation_config.json, the files of the tokenizer and the chat template,
     * and *.safetensors with their index, or without those the only *.gguf. */
    const char *include;
    bool dataset;         /* a dataset: without `include` README.md and the files of rows or text */
    const char *endpoint; /* NULL: $HF_ENDPOINT, or https://huggingface.co */
    const char *token;    /* NULL: $HF_TOKEN, or the file that huggingface_hub's login writes */
    weft_hub_progress_fn *progress; /* NULL: none */
    void *context;
    int retries;    /* after HTTP 429, 5xx and broken connections; 0: 5, negative: none */
    double seconds; /* the timeout of the list of files, and of a file that arrives with less than
                     * 1 KiB per second; 0: 120 */
} weft_hub_options;

/* Downloads the files of a repository that are not in the cache and sets *folder to the snapshot's
 * folder, which the caller frees with weft_free. NULL options: all zero.
 *
 * Files. A file is written under a temporary name, resumes where an earlier call stopped, and is
 * renamed when its SHA-256 (for small files git's SHA-1) matches the hub's. Cached files are
 * verified once and downloaded again if their hash is wrong; .weft-verified in the repository's
 * folder lists those that were verified. The token is sent to the endpoint only, never to where it
 * redirects.
 *
 * Retries. After HTTP 429 and 5xx (except 501 and 505) the call waits as long as Retry-After says,
 * or 0.5 s and then twice as long each time, at most 300 s, and tries again. After a broken
 * connection it does the same and requests the rest of the file, or the whole file if the server
 * cannot resume; each received MiB restarts the count of retries. An unreachable or too slow server
 * is not tried again.
 *
 * WEFT_IO for errors of the server (the message has the HTTP status) or the disk; WEFT_INVALID for
 * a wrong hash, length or commit and a malformed response; WEFT_UNSUPPORTED without libcurl. */
WEFT_NODISCARD WEFT_API weft_status weft_hub_pull(const char *name, const weft_hub_options *options,
                                                  char **folder);

/* ---- Folders -------------------------------------------------------------------------------- */

/* A model that weft_discover found. */
typedef struct weft_discovered {
    char *path;       /* a folder, or a GGUF file */
    char *model_type; /* from config.json or the file's metadata, or "" */
    int64_t bits;     /* of most weights if quantized, else 0 */
    int64_t files;    /* number of files with weights */
    int64_t bytes;    /* of these files */
} weft_discovered;

/* Finds all models in a folder and its subfolders, `depth` levels deep (0: 8; below 0: none):
 * folders with config.json and *.safetensors, and folders with one *.gguf, sorted by path. Skips
 * links to parent folders and unreadable folders. Free *list with weft_discovered_free. WEFT_IO if
 * the folder itself cannot be read. */
WEFT_NODISCARD WEFT_API weft_status weft_discover(const char *folder, int depth,
                                                  weft_discovered **list, int *count)
    WEFT_NONNULL(3, 4);
WEFT_API void weft_discovered_free(weft_discovered *list, int count); /* NULL is accepted */

#ifdef __cplusplus
}
#endif
#endif
