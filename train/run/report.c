/* train/run/report.c -- report.html: the result of a run, its curves, samples and settings on one
 * page. */
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/folder.h"
#include "core/io/shell.h"
#include "train/run/history.h"
#include "train/run/number.h"
#include "train/run/page.h"
#include "train/run/panels.h"
#include "train/run/report.h"
#include "weft/memory.h"

/* ---- the top -------------------------------------------------------------------------------- */

void weft__report_title(weft__text *t, const weft_history *h)
{
    const char *model = weft__history_text(h, "model", "name"),
               *data = weft__history_text(h, "data", "name");
    size_t n;
    const char *at = weft__page_base(*model ? model : h->folder, &n);
    weft__text_append(t, at, n);
    at = weft__page_base(data, &n);
    if (n > 0)
        weft__text_format(t, " on %.*s", (int)n, at);
}

static void add_head(weft__text *t, const weft_history *h)
{
    weft__text title = {0};
    const char *message = weft__history_text(h, NULL, "message"),
               *objective = weft__history_text(h, "identity", "objective");
    weft__report_title(&title, h);
    t->failed = t->failed || title.failed;
    weft__page_begin(t, title.at ? title.at : "");
    weft__text_format(t, "<h1>");
    weft__page_escape(t, title.at ? title.at : "");
    weft__text_format(t, "</h1>\n<p class=\"meta\">");
    weft__page_value(t, weft__history_member(h, NULL, "state"));
    if (*message) {
        weft__text_format(t, ": ");
        weft__page_escape(t, message);
    }
    if (*objective) {
        weft__text_format(t, " &middot; ");
        weft__page_escape(t, objective);
    }
    weft__text_format(t, " &middot; ");
    weft__page_escape(t, h->folder);
    weft__text_format(t, "</p>\n");
    weft_free(title.at);
}

/* A sentence about the result. */
static void add_verdict(weft__text *t, const weft_history *h)
{
    char first[WEFT__NUMBER_TEXT], last[WEFT__NUMBER_TEXT], best[WEFT__NUMBER_TEXT];
    const weft__outcome o = weft__history_outcome(h);
    if (o.what == NULL || isnan(o.best)) {
        weft__text_format(t, "<p>%s</p>\n",
                          o.what ? "There was no validation after an update yet."
                                 : "Nothing was held out for validation: the training loss alone "
                                   "does not show whether the model has learned more than the "
                                   "rows.");
        return;
    }
    weft__decimals(o.first, 4, first);
    weft__decimals(o.last, 4, last);
    const char *went = o.last < o.first ? "fell" : o.last > o.first ? "rose" : "stayed";
    weft__text_format(t, "<p>The %s %s from %s to %s; it was %s, %s, after update ", o.what, went,
                      first, last, o.rises ? "highest" : "lowest", weft__decimals(o.best, 4, best));
    weft__page_count(t, o.best_at);
    weft__text_format(t, ".");
    if (o.rises ? o.best <= o.first : o.best >= o.first)
        weft__text_format(t, " <strong>It did not get better than that of the model without "
                             "training.</strong>");
    weft__text_format(t, "</p>\n");
}

static void open_card(weft__text *t, const char *name)
{
    weft__text_format(t, "<div><dt>%s</dt><dd>", name);
}

static void close_card(weft__text *t)
{
    weft__text_format(t, "</dd></div>\n");
}

static void add_change(weft__text *t, const char *name, double first, double last)
{
    char a[WEFT__NUMBER_TEXT], b[WEFT__NUMBER_TEXT];
    open_card(t, name);
    weft__text_format(t, "%s &rarr; %s", weft__decimals(first, 4, a), weft__decimals(last, 4, b));
}

/* A card of the smoothed values of a metric. */
static void add_smoothed(weft__text *t, const weft_history *h, const char *metric, const char *name)
{
    weft_curve c;
    if (!weft__history_smoothed(h, metric, &c))
        return;
    add_change(t, name, c.y[0], c.y[c.n - 1]);
    weft__text_format(t, "<small>smoothed</small>");
    close_card(t);
    weft_free((void *)c.y);
}

static void add_general(weft__text *t, const weft_history *h)
{
    char change[WEFT__NUMBER_TEXT];
    const weft__summary s = weft__history_summary(h, "general_loss");
    if (s.n < 2)
        return;
    const double percent = 100 * (s.last / s.first - 1);
    add_change(t, "Loss of a general text", s.first, s.last);
    weft__text_format(t, "<small>%s%s%%%s</small>", percent > 0 ? "+" : "",
                      weft__decimals(percent, 1, change),
                      percent >= 10 ? ": the model forgets" : "");
    close_card(t);
}

static void add_outcome(weft__text *t, const weft_history *h)
{
    char number[WEFT__NUMBER_TEXT];
    const weft__outcome o = weft__history_outcome(h);
    const weft__summary s = weft__history_summary(h, "validation_accuracy");
    if (o.what) {
        add_change(t, o.rises ? "Validation reward" : "Validation loss", o.first, o.last);
        if (!isnan(o.best)) {
            weft__text_format(t, "<small>best %s after update ", weft__decimals(o.best, 4, number));
            weft__page_count(t, o.best_at);
            weft__text_format(t, "</small>");
        }
        close_card(t);
    }
    if (s.n > 0) {
        add_change(t, "Validation accuracy", s.first, s.last);
        close_card(t);
    }
}

/* Adds the last value of a count. */
static void add_small(weft__text *t, const weft__summary *s, const char *unit)
{
    if (s->n == 0)
        return;
    weft__text_format(t, "<small>");
    weft__page_count(t, s->last);
    weft__text_format(t, " %s</small>", unit);
}

/* Updates, time and memory so far. */
static void add_costs(weft__text *t, const weft_history *h)
{
    const double planned = weft__history_number(h, "options", "steps");
    const weft__summary loss = weft__history_summary(h, "lr"),
                        seconds = weft__history_summary(h, "seconds"),
                        tokens = weft__history_summary(h, "total_tokens"),
                        speed = weft__history_summary(h, "tokens_per_second"),
                        memory = weft__history_summary(h, "peak_memory");
    const weft_curve *updates = weft_history_find(h, "lr");
    open_card(t, "Updates");
    weft__page_count(t, loss.n > 0 ? updates->x[updates->n - 1] : 0);
    if (isfinite(planned)) {
        weft__text_format(t, " of ");
        weft__page_count(t, planned);
    }
    add_small(t, &tokens, "tokens");
    close_card(t);
    if (seconds.n > 0) {
        open_card(t, "Time");
        weft__page_time(t, seconds.last);
        add_small(t, &speed, "tokens/s");
        close_card(t);
    }
    if (memory.n > 0) {
        open_card(t, "Peak memory");
        weft__page_bytes(t, memory.most);
        close_card(t);
    }
}

static void add_cards(weft__text *t, const weft_history *h)
{
    weft__text_format(t, "<dl class=\"cards\">\n");
    add_outcome(t, h);
    if (weft_history_find(h, "reward"))
        add_smoothed(t, h, "reward", "Mean reward");
    else
        add_smoothed(t, h, "loss", "Training loss");
    add_smoothed(t, h, "rewards/accuracies", "Reward accuracy");
    add_general(t, h);
    add_costs(t, h);
    weft__text_format(t, "</dl>\n");
}

/* ---- the next commands ---------------------------------------------------------------------- */

/* Adds a command line, whose words are ended by NULL. */
static void add_command(weft__text *t, const char *what, const char *const *words)
{
    weft__text_format(t, "<b># %s</b>\nweft", what);
    for (; *words; words++) {
        char *quoted = weft_malloc(WEFT__SHELL_ROOM(strlen(*words)));
        if (quoted == NULL) {
            t->failed = true;
            return;
        }
        weft__text_format(t, " ");
        weft__page_escape(t, weft__shell_quote(*words, quoted));
        weft_free(quoted);
    }
    weft__text_format(t, "\n");
}

#define COMMAND(t, what, ...) add_command(t, what, (const char *const[]){__VA_ARGS__, NULL})

static void add_next(weft__text *t, const weft_history *h)
{
    char steps[WEFT__NUMBER_TEXT];
    const weft__outcome o = weft__history_outcome(h);
    weft_run_use uses[WEFT_MOST_USES];
    const int n = weft_history_uses(h, uses);
    const double planned = weft__history_number(h, "options", "steps");
    weft__text_format(t, "<h2>Next</h2>\n");
    if (h->has_best && o.what)
        weft__text_format(t, "<p class=\"note\">best has the %s %s, last the newest weights.</p>\n",
                          o.rises ? "highest" : "lowest", o.what);
    weft__text_format(t, "<pre>");
    for (int i = 0; i < n; i++)
        add_command(t, uses[i].purpose, uses[i].words);
    if (weft__history_member(h, NULL, "command")) {
        const bool over = strcmp(weft__history_text(h, NULL, "state"), "finished") == 0;
        if (over && isfinite(planned))
            COMMAND(t, "make more updates", "train", "--out", h->folder, "--resume", "--steps",
                    weft__number(2 * planned, steps));
        else
            COMMAND(t, "continue", "train", "--out", h->folder, "--resume");
    }
    COMMAND(t, "beside another run", "report", h->folder, "OTHER");
    COMMAND(t, "for other programs", "report", h->folder, "--csv", "run.csv", "--tensorboard",
            "runs");
    weft__text_format(t, "</pre>\n");
}

/* ---- the page ------------------------------------------------------------------------------- */

static weft_status write_page(weft_history *h, const char *path)
{
    weft__text t = {0};
    const char *const label = h->folder;
    add_head(&t, h);
    add_verdict(&t, h);
    add_cards(&t, h);
    add_next(&t, h);
    weft__text_format(&t, "<h2>Curves</h2>\n");
    weft__panels_draw(&t, &h, &label, 1);
    weft__report_samples(&t, h);
    weft__report_tables(&t, h);
    weft__panels_list(&t, h);
    weft__page_end(&t);
    return weft__page_write(&t, path);
}

weft_status weft_histories_page(weft_history *const *runs, int n, const char *path)
{
    if (n < 1 || n > WEFT_MOST_HISTORIES)
        return weft_fail(WEFT_INVALID, "report: expected 1 to %d runs, got %d", WEFT_MOST_HISTORIES,
                         n);
    return n == 1 ? write_page(runs[0], path) : weft__report_compare(runs, n, path);
}

weft_status weft_run_report(const char *folder)
{
    weft_history *h;
    weft_status status = weft_history_load(folder, &h);
    char *path = status == WEFT_OK ? weft_format("%s/report.html", folder) : NULL;
    if (status == WEFT_OK)
        status = path ? weft_histories_page(&h, 1, path) : weft__out_of_memory("report", NULL);
    weft_free(path);
    weft_history_free(h);
    return status;
}
