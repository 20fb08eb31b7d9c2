/* cli/train_reload.c -- reloads the adapter that a run has saved, and measures its validation loss.
 */
#include "cli/train.h"

typedef struct meter {
    train_run *run;
    const weft_cancel *cancel;
} meter;

static bool show(void *context, int64_t targets, int64_t total)
{
    const meter *m = context;
    const bool tokens = train_objective(m->run->values) == &weft_objective_supervised;
    cli_progress_show(&m->run->progress, (double)targets / (double)total, false,
                      "reloaded adapter: %s of %s %s", cli_count(targets), cli_count(total),
                      tokens ? "tokens" : "examples");
    return m->cancel == NULL || !weft_cancel_is_set(m->cancel);
}

/* Called on one rank; the others wait in train_close_ranks. The run's model is freed first, since
 * two models need twice the memory. Rewards of sampled completions are not measured again. */
weft_status train_reload(const train_values *v, train_run *r, const weft_cancel *cancel)
{
    meter m = {r, cancel};
    const weft_evaluate_options o = {.objective = train_objective(v),
                                     .objective_options = train_objective_options(v, r),
                                     .callback = show,
                                     .context = &m};
    weft_evaluation found = {0};

    if (r->validation == NULL || r->result.best_step == 0 || train_has_rewards(v))
        return WEFT_OK;
    char *adapter = weft_format("%s/best", v->out);
    weft_trainer_free(r->trainer);
    weft_model_free(r->model);
    r->trainer = NULL;
    r->model = NULL;
    weft_status status = adapter == NULL ? weft_fail(WEFT_MEMORY, "train: out of memory")
                         : v->full       ? cli_load_model(adapter, &v->place, NULL, &r->model)
                                         : cli_load_model(r->path, &v->place, adapter, &r->model);
    if (status == WEFT_OK)
        status = weft_evaluate(r->model, r->validation, &o, &found);
    if (status == WEFT_OK)
        r->reloaded_validation = found.loss;
    cli_progress_clear(&r->progress);
    weft_free(adapter);
    return status == WEFT_CANCELLED ? WEFT_OK : status;
}

bool train_reloaded_well(const train_run *r)
{
    const double measured = r->result.best_validation;
    return fabs(r->reloaded_validation - measured) <= 1e-3 * fabs(measured) + 1e-5;
}
