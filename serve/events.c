/* serve/events.c -- the events of fine-tuning jobs. */
#include <stdio.h>
#include <string.h>

#include "serve/teach.h"
#include "weft/io.h"
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

/* Visits the events of the lines of metrics.jsonl. */
static void visit_metrics(walk *w, json_object *record, char *text, size_t n)
{
    char *end = memrchr(text, '\n', n); /* what follows is not whole yet */
    while (end != NULL && !is_full(w)) {
        *end = '\0';
        end = memrchr(text, '\n', (size_t)(end - text));
        json_object *line = serve_parse(end != NULL ? end + 1 : text);
        json_object *event = line != NULL ? make_event(record, line) : NULL;
        if (event != NULL) {
            visit_messages(w, step_of(event));
            visit(w, event);
        }
        json_object_put(line);
    }
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
    char *path = weft_format("%s/metrics.jsonl", folder), *text = NULL;
    size_t n = 0;
    if (path != NULL)
        (void)weft_file_read(path, 0, &text, &n); /* absent before the first update */
    if (w.out != NULL && text != NULL)
        visit_metrics(&w, record, text, n);
    if (w.out != NULL)
        visit_messages(&w, INT64_MIN);
    for (size_t i = w.out != NULL ? json_object_array_length(w.out) : 0; events != NULL && i > 0;)
        json_object_array_add(events, json_object_get(json_object_array_get_idx(w.out, --i)));
    json_object_put(w.out);
    weft_free(text);
    weft_free(path);
    return events;
}
