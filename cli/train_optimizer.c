/* cli/train_optimizer.c -- the optimizer and the learning rate schedule of weft train. */
#include "cli/train.h"

const weft_optim_type *train_optimizer(const train_values *v)
{
    char name[32];
    cli_word(TRAIN_OPTIMIZERS, v->optimizer, name, sizeof name);
    return weft_optim_type_find(name);
}

/* Sets defaults that differ from the library's. Adafactor uses --lr as it is, instead of computing
 * its own learning rate. */
static void set_defaults(const weft_optim_type *type, train_optimizer_options *o)
{
    if (type == &weft_optim_adamw || type == &weft_optim_adamw8bit)
        o->adamw.bias_correction = true;
    if (type == &weft_optim_adamw16bit)
        o->adamw16bit.bias_correction = true;
    if (type == &weft_optim_adam || type == &weft_optim_adamax)
        o->adam.bias_correction = true;
    if (type == &weft_optim_adafactor)
        o->adafactor.no_relative_step = o->adafactor.no_scale_parameter = true;
}

weft_status train_read_texts(const train_values *v, train_run *r)
{
    const weft_optim_type *type = train_optimizer(v);
    weft_rate *rate = NULL;
    set_defaults(type, &r->optimizer_options);
    weft_status status =
        weft_optim_options_parse(type, v->optimizer_options, &r->optimizer_options);
    if (status == WEFT_OK && v->schedule != NULL)
        status = weft_rate_parse(v->schedule, 1, 1000, &rate);
    weft_rate_free(rate);
    return status;
}
