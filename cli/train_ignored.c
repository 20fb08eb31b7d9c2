/* cli/train_ignored.c -- rejects options of weft train that would have no effect with the others,
 * instead of ignoring them silently. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/train.h"

/* Options for reading and batching --data, and whether they also apply to --val-data. */
static const struct {
    const char *name;
    bool also_validation;
} of_data[] = {{"mix", false},        {"format", false},      {"batch-size", false},
               {"length", true},      {"train-on", true},     {"long", true},
               {"token-cache", true}, {"max-bad-rows", true}, {"val-split", false},
               {"system", true},      {"template", true}};

/* Whether the option was given with a value other than its default. Configuration files also
 * contain defaults. */
static bool is_set(const train_values *v, const char *name)
{
    const char *word = cli_word_of(&cli_train, v->given.at, v->given.n, name);
    for (int i = 0; word && i < cli_train.n_options; i++) {
        const cli_option *o = &cli_train.options[i];
        if (strcmp(o->name, name) == 0)
            return o->fallback == NULL || !train_same_value(word, o->fallback);
    }
    return false;
}

static bool has_decay(const weft_optim_type *type)
{
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (strcmp(f->name, "weight_decay") == 0)
            return true;
    }
    return false;
}

const char *train_ignored_complaint(const train_values *v)
{
    static char text[128];
    for (size_t i = 0; v->batches && i < sizeof of_data / sizeof *of_data; i++) {
        if (is_set(v, of_data[i].name) && !(of_data[i].also_validation && v->val_data)) {
            snprintf(text, sizeof text, "--%s is for --data, not for --batches", of_data[i].name);
            return text;
        }
    }
    if (!train_may_validate(v) && is_set(v, "val-every"))
        return "--val-every needs --val-split or --val-data";
    if (is_set(v, "weight-decay") && v->weight_decay > 0 && !has_decay(train_optimizer(v)))
        return "--weight-decay is not an option of this --optimizer";
    return NULL;
}
