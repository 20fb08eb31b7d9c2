/* cli/train_objective.c -- weft train --objective: its options, and the reference log-probabilities
 * that it needs. */
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/train.h"

const char *train_objective_name(int i)
{
    return weft_objectives[i] ? weft_objectives[i]->name : NULL;
}

const weft_objective *train_objective_of(int task, int objective)
{
    return task == TRAIN_EMBED && objective == 0 ? &weft_objective_ranking
                                                 : weft_objectives[objective];
}

const weft_objective *train_objective(const train_values *v)
{
    return train_objective_of(v->task, v->objective);
}

bool train_has_rewards(const train_values *v)
{
    return train_objective(v)->examples == WEFT_EXAMPLES_SCORED;
}

bool train_needs_whole_batches(const train_values *v)
{
    const char *type = v->trainer.objective_options.loss_type;
    return train_objective(v)->whole_batch || (type != NULL && strcmp(type, "bnpo") == 0);
}

/* Whether the objective needs reference log-probabilities: one with rewards does unless beta is 0.
 */
static bool needs_reference(const train_values *v)
{
    const weft_objective *o = train_objective(v);
    const double beta = v->trainer.objective_options.beta;
    if (train_samples(v)) /* the trainer computes them of each batch */
        return false;
    return train_has_rewards(v) ? (beta != 0 ? beta : o->defaults.beta) > 0
                                : (o->columns & WEFT_COLUMN_REFERENCE) != 0;
}

const weft_field *train_objective_field(const weft_objective *objective, const cli_option *o)
{
    for (const weft_field *f = objective->fields; f && f->type != WEFT_FIELD_END; f++) {
        size_t n = 0;
        while (o->name[n] != '\0' && (o->name[n] == '-' ? '_' : o->name[n]) == f->name[n])
            n++;
        if (o->name[n] == '\0' && f->name[n] == '\0')
            return f;
    }
    return NULL;
}

/* Loads the reference log-probabilities that a resumed run has saved; false if they must be
 * computed. */
static bool load_reference(const train_values *v, const char *name, weft_dataset *data)
{
    char *path = weft_format("%s/%s", v->out, name);
    const bool there = path && (v->trainer.resume || v->verify) && access(path, F_OK) == 0;
    const bool loaded = there && weft_dataset_load_reference(data, path) == WEFT_OK;
    if (there && !loaded)
        weft_log_message(WEFT_LOG_WARNING, "%s; they are computed again", weft_error_message());
    weft_free(path);
    return loaded;
}

/* Every rank computes them unless all ranks have loaded them. If the run is cancelled meanwhile,
 * the folder keeps what has been computed. */
static weft_status add_reference(const train_values *v, const train_run *r, const char *name,
                                 weft_dataset *data)
{
    if (data == NULL)
        return WEFT_OK;
    bool missing = !load_reference(v, name, data);
    weft_status status = weft_group_agree(train_ranks(), WEFT_OK, &missing);
    if (status != WEFT_OK || !missing)
        return status;
    char *progress = r->cancel ? weft_format("%s/unfinished-%s", v->out, name) : NULL;
    if (progress != NULL)
        status = weft_folder_make(v->out);
    if (status == WEFT_OK)
        status = weft_dataset_add_reference(data, r->model,
                                            &(weft_reference_options){.batch_size = v->batch_size,
                                                                      .group = train_ranks(),
                                                                      .cancel = r->cancel,
                                                                      .progress = progress});
    weft_free(progress);
    return status;
}

weft_status train_add_reference(const train_values *v, train_run *r)
{
    if (!needs_reference(v))
        return WEFT_OK;
    const weft_status status = add_reference(v, r, "reference.safetensors", r->data);
    return status == WEFT_OK
               ? add_reference(v, r, "reference-validation.safetensors", r->validation)
               : status;
}
