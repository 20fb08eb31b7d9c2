/* cli/train_objective.c -- weft train --objective: what is minimized, and what it needs. */
#include "cli/common.h"
#include "cli/train.h"

const weft_objective *train_objective(const train_values *v)
{
    return weft_objectives[v->objective];
}

weft_objective_options train_objective_options(const train_values *v)
{
    return (weft_objective_options){
        .beta = isnan(v->beta) ? 0 : v->beta,
        .label_smoothing = isnan(v->label_smoothing) ? 0 : v->label_smoothing,
        .desirable_weight = isnan(v->desirable_weight) ? 0 : v->desirable_weight,
        .undesirable_weight = isnan(v->undesirable_weight) ? 0 : v->undesirable_weight,
        .gamma = isnan(v->gamma) ? 0
                 : v->gamma > 0  ? v->gamma
                                 : -1,
    };
}

static bool takes(const weft_objective *objective, size_t option)
{
    for (const weft_field *f = objective->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (f->offset == option)
            return true;
    }
    return false;
}

const char *train_objective_complaint(const train_values *v)
{
    const weft_objective *objective = train_objective(v);
    if (!isnan(v->beta) && !takes(objective, offsetof(weft_objective_options, beta)))
        return "--beta is not an option of this --objective";
    if (!isnan(v->label_smoothing) &&
        !takes(objective, offsetof(weft_objective_options, label_smoothing)))
        return "--label-smoothing is not an option of this --objective";
    if (!isnan(v->gamma) && !takes(objective, offsetof(weft_objective_options, gamma)))
        return "--gamma is not an option of this --objective";
    if ((!isnan(v->desirable_weight) || !isnan(v->undesirable_weight)) &&
        !takes(objective, offsetof(weft_objective_options, desirable_weight)))
        return "--desirable-weight and --undesirable-weight are options of --objective kto";
    if (objective->examples == WEFT_EXAMPLES_SINGLE)
        return NULL;
    if (v->batches != NULL || v->pack || v->compile)
        return "--batches, --pack and --compile are for --objective supervised";
    if (v->train_on == TRAIN_ON_EVERYTHING)
        return "--train-on everything is for --objective supervised";
    return NULL;
}

weft_status train_add_reference(const train_values *v, train_run *r)
{
    if (!train_objective(v)->reference)
        return WEFT_OK;
    weft_status status = weft_dataset_add_reference(r->data, r->model, v->batch_size);
    if (status == WEFT_OK && r->validation != NULL)
        status = weft_dataset_add_reference(r->validation, r->model, v->batch_size);
    return status;
}
