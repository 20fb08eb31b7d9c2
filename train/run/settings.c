/* train/run/settings.c -- writes the options and the command line of a run as JSON, and reads the
 * command line. */
#include "train/run/settings.h"

#include <string.h>

#include "core/io/json.h"
#include "optim/optim.h"
#include "train/run/number.h"

void weft__write_string(weft__text *t, const char *key, const char *value, const char *end)
{
    weft__text_format(t, "    \"%s\": ", key);
    weft__text_quote(t, value);
    weft__text_format(t, "%s\n", end);
}

void weft__write_number(weft__text *t, const char *key, double value, const char *end)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "    \"%s\": %s%s\n", key, weft__number(value, number), end);
}

/* Writes the optimizer's name and those of its options that it uses. */
static void write_optimizer(weft__text *t, const weft_trainer *trainer)
{
    const optim_group *g = &trainer->optimizer->groups[0];
    weft__write_string(t, "optimizer", g->type->name, ",");
    for (int i = 0; i < g->n_fields; i++) {
        const weft_field *f = &g->type->fields[i];
        const char *at = (const char *)g->options + f->offset;
        if (f->type == WEFT_FIELD_BOOL)
            weft__text_format(t, "    \"%s\": %s,\n", f->name,
                              *(const bool *)at ? "true" : "false");
        else if (f->type == WEFT_FIELD_INT)
            weft__write_number(t, f->name, (double)*(const int64_t *)at, ",");
        else
            weft__write_number(t, f->name, *(const double *)at, ",");
    }
}

static void write_options(weft__text *t, const weft_trainer *trainer, const weft__plan *plan)
{
    const weft_trainer_options *o = &trainer->o;
    weft__text_format(t, "  \"options\": {\n");
    weft__write_number(t, "steps", (double)plan->steps, ",");
    weft__write_number(t, "accumulate", (double)o->accumulate, ",");
    weft__write_number(t, "lr", o->lr, ",");
    weft__write_number(t, "lora_plus", o->lora_plus, ",");
    write_optimizer(t, trainer);
    weft__write_string(t, "schedule", o->schedule, ",");
    weft__write_number(t, "warmup", (double)plan->warmup, ",");
    weft__write_number(t, "clip", o->clip, ",");
    weft__text_format(t, "    \"checkpoint\": %s,\n", o->checkpoint ? "true" : "false");
    weft__text_format(t, "    \"compile\": %s,\n", o->compile ? "true" : "false");
    weft__write_number(t, "validate_every", (double)o->validate_every, ",");
    weft__write_number(t, "patience", (double)o->patience, ",");
    weft__write_number(t, "save_every", (double)o->save_every, ",");
    weft__write_number(t, "save_minutes", o->save_minutes > 0 ? o->save_minutes : 0, ",");
    weft__write_number(t, "keep", (double)o->keep, ",");
    weft__write_number(t, "neftune", o->neftune, ",");
    weft__write_number(t, "seed", (double)o->seed, "");
    weft__text_format(t, "  },\n");
}

static void write_command(weft__text *t, const weft_trainer_options *o)
{
    if (o->n_command == 0)
        return;
    weft__text_format(t, "  \"command\": [");
    for (int i = 0; i < o->n_command; i++) {
        weft__text_format(t, i > 0 ? ", " : "");
        weft__text_quote(t, o->command[i]);
    }
    weft__text_format(t, "],\n");
}

void weft__settings_write(weft__text *t, const weft_trainer *trainer, const weft__plan *plan)
{
    write_options(t, trainer, plan);
    write_command(t, &trainer->o);
}

/* ---- reading -------------------------------------------------------------------------------- */

static const char *word_at(json_object *words, size_t i)
{
    const char *word = json_object_is_type(words, json_type_array)
                           ? weft__json_plain(json_object_array_get_idx(words, i))
                           : NULL;
    return word ? word : "";
}

static bool is_name(const char *word)
{
    return strncmp(word, "--", 2) == 0;
}

bool weft__options_next(weft__options *o)
{
    const size_t n =
        json_object_is_type(o->words, json_type_array) ? json_object_array_length(o->words) : 0;
    if (o->at < n && !o->arguments && strcmp(word_at(o->words, o->at), "--") == 0) {
        o->arguments = true;
        o->at++;
    }
    if (o->at >= n)
        return false;
    const char *word = word_at(o->words, o->at++);
    const bool named = !o->arguments && is_name(word);
    o->name = named ? word + 2 : NULL;
    o->value = word;
    if (named)
        o->value =
            o->at < n && !is_name(word_at(o->words, o->at)) ? word_at(o->words, o->at++) : NULL;
    return true;
}

const char *weft__option_of(json_object *words, const char *name, int number)
{
    for (weft__options o = {.words = words}; weft__options_next(&o);) {
        if (o.name && strcmp(o.name, name) == 0 && number-- == 0)
            return o.value ? o.value : "";
    }
    return NULL;
}

weft__effect weft__option_effect(const char *name)
{
    static const struct {
        const char *name;
        weft__effect effect;
    } others[] = {{"checkpoint", WEFT__OF_RECORDS},
                  {"config", WEFT__OF_PLACE},
                  {"general-text", WEFT__OF_RECORDS},
                  {"json", WEFT__OF_PLACE},
                  {"keep", WEFT__OF_RECORDS},
                  {"max-memory", WEFT__OF_PLACE},
                  {"out", WEFT__OF_PLACE},
                  {"overwrite", WEFT__OF_PLACE},
                  {"profile", WEFT__OF_PLACE},
                  {"resume", WEFT__OF_PLACE},
                  {"sample-prompt", WEFT__OF_RECORDS},
                  {"save-every", WEFT__OF_RECORDS},
                  {"save-minutes", WEFT__OF_RECORDS},
                  {"threads", WEFT__OF_PLACE},
                  {"token-cache", WEFT__OF_PLACE},
                  {"save_every", WEFT__OF_RECORDS},
                  {"save_minutes", WEFT__OF_RECORDS}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i].name) == 0)
            return others[i].effect;
    return WEFT__OF_RESULT;
}
