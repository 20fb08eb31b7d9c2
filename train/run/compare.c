/* train/run/compare.c -- compares what a checkpoint records of its run with what there is now. */
#include "train/run/compare.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "weft/memory.h"

static const char *const names[WEFT__ITEMS] = {"base", "tokenizer", "rows", "options", "build"};

void weft__add_difference(weft__text *list, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (list->n > 0)
        weft__text_append(list, ", ", 2);
    weft__text_quote(list, text);
}

/* ---- values --------------------------------------------------------------------------------- */

static const char *text_of(json_object *value)
{
    return value == NULL ? "none"
           : json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
}

static void differ(weft__comparison *c, weft__item item, const char *name, const char *recorded,
                   const char *now)
{
    c->state[item] = WEFT__DIFFERS;
    weft__add_difference(&c->differences[item], "%s: recorded %s, now %s", weft_printable(name),
                         weft_printable(recorded), weft_printable(now));
}

/* Compares a value; unknown if nothing is recorded. */
static void compare_value(weft__comparison *c, weft__item item, const char *name,
                          json_object *recorded, json_object *now)
{
    if (recorded == NULL || strcmp(text_of(recorded), "") == 0) {
        if (c->state[item] == WEFT__EQUAL)
            c->state[item] = WEFT__UNKNOWN;
    } else if (!json_object_equal(recorded, now)) {
        differ(c, item, name, text_of(recorded), text_of(now));
    }
}

/* Compares each member of an object. */
static void compare_members(weft__comparison *c, weft__item item, json_object *recorded,
                            json_object *now)
{
    if (!json_object_is_type(recorded, json_type_object)) {
        compare_value(c, item, "", NULL, now);
        return;
    }
    json_object_object_foreach(recorded, key, value)
    {
        json_object *other = NULL;
        json_object_object_get_ex(now, key, &other);
        if (!json_object_equal(value, other))
            differ(c, item, key, text_of(value), text_of(other));
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *member_of(json_object *file, const char *key)
{
    json_object *value = NULL;
    json_object_object_get_ex(file, key, &value);
    return value ? json_object_get_string(value) : "";
}

/* The entry of a list of files with the same name and use; NULL: none. */
static json_object *find_file(json_object *files, json_object *like)
{
    for (size_t i = 0; i < json_object_array_length(files); i++) {
        json_object *file = json_object_array_get_idx(files, i);
        if (strcmp(member_of(file, "name"), member_of(like, "name")) == 0 &&
            strcmp(member_of(file, "of"), member_of(like, "of")) == 0)
            return file;
    }
    return NULL;
}

static weft__item item_of(json_object *file)
{
    const char *of = member_of(file, "of");
    return strcmp(of, "base") == 0 || strcmp(of, "teacher") == 0 ? WEFT__BASE
           : strcmp(of, "tokenizer") == 0                        ? WEFT__TOKENIZER
                                                                 : WEFT__ROWS;
}

static void compare_file(weft__comparison *c, json_object *file, json_object *now)
{
    char name[512];
    const char *hash = member_of(file, "sha256");
    snprintf(name, sizeof name, "%s%s",
             strcmp(member_of(file, "of"), "teacher") == 0 ? "teacher " : "",
             member_of(file, "name"));
    if (now == NULL)
        differ(c, item_of(file), name, "the file", "none");
    else if (*hash == '\0' || *member_of(now, "sha256") == '\0')
        compare_value(c, item_of(file), name, NULL, now);
    else if (strcmp(hash, member_of(now, "sha256")) != 0)
        differ(c, item_of(file), name, hash, member_of(now, "sha256"));
}

static void compare_files(weft__comparison *c, json_object *recorded, json_object *now)
{
    if (!json_object_is_type(recorded, json_type_array) ||
        !json_object_is_type(now, json_type_array)) {
        for (int item = WEFT__BASE; item <= WEFT__ROWS; item++)
            compare_value(c, (weft__item)item, "", NULL, now);
        return;
    }
    for (size_t i = 0; i < json_object_array_length(recorded); i++) {
        json_object *file = json_object_array_get_idx(recorded, i);
        compare_file(c, file, find_file(now, file));
    }
    for (size_t i = 0; i < json_object_array_length(now); i++) {
        json_object *file = json_object_array_get_idx(now, i);
        if (find_file(recorded, file) == NULL)
            differ(c, item_of(file), member_of(file, "name"), "none", "a file");
    }
}

/* ---- command lines -------------------------------------------------------------------------- */

static const char *word_at(json_object *words, size_t i)
{
    const char *word = i < json_object_array_length(words)
                           ? json_object_get_string(json_object_array_get_idx(words, i))
                           : NULL;
    return word ? word : "";
}

static bool is_option(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2] != '\0';
}

/* The value of an option's occurrence `number`, "" for a flag; NULL: it does not occur. */
static const char *value_of(json_object *words, const char *option, int number)
{
    for (size_t i = 0; i < json_object_array_length(words); i++) {
        if (strcmp(word_at(words, i), option) == 0 && number-- == 0)
            return is_option(word_at(words, i + 1)) ? "" : word_at(words, i + 1);
    }
    return NULL;
}

/* Compares the options of `these` with those of `others`; `back`: only those that others lack. */
static void compare_words(weft__comparison *c, json_object *these, json_object *others, bool back)
{
    for (size_t i = 0; i < json_object_array_length(these); i++) {
        const char *option = word_at(these, i);
        int number = 0;
        for (size_t k = 0; k < i; k++)
            number += strcmp(word_at(these, k), option) == 0;
        if (!is_option(option) || strcmp(option, "--out") == 0)
            continue;
        const char *value = value_of(these, option, number),
                   *other = value_of(others, option, number);
        if (other == NULL)
            differ(c, WEFT__OPTIONS, option, back ? "none" : value, back ? value : "none");
        else if (!back && strcmp(value, other) != 0)
            differ(c, WEFT__OPTIONS, option, value, other);
    }
}

static void compare_command(weft__comparison *c, json_object *recorded, json_object *now)
{
    if (!json_object_is_type(recorded, json_type_array) ||
        !json_object_is_type(now, json_type_array))
        return; /* a program's run: its options are compared */
    compare_words(c, recorded, now, false);
    if (c->state[WEFT__BUILD] == WEFT__EQUAL) /* others may have more options, with defaults */
        compare_words(c, now, recorded, true);
}

/* ---- samples -------------------------------------------------------------------------------- */

static int64_t count_of(json_object *samples, const char *key)
{
    json_object *value = NULL;
    json_object_object_get_ex(samples, key, &value);
    return json_object_get_int64(value);
}

static json_object *hashes_of(json_object *samples)
{
    json_object *value = NULL;
    json_object_object_get_ex(samples, "hashes", &value);
    return json_object_is_type(value, json_type_array) ? value : NULL;
}

/* Names the samples among which the first and the last change are. */
static void compare_samples(weft__comparison *c, json_object *recorded, json_object *now)
{
    json_object *a = hashes_of(recorded), *b = hashes_of(now);
    const int64_t n = count_of(recorded, "n"), each = count_of(recorded, "group");
    int64_t first = -1, last = -1;
    if (a == NULL || b == NULL)
        return;
    if (n != count_of(now, "n")) {
        char then[24], own[24];
        snprintf(then, sizeof then, "%lld", (long long)n);
        snprintf(own, sizeof own, "%lld", (long long)count_of(now, "n"));
        differ(c, WEFT__ROWS, "samples", then, own);
        return;
    }
    for (int64_t i = 0; i < (int64_t)json_object_array_length(a); i++) {
        if (strcmp(word_at(a, (size_t)i), word_at(b, (size_t)i)) == 0)
            continue;
        first = first < 0 ? i : first;
        last = i;
    }
    if (first < 0)
        return;
    c->state[WEFT__ROWS] = WEFT__DIFFERS;
    last = (last + 1) * each < n ? (last + 1) * each : n;
    if (first * each + 1 == last)
        weft__add_difference(&c->differences[WEFT__ROWS], "sample %lld of %lld", (long long)last,
                             (long long)n);
    else
        weft__add_difference(&c->differences[WEFT__ROWS], "among samples %lld to %lld of %lld",
                             (long long)(first * each + 1), (long long)last, (long long)n);
}

/* ---- all ------------------------------------------------------------------------------------ */

void weft__compare(json_object *recorded, json_object *now, weft__comparison *out)
{
    *out = (weft__comparison){.state = {WEFT__EQUAL}};
    json_object *build = NULL, *files = NULL, *command = NULL;
    json_object_object_get_ex(recorded, "build", &build);
    json_object_object_get_ex(recorded, "files", &files);
    json_object_object_get_ex(recorded, "command", &command);
    json_object *own = NULL;
    json_object_object_get_ex(now, "build", &own);
    compare_members(out, WEFT__BUILD, build, own);
    json_object_object_foreach(now, key, value)
    {
        json_object *then = NULL;
        json_object_object_get_ex(recorded, key, &then);
        if (strcmp(key, "files") == 0)
            compare_files(out, files, value);
        else if (strcmp(key, "command") == 0)
            compare_command(out, command, value);
        else if (strcmp(key, "samples") == 0)
            compare_samples(out, then, value);
        else if (strcmp(key, "teacher") == 0)
            compare_value(out, WEFT__BASE, "teacher", then, value);
        else if (strcmp(key, "options") == 0)
            compare_members(out, WEFT__OPTIONS, then, value);
        else if (strcmp(key, "base") == 0 && files == NULL) /* parts of the files' contents */
            compare_value(out, WEFT__BASE, "hash", then, value);
        else if (strcmp(key, "tokenizer") == 0)
            compare_value(out, WEFT__TOKENIZER, "hash", then, value);
        else if (strcmp(key, "data") == 0)
            compare_value(out, WEFT__ROWS, "hash of all tokens", then, value);
        else if (strcmp(key, "build") != 0 && strcmp(key, "base") != 0 &&
                 strcmp(key, "version") != 0)
            compare_value(out, WEFT__OPTIONS, key, then, value);
    }
}

void weft__comparison_free(weft__comparison *c)
{
    for (int i = 0; i < WEFT__ITEMS; i++)
        weft_free(c->differences[i].at);
}

void weft__comparison_write(weft__text *t, const weft__comparison *c)
{
    static const char *const states[] = {"equal", "unknown", "differs"};
    weft__text_format(t, "\"items\": {");
    for (int i = 0; i < WEFT__ITEMS; i++)
        weft__text_format(t, "%s\"%s\": {\"state\": \"%s\", \"differences\": [%s]}",
                          i > 0 ? ", " : "", names[i], states[c->state[i]],
                          c->differences[i].at ? c->differences[i].at : "");
    weft__text_format(t, "}, ");
}
