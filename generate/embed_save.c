/* generate/embed_save.c -- writes how a model makes embeddings, as sentence-transformers reads it:
 * its modules, its longest text and its prompts. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "weft/batch.h"

/* Writes a file of the folder. */
static weft_status write_file(const char *folder, const char *name, const weft__text *t)
{
    char *path = weft_format("%s/%s", folder, name);
    const weft_status status = path == NULL || t->failed ? weft__out_of_memory(folder, name)
                                                         : weft_file_write(path, t->at, t->n);
    weft_free(path);
    return status;
}

static void put_module(weft__text *t, int i, const char *path, const char *type)
{
    weft__text_format(t,
                      "%s  {\n    \"idx\": %d,\n    \"name\": \"%d\",\n    \"path\": \"%s\",\n"
                      "    \"type\": \"sentence_transformers.models.%s\"\n  }",
                      i > 0 ? ",\n" : "[\n", i, i, path, type);
}

static weft_status write_modules(const weft_embed_settings *s, const char *folder)
{
    weft__text t = {0};
    put_module(&t, 0, "", "Transformer");
    put_module(&t, 1, "1_Pooling", "Pooling");
    if (s->normalize)
        put_module(&t, 2, "2_Normalize", "Normalize");
    weft__text_format(&t, "\n]\n");
    const weft_status status = write_file(folder, "modules.json", &t);
    weft_free(t.at);
    return status;
}

static weft_status write_pooling(const weft_embed_settings *s, int64_t dimension,
                                 const char *folder)
{
    static const struct {
        weft_pooling pooling;
        const char *key;
    } keys[] = {
        {WEFT_POOLING_CLS, "pooling_mode_cls_token"},
        {WEFT_POOLING_MEAN, "pooling_mode_mean_tokens"},
        {WEFT_POOLING_MAX, "pooling_mode_max_tokens"},
        {WEFT_POOLING_LAST, "pooling_mode_lasttoken"},
    };
    char *inner = weft_format("%s/1_Pooling", folder);
    weft_status status = inner ? weft_folder_make(inner) : weft__out_of_memory(folder, NULL);
    weft__text t = {0};
    weft__text_format(&t, "{\n  \"word_embedding_dimension\": %lld", (long long)dimension);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        weft__text_format(&t, ",\n  \"%s\": %s", keys[i].key,
                          keys[i].pooling == s->pooling ? "true" : "false");
    weft__text_format(&t, "\n}\n");
    if (status == WEFT_OK)
        status = write_file(inner, "config.json", &t);
    weft_free(inner);
    weft_free(t.at);
    return status;
}

/* Changes the object of a file, which may be there already. */
static weft_status change_file(const weft_embed_settings *s, const char *folder, const char *name,
                               bool (*change)(const weft_embed_settings *s, json_object *root))
{
    char *path = weft_format("%s/%s", folder, name);
    weft__json_doc doc = {0};
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, name);
    if (status == WEFT_OK && weft__exists(path))
        status = weft__json_read(path, &doc);
    json_object *root = doc.root ? json_object_get(doc.root) : json_object_new_object();
    const char *text = status == WEFT_OK && change(s, root)
                           ? json_object_to_json_string_ext(
                                 root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                           JSON_C_TO_STRING_NOSLASHESCAPE)
                           : NULL;
    if (status == WEFT_OK)
        status =
            text ? weft_file_write(path, text, strlen(text)) : weft__out_of_memory(folder, name);
    json_object_put(root);
    weft__json_free(&doc);
    weft_free(path);
    return status;
}

static bool put_length(const weft_embed_settings *s, json_object *root)
{
    return json_object_object_add(root, "max_seq_length", json_object_new_int64(s->max_tokens)) ==
               0 &&
           (json_object_object_get_ex(root, "do_lower_case", NULL) ||
            json_object_object_add(root, "do_lower_case", json_object_new_boolean(false)) == 0);
}

static weft_status write_length(const weft_embed_settings *s, const char *folder)
{
    return s->max_tokens > 0 && (s->chosen_length || !s->found)
               ? change_file(s, folder, "sentence_bert_config.json", put_length)
               : WEFT_OK;
}

static bool put_prompt(json_object *prompts, const char *name, const char *text)
{
    return text == NULL || json_object_object_add(prompts, name, json_object_new_string(text)) == 0;
}

static bool put_prompts(const weft_embed_settings *s, json_object *root)
{
    json_object *prompts = json_object_object_get(root, "prompts");
    if (!json_object_is_type(prompts, json_type_object)) {
        prompts = json_object_new_object();
        json_object_object_add(root, "prompts", prompts);
    }
    return put_prompt(prompts, "query", s->query_prompt) &&
           put_prompt(prompts, "document", s->passage_prompt);
}

static weft_status write_prompts(const weft_embed_settings *s, const char *folder)
{
    return s->query_prompt || s->passage_prompt
               ? change_file(s, folder, "config_sentence_transformers.json", put_prompts)
               : WEFT_OK;
}

weft_status weft_embed_settings_save(const weft_embed_settings *settings, int64_t dimension,
                                     const char *folder)
{
    weft_status status;
    if (settings->found) {
        status = weft__embed_files_copy(settings->folder, folder);
    } else {
        status = write_modules(settings, folder);
        if (status == WEFT_OK)
            status = write_pooling(settings, dimension, folder);
    }
    if (status == WEFT_OK)
        status = write_length(settings, folder);
    return status == WEFT_OK ? write_prompts(settings, folder) : status;
}
