/* serve/events.c -- the events of fine-tuning jobs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/teach.h"
#include "weft/memory.h"

static int64_t step_of(json_object *event)
{
    return serve_record_number(json_object_object_get(event, "data"), "step");
}

static void put_member(serve_text *out, json_object *line, const char *from, const char *to)
{
    json_object *value = json_object_object_get(line, from);
    if (value != NULL)
        serve_put(out, ", '%r': %o", to, value);
}

/* The event of a line of metrics.jsonl. */
static json_object *make_event(json_object *record, json_object *line)
{
    json_object *job = json_object_object_get(record, "object");
    json_object *validation = json_object_object_get(line, "validation_loss"),
                *loss = json_object_object_get(line, "loss");
    const int64_t step = serve_record_number(line, "step"),
                  steps = serve_record_number(record, "steps");
    const int64_t seconds =
        (int64_t)json_object_get_double(json_object_object_get(line, "seconds"));
    char message[160], validated[64] = "";
    serve_text out = {0};
    if (validation != NULL)
        snprintf(validated, sizeof validated, "%svalidation loss=%.4f", loss != NULL ? ", " : "",
                 json_object_get_double(validation));
    if (loss != NULL)
        snprintf(message, sizeof message, "Step %lld/%lld: training loss=%.4f%s", (long long)step,
                 (long long)steps, json_object_get_double(loss), validated);
    else
        snprintf(message, sizeof message, "Step %lld/%lld: %s", (long long)step, (long long)steps,
                 validated);
    serve_put(&out,
              "{'id': \"ftevent-%r-step-%i\", 'object': 'fine_tuning.job.event', 'created_at': %i, "
              "'level': 'info', 'message': %s, 'type': 'metrics', 'data': {'step': %i, "
              "'total_steps': %i",
              serve_record_text(record, "id") + strlen("ftjob-"), step,
              serve_record_number(record, "started_at") + seconds, message, step, steps);
    put_member(&out, line, "loss", "train_loss");
    put_member(&out, line, "validation_loss", "valid_loss");
    put_member(&out, line, "lr", "learning_rate");
    put_member(&out, line, "grad_norm", "grad_norm");
    put_member(&out, line, "tokens_per_second", "tokens_per_second");
    put_member(&out, line, "rewards/accuracies", "rewards_accuracy");
    serve_put(&out, "}}");
    json_object *event = out.failed || job == NULL ? NULL : serve_parse(out.at);
    serve_text_free(&out);
    return event;
}

/* A walk through the events, newest first. */
typedef struct walk {
    json_object *messages, *out; /* out: what is kept, newest first */
    size_t at;                   /* messages before this one have not been visited */
    const char *after;           /* the page comes after this id; NULL: it has been found */
    size_t most;
} walk;

static bool is_full(const walk *w)
{
    return json_object_array_length(w->out) >= w->most;
}

/* Visits an event, which is taken over. */
static void visit(walk *w, json_object *event)
{
    const char *id = serve_record_id(event);
    if (w->after != NULL && (id == NULL || strcmp(id, w->after) != 0)) {
        json_object_put(event);
        return;
    }
    w->after = NULL;
    if (event != NULL && json_object_array_add(w->out, event) != 0)
        json_object_put(event);
}

/* Visits the messages that were logged after an update. */
static void visit_messages(walk *w, int64_t step)
{
    while (w->at > 0 && !is_full(w)) {
        json_object *message = json_object_array_get_idx(w->messages, w->at - 1);
        if (step_of(message) < step)
            return;
        visit(w, json_object_get(message));
        w->at--;
    }
}

/* ---- metrics.jsonl, read in pieces ---------------------------------------------------------- */

enum { LINE = 64 << 10 }; /* a longer line gives no event */

typedef struct lines {
    int file;
    char *text; /* LINE + 1 bytes */
} lines;

/* Reads bytes [from, to), at most LINE, into the text. Returns their number. */
static size_t read_piece(const lines *l, off_t from, off_t to)
{
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && from + (off_t)n<to; n += got> 0 ? (size_t)got : 0)
        got = pread(l->file, l->text + n, (size_t)(to - from) - n, from + (off_t)n);
    l->text[n] = '\0';
    return n;
}

/* The end of the last whole line before an offset. */
static off_t last_end(const lines *l, off_t to)
{
    const off_t from = to > LINE ? to - LINE : 0;
    const char *end = memrchr(l->text, '\n', read_piece(l, from, to));
    return end != NULL ? from + (end + 1 - l->text) : from;
}

/* The line that ends at *end, which moves to its beginning. NULL: no JSON. */
static json_object *line_before(const lines *l, off_t *end)
{
    const off_t from = *end > LINE ? *end - LINE : 0;
    const size_t n = read_piece(l, from, *end);
    if (n > 0 && l->text[n - 1] == '\n')
        l->text[n - 1] = '\0';
    const char *before = n > 0 ? memrchr(l->text, '\n', n - 1) : NULL;
    const char *line = before != NULL ? before + 1 : l->text;
    *end = from + (line - l->text);
    return serve_parse(line);
}

/* The end of the lines of updates up to `step`, which are in order; `all` if one is malformed. */
static off_t end_of_step(const lines *l, off_t all, int64_t step)
{
    off_t low = 0, high = all; /* those before `low` are, those from `high` on are not */
    while (low < high) {
        const off_t middle = low + (high - low) / 2, end = last_end(l, middle),
                    at = end > low ? end : low; /* where the line of `middle` begins */
        char *stop = memchr(l->text, '\n', read_piece(l, at, high - at > LINE ? at + LINE : high));
        if (stop == NULL)
            return all;
        *stop = '\0';
        json_object *line = serve_parse(l->text);
        const int64_t found = line != NULL ? serve_record_number(line, "step") : -1;
        json_object_put(line);
        if (found < 0)
            return all;
        if (found <= step)
            low = at + (stop + 1 - l->text);
        else
            high = at;
    }
    return low;
}

/* Visits the events of the lines before an offset. */
static void visit_metrics(walk *w, json_object *record, const lines *l, off_t end)
{
    while (end > 0 && !is_full(w)) {
        json_object *line = line_before(l, &end);
        json_object *event = line != NULL ? make_event(record, line) : NULL;
        if (event != NULL) {
            visit_messages(w, step_of(event));
            visit(w, event);
        }
        json_object_put(line);
    }
}

/* The update of an event, from its id or its message; -1: unknown. */
static int64_t step_of_id(json_object *messages, const char *id)
{
    for (size_t i = 0; i < json_object_array_length(messages); i++) {
        json_object *message = json_object_array_get_idx(messages, i);
        const char *own = serve_record_id(message);
        if (own != NULL && strcmp(own, id) == 0)
            return step_of(message);
    }
    const char *mark = strstr(id, "-step-");
    return mark != NULL ? strtoll(mark + strlen("-step-"), NULL, 10) : -1;
}

/* Visits the metrics of a run, of which the ones newer than the page are skipped. */
static void visit_run(walk *w, json_object *record, const char *folder)
{
    char *path = weft_format("%s/metrics.jsonl", folder);
    lines l = {.file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1,
               .text = weft_malloc(LINE + 1)};
    struct stat what;
    if (l.file >= 0 && l.text != NULL && fstat(l.file, &what) == 0) {
        const off_t all = last_end(&l, what.st_size); /* what follows is not whole yet */
        const int64_t step = w->after != NULL ? step_of_id(w->messages, w->after) : -1;
        visit_metrics(w, record, &l, step >= 0 ? end_of_step(&l, all, step) : all);
    }
    if (l.file >= 0)
        close(l.file); /* absent before the first update */
    weft_free(l.text);
    weft_free(path);
}

json_object *serve_job_events(const char *folder, json_object *record, const char *after,
                              size_t most)
{
    json_object *messages = json_object_object_get(record, "events");
    walk w = {.messages = messages,
              .out = json_object_new_array(),
              .at = json_object_array_length(messages),
              .after = after,
              .most = most + 2}; /* that of `after`, and one more */
    json_object *events = json_object_new_array();
    if (w.out != NULL)
        visit_run(&w, record, folder);
    if (w.out != NULL)
        visit_messages(&w, INT64_MIN);
    for (size_t i = w.out != NULL ? json_object_array_length(w.out) : 0; events != NULL && i > 0;)
        json_object_array_add(events, json_object_get(json_object_array_get_idx(w.out, --i)));
    json_object_put(w.out);
    return events;
}
