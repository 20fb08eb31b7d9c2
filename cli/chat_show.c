/* cli/chat_show.c -- output of weft chat: an answer as it is generated, or events as JSON lines. */
#include <string.h>

#include "cli/chat.h"

/* ---- lines of JSON -------------------------------------------------------------------------- */

static void member(const char *key, const char *text)
{
    printf(", \"%s\": ", key);
    if (text != NULL)
        cli_json_text(stdout, text, strlen(text));
    else
        fputs("null", stdout);
}

static void write_stats(const weft_session_stats *s)
{
    printf(", \"reason\": \"%s\", \"detail\": \"%s\", \"generations\": %lld, \"prompt_tokens\": "
           "%lld, \"cached_tokens\": %lld, \"tokens\": %lld, \"tool_calls\": %lld, "
           "\"pending_calls\": %lld",
           weft_finish_name(s->last.reason), weft_finish_detail_name(s->last.detail),
           (long long)s->generations, (long long)s->prompt_tokens, (long long)s->last.cached_tokens,
           (long long)s->tokens, (long long)s->tool_calls, (long long)s->pending_calls);
    printf(", \"first_token_seconds\": %.6g, \"prompt_per_second\": %.6g, \"decode_per_second\": "
           "%.6g, \"peak_memory\": %lld, \"shifts\": %lld",
           s->last.first_token_seconds, s->last.prompt_per_second, s->last.decode_per_second,
           (long long)s->last.peak_memory, (long long)s->last.shifts);
}

/* `place` NULL: a server's. */
static void write_event(const cli_place *place, const weft_session_event *e)
{
    static const char *const names[] = {"text",       "reasoning", "tool_call", "tool_result",
                                        "structured", "done",      "note"};
    printf("{\"event\": \"%s\"", names[e->kind]);
    if (e->attempt > 0)
        printf(", \"attempt\": %lld", (long long)e->attempt);
    if (e->kind == WEFT_SESSION_TOOL_CALL || e->kind == WEFT_SESSION_TOOL_RESULT) {
        member("name", e->name);
        printf(", \"arguments\": %s", e->arguments);
        member("id", e->id);
    }
    if (e->kind == WEFT_SESSION_STRUCTURED)
        printf(", \"document\": %s", e->text);
    else if (e->kind != WEFT_SESSION_TOOL_CALL && e->kind != WEFT_SESSION_DONE)
        member("text", e->text);
    if (e->kind == WEFT_SESSION_DONE) {
        write_stats(e->stats);
        if (place != NULL)
            cli_place_json(stdout, place);
    }
    puts("}");
}

/* ---- texts ---------------------------------------------------------------------------------- */

static void set_dim(chat_run *run, bool dim)
{
    if (dim == run->dim)
        return;
    if (run->color)
        fputs(dim ? "\033[2m" : "\033[0m", stdout);
    if (!dim && run->started)
        fputs("\n\n", stdout);
    run->dim = dim;
}

/* Prints a note about the answer on a separate line. */
static void remark(chat_run *run, const char *before, const char *what, const char *after)
{
    set_dim(run, false);
    printf("%s%s", run->started ? "\n" : "", run->color ? "\033[2m" : "");
    cli_write_text(before, strlen(before));
    cli_write_text(what, strlen(what));
    cli_write_text(after, strlen(after));
    puts(run->color ? "\033[0m" : "");
    run->started = false;
}

/* The user typed the tool's result, so only errors are shown. */
static void show_call(chat_run *run, const weft_session_event *e)
{
    if (e->kind == WEFT_SESSION_TOOL_CALL)
        remark(run, e->name, " ", e->arguments);
    else if (e->failed)
        remark(run, "failed: ", e->text, "");
}

/* Without a terminal only the final document of a structured answer is printed, not the text of its
 * attempts. */
static void show_text(chat_run *run, const weft_session_event *e)
{
    if (!run->person && run->schema != NULL)
        return;
    if (e->attempt != run->attempt) {
        run->attempt = e->attempt;
        remark(run, "(", "does not match the schema; trying again", ")");
    }
    set_dim(run, false);
    cli_write_text(e->text, e->length);
    run->started = true;
}

bool chat_show_event(void *context, const weft_session_event *event)
{
    chat_run *run = context;
    if (run->values->json) {
        write_event(run->server == NULL ? &run->values->place : NULL, event);
        return fflush(stdout) == 0;
    }
    switch (event->kind) {
    case WEFT_SESSION_TEXT:
        show_text(run, event);
        break;
    case WEFT_SESSION_REASONING:
        if (run->person) {
            set_dim(run, true);
            cli_write_text(event->text, event->length);
            run->started = true;
        }
        break;
    case WEFT_SESSION_TOOL_CALL:
    case WEFT_SESSION_TOOL_RESULT:
        show_call(run, event);
        break;
    case WEFT_SESSION_STRUCTURED:
        if (!run->person) {
            cli_write_text(event->text, event->length);
            run->started = true;
        }
        break;
    case WEFT_SESSION_NOTE:
        cli_schema_notes(run->values->json_schema, event->text);
        break;
    case WEFT_SESSION_DONE:
        break;
    }
    return fflush(stdout) == 0;
}

void chat_show_start(chat_run *run)
{
    run->dim = run->started = false;
    run->attempt = 0;
}

void chat_show_end(chat_run *run)
{
    const weft_session_stats *s = &run->stats;
    if (run->values->json)
        return;
    if (run->dim && run->color)
        fputs("\033[0m", stdout);
    run->dim = false;
    if (run->started)
        putchar('\n');
    if (run->person && s->last.reason == WEFT_FINISH_CANCELLED)
        puts("(stopped)");
    fflush(stdout);
    if (s->last.reason == WEFT_FINISH_LENGTH)
        fprintf(stderr, "weft: the answer was cut off at %s tokens: %s\n",
                cli_count(s->last.tokens),
                s->last.detail == WEFT_FINISH_POSITIONS ? "the model has no more positions"
                                                        : "--max-tokens N allows more");
    if (s->left_out > run->left_out)
        fprintf(stderr,
                "weft: the conversation exceeds the model's positions: its first %s messages are "
                "left out of the prompt\n",
                cli_count(s->left_out));
    run->left_out = s->left_out;
    if (s->tool_limit)
        fputs("weft: stopped: the model reached the limit of tool calls\n", stderr);
    if (run->values->stats)
        chat_show_stats(run, stderr);
}

void chat_show_failure(chat_run *run)
{
    run->failures++;
    if (run->values->json) {
        fputs("{\"event\": \"error\"", stdout);
        member("status", weft_status_name(weft_error_status()));
        member("message", weft_error_message());
        puts("}");
        fflush(stdout);
    }
    cli_status(weft_error_status());
}

void chat_show_stats(const chat_run *run, FILE *file)
{
    const weft_session_stats *s = &run->stats;
    fprintf(file,
            "prompt %s tokens, %s of them kept, the others %.1f tokens/s, first token after %.3f "
            "s; generated %s tokens, %.1f "
            "tokens/s; peak memory %s; finished: %s\n",
            cli_count(s->prompt_tokens), cli_count(s->last.cached_tokens),
            s->last.prompt_per_second, s->last.first_token_seconds, cli_count(s->tokens),
            s->last.decode_per_second, cli_bytes(s->last.peak_memory),
            weft_finish_name(s->last.reason));
    if (s->last.shifts > 0)
        fprintf(file, "context shifts: %s\n", cli_count(s->last.shifts));
}
