/* train/run/place.c -- recognizes the folder of a run, and refuses folders with other files. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/io/temporary.h"
#include "core/io/text.h"
#include "train/run/checkpoint.h"
#include "train/run/journal.h"
#include "train/run/place.h"
#include "weft/memory.h"
#include "weft/tool/run.h"

/* run.json is deleted last, so that an interrupted deletion can be repeated. */
static const char *const names[] = {"last",
                                    "best",
                                    "loss.svg",
                                    "report.html",
                                    "config.json",
                                    WEFT__REFERENCE_FILE,
                                    WEFT__VALIDATION_REFERENCE_FILE,
                                    "metrics.jsonl",
                                    WEFT__JOURNAL_FILE,
                                    WEFT__RUN_FILE};
enum { NAMES = sizeof names / sizeof *names };

static bool is_written(const char *name, size_t n, bool certain, const void *context)
{
    (void)certain;
    (void)context;
    for (int i = 0; i < NAMES; i++)
        if (strlen(names[i]) == n && strncmp(name, names[i], n) == 0)
            return true;
    return weft__checkpoint_is_name(name, n);
}

/* Whether Weft wrote the run.json in the folder. */
static bool has_record(const char *folder)
{
    char *path = weft_format("%s/" WEFT__RUN_FILE, folder);
    weft__json_doc doc = {.root = NULL};
    const char *version = NULL;
    if (path && weft__exists(path) && weft__json_read(path, &doc) == WEFT_OK) {
        const weft__json root = weft__json_root(&doc);
        if (weft__json_as_object(&root) == WEFT_OK)
            (void)weft__json_find_string(&root, "weft", &version);
    }
    const bool found = version != NULL;
    weft__json_free(&doc);
    weft_free(path);
    return found;
}

/* Whether the folder `name` in a run's folder has the weights after the run's last update. */
static bool is_last(const char *name, int64_t steps, int64_t best)
{
    char newest[64];
    snprintf(newest, sizeof newest, "step-%lld", (long long)steps);
    return strcmp(name, "last") == 0 || strcmp(name, newest) == 0 ||
           (strcmp(name, "best") == 0 && best == steps);
}

bool weft__run_general(const char *adapter, double *first, double *last)
{
    char *folder = realpath(adapter, NULL), *name = folder ? strrchr(folder, '/') : NULL;
    char *path = name ? weft_format("%.*s/" WEFT__RUN_FILE, (int)(name - folder), folder) : NULL;
    weft__json_doc doc = {.root = NULL};
    weft__json result = {.value = NULL};
    int64_t steps = 0, best = 0;
    *first = *last = NAN;
    if (path && weft__exists(path) && weft__json_read(path, &doc) == WEFT_OK) {
        const weft__json root = weft__json_root(&doc);
        const bool found = weft__json_find(&root, "result", &result) == WEFT_OK && result.value &&
                           weft__json_find_int(&result, "steps", &steps) == WEFT_OK &&
                           weft__json_find_int(&result, "best_step", &best) == WEFT_OK &&
                           weft__json_find_number(&result, "first_general", first) == WEFT_OK &&
                           weft__json_find_number(&result, "last_general", last) == WEFT_OK;
        if (!found || !is_last(name + 1, steps, best))
            *last = NAN;
    }
    weft__json_free(&doc);
    weft_free(path);
    free(folder);
    return isfinite(*first) && isfinite(*last);
}

bool weft_run_exists(const char *folder)
{
    return has_record(folder) || weft__checkpoint_exists(folder);
}

weft_status weft__run_check_place(const char *folder)
{
    weft__text list = {0};
    int n = 0;
    DIR *dir = weft_run_exists(folder) ? NULL : opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (is_written(entry->d_name, strlen(entry->d_name), true, NULL))
            weft__text_list(&list, n++, entry->d_name);
    if (dir)
        closedir(dir);
    weft__text_list_end(&list, n);
    weft_status status = WEFT_OK;
    if (n > 0 && list.failed)
        status = weft__out_of_memory("training", folder);
    else if (n > 0)
        status = weft_fail(WEFT_INVALID,
                           "%s: it has no run, but files that a run would overwrite: %s; choose "
                           "another folder",
                           folder, list.at);
    weft_free(list.at);
    return status;
}

/* Writes and deletes a file of a size that every run exceeds. */
static weft_status try_file(const char *folder)
{
    static const char zeros[1 << 15];
    char *path = weft_format("%s/" WEFT__RUN_FILE, folder);
    weft__writer *writer = NULL;
    weft_status status =
        path ? weft__writer_open(path, &writer) : weft__out_of_memory("training", folder);
    if (status == WEFT_OK)
        status = weft__writer_write(writer, zeros, sizeof zeros);
    if (status == WEFT_OK)
        status = weft__writer_sync(writer);
    (void)weft__writer_close(writer, WEFT_CANCELLED); /* never publishes the file */
    weft_free(path);
    return status;
}

weft_status weft_run_check(const char *folder, const char *const *inputs, int n)
{
    weft__folder f;
    weft_status status = weft__run_check_place(folder);
    for (int i = 0; status == WEFT_OK && i < n && weft_run_exists(folder); i++)
        status = weft__check_output(folder, inputs[i]);
    if (status == WEFT_OK)
        status = weft__folder_open(folder, &f);
    if (status != WEFT_OK)
        return status;
    status = try_file(folder);
    weft__folder_discard(&f);
    return status;
}

void weft__run_clean(const char *folder)
{
    weft__temporary_clean(folder, is_written, NULL);
}

weft_status weft__run_remove(const char *folder)
{
    weft__run_clean(folder);
    weft_status status = weft__checkpoint_remove(folder);
    for (int i = 0; status == WEFT_OK && i < NAMES; i++) {
        char *path = weft_format("%s/%s", folder, names[i]);
        if (path == NULL)
            status = weft__out_of_memory("training", "the run's records");
        else if (weft__exists(path))
            status = weft__folder_remove(path);
        weft_free(path);
    }
    return status;
}
