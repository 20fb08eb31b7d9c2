/* train/run/metrics.c -- metrics.jsonl and the loss curve of a run. */
#include "train/run/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/eval/pause.h"
#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/list.h"
#include "train/run/number.h"
#include "weft/tool/run.h"

/* The points of a curve. */
typedef struct series {
    double *x, *y;
    int n;
} series;

struct weft__metrics {
    const char *folder;
    int file;
    off_t length;       /* length of the complete lines in the file */
    weft__text waiting; /* lines that have not been written yet */
    bool warned;
    bool rewards; /* validation measures a reward */
    char *last;   /* last line after cut(), without its newline; NULL: none */
    int64_t last_step;
    series training, validated;
};

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status fail_file(const weft__metrics *m, const char *what)
{
    return weft_fail(WEFT_IO, "%s/metrics.jsonl: %s: %s", m->folder, what, strerror(errno));
}

/* Writes the waiting lines. If the disk is full, a partly written line is truncated again. */
static weft_status write_waiting(weft__metrics *m)
{
    size_t done = 0;
    while (done < m->waiting.n) {
        const ssize_t n = write(m->file, m->waiting.at + done, m->waiting.n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            const weft_status status = fail_file(m, "write");
            if (done > 0 && (ftruncate(m->file, m->length) != 0 ||
                             lseek(m->file, m->length, SEEK_SET) != m->length))
                return fail_file(m, "write and truncate");
            return status;
        }
        done += (size_t)n;
    }
    m->length += (off_t)done;
    m->waiting.n = 0;
    return WEFT_OK;
}

static void add_number(weft__text *t, const char *key, double value)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, ", \"%s\": %s", key, weft__number(value, number));
}

static void add_samples(weft__text *t, const weft_train_report *r)
{
    for (int i = 0; i < r->n_samples; i++) {
        weft__text_format(t, i == 0 ? ", \"samples\": [" : ", ");
        weft__text_format(t, "{\"prompt\": ");
        weft__text_quote(t, r->samples[i].prompt);
        weft__text_format(t, ", \"text\": ");
        weft__text_quote(t, r->samples[i].text);
        if (r->samples[i].rewarded)
            add_number(t, "reward", r->samples[i].reward);
        weft__text_format(t, i + 1 == r->n_samples ? "}]" : "}");
    }
}

/* One of several rewards, whose name may be any text. */
static void add_part(weft__text *t, const char *name, const char *what, double value)
{
    char number[WEFT__NUMBER_TEXT], *key = weft_format("rewards/%s%s", name, what);
    weft__text_format(t, ", ");
    weft__text_quote(t, key ? key : "rewards");
    weft__text_format(t, ": %s", weft__number(value, number));
    t->failed = t->failed || key == NULL;
    weft_free(key);
}

static void add_policy(weft__text *t, const weft_policy_report *p)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"completions", (double)p->completions},
                   {"completion_tokens", (double)p->tokens},
                   {"completion_length", p->length},
                   {"truncated", p->truncated},
                   {"reward", p->reward},
                   {"reward_std", p->reward_std},
                   {"equal_groups", p->equal_groups},
                   {"kl", p->kl},
                   {"entropy", p->entropy},
                   {"sampler_mismatch", p->mismatch},
                   {"ratio", p->ratio},
                   {"clipped_low", p->clipped_low},
                   {"clipped_high", p->clipped_high}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(t, numbers[i].key, numbers[i].value);
    for (int i = 0; i < p->n_parts; i++) {
        add_part(t, p->parts[i].name, "", p->parts[i].mean);
        add_part(t, p->parts[i].name, "/std", p->parts[i].std);
    }
}

static void add_validation(weft__text *t, const weft_train_report *r, bool rewards)
{
    if (!isnan(r->general_loss))
        add_number(t, "general_loss", r->general_loss);
    if (isnan(r->validation_loss))
        return;
    if (rewards)
        add_number(t, "validation_reward", -r->validation_loss);
    else
        add_number(t, "validation_loss", r->validation_loss);
    if (!isnan(r->validation_accuracy))
        add_number(t, "validation_accuracy", r->validation_accuracy);
}

static void add_line(weft__text *t, const weft_train_report *r, bool rewards)
{
    weft__text_format(t, "{\"step\": %lld", (long long)r->step);
    if (r->step > 0) {
        add_number(t, "loss", r->loss);
        add_number(t, "grad_norm", r->grad_norm);
        add_number(t, "lr", r->lr);
        weft__text_format(t, ", \"applied\": %s, \"tokens\": %lld, \"total_tokens\": %lld",
                          r->applied ? "true" : "false", (long long)r->tokens,
                          (long long)r->total_tokens);
        add_number(t, "epoch", r->epoch);
        add_number(t, "tokens_per_second", r->tokens_per_second);
    }
    add_number(t, "seconds", r->seconds);
    weft__text_format(t, ", \"peak_memory\": %lld", (long long)r->peak_memory);
    if (r->rewards.pairs > 0) {
        add_number(t, "rewards/chosen", r->rewards.chosen);
        add_number(t, "rewards/rejected", r->rewards.rejected);
        if (!isnan(r->rewards.accuracy))
            add_number(t, "rewards/accuracies", r->rewards.accuracy);
        add_number(t, "rewards/margins", r->rewards.margin);
    }
    if (r->rewards.policy.completions > 0)
        add_policy(t, &r->rewards.policy);
    add_validation(t, r, rewards);
    add_samples(t, r);
    weft__text_format(t, "}\n");
}

/* ---- the curve ------------------------------------------------------------------------------ */

static bool add_point(series *s, double x, double y)
{
    if (!weft__list_more(s->x, s->n) || !weft__list_more(s->y, s->n))
        return false;
    s->x[s->n] = x;
    s->y[s->n++] = y;
    return true;
}

static bool add_points(weft__metrics *m, const weft_train_report *r)
{
    const double step = (double)r->step;
    return (r->step == 0 || isnan(r->loss) || add_point(&m->training, step, r->loss)) &&
           (isnan(r->validation_loss) || m->rewards ||
            add_point(&m->validated, step, r->validation_loss));
}

weft_status weft__metrics_draw(const weft__metrics *m)
{
    char *path = weft_format("%s/loss.svg", m->folder);
    if (path == NULL)
        return weft__out_of_memory("training", "the run's records");
    const series *t = &m->training, *v = &m->validated;
    const weft_curve curves[] = {
        {.name = "training", .x = t->x, .y = t->y, .n = t->n},
        {.name = "validation", .x = v->x, .y = v->y, .n = v->n, .dots = true},
    };
    const weft_status status =
        weft_curves_save(path, "Loss (nats per token)", "update", curves, v->n > 0 ? 2 : 1);
    weft_free(path);
    return status;
}

/* ---- opening and adding --------------------------------------------------------------------- */

/* Reads a line; false: it is malformed. */
static bool read_line(const char *line, size_t size, weft_train_report *r)
{
    weft__json_doc doc = {.root = NULL};
    *r = (weft_train_report){
        .loss = NAN, .validation_loss = NAN, .validation_accuracy = NAN, .general_loss = NAN};
    weft_status status = weft__json_parse(line, size, "metrics.jsonl", &doc);
    if (status == WEFT_OK) {
        const weft__json root = weft__json_root(&doc);
        status = weft__json_get_int(&root, "step", &r->step);
        if (status == WEFT_OK)
            status = weft__json_find_number(&root, "loss", &r->loss);
        if (status == WEFT_OK)
            status = weft__json_find_number(&root, "validation_loss", &r->validation_loss);
    }
    weft__json_free(&doc);
    return status == WEFT_OK;
}

/* Adds the lines up to update `most` to the curves, and returns their length in bytes. A malformed
 * line between them stays in the file. */
static off_t keep_lines(weft__metrics *m, const char *text, size_t size, int64_t most)
{
    const char *at = text, *end = text + size, *kept = text, *newline;
    for (; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1) {
        weft_train_report r;
        if (!read_line(at, (size_t)(newline - at), &r))
            continue;
        if (r.step > most || !add_points(m, &r))
            break;
        m->last_step = r.step;
        weft_free(m->last);
        m->last = weft_format("%.*s", (int)(newline - at), at);
        kept = newline + 1;
    }
    return kept - text;
}

static weft_status cut(weft__metrics *m, const char *path, int64_t step)
{
    char *text;
    size_t size;
    if (step >= 0) {
        const weft_status status = weft_file_read(path, (size_t)1 << 40, &text, &size);
        if (status != WEFT_OK)
            return status;
        m->length = keep_lines(m, text, size, step);
        weft_free(text);
    }
    if (ftruncate(m->file, m->length) != 0 || lseek(m->file, m->length, SEEK_SET) != m->length)
        return fail_file(m, "cannot be cut back");
    return WEFT_OK;
}

void weft__metrics_sync(const weft__metrics *m)
{
    weft__pause(WEFT_PAUSE_DISK);
    (void)fsync(m->file);
    weft__pause(WEFT_PAUSE_DISK_DONE);
}

weft_status weft__metrics_open(const char *folder, int64_t step, bool rewards, weft__metrics **out)
{
    *out = NULL;
    weft__metrics *m = weft_calloc(1, sizeof *m);
    char *path = weft_format("%s/metrics.jsonl", folder);
    if (m == NULL || path == NULL) {
        weft_free(m);
        weft_free(path);
        return weft__out_of_memory("training", "the run's records");
    }
    m->folder = folder;
    m->rewards = rewards;
    weft_status status = weft__file_open(path, O_RDWR | O_CREAT, &m->file);
    if (status == WEFT_OK)
        status = cut(m, path, step);
    weft_free(path);
    if (status == WEFT_OK)
        *out = m;
    else
        weft__metrics_free(m);
    return status;
}

/* Adds a validation to the last line of the file, which was written without it. */
static void add_to_last(weft__metrics *m, const weft_train_report *report)
{
    const size_t n = strlen(m->last);
    const off_t start = m->length - (off_t)n - 1;
    if (lseek(m->file, start, SEEK_SET) == start) {
        m->length = start;
        weft__text_append(&m->waiting, m->last, n - 1); /* without its closing brace */
        add_validation(&m->waiting, report, m->rewards);
        add_samples(&m->waiting, report);
        weft__text_append(&m->waiting, "}\n", 2);
    }
}

weft_status weft__metrics_add(weft__metrics *m, const weft_train_report *report)
{
    if (m->last && report->step > 0 && report->step == m->last_step)
        add_to_last(m, report);
    else
        add_line(&m->waiting, report, m->rewards);
    weft_free(m->last);
    m->last = NULL;
    if (m->waiting.failed || !add_points(m, report))
        return weft__out_of_memory("training", "the run's records");
    if (write_waiting(m) != WEFT_OK && !m->warned) {
        m->warned = true;
        weft_log_message(WEFT_LOG_WARNING, "%s; training continues", weft_error_message());
    }
    return WEFT_OK;
}

weft_status weft__metrics_finish(weft__metrics *m)
{
    const weft_status written = write_waiting(m);
    return written == WEFT_OK ? weft__metrics_draw(m) : written;
}

void weft__metrics_free(weft__metrics *m)
{
    if (m == NULL)
        return;
    if (m->file >= 0)
        close(m->file);
    weft_free(m->waiting.at);
    weft_free(m->last);
    weft_free(m->training.x);
    weft_free(m->training.y);
    weft_free(m->validated.x);
    weft_free(m->validated.y);
    weft_free(m);
}
