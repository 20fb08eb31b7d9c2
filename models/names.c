/* models/names.c -- names of a model's tensors and modules in checkpoints and in other programs:
 * prefixes of multimodal models and their parts other than the text model. */
#include "models/names.h"

#include <stdio.h>
#include <string.h>

#include "core/io/text.h"
#include "models/config.h"

const weft__naming weft__names_text = {"model.", ""};
const weft__naming weft__names_bare = {"", ""};
const weft__naming weft__names_wrapped = {"model.language_model.", ""};
const weft__naming weft__names_mlx = {"language_model.model.", "language_model."};

/* By descending length of the body, since a shorter one may be the start of a longer one. */
static const weft__naming *const multimodal[] = {
    &(const weft__naming){"model.language_model.model.", "model.language_model."},
    &weft__names_mlx, /* also transformers before version 4.52 */
    &weft__names_wrapped,
    &(const weft__naming){"language_model.", ""}, /* saved without the head */
    &(const weft__naming){"backbone.", ""},       /* Nemotron-H */
    &(const weft__naming){"bert.", ""},
    &(const weft__naming){"roberta.", ""},
};

static const char *const towers[] = {
    "vision_tower", "vision_model", "visual",       "multi_modal_projector",
    "audio_tower",  "embed_audio",  "embed_vision", "vision_embedder",
    "mtp.",         "cls",          "qa_outputs",
};

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

const weft__naming *weft__naming_of(const char *name)
{
    for (size_t i = 0; i < sizeof multimodal / sizeof *multimodal; i++) {
        if (starts(name, multimodal[i]->body))
            return multimodal[i];
    }
    return &weft__names_text;
}

void weft__name_in(const weft__naming *naming, const char *path, char *out, size_t size)
{
    const bool body = starts(path, weft__names_text.body);
    snprintf(out, size, "%s%s", body ? naming->body : naming->rest,
             path + (body ? strlen(weft__names_text.body) : 0));
}

/* The name without its prefix. */
static const char *stripped(const char *name)
{
    const char *body = weft__naming_of(name)->body;
    return starts(name, body) ? name + strlen(body) : name;
}

bool weft__is_label_head(const char *path)
{
    return starts(path, "score.") || starts(path, "classifier.") || starts(path, "head.");
}

void weft__name_path(const char *name, char *out, size_t size)
{
    const char *bare = stripped(name);
    const bool whole = starts(bare, "lm_head") || weft__is_label_head(bare);
    snprintf(out, size, "%s%s", whole ? "" : weft__names_text.body, bare);
}

const char *weft__tower_of(const char *name)
{
    const char *bare = stripped(name);
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++) {
        if (starts(bare, towers[i]))
            return towers[i];
    }
    return NULL;
}

const weft__naming *weft__config_naming(const weft_config *config)
{
    const weft__json classes = weft__config_at_top(config, "architectures");
    weft__json first = {0};
    const char *name = NULL;
    if (weft__config_at_top(config, "text_config").value == NULL)
        return &weft__names_text;
    if (classes.value && weft__json_at(&classes, 0, &first) == WEFT_OK)
        (void)weft__json_as_string(&first, &name, NULL); /* on failure the name stays NULL */
    return name && weft__ends_with(name, "ForCausalLM") ? &weft__names_text : &weft__names_wrapped;
}

const weft__naming *weft__config_mlx_naming(const weft_config *config)
{
    return weft__config_at_top(config, "text_config").value ? &weft__names_mlx : &weft__names_text;
}
