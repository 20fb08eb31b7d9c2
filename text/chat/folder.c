/* text/chat/folder.c -- reads the chat templates and special tokens of a checkpoint from its folder
 * or its GGUF file. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/linkhash.h>

#include "core/failure.h"
#include "text/chat/chat.h"
#include "text/gguf/gguf.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { MAX_TEMPLATE_BYTES = 16 << 20 };

static bool exists(const char *path)
{
    return path && access(path, F_OK) == 0;
}

static weft_status add_file(weft_chat *chat, const char *name, const char *path)
{
    char *text = NULL;
    size_t length = 0;
    weft_status status = weft_file_read(path, MAX_TEMPLATE_BYTES, &text, &length);
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

/* "chat_template": a string, or a list of {"name", "template"}. */
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

/* Members whose name ends in "_token": a string, or an object with "content"; and those of
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

/* Reads a JSON file of the folder, if it exists: tokens and, unless there are already some,
 * templates. */
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

static weft_status add_gguf(weft_chat *chat, const char *path)
{
    weft_gguf *file;
    weft_status status = weft_gguf_open(path, &file);
    if (status)
        return status;
    status = weft__gguf_chat(file, chat);
    weft_gguf_close(file);
    return status;
}

weft_status weft__chat_templates(const char *folder, const char *gguf, weft_chat **out)
{
    const char *where = gguf ? gguf : folder;
    *out = weft__chat_new(where);
    weft_status status = *out ? WEFT_OK : weft__out_of_memory(where, NULL);
    if (!status)
        status = gguf ? add_gguf(*out, gguf) : add_files(*out, folder);
    if (status) {
        weft_chat_free(*out);
        *out = NULL;
    }
    return status;
}
