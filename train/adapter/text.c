/* train/adapter/text.c -- the tokenizer and the chat templates in an adapter's folder. */
#include <string.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "models/convert/convert.h"
#include "models/generation.h"
#include "text/chat/chat.h"
#include "train/adapter/adapter.h"

/* ---- the folders of a list ------------------------------------------------------------------ */

/* Called for each adapter in "PATH" or "PATH:WEIGHT,..." until it sets *found or fails. `out` is
 * where a model is written, or NULL. */
typedef weft_status folder_fn(const char *folder, const char *out, void **found);

static weft_status first_of_list(char *list, folder_fn *look, const char *out, void **found)
{
    weft_status status = WEFT_OK;
    char *rest = NULL;
    for (char *at = strtok_r(list, ",", &rest); at && status == WEFT_OK && *found == NULL;
         at = strtok_r(NULL, ",", &rest)) {
        char *colon = weft__exists(at) ? NULL : strrchr(at, ':');
        if (colon)
            *colon = '\0';
        status = look(at, out, found);
    }
    return status;
}

static weft_status first_of(const char *adapters, folder_fn *look, const char *out, void **found)
{
    *found = NULL;
    if (adapters == NULL)
        return WEFT_OK;
    if (weft__exists(adapters))
        return look(adapters, out, found);
    char *list = weft_strdup(adapters);
    if (list == NULL)
        return weft__out_of_memory(adapters, "its tokenizer");
    const weft_status status = first_of_list(list, look, out, found);
    weft_free(list);
    return status;
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

/* Sets *found to the folder if it has a tokenizer. */
static weft_status find_tokenizer(const char *folder, const char *out, void **found)
{
    (void)out;
    char *name = weft_format("%s/tokenizer.json", folder);
    if (name == NULL)
        return weft__out_of_memory(folder, "its tokenizer");
    const bool there = weft__exists(name);
    weft_free(name);
    if (there && (*found = weft_strdup(folder)) == NULL)
        return weft__out_of_memory(folder, "its tokenizer");
    return WEFT_OK;
}

weft_status weft_adapter_tokenizer_path(const char *model, const char *adapters, char **out)
{
    void *folder;
    weft_status status = first_of(adapters, find_tokenizer, NULL, &folder);
    *out = folder;
    if (status == WEFT_OK && *out == NULL && (*out = weft_strdup(model)) == NULL)
        status = weft__out_of_memory(model, "its tokenizer");
    return status;
}

weft_status weft_adapter_tokenizer(const char *model, const char *adapters, weft_tokenizer **out)
{
    char *path;
    *out = NULL;
    weft_status status = weft_adapter_tokenizer_path(model, adapters, &path);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, out);
    weft_free(path);
    return status;
}

weft_status weft__adapter_add_eos(weft_model *model, const char *folder)
{
    void *found = NULL;
    weft_tokenizer *tokenizer;
    weft_status status = find_tokenizer(folder, NULL, &found);
    if (status != WEFT_OK || found == NULL)
        return status;
    /* A malformed tokenizer is reported when text is tokenized. */
    if (weft_tokenizer_load(folder, &tokenizer) == WEFT_OK) {
        status = weft__model_add_eos(model, weft_tokenizer_eos(tokenizer));
        weft_tokenizer_free(tokenizer);
    }
    weft_free(found);
    return status;
}

/* ---- chat templates ------------------------------------------------------------------------- */

/* Sets *found to the chat templates of the folder if it has any. */
static weft_status find_chat(const char *folder, const char *out, void **found)
{
    (void)out;
    weft_chat *chat;
    const weft_status status = weft__chat_templates(folder, NULL, &chat);
    if (status != WEFT_OK)
        return status;
    if (chat->count > 0)
        *found = chat;
    else
        weft_chat_free(chat);
    return WEFT_OK;
}

/* The chat templates, if any, and special tokens of a model's folder or GGUF file. */
static weft_status templates_of(const char *model, weft_chat **out)
{
    char *gguf;
    weft_status status = weft__gguf_find(model, &gguf);
    if (status == WEFT_OK)
        status = weft__chat_templates(model, gguf, out);
    weft_free(gguf);
    return status;
}

/* Sets the special tokens that templates use from a model's folder or GGUF file. */
static weft_status use_tokens_of(const char *model, weft_chat *chat)
{
    weft_chat *other = NULL;
    const weft_status status = templates_of(model, &other);
    if (status == WEFT_OK) {
        json_object_put(chat->tokens);
        chat->tokens = json_object_get(other->tokens);
    }
    weft_chat_free(other);
    return status;
}

weft_status weft_adapter_chat(const char *model, const char *adapters, weft_chat **out)
{
    void *found;
    *out = NULL;
    weft_status status = first_of(adapters, find_chat, NULL, &found);
    if (status != WEFT_OK || found == NULL)
        return status == WEFT_OK ? weft_chat_load(model, out) : status;
    weft_chat *chat = found;
    if (json_object_object_length(chat->tokens) == 0)
        status = use_tokens_of(model, chat);
    if (status == WEFT_OK)
        *out = chat;
    else
        weft_chat_free(chat);
    return status;
}

/* ---- the files of a merged model ------------------------------------------------------------ */

/* Replaces the chat templates in the folder. */
static weft_status replace_templates(const weft_chat *chat, const char *folder)
{
    static const char *const names[] = {"chat_template.jinja", "chat_template.json",
                                        "additional_chat_templates"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof names / sizeof *names; i++) {
        char *path = weft_format("%s/%s", folder, names[i]);
        if (path == NULL)
            status = weft__out_of_memory(folder, NULL);
        else if (weft__exists(path))
            status = weft__folder_remove(path);
        weft_free(path);
    }
    return status == WEFT_OK ? weft__chat_files_make(chat, folder) : status;
}

/* Makes a temporary folder beside `out` and writes the tokenizer of `from` and the templates. */
static weft_status write_text(const char *out, const char *from, const weft_chat *chat,
                              weft__folder *f)
{
    weft_status status = weft__folder_open_beside(out, f);
    if (status == WEFT_OK)
        status = weft_tokenizer_copy(from, f->path);
    if (status == WEFT_OK) /* how it makes embeddings */
        status = weft__embed_files_copy(from, f->path);
    return status == WEFT_OK ? replace_templates(chat, f->path) : status;
}

static weft_status check_output(const char *folder, const char *out, void **found)
{
    (void)found;
    return weft__check_output(out, folder);
}

weft_status weft__adapters_gather_text(const char *model, const char *adapters, const char *out,
                                       weft__folder *f)
{
    char *from = NULL;
    void *found = NULL;
    weft_chat *chat = NULL;
    *f = (weft__folder){.path = NULL};
    weft_status status = first_of(adapters, check_output, out, &found);
    if (status == WEFT_OK)
        status = weft__check_output(out, model);
    if (status == WEFT_OK)
        status = weft_adapter_tokenizer_path(model, adapters, &from);
    if (status == WEFT_OK)
        status = first_of(adapters, find_chat, NULL, &found);
    const bool own = status == WEFT_OK && (found || strcmp(from, model) != 0);
    chat = found;
    if (own && chat == NULL)
        status = templates_of(model, &chat);
    else if (own && json_object_object_length(chat->tokens) == 0)
        status = use_tokens_of(model, chat);
    if (own && status == WEFT_OK)
        status = write_text(out, from, chat, f);
    weft_chat_free(chat);
    weft_free(from);
    return status;
}
