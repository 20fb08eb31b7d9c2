/* tests/train/test_trajectory.c -- complete LoRA runs against PEFT's: every loss and gradient norm,
 * the final logits, the final adapter; with and without checkpointing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/recipes.h"

enum { MOST_STEPS = 32, MOST_RECIPES = 32, FEW_STEPS = 3 };

typedef struct trajectory {
    double losses[MOST_STEPS], norms[MOST_STEPS];
    int n, steps; /* updates that were made, and after which the run stops */
} trajectory;

/* With check_few() every third recipe (every sixth on a software driver) runs to its end, and the
 * others make a few updates (half of them on a software driver). */
static bool runs_whole(int i)
{
    return !check_few() || i % (check_in_software() ? 6 : 3) == 0;
}

static bool remember(void *context, const weft_train_report *report)
{
    trajectory *t = context;
    t->losses[t->n] = report->loss;
    t->norms[t->n++] = report->grad_norm;
    return t->n < t->steps;
}

/* Runs recipe i; the trained model, or NULL. */
static weft_model *run(int i, bool checkpoint, const char *folder, trajectory *out)
{
    const recipe *r = &recipes[i];
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_model *model = recipe_model(r, "initial");
    *out = (trajectory){.steps = runs_whole(i) ? r->steps + 1 : FEW_STEPS};
    if (model == NULL ||
        !CHECK_OK(weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches)))
        return model;
    weft_trainer_options o = recipe_options(r);
    o.checkpoint = checkpoint;
    o.folder = folder;
    o.base_name = r->model;
    o.callback = remember;
    o.context = out;
    if (CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        CHECK_STATUS(weft_trainer_run(trainer, batches, NULL, NULL),
                     runs_whole(i) ? WEFT_OK : WEFT_CANCELLED);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    CHECK_EQ_INT(out->n, runs_whole(i) ? r->steps : FEW_STEPS);
    return model;
}

/* The largest difference from the reference's logits of batch 0 after training. */
static double logits_difference(const recipe *r, weft_model *model)
{
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(recipe_path(r, "trajectory.safetensors"), &file)))
        return INFINITY;
    weft_scope_open();
    weft_array *batches = weft_safetensors_get(file, "batches");
    weft_array *tokens = weft_squeeze(weft_slice_axis(batches, 0, 0, 1), 0); /* (B, L) */
    weft_array *logits = weft_model_forward(model, tokens, NULL);            /* (B, L, V) */
    weft_array *expected = weft_safetensors_get(file, "final_logits");
    const double difference =
        weft_item(weft_max(weft_abs(weft_subtract(logits, expected)), WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return difference;
}

static double worst_relative(const double *a, const double *b, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs(a[i] - b[i]) / fabs(b[i]));
    return worst;
}

/* The adapter that was saved at the end gives the trained model when it is loaded. */
static void check_saved(const recipe *r, weft_model *trained, const char *folder)
{
    char last[600];
    weft_model *model = recipe_model(r, NULL);
    snprintf(last, sizeof last, "%s/last", folder);
    if (trained && model && CHECK_OK(weft_adapter_load(model, last, NULL))) {
        weft_scope_open();
        const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 8));
        weft_array *difference = weft_subtract(weft_model_forward(trained, tokens, NULL),
                                               weft_model_forward(model, tokens, NULL));
        CHECK_CLOSE(weft_item(weft_max(weft_abs(difference), WEFT_ALL_AXES, false)), 0, 1e-5);
        weft_scope_close(NULL);
    }
    weft_model_free(model);
}

/* Each recipe's run without checkpointing, once it was made. */
static trajectory plain[MOST_RECIPES];

static void every_step_is_the_reference(void)
{
    if (!CHECK(n_recipes <= MOST_RECIPES))
        return;
    for (int i = 0; i < n_recipes; i += check_few() && check_in_software() ? 3 : 1) {
        const recipe *r = &recipes[i];
        char folder[512];
        trajectory t;
        snprintf(folder, sizeof folder, "%s", check_temporary(r->folder));
        double losses[MOST_STEPS], norms[MOST_STEPS];
        weft_model *model = run(i, false, folder, &t);
        plain[i] = t;
        if (runs_whole(i))
            check_saved(r, model, folder);
        if (model && recipe_numbers(r, "losses", losses) &&
            recipe_numbers(r, "grad_norms", norms)) {
            const double logits = runs_whole(i) ? logits_difference(r, model) : 0;
            printf("  %s: worst loss %.2g, norm %.2g (relative), final logits %.2g\n", r->folder,
                   worst_relative(t.losses, losses, t.n), worst_relative(t.norms, norms, t.n),
                   logits);
            for (int s = 0; s < t.n; s++) {
                CHECK_RELATIVE(t.losses[s], losses[s], 1e-5);
                CHECK_RELATIVE(t.norms[s], norms[s], 1e-3);
            }
            CHECK_CLOSE(logits, 0, 5e-3);
        }
        weft_model_free(model);
    }
}

static void checkpointing_changes_nothing(void)
{
    const int stride = !check_few() ? 1 : check_in_software() ? 12 : 6;
    for (int i = 0; i < n_recipes; i += stride) {
        trajectory again;
        if (plain[i].n == 0)
            weft_model_free(run(i, false, NULL, &plain[i]));
        weft_model_free(run(i, true, NULL, &again));
        for (int s = 0; s < recipes[i].steps; s++) {
            CHECK_RELATIVE(again.losses[s], plain[i].losses[s], 1e-6);
            CHECK_RELATIVE(again.norms[s], plain[i].norms[s], 1e-5);
        }
    }
}

static void a_final_adapter_of_peft_gives_its_logits(void)
{
    for (int i = 0; i < n_recipes; i++) {
        if (!runs_whole(i))
            continue;
        weft_model *model = recipe_model(&recipes[i], "final");
        if (model) {
            CHECK_CLOSE(logits_difference(&recipes[i], model), 0, 1e-4);
            CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
            CHECK_CLOSE(logits_difference(&recipes[i], model), 0, 1e-4);
            weft_nn_lora_remove(weft_model_module(model));
            CHECK_CLOSE(logits_difference(&recipes[i], model), 0, 1e-4);
        }
        weft_model_free(model);
    }
}

CHECK_MAIN("trajectory", CHECK_CASE(every_step_is_the_reference),
           CHECK_CASE(checkpointing_changes_nothing),
           CHECK_CASE(a_final_adapter_of_peft_gives_its_logits))
