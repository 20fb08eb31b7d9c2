/* models/chat/gguf.c -- the chat templates and special tokens in the metadata of a GGUF file. */
#include <stdio.h>
#include <string.h>

#include "models/chat/chat.h"
#include "models/gguf.h"
#include "weft/memory.h"

static weft_status no_memory(const weft_gguf *file)
{
    return weft_fail(WEFT_MEMORY, "%s: no memory", weft_gguf_path(file));
}

/* tokenizer.chat_template is the default one; others are tokenizer.chat_template.NAME. */
static weft_status add_templates(weft_chat *chat, const weft_gguf *file)
{
    static const char key[] = "tokenizer.chat_template";
    const size_t size = sizeof key - 1;
    weft_status status = WEFT_OK;
    for (int i = 0; i < weft_gguf_value_count(file) && !status; i++) {
        const weft_gguf_value *value = weft_gguf_value_at(file, i);
        const char *rest = value->key + size;
        weft_gguf_string source;
        if (strncmp(value->key, key, size) != 0 || (*rest && *rest != '.'))
            continue;
        if (!weft_gguf_value_string(value, 0, &source))
            return weft_fail(WEFT_INVALID, "%s: %s: expected a string", weft_gguf_path(file),
                             value->key);
        status = weft__chat_add(chat, *rest ? rest + 1 : "default", weft_gguf_path(file), source.at,
                                source.n);
    }
    return status;
}

/* The text of the token whose id is under tokenizer.ggml.NAME_token_id, as `role`_token. */
static weft_status add_token(weft_chat *chat, const weft_gguf *file, const char *name,
                             const char *role)
{
    char key[64];
    int64_t id;
    weft_gguf_string text;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    const weft_gguf_value *number = weft_gguf_value_find(file, key);
    const weft_gguf_value *tokens = weft_gguf_value_find(file, "tokenizer.ggml.tokens");
    if (!number || !tokens || !weft_gguf_value_int(number, 0, &id) ||
        !weft_gguf_value_string(tokens, id, &text))
        return WEFT_OK;
    snprintf(key, sizeof key, "%s_token", role);
    json_object *value = json_object_new_string_len(text.at, (int)text.n);
    if (value && json_object_object_add(chat->tokens, key, value) == 0)
        return WEFT_OK;
    json_object_put(value);
    return no_memory(file);
}

static weft_status add_builtin(weft_chat *chat, const weft_gguf *file)
{
    weft_config *config = NULL;
    weft_status status = weft__gguf_config(file, &config);
    const char *type = status ? NULL : weft_config_string(config, "model_type", NULL);
    const char *source = type ? weft__chat_format(type, NULL) : NULL;
    if (source)
        status = weft__chat_add(chat, "default", "built-in chat format", source, strlen(source));
    weft_config_free(config);
    return status;
}

weft_status weft__chat_add_gguf(weft_chat *chat, const char *path)
{
    static const char *const tokens[][2] = {
        {"bos", "bos"}, {"eos", "eos"}, {"padding", "pad"}, {"unknown", "unk"}};
    char *name = NULL;
    weft_gguf *file = NULL;
    weft_status status = weft__gguf_find(path, &name);
    if (!status && name)
        status = weft_gguf_open(name, &file);
    if (file) {
        status = add_templates(chat, file);
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens && !status; i++)
            status = add_token(chat, file, tokens[i][0], tokens[i][1]);
        if (!status && chat->count == 0)
            status = add_builtin(chat, file);
    }
    weft_gguf_close(file);
    weft_free(name);
    return status;
}
