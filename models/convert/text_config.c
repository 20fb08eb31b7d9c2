/* models/convert/text_config.c -- the configuration of a multimodal model's text model. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "models/convert/convert.h"

/* Text models by the multimodal model_type or their own, and their classes in transformers. */
static const struct {
    const char *types[2]; /* of the multimodal model and of the text model */
    const char *class_name;
} texts[] = {
    {{"gemma3", "gemma3_text"}, "Gemma3ForCausalLM"},
    {{"gemma4", "gemma4_text"}, "Gemma4ForCausalLM"},
    {{"gemma4_unified", "gemma4_unified_text"}, "Gemma4UnifiedForCausalLM"},
    {{"qwen3_5", "qwen3_5_text"}, "Qwen3_5ForCausalLM"},
    {{"qwen3_5_moe", "qwen3_5_moe_text"}, "Qwen3_5MoeForCausalLM"},
    {{"mistral3", "mistral"}, "MistralForCausalLM"},
    {{NULL, "ministral3"}, "Ministral3ForCausalLM"},
};

static int find_text(const json_object *holder, int which)
{
    json_object *type;
    if (!json_object_object_get_ex(holder, "model_type", &type))
        return -1;
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
        const char *name = texts[i].types[which];
        if (name && strcmp(json_object_get_string(type), name) == 0)
            return i;
    }
    return -1;
}

/* Copies members that the text model's own configuration does not have. */
static bool copy_members(json_object *root, json_object *text)
{
    static const char *const names[] = {"dtype",        "torch_dtype",  "bos_token_id",
                                        "eos_token_id", "pad_token_id", "vocab_size",
                                        "quantization"};
    bool copied = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_object *member = NULL;
        if (!json_object_object_get_ex(text, names[i], NULL) &&
            json_object_object_get_ex(root, names[i], &member))
            copied &= json_object_object_add(text, names[i], json_object_get(member)) == 0;
    }
    return copied;
}

/* Adds a member, which it takes ownership of. */
static bool add(json_object *text, const char *name, json_object *value)
{
    const bool added = value && json_object_object_add(text, name, value) == 0;
    if (!added)
        json_object_put(value);
    return added;
}

weft_status weft__text_config(weft_model *model, json_object **root)
{
    const weft_config *config = weft_model_config(model);
    json_object *text = json_object_object_get(*root, "text_config");
    json_object *classes = json_object_new_array();
    int i = find_text(text, 1);
    i = i >= 0 ? i : find_text(*root, 0);
    if (i < 0) {
        json_object_put(classes);
        return weft_fail(WEFT_UNSUPPORTED, "%s: the text model of %s alone is unsupported",
                         weft_config_where(config),
                         weft_printable(weft_config_string(config, "model_type", "")));
    }
    bool fine = copy_members(*root, text) && add(text, "architectures", classes);
    json_object *name = fine ? json_object_new_string(texts[i].class_name) : NULL;
    fine = fine && name && json_object_array_add(classes, name) == 0 &&
           add(text, "model_type", json_object_new_string(texts[i].types[1])) &&
           add(text, "tie_word_embeddings", json_object_new_boolean(weft__model_is_tied(model)));
    if (!fine)
        return weft__out_of_memory(weft_config_where(config), NULL);
    json_object_get(text);
    json_object_put(*root);
    *root = text;
    return WEFT_OK;
}
