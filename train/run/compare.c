/* train/run/compare.c -- compares what a checkpoint records of its run with what there is now. */
#include "train/run/compare.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "train/run/settings.h"
#include "train/run/sums.h"
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

static void worsen(weft__comparison *c, weft__item item, weft__agreement state)
{
    c->state[item] = state > c->state[item] ? state : c->state[item];
}

static void differ(weft__comparison *c, weft__item item, const char *name, const char *recorded,
                   const char *now)
{
    worsen(c, item, WEFT__DIFFERS);
    weft__add_difference(&c->differences[item], "%s: recorded %s, now %s", weft_printable(name),
                         weft_printable(recorded), weft_printable(now));
}

/* Compares the values of an option. */
static void compare_option(weft__comparison *c, const char *prefix, const char *name,
                           const char *recorded, const char *now)
{
    const weft__effect effect = weft__option_effect(name);
    if (effect == WEFT__OF_RESULT)
        worsen(c, WEFT__OPTIONS, WEFT__DIFFERS);
    if (strcmp(name, "out") != 0)
        weft__add_difference(&c->differences[WEFT__OPTIONS], "%s%s: recorded %s, now %s%s", prefix,
                             weft_printable(name), weft_printable(recorded), weft_printable(now),
                             effect == WEFT__OF_RESULT ? "" : " (does not change the result)");
}

/* Compares a value; unknown if nothing is recorded. */
static void compare_value(weft__comparison *c, weft__item item, const char *name,
                          json_object *recorded, json_object *now)
{
    if (recorded == NULL || strcmp(text_of(recorded), "") == 0) {
        worsen(c, item, WEFT__UNKNOWN);
        if (*name)
            weft__add_difference(&c->differences[item], "%s: not recorded", weft_printable(name));
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
        if (json_object_equal(value, other))
            continue;
        if (item == WEFT__OPTIONS)
            compare_option(c, "", key, text_of(value), text_of(other));
        else
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
    static const struct {
        const char *of;
        weft__item item;
    } items[] = {{"base", WEFT__BASE},
                 {"teacher", WEFT__BASE},
                 {"adapter", WEFT__BASE},
                 {"tokenizer", WEFT__TOKENIZER},
                 {"reward", WEFT__OPTIONS}};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (strcmp(member_of(file, "of"), items[i].of) == 0)
            return items[i].item;
    return WEFT__ROWS;
}

/* Names the lines of a file of rows that changed. */
static void compare_lines(weft__comparison *c, json_object *file, json_object *now,
                          const char *name)
{
    json_object *then = NULL, *own = NULL;
    weft__text changed = {0};
    json_object_object_get_ex(file, "lines", &then);
    json_object_object_get_ex(now, "lines", &own);
    if (weft__sums_compare(then, own, "line", &changed) && changed.at)
        weft__add_difference(&c->differences[WEFT__ROWS], "%s: %s", weft_printable(name),
                             changed.at);
    weft_free(changed.at);
}

/* Compares the SHA-256 of a file; without one, the hash of some of its blocks. */
static void compare_file(weft__comparison *c, json_object *file, json_object *now)
{
    char name[512];
    const char *of = member_of(file, "of");
    const weft__item item = item_of(file);
    const bool named = strcmp(of, "teacher") == 0 || strcmp(of, "adapter") == 0;
    snprintf(name, sizeof name, "%s%s%s", named ? of : "", named ? " " : "",
             member_of(file, "name"));
    const bool whole = *member_of(file, "sha256") && *member_of(now, "sha256");
    const char *key = whole ? "sha256" : "quick", *hash = member_of(file, key);
    if (now == NULL)
        differ(c, item, name, "the file", "none");
    else if (*hash == '\0')
        compare_value(c, item, name, NULL, now);
    else if (strcmp(hash, member_of(now, key)) != 0) {
        differ(c, item, name, hash, member_of(now, key));
        compare_lines(c, file, now, name);
    } else if (!whole) {
        worsen(c, item, WEFT__QUICK);
        weft__add_difference(&c->differences[item],
                             "%s: equal by its quick hash: the run has no SHA-256 of it",
                             weft_printable(name));
    }
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

/* ---- command lines and samples --------------------------------------------------------------- */

/* Compares the options of `these` with those of `others`; `back`: only those that others lack. */
static void compare_words(weft__comparison *c, json_object *these, json_object *others, bool back)
{
    for (weft__options o = {.words = these}; weft__options_next(&o);) {
        int number = 0; /* of the option's occurrence */
        if (o.name == NULL)
            continue;
        for (weft__options k = {.words = these}; weft__options_next(&k) && k.at < o.at;)
            number += k.name && strcmp(k.name, o.name) == 0;
        const char *value = o.value ? o.value : "",
                   *other = weft__option_of(others, o.name, number);
        if (other == NULL)
            compare_option(c, "--", o.name, back ? "none" : value, back ? value : "none");
        else if (!back && strcmp(value, other) != 0)
            compare_option(c, "--", o.name, value, other);
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

static void compare_samples(weft__comparison *c, json_object *recorded, json_object *now)
{
    weft__text changed = {0};
    if (weft__sums_compare(recorded, now, "sample", &changed) && changed.at) {
        worsen(c, WEFT__ROWS, WEFT__DIFFERS);
        weft__add_difference(&c->differences[WEFT__ROWS], "%s", changed.at);
    }
    weft_free(changed.at);
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Compares a member of the record other than build and files. */
static void compare_member(weft__comparison *c, const char *key, json_object *then,
                           json_object *now)
{
    if (strcmp(key, "command") == 0)
        compare_command(c, then, now);
    else if (strcmp(key, "samples") == 0)
        compare_samples(c, then, now);
    else if (strcmp(key, "options") == 0)
        compare_members(c, WEFT__OPTIONS, then, now);
    else if (strcmp(key, "base") == 0 || strcmp(key, "teacher") == 0)
        compare_value(c, WEFT__BASE, key, then, now);
    else if (strcmp(key, "tokenizer") == 0 && *text_of(now)) /* "": a part of the base's file */
        compare_value(c, WEFT__TOKENIZER, "hash", then, now);
    else if (strcmp(key, "data") == 0)
        compare_value(c, WEFT__ROWS, "hash of all tokens", then, now);
    else if (strcmp(key, "tokenizer") != 0 && strcmp(key, "version") != 0)
        compare_value(c, WEFT__OPTIONS, key, then, now);
}

void weft__compare(json_object *recorded, json_object *now, weft__comparison *out)
{
    *out = (weft__comparison){.state = {WEFT__EQUAL}};
    json_object *build = NULL, *own = NULL;
    json_object_object_get_ex(recorded, "build", &build);
    json_object_object_get_ex(now, "build", &own);
    compare_members(out, WEFT__BUILD, build, own);
    json_object_object_foreach(now, key, value)
    {
        json_object *then = NULL;
        json_object_object_get_ex(recorded, key, &then);
        if (strcmp(key, "files") == 0)
            compare_files(out, then, value);
        else if (strcmp(key, "build") != 0)
            compare_member(out, key, then, value);
    }
}

void weft__comparison_free(weft__comparison *c)
{
    for (int i = 0; i < WEFT__ITEMS; i++)
        weft_free(c->differences[i].at);
}

void weft__comparison_write(weft__text *t, const weft__comparison *c)
{
    static const char *const states[] = {"equal", "quick", "unknown", "differs"};
    weft__text_format(t, "\"items\": {");
    for (int i = 0; i < WEFT__ITEMS; i++)
        weft__text_format(t, "%s\"%s\": {\"state\": \"%s\", \"differences\": [%s]}",
                          i > 0 ? ", " : "", names[i], states[c->state[i]],
                          c->differences[i].at ? c->differences[i].at : "");
    weft__text_format(t, "}, ");
}
