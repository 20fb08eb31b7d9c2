/* hub/cache.c -- the local cache of repositories: its location and contents. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "hub/hub.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- names ---------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

bool weft__hub_is_name(const char *name)
{
    int slashes = 0, length = 0;
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '/' && (length == 0 || ++slashes > 1))
            return false;
        if (*c != '/' && (!is_word(*c) || (length == 0 && *c == '.')))
            return false;
        length = *c == '/' ? 0 : length + 1;
    }
    return length > 0 && strlen(name) <= 200 && strstr(name, "..") == NULL &&
           strstr(name, "--") == NULL;
}

bool weft__hub_is_path(const char *path)
{
    const char *start = path;
    if (*path == '\0' || strlen(path) > 1000)
        return false;
    for (const char *c = path;; c++) {
        if (*c == '/' || *c == '\0') {
            size_t n = (size_t)(c - start);
            if (n == 0 || n > 255 || (n <= 2 && strncmp(start, "..", n) == 0))
                return false;
            start = c + 1;
        }
        if (*c == '\0')
            return true;
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\')
            return false;
    }
}

bool weft__hub_is_hex(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

/* ---- locations ------------------------------------------------------------------------------- */

const char *weft__hub_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static char *cache_folder(void)
{
    const char *cache = weft__hub_variable("HF_HUB_CACHE");
    const char *older = weft__hub_variable("HUGGINGFACE_HUB_CACHE");
    const char *home = weft__hub_variable("HF_HOME"), *user = weft__hub_variable("HOME");
    const char *caches = weft__hub_variable("XDG_CACHE_HOME");
    if (cache != NULL || older != NULL)
        return weft_strdup(cache != NULL ? cache : older);
    if (home != NULL)
        return weft_format("%s/hub", home);
    if (caches != NULL)
        return weft_format("%s/huggingface/hub", caches);
    return user != NULL ? weft_format("%s/.cache/huggingface/hub", user) : NULL;
}

char *weft__hub_folder(const char *name, bool dataset)
{
    const char *kind = dataset ? "datasets" : "models";
    char *cache = cache_folder();
    const char *slash = strchr(name, '/');
    char *folder = NULL;
    if (cache != NULL)
        folder = slash != NULL ? weft_format("%s/%s--%.*s--%s", cache, kind, (int)(slash - name),
                                             name, slash + 1)
                               : weft_format("%s/%s--%s", cache, kind, name);
    if (folder == NULL)
        weft_fail(cache != NULL ? WEFT_MEMORY : WEFT_IO, "%s: %s", name,
                  cache != NULL ? "no memory" : "no cache: set HF_HUB_CACHE, HF_HOME or HOME");
    weft_free(cache);
    return folder;
}

/* ---- lookup ---------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat what;
    return stat(path, &what) == 0 && S_ISDIR(what.st_mode);
}

/* The commit in refs/REVISION, or the revision itself if it is a commit. */
static char *commit_of(const char *folder, const char *revision)
{
    char *path = weft_format("%s/refs/%s", folder, revision), *text = NULL;
    if (weft__hub_is_hex(revision, 40))
        text = weft_strdup(revision);
    else if (path != NULL && access(path, R_OK) == 0 &&
             weft_file_read(path, 4096, &text, NULL) == WEFT_OK)
        text[strcspn(text, "\r\n \t")] = '\0';
    weft_free(path);
    return text;
}

weft_status weft__hub_snapshot(const char *name, bool dataset, const char *revision, char **folder)
{
    *folder = NULL;
    const char *wanted = revision != NULL ? revision : "main";
    if (!weft__hub_is_name(name) || !weft__hub_is_path(wanted))
        return weft_fail(WEFT_INVALID, "%s@%s: expected ORG/NAME and a branch, tag or commit", name,
                         wanted);
    char *repository = weft__hub_folder(name, dataset);
    if (repository == NULL)
        return weft_error_status();
    char *commit = commit_of(repository, wanted), *found = NULL;
    if (commit != NULL && weft__hub_is_hex(commit, 40))
        found = weft_format("%s/snapshots/%s", repository, commit);
    if (found != NULL && is_folder(found)) {
        *folder = found;
        found = NULL;
    }
    weft_status status = WEFT_OK;
    if (*folder == NULL)
        status = weft_fail(WEFT_IO, "%s: not in the local cache, %s: weft pull %s%s fetches it",
                           name, repository, dataset ? "--dataset " : "", name);
    weft_free(found);
    weft_free(commit);
    weft_free(repository);
    return status;
}

weft_status weft_hub_find(const char *name, const char *revision, char **folder)
{
    return weft__hub_snapshot(name, false, revision, folder);
}

weft_status weft_hub_resolve(const char *name, char **path)
{
    struct stat what;
    *path = NULL;
    if (stat(name, &what) == 0 || strchr(name, '/') == NULL || !weft__hub_is_name(name)) {
        *path = weft_strdup(name);
        if (*path == NULL)
            return weft__out_of_memory(name, NULL);
        return WEFT_OK;
    }
    weft_status status = weft_hub_find(name, NULL, path);
    if (status == WEFT_IO)
        return weft_fail(WEFT_IO,
                         "%s: there is no such file or folder, and no such repository in "
                         "the local cache (weft pull fetches one)",
                         name);
    return status;
}
