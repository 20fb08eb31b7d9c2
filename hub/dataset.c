/* hub/dataset.c -- datasets in the local cache: which of their files belong to a split.
 *
 * The rules are those of the datasets library: the card names the files, or else their folders and
 * names do ("data/train-00000-of-00002.parquet", "test.jsonl"). */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "core/io/data_names.h"
#include "core/io/text.h"
#include "core/list.h"
#include "hub/dataset.h"
#include "hub/hub.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { DEPTH = 16, LARGEST_CARD = 16 << 20 };

/* Files of a snapshot, by their paths in it. */
typedef struct paths {
    char **at;
    int n;
} paths;

/* The parts of ORG/NAME/CONFIG:SPLIT. */
typedef struct wanted {
    char name[256];
    char config[256]; /* "": the default */
    char split[128];
    const char *whole; /* for messages */
} wanted;

void weft__hub_card_free(weft__hub_card *card)
{
    for (int i = 0; i < card->n; i++) {
        weft_free(card->at[i].config);
        weft_free(card->at[i].split);
        weft_free(card->at[i].pattern);
    }
    weft_free(card->at);
    *card = (weft__hub_card){0};
}

void weft_hub_dataset_free(char **files, int n)
{
    for (int i = 0; i < n; i++)
        weft_free(files[i]);
    weft_free(files);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Splits a name into its parts. False: not of this form. */
static bool read_name(const char *text, wanted *out)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const char *second = slash ? memchr(slash + 1, '/', n - (size_t)(slash + 1 - text)) : NULL;
    const size_t name = second ? (size_t)(second - text) : n, config = second ? n - name - 1 : 0;
    const char *split = colon ? colon + 1 : "train";
    if (slash == NULL || slash > text + n || name >= sizeof out->name ||
        config >= sizeof out->config || strlen(split) >= sizeof out->split ||
        (second && config == 0) || *split == '\0' || strpbrk(split, "/:*?[") != NULL)
        return false;
    memcpy(out->name, text, name);
    out->name[name] = '\0';
    memcpy(out->config, second ? second + 1 : "", config);
    out->config[config] = '\0';
    memcpy(out->split, split, strlen(split) + 1);
    out->whole = text;
    return weft__hub_is_name(out->name) && strchr(out->config, '/') == NULL;
}

/* The format of a path; WEFT_DATA_AUTO: not a data file. */
static weft_data_format format_of(const char *path)
{
    static const char *const others[] = {"dataset_infos.json", "dataset_info.json",
                                         "dataset_dict.json", "config.json", "state.json"};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(name, others[i]) == 0)
            return WEFT_DATA_AUTO;
    }
    return weft__data_named(path);
}

bool weft__hub_is_data(const char *path)
{
    return format_of(path) != WEFT_DATA_AUTO;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Adds `path`, of which it takes ownership; NULL: out of memory. */
static weft_status add(paths *to, char *path, const char *where)
{
    if (path == NULL || !weft__list_more(to->at, to->n)) {
        weft_free(path);
        return weft__out_of_memory(where, "its list of files");
    }
    to->at[to->n++] = path;
    return WEFT_OK;
}

/* Adds the data files below a folder of the snapshot; `inside` is its path in it, with a slash. */
static weft_status list_folder(paths *to, const char *snapshot, const char *inside, int depth)
{
    char *folder = weft_format("%s/%s", snapshot, inside);
    DIR *open = folder && depth < DEPTH ? opendir(folder) : NULL;
    weft_status status = open ? WEFT_OK
                              : weft_fail(WEFT_IO, "%s/%s: cannot read the folder: %s", snapshot,
                                          inside, strerror(errno));
    for (struct dirent *e = open ? readdir(open) : NULL; e && status == WEFT_OK;
         e = readdir(open)) {
        struct stat about;
        char *path = weft_format("%s%s", inside, e->d_name);
        char *full = path ? weft_format("%s/%s", snapshot, path) : NULL;
        const bool there = full && e->d_name[0] != '.' && stat(full, &about) == 0;
        char *below = there && S_ISDIR(about.st_mode) ? weft_format("%s/", path) : NULL;
        if (full == NULL)
            status = weft__out_of_memory(snapshot, NULL);
        else if (below)
            status = list_folder(to, snapshot, below, depth + 1);
        else if (there && weft__hub_is_data(path)) {
            status = add(to, path, snapshot);
            path = NULL;
        }
        weft_free(below);
        weft_free(full);
        weft_free(path);
    }
    if (open)
        closedir(open);
    weft_free(folder);
    return status;
}

/* ---- splits --------------------------------------------------------------------------------- */

/* Whether a pattern of the card fits a path. "**" also matches slashes, and with the slash after it
 * nothing. */
static bool fits(const char *pattern, const char *path)
{
    const size_t n = strlen(pattern);
    const char *deep = strstr(pattern, "**");
    char shorter[1024];
    if (deep == NULL)
        return fnmatch(pattern, path, FNM_PATHNAME) == 0 ||
               (strncmp(pattern, path, n) == 0 && path[n] == '/'); /* a folder */
    if (fnmatch(pattern, path, 0) == 0)
        return true;
    if (n >= sizeof shorter || deep[2] != '/')
        return false;
    snprintf(shorter, sizeof shorter, "%.*s%s", (int)(deep - pattern), pattern, deep + 3);
    return fits(shorter, path);
}

/* The position of "-00000-of-00002" in a name; NULL: none. */
static const char *shard_of(const char *name)
{
    for (const char *at = strchr(name, '-'); at; at = strchr(at + 1, '-')) {
        const size_t n = strspn(at + 1, "0123456789");
        if (n >= 5 && strncmp(at + 1 + n, "-of-", 4) == 0 && strspn(at + n + 5, "0123456789") == n)
            return at;
    }
    return NULL;
}

/* The split that a word of a path names; NULL: none. */
static const char *split_of_word(const char *word, size_t n)
{
    static const char *const words[][2] = {
        {"train", "train"},      {"training", "train"}, {"validation", "validation"},
        {"valid", "validation"}, {"dev", "validation"}, {"val", "validation"},
        {"test", "test"},        {"testing", "test"},   {"eval", "test"},
        {"evaluation", "test"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i][0]) == n && strncasecmp(word, words[i][0], n) == 0)
            return words[i][1];
    }
    return NULL;
}

/* Whether a path without an entry in the card is of a split: "SPLIT-00000-of-00002", or a word of
 * its folders or its name. *named: it names some split. */
static bool names_split(const char *path, const char *split, bool *named)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *shard = shard_of(name);
    *named = true;
    if (shard)
        return strlen(split) == (size_t)(shard - name) &&
               strncmp(name, split, (size_t)(shard - name)) == 0;
    for (const char *at = path; *at != '\0';) {
        const size_t n = strcspn(at, "/._- 0123456789");
        const char *found = split_of_word(at, n);
        if (found)
            return strcmp(found, split) == 0;
        at += n + (at[n] != '\0');
    }
    *named = false;
    return false;
}

static bool is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return n == 0 || (strncmp(path, folder, n) == 0 && path[n] == '/');
}

/* Takes the files below a folder that are of the split; all of them are "train" if none names one.
 */
static weft_status infer(const paths *all, const char *folder, const char *split, const char *where,
                         paths *out)
{
    bool any = false, named;
    weft_status status = WEFT_OK;
    for (int i = 0; i < all->n; i++) {
        if (is_below(all->at[i], folder)) {
            names_split(all->at[i] + strlen(folder), split, &named);
            any |= named;
        }
    }
    for (int i = 0; status == WEFT_OK && i < all->n; i++) {
        const char *path = all->at[i];
        if (is_below(path, folder) &&
            (any ? names_split(path + strlen(folder), split, &named) : strcmp(split, "train") == 0))
            status = add(out, weft_strdup(path), where);
    }
    return status;
}

/* Keeps the files of the most frequent format, as the datasets library does. */
static void keep_one_format(paths *files)
{
#define FORMAT(ID, ...) WEFT_DATA_##ID,
    static const weft_data_format formats[] = {WEFT__DATA_FORMATS(FORMAT)};
#undef FORMAT
    int counts[WEFT_DATA_FORMATS] = {0}, kept = 0;
    weft_data_format best = formats[0];
    for (int i = 0; i < files->n; i++)
        counts[format_of(files->at[i])]++;
    for (size_t i = 1; i < sizeof formats / sizeof *formats; i++)
        best = counts[formats[i]] > counts[best] ? formats[i] : best;
    for (int i = 0; i < files->n; i++) {
        if (format_of(files->at[i]) == best)
            files->at[kept++] = files->at[i];
        else
            weft_free(files->at[i]);
    }
    files->n = kept;
}

/* ---- the card ------------------------------------------------------------------------------- */

static weft_status read_card(const char *snapshot, weft__hub_card *out)
{
    struct stat about;
    char *path = weft_format("%s/README.md", snapshot), *text = NULL;
    size_t n = 0;
    *out = (weft__hub_card){0};
    if (path == NULL)
        return weft__out_of_memory(snapshot, NULL);
    weft_status status = WEFT_OK;
    if (stat(path, &about) == 0)
        status = weft_file_read(path, LARGEST_CARD, &text, &n);
    if (status == WEFT_OK && text)
        status = weft__hub_card_parse(text, n, path, out);
    weft_free(text);
    weft_free(path);
    return status;
}

static bool has_config(const weft__hub_card *card, const char *name)
{
    for (int i = 0; i < card->n; i++) {
        if (strcmp(card->at[i].config, name) == 0)
            return true;
    }
    return false;
}

/* Fails with the names of the configurations, or of the splits of one. */
static weft_status list_choices(const weft__hub_card *card, const char *config, const wanted *w)
{
    weft__text names = {0};
    int n = 0;
    for (int i = 0; i < card->n; i++) {
        const char *name = config ? card->at[i].split : card->at[i].config;
        bool seen = name == NULL || (config && strcmp(card->at[i].config, config) != 0);
        for (int k = 0; k < i && !seen; k++)
            seen = config ? card->at[k].split && strcmp(card->at[k].config, config) == 0 &&
                                strcmp(card->at[k].split, name) == 0
                          : strcmp(card->at[k].config, name) == 0;
        if (!seen)
            weft__text_list(&names, n++, name);
    }
    weft__text_list_end(&names, n);
    const char *all = names.at ? names.at : "";
    const weft_status status =
        config ? weft_fail(WEFT_INVALID,
                           "%s: it has no split '%s', but %s: choose one as %s%s%s:SPLIT", w->whole,
                           w->split, all, w->name, *w->config ? "/" : "", w->config)
               : weft_fail(WEFT_INVALID,
                           "%s: its configurations are %s: choose one as %s/CONFIG:SPLIT", w->whole,
                           all, w->name);
    weft_free(names.at);
    return status;
}

/* The configuration that is wanted, or the default one; NULL: it must be chosen. */
static const char *choose_config(const weft__hub_card *card, const wanted *w)
{
    const char *only = card->at[0].config;
    if (*w->config != '\0')
        return has_config(card, w->config) ? w->config : NULL;
    for (int i = 0; i < card->n; i++) {
        if (card->at[i].chosen)
            return card->at[i].config;
        if (only && strcmp(card->at[i].config, only) != 0)
            only = NULL;
    }
    return only ? only : has_config(card, "default") ? "default" : NULL;
}

/* Takes the files that the card names. */
static weft_status take_named(const weft__hub_card *card, const paths *all, const wanted *w,
                              paths *out)
{
    const char *config = choose_config(card, w);
    bool known = false;
    if (config == NULL)
        return list_choices(card, NULL, w);
    weft_status status = WEFT_OK;
    for (int i = 0; i < card->n && status == WEFT_OK; i++) {
        const weft__hub_data_files *f = &card->at[i];
        if (strcmp(f->config, config) != 0 || (f->split && strcmp(f->split, w->split) != 0))
            continue;
        known = true;
        if (f->split == NULL)
            status = infer(all, f->pattern, w->split, w->whole, out);
        for (int k = 0; f->split && k < all->n && status == WEFT_OK; k++) {
            if (fits(f->pattern, all->at[k]))
                status = add(out, weft_strdup(all->at[k]), w->whole);
        }
    }
    return status == WEFT_OK && !known ? list_choices(card, config, w) : status;
}

/* ---- datasets ------------------------------------------------------------------------------- */

/* Warns if the cache lacks shards of "NAME-00000-of-00002". */
static void check_shards(const paths *files, const wanted *w)
{
    const char *shard = files->n > 0 ? shard_of(files->at[0]) : NULL;
    const long expected = shard ? strtol(strstr(shard, "-of-") + 4, NULL, 10) : 0;
    if (expected > files->n)
        weft_log_message(WEFT_LOG_WARNING,
                         "%s: %d of %ld files are in the cache: weft pull --dataset %s fetches all",
                         w->whole, files->n, expected, w->name);
}

static weft_status find_files(const char *snapshot, const wanted *w, paths *out)
{
    paths all = {0};
    weft__hub_card card;
    weft_status status = read_card(snapshot, &card);
    if (status == WEFT_OK)
        status = list_folder(&all, snapshot, "", 0);
    if (status == WEFT_OK && all.n > 0)
        qsort(all.at, (size_t)all.n, sizeof *all.at, weft__by_text);
    if (status == WEFT_OK && card.n > 0)
        status = take_named(&card, &all, w, out);
    else if (status == WEFT_OK) /* without a card, folders are the configurations */
        status = infer(&all, w->config, w->split, w->whole, out);
    if (status == WEFT_OK && out->n == 0)
        status = weft_fail(WEFT_INVALID,
                           "%s: the cache has no data file of the split '%s' in %s (weft pull "
                           "--dataset %s fetches all files)",
                           w->whole, w->split, snapshot, w->name);
    if (status == WEFT_OK) {
        keep_one_format(out);
        check_shards(out, w);
    }
    weft__hub_card_free(&card);
    weft_hub_dataset_free(all.at, all.n);
    return status;
}

weft_status weft_hub_dataset(const char *name, char ***files, int *n)
{
    wanted w;
    char *snapshot = NULL;
    paths found = {0};
    *files = NULL;
    *n = 0;
    if (!read_name(name, &w))
        return weft_fail(WEFT_INVALID,
                         "%s: expected ORG/NAME, ORG/NAME:SPLIT or "
                         "ORG/NAME/CONFIG:SPLIT",
                         name);
    weft_status status = weft__hub_snapshot(w.name, true, NULL, &snapshot);
    if (status == WEFT_OK)
        status = find_files(snapshot, &w, &found);
    for (int i = 0; status == WEFT_OK && i < found.n; i++) {
        char *path = weft_format("%s/%s", snapshot, found.at[i]);
        if (path == NULL)
            status = weft__out_of_memory(name, NULL);
        weft_free(found.at[i]);
        found.at[i] = path;
    }
    weft_free(snapshot);
    if (status != WEFT_OK) {
        weft_hub_dataset_free(found.at, found.n);
        return status;
    }
    *files = found.at;
    *n = found.n;
    return WEFT_OK;
}
