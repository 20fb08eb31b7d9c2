/* train/run/report_parts.c -- samples before and after, and the tables of report.html. */
#include <math.h>
#include <string.h>

#include <json-c/json.h>

#include "train/run/history.h"
#include "train/run/number.h"
#include "train/run/page.h"
#include "train/run/report.h"
#include "train/run/settings.h"
#include "weft/memory.h"

/* ---- samples -------------------------------------------------------------------------------- */

static void add_reward(weft__text *t, const char *before, const weft__said *s)
{
    if (isnan(s->reward))
        return;
    weft__text_format(t, "%s<b>reward ", before);
    weft__page_number(t, s->reward);
    weft__text_format(t, "</b>");
}

static void add_side(weft__text *t, const weft__said *s)
{
    weft__text_format(t, s->step == 0 ? "<div><p>Before training" : "<div><p>After update %lld",
                      (long long)s->step);
    add_reward(t, ", ", s);
    weft__text_format(t, "</p><pre>");
    weft__page_escape(t, s->text);
    weft__text_format(t, "</pre></div>\n");
}

/* The last sample with the prompt of sample i; -1 if i is not the first sample with that prompt, or
 * if no later update has one. */
static int last_of_prompt(const weft_history *h, int i)
{
    int last = -1;
    for (int k = 0; k < h->n_said; k++) {
        if (strcmp(h->said[k].prompt, h->said[i].prompt) != 0)
            continue;
        if (k < i)
            return -1;
        last = h->said[k].step != h->said[i].step ? k : last;
    }
    return last;
}

/* The first and the last samples of each prompt beside each other. */
static void add_pairs(weft__text *t, const weft_history *h)
{
    enum { MOST_PAIRS = 24 };
    int n = 0;
    for (int i = 0; i < h->n_said && n < MOST_PAIRS; i++) {
        const int last = last_of_prompt(h, i);
        if (last < 0)
            continue;
        weft__text_format(t, "<section class=\"said\"><h3>");
        weft__page_escape(t, h->said[i].prompt);
        weft__text_format(t, "</h3>\n<div class=\"pair\">");
        add_side(t, &h->said[i]);
        add_side(t, &h->said[last]);
        weft__text_format(t, "</div></section>\n");
        n++;
    }
}

void weft__report_samples(weft__text *t, const weft_history *h)
{
    if (h->n_said == 0)
        return;
    weft__text_format(t, "<h2>Samples</h2>\n");
    const size_t before = t->n;
    add_pairs(t, h);
    weft__text_format(t, "<details%s><summary>All samples</summary>\n",
                      t->n == before ? " open" : "");
    for (int i = 0; i < h->n_said; i++) {
        const weft__said *s = &h->said[i];
        if (i == 0 || s->step != h->said[i - 1].step)
            weft__text_format(t, "<h3>After update %lld</h3>\n", (long long)s->step);
        weft__text_format(t, "<pre><b>");
        weft__page_escape(t, s->prompt);
        weft__text_format(t, "</b>");
        weft__page_escape(t, s->text);
        add_reward(t, "\n", s);
        weft__text_format(t, "</pre>\n");
    }
    weft__text_format(t, "</details>\n");
}

/* ---- tables --------------------------------------------------------------------------------- */

/* The members of run.json that are numbers with a unit or have another label than their name. */
static const struct {
    const char *key, *label;
    void (*add)(weft__text *t, double value); /* NULL: the value as it is */
} labels[] = {
    {"steps", "updates", weft__page_count},
    {"skipped", "updates skipped, not finite", weft__page_count},
    {"loss", "loss of the last update", NULL},
    {"first_validation", "validation loss before training", NULL},
    {"last_validation", "validation loss after training", NULL},
    {"best_validation", "lowest validation loss", NULL},
    {"first_validation_reward", "validation reward before training", NULL},
    {"last_validation_reward", "validation reward after training", NULL},
    {"best_validation_reward", "highest validation reward", NULL},
    {"best_step", "best after update", weft__page_count},
    {"first_general", "loss of a general text before training", NULL},
    {"last_general", "loss of a general text after training", NULL},
    {"tokens", "tokens", weft__page_count},
    {"seconds", "time", weft__page_time},
    {"training_seconds", "time of the updates alone", weft__page_time},
    {"peak_memory", "peak memory", weft__page_bytes},
    {"samples", "samples", weft__page_count},
    {"targets", "tokens in the loss", weft__page_count},
    {"longest", "longest sample, in tokens", weft__page_count},
    {"truncated", "samples cut", weft__page_count},
    {"dropped", "samples left out", weft__page_count},
    {"validation_samples", "validation samples", weft__page_count},
    {"validation_targets", "validation tokens in the loss", weft__page_count},
    {"parameters", "parameters", weft__page_count},
    {"trainable", "trained parameters", weft__page_count},
    {"lr", "learning rate", NULL},
};

/* Adds a row of a table. Other members are labeled by their names, with spaces. */
static void add_row(weft__text *t, const char *name, json_object *value)
{
    const size_t n = sizeof labels / sizeof *labels;
    size_t i = 0;
    while (i < n && strcmp(labels[i].key, name) != 0)
        i++;
    weft__text_format(t, "<tr><th>");
    if (i < n)
        weft__text_format(t, "%s", labels[i].label);
    else
        for (const char *at = name; *at; at++)
            weft__page_escape_n(t, *at == '_' ? " " : at, 1);
    weft__text_format(t, "</th><td>");
    const bool number =
        json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
    if (i < n && labels[i].add && number && isfinite(json_object_get_double(value)))
        labels[i].add(t, json_object_get_double(value));
    else if (value == NULL)
        weft__text_format(t, "not measured");
    else
        weft__page_value(t, value);
    weft__text_format(t, "</td></tr>\n");
}

/* Adds a member of run.json as a table. */
static void add_table(weft__text *t, const weft_history *h, const char *key, const char *title)
{
    json_object *object = weft__history_member(h, NULL, key);
    if (!json_object_is_type(object, json_type_object))
        return;
    weft__text_format(t, "<h2>%s</h2>\n<div class=\"wide\"><table>\n", title);
    json_object_object_foreach(object, name, value)
    {
        add_row(t, name, value);
    }
    weft__text_format(t, "</table></div>\n");
}

/* Adds the command line as a table with a row for each option. */
static void add_options(weft__text *t, const weft_history *h)
{
    weft__options o = {.words = weft__history_member(h, NULL, "command")};
    const size_t before = t->n;
    while (weft__options_next(&o)) {
        weft__text_format(t, t->n == before
                                 ? "<h2>Options</h2>\n<div class=\"wide\"><table>\n<tr><th>"
                                 : "<tr><th>");
        weft__page_escape(t, o.name ? o.name : "argument");
        weft__text_format(t, "</th><td>");
        weft__page_escape(t, o.value ? o.value : "");
        weft__text_format(t, "</td></tr>\n");
    }
    if (t->n > before)
        weft__text_format(t, "</table></div>\n");
}

void weft__report_tables(weft__text *t, const weft_history *h)
{
    add_table(t, h, "result", "Result");
    add_table(t, h, "data", "Data");
    add_table(t, h, "model", "Model");
    add_table(t, h, "options", "Settings");
    add_options(t, h);
}
