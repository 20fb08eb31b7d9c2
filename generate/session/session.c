/* generate/session/session.c -- a session: creation, settings, turns. */
#include "generate/session/session.h"

#include <string.h>

#include "core/io/json.h"
#include "core/options.h"
#include "weft/memory.h"

/* ---- creating -------------------------------------------------------------------------------- */

/* Tokens with which templates end a turn of the model. */
static const char *const turn_ends[] = {"<|im_end|>", "<end_of_turn>", "<turn|>",
                                        "<|eot_id|>", "<|eom_id|>",    "<|tool_response>"};
enum { TURN_ENDS = sizeof turn_ends / sizeof *turn_ends };

/* Reserves memory for the caller's stops and the ends of turns. */
static weft_status reserve_stop(weft_session *s)
{
    const weft_generate_options *o = &s->generate;
    const size_t ids = o->n_stop > 0 ? (size_t)o->n_stop : 0;
    const size_t texts = o->n_stop_texts > 0 ? (size_t)o->n_stop_texts : 0;
    weft_free(s->stop);
    weft_free(s->stop_texts);
    s->n_stop = s->n_stop_texts = 0;
    s->stop = weft_malloc((ids + TURN_ENDS) * sizeof *s->stop);
    s->stop_texts = weft_malloc((texts + TURN_ENDS) * sizeof *s->stop_texts);
    if (!s->stop || !s->stop_texts)
        return weft__session_no_memory();
    if (ids > 0)
        memcpy(s->stop, o->stop, ids * sizeof *s->stop);
    if (texts > 0)
        memcpy(s->stop_texts, o->stop_texts, texts * sizeof *s->stop_texts);
    s->n_stop = (int)ids;
    s->n_stop_texts = (int)texts;
    return WEFT_OK;
}

/* Adds the turn ends that occur in the template, as stop tokens if they are tokens. <|eom_id|> is
 * added along with <|eot_id|>. */
static weft_status fill_stop(weft_session *s)
{
    const char *source = weft_chat_source(s->chat, NULL);
    const weft_status status = reserve_stop(s);
    for (size_t i = 0; i < TURN_ENDS && source && !status && !s->generate.ignore_eos; i++) {
        const char *end = turn_ends[i];
        const bool written = strstr(source, end) != NULL;
        const bool implied = strcmp(end, "<|eom_id|>") == 0 && strstr(source, "<|eot_id|>");
        const int32_t id = s->tokenizer ? weft_tokenizer_token_to_id(s->tokenizer, end) : -1;
        if (id >= 0 && (written || implied))
            s->stop[s->n_stop++] = id;
        else if (written)
            s->stop_texts[s->n_stop_texts++] = end;
    }
    return status;
}

static weft_status keep_marks(weft_session *s, const char *open, const char *close)
{
    if (!open && !close)
        return WEFT_OK;
    if (!open || !close || !*open || !*close)
        return weft_fail(WEFT_INVALID,
                         "session: tool_open and tool_close: expected both, neither empty");
    s->tool_open = weft_strdup(open);
    s->tool_close = weft_strdup(close);
    return s->tool_open && s->tool_close ? WEFT_OK : weft__session_no_memory();
}

weft_status weft_session_new(weft_model *model, const weft_tokenizer *tokenizer,
                             const weft_chat *chat, const weft_session_options *options,
                             weft_session **out)
{
    static const weft_session_options defaults = {0};
    const weft_session_options *o = options ? options : &defaults;
    *out = NULL;
    if ((!model || !tokenizer) && !o->source)
        return weft_fail(WEFT_INVALID, "session: expected a model and a tokenizer, or a source of "
                                       "answers");
    if (o->max_prompt < 0)
        return weft_fail(WEFT_INVALID, "session: max_prompt: expected a number of at least 0");
    weft_session *s = weft_calloc(1, sizeof *s);
    if (!s)
        return weft__session_no_memory();
    *s = (weft_session){.model = model,
                        .tokenizer = tokenizer,
                        .chat = chat,
                        .generate = o->generate,
                        .no_prompt_cache = o->no_prompt_cache,
                        .thinking = o->thinking,
                        .max_rounds = weft__count_or_default(o->max_rounds, 8),
                        .max_prompt = o->max_prompt,
                        .source = o->source,
                        .source_context = o->source_context};
    s->has_markup = o->markup != NULL;
    if (o->markup)
        s->markup = *o->markup;
    s->messages = json_object_new_array();
    s->variables = o->variables ? weft_strdup(o->variables) : NULL;
    weft_status status =
        s->messages && !s->variables == !o->variables ? fill_stop(s) : weft__session_no_memory();
    if (!status)
        status = weft_session_set_system(s, o->system);
    if (!status)
        status = keep_marks(s, o->tool_open, o->tool_close);
    if (!status)
        status = weft_session_set_tools(s, o->tools, o->n_tools);
    if (status)
        weft_session_free(s);
    else
        *out = s;
    return status;
}

void weft_session_free(weft_session *session)
{
    if (!session)
        return;
    json_object_put(session->messages);
    weft_free(session->system);
    weft_free(session->variables);
    weft_free(session->tools);
    weft_free(session->tools_json);
    weft_free(session->stop);
    weft_free(session->stop_texts);
    weft_free(session->written);
    weft_free(session->tool_open);
    weft_free(session->tool_close);
    weft_constraint_free(session->constraint);
    weft_prompt_cache_free(session->prompt_cache);
    weft_free(session->constraint_schema);
    weft_free(session);
}

weft_status weft_session_set_system(weft_session *session, const char *system)
{
    char *copy = system ? weft_strdup(system) : NULL;
    if (system && !copy)
        return weft__session_no_memory();
    weft_free(session->system);
    session->system = copy;
    return WEFT_OK;
}

void weft_session_set_thinking(weft_session *session, weft_thinking thinking)
{
    session->thinking = thinking;
}

weft_status weft_session_set_generate(weft_session *session, const weft_generate_options *options)
{
    static const weft_generate_options defaults = {0};
    session->generate = options ? *options : defaults;
    return fill_stop(session);
}

/* ---- turns ---------------------------------------------------------------------------------- */

bool weft__session_emit(session_run *run, weft_session_event event)
{
    event.attempt = run->attempt;
    event.generation = run->stats.generations > 0 ? run->stats.generations - 1 : 0;
    if (!event.text)
        event.text = "";
    if (!run->stopped && run->callback && !run->callback(run->context, &event))
        run->stopped = true;
    return !run->stopped;
}

/* Whether the conversation ends with a text of the assistant. */
static bool can_continue(const weft_session *s)
{
    const size_t n = json_object_array_length(s->messages);
    json_object *last = n > 0 ? json_object_array_get_idx(s->messages, n - 1) : NULL;
    const char *role = last ? weft__json_plain(json_object_object_get(last, "role")) : NULL;
    return role && strcmp(role, "assistant") == 0 &&
           json_object_is_type(json_object_object_get(last, "content"), json_type_string);
}

static weft_status check_turn(const weft_session *s, const weft_session_turn *turn)
{
    if (turn->continue_final && turn->structured)
        return weft_fail(WEFT_INVALID, "session: a structured answer begins a message of its own: "
                                       "continue_final does not go with it");
    if (turn->continue_final && !can_continue(s))
        return weft_fail(WEFT_INVALID, "session: continue_final expects a text of the assistant's "
                                       "at the end of the conversation");
    if (turn->structured == WEFT_STRUCTURED_CONSTRAINED && !s->tokenizer)
        return weft_fail(WEFT_INVALID, "session: constrained answers need a tokenizer");
    return WEFT_OK;
}

weft_status weft_session_answer(weft_session *session, const weft_session_turn *turn,
                                weft_session_event_fn *callback, void *context,
                                weft_session_stats *stats)
{
    session_run run = {.session = session, .callback = callback, .context = context};
    if (turn)
        run.turn = *turn;
    if (stats)
        *stats = run.stats;
    /* The earlier messages are not modified until the turn has succeeded. */
    json_object *before = NULL, *message = NULL;
    weft_status status = check_turn(session, &run.turn);
    if (!status && json_object_deep_copy(session->messages, &before, NULL))
        status = weft__session_no_memory();
    if (status)
        return status;
    status = run.turn.structured ? weft__session_structured(&run, &message)
                                 : weft__session_rounds(&run, &message);
    if (!status && message)
        status = weft__session_add_answer(&run, message);
    if (status) {
        json_object_put(session->messages);
        session->messages = before;
    } else {
        json_object_put(before);
        weft__session_emit(&run,
                           (weft_session_event){.kind = WEFT_SESSION_DONE, .stats = &run.stats});
    }
    if (stats)
        *stats = run.stats;
    return status;
}

weft_status weft_session_send(weft_session *session, const char *text,
                              const weft_session_turn *turn, weft_session_event_fn *callback,
                              void *context, weft_session_stats *stats)
{
    if (stats)
        *stats = (weft_session_stats){0};
    if (turn && turn->continue_final)
        return weft_fail(WEFT_INVALID, "session: continue_final goes on with what is there: use "
                                       "weft_session_answer");
    weft_status status =
        weft_session_add(session, &(weft_chat_message){.role = "user", .content = text});
    if (status)
        return status;
    status = weft_session_answer(session, turn, callback, context, stats);
    if (status)
        json_object_array_del_idx(session->messages,
                                  json_object_array_length(session->messages) - 1, 1);
    return status;
}
