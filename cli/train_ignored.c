/* cli/train_ignored.c -- rejects options of weft train that would have no effect with the others,
 * instead of ignoring them silently. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/train.h"

/* Whether the option was given with a value other than its default. Configuration files also
 * contain defaults. */
static bool is_set(const train_values *v, const cli_option *o)
{
    const char *word = cli_word_of(&cli_train, v->given.at, v->given.n, o->name);
    return word && (o->fallback == NULL || !train_same_value(word, o->fallback));
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
    const unsigned of_data = v->val_data ? CLI_OF_DATA : CLI_OF_DATA | CLI_OF_VALIDATION;
    for (int i = 0; v->batches && i < cli_train.n_options; i++) {
        const cli_option *o = &cli_train.options[i];
        if (o->marks & of_data && is_set(v, o)) {
            snprintf(text, sizeof text, "--%s is for --data, not for --batches", o->name);
            return text;
        }
    }
    if (!train_may_validate(v) && v->val_every != CLI_ABSENT)
        return "--val-every needs --val-split or --val-data";
    if (is_set(v, cli_option_named(&cli_train, "weight-decay")) && v->weight_decay > 0 &&
        !has_decay(train_optimizer(v)))
        return "--weight-decay is not an option of this --optimizer";
    return NULL;
}
