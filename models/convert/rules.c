/* models/convert/rules.c -- rules "PATTERN=VALUE,...", and recipes that mix bit widths. */
#include "models/convert/rules.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 256 };

/* Parses the rule at `at`; *next is the position after it, or NULL. */
static bool cut(const char *at, char pattern[LONGEST], const char **value, size_t *n,
                const char **next)
{
    const size_t all = strcspn(at, ",");
    const char *equals = memchr(at, '=', all);
    *next = at[all] == ',' ? at + all + 1 : NULL;
    if (equals == NULL || equals == at || equals + 1 == at + all)
        return false;
    *value = equals + 1;
    *n = (size_t)(at + all - *value);
    return snprintf(pattern, LONGEST, "*%.*s*", (int)(equals - at), at) < LONGEST;
}

const char *weft__rule_find(const char *rules, const char *path, size_t *n)
{
    const char *value, *next;
    for (const char *at = rules; at; at = next) {
        char pattern[LONGEST];
        if (cut(at, pattern, &value, n, &next) && fnmatch(pattern, path, 0) == 0)
            return value;
    }
    return NULL;
}

weft_status weft__rules_each(const char *rules, weft__rule_check *check, void *context)
{
    const char *value, *next;
    size_t n;
    weft_status status = WEFT_OK;
    for (const char *at = rules; at && status == WEFT_OK; at = next) {
        char pattern[LONGEST];
        status = cut(at, pattern, &value, &n, &next)
                     ? check(context, pattern, value, n)
                     : weft_fail(WEFT_INVALID, "convert: '%s': expected PATTERN=VALUE,...",
                                 weft_printable(rules));
    }
    return status;
}

typedef struct fitting {
    weft_module *tree;
    const char *pattern;
    bool modules, found;
} fitting;

static weft_status fits_item(void *context, const weft_nn_item *item)
{
    fitting *f = context;
    static const char end[] = ".weight";
    char path[WEFT_NN_PATH];
    const size_t n = strlen(item->path), m = sizeof end - 1;
    const bool weight = n > m && strcmp(item->path + n - m, end) == 0;
    if (weft_shape(*item->slot->address).n < 2 || (f->modules && !weight))
        return WEFT_OK;
    snprintf(path, sizeof path, "%.*s", (int)(f->modules ? n - m : n), item->path);
    f->found |= fnmatch(f->pattern, path, 0) == 0;
    return WEFT_OK;
}

static weft_status fits_some(void *context, const char *pattern, const char *value, size_t n)
{
    fitting *f = context;
    f->pattern = pattern;
    f->found = false;
    (void)value, (void)n;
    const weft_status status = weft_nn_visit(f->tree, fits_item, f);
    if (status != WEFT_OK || f->found)
        return status;
    return weft_fail(WEFT_INVALID, "convert: override '%s': no matrix has it in its path",
                     weft_printable_n(pattern + 1, strlen(pattern) - 2)); /* without the stars */
}

weft_status weft__rules_fit(const char *rules, weft_module *tree, bool modules)
{
    fitting f = {.tree = tree, .modules = modules};
    return weft__rules_each(rules, fits_some, &f);
}

/* The first and last eighth of the layers, and every third in between. */
static bool more_bits(const char *path, int64_t n_layers)
{
    const char *at = strstr(path, "layers.");
    const int64_t layer = at ? strtoll(at + 7, NULL, 10) : 0, eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

int64_t weft__recipe_bits(const char *recipe, const char *path, int64_t n_layers)
{
    static const struct {
        const char *name;
        int low, high;
    } recipes[] = {
        {"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        if (strcmp(recipes[i].name, recipe) != 0)
            continue;
        const bool wide = strstr(path, "v_proj") || strstr(path, "v_a_proj") ||
                          strstr(path, "v_b_proj") || strstr(path, "down_proj");
        const bool high = strstr(path, "lm_head") || (wide && more_bits(path, n_layers));
        return high ? recipes[i].high : recipes[i].low;
    }
    return 0;
}
