/* tests/optim/scenes.h -- three parameters, the gradients of tests/golden/optim, and the cases. */
#ifndef TESTS_OPTIM_SCENES_H
#define TESTS_OPTIM_SCENES_H

#include "weft/optim.h"

enum { SCENE_PARAMETERS = 3, SCENE_STEPS = 20 };

/* w (6, 4), b (5), k (2, 3, 2). */
typedef struct scene {
    weft_array *arrays[SCENE_PARAMETERS];
    weft_array **addresses[SCENE_PARAMETERS];
    char *paths[SCENE_PARAMETERS];
    weft_nn_slots slots;
} scene;

/* A tensor of the golden file on the default device. */
weft_array *scene_tensor(const char *name, weft_dtype dtype);

/* The initial parameters of the golden file, in the dtype. Call golden_open first. */
void scene_start(scene *s, weft_dtype dtype);
void scene_end(scene *s);

/* The gradients of update t, from 0. */
void scene_gradients(int t, weft_dtype dtype, weft_array **out);

/* The golden file's runs. */
typedef struct run {
    const char *name;
    const weft_optim_type *type;
    const void *options;
    double learning_rate;
} run;
extern const run runs[];
extern const int n_runs;

#endif
