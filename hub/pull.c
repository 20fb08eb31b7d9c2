/* hub/pull.c -- downloads a repository into the cache: blobs named by hash, a snapshot of links to
 * them, and the commit of each branch. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/text.h"
#include "core/options.h"
#include "hub/hub.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { LONGEST_LIST = 64 << 20, RETRIES = 5, SECONDS = 120 };

typedef struct pull {
    const char *name, *revision;
    const weft_hub_options *options;
    const char *endpoint;
    char *folder; /* of the repository in the cache */
    weft__http *http;
    weft__hub_list list;
    weft__hub_verified *verified;
    int at; /* the current file */
    int64_t before, all;
} pull;

static bool tell(void *context, int64_t done, const char *message)
{
    const pull *p = context;
    const weft__hub_file *f = &p->list.files[p->at];
    const weft_hub_progress now = {
        .file = f->path,
        .message = message,
        .done = done,
        .size = f->size,
        .index = p->at,
        .count = p->list.n,
        .all_done = p->before + done,
        .all_size = p->all,
    };
    return p->options->progress == NULL || p->options->progress(p->options->context, &now);
}

/* weft__hub_step while the file list is not known yet: passes messages on. */
static bool tell_message(void *context, int64_t done, const char *message)
{
    const pull *p = context;
    const weft_hub_progress now = {.file = "", .message = message};
    (void)done;
    return p->options->progress == NULL || p->options->progress(p->options->context, &now);
}

/* ---- URLs ----------------------------------------------------------------------------------- */

/* Escapes a path for a URL with %XX; with `slashes`, slashes are kept. */
static void escape(weft__text *t, const char *text, bool slashes)
{
    for (const char *c = text; *c != '\0'; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                           (*c >= '0' && *c <= '9') || strchr("-_.~", *c) != NULL ||
                           (slashes && *c == '/');
        weft__text_format(t, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
}

static weft_status get_list(pull *p)
{
    weft__text url = {0};
    char *text = NULL;
    size_t length = 0;
    weft__text_format(&url, "%s/api/%s/%s/revision/", p->endpoint,
                      p->options->dataset ? "datasets" : "models", p->name);
    escape(&url, p->revision, false);
    weft__text_format(&url, "?blobs=true");
    weft_status status = url.failed ? weft__out_of_memory(p->name, NULL) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft__http_text(p->http, url.at, LONGEST_LIST, tell_message, p, &text, &length);
    if (status == WEFT_OK)
        status = weft__hub_list_parse(text, length, url.at, &p->list);
    if (status == WEFT_OK && weft__hub_is_hex(p->revision, 40) &&
        strcmp(p->revision, p->list.commit) != 0)
        status = weft_fail(WEFT_INVALID, "%s: asked for commit %s, got %s", url.at, p->revision,
                           p->list.commit);
    if (status == WEFT_OK)
        status = weft__hub_list_choose(&p->list, p->options->include, p->options->dataset, p->name);
    if (status == WEFT_OK)
        status = weft__hub_list_share(&p->list, p->name);
    weft_free(text);
    weft_free(url.at);
    return status;
}

/* ---- a blob --------------------------------------------------------------------------------- */

static int64_t size_of(int fd)
{
    struct stat what;
    return fstat(fd, &what) == 0 ? what.st_size : 0;
}

/* Whether an open file has the expected contents; `found` is its hash. */
static weft_status has_content(pull *p, const char *path, int fd, bool *same, char found[65])
{
    const weft__hub_file *f = &p->list.files[p->at];
    const weft_status status = weft__digest(fd, path, strlen(f->hash), f->size, tell, p, found);
    *same = status == WEFT_OK && strcmp(found, f->hash) == 0;
    return status;
}

/* Checks a downloaded file. If it is wrong it is emptied, since it cannot be resumed. */
static weft_status check(pull *p, const char *path, int fd)
{
    const weft__hub_file *f = &p->list.files[p->at];
    char found[65] = "";
    bool same;
    const weft_status status = has_content(p, path, fd, &same, found);
    if (status != WEFT_OK || same)
        return status;
    unlink(path);
    return weft_fail(WEFT_INVALID, "%s: %s: expected %s, found %s; the file was discarded",
                     f->path, strlen(f->hash) == 64 ? "SHA-256" : "git's SHA-1", f->hash, found);
}

static weft_status fetch_to(pull *p, const char *path, int fd)
{
    const weft__hub_file *f = &p->list.files[p->at];
    weft__text url = {0};
    int64_t from = size_of(fd);
    if (from > f->size)
        from = ftruncate(fd, 0) == 0 ? 0 : from;
    weft__text_format(&url, "%s/%s%s/resolve/%s/", p->endpoint,
                      p->options->dataset ? "datasets/" : "", p->name, p->list.commit);
    escape(&url, f->path, true);
    weft_status status = url.failed ? weft__out_of_memory(p->name, NULL) : WEFT_OK;
    if (status == WEFT_OK && from < f->size)
        status = weft__http_file(p->http, url.at, fd, from, f->size, tell, p);
    weft_free(url.at);
    if (status == WEFT_OK)
        status = check(p, path, fd);
    if (status == WEFT_OK && fsync(fd) != 0)
        status = weft_fail(WEFT_IO, "%s: sync: %s", path, strerror(errno));
    return status;
}

/* Downloads to PATH.incomplete, which one process locks, and renames it. */
static weft_status fetch_blob(pull *p, const char *blob)
{
    char *temporary = weft_format("%s.incomplete", blob);
    if (temporary == NULL)
        return weft__out_of_memory(p->name, NULL);
    int fd;
    weft_status status = weft__file_open(temporary, O_RDWR | O_CREAT, &fd);
    if (status == WEFT_OK && flock(fd, LOCK_EX | LOCK_NB) != 0)
        status = weft_fail(WEFT_IO, "%s: another process is fetching it", temporary);
    else if (status == WEFT_OK)
        status = fetch_to(p, temporary, fd);
    if (status == WEFT_OK && rename(temporary, blob) != 0)
        status = weft_fail(WEFT_IO, "%s: rename: %s", temporary, strerror(errno));
    if (fd >= 0)
        close(fd);
    weft_free(temporary);
    return status;
}

/* Verifies an existing blob of the right size; *fine says whether its contents are as expected. */
static weft_status check_blob(pull *p, const char *blob, bool *fine)
{
    int fd;
    char found[65] = "";
    weft_status status = weft__file_open(blob, O_RDONLY, &fd);
    if (status != WEFT_OK)
        return status;
    status = has_content(p, blob, fd, fine, found);
    close(fd);
    if (status == WEFT_OK && !*fine && !tell(p, 0, "the cached file has another hash: fetching it"))
        status = weft_fail(WEFT_CANCELLED, "%s: stopped", p->list.files[p->at].path);
    return status;
}

static weft_status need_blob(pull *p, const char *blob)
{
    struct stat what;
    weft_status status = WEFT_OK;
    const weft__hub_file *f = &p->list.files[p->at];
    bool there = stat(blob, &what) == 0 && S_ISREG(what.st_mode) && what.st_size == f->size;
    if (f->first < p->at || (there && weft__hub_verified_has(p->verified, f->hash, &what)))
        return tell(p, f->size, NULL) ? WEFT_OK : weft_fail(WEFT_CANCELLED, "%s: stopped", f->path);
    if (there)
        status = check_blob(p, blob, &there);
    if (status == WEFT_OK && !there)
        status = fetch_blob(p, blob);
    else if (status == WEFT_OK && !tell(p, f->size, NULL))
        status = weft_fail(WEFT_CANCELLED, "%s: stopped", f->path);
    if (status == WEFT_OK && stat(blob, &what) == 0)
        status = weft__hub_verified_add(p->verified, f->hash, &what);
    return status;
}

/* ---- a snapshot ----------------------------------------------------------------------------- */

static weft_status make_folder_of(const char *path)
{
    char *folder = weft_strdup(path);
    if (folder == NULL)
        return weft__out_of_memory(path, NULL);
    *strrchr(folder, '/') = '\0';
    const weft_status status = weft_folder_make(folder);
    weft_free(folder);
    return status;
}

static bool links_to(const char *path, const weft__text *target)
{
    char found[PATH_MAX];
    const ssize_t n = readlink(path, found, sizeof found);
    return n == (ssize_t)target->n && memcmp(found, target->at, target->n) == 0;
}

/* snapshots/COMMIT/PATH -> ../../blobs/HASH, with another "../" for each folder in the path. */
static weft_status link_blob(const pull *p, const weft__hub_file *f)
{
    weft__text target = {0};
    char *path = weft_format("%s/snapshots/%s/%s", p->folder, p->list.commit, f->path);
    weft_status status = path != NULL ? make_folder_of(path) : weft__out_of_memory(p->name, NULL);
    weft__text_format(&target, "../../");
    for (const char *c = f->path; *c != '\0'; c++) {
        if (*c == '/')
            weft__text_format(&target, "../");
    }
    weft__text_format(&target, "blobs/%s", f->hash);
    if (status == WEFT_OK && target.failed)
        status = weft__out_of_memory(p->name, NULL);
    if (status == WEFT_OK && !links_to(path, &target)) {
        unlink(path); /* another blob, or an unverified file */
        if (symlink(target.at, path) != 0)
            status = weft_fail(WEFT_IO, "%s: link: %s", path, strerror(errno));
    }
    weft_free(target.at);
    weft_free(path);
    return status;
}

static weft_status get_files(pull *p)
{
    char *blobs = weft_format("%s/blobs", p->folder);
    weft_status status =
        blobs != NULL ? weft_folder_make(blobs) : weft__out_of_memory(p->name, NULL);
    if (status == WEFT_OK)
        status = weft__hub_verified_load(p->folder, &p->verified);
    for (p->at = 0; p->at < p->list.n; p->at++)
        p->all += p->list.files[p->at].size;
    for (p->at = 0; p->at < p->list.n && status == WEFT_OK; p->at++) {
        const weft__hub_file *f = &p->list.files[p->at];
        char *blob = weft_format("%s/%s", blobs, f->hash);
        status = blob != NULL ? need_blob(p, blob) : weft__out_of_memory(p->name, NULL);
        if (status == WEFT_OK)
            status = link_blob(p, f);
        p->before += f->size;
        weft_free(blob);
    }
    weft_free(blobs);
    /* Also after a failure: the downloaded files have been verified. */
    const weft_status saved = weft__hub_verified_save(p->verified);
    return status != WEFT_OK ? status : saved;
}

/* Records the commit of a branch or tag. */
static weft_status write_ref(const pull *p)
{
    if (strcmp(p->revision, p->list.commit) == 0)
        return WEFT_OK;
    char *path = weft_format("%s/refs/%s", p->folder, p->revision);
    weft_status status = path != NULL ? make_folder_of(path) : weft__out_of_memory(p->name, NULL);
    if (status == WEFT_OK)
        status = weft_file_write(path, p->list.commit, strlen(p->list.commit));
    weft_free(path);
    return status;
}

/* ---- the whole download ---------------------------------------------------------------------- */

/* The token stored by huggingface_hub's login, or NULL. */
static char *stored_token(void)
{
    const char *path = weft__hub_variable("HF_TOKEN_PATH"), *home = weft__hub_variable("HF_HOME");
    const char *user = weft__hub_variable("HOME");
    char *file = path != NULL   ? weft_strdup(path)
                 : home != NULL ? weft_format("%s/token", home)
                 : user != NULL ? weft_format("%s/.cache/huggingface/token", user)
                                : NULL;
    char *text = NULL;
    if (file != NULL && access(file, R_OK) == 0 && weft_file_read(file, 4096, &text, NULL) == 0)
        text[strcspn(text, "\r\n \t")] = '\0';
    weft_free(file);
    return text;
}

static weft_status fetch(pull *p, const char *token)
{
    const weft_hub_options *o = p->options;
    const weft__http_options http = {
        .endpoint = p->endpoint,
        .token = token,
        .retries = (int)weft__count_or_default(o->retries, RETRIES),
        .seconds = o->seconds > 0 ? o->seconds : SECONDS,
    };
    weft_status status = weft__http_new(&http, &p->http);
    if (status == WEFT_OK)
        status = get_list(p);
    if (status == WEFT_OK)
        status = get_files(p);
    if (status == WEFT_OK)
        status = write_ref(p);
    return status;
}

static weft_status pull_to(pull *p, char **folder)
{
    const weft_hub_options *o = p->options;
    const char *token = o->token != NULL ? o->token : weft__hub_variable("HF_TOKEN");
    char *stored = token == NULL ? stored_token() : NULL;
    if (stored != NULL && *stored != '\0')
        token = stored;
    weft_status status = fetch(p, token);
    if (status == WEFT_OK)
        *folder = weft_format("%s/snapshots/%s", p->folder, p->list.commit);
    if (status == WEFT_OK && *folder == NULL)
        status = weft__out_of_memory(p->name, NULL);
    weft_free(stored);
    return status;
}

weft_status weft_hub_pull(const char *name, const weft_hub_options *options, char **folder)
{
    static const weft_hub_options defaults = {0};
    const weft_hub_options *o = options != NULL ? options : &defaults;
    const char *endpoint = o->endpoint != NULL ? o->endpoint : weft__hub_variable("HF_ENDPOINT");
    pull p = {.name = name, .options = o};
    p.revision = o->revision != NULL ? o->revision : "main";
    *folder = NULL;
    if (!weft__hub_is_name(name) || !weft__hub_is_path(p.revision))
        return weft_fail(WEFT_INVALID, "%s@%s: expected ORG/NAME and a branch, tag or commit", name,
                         p.revision);
    if (weft__hub_variable("HF_HUB_OFFLINE") != NULL &&
        strcmp(weft__hub_variable("HF_HUB_OFFLINE"), "0") != 0)
        return weft_fail(WEFT_IO, "%s: HF_HUB_OFFLINE is set: nothing is fetched", name);
    char *base = weft_strdup(endpoint != NULL ? endpoint : "https://huggingface.co");
    p.folder = weft__hub_folder(name, o->dataset);
    weft_status status = WEFT_OK;
    if (base == NULL || p.folder == NULL)
        status = base == NULL ? weft__out_of_memory(p.name, NULL) : weft_error_status();
    for (size_t n = base != NULL ? strlen(base) : 0; n > 0 && base[n - 1] == '/'; n--)
        base[n - 1] = '\0';
    p.endpoint = base;
    if (status == WEFT_OK)
        status = pull_to(&p, folder);
    weft__http_free(p.http);
    weft__hub_verified_free(p.verified);
    weft__hub_list_free(&p.list);
    weft_free(p.folder);
    weft_free(base);
    return status;
}
