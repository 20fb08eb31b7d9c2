/* cli/train_check.c -- which options of weft train exclude each other. */
#include "cli/train.h"

static const char *plan_complaint(const train_values *v)
{
    const bool validated = v->val_split > 0 || v->val_data != NULL;
    if (v->patience > 0 && !validated)
        return "--patience counts validations, which need --val-split or --val-data";
    if (v->sample_prompts.n > 0 && !validated)
        return "--sample-prompt generates after each validation: it needs --val-split or "
               "--val-data";
    if (v->patience > 0 && v->val_every == 0)
        return "--patience needs --val-every above 0";
    if (v->micro_batch != CLI_ABSENT && (v->compile || train_objective(v)->whole_batch))
        return "--micro-batch is for updates without --compile, and not for kto and orpo";
    return NULL;
}

const char *train_complaint(const train_values *v)
{
    if (v->resume && v->overwrite)
        return "--resume and --overwrite exclude each other";
    if (v->model == NULL)
        return v->resume ? "--out has no run to continue, and MODEL to begin one is missing"
                         : "MODEL is missing";
    if ((v->source.paths.n == 0) == (v->batches == NULL))
        return "needs --data FILE or --batches FILE";
    if (v->val_split > 0 && (v->val_data != NULL || v->batches != NULL))
        return "--val-split is for --data without --val-data";
    const char *ranks = train_ranks_complaint(v);
    if (ranks != NULL)
        return ranks;
    if (v->batches != NULL && v->accumulate != 1)
        return "--batches makes one update of each batch: no --accumulate";
    if (v->pack && v->batches != NULL)
        return "--pack is for --data: --batches are trained as they are";
    const char *objective = train_objective_complaint(v);
    if (objective != NULL)
        return objective;
    if (v->compile && v->accumulate != 1)
        return "--compile is for updates of one batch: no --accumulate";
    if (v->steps != CLI_ABSENT && !isnan(v->epochs))
        return "--steps and --epochs exclude each other";
    const char *plan = plan_complaint(v);
    if (plan != NULL)
        return plan;
    const char *ignored = train_ignored_complaint(v);
    if (ignored != NULL)
        return ignored;
    return cli_place_complaint(&v->place);
}

weft_status train_check_out(const train_values *v)
{
    if (v->dry_run || v->overwrite || v->resume || !train_is_first() || !weft_run_exists(v->out))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "train: %s has a run already: --resume continues it, --overwrite deletes it, "
                     "or choose another --out",
                     v->out);
}
