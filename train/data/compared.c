/* train/data/compared.c -- examples of texts to be compared: an anchor, a positive, perhaps
 * negatives, and perhaps a score. A sample has the tokens of a text with the tokenizer's special
 * tokens, and a last id 0 as its only target, which marks the last token. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/linkhash.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/io/text.h"
#include "train/columns.h"
#include "train/data/reader.h"
#include "weft/memory.h"

static const char *const anchors[] = {"anchor", "query", "question", "sentence1", NULL};
static const char *const positives[] = {"positive", "passage",   "document",
                                        "answer",   "sentence2", NULL};
static const char *const scores[] = {"score", "scores", "label", "labels", NULL};

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool is_negative(const char *name)
{
    return strncmp(name, "negative", strlen("negative")) == 0;
}

/* The members of a row: texts in the order of the samples, and a score. */
typedef struct members {
    weft__json texts[WEFT__MOST_TEXTS];
    int n;
    bool scored;
    float score;
} members;

/* Adds a text or, of negatives, an array of them. */
static weft_status add_member(const weft__json *row, const char *name, members *out)
{
    weft__json at;
    size_t n = 1;
    weft_status status = weft__json_get(row, name, &at);
    const bool list =
        status == WEFT_OK && is_negative(name) && json_object_is_type(at.value, json_type_array);
    if (list)
        status = weft__json_length(&at, &n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json item = at;
        if (list)
            status = weft__json_at(&at, i, &item);
        if (status == WEFT_OK && out->n == WEFT__MOST_TEXTS)
            status =
                weft__json_fail(row, WEFT_INVALID, "expected at most %d texts", WEFT__MOST_TEXTS);
        if (status == WEFT_OK)
            out->texts[out->n++] = item;
    }
    return status;
}

/* The first member with one of the names, rather one that is not empty; NULL: none. */
static const char *first_of(const weft__json *row, const char *const *names)
{
    const char *first = NULL;
    json_object_object_foreach(row->value, key, value)
    {
        if (!is_among(key, names))
            continue;
        if (!weft__value_is_empty(value))
            return key;
        first = first ? first : key;
    }
    return first;
}

/* Adds the anchor or the positive of a row: a text that is not empty. */
static weft_status add_named(const weft__json *row, const char *name, const char *const *names,
                             members *out)
{
    weft__json at;
    const char *text;
    size_t n = 0;
    if (name == NULL)
        return weft__json_fail(row, WEFT_INVALID, "\"%s\" (or another name of it) is missing",
                               names[0]);
    weft_status status = weft__json_find(row, name, &at);
    if (status == WEFT_OK)
        status = weft__json_as_string(&at, &text, &n);
    if (status == WEFT_OK && n == 0)
        status = weft__json_fail(&at, WEFT_INVALID, "expected a text that is not empty");
    return status == WEFT_OK ? add_member(row, name, out) : status;
}

static bool has_negative(const weft__json *row)
{
    json_object_object_foreach(row->value, key, value)
    {
        (void)value;
        if (is_negative(key))
            return true;
    }
    return false;
}

/* Reads a score: a number, or a number as text, as in tables. */
static weft_status read_score(const weft__json *row, const char *name, members *out)
{
    weft__json at;
    double number = 0;
    weft_status status = weft__json_get(row, name, &at);
    if (status != WEFT_OK)
        return status;
    if (json_object_is_type(at.value, json_type_string)) {
        const char *text = json_object_get_string(at.value);
        char *end;
        number = strtod(text, &end);
        if (end == text || *end != '\0')
            return weft__json_fail(&at, WEFT_INVALID, "expected a number, got '%s'",
                                   weft_printable(text));
    } else {
        status = weft__json_as_number(&at, &number);
    }
    if (status == WEFT_OK && !isfinite((float)number))
        status = weft__json_fail(&at, WEFT_INVALID, "expected a finite number, got %g", number);
    out->scored = true;
    out->score = (float)number;
    return status;
}

/* Finds the members by their names or, of a row without any of these names, takes all texts in
 * their order. Members that are not used are counted. */
static weft_status find_members(weft__reader *r, const weft__json *row, members *out)
{
    weft_status status = weft__json_as_object(row);
    if (status != WEFT_OK)
        return status;
    const char *anchor = first_of(row, anchors), *positive = first_of(row, positives);
    const char *score = first_of(row, scores);
    const bool named = anchor || positive || has_negative(row);
    if (named)
        status = add_named(row, anchor, anchors, out);
    if (named && status == WEFT_OK)
        status = add_named(row, positive, positives, out);
    bool counted = false;
    json_object_object_foreach(row->value, key, value)
    {
        const bool taken = key == anchor || key == positive;
        const bool text = json_object_is_type(value, json_type_string) && !is_among(key, scores);
        if (status != WEFT_OK || (named && taken) || key == score || weft__value_is_empty(value))
            continue;
        if (named ? is_negative(key) : text)
            status = add_member(row, key, out);
        else
            weft__unused_add(&r->unused, key, &counted);
    }
    if (status == WEFT_OK && score)
        status = read_score(row, score, out);
    if (status == WEFT_OK && out->n < 2)
        status = weft__json_fail(row, WEFT_INVALID,
                                 "expected at least two texts, \"anchor\" and \"positive\" (or "
                                 "\"query\" and \"passage\"), got %d",
                                 out->n);
    return status;
}

weft_status weft__compared_texts(weft__reader *r, const weft__json *row,
                                 weft__json out[WEFT__MOST_TEXTS], int *n)
{
    members m = {.n = 0};
    weft_status status = find_members(r, row, &m);
    if (status == WEFT_OK && m.scored)
        status = weft__json_fail(row, WEFT_INVALID, "expected texts without a score");
    for (int i = 0; i < m.n; i++)
        out[i] = m.texts[i];
    *n = m.n;
    return status;
}

weft_status weft__document_text(const weft__json *row, weft__json *out)
{
    weft_status status = weft__json_as_object(row);
    if (status == WEFT_OK)
        status = weft__json_find(row, "text", out);
    const char *name = status == WEFT_OK && out->value == NULL ? first_of(row, positives) : NULL;
    if (name)
        status = weft__json_find(row, name, out);
    return status != WEFT_OK || out->value
               ? status
               : weft__json_fail(row, WEFT_INVALID,
                                 "\"text\" (or \"passage\", \"document\") is missing");
}

/* Tokenizes a text behind its prompt. *n is 0 if the text is to be left out. */
static weft_status encode(weft__reader *r, const weft__json *at, const char *prompt, int32_t **ids,
                          size_t *n)
{
    const char *text;
    size_t length;
    weft_status status = weft__json_as_string(at, &text, &length);
    if (status != WEFT_OK)
        return status;
    weft__text whole = {0};
    weft__text_append(&whole, prompt ? prompt : "", prompt ? strlen(prompt) : 0);
    weft__text_append(&whole, text, length);
    if (whole.failed)
        status = weft__out_of_memory(r->where, NULL);
    else
        status = weft_tokenizer_encode(r->tokenizer, whole.at ? whole.at : "", whole.n,
                                       WEFT_TOKENIZER_ADD_SPECIAL, ids, n);
    weft_free(whole.at);
    if (status != WEFT_OK)
        return weft_fail(status, "%s: %s", r->where, weft_error_message());
    const size_t most = (size_t)r->rows->limit - 1;
    if (*n == 0)
        return weft__json_fail(at, WEFT_INVALID, "expected a text with at least one token");
    if (*n <= most)
        return WEFT_OK;
    if (r->o.longer != WEFT_LONG_KEEP_HEAD && r->o.longer != WEFT_LONG_DROP)
        return weft__json_fail(
            at, WEFT_INVALID, "the text has %zu tokens, more than the %zu allowed%s", *n, most,
            r->o.longer == WEFT_LONG_REFUSE ? ""
                                            : ", and texts to be compared keep their first tokens");
    const bool drop = r->o.longer == WEFT_LONG_DROP;
    const size_t kept = drop ? 0 : weft_tokenizer_truncate(r->tokenizer, *ids, *n, most);
    r->rows->info.cut += (int64_t)(*n - kept);
    *n = kept;
    return WEFT_OK;
}

/* A hash of a text as it is in the row, which is the same for every tokenizer; not 0. */
static uint64_t hash_of(const weft__json *at)
{
    const char *text;
    size_t n = 0;
    if (weft__json_as_string(at, &text, &n) != WEFT_OK)
        return 1;
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = weft__mix(hash, (unsigned char)text[i]);
    return hash ? hash : 1;
}

/* Appends a text to the builder; sets its length, 0 if it is to be left out. */
static weft_status add_text(weft__reader *r, const weft__json *at, const char *prompt,
                            int64_t *length)
{
    static const int32_t mark = 0;
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status status = encode(r, at, prompt, &ids, &n);
    *length = n > 0 ? (int64_t)n + 1 : 0;
    if (status == WEFT_OK && n > 0)
        status = weft__builder_add(&r->sample, ids, n, 0);
    if (status == WEFT_OK && n > 0)
        status = weft__builder_add(&r->sample, &mark, 1, 1);
    weft_free(ids);
    return status;
}

weft_status weft__reader_add_compared(weft__reader *r, const weft__json *row)
{
    members m = {.n = 0};
    int64_t lengths[WEFT__MOST_TEXTS], at = 0;
    bool cut[WEFT__MOST_TEXTS];
    weft_sample samples[WEFT__MOST_TEXTS];
    bool whole = true;
    weft_status status = find_members(r, row, &m);
    r->sample.n = 0;
    for (int i = 0; status == WEFT_OK && whole && i < m.n; i++) {
        const int64_t before = r->rows->info.cut;
        status =
            add_text(r, &m.texts[i], i == 0 ? r->o.query_prompt : r->o.passage_prompt, &lengths[i]);
        whole = lengths[i] > 0;
        cut[i] = r->rows->info.cut > before;
    }
    if (status != WEFT_OK)
        return status;
    if (!whole) {
        r->rows->info.dropped++;
        return WEFT_OK;
    }
    r->n_rows++;
    for (int i = 0; i < m.n; i++) {
        samples[i] =
            (weft_sample){r->sample.ids + at, r->sample.weights + at, lengths[i], r->n_rows};
        at += lengths[i];
    }
    status = weft_dataset_add_texts(r->rows, samples, m.n, m.scored ? &m.score : NULL);
    for (int i = 0; status == WEFT_OK && i < m.n; i++) {
        weft__dataset_sample *s = &r->rows->samples[r->rows->info.samples - m.n + i];
        s->cut = cut[i];
        s->text = hash_of(&m.texts[i]);
        r->rows->info.truncated += cut[i];
    }
    return status == WEFT_INVALID ? weft_fail(status, "%s: %s", r->where, weft_error_message())
                                  : status;
}
