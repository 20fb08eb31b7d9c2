/* models/weights.c -- checkpoints' tensor names: prefixes of wrappers stripped, towers of other
 * modalities dropped. */
#include "models/weights.h"

#include <stdio.h>
#include <string.h>

static const char *const prefixes[] = {
    "model.language_model.model.",
    "language_model.model.",
    "model.language_model.",
    "language_model.",
    "model.",
};

static const char *const dropped_beginnings[] = {
    "vision_tower",          "vision_model",    "visual",
    "multi_modal_projector", "audio_tower",     "embed_audio",
    "embed_vision",          "vision_embedder", "mtp.",
};

static const char *const dropped_endings[] = {
    "input_max",
    "input_min",
    "output_max",
    "output_min",
};

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static const char *stripped(const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (starts(name, prefixes[i]))
            return name + strlen(prefixes[i]);
    }
    return name;
}

static bool is_dropped(const char *name)
{
    for (size_t i = 0; i < sizeof dropped_beginnings / sizeof *dropped_beginnings; i++) {
        if (starts(name, dropped_beginnings[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof dropped_endings / sizeof *dropped_endings; i++) {
        if (ends(name, dropped_endings[i]))
            return true;
    }
    return strstr(name, "rotary_emb") != NULL;
}

static bool usual_rename(const char *name, char *out, size_t size)
{
    const char *bare = stripped(name);
    if (is_dropped(bare))
        return false;
    snprintf(out, size, "%s%s", starts(bare, "lm_head.") ? "" : "model.", bare);
    return true;
}

static bool family_rename(const weft_model_family *family, const char *name, char *out, size_t size)
{
    return family->rename ? family->rename(NULL, name, out, size) : usual_rename(name, out, size);
}

bool weft__weights_rename(void *context, const char *name, char *out, size_t size)
{
    const weft__renaming *r = context;
    return family_rename(r->family, name, out, size) &&
           !(r->drop_head && strcmp(out, "lm_head.weight") == 0);
}

bool weft__weights_have(const weft_safetensors *file, const weft_model_family *family,
                        const char *path)
{
    char renamed[WEFT_NN_PATH];
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        if (family_rename(family, weft_safetensors_name(file, i), renamed, sizeof renamed) &&
            strcmp(renamed, path) == 0)
            return true;
    }
    return false;
}

const char *weft__weights_model_type(const weft_safetensors *file)
{
    static const weft_model_family usual = {0};
    if (weft__weights_have(file, &usual, "model.layers.0.self_attn.q_norm.weight"))
        return "qwen3";
    if (weft__weights_have(file, &usual, "model.layers.0.self_attn.q_proj.bias"))
        return "qwen2";
    return "llama";
}
