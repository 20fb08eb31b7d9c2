/* models/convert/rules.h -- "PATTERN=VALUE,...": what is said of some of a model's matrices. */
#ifndef WEFT_MODELS_CONVERT_RULES_H
#define WEFT_MODELS_CONVERT_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/nn.h"
#include "weft/status.h"

/* The value (of *n bytes) of the first rule whose pattern is in `path`, * standing for anything;
 * NULL: there is none. `rules` may be NULL. */
const char *weft__rule_find(const char *rules, const char *path, size_t *n);

/* Calls `check` for each; WEFT_INVALID where one is not PATTERN=VALUE. */
typedef weft_status weft__rule_check(void *context, const char *pattern, const char *value,
                                     size_t n);
weft_status weft__rules_each(const char *rules, weft__rule_check *check, void *context);

/* WEFT_INVALID, with the pattern, where a rule's is in the path of no matrix of the tree;
 * `modules`: paths are those of modules, without ".weight". */
weft_status weft__rules_fit(const char *rules, weft_module *tree, bool modules);

/* The bits that a recipe of mlx-lm's ("mixed_3_6") gives to a path of a model of n_layers; 0: there
 * is no such recipe. */
int64_t weft__recipe_bits(const char *recipe, const char *path, int64_t n_layers);

#endif
