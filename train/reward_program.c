/* train/reward_program.c -- a reward that a program computes, which exchanges JSON lines. */
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/child.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "train/reward.h"
#include "weft/memory.h"

struct weft__reward_program {
    char *command, *name;
    double seconds;
    weft__child *child; /* NULL: not running */
};

weft_status weft__reward_program_new(const char *command, const char *name, double seconds,
                                     weft__reward_program **out)
{
    weft__reward_program *p = *out = weft_calloc(1, sizeof *p);
    if (p == NULL)
        return weft__out_of_memory("reward", NULL);
    p->command = weft_strdup(command);
    p->name = weft_strdup(name);
    p->seconds = seconds;
    return p->command && p->name ? WEFT_OK : weft__out_of_memory("reward", NULL);
}

void weft__reward_program_free(weft__reward_program *p)
{
    if (p == NULL)
        return;
    weft__child_end(p->child, NULL);
    weft_free(p->command);
    weft_free(p->name);
    weft_free(p);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* weft__child_idle */
static weft_status check_cancel(void *context)
{
    const weft_cancel *cancel = context;
    return cancel && weft_cancel_is_set(cancel)
               ? weft_fail(WEFT_CANCELLED, "training was stopped while it waited for rewards")
               : WEFT_OK;
}

static weft_status send_request(const weft__reward_program *p, const weft_completion *c, size_t id,
                                const weft_cancel *cancel)
{
    weft__text line = {0};
    weft__text_format(&line, "{\"id\": %zu, \"prompt\": ", id);
    weft__text_quote(&line, c->prompt ? c->prompt : "");
    weft__text_format(&line, ", \"completion\": ");
    weft__text_quote(&line, c->text);
    weft__text_format(&line, ", \"row\": %s}", c->row ? c->row : "null");
    const weft_status status =
        line.failed ? weft__out_of_memory(p->name, "a completion")
                    : weft__child_send(p->child, check_cancel, (void *)cancel, line.at, line.n);
    weft_free(line.at);
    return status;
}

/* Reads the reward of an answer: a finite number, or null. */
static weft_status read_reward(const weft__json *answer, double *out)
{
    weft__json reward;
    json_object *ignored;
    *out = NAN;
    if (json_object_object_get_ex(answer->value, "reward", &ignored) && ignored == NULL)
        return WEFT_OK;
    weft_status status = weft__json_get(answer, "reward", &reward);
    if (status == WEFT_OK)
        status = weft__json_as_number(&reward, out);
    return status == WEFT_OK && !isfinite(*out)
               ? weft__json_fail(&reward, WEFT_INVALID, "expected a finite number or null, got %g",
                                 *out)
               : status;
}

weft_status weft__reward_answer(const char *line, size_t n, const char *name, bool *missing,
                                size_t count, double *out, int step)
{
    weft__json_doc doc = {.root = NULL};
    int64_t id = -1;
    double reward = NAN;
    weft_status status = weft__json_parse(line, n, name, &doc);
    const weft__json root = weft__json_root(&doc);
    if (status == WEFT_OK)
        status = weft__json_as_object(&root);
    if (status == WEFT_OK)
        status = weft__json_get_int(&root, "id", &id);
    if (status == WEFT_OK && (id < 0 || (size_t)id >= count || !missing[id]))
        status = weft__json_fail(&root, WEFT_INVALID,
                                 "id: expected that of a completion without an answer, got %lld",
                                 (long long)id);
    if (status == WEFT_OK)
        status = read_reward(&root, &reward);
    weft__json_free(&doc);
    if (status == WEFT_OK) {
        out[id * step] = reward;
        missing[id] = false;
    }
    return status;
}

/* ---- completions ---------------------------------------------------------------------------- */

/* The answers to n completions. */
typedef struct answers {
    bool *missing;
    size_t n, left;
    double *out;
    int step;
} answers;

static weft_status take(weft__reward_program *p, answers *a, const char *line, size_t length)
{
    char *copy = weft_format("%.100s", line);
    weft_status status =
        weft__reward_answer(line, length, "answer", a->missing, a->n, a->out, a->step);
    if (status != WEFT_OK)
        status = weft__child_give_up(p->child, status, "%s, in the line '%s'", weft_error_message(),
                                     weft_printable(copy ? copy : ""));
    a->left -= status == WEFT_OK;
    weft_free(copy);
    return status;
}

/* Takes the answers that come while it sends, which would else fill their buffers. */
static weft_status exchange(weft__reward_program *p, const weft_completion *completions,
                            const weft_cancel *cancel, answers *a)
{
    const char *line;
    size_t length;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < a->n; i++) {
        status = send_request(p, &completions[i], i, cancel);
        while (status == WEFT_OK && weft__child_take(p->child, &line, &length))
            status = take(p, a, line, length);
    }
    while (status == WEFT_OK && a->left > 0) {
        status = weft__child_receive(p->child, check_cancel, (void *)cancel, &line, &length);
        if (status == WEFT_OK)
            status = take(p, a, line, length);
    }
    return status;
}

/* Adds the row of the first completion without an answer to the message. */
static weft_status name_row(const weft_completion *completions, size_t n, const bool *missing,
                            weft_status status)
{
    size_t first = 0;
    while (first + 1 < n && !missing[first])
        first++;
    char *why = weft_strdup(weft_error_message());
    status = weft_fail(status, "%s: completion %zu of the batch has no reward: %s",
                       completions[first].where, first + 1, why ? why : "");
    weft_free(why);
    return status;
}

weft_status weft__reward_program_score(weft__reward_program *p, const weft_completion *completions,
                                       size_t n, const weft_cancel *cancel, double *out, int step)
{
    const char *const argv[] = {"/bin/sh", "-c", p->command, NULL};
    bool *missing = weft_calloc(n + 1, sizeof *missing);
    answers a = {missing, n, n, out, step};
    weft_status status = missing ? WEFT_OK : weft__out_of_memory(p->name, "completions");
    if (missing)
        memset(missing, true, n);
    const char *line;
    size_t length;
    if (status == WEFT_OK && p->child == NULL)
        status = weft__child_start(argv, p->name, p->seconds, &p->child);
    else if (status == WEFT_OK && weft__child_take(p->child, &line, &length)) /* of earlier ids */
        status = weft__child_give_up(p->child, WEFT_INVALID,
                                     "expected one answer to each completion, got another one");
    if (status == WEFT_OK)
        status = exchange(p, completions, cancel, &a);
    if (status != WEFT_OK && n > 0 && missing && status != WEFT_CANCELLED)
        status = name_row(completions, n, missing, status);
    if (status != WEFT_OK) { /* its answers would be those to other completions */
        char *why = weft_strdup(weft_error_message());
        weft__child_kill(p->child);
        weft__child_end(p->child, NULL);
        p->child = NULL;
        status = weft_fail(status, "%s", why ? why : "");
        weft_free(why);
    }
    weft_free(missing);
    return status;
}
