/* text/tokenizer/lists.c -- reads the long lists of a tokenizer.json, "vocab" and "merges",
 * directly from the text; the rest of the file is parsed to a tree. */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer/scan.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

/* A merge whose three strings, left, right and both joined, are being looked up. */
typedef struct waiting_merge {
    size_t start, left, right; /* position in `joined`, and lengths */
    uint64_t hashes[3];
} waiting_merge;

enum { MOST_WAITING = 32 };

typedef struct reading {
    const char *name;
    bpe_model *model;
    text_buffer scratch[2], joined;
    waiting_merge waiting[MOST_WAITING];
    size_t waiting_count;
    text_string merges; /* the merges, if they precede the vocabulary */
    bool has_vocab;
    locale_t locale; /* the "C" locale, created for the first score */
} reading;

/* ---- errors ---------------------------------------------------------------------------------- */

/* Parses the value at the cursor to a tree, for a message. */
static weft_status tree_of(const reading *r, json_scan *scan, weft__json_doc *doc)
{
    text_string value;
    if (!weft__scan_value(scan, &value))
        return WEFT_INVALID;
    const weft_status status = weft__json_parse(value.text, value.length, r->name, doc);
    scan->malformed = status == WEFT_INVALID;
    return status;
}

static void name_member(weft__json *at, text_string key)
{
    snprintf(at->path, sizeof at->path, "model.vocab[\"%.*s\"]",
             key.length > 100 ? 100 : (int)key.length, key.text);
}

/* Reports an id that is not a few digits: out of range, or not an id. */
static weft_status read_odd_id(reading *r, json_scan *scan, text_string key, int64_t *id)
{
    weft__json_doc doc = {0};
    weft_status status = tree_of(r, scan, &doc);
    if (!status) {
        weft__json at = {.value = doc.root, .name = r->name};
        name_member(&at, key);
        status = weft__json_as_int(&at, id);
    }
    weft__json_free(&doc);
    return status;
}

static weft_status check_member(const reading *r, text_string key, int64_t id)
{
    weft__json at = {.name = r->name};
    const vocab_token *other = NULL;
    const text_vocab *vocab = &r->model->vocab;
    if (id < 0 || id > VOCAB_MAX_ID) {
        name_member(&at, key);
        return weft__json_fail(&at, WEFT_INVALID, "id %" PRId64 " is not within 0 and %d", id,
                               VOCAB_MAX_ID);
    }
    other = weft__vocab_token(vocab, (int32_t)id);
    if (!other)
        return WEFT_OK;
    name_member(&at, key);
    return weft__json_fail(&at, WEFT_INVALID, "id %" PRId64 " is already that of \"%s\"", id,
                           weft_printable(weft__vocab_text(vocab, other)));
}

/* ---- vocab ---------------------------------------------------------------------------------- */

static weft_status read_token(reading *r, json_scan *scan)
{
    text_string key;
    int32_t small = 0;
    if (!weft__scan_string(scan, &r->scratch[0], &key))
        return scan->malformed ? WEFT_INVALID : WEFT_MEMORY;
    if (!weft__scan_take(scan, ':')) {
        scan->malformed = true;
        return WEFT_INVALID;
    }
    weft_status status = WEFT_OK;
    int64_t id = 0;
    if (weft__scan_digits(scan, &small))
        id = small;
    else
        status = read_odd_id(r, scan, key, &id);
    if (!status)
        status = check_member(r, key, id);
    if (status)
        return status;
    return weft__vocab_put(&r->model->vocab, (int32_t)id, key.text, key.length, TOKEN_IN_MODEL);
}

static weft_status read_merges(void *context, json_scan *scan);

static weft_status read_vocab(void *context, json_scan *scan)
{
    reading *r = context;
    weft_status status = WEFT_OK;
    weft__vocab_release(&r->model->vocab); /* of duplicate members the later one counts */
    weft__unigram_release(&r->model->unigram);
    weft__scan_take(scan, '{');
    bool more = !weft__scan_take(scan, '}');
    while (more && !status) {
        status = read_token(r, scan);
        more = !status && weft__scan_more(scan, '}');
    }
    if (!status)
        status = scan->malformed ? WEFT_INVALID : weft__vocab_index(&r->model->vocab);
    r->has_vocab = true;
    if (status || !r->merges.text)
        return status;
    json_scan earlier = {.at = r->merges.text, .end = r->merges.text + r->merges.length};
    status = read_merges(r, &earlier);
    scan->malformed = earlier.malformed;
    return status;
}

/* ---- scored vocab --------------------------------------------------------------------------- */

/* Returns the number of digits from `text` on. */
static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Whether the whole text is a JSON number. */
static bool is_number(const char *text)
{
    text += *text == '-';
    const size_t whole = digits(text);
    if (whole == 0 || (whole > 1 && *text == '0'))
        return false;
    text += whole;
    if (*text == '.') {
        if (digits(++text) == 0)
            return false;
        text += digits(text);
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        if (digits(text) == 0)
            return false;
        text += digits(text);
    }
    return *text == '\0';
}

/* Reads a finite score; false for any other value. */
static bool read_score(reading *r, json_scan *scan, double *score)
{
    text_string value;
    char text[64];
    if (!weft__scan_value(scan, &value) || value.length >= sizeof text)
        return false;
    memcpy(text, value.text, value.length);
    text[value.length] = '\0';
    if (strlen(text) != value.length || !is_number(text))
        return false;
    *score = strtod_l(text, NULL, r->locale);
    return isfinite(*score);
}

static weft_status read_piece(reading *r, json_scan *scan)
{
    const char *start = (weft__scan_peek(scan), scan->at);
    const size_t id = r->model->unigram.score_count;
    text_string text;
    double score = 0;
    const bool held = weft__scan_take(scan, '[') && weft__scan_peek(scan) == '"' &&
                      weft__scan_string(scan, &r->scratch[0], &text) &&
                      weft__scan_take(scan, ',') && read_score(r, scan, &score) &&
                      weft__scan_take(scan, ']');
    if (!held && !scan->malformed) {
        weft__json_doc doc = {0};
        weft__json at = {.name = r->name};
        scan->at = start;
        weft_status status = tree_of(r, scan, &doc);
        snprintf(at.path, sizeof at.path, "model.vocab[%zu]", id);
        if (!status)
            status = weft__json_fail(&at, WEFT_INVALID, "expected [\"token\", score], got %.100s",
                                     weft_printable(json_object_to_json_string(doc.root)));
        weft__json_free(&doc);
        return status;
    }
    if (!held)
        return WEFT_INVALID;
    if (id > VOCAB_MAX_ID)
        return weft_fail(WEFT_INVALID, "%s: model.vocab: more than %d tokens", r->name,
                         VOCAB_MAX_ID + 1);
    const weft_status status =
        weft__vocab_put(&r->model->vocab, (int32_t)id, text.text, text.length, TOKEN_IN_MODEL);
    return status ? status : weft__unigram_add_score(&r->model->unigram, score);
}

/* Reads a list of tokens with scores, whose ids are their positions. */
static weft_status read_pieces(void *context, json_scan *scan)
{
    reading *r = context;
    weft__vocab_release(&r->model->vocab);
    weft__unigram_release(&r->model->unigram);
    if (!r->locale)
        r->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!r->locale)
        return weft_fail(WEFT_MEMORY, "%s: out of memory for its scores", r->name);
    weft_status status = WEFT_OK;
    weft__scan_take(scan, '[');
    bool more = !weft__scan_take(scan, ']');
    while (more && !status) {
        status = read_piece(r, scan);
        more = !status && weft__scan_more(scan, ']');
    }
    if (!status)
        status = scan->malformed ? WEFT_INVALID : weft__vocab_index(&r->model->vocab);
    return status;
}

/* ---- merges --------------------------------------------------------------------------------- */

/* Reports a merge in neither format. */
static weft_status fail_form(const reading *r, json_scan *scan)
{
    weft__json_doc doc = {0};
    weft__json at = {.name = r->name};
    weft_status status = tree_of(r, scan, &doc);
    snprintf(at.path, sizeof at.path, "model.merges[%zu]",
             r->model->merges.count + r->waiting_count);
    if (!status)
        status = weft__json_fail(&at, WEFT_INVALID, "expected \"a b\" or [\"a\", \"b\"], got %s",
                                 json_object_to_json_string(doc.root));
    weft__json_free(&doc);
    return status;
}

/* Splits "a b" at its only space. */
static bool split_merge(text_string text, text_string part[2])
{
    const char *space = text.length > 0 ? memchr(text.text, ' ', text.length) : NULL;
    if (!space)
        return false;
    part[0] = (text_string){text.text, (size_t)(space - text.text)};
    part[1] = (text_string){space + 1, text.length - part[0].length - 1};
    return part[1].length == 0 || !memchr(part[1].text, ' ', part[1].length);
}

/* Reads a merge in either format. Otherwise false without a message, with the cursor back at its
 * start. */
static bool read_parts(reading *r, json_scan *scan, text_string part[2])
{
    const char first = weft__scan_peek(scan);
    const char *start = scan->at;
    bool held = false;
    text_string text;
    if (first == '"')
        held = weft__scan_string(scan, &r->scratch[0], &text) && split_merge(text, part);
    else if (first == '[')
        held = weft__scan_take(scan, '[') && weft__scan_peek(scan) == '"' &&
               weft__scan_string(scan, &r->scratch[0], &part[0]) && weft__scan_take(scan, ',') &&
               weft__scan_peek(scan) == '"' && weft__scan_string(scan, &r->scratch[1], &part[1]) &&
               weft__scan_take(scan, ']');
    if (!held)
        scan->at = start;
    return held;
}

/* The strings of a waiting merge: 0 left, 1 right, 2 joined. */
static text_string part_of(const reading *r, const waiting_merge *merge, int which)
{
    const char *text = r->joined.data + merge->start;
    if (which == 1)
        return (text_string){text + merge->left, merge->right};
    return (text_string){text, which == 0 ? merge->left : merge->left + merge->right};
}

static weft_status add_merge(reading *r, const waiting_merge *merge)
{
    int32_t ids[3];
    for (int k = 0; k < 3; k++) {
        const text_string text = part_of(r, merge, k);
        ids[k] = weft__vocab_answer(&r->model->vocab, merge->hashes[k], text.text, text.length);
        if (ids[k] < 0) {
            weft__json at = {.name = r->name};
            snprintf(at.path, sizeof at.path, "model.merges[%zu]", r->model->merges.count);
            return weft__json_fail(&at, WEFT_INVALID, "\"%s\" is not in the vocabulary",
                                   weft_printable_n(text.text, text.length));
        }
    }
    return weft__merges_add(&r->model->merges, ids[0], ids[1], ids[2]);
}

/* Looks up all waiting merges step by step, so that their memory accesses overlap. */
static weft_status add_waiting(reading *r)
{
    const text_vocab *vocab = &r->model->vocab;
    const size_t count = r->waiting_count;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++)
            weft__vocab_ask_token(vocab, r->waiting[i].hashes[k]);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++)
            weft__vocab_ask_text(vocab, r->waiting[i].hashes[k]);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = add_merge(r, &r->waiting[i]);
    r->waiting_count = 0;
    r->joined.length = 0;
    return status;
}

static weft_status read_merge(reading *r, json_scan *scan)
{
    text_string part[2];
    if (!read_parts(r, scan, part))
        return scan->malformed ? WEFT_INVALID : fail_form(r, scan);
    waiting_merge *merge = &r->waiting[r->waiting_count++];
    merge->start = r->joined.length;
    merge->left = part[0].length;
    merge->right = part[1].length;
    weft_status status = weft__bytes_append(&r->joined, part[0].text, part[0].length);
    if (!status)
        status = weft__bytes_append(&r->joined, part[1].text, part[1].length);
    if (!status)
        status = weft__bytes_reserve(&r->joined, 1); /* reserved even for empty strings */
    if (status)
        return status;
    for (int k = 0; k < 3; k++) {
        const text_string text = part_of(r, merge, k);
        merge->hashes[k] = weft__text_hash(text.text, text.length);
        weft__vocab_ask_slot(&r->model->vocab, merge->hashes[k]);
    }
    return r->waiting_count == MOST_WAITING ? add_waiting(r) : WEFT_OK;
}

static weft_status read_merges(void *context, json_scan *scan)
{
    reading *r = context;
    weft_status status = WEFT_OK;
    weft__merges_release(&r->model->merges);
    r->waiting_count = 0;
    if (!r->has_vocab) {
        const bool held = weft__scan_value(scan, &r->merges);
        return held ? WEFT_OK : WEFT_INVALID;
    }
    weft__scan_take(scan, '[');
    bool more = !weft__scan_take(scan, ']');
    while (more && !status) {
        status = read_merge(r, scan);
        more = !status && weft__scan_more(scan, ']');
    }
    if (!status)
        status = scan->malformed ? WEFT_INVALID : add_waiting(r);
    return status;
}

/* ---- the whole file ------------------------------------------------------------------------- */

/* Reports the error with the message of the strict parser. */
static weft_status explain(const char *json, size_t length, const char *name)
{
    weft__json_doc doc = {0};
    const weft_status status = weft__json_parse(json, length, name, &doc);
    weft__json_free(&doc);
    return status ? status : weft_fail(WEFT_INVALID, "%s: not understood as JSON", name);
}

static weft_status parse_outline(const char *json, size_t length, const char *name,
                                 const scan_member *members, size_t count, void *context,
                                 weft__json_doc *rest)
{
    json_scan scan = {.at = json, .end = json + length};
    *rest = (weft__json_doc){0};
    if (weft__scan_peek(&scan) != '{')
        return weft__json_parse(json, length, name, rest);
    if (length > WEFT__JSON_MAX_BYTES)
        return weft_fail(WEFT_INVALID, "%s: JSON of %zu bytes: at most %d are read", name, length,
                         WEFT__JSON_MAX_BYTES);
    text_buffer text = {0};
    weft_status status = weft__scan_outline(&scan, members, count, context, &text);
    if (!status) {
        status = weft__json_parse(text.data, text.length, name, rest);
        scan.malformed = status == WEFT_INVALID;
    }
    weft__bytes_release(&text);
    return scan.malformed ? explain(json, length, name) : status;
}

weft_status weft__lists_read(const char *json, size_t length, const char *name, bpe_model *model,
                             weft__json_doc *rest)
{
    static const scan_member members[] = {
        {"model", "vocab", '{', read_vocab},
        {"model", "vocab", '[', read_pieces},
        {"model", "merges", '[', read_merges},
    };
    reading r = {.name = name, .model = model};
    weft_status status =
        parse_outline(json, length, name, members, sizeof members / sizeof *members, &r, rest);
    if (!status)
        status = weft__merges_index(&model->merges);
    weft__bytes_release(&r.scratch[0]);
    weft__bytes_release(&r.scratch[1]);
    weft__bytes_release(&r.joined);
    if (r.locale)
        freelocale(r.locale);
    return status;
}

/* "added_tokens_decoder" of tokenizer_config.json repeats tokenizer.json and is skipped. */
static weft_status skip_list(void *context, json_scan *scan)
{
    (void)context;
    text_string value;
    return weft__scan_value(scan, &value) ? WEFT_OK : WEFT_INVALID;
}

weft_status weft__config_read(const char *json, size_t length, const char *name,
                              weft__json_doc *rest)
{
    static const scan_member members[] = {{NULL, "added_tokens_decoder", '{', skip_list}};
    return parse_outline(json, length, name, members, 1, NULL, rest);
}
