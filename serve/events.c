/* serve/events.c -- the events of fine-tuning jobs. */
#include <stdio.h>
#include <string.h>

#include "serve/teach.h"
#include "weft/io.h"
#include "weft/memory.h"

static int64_t number_of(json_object *object, const char *key)
{
    return json_object_get_int64(json_object_object_get(object, key));
}

static int64_t step_of(json_object *event)
{
    return number_of(json_object_object_get(event, "data"), "step");
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
    const int64_t step = number_of(line, "step"), steps = number_of(record, "steps");
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
              number_of(record, "started_at") + seconds, message, step, steps);
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

/* Adds the messages from *at on that were logged before an update. */
static void add_messages(json_object *messages, size_t *at, int64_t step, json_object *out)
{
    for (; *at < json_object_array_length(messages); ++*at) {
        json_object *message = json_object_array_get_idx(messages, *at);
        if (step_of(message) >= step)
            return;
        json_object_array_add(out, json_object_get(message));
    }
}

json_object *serve_job_events(const serve_teacher *teacher, json_object *record)
{
    json_object *messages = json_object_object_get(record, "events");
    json_object *out = json_object_new_array();
    char *path = weft_format("%s/%s/metrics.jsonl", teacher->runs, serve_record_id(record));
    char *text = NULL;
    size_t at = 0;
    if (path != NULL)
        (void)weft_file_read(path, 0, &text, NULL); /* absent before the first update */
    for (char *line = text, *next; line != NULL && out != NULL; line = next) {
        next = strchr(line, '\n');
        if (next == NULL) /* not whole yet */
            break;
        *next++ = '\0';
        json_object *metrics = serve_parse(line);
        json_object *event = metrics != NULL ? make_event(record, metrics) : NULL;
        if (event != NULL) {
            add_messages(messages, &at, step_of(event), out);
            json_object_array_add(out, event);
        }
        json_object_put(metrics);
    }
    for (; out != NULL && at < json_object_array_length(messages); at++)
        json_object_array_add(out, json_object_get(json_object_array_get_idx(messages, at)));
    weft_free(text);
    weft_free(path);
    return out;
}
