/* models/convert/rules.h -- rules "PATTERN=VALUE,..." for selected matrices of a model. */
#ifndef WEFT_MODELS_CONVERT_RULES_H
#define WEFT_MODELS_CONVERT_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/nn.h"
#include "weft/status.h"

/* The value (of *n bytes) of the first rule whose pattern occurs in `path`, where * matches
 * anything; NULL: none. `rules` may be NULL. */
const char *weft__rule_find(const char *rules, const char *path, size_t *n);

/* Calls `check` for each rule; WEFT_INVALID if one is not PATTERN=VALUE. */
typedef weft_status weft__rule_check(void *context, const char *pattern, const char *value,
                                     size_t n);
weft_status weft__rules_each(const char *rules, weft__rule_check *check, void *context);

/* WEFT_INVALID, naming the pattern, if a rule matches no matrix of the tree; `modules`: paths are
 * those of modules, without ".weight". */
weft_status weft__rules_fit(const char *rules, weft_module *tree, bool modules);

/* The bits that a recipe of mlx-lm ("mixed_3_6") assigns to a path of a model with n_layers; 0:
 * unknown recipe. */
int64_t weft__recipe_bits(const char *recipe, const char *path, int64_t n_layers);

#endif
