/* cli/train_optimizer.c -- the optimizer and the learning rate schedule of weft train. */
#include <string.h>

#include "cli/train.h"

#include "weft/tool/options.h"

const weft_optim_type *train_optimizer(const train_values *v)
{
    return weft_optim_type_at(v->optimizer);
}

/* Sets the defaults of a trainer, which differ from the optimizers'. Adafactor uses --lr itself
 * instead of computing its own learning rate. */
static void set_defaults(const weft_optim_type *type, void *options)
{
    static const char *const names[] = {"bias_correction", "no_relative_step",
                                        "no_scale_parameter"};
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strcmp(f->name, names[i]) == 0)
                *(bool *)((char *)options + f->offset) = true;
        }
    }
}

weft_status train_read_texts(const train_values *v, train_run *r)
{
    const weft_optim_type *type = train_optimizer(v);
    weft_rate *rate = NULL;
    r->optimizer_options = weft_calloc(1, type->options_size);
    if (r->optimizer_options == NULL)
        return weft_fail(WEFT_MEMORY, "train: out of memory for the optimizer's options");
    set_defaults(type, r->optimizer_options);
    weft_status status = weft_optim_options_parse(type, v->optimizer_options, r->optimizer_options);
    if (status == WEFT_OK && v->trainer.schedule != NULL)
        status = weft_rate_parse(v->trainer.schedule, 1, 1000, &rate);
    weft_rate_free(rate);
    weft_dims dimensions;
    return status == WEFT_OK ? embed_read_dimensions(v->dimensions, &dimensions) : status;
}
