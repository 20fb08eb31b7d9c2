/* train/adapter/pattern.c -- modules selected by regular expressions: PEFT's exclude_modules, and
 * the numbers of rank_pattern and alpha_pattern. */
#include <math.h>
#include <string.h>

#include <json-c/json_object_iterator.h>

#include "core/failure.h"
#include "text/tokenizer/regex.h"
#include "train/adapter/adapter.h"

/* `before` is the expression for what may precede a match. */
static weft_status compile(const weft__json *pattern, const char *before, const char *key,
                           text_regex **out)
{
    char *text = weft_format("^%s(?:%s)$", before, key);
    const weft_status status = text ? weft__regex_new(text, strlen(text), false, pattern, out)
                                    : weft__out_of_memory(pattern->name, NULL);
    weft_free(text);
    return status;
}

static weft_status matches(const text_regex *regex, const char *path, bool *out)
{
    regex_search search;
    weft_status status = weft__regex_search(regex, path, strlen(path), &search);
    if (status == WEFT_OK)
        status = weft__regex_next(&search, out);
    weft__regex_search_end(&search);
    return status;
}

weft_status weft__adapter_regex_fits(const weft__json *regex, const char *name, bool *out)
{
    text_regex *compiled = NULL;
    weft_status status = compile(regex, "", json_object_get_string(regex->value), &compiled);
    if (status == WEFT_OK)
        status = matches(compiled, name, out);
    weft__regex_free(compiled);
    return status;
}

/* PEFT matches (.*\\.)?(KEY)$ against the complete path. */
static const char components[] = "(?:.*\\.)?";

static weft_status check_number(const weft__json *pattern, const char *key, bool whole)
{
    weft__json at;
    int64_t rank = 1;
    double number = 1;
    weft_status status = weft__json_get(pattern, key, &at);
    if (status == WEFT_OK)
        status = whole ? weft__json_as_int(&at, &rank) : weft__json_as_number(&at, &number);
    if (status != WEFT_OK)
        return status;
    if (rank < 1 || rank > WEFT__MOST_RANK)
        return weft__json_fail(&at, WEFT_INVALID, "expected 1 to %d, got %lld", WEFT__MOST_RANK,
                               (long long)rank);
    if (number == 0 || !isfinite(number))
        return weft__json_fail(&at, WEFT_INVALID, "expected a number other than 0");
    return WEFT_OK;
}

weft_status weft__adapter_pattern_read(const weft__json *root, const char *name, bool whole,
                                       weft__json *out)
{
    weft_status status = weft__json_find(root, name, out);
    if (status != WEFT_OK || out->value == NULL)
        return status;
    status = weft__json_as_object(out);
    if (status != WEFT_OK)
        return status;
    struct json_object_iterator at = json_object_iter_begin(out->value);
    const struct json_object_iterator end = json_object_iter_end(out->value);
    for (; status == WEFT_OK && !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
        const char *key = json_object_iter_peek_name(&at);
        text_regex *regex = NULL;
        status = compile(out, components, key, &regex);
        weft__regex_free(regex);
        if (status == WEFT_OK)
            status = check_number(out, key, whole);
    }
    return status;
}

weft_status weft__adapter_pattern_find(const weft__json *pattern, const char *path, double *out)
{
    weft_status status = WEFT_OK;
    *out = 0;
    if (pattern->value == NULL)
        return status;
    struct json_object_iterator at = json_object_iter_begin(pattern->value);
    const struct json_object_iterator end = json_object_iter_end(pattern->value);
    for (; *out == 0 && !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
        text_regex *regex = NULL;
        bool fits = false;
        status = compile(pattern, components, json_object_iter_peek_name(&at), &regex);
        if (status == WEFT_OK)
            status = matches(regex, path, &fits);
        weft__regex_free(regex);
        if (status != WEFT_OK)
            return status;
        if (fits)
            *out = json_object_get_double(json_object_iter_peek_value(&at));
    }
    return status;
}
