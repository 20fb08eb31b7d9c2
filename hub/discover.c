/* hub/discover.c -- finds the models below a folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/list.h"
#include "core/options.h"
#include "models/config.h"
#include "weft/gguf.h"
#include "weft/hub.h"
#include "weft/memory.h"

enum { DEPTH = 8, DEEPEST = 64 };

typedef struct search {
    weft_discovered *list;
    int n;
    int depth;                      /* of the current folder */
    struct stat above[DEEPEST + 1]; /* the current folder and its ancestors */
} search;

/* The contents of a folder. */
typedef struct content {
    bool config;
    int safetensors, ggufs;
    int64_t bytes; /* of safetensors files */
    char *gguf;    /* path of the first GGUF file */
    int64_t gguf_bytes;
    char **folders;
    int n_folders;
} content;

/* ---- one model ------------------------------------------------------------------------------ */

/* Reads config.json. MLX's key is "quantization", all others use "quantization_config". */
static void read_config(const char *folder, weft_discovered *out)
{
    static const char *const keys[] = {"quantization", "quantization_config"};
    char *path = weft_format("%s/config.json", folder);
    weft_config *config = NULL;
    if (path != NULL && weft_config_load(path, &config) == WEFT_OK) {
        const weft__json type = weft__config_at_top(config, "model_type");
        const char *name = "";
        if (type.value != NULL && weft__json_as_string(&type, &name, NULL) == WEFT_OK)
            out->model_type = weft_strdup(name);
        for (int i = 0; i < 2 && out->bits == 0; i++) {
            const weft__json at = weft__config_at(config, keys[i]);
            if (at.value != NULL && weft__json_find_int(&at, "bits", &out->bits) != WEFT_OK)
                out->bits = 0;
        }
    }
    weft_config_free(config);
    weft_free(path);
}

/* The bits in a type's name: 4 for Q4_K, 0 for F16. */
static int bits_of(const char *type)
{
    if (strcmp(type, "MXFP4") == 0)
        return 4;
    const char *q = strchr(type, 'Q');
    return q != NULL ? (int)strtol(q + 1, NULL, 10) : 0;
}

/* The most common number of bits per element; on a tie, the larger one. */
static int64_t bits_of_most(const weft_gguf *file)
{
    int64_t elements[33] = {0};
    int most = 0;
    for (int i = 0; i < weft_gguf_count(file); i++) {
        const weft_gguf_entry *e = weft_gguf_at(file, i);
        int64_t n = 1;
        for (int d = 0; d < e->shape.n; d++)
            n *= e->shape.at[d];
        const int bits = bits_of(e->type);
        elements[bits >= 0 && bits <= 32 ? bits : 0] += n;
    }
    for (int bits = 1; bits <= 32; bits++) {
        if (elements[bits] >= elements[most] && elements[bits] > 0)
            most = bits;
    }
    return most;
}

static void read_gguf(const char *path, weft_discovered *out)
{
    weft_gguf *file;
    weft_gguf_string name;
    if (weft_gguf_open(path, &file) != WEFT_OK)
        return;
    if (weft_gguf_value_string(weft_gguf_value_find(file, "general.architecture"), 0, &name))
        out->model_type = weft_format("%.*s", (int)(name.n < 100 ? name.n : 100), name.at);
    out->bits = bits_of_most(file);
    weft_gguf_close(file);
}

static weft_status add(search *s, const char *folder, const content *c)
{
    const bool gguf = c->ggufs == 1 && c->safetensors == 0;
    if (!gguf && (!c->config || c->safetensors == 0))
        return WEFT_OK;
    if (!weft__list_more(s->list, s->n))
        return weft__out_of_memory(folder, "looking for models");
    weft_discovered *m = &s->list[s->n++];
    *m = (weft_discovered){.path =
                               gguf ? weft_format("%s/%s", folder, c->gguf) : weft_strdup(folder),
                           .files = gguf ? 1 : c->safetensors,
                           .bytes = gguf ? c->gguf_bytes : c->bytes};
    if (m->path != NULL && gguf)
        read_gguf(m->path, m);
    else if (m->path != NULL)
        read_config(folder, m);
    if (m->model_type == NULL)
        m->model_type = weft_strdup("");
    return m->path != NULL && m->model_type != NULL
               ? WEFT_OK
               : weft__out_of_memory(folder, "looking for models");
}

/* ---- folders -------------------------------------------------------------------------------- */

static bool add_folder(content *c, const char *name)
{
    if (!weft__list_more(c->folders, c->n_folders))
        return false;
    c->folders[c->n_folders] = weft_strdup(name);
    return c->folders[c->n_folders++] != NULL;
}

static bool note(content *c, const char *name, const struct stat *what)
{
    if (S_ISDIR(what->st_mode))
        return add_folder(c, name);
    if (!S_ISREG(what->st_mode))
        return true;
    if (strcmp(name, "config.json") == 0)
        c->config = true;
    if (weft__ends_with(name, ".safetensors")) {
        c->safetensors++;
        c->bytes += what->st_size;
    }
    if (weft__ends_with(name, ".gguf") && c->ggufs++ == 0) {
        c->gguf_bytes = what->st_size;
        c->gguf = weft_strdup(name);
        return c->gguf != NULL;
    }
    return true;
}

/* Hidden folders (.git, .locks) contain no models. */
static weft_status read_folder(const char *folder, content *c)
{
    DIR *open = opendir(folder);
    if (open == NULL)
        return weft_fail(WEFT_IO, "%s: open folder: %s", folder, strerror(errno));
    bool memory = true;
    for (struct dirent *e = readdir(open); e != NULL && memory; e = readdir(open)) {
        struct stat what;
        char *path = e->d_name[0] != '.' ? weft_format("%s/%s", folder, e->d_name) : NULL;
        memory = path != NULL || e->d_name[0] == '.';
        if (path != NULL && stat(path, &what) == 0)
            memory = note(c, e->d_name, &what);
        weft_free(path);
    }
    closedir(open);
    return memory ? WEFT_OK : weft__out_of_memory(folder, "looking for models");
}

static void content_free(content *c)
{
    for (int i = 0; i < c->n_folders; i++)
        weft_free(c->folders[i]);
    weft_free(c->folders);
    weft_free(c->gguf);
}

/* Whether the folder is one of its own ancestors, reached through a symbolic link. */
static bool is_above(const search *s, const struct stat *what)
{
    for (int i = 0; i < s->depth; i++) {
        if (s->above[i].st_dev == what->st_dev && s->above[i].st_ino == what->st_ino)
            return true;
    }
    return false;
}

static weft_status look(search *s, const char *folder, int deeper)
{
    content c = {0};
    struct stat *here = &s->above[s->depth];
    if (stat(folder, here) != 0)
        return weft_fail(WEFT_IO, "%s: %s", folder, strerror(errno));
    if (is_above(s, here))
        return WEFT_OK;
    weft_status status = read_folder(folder, &c);
    if (status == WEFT_OK)
        status = add(s, folder, &c);
    s->depth++;
    for (int i = 0; i < c.n_folders && status == WEFT_OK && deeper > 0; i++) {
        char *inner = weft_format("%s/%s", folder, c.folders[i]);
        status = inner != NULL ? look(s, inner, deeper - 1)
                               : weft__out_of_memory(folder, "looking for models");
        if (status == WEFT_IO)
            status = WEFT_OK; /* unreadable folders are skipped */
        weft_free(inner);
    }
    s->depth--;
    content_free(&c);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const weft_discovered *)a)->path, ((const weft_discovered *)b)->path);
}

weft_status weft_discover(const char *folder, int depth, weft_discovered **list, int *count)
{
    *list = NULL;
    *count = 0;
    if (depth > DEEPEST)
        return weft_fail(WEFT_INVALID, "%s: depth: expected at most %d, got %d", folder, DEEPEST,
                         depth);
    search *s = weft_calloc(1, sizeof *s);
    char *root = weft_strdup(folder);
    weft_status status =
        s != NULL && root != NULL ? WEFT_OK : weft__out_of_memory(folder, "looking for models");
    for (size_t n = root != NULL ? strlen(root) : 0; n > 1 && root[n - 1] == '/'; n--)
        root[n - 1] = '\0';
    if (status == WEFT_OK)
        status = look(s, root, (int)weft__count_or_default(depth, DEPTH));
    if (status == WEFT_OK) {
        if (s->n > 0)
            qsort(s->list, (size_t)s->n, sizeof *s->list, by_path);
        *list = s->list;
        *count = s->n;
    } else if (s != NULL) {
        weft_discovered_free(s->list, s->n);
    }
    weft_free(root);
    weft_free(s);
    return status;
}

void weft_discovered_free(weft_discovered *list, int count)
{
    for (int i = 0; i < count; i++) {
        weft_free(list[i].path);
        weft_free(list[i].model_type);
    }
    weft_free(list);
}
