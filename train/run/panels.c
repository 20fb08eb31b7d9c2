/* train/run/panels.c -- the plots of one run, or of several side by side, and the table of all
 * metrics. */
#include "train/run/panels.h"

#include <stdio.h>
#include <string.h>

#include "train/run/history.h"
#include "train/run/page.h"
#include "weft/memory.h"

enum { MOST_CURVES = WEFT_MOST_HISTORIES, MOST_PARTS = 2 };

enum { SMOOTH = 1, DOTS = 2, UNLESS_ZERO = 4 };

typedef struct part {
    const char *metric, *name;
    unsigned how;
} part;

typedef struct panel {
    const char *title;
    part of[MOST_PARTS];
} panel;

static const panel panels[] = {
    {"Loss", {{"loss", "training, smoothed", SMOOTH}, {"validation_loss", "validation", DOTS}}},
    {"Validation accuracy", {{"validation_accuracy", "accuracy", DOTS}}},
    {"Mean reward", {{"reward", "training", 0}, {"validation_reward", "validation", DOTS}}},
    {"Rewards", {{"rewards/chosen", "chosen", 0}, {"rewards/rejected", "rejected", 0}}},
    {"Reward margin, smoothed", {{"rewards/margins", "margin", SMOOTH}}},
    {"Reward accuracy, smoothed", {{"rewards/accuracies", "accuracy", SMOOTH}}},
    {"Deviation of the rewards", {{"reward_std", "deviation", 0}}},
    {"Share of groups with equal rewards", {{"equal_groups", "share", UNLESS_ZERO}}},
    {"Divergence from the start (KL)", {{"kl", "KL", UNLESS_ZERO}}},
    {"Entropy of the next token", {{"entropy", "entropy", 0}}},
    {"Share of ratios clipped", {{"clipped_low", "below 1", 0}, {"clipped_high", "above 1", 0}}},
    {"Tokens of a completion", {{"completion_length", "tokens", 0}}},
    {"Share of completions cut off", {{"truncated", "cut off", UNLESS_ZERO}}},
    {"Learning rate", {{"lr", "learning rate", 0}}},
    {"Gradient norm before clipping", {{"grad_norm", "norm", 0}}},
    {"Tokens per second", {{"tokens_per_second", "tokens/s", 0}}},
};

/* The curves of a figure; owns the y of those that are smoothed. */
typedef struct figure {
    weft_curve curves[MOST_CURVES];
    bool owned[MOST_CURVES];
    int styles[MOST_CURVES];
    int n;
    bool two; /* a curve has two points */
} figure;

static bool is_zero(const weft_curve *c)
{
    int i = 0;
    while (i < c->n && c->y[i] == 0)
        i++;
    return i == c->n;
}

static void add_curve(figure *f, const weft_history *run, const part *p, const char *name,
                      int style)
{
    weft_curve c = {0};
    const weft_curve *found = weft_history_find(run, p->metric);
    if (found == NULL || f->n == MOST_CURVES || (p->how & UNLESS_ZERO && is_zero(found)))
        return;
    f->owned[f->n] = p->how & SMOOTH && weft__history_smoothed(run, p->metric, &c);
    if (!f->owned[f->n])
        c = *found;
    c.name = name;
    f->styles[f->n] = style;
    c.dots = (p->how & DOTS) != 0;
    f->curves[f->n++] = c;
    f->two = f->two || c.n > 1;
}

static void draw(weft__text *t, const char *title, figure *f)
{
    if (f->two)
        weft__figure_draw(t, title, f->curves, f->styles, f->n);
    for (int i = 0; i < f->n; i++) {
        if (f->owned[i])
            weft_free((void *)f->curves[i].y);
    }
    *f = (figure){.n = 0};
}

/* ---- one run -------------------------------------------------------------------------------- */

/* The name of a reward function in a metric of its mean; NULL: another metric. */
static const char *reward_of(const char *metric)
{
    static const char prefix[] = "rewards/";
    static const char *const others[] = {"chosen", "rejected", "margins", "accuracies"};
    const size_t n = strlen(metric), end = strlen("/std");
    if (strncmp(metric, prefix, strlen(prefix)) != 0 ||
        (n > end && strcmp(metric + n - end, "/std") == 0))
        return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(metric + strlen(prefix), others[i]) == 0)
            return NULL;
    }
    return metric + strlen(prefix);
}

/* The mean of each reward, if there are several. The table of metrics has those that do not fit. */
static void draw_rewards(weft__text *t, const weft_history *run)
{
    figure f = {.n = 0};
    for (int i = 0; i < run->n; i++) {
        const char *name = reward_of(run->names[i]);
        if (name)
            add_curve(&f, run, &(part){run->names[i], name, 0}, name, f.n);
    }
    f.two = f.two && f.n > 1;
    draw(t, f.n == MOST_CURVES ? "Mean of each reward (the first 8)" : "Mean of each reward", &f);
}

/* The title of the loss, which depends on the objective. */
static const char *loss_title(const weft_history *run)
{
    const char *objective = weft__history_text(run, "identity", "objective");
    if (strcmp(objective, "distill") == 0)
        return "Loss (divergence from the teacher, nats per token)";
    const bool classifier = weft_history_find(run, "validation_accuracy") != NULL;
    const bool rewards =
        weft_history_find(run, "reward") || weft_history_find(run, "rewards/chosen");
    if (strcmp(objective, "supervised") == 0 ? !classifier : *objective == '\0' && !rewards)
        return "Loss (nats per token)";
    return "Loss";
}

static void draw_own(weft__text *t, const weft_history *run)
{
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
        const panel *p = &panels[i];
        figure f = {.n = 0};
        for (int k = 0; k < MOST_PARTS && p->of[k].metric; k++)
            add_curve(&f, run, &p->of[k], p->of[k].name, k);
        draw(t, i == 0 ? loss_title(run) : p->title, &f);
        if (strcmp(p->of[0].metric, "reward") == 0)
            draw_rewards(t, run);
    }
}

/* ---- several runs --------------------------------------------------------------------------- */

/* A plot for each metric, with a curve of each run. */
static void draw_together(weft__text *t, weft_history *const *runs, const char *const *labels,
                          int n)
{
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
        const panel *p = &panels[i];
        for (int k = 0; k < MOST_PARTS && p->of[k].metric; k++) {
            char title[128];
            figure f = {.n = 0};
            for (int r = 0; r < n; r++)
                add_curve(&f, runs[r], &p->of[k], labels[r], r);
            const bool several = p->of[1].metric != NULL;
            snprintf(title, sizeof title, "%s%s%s", p->title, several ? ": " : "",
                     several ? p->of[k].name : "");
            draw(t, title, &f);
        }
    }
}

void weft__panels_draw(weft__text *t, weft_history *const *runs, const char *const *labels, int n)
{
    weft__text_format(t, "<div class=\"plots\">\n");
    if (n == 1)
        draw_own(t, runs[0]);
    else
        draw_together(t, runs, labels, n);
    weft__text_format(t, "</div>\n");
}

/* ---- the table ------------------------------------------------------------------------------ */

static void add_cell(weft__text *t, double value)
{
    weft__text_format(t, "<td>");
    weft__page_number(t, value);
    weft__text_format(t, "</td>");
}

void weft__panels_list(weft__text *t, const weft_history *run)
{
    weft__text_format(t,
                      "<details><summary>All metrics</summary>\n<div class=\"wide\">"
                      "<table class=\"metrics\"><thead><tr><th>metric</th><th>lines</th>"
                      "<th>first</th><th>last</th><th>least</th><th>largest</th></tr></thead>\n");
    for (int i = 0; i < run->n; i++) {
        const weft__summary s = weft__history_summary(run, run->names[i]);
        weft__text_format(t, "<tr><th>");
        weft__page_escape(t, run->names[i]);
        weft__text_format(t, "</th><td>%d</td>", s.n);
        add_cell(t, s.first);
        add_cell(t, s.last);
        add_cell(t, s.least);
        add_cell(t, s.most);
        weft__text_format(t, "</tr>\n");
    }
    weft__text_format(t, "</table></div></details>\n");
}
