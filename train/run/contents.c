/* train/run/contents.c -- hashes of the files that a run reads, and of their lines. */
#include "train/run/contents.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/digest.h"
#include "core/io/folder.h"
#include "core/list.h"
#include "train/data/reader.h"
#include "train/run/identity.h"
#include "train/run/sums.h"

enum {
    MOST_FILES = 4096,
    MOST_SECONDS = 10 /* that a checkpoint waits */
};

typedef struct entry {
    const char *of;
    char *path, *name; /* `name` is a part of `path` */
    int64_t size;
    char hash[65];               /* "": not known */
    char quick[WEFT__HASH_TEXT]; /* of some blocks */
    weft__sums lines;            /* of a text file of rows; n is 0 for others */
} entry;

struct weft__contents {
    entry *at;
    int n;
    pthread_t thread;
    bool started;
    atomic_bool stop, done;
};

/* ---- the files ------------------------------------------------------------------------------ */

static bool counts(const char *name)
{
    return strcmp(name, "config.json") == 0 || weft__ends_with(name, ".safetensors") ||
           weft__ends_with(name, ".gguf");
}

int weft__model_files(const char *folder, char ***names)
{
    DIR *open_folder = opendir(folder);
    int n = 0;
    const struct dirent *found;
    *names = weft_calloc(MOST_FILES, sizeof **names);
    while (*names && open_folder && n < MOST_FILES && (found = readdir(open_folder)) != NULL) {
        if (counts(found->d_name) && ((*names)[n] = weft_strdup(found->d_name)) != NULL)
            n++;
    }
    if (open_folder)
        closedir(open_folder);
    if (n > 0)
        qsort(*names, (size_t)n, sizeof **names, weft__by_text);
    return n;
}

/* Adds FOLDER/NAME, or FOLDER if the name is NULL. */
static bool add(weft__contents *c, const char *of, const char *folder, const char *name)
{
    if (!weft__list_more(c->at, c->n))
        return false;
    entry e = {.of = of, .path = weft_format(name ? "%s/%s" : "%s", folder, name)};
    if (e.path == NULL)
        return false;
    e.name = name ? e.path + strlen(folder) + 1 : e.path;
    weft__write_hash(e.quick, weft__hash_file(0, e.path, ""));
    c->at[c->n++] = e;
    return true;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool add_model(weft__contents *c, const char *of, const char *base)
{
    if (!is_folder(base))
        return !weft__exists(base) || add(c, of, base, NULL);
    char **names;
    bool added = true;
    const int n = weft__model_files(base, &names);
    for (int i = 0; i < n; i++) {
        added = added && add(c, of, base, names[i]);
        weft_free(names[i]);
    }
    weft_free(names);
    return added;
}

/* The adapter that training begins with: a file, or its files in a folder. */
static bool add_adapter(weft__contents *c, const char *path)
{
    char *config = weft_format("%s/adapter_config.json", path);
    const bool added =
        config && (!weft__exists(config) || add(c, "adapter", path, "adapter_config.json"));
    weft_free(config);
    return added && add_model(c, "adapter", path);
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The files that the description of a reward names: words of a program's command, or a schema. */
static bool add_reward(weft__contents *c, const char *description)
{
    static const char *const separators = ": \t\n\"'`;|&()<>=";
    bool added = true;
    for (const char *at = description; added && *at; at += *at != '\0') {
        const size_t n = strcspn(at, separators);
        char *word = weft_format("%.*s", (int)n, at);
        added = word && (n == 0 || !is_file(word) || add(c, "reward", word, NULL));
        weft_free(word);
        at += n;
    }
    return added;
}

static bool add_tokenizer(weft__contents *c, const char *folder)
{
    static const char *const names[] = {
        "tokenizer.json",    "tokenizer.model",    "tokenizer_config.json",
        "vocab.json",        "merges.txt",         "special_tokens_map.json",
        "added_tokens.json", "chat_template.jinja"};
    bool added = true;
    for (size_t i = 0; added && i < sizeof names / sizeof *names; i++) {
        char *path = weft_format("%s/%s", folder, names[i]);
        added = path && (!weft__exists(path) || add(c, "tokenizer", folder, names[i]));
        weft_free(path);
    }
    return added;
}

/* Standard input and missing files are left out. */
static bool add_data(weft__contents *c, const char *of, const weft_data_source *source)
{
    weft__data_files files;
    if (strcmp(source->path, "-") == 0 || weft__data_files_find(source, &files) != WEFT_OK)
        return true;
    bool added = true;
    for (int i = 0; added && i < files.n; i++)
        added = add(c, of, files.at[i], NULL);
    weft__data_files_free(&files);
    return added;
}

/* ---- hashing -------------------------------------------------------------------------------- */

static bool go_on(void *context, int64_t done, const char *message)
{
    (void)done;
    (void)message;
    return !atomic_load(&((weft__contents *)context)->stop);
}

/* Opens a regular file; NULL for a pipe, a terminal or an error, without waiting. */
static FILE *open_regular(const char *path)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file =
        fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? fdopen(fd, "rb") : NULL;
    if (file == NULL && fd >= 0)
        close(fd);
    return file;
}

/* Hashes the lines of a text file; a file with NULs, or with longer lines, is not one. */
static void hash_lines(weft__contents *c, entry *e)
{
    enum { LONGEST = 1 << 20 };
    FILE *file = open_regular(e->path);
    char *line = weft_malloc(LONGEST);
    size_t n = 0;
    bool text = true;
    for (int byte = 0; file && line && text && byte != EOF && !atomic_load(&c->stop);) {
        byte = getc_unlocked(file);
        if (byte != EOF)
            line[n++] = (char)byte;
        text = byte != '\0' && (n < LONGEST || byte == '\n');
        if (n > 0 && (byte == '\n' || byte == EOF)) {
            weft__sums_add(&e->lines, weft__hash_bytes(0, line, n));
            n = 0;
        }
    }
    if (!text)
        e->lines.n = 0;
    weft_free(line);
    if (file)
        fclose(file);
}

static bool has_rows(const entry *e)
{
    return strcmp(e->of, "data") == 0 || strcmp(e->of, "validation") == 0;
}

static void *hash_all(void *context)
{
    weft__contents *c = context;
    for (int i = 0; i < c->n && !atomic_load(&c->stop); i++) {
        entry *e = &c->at[i];
        if (weft__digest_of(e->path, go_on, c, &e->size, e->hash) != WEFT_OK)
            e->hash[0] = '\0';
        if (has_rows(e))
            hash_lines(c, e);
    }
    atomic_store(&c->done, true);
    return NULL;
}

/* Waits a while for the hashes; whether they are known. */
static bool wait_for(weft__contents *c)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int i = 0; i < 100 * MOST_SECONDS && !atomic_load(&c->done); i++)
        (void)nanosleep(&pause, NULL);
    return atomic_load(&c->done);
}

void weft__contents_wait(weft__contents *c)
{
    if (c->started)
        pthread_join(c->thread, NULL);
    c->started = false;
}

weft_status weft__contents_start(const weft_trainer_options *o, weft__contents **out)
{
    weft__contents *c = *out = weft_calloc(1, sizeof *c);
    bool added = c && add_model(c, "base", o->base_name) &&
                 add_tokenizer(c, o->tokenizer_path ? o->tokenizer_path : o->base_name);
    if (added && o->objective_options.teacher_name)
        added = add_model(c, "teacher", o->objective_options.teacher_name);
    if (added && o->init_adapter)
        added = add_adapter(c, o->init_adapter);
    for (int i = 0; added && o->sampling && i < o->sampling->n_rewards; i++)
        added = add_reward(c, o->sampling->names[i]);
    for (int i = 0; added && i < o->n_sources; i++)
        added = add_data(c, "data", &o->sources[i]);
    if (added && o->validation_source)
        added = add_data(c, "validation", o->validation_source);
    if (!added) {
        weft__contents_free(c);
        *out = NULL;
        return weft__out_of_memory("training", "the run's records");
    }
    c->started = pthread_create(&c->thread, NULL, hash_all, c) == 0;
    if (!c->started)
        hash_all(c);
    return WEFT_OK;
}

void weft__contents_free(weft__contents *c)
{
    if (c == NULL)
        return;
    atomic_store(&c->stop, true);
    weft__contents_wait(c);
    for (int i = 0; i < c->n; i++)
        weft_free(c->at[i].path);
    weft_free(c->at);
    weft_free(c);
}

void weft__contents_write(weft__text *t, weft__contents *c)
{
    const bool known = wait_for(c);
    weft__text_format(t, "\"files\": [");
    for (int i = 0; i < c->n; i++) {
        const entry *e = &c->at[i];
        weft__text_format(t, "%s{\"of\": \"%s\", \"name\": ", i > 0 ? ", " : "", e->of);
        weft__text_quote(t, e->name);
        weft__text_format(t, ", \"quick\": \"%s\"", e->quick);
        if (known && e->hash[0] != '\0')
            weft__text_format(t, ", \"size\": %lld, \"sha256\": \"%s\"", (long long)e->size,
                              e->hash);
        if (known && e->lines.n > 0) {
            weft__text_format(t, ", \"lines\": ");
            weft__sums_write(t, &e->lines);
        }
        weft__text_format(t, "}");
    }
    weft__text_format(t, "], ");
}
