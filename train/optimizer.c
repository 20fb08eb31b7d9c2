/* train/optimizer.c -- makes a trainer's optimizer from its options. */
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"
#include "train/adapter/adapter.h"
#include "train/parallel/parallel.h"

/* Sets a bool option of the optimizer. Used if the caller passes no optimizer options. */
static void set_bool(const weft_optim_type *type, const char *name, void *options)
{
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (strcmp(f->name, name) == 0)
            *(bool *)((char *)options + f->offset) = true;
    }
}

static void set_decay(const weft_optim_type *type, double decay, void *options)
{
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END && decay != 0; f++) {
        if (strcmp(f->name, "weight_decay") == 0)
            *(double *)((char *)options + f->offset) = decay;
    }
}

/* The seed of an optimizer that draws random numbers, unless its options have one. */
static void set_seed(const weft_optim_type *type, uint64_t seed, void *options)
{
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
        int64_t *at = (int64_t *)((char *)options + f->offset);
        if (strcmp(f->name, "seed") == 0 && *at == 0)
            *at = (int64_t)(seed & INT64_MAX);
    }
}

/* The weight decay for the optimizer's options. A negative value means zero; it is passed on as it
 * is if the default is not zero. */
static double decay_of(const weft_trainer_options *o)
{
    double standard = 0;
    for (const weft_field *f = o->optimizer->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (strcmp(f->name, "weight_decay") == 0 && o->optimizer->defaults)
            memcpy(&standard, (const char *)o->optimizer->defaults + f->offset, sizeof standard);
    }
    return o->weight_decay < 0 && standard == 0 ? 0 : o->weight_decay;
}

/* The filter of the first group: all parameters or, with LoRA+, all but lora_B. */
static bool is_plain(void *context, const char *path, const weft_array *parameter)
{
    (void)parameter;
    return *(const double *)context == 1 || !weft__adapter_is_suffix(path, "lora_B");
}

weft_status weft__trainer_optimizer(weft_trainer *t)
{
    const weft_trainer_options *o = &t->o;
    if (!weft__group_is_one(o->group)) {
        t->owners = weft_calloc((size_t)t->slots.n, sizeof *t->owners);
        if (t->owners == NULL)
            return weft__out_of_memory("trainer", NULL);
        weft__group_assign(o->group, t->slots.slots, t->slots.n, t->owners);
    }
    void *options = weft_calloc(1, o->optimizer->options_size + 1);
    if (options == NULL)
        return weft__out_of_memory("trainer", NULL);
    if (o->optimizer_options) {
        memcpy(options, o->optimizer_options, o->optimizer->options_size);
    } else {
        set_bool(o->optimizer, "bias_correction", options);
        set_bool(o->optimizer, "no_relative_step", options);
        set_bool(o->optimizer, "no_scale_parameter", options);
    }
    set_decay(o->optimizer, decay_of(o), options);
    set_seed(o->optimizer, o->seed, options);
    const weft_optim_group groups[] = {
        {.type = o->optimizer,
         .options = options,
         .learning_rate = o->lr,
         .filter = is_plain,
         .context = (void *)&o->lora_plus},
        {.type = o->optimizer, .options = options, .learning_rate = o->lr * o->lora_plus},
    };
    const int n = o->lora_plus != 1 ? 2 : 1;
    const weft_status status = weft__optim_new_share(
        &t->slots, groups, n, t->owners, weft_group_info_of(o->group).rank, &t->optimizer);
    weft_free(options);
    return status;
}
