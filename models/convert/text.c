/* models/convert/text.c -- writes the tokenizer and chat files of a folder from a GGUF file's
 * metadata. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "text/chat/chat.h"
#include "text/gguf/gguf.h"
#include "weft/memory.h"

static weft_status write(const char *folder, const char *name, const char *text, size_t n)
{
    char *path = weft_format("%s/%s", folder, name);
    const weft_status status =
        path ? weft_file_write(path, text, n) : weft__out_of_memory(folder, NULL);
    weft_free(path);
    return status;
}

static weft_status write_tokenizer(const weft_gguf *file, const weft_tokenizer *tokenizer,
                                   const char *to)
{
    weft__text json = {0};
    weft_status status = weft__gguf_tokenizer_json(file, tokenizer, &json);
    if (status == WEFT_OK)
        status = write(to, "tokenizer.json", json.at, json.n);
    weft_free(json.at);
    return status;
}

static void put_token(weft__text *t, const weft_chat *chat, const char *key)
{
    json_object *token = json_object_object_get(chat->tokens, key);
    if (token == NULL)
        return;
    weft__text_format(t, ",\n  \"%s\": ", key);
    weft__text_quote_bytes(t, json_object_get_string(token),
                           (size_t)json_object_get_string_len(token));
}

static weft_status write_config(const weft_chat *chat, const char *to)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    weft__text t = {0};
    weft__text_format(&t, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                          "  \"clean_up_tokenization_spaces\": false");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_token(&t, chat, keys[i]);
    weft__text_format(&t, "\n}\n");
    const weft_status status =
        t.failed ? weft__out_of_memory(to, NULL) : write(to, "tokenizer_config.json", t.at, t.n);
    weft_free(t.at);
    return status;
}

static weft_status write_templates(const weft_chat *chat, const char *to)
{
    weft_status status = WEFT_OK;
    char *more = weft_format("%s/additional_chat_templates", to);
    if (more == NULL)
        return weft__out_of_memory(to, NULL);
    for (size_t i = 0; i < chat->count && status == WEFT_OK; i++) {
        const chat_template *c = &chat->templates[i];
        const size_t n = strlen(c->source);
        char name[256];
        if (strcmp(c->name, "default") == 0) {
            status = write(to, "chat_template.jinja", c->source, n);
            continue;
        }
        if (strchr(c->name, '/') || snprintf(name, sizeof name, "%s.jinja", c->name) >= 256)
            status = weft_fail(WEFT_INVALID, "%s: chat template '%s': no name for a file",
                               chat->where, weft_printable(c->name));
        if (status == WEFT_OK)
            status = weft_folder_make(more);
        if (status == WEFT_OK)
            status = write(more, name, c->source, n);
    }
    weft_free(more);
    return status;
}

weft_status weft__chat_files_make(const weft_chat *chat, const char *to)
{
    char *config = weft_format("%s/tokenizer_config.json", to);
    weft_status status = config ? WEFT_OK : weft__out_of_memory(to, NULL);
    if (status == WEFT_OK && !weft__exists(config))
        status = write_config(chat, to);
    weft_free(config);
    return status == WEFT_OK ? write_templates(chat, to) : status;
}

weft_status weft__text_files_make(const char *gguf, const char *to)
{
    weft_gguf *file;
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    weft_status status = weft_gguf_open(gguf, &file);
    if (status != WEFT_OK)
        return status;
    status = weft_tokenizer_load(gguf, &tokenizer);
    if (status == WEFT_OK && (chat = weft__chat_new(gguf)) == NULL)
        status = weft__out_of_memory(gguf, NULL);
    if (status == WEFT_OK)
        status = weft__gguf_chat(file, chat);
    if (status == WEFT_OK)
        status = write_tokenizer(file, tokenizer, to);
    if (status == WEFT_OK)
        status = weft__chat_files_make(chat, to);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
    weft_gguf_close(file);
    return status;
}
