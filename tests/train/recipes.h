/* tests/train/recipes.h -- the LoRA runs of tests/golden/lora: model, adapter, batches, recipe. */
#ifndef TESTS_TRAIN_RECIPES_H
#define TESTS_TRAIN_RECIPES_H

#include "weft/train.h"

typedef struct recipe {
    const char *folder; /* of tests/golden/lora */
    const char *model;  /* of tests/golden/models */
    int steps;
    double lr, weight_decay; /* as in weft_trainer_options: negative: none */
    double lora_plus;
    const weft_nn_lora_options *start; /* NULL: the folder has an adapter to start from */
} recipe;

extern const recipe recipes[];
extern const int n_recipes;

/* The recipe in the folder; a failed check and the first one if there is none. */
const recipe *recipe_named(const char *folder);

/* Whether the family has GGUF files. */
bool recipe_has_gguf(const recipe *r);

/* A file or folder of the recipe; valid until the suite ends. */
const char *recipe_path(const recipe *r, const char *name);

/* The recipe's model, with the adapter `name` ("initial", "final") around it; NULL: no adapter.
 * The initial one may be made by the recipe's start.
 * NULL (and a failed check) on failure. */
weft_model *recipe_model(const recipe *r, const char *name);

/* The trainer options of the recipe. */
weft_trainer_options recipe_options(const recipe *r);

/* A float64 array of the trajectory into `out`. */
bool recipe_numbers(const recipe *r, const char *name, double *out);

#endif
