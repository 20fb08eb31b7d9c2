/* models/convert/folder.c -- begins the folder of a conversion, copies tokenizer and chat files. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "models/convert/convert.h"
#include "weft/memory.h"

static bool holds(const char *folder, const char *name)
{
    char *path = weft_format("%s/%s", folder, name);
    const bool has = path && weft__exists(path);
    weft_free(path);
    return has;
}

/* Whether the folder looks like the output of a conversion, and not like a run of weft train. */
static bool holds_model(const char *folder)
{
    return holds(folder, "config.json") && !holds(folder, "run.json");
}

/* Fails if `out` exists and must not be replaced. An empty folder may be replaced; a folder with
 * other contents is probably a mistake, since all its files would be lost. */
static weft_status check_place(const char *out, bool replace)
{
    struct stat info;
    if (stat(out, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return weft_fail(WEFT_INVALID, "%s: not a regular file", out);
    if (!weft__exists(out) || rmdir(out) == 0)
        return WEFT_OK;
    const bool folder = errno != ENOTDIR;
    if (!replace)
        return weft_fail(WEFT_INVALID, "%s: is there already", out);
    return folder && !holds_model(out)
               ? weft_fail(WEFT_INVALID, "%s: only the folders of models are replaced", out)
               : WEFT_OK;
}

weft_status weft__folder_begin(const char *out, bool replace, weft__folder *f)
{
    *f = (weft__folder){.path = NULL};
    const weft_status status = check_place(out, replace);
    return status == WEFT_OK ? weft__folder_open_beside(out, f) : status;
}

/* ---- tokenizer and chat files ---------------------------------------------------------------- */

/* Copies a file, unless it is missing or already there. */
static weft_status copy(const char *from, const char *to, const char *name)
{
    char *source = weft_format("%s/%s", from, name), *target = weft_format("%s/%s", to, name);
    char *data = NULL;
    size_t size = 0;
    weft_status status = source && target ? WEFT_OK : weft__out_of_memory(from, NULL);
    if (status == WEFT_OK && weft__exists(source) && strcmp(source, target) != 0) {
        status = weft_file_read(source, 0, &data, &size);
        if (status == WEFT_OK)
            status = weft_file_write(target, data, size);
    }
    weft_free(data);
    weft_free(source);
    weft_free(target);
    return status;
}

/* The same, but removes a file or folder at `to` that `from` does not have. */
static weft_status mirror(const char *from, const char *to, const char *name)
{
    char *source = weft_format("%s/%s", from, name), *target = weft_format("%s/%s", to, name);
    weft_status status = source && target ? WEFT_OK : weft__out_of_memory(from, NULL);
    const bool stale =
        status == WEFT_OK && !weft__exists(source) && weft__exists(from) && weft__exists(target);
    if (stale)
        status = weft__folder_remove(target);
    weft_free(source);
    weft_free(target);
    return status == WEFT_OK && !stale ? copy(from, to, name) : status;
}

static weft_status copy_templates(const char *from, const char *to)
{
    static const char name[] = "additional_chat_templates";
    char *source = weft_format("%s/%s", from, name), *target = weft_format("%s/%s", to, name);
    weft_status status = source && target ? WEFT_OK : weft__out_of_memory(from, NULL);
    DIR *folder = status == WEFT_OK ? opendir(source) : NULL;
    if (folder)
        status = weft_folder_make(target);
    for (struct dirent *e; folder && status == WEFT_OK && (e = readdir(folder)) != NULL;) {
        const size_t n = strlen(e->d_name);
        if (n > 6 && strcmp(e->d_name + n - 6, ".jinja") == 0)
            status = copy(source, target, e->d_name);
    }
    if (folder)
        closedir(folder);
    weft_free(source);
    weft_free(target);
    return status;
}

/* The files of sentence-transformers in the folders "1_Pooling", "2_Dense", "3_Normalize". */
static weft_status copy_modules(const char *from, const char *to)
{
    DIR *folder = opendir(from);
    weft_status status = WEFT_OK;
    for (struct dirent *e; folder && status == WEFT_OK && (e = readdir(folder)) != NULL;) {
        if (fnmatch("[0-9]_*", e->d_name, 0) != 0)
            continue;
        char *source = weft_format("%s/%s", from, e->d_name);
        char *target = weft_format("%s/%s", to, e->d_name);
        status = source && target ? WEFT_OK : weft__out_of_memory(from, NULL);
        if (status == WEFT_OK && holds(source, "config.json")) {
            status = weft_folder_make(target);
            if (status == WEFT_OK)
                status = copy(source, target, "config.json");
            if (status == WEFT_OK)
                status = copy(source, target, "model.safetensors");
        }
        weft_free(source);
        weft_free(target);
    }
    if (folder)
        closedir(folder);
    return status;
}

weft_status weft__embed_files_copy(const char *from, const char *to)
{
    static const char *const names[] = {"modules.json", "sentence_bert_config.json",
                                        "config_sentence_transformers.json"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == WEFT_OK; i++)
        status = copy(from, to, names[i]);
    return status == WEFT_OK ? copy_modules(from, to) : status;
}

weft_status weft__text_files_copy(const char *from, const char *to, bool tokenizer)
{
    static const char *const names[] = {
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < (tokenizer ? sizeof names / sizeof *names : 1) && status == WEFT_OK; i++)
        status = copy(from, to, names[i]);
    if (status == WEFT_OK && tokenizer)
        status = weft__embed_files_copy(from, to);
    return status == WEFT_OK && tokenizer ? copy_templates(from, to) : status;
}

weft_status weft__processor_files_copy(const char *from, const char *to)
{
    static const char *const names[] = {"preprocessor_config.json", "processor_config.json",
                                        "video_preprocessor_config.json"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == WEFT_OK; i++)
        status = copy(from, to, names[i]);
    return status;
}

weft_status weft_tokenizer_copy(const char *from, const char *to)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "chat_template.jinja",
                                        "chat_template.json"};
    char *gguf = NULL;
    weft_status status = weft__gguf_find(from, &gguf);
    if (status == WEFT_OK && gguf)
        status = weft__text_files_make(gguf, to);
    for (size_t i = 0; status == WEFT_OK && !gguf && i < sizeof names / sizeof *names; i++)
        status = mirror(from, to, names[i]);
    if (status == WEFT_OK && !gguf)
        status = copy_templates(from, to);
    if (status == WEFT_OK && !gguf)
        status = weft__processor_files_copy(from, to);
    weft_free(gguf);
    return status;
}
