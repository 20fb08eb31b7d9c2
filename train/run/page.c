/* train/run/page.c -- parts of the pages about runs: escaped text, numbers, the frame. */
#include "train/run/page.h"

#include <math.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/utf8.h"
#include "train/run/number.h"
#include "weft/io.h"
#include "weft/memory.h"

/* The mark that identifies a page. */
#define MARK "<title>Training run"

extern const char weft__page_css[], weft__page_js[]; /* page.css, page.js */

void weft__page_begin(weft__text *t, const char *title)
{
    weft__text_format(t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                         "<meta name=\"viewport\" content=\"width=device-width\">\n"
                         "<meta name=\"color-scheme\" content=\"light dark\">\n" MARK ": ");
    weft__page_escape(t, title);
    weft__text_format(t, "</title>\n<style>\n%s</style></head><body>\n", weft__page_css);
}

void weft__page_end(weft__text *t)
{
    weft__text_format(t, "<script>\n%s</script>\n</body></html>\n", weft__page_js);
}

weft_status weft__page_write(weft__text *t, const char *path)
{
    weft_status status = t->failed ? weft__out_of_memory("report", NULL)
                                   : weft__file_check_kind(path, MARK, "the report of a run");
    if (status == WEFT_OK)
        status = weft_file_write(path, t->at, t->n);
    weft_free(t->at);
    *t = (weft__text){0};
    return status;
}

/* ---- text ----------------------------------------------------------------------------------- */

void weft__page_escape_n(weft__text *t, const char *text, size_t n)
{
    size_t size;
    for (size_t i = 0; i < n; i += size) {
        const char c = text[i];
        const int step = weft__utf8_step(text + i, n - i);
        size = step > 0 ? (size_t)step : 1;
        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
            weft__text_format(t, "&#%d;", c);
        else if (c == '\n' || c == '\t' ||
                 (step > 0 && !weft__utf8_is_hidden(weft__utf8_decode(text + i, step))))
            weft__text_append(t, text + i, size);
        else
            weft__text_format(t, "%s", weft_printable_n(text + i, size));
    }
}

void weft__page_escape(weft__text *t, const char *text)
{
    weft__page_escape_n(t, text, strlen(text));
}

/* The members, one after another: "path a.jsonl, rows 1000". */
static void escape_members(weft__text *t, json_object *object)
{
    bool first = true;
    json_object_object_foreach(object, key, value)
    {
        weft__text_format(t, first ? "" : ", ");
        weft__page_escape(t, key);
        weft__text_format(t, " ");
        weft__page_value(t, value);
        first = false;
    }
}

static void escape_elements(weft__text *t, json_object *array)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        json_object *value = json_object_array_get_idx(array, i);
        const bool object = json_object_is_type(value, json_type_object);
        weft__text_format(t, i == 0 ? "" : object ? "<br>" : ", ");
        weft__page_value(t, value);
    }
}

void weft__page_value(weft__text *t, json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_string:
        weft__page_escape_n(t, json_object_get_string(value),
                            (size_t)json_object_get_string_len(value));
        return;
    case json_type_object:
        escape_members(t, value);
        return;
    case json_type_array:
        escape_elements(t, value);
        return;
    case json_type_double:
        weft__page_number(t, json_object_get_double(value));
        return;
    default:
        break;
    }
    weft__page_escape(t, json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                                   JSON_C_TO_STRING_NOSLASHESCAPE));
}

const char *weft__page_base(const char *path, size_t *n)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    *n = end - begin;
    return path + begin;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Writes a whole number with its digits in groups of three. */
void weft__page_count(weft__text *t, double value)
{
    char digits[WEFT__NUMBER_TEXT];
    if (!(fabs(value) < 1e15)) {
        weft__page_number(t, value);
        return;
    }
    weft__decimals(value, 0, digits);
    const size_t n = strlen(digits), sign = digits[0] == '-';
    for (size_t i = 0; i < n; i++)
        weft__text_format(t, i > sign && (n - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
}

void weft__page_bytes(weft__text *t, double value)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    char number[WEFT__NUMBER_TEXT];
    int unit = 0;
    for (; value >= 1000 && unit < 4; unit++)
        value /= 1000;
    weft__text_format(t, "%s %s", weft__decimals(value, unit > 0, number), units[unit]);
}

void weft__page_time(weft__text *t, double seconds)
{
    char number[WEFT__NUMBER_TEXT];
    const long long s = seconds > 0 && seconds < 1e15 ? (long long)seconds : 0;
    if (s < 60)
        weft__text_format(t, "%s s", weft__decimals(s > 0 ? seconds : fmax(seconds, 0), 1, number));
    else if (s < 3600)
        weft__text_format(t, "%lld:%02lld", s / 60, s % 60);
    else
        weft__text_format(t, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

void weft__page_number(weft__text *t, double value)
{
    char number[WEFT__NUMBER_TEXT];
    const char *text = value == trunc(value) ? weft__number(value, number)
                       : fabs(value) >= 0.1  ? weft__decimals(value, 4, number)
                                             : weft__significant(value, 4, number);
    weft__text_format(t, "%s", text);
}
