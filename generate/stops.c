/* generate/stops.c -- finds stop texts byte by byte: for each, tracks its longest prefix with which
 * the text ends (Knuth, Morris and Pratt 1977). */
#include "generate/stops.h"

#include <string.h>

#include "core/failure.h"

typedef struct stop_text {
    char *bytes;
    size_t length;
    size_t *border; /* for the first i + 1 bytes: length of their longest proper prefix that is also
                     * a suffix */
    size_t matched; /* length of its prefix with which the text ends */
} stop_text;

/* A token that has not been emitted yet; the end of its text. */
typedef struct held_token {
    int32_t id;
    double logprob;
    size_t start, end;
    weft_top_logprob top[WEFT_TOP_LOGPROBS];
    int n_top;
} held_token;

struct weft__stops {
    stop_text *stops;
    int n;
    bool include, found, finished;
    int which; /* the stop text that was found */
    /* The text from `given` on, NUL-terminated; positions refer to the whole text. */
    char *text;
    size_t room, given, safe, end;
    char *out; /* the text that was emitted last */
    size_t out_room;
    held_token *held;
    weft_top_logprob top[WEFT_TOP_LOGPROBS]; /* of the token that was emitted last */
    size_t n_held, held_room;
};

/* ---- creating -------------------------------------------------------------------------------- */

static size_t extended(const stop_text *s, size_t matched, char byte)
{
    while (matched > 0 && (matched == s->length || s->bytes[matched] != byte))
        matched = s->border[matched - 1];
    return s->bytes[matched] == byte ? matched + 1 : 0;
}

static weft_status fill(stop_text *s, const char *text)
{
    s->length = strlen(text);
    if (s->length == 0)
        return weft_fail(WEFT_INVALID, "generate: stop_texts: expected texts that are not empty");
    s->bytes = weft_strdup(text);
    s->border = weft_calloc(s->length, sizeof *s->border);
    if (s->bytes == NULL || s->border == NULL)
        return weft__out_of_memory("generate", "held text");
    for (size_t i = 1; i < s->length; i++)
        s->border[i] = extended(s, s->border[i - 1], s->bytes[i]);
    return WEFT_OK;
}

weft_status weft__stops_new(const char *const *texts, int n, bool include, weft__stops **out)
{
    *out = NULL;
    weft__stops *s = weft_calloc(1, sizeof *s);
    if (s == NULL)
        return weft__out_of_memory("generate", "held text");
    s->include = include;
    s->stops = weft_calloc((size_t)n + 1, sizeof *s->stops);
    weft_status status = s->stops ? WEFT_OK : weft__out_of_memory("generate", "held text");
    for (; s->n < n && status == WEFT_OK; s->n++)
        status = fill(&s->stops[s->n], texts[s->n]);
    if (status != WEFT_OK) {
        weft__stops_free(s);
        return status;
    }
    *out = s;
    return WEFT_OK;
}

void weft__stops_free(weft__stops *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < s->n; i++) {
        weft_free(s->stops[i].bytes);
        weft_free(s->stops[i].border);
    }
    weft_free(s->stops);
    weft_free(s->text);
    weft_free(s->out);
    weft_free(s->held);
    weft_free(s);
}

/* ---- adding text ----------------------------------------------------------------------------- */

/* Makes room for n bytes and a NUL. */
static bool make_room(char **at, size_t *room, size_t n)
{
    if (n + 1 <= *room)
        return true;
    const size_t wanted = 2 * n + 64;
    char *moved = weft_realloc(*at, wanted);
    if (moved == NULL)
        return false;
    *at = moved;
    *room = wanted;
    return true;
}

/* Adds one byte. If several stop texts end here, the longest counts. */
static void follow(weft__stops *s, char byte)
{
    size_t may_become = 0, complete = 0;
    s->text[s->end++ - s->given] = byte;
    for (int i = 0; i < s->n; i++) {
        stop_text *stop = &s->stops[i];
        stop->matched = extended(stop, stop->matched, byte);
        if (stop->matched > may_become)
            may_become = stop->matched;
        if (stop->matched == stop->length && stop->length > complete) {
            complete = stop->length;
            s->which = i;
        }
    }
    s->found = complete > 0;
    if (s->found)
        s->safe = s->include ? s->end : s->end - complete;
    else
        s->safe = s->end - may_become;
}

weft_status weft__stops_push(weft__stops *s, const weft_generated *token)
{
    if (s->found || s->finished)
        return WEFT_OK;
    const size_t most = s->end - s->given + token->length;
    if (!make_room(&s->text, &s->room, most) || !make_room(&s->out, &s->out_room, most))
        return weft__out_of_memory("generate", "held text");
    if (s->n_held == s->held_room) {
        held_token *moved = weft_realloc(s->held, (s->held_room + 16) * sizeof *moved);
        if (moved == NULL)
            return weft__out_of_memory("generate", "held text");
        s->held = moved;
        s->held_room += 16;
    }
    held_token *held = &s->held[s->n_held];
    *held = (held_token){
        .id = token->id, .logprob = token->logprob, .start = s->end, .n_top = token->n_top};
    if (token->n_top > 0)
        memcpy(held->top, token->top, (size_t)token->n_top * sizeof *token->top);
    for (size_t i = 0; i < token->length && !s->found; i++)
        follow(s, token->text[i]);
    held->end = s->end;
    if (token->id >= 0)
        s->n_held++;
    return WEFT_OK;
}

void weft__stops_finish(weft__stops *s)
{
    s->finished = true;
    if (!s->found)
        s->safe = s->end;
}

bool weft__stops_found(const weft__stops *s)
{
    return s->found;
}

int weft__stops_which(const weft__stops *s)
{
    return s->which;
}

/* ---- emitting text --------------------------------------------------------------------------- */

/* Whether the first held token may be emitted. */
static bool may_go(const weft__stops *s)
{
    if (s->n_held == 0)
        return false;
    if (s->n == 0 || (s->finished && !s->found))
        return true;
    for (size_t i = 0; i < s->n_held; i++) {
        if (s->held[i].end > s->held[i].start)
            return s->held[i].start < s->safe;
    }
    return false;
}

/* Emits the text up to a position. Its buffer was allocated before. */
static void give(weft__stops *s, size_t until, weft_generated *out)
{
    const size_t n = until > s->given ? until - s->given : 0;
    out->text = "";
    out->length = n;
    if (n == 0)
        return;
    memcpy(s->out, s->text, n);
    s->out[n] = '\0';
    out->text = s->out;
    memmove(s->text, s->text + n, s->end - until);
    s->given = until;
}

bool weft__stops_next(weft__stops *s, weft_generated *out)
{
    const bool token = may_go(s);
    *out = (weft_generated){.id = -1};
    if (!token && s->given >= s->safe)
        return false;
    size_t until = s->safe;
    if (token) {
        out->id = s->held[0].id;
        out->logprob = s->held[0].logprob;
        memcpy(s->top, s->held[0].top, sizeof s->top);
        out->top = s->top;
        out->n_top = s->held[0].n_top;
        until = s->held[0].end < s->safe ? s->held[0].end : s->safe;
        memmove(s->held, s->held + 1, --s->n_held * sizeof *s->held);
    }
    give(s, until, out);
    return true;
}
