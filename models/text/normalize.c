/* models/text/normalize.c -- the normalizers: Unicode forms, Prepend, Replace, Sequence. */
#include "models/text/normalize.h"

#include <string.h>

#include <utf8proc.h>

#include "core/io/utf8.h"
#include "models/text/unicode.h"
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
        return weft_fail(WEFT_MEMORY, "%s: no memory", name);
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

/* What a Replace looks for: {"String": s}, kept as it is, or {"Regex": r}. */
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
    return weft__json_fail(at, WEFT_UNSUPPORTED, "normalizer type \"%s\" is unsupported", type);
}

/* The nesting is bounded by that of the JSON. */
static weft_status load_tree(const weft__json *at, text_normalizer *out)
{
    const char *type = NULL;
    weft_status status = weft__json_get_string(at, "type", &type);
    if (status)
        return status;
    if (strcmp(type, "Sequence") != 0)
        return load_step(at, type, out);
    weft__json list, item;
    size_t count = 0;
    status = weft__json_get(at, "normalizers", &list);
    if (!status)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = load_tree(&item, out);
    }
    return status;
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

/* utf8proc_decompose orders combining marks by exchanging neighbours, which is quadratic in the
 * length of a run of them; so the characters are decomposed one at a time and each run is put in
 * order by counting. */

typedef struct code_points {
    utf8proc_int32_t *data, *ordered;
    size_t length, capacity, ordered_capacity;
} code_points;

static weft_status no_memory(size_t length)
{
    return weft_fail(WEFT_MEMORY, "tokenizer: no memory to normalize %zu bytes", length);
}

static weft_status decompose(const char *text, size_t length, int options, code_points *points)
{
    enum { LONGEST = 32 }; /* of a compatibility decomposition: U+FDFA gives 18 */
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

/* Stable order of a run of combining marks by class. */
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

weft_status weft__normalize_unicode(const char *text, size_t length, int options, text_buffer *out)
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

/* Characters below U+0300 are their own NFC and start nothing; ASCII is its own every form. */
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

/* ---- running -------------------------------------------------------------------------------- */

static weft_status replace_text(const normalizer_step *step, const char *text, size_t length,
                                text_buffer *out)
{
    const char *end = text + length;
    weft_status status = WEFT_OK;
    while (!status && step->from_length > 0) {
        const char *at = step->from_length == 1
                             ? memchr(text, *step->from, (size_t)(end - text))
                             : memmem(text, (size_t)(end - text), step->from, step->from_length);
        if (!at)
            break;
        status = weft__bytes_append(out, text, (size_t)(at - text));
        if (!status)
            status = weft__bytes_append(out, step->content, step->content_length);
        text = at + step->from_length;
    }
    return status ? status : weft__bytes_append(out, text, (size_t)(end - text));
}

static weft_status replace(const normalizer_step *step, const char *text, size_t length,
                           text_buffer *out)
{
    regex_search search;
    weft_status status = weft__regex_search(step->pattern, text, length, &search);
    size_t done = 0;
    bool found = true;
    while (!status && found) {
        status = weft__regex_next(&search, &found);
        if (status || !found)
            break;
        status = weft__bytes_append(out, text + done, search.start - done);
        if (!status)
            status = weft__bytes_append(out, step->content, step->content_length);
        done = search.end;
    }
    weft__regex_search_end(&search);
    return status ? status : weft__bytes_append(out, text + done, length - done);
}

weft_status weft__normalize(const text_normalizer *normalizer, const char *text, size_t length,
                            text_buffer scratch[2], const char **result, size_t *result_length)
{
    weft_status status = WEFT_OK;
    int turn = 0;
    for (int i = 0; i < normalizer->count && length > 0 && !status; i++) {
        const normalizer_step *step = &normalizer->steps[i];
        if (step->kind == NORMALIZE_UNICODE && is_normal(text, length, step->options))
            continue;
        text_buffer *out = &scratch[turn];
        turn ^= 1;
        out->length = 0;
        if (step->kind == NORMALIZE_UNICODE) {
            status = weft__normalize_unicode(text, length, step->options, out);
        } else if (step->kind == NORMALIZE_REPLACE) {
            status = step->from ? replace_text(step, text, length, out)
                                : replace(step, text, length, out);
        } else {
            status = weft__bytes_append(out, step->content, step->content_length);
            if (!status)
                status = weft__bytes_append(out, text, length);
        }
        text = out->data;
        length = out->length;
    }
    *result = text;
    *result_length = length;
    return status;
}
