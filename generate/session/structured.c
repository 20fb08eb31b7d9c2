/* generate/session/structured.c -- answers that must be documents of a schema: requested,
 * constrained or validated, and retried. */
#include <string.h>

#include "core/io/json.h"
#include "core/options.h"
#include "generate/session/session.h"
#include "text/schema/schema.h"
#include "weft/memory.h"

enum { MAX_RETRIES = 16 };

/* The failed attempts, as positions in the conversation. */
typedef struct failures {
    size_t at[MAX_RETRIES + 1];
    int n;
} failures;

weft_status weft__session_instruct(session_run *run)
{
    const weft_session_turn *turn = &run->turn;
    if (!turn->structured)
        return WEFT_OK;
    run->instruction =
        turn->schema ? weft_format("Answer with a JSON document that this JSON Schema allows, and "
                                   "with nothing else: no explanation, no code fence.\n%s",
                                   turn->schema)
                     : weft_strdup("Answer with a JSON document, and with nothing else: no "
                                   "explanation, no code fence.");
    return run->instruction ? WEFT_OK : weft__session_no_memory();
}

static void emit_notes(session_run *run, const char *notes)
{
    if (notes)
        weft__session_emit(run, (weft_session_event){.kind = WEFT_SESSION_NOTE,
                                                     .text = notes,
                                                     .length = strlen(notes)});
}

/* Makes the constraint of a schema unless it exists already, since it takes time for large
 * vocabularies. */
static weft_status make_constraint(session_run *run, const char *schema, size_t n, bool open)
{
    weft_session *s = run->session;
    const char *had = s->constraint_schema;
    if (s->constraint && s->constraint_open == open && !had == !schema &&
        (!schema || strcmp(had, schema) == 0))
        return WEFT_OK;
    weft_constraint_free(s->constraint);
    weft_free(s->constraint_schema);
    s->constraint = NULL;
    s->constraint_schema = schema ? weft_strdup(schema) : NULL;
    if (schema && !s->constraint_schema)
        return weft__session_no_memory();
    s->constraint_open = open;
    const weft_constraint_options options = {.open = open};
    const weft_status status =
        weft_constraint_new(s->tokenizer, schema, n, "schema", &options, &s->constraint);
    if (!status)
        emit_notes(run, weft_constraint_notes(s->constraint));
    return status;
}

/* Reads the schema, and fails on keywords that cannot be enforced. */
static weft_status read_schema(session_run *run, weft__json_doc *doc)
{
    const char *text = run->turn.schema;
    const size_t n = text ? strlen(text) : 0;
    weft__schema schema = {0};
    const bool open = run->turn.open_schema;
    weft_status status = text ? weft__schema_read(text, n, "schema", doc) : WEFT_OK;
    if (!status && run->turn.structured == WEFT_STRUCTURED_CONSTRAINED) {
        status = make_constraint(run, text, n, open);
    } else if (!status && text) {
        status = weft__schema_parse(text, n, "schema", open, &schema);
        if (!status)
            emit_notes(run, schema.notes.at);
        weft__schema_release(&schema);
    }
    return status;
}

/* Adds an answer that does not fit to the conversation, with the reason. */
static weft_status refuse(session_run *run, json_object *message, const char *complaint,
                          failures *f)
{
    json_object *messages = run->session->messages;
    char *why = weft_format("That does not fit: %s. Answer again, with the JSON document alone.",
                            complaint);
    json_object *user = why ? weft__session_message("user", why) : NULL;
    weft_free(why);
    f->at[f->n++] = json_object_array_length(messages);
    weft_status status = weft__session_append(messages, message);
    if (status)
        json_object_put(user);
    return status ? status : weft__session_append(messages, user);
}

static void forget(session_run *run, const failures *f)
{
    for (int i = f->n; i > 0; i--)
        json_object_array_del_idx(run->session->messages, f->at[i - 1], 2);
}

/* Whether an answer is a document of the schema; if so, sends the STRUCTURED event. */
static bool accept(session_run *run, json_object *message, const weft__json_doc *schema,
                   weft__text *complaint)
{
    const char *text = json_object_get_string(json_object_object_get(message, "content")), *at;
    size_t n = 0;
    complaint->n = 0;
    if (!weft__session_extract(text ? text : "", schema->root, &at, &n, complaint))
        return false;
    char *document = weft_format("%.*s", (int)n, at);
    if (!document) {
        complaint->failed = true;
        return false;
    }
    weft__session_emit(run, (weft_session_event){.kind = WEFT_SESSION_STRUCTURED,
                                                 .text = document,
                                                 .length = strlen(document)});
    weft_free(document);
    return true;
}

/* Makes attempts until one fits, which becomes *message. */
static weft_status attempts(session_run *run, const weft__json_doc *schema, int64_t most,
                            failures *f, json_object **message)
{
    weft__text complaint = {0};
    weft_status status = WEFT_OK;
    bool fits = false;
    for (run->attempt = 0; !status && !fits && run->attempt < most; run->attempt++) {
        status = weft__session_rounds(run, message);
        if (status || run->stopped || run->ended || !*message)
            break;
        fits = accept(run, *message, schema, &complaint);
        if (complaint.failed)
            status = weft__session_no_memory();
        if (fits || status)
            break;
        if (run->attempt + 1 == most)
            status = weft_fail(WEFT_INVALID,
                               "session: no answer of %lld is the document asked "
                               "for; of the last: %s",
                               (long long)most, complaint.at);
        else
            status = refuse(run, *message, complaint.at, f);
        if (run->attempt + 1 < most)
            *message = NULL;
    }
    weft_free(complaint.at);
    return status;
}

weft_status weft__session_structured(session_run *run, json_object **message)
{
    int64_t retries = run->turn.retries;
    failures f = {0};
    weft__json_doc schema = {0};
    retries = weft__count_or_default(retries, 2);
    retries = retries > MAX_RETRIES ? MAX_RETRIES : retries;
    if (run->turn.structured == WEFT_STRUCTURED_CONSTRAINED)
        retries = 0;
    weft_status status = read_schema(run, &schema);
    if (!status)
        status = weft__session_instruct(run);
    if (!status)
        status = attempts(run, &schema, retries + 1, &f, message);
    if (!status)
        forget(run, &f);
    if (status) {
        json_object_put(*message);
        *message = NULL;
    }
    weft_free(run->instruction);
    weft__json_free(&schema);
    return status;
}
