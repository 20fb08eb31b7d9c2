/* models/names.h -- names of a model's tensors and modules in checkpoints and in other programs. */
#ifndef WEFT_MODELS_NAMES_H
#define WEFT_MODELS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/model.h"

/* What replaces "model." at the start of a tree's paths, and what is put before other paths
 * ("lm_head.weight"). */
typedef struct weft__naming {
    const char *body, *rest;
} weft__naming;

extern const weft__naming weft__names_text;    /* the text model alone: a tree's paths */
extern const weft__naming weft__names_bare;    /* transformers' models without a head */
extern const weft__naming weft__names_wrapped; /* transformers' multimodal classes */
extern const weft__naming weft__names_mlx;     /* mlx-lm's multimodal classes */

/* The naming that a tensor's or module's name follows; weft__names_text if it has no prefix of a
 * multimodal model. */
const weft__naming *weft__naming_of(const char *name);
/* Writes a path of the tree in a naming. */
void weft__name_in(const weft__naming *naming, const char *path, char *out, size_t size);
/* Writes the path of a name of the text model, whose prefix may be that of any naming. */
void weft__name_path(const char *name, char *out, size_t size);
/* Whether a path is of a head for labels. */
bool weft__is_label_head(const char *path);
/* The part of a model, other than the text model, that a name is in ("vision_tower", "classifier");
 * NULL: none. */
const char *weft__tower_of(const char *name);

/* The naming of the modules of the class that config.json's "architectures" names: the multimodal
 * class if there is a text_config, unless the class is a text model's (...ForCausalLM). */
const weft__naming *weft__config_naming(const weft_config *config);
/* The naming of mlx-lm's modules. */
const weft__naming *weft__config_mlx_naming(const weft_config *config);

#endif
