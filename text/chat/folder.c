/* text/chat/folder.c -- finds the chat templates and special tokens of a checkpoint: in the files
 * of its folder, or in its GGUF file. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/linkhash.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "models/gguf/gguf.h"
#include "text/chat/chat.h"
#include "weft/memory.h"
#include "weft/model.h"

enum { MAX_TEMPLATE_BYTES = 16 << 20 };

static bool exists(const char *path)
{
    return path && access(path, F_OK) == 0;
}

static weft_status read_file(const char *path, char **text, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return weft_fail(WEFT_IO, "%s: open: %s", path, strerror(errno));
    size_t capacity = 1 << 14, n = 0;
    weft_status status = WEFT_OK;
    char *data = weft_malloc(capacity);
    while (data && !status) {
        n += fread(data + n, 1, capacity - n, file);
        if (n < capacity)
            break;
        char *larger = capacity < MAX_TEMPLATE_BYTES ? weft_realloc(data, 2 * capacity) : NULL;
        if (!larger)
            status = weft_fail(WEFT_INVALID, "%s: expected a template below %d bytes", path,
                               MAX_TEMPLATE_BYTES);
        else
            data = larger;
        capacity *= 2;
    }
    if (!data)
        status = weft__out_of_memory(path, NULL);
    else if (!status && ferror(file))
        status = weft_fail(WEFT_IO, "%s: read: %s", path, strerror(errno));
    fclose(file);
    if (status)
        weft_free(data);
    else
        *text = data;
    *length = n;
    return status;
}

static weft_status add_file(weft_chat *chat, const char *name, const char *path)
{
    char *text = NULL;
    size_t length = 0;
    weft_status status = read_file(path, &text, &length);
    if (status)
        return status;
    status = weft__chat_add(chat, name, path, text, length);
    weft_free(text);
    return status;
}

/* additional_chat_templates/NAME.jinja */
static weft_status add_further(weft_chat *chat, const char *folder)
{
    char *path = weft_format("%s/additional_chat_templates", folder);
    DIR *directory = path ? opendir(path) : NULL;
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, NULL);
    for (const struct dirent *entry; directory && !status && (entry = readdir(directory));) {
        const size_t n = strlen(entry->d_name);
        if (n <= 6 || strcmp(entry->d_name + n - 6, ".jinja") != 0)
            continue;
        char *file = weft_format("%s/%s", path, entry->d_name);
        char *name = weft_strdup(entry->d_name);
        if (name)
            name[n - 6] = '\0';
        status = file && name ? add_file(chat, name, file) : weft__out_of_memory(folder, NULL);
        weft_free(file);
        weft_free(name);
    }
    if (directory)
        closedir(directory);
    weft_free(path);
    return status;
}

/* "chat_template": a text, or a list of {"name", "template"}. */
static weft_status add_from_json(weft_chat *chat, const weft__json *root)
{
    weft__json at, item, source;
    size_t count = 0, length = 0;
    const char *text = NULL, *name = NULL;
    weft_status status = weft__json_find(root, "chat_template", &at);
    if (status || !at.value)
        return status;
    if (json_object_is_type(at.value, json_type_string)) {
        status = weft__json_as_string(&at, &text, &length);
        return status ? status : weft__chat_add(chat, "default", root->name, text, length);
    }
    status = weft__json_length(&at, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&at, i, &item);
        if (!status)
            status = weft__json_get_string(&item, "name", &name);
        if (!status)
            status = weft__json_get(&item, "template", &source);
        if (!status)
            status = weft__json_as_string(&source, &text, &length);
        if (!status)
            status = weft__chat_add(chat, name, root->name, text, length);
    }
    return status;
}

/* Members that end in "_token": a text, or an object with its "content"; and those of
 * "extra_special_tokens", if that is an object. */
static weft_status add_tokens(weft_chat *chat, json_object *object)
{
    weft_status status = WEFT_OK;
    if (!json_object_is_type(object, json_type_object))
        return WEFT_OK;
    json_object_object_foreach(object, key, value)
    {
        const size_t n = strlen(key);
        if (status || n < 6 || strcmp(key + n - 6, "_token") != 0)
            continue;
        if (json_object_is_type(value, json_type_object))
            value = json_object_object_get(value, "content");
        if (!json_object_is_type(value, json_type_string))
            continue;
        if (json_object_object_add(chat->tokens, key, json_object_get(value)))
            status = weft__out_of_memory(chat->where, NULL);
    }
    return status;
}

/* Reads a JSON file of the folder, if it is there: tokens, and templates unless there are some. */
static weft_status add_json(weft_chat *chat, const char *folder, const char *file, bool tokens,
                            bool templates)
{
    weft__json_doc doc = {0};
    char *path = weft_format("%s/%s", folder, file);
    if (!exists(path)) {
        const bool fine = path != NULL;
        weft_free(path);
        return fine ? WEFT_OK : weft__out_of_memory(folder, NULL);
    }
    weft_status status = weft__json_read(path, &doc);
    if (!status) {
        const weft__json root = weft__json_root(&doc);
        if (templates && chat->count == 0)
            status = add_from_json(chat, &root);
        if (!status && tokens)
            status = add_tokens(chat, root.value);
        if (!status && tokens)
            status = add_tokens(chat, json_object_object_get(root.value, "extra_special_tokens"));
    }
    weft__json_free(&doc);
    weft_free(path);
    return status;
}

/* The built-in format of a model_type; NULL: there is none to look up. */
static weft_status add_builtin(weft_chat *chat, const char *model_type)
{
    const char *source = model_type ? weft__chat_format(model_type, NULL) : NULL;
    if (source)
        return weft__chat_add(chat, "default", "built-in chat format", source, strlen(source));
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: expected a chat template (chat_template.jinja, or one in "
                     "tokenizer_config.json or in a GGUF file's metadata), or a model with a "
                     "built-in chat format",
                     chat->where);
}

/* What the configuration, given or NULL, says. MiniCPM 5 is a llama by its model_type; only its
 * vocabulary is its own. */
static weft_status add_by_config(weft_chat *chat, const weft_config *config)
{
    enum { MINICPM5_VOCABULARY = 130560 };
    const char *type = config ? weft_config_string(config, "model_type", NULL) : NULL;
    if (type && strcmp(type, "llama") == 0 &&
        weft_config_int(config, "vocab_size", 0) == MINICPM5_VOCABULARY)
        type = "minicpm5";
    return add_builtin(chat, type);
}

static weft_status add_folder_builtin(weft_chat *chat, const char *folder)
{
    weft_config *config = NULL;
    char *path = weft_format("%s/config.json", folder);
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, NULL);
    if (!status && exists(path))
        status = weft_config_load(path, &config);
    if (!status)
        status = add_by_config(chat, config);
    weft_config_free(config);
    weft_free(path);
    return status;
}

static weft_status add_files(weft_chat *chat, const char *folder)
{
    char *file = weft_format("%s/chat_template.jinja", folder);
    weft_status status = file ? WEFT_OK : weft__out_of_memory(folder, NULL);
    if (!status && exists(file)) {
        status = add_file(chat, "default", file);
        if (!status)
            status = add_further(chat, folder);
    }
    if (!status)
        status = add_json(chat, folder, "special_tokens_map.json", true, false);
    if (!status)
        status = add_json(chat, folder, "tokenizer_config.json", true, true);
    if (!status)
        status = add_json(chat, folder, "chat_template.json", false, true);
    weft_free(file);
    return status;
}

/* All of a GGUF file. */
static weft_status add_gguf(weft_chat *chat, const char *path)
{
    weft_gguf *file;
    weft_config *config = NULL;
    weft_status status = weft_gguf_open(path, &file);
    if (status)
        return status;
    status = weft__gguf_chat(file, chat);
    if (!status && chat->count == 0) {
        status = weft__gguf_config(file, &config);
        if (!status)
            status = add_by_config(chat, config);
    }
    weft_config_free(config);
    weft_gguf_close(file);
    return status;
}

weft_status weft__chat_templates(const char *folder, weft_chat **out)
{
    *out = weft__chat_new(folder);
    const weft_status status = *out ? add_files(*out, folder) : weft__out_of_memory(folder, NULL);
    if (status) {
        weft_chat_free(*out);
        *out = NULL;
    }
    return status;
}

weft_status weft_chat_load(const char *folder, weft_chat **out)
{
    *out = NULL;
    char *gguf;
    weft_status status = weft__gguf_find(folder, &gguf);
    if (status)
        return status;
    weft_chat *chat = weft__chat_new(gguf ? gguf : folder);
    status = chat ? WEFT_OK : weft__out_of_memory(folder, NULL);
    if (!status)
        status = gguf ? add_gguf(chat, gguf) : add_files(chat, folder);
    if (!status && chat->count == 0)
        status = add_folder_builtin(chat, folder);
    weft_free(gguf);
    if (status)
        weft_chat_free(chat);
    else
        *out = chat;
    return status;
}
