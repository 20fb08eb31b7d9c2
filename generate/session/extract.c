/* generate/session/extract.c -- finds the JSON document in an answer with text or code fences
 * around it. */
#include <string.h>

#include "core/io/json.h"
#include "generate/session/session.h"
#include "text/schema/check.h"
#include "weft/memory.h"

enum { MAX_TRIES = 64 }; /* most brackets that are tried as the start of a document */

typedef struct search {
    json_object *schema;
    weft__text *complaint;
    size_t parsed; /* bytes of the value that the complaint is about; 0: not JSON */
    const char *at;
    size_t length;
} search;

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Whether these bytes are a document of the schema. Keeps the complaint about the longest value, or
 * else the syntax error. */
static bool fits(search *s, const char *at, size_t n)
{
    while (n > 0 && is_space(*at)) {
        at++;
        n--;
    }
    while (n > 0 && is_space(at[n - 1]))
        n--;
    weft__json_doc doc = {0};
    weft__text complaint = {0};
    const weft_status status = weft__json_parse(at, n, "the answer", &doc);
    if (status) {
        s->complaint->failed = s->complaint->failed || status == WEFT_MEMORY;
        if (s->complaint->n == 0)
            weft__text_format(s->complaint, "%s", weft_error_message());
        return false;
    }
    const bool holds = !s->schema || weft__schema_holds(s->schema, doc.root, &complaint);
    weft__json_free(&doc);
    s->complaint->failed = s->complaint->failed || complaint.failed;
    if (holds) {
        s->at = at;
        s->length = n;
    } else if (n > s->parsed) {
        s->parsed = n;
        s->complaint->n = 0;
        weft__text_append(s->complaint, complaint.at ? complaint.at : "", complaint.n);
    }
    weft_free(complaint.at);
    return holds;
}

static bool in_fence(search *s, const char *text)
{
    const char *open = strstr(text, "```");
    while (open) {
        const char *line = strchr(open, '\n');
        const char *close = line ? strstr(line, "```") : NULL;
        if (!line)
            return false;
        if (fits(s, line, close ? (size_t)(close - line) : strlen(line)))
            return true;
        open = close ? strstr(close + 3, "```") : NULL;
    }
    return false;
}

/* The length of the value that begins with a bracket, judged by brackets and strings; 0: it does
 * not end. */
static size_t value_length(const char *at)
{
    size_t depth = 0;
    bool string = false;
    for (const char *p = at; *p; p++) {
        if (string) {
            if (*p == '\\' && p[1])
                p++;
            else if (*p == '"')
                string = false;
            continue;
        }
        string = *p == '"';
        if (*p == '{' || *p == '[')
            depth++;
        else if ((*p == '}' || *p == ']') && --depth == 0)
            return (size_t)(p - at) + 1;
    }
    return 0;
}

static bool among_words(search *s, const char *text)
{
    int tries = 0;
    for (const char *at = text; (at = strpbrk(at, "{[")) && tries < MAX_TRIES; at++, tries++) {
        const size_t n = value_length(at);
        if (n > 0 && fits(s, at, n))
            return true;
    }
    return false;
}

bool weft__session_extract(const char *text, json_object *schema, const char **at, size_t *length,
                           weft__text *complaint)
{
    search s = {.schema = schema, .complaint = complaint};
    const bool found = fits(&s, text, strlen(text)) ||
                       (s.parsed == 0 && (in_fence(&s, text) || among_words(&s, text)));
    *at = s.at;
    *length = s.length;
    return found;
}
