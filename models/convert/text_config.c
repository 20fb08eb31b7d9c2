/* models/convert/text_config.c -- the configuration of a multimodal model's text model. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "models/convert/convert.h"
#include "models/family.h"

/* The family of a text model alone, by its own model_type or that of the multimodal model; NULL:
 * unknown. */
static const weft_model_family *find_text(const json_object *holder)
{
    json_object *type;
    const bool has = json_object_object_get_ex(holder, "model_type", &type) &&
                     json_object_is_type(type, json_type_string);
    const weft_model_family *found =
        has ? weft_model_family_find(json_object_get_string(type)) : NULL;
    found = found ? weft__family_of_text(found) : NULL;
    return found && found->architecture ? found : NULL;
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
    const weft_model_family *family = find_text(text);
    family = family ? family : find_text(*root);
    if (family == NULL) {
        json_object_put(classes);
        return weft_fail(WEFT_UNSUPPORTED, "%s: the text model of %s alone is unsupported",
                         weft_config_where(config),
                         weft_printable(weft_config_string(config, "model_type", "")));
    }
    bool fine = copy_members(*root, text) && add(text, "architectures", classes);
    json_object *name = fine ? json_object_new_string(family->architecture) : NULL;
    fine = fine && name && json_object_array_add(classes, name) == 0 &&
           add(text, "model_type", json_object_new_string(family->model_type)) &&
           add(text, "tie_word_embeddings", json_object_new_boolean(weft__model_is_tied(model)));
    if (!fine)
        return weft__out_of_memory(weft_config_where(config), NULL);
    json_object_get(text);
    json_object_put(*root);
    *root = text;
    return WEFT_OK;
}
