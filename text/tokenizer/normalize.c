/* text/tokenizer/normalize.c -- the normalizers: Unicode forms, Strip, Prepend, Replace, Sequence,
 * and those of filters.c and charsmap.c. */
#include "text/tokenizer/normalize.h"

#include <pthread.h>
#include <string.h>

#include <utf8proc.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/tokenizer/classes.h"
#include "text/tokenizer/unicode.h"
#include "weft/memory.h"

/* ---- loading -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int options;
} unicode_forms[] = {
    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

static weft_status keep(const char *text, size_t length, const char *name, char **out)
{
    *out = weft_malloc(length + 1);
    if (!*out)
        return weft__out_of_memory(name, NULL);
    memcpy(*out, text, length);
    (*out)[length] = '\0';
    return WEFT_OK;
}

static weft_status load_content(const weft__json *at, const char *key, normalizer_step *step)
{
    weft__json content;
    const char *text = NULL;
    weft_status status = weft__json_get(at, key, &content);
    if (!status)
        status = weft__json_as_string(&content, &text, &step->content_length);
    return status ? status : keep(text, step->content_length, at->name, &step->content);
}

/* The pattern of Replace: {"String": s}, which is kept, or {"Regex": r}. */
static weft_status load_pattern(const weft__json *at, normalizer_step *step)
{
    weft__json pattern, form;
    const char *text = NULL;
    weft_status status = weft__json_get(at, "pattern", &pattern);
    if (!status)
        status = weft__json_find(&pattern, "String", &form);
    if (!status && !form.value)
        return weft__regex_from_json(at, "pattern", &step->pattern);
    if (!status)
        status = weft__json_as_string(&form, &text, &step->from_length);
    return status ? status : keep(text, step->from_length, at->name, &step->from);
}

/* By default, accents are stripped if the text is lowercased. */
static weft_status load_bert(const weft__json *at, bert_options *out)
{
    weft__json accents;
    *out = (bert_options){.clean = true, .chinese = true, .lowercase = true};
    weft_status status = weft__json_find_bool(at, "clean_text", &out->clean);
    if (!status)
        status = weft__json_find_bool(at, "handle_chinese_chars", &out->chinese);
    if (!status)
        status = weft__json_find_bool(at, "lowercase", &out->lowercase);
    out->accents = out->lowercase;
    if (!status)
        status = weft__json_find(at, "strip_accents", &accents);
    if (!status && accents.value)
        status = weft__json_as_bool(&accents, &out->accents);
    return status;
}

static const struct {
    const char *name;
    normalizer_kind kind;
} plain_kinds[] = {
    {"Lowercase", NORMALIZE_LOWERCASE},
    {"StripAccents", NORMALIZE_STRIP_ACCENTS},
    {"Nmt", NORMALIZE_NMT},
};

static weft_status load_step(const weft__json *at, const char *type, text_normalizer *out)
{
    if (out->count == NORMALIZER_MAX_STEPS)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "more than %d normalizers",
                               NORMALIZER_MAX_STEPS);
    normalizer_step *step = &out->steps[out->count];
    for (size_t i = 0; i < sizeof unicode_forms / sizeof *unicode_forms; i++) {
        if (strcmp(type, unicode_forms[i].name) == 0) {
            step->kind = NORMALIZE_UNICODE;
            step->options = unicode_forms[i].options;
            out->count++;
            return WEFT_OK;
        }
    }
    for (size_t i = 0; i < sizeof plain_kinds / sizeof *plain_kinds; i++) {
        if (strcmp(type, plain_kinds[i].name) == 0) {
            step->kind = plain_kinds[i].kind;
            out->count++;
            return WEFT_OK;
        }
    }
    if (strcmp(type, "BertNormalizer") == 0) {
        step->kind = NORMALIZE_BERT;
        out->count++;
        return load_bert(at, &step->bert);
    }
    if (strcmp(type, "Precompiled") == 0) {
        step->kind = NORMALIZE_CHARSMAP;
        out->count++;
        return weft__charsmap_load(at, &step->charsmap);
    }
    if (strcmp(type, "Strip") == 0) {
        step->kind = NORMALIZE_STRIP;
        out->count++;
        const weft_status status = weft__json_find_bool(at, "strip_left", &step->left);
        return status ? status : weft__json_find_bool(at, "strip_right", &step->right);
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = NORMALIZE_PREPEND;
        out->count++;
        return load_content(at, "prepend", step);
    }
    if (strcmp(type, "Replace") == 0) {
        step->kind = NORMALIZE_REPLACE;
        out->count++;
        const weft_status status = load_pattern(at, step);
        return status ? status : load_content(at, "content", step);
    }
    return weft__json_fail(at, WEFT_UNSUPPORTED, "normalizer type \"%s\" is unsupported",
                           weft_printable(type));
}

/* Recursive; the JSON parser limits the nesting. */
static weft_status load_tree(const weft__json *at, void *out)
{
    const char *type = NULL;
    const weft_status status = weft__json_get_string(at, "type", &type);
    if (status)
        return status;
    if (strcmp(type, "Sequence") == 0)
        return weft__json_each(at, "normalizers", load_tree, out);
    return load_step(at, type, out);
}

weft_status weft__normalizer_load(const weft__json *root, text_normalizer *out)
{
    *out = (text_normalizer){0};
    weft__json at;
    weft_status status = weft__json_find(root, "normalizer", &at);
    if (!status && at.value)
        status = load_tree(&at, out);
    if (status)
        weft__normalizer_release(out);
    return status;
}

void weft__normalizer_release(text_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->count; i++) {
        weft__regex_free(normalizer->steps[i].pattern);
        weft_free(normalizer->steps[i].from);
        weft_free(normalizer->steps[i].content);
        weft__charsmap_free(normalizer->steps[i].charsmap);
    }
    *normalizer = (text_normalizer){0};
}

weft_status weft__normalizer_add_nfc(text_normalizer *normalizer)
{
    normalizer->steps[normalizer->count++] =
        (normalizer_step){.kind = NORMALIZE_UNICODE, .options = unicode_forms[0].options};
    return WEFT_OK;
}

weft_status weft__normalizer_add_marks(text_normalizer *normalizer, bool prefix, const char *name)
{
    static const char mark[] = "\xE2\x96\x81";
    normalizer_step *step = &normalizer->steps[normalizer->count];
    weft_status status = WEFT_OK;
    if (prefix) {
        step->kind = NORMALIZE_PREPEND;
        step->content_length = 3;
        normalizer->count++;
        status = keep(mark, 3, name, &step->content);
        step++;
    }
    if (status)
        return status;
    normalizer->count++;
    step->kind = NORMALIZE_REPLACE;
    step->from_length = 1;
    step->content_length = 3;
    status = keep(" ", 1, name, &step->from);
    return status ? status : keep(mark, 3, name, &step->content);
}

/* ---- Unicode forms -------------------------------------------------------------------------- */

/* utf8proc_decompose sorts combining marks by exchanging adjacent ones, which is quadratic in the
 * length of a run. So characters are decomposed one at a time and each run is sorted by counting.
 */

typedef struct code_points {
    utf8proc_int32_t *data, *ordered;
    size_t length, capacity, ordered_capacity;
} code_points;

static weft_status no_memory(size_t length)
{
    return weft_fail(WEFT_MEMORY, "tokenizer: out of memory to normalize %zu bytes", length);
}

static weft_status decompose(const char *text, size_t length, int options, code_points *points)
{
    enum { LONGEST = 32 }; /* longest compatibility decomposition: U+FDFA gives 18 */
    for (size_t i = 0; i < length;) {
        utf8proc_int32_t code;
        i += (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                      (utf8proc_ssize_t)(length - i), &code);
        void *data = points->data;
        const weft_status status = weft__bytes_grow(&data, &points->capacity, points->length,
                                                    LONGEST, sizeof *points->data);
        points->data = data;
        if (status)
            return status;
        if (weft__is_newer_composite((uint32_t)code)) {
            points->data[points->length++] = code;
            continue;
        }
        int boundary = 0;
        points->length += (size_t)utf8proc_decompose_char(
            code, points->data + points->length, LONGEST, (utf8proc_option_t)options, &boundary);
    }
    return WEFT_OK;
}

static int combining_class(utf8proc_int32_t code)
{
    return code < 0x300 ? 0 : utf8proc_get_property(code)->combining_class;
}

/* Sorts a run of combining marks by class, stably. */
static weft_status order_run(code_points *points, size_t start, size_t end)
{
    size_t first[256] = {0};
    for (size_t i = start; i < end; i++)
        first[combining_class(points->data[i]) & 255]++;
    size_t sum = 0;
    for (int c = 0; c < 256; c++) {
        const size_t count = first[c];
        first[c] = sum;
        sum += count;
    }
    void *data = points->ordered;
    const weft_status status =
        weft__bytes_grow(&data, &points->ordered_capacity, 0, end - start, sizeof *points->ordered);
    points->ordered = data;
    if (status)
        return status;
    for (size_t i = start; i < end; i++)
        points->ordered[first[combining_class(points->data[i]) & 255]++] = points->data[i];
    memcpy(points->data + start, points->ordered, (end - start) * sizeof *points->data);
    return WEFT_OK;
}

static weft_status order(code_points *points)
{
    for (size_t i = 0; i < points->length; i++) {
        const size_t start = i;
        int previous = 0;
        bool ordered = true;
        for (; i < points->length; i++) {
            const int class = combining_class(points->data[i]);
            if (class == 0)
                break;
            ordered = ordered && class >= previous;
            previous = class;
        }
        if (!ordered) {
            const weft_status status = order_run(points, start, i);
            if (status)
                return status;
        }
    }
    return WEFT_OK;
}

static weft_status normalize_piece(const char *text, size_t length, int options, text_buffer *out)
{
    code_points points = {0};
    weft_status status = decompose(text, length, options, &points);
    if (!status)
        status = order(&points);
    if (!status && points.length > 0) {
        const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
            points.data, (utf8proc_ssize_t)points.length, (utf8proc_option_t)options);
        if (composed < 0)
            status = no_memory(length);
        else
            status = weft__bytes_reserve(out, 4 * (size_t)composed);
        for (utf8proc_ssize_t i = 0; i < composed && !status; i++)
            out->length += (size_t)utf8proc_encode_char(
                points.data[i], (utf8proc_uint8_t *)out->data + out->length);
    }
    weft_free(points.data);
    weft_free(points.ordered);
    return status;
}

static weft_status normalize_stretch(const char *text, size_t length, int options, text_buffer *out)
{
    weft_status status = WEFT_OK;
    size_t start = 0;
    for (size_t i = 0; i < length && !status;) {
        const int size = weft__utf8_step(text + i, length - i);
        if (size > 1 && weft__is_newer_mark(weft__utf8_decode(text + i, size))) {
            status = normalize_piece(text + start, i - start, options, out);
            if (!status)
                status = weft__bytes_append(out, text + i, (size_t)size);
            start = i + (size_t)size;
        }
        i += (size_t)size;
    }
    return status ? status : normalize_piece(text + start, length - start, options, out);
}

/* Most characters are inert: composition does not change them, whatever surrounds them. They are
 * starters that are their own NFC and compose with no preceding character. Of characters that take
 * part in compositions, only those of alphabets whose marks are not starters are treated as inert.
 */
static bool is_inert(uint32_t code)
{
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)code);
    if (code < 0x300)
        return true;
    if (property->combining_class != 0 || weft__is_newer_mark(code) ||
        (code >= 0x1100 && code < 0x1200))
        return false;
    if (property->decomp_seqindex == UINT16_MAX && property->comb_index == UINT16_MAX)
        return true;
    const bool alphabet = (code >= 0x370 && code < 0x530) || (code >= 0x1E00 && code < 0x2000) ||
                          (code >= 0x3041 && code < 0x3100);
    utf8proc_int32_t points[8];
    int boundary = 0;
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    if (!alphabet)
        return false;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)code, points, 8, options, &boundary);
    return count > 0 && count <= 8 && utf8proc_normalize_utf32(points, count, options) == 1 &&
           points[0] == (utf8proc_int32_t)code;
}

static uint64_t inert_bits[0x10000 / 64];
static pthread_once_t inert_once = PTHREAD_ONCE_INIT;

static void find_inert(void)
{
    for (uint32_t code = 0; code < 0x10000; code++)
        inert_bits[code / 64] |= (uint64_t)is_inert(code) << code % 64;
}

/* Normalizes the characters that are not inert, each with the preceding character that it may
 * compose with. */
static weft_status compose(const char *text, size_t length, int options, text_buffer *out)
{
    pthread_once(&inert_once, find_inert);
    size_t done = 0, before = 0; /* copied so far; start of the last inert character */
    bool waiting = false;        /* not everything from `before` on is inert */
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < length && !status;) {
        const unsigned char lead = (unsigned char)text[i];
        const int size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        const uint32_t code = weft__utf8_decode(text + i, size);
        const bool inert = code < 0x10000 ? inert_bits[code / 64] >> code % 64 & 1 : is_inert(code);
        if (inert && waiting) {
            status = weft__bytes_append(out, text + done, before - done);
            if (!status)
                status = normalize_stretch(text + before, i - before, options, out);
            done = i;
        }
        if (inert)
            before = i;
        waiting = !inert;
        i += (size_t)size;
    }
    if (!status)
        status = weft__bytes_append(out, text + done, (waiting ? before : length) - done);
    return status || !waiting ? status
                              : normalize_stretch(text + before, length - before, options, out);
}

weft_status weft__normalize_unicode(const char *text, size_t length, int options, text_buffer *out)
{
    const bool canonical = (options & UTF8PROC_COMPOSE) && !(options & UTF8PROC_COMPAT);
    return canonical ? compose(text, length, options, out)
                     : normalize_stretch(text, length, options, out);
}

/* Characters below U+0300 are their own NFC and never a combining mark; ASCII is unchanged in every
 * form. */
static bool is_normal(const char *text, size_t length, int options)
{
    const bool canonical = (options & UTF8PROC_COMPOSE) && !(options & UTF8PROC_COMPAT);
    const unsigned char limit = canonical ? 0xCC : 0x80;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] >= limit)
            return false;
    }
    return true;
}

/* ---- applying the steps ---------------------------------------------------------------------- */

/* Limit of the output: more than any Unicode form or replacement of spaces produces (11 times the
 * bytes), and less than a few Replace steps in a row could. */
enum { MOST_PER_BYTE = 64, MOST_BESIDES = 1 << 20 };

static weft_status check_size(size_t size, size_t limit)
{
    return size <= limit ? WEFT_OK
                         : weft_fail(WEFT_INVALID,
                                     "tokenizer: its normalizers make more than %zu bytes of a "
                                     "text: at most %d for each byte and %d besides",
                                     limit, MOST_PER_BYTE, MOST_BESIDES);
}

/* Appends the text before a match, and its replacement. */
static weft_status append_replaced(const normalizer_step *step, const char *before, size_t length,
                                   size_t limit, text_buffer *out)
{
    weft_status status = check_size(out->length + length + step->content_length, limit);
    if (!status)
        status = weft__bytes_append(out, before, length);
    return status ? status : weft__bytes_append(out, step->content, step->content_length);
}

static weft_status replace_text(const normalizer_step *step, const char *text, size_t length,
                                size_t limit, text_buffer *out)
{
    const char *end = text + length;
    weft_status status = WEFT_OK;
    while (!status && step->from_length > 0) {
        const char *at = step->from_length == 1
                             ? memchr(text, *step->from, (size_t)(end - text))
                             : memmem(text, (size_t)(end - text), step->from, step->from_length);
        if (!at)
            break;
        status = append_replaced(step, text, (size_t)(at - text), limit, out);
        text = at + step->from_length;
    }
    return status ? status : weft__bytes_append(out, text, (size_t)(end - text));
}

static weft_status replace(const normalizer_step *step, const char *text, size_t length,
                           size_t limit, text_buffer *out)
{
    regex_search search;
    weft_status status = weft__regex_search(step->pattern, text, length, &search);
    size_t done = 0;
    bool found = true;
    while (!status && found) {
        status = weft__regex_next(&search, &found);
        if (status || !found)
            break;
        status = append_replaced(step, text + done, search.start - done, limit, out);
        done = search.end;
    }
    weft__regex_search_end(&search);
    return status ? status : weft__bytes_append(out, text + done, length - done);
}

bool weft__strips(const char *text, int size)
{
    const uint32_t code = weft__utf8_decode(text, size);
    return code < 0x10000 && weft__classes()[code] == CHAR_SPACE;
}

static weft_status strip(const normalizer_step *step, const char *text, size_t length,
                         text_buffer *out)
{
    size_t start = 0, end = length;
    while (step->left && start < length) {
        const int size = weft__utf8_step(text + start, length - start);
        if (!weft__strips(text + start, size))
            break;
        start += (size_t)size;
    }
    while (step->right && end > start) {
        size_t last = end - 1;
        while (((unsigned char)text[last] & 0xC0) == 0x80)
            last--;
        if (!weft__strips(text + last, (int)(end - last)))
            break;
        end = last;
    }
    return weft__bytes_append(out, text + start, end - start);
}

static weft_status run_step(const normalizer_step *step, const char *text, size_t length,
                            size_t limit, text_buffer *out)
{
    switch (step->kind) {
    case NORMALIZE_UNICODE:
        return weft__normalize_unicode(text, length, step->options, out);
    case NORMALIZE_REPLACE:
        return step->from ? replace_text(step, text, length, limit, out)
                          : replace(step, text, length, limit, out);
    case NORMALIZE_LOWERCASE:
        return weft__lowercase(text, length, out);
    case NORMALIZE_STRIP_ACCENTS:
        return weft__strip_accents(text, length, out);
    case NORMALIZE_NMT:
        return weft__normalize_nmt(text, length, out);
    case NORMALIZE_BERT:
        return weft__normalize_bert(&step->bert, text, length, out);
    case NORMALIZE_CHARSMAP:
        return weft__charsmap_apply(step->charsmap, text, length, limit, out);
    case NORMALIZE_STRIP:
        return strip(step, text, length, out);
    case NORMALIZE_PREPEND:
        break;
    }
    const weft_status status = append_replaced(step, text, 0, limit, out);
    return status ? status : weft__bytes_append(out, text, length);
}

weft_status weft__normalize(const text_normalizer *normalizer, const char *text, size_t length,
                            text_buffer scratch[2], const char **result, size_t *result_length,
                            bool *first)
{
    const size_t limit = length < SIZE_MAX / MOST_PER_BYTE - MOST_BESIDES
                             ? length * MOST_PER_BYTE + MOST_BESIDES
                             : SIZE_MAX;
    weft_status status = WEFT_OK;
    int turn = 0;
    for (int i = 0; i < normalizer->count && length > 0 && !status; i++) {
        const normalizer_step *step = &normalizer->steps[i];
        if (step->kind == NORMALIZE_UNICODE && is_normal(text, length, step->options))
            continue;
        text_buffer *out = &scratch[turn];
        turn ^= 1;
        out->length = 0;
        if (first && *first)
            status = weft__step_keeps_start(step, text, length, first);
        if (!status)
            status = run_step(step, text, length, limit, out);
        if (!status)
            status = check_size(out->length, limit);
        text = out->data;
        length = out->length;
    }
    *result = text;
    *result_length = length;
    return status;
}
