/* models/chat.c -- loads the chat templates of a checkpoint, or the built-in format of its family.
 */
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "models/gguf/gguf.h"
#include "text/chat/chat.h"
#include "weft/memory.h"

/* Adds the built-in format for the model_type of the configuration, which may be NULL. MiniCPM 5
 * has the model_type llama and is recognized by its vocabulary size. */
static weft_status add_builtin(weft_chat *chat, const weft_config *config)
{
    enum { MINICPM5_VOCABULARY = 130560 };
    const char *type = config ? weft_config_string(config, "model_type", NULL) : NULL;
    if (type && strcmp(type, "llama") == 0 &&
        weft_config_int(config, "vocab_size", 0) == MINICPM5_VOCABULARY)
        type = "minicpm5";
    const char *source = type ? weft__chat_format(type, NULL) : NULL;
    if (source)
        return weft__chat_add(chat, "default", "built-in chat format", source, strlen(source));
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: expected a chat template (chat_template.jinja, or one in "
                     "tokenizer_config.json or in a GGUF file's metadata), or a model with a "
                     "built-in chat format",
                     chat->where);
}

/* *out stays NULL if the folder has no config.json. */
static weft_status read_folder_config(const char *folder, weft_config **out)
{
    char *path = weft_format("%s/config.json", folder);
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, NULL);
    if (!status && access(path, F_OK) == 0)
        status = weft_config_load(path, out);
    weft_free(path);
    return status;
}

static weft_status read_gguf_config(const char *path, weft_config **out)
{
    weft_gguf *file;
    weft_status status = weft_gguf_open(path, &file);
    if (status)
        return status;
    status = weft__gguf_config(file, out);
    weft_gguf_close(file);
    return status;
}

weft_status weft_chat_load(const char *path, weft_chat **out)
{
    weft_chat *chat = NULL;
    weft_config *config = NULL;
    char *gguf;
    *out = NULL;
    weft_status status = weft__gguf_find(path, &gguf);
    if (!status)
        status = weft__chat_templates(path, gguf, &chat);
    if (!status && chat->count == 0) {
        status = gguf ? read_gguf_config(gguf, &config) : read_folder_config(path, &config);
        if (!status)
            status = add_builtin(chat, config);
    }
    weft_config_free(config);
    weft_free(gguf);
    if (status)
        weft_chat_free(chat);
    else
        *out = chat;
    return status;
}
