/* train/run/sums.c -- sums over the hashes of a list's items, by which changed items are found. */
#include "train/run/sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/memory.h"

static const uint64_t prime = 4294967291; /* products fit 64 bits */

void weft__sums_add(weft__sums *s, uint64_t hash)
{
    const uint64_t i = (uint64_t)s->n++, k = i % WEFT__CLASSES;
    const uint64_t h = hash % prime;
    s->sum[k] = (s->sum[k] + h) % prime;
    s->weighted[k] = (s->weighted[k] + i % prime * h) % prime;
}

void weft__sums_write(weft__text *t, const weft__sums *s)
{
    weft__text_format(t, "{\"n\": %" PRId64 ", \"sums\": \"", s->n);
    for (int64_t k = 0; k < WEFT__CLASSES && k < s->n; k++)
        weft__text_format(t, "%08" PRIx64 "%08" PRIx64, s->sum[k], s->weighted[k]);
    weft__text_format(t, "\"}");
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool read_word(const char *text, uint64_t *out)
{
    char word[9], *end;
    snprintf(word, sizeof word, "%.8s", text);
    *out = strtoull(word, &end, 16);
    return end == word + 8 && *out < prime;
}

static bool read_sums(json_object *value, weft__sums *out)
{
    json_object *n = NULL, *sums = NULL;
    if (!json_object_is_type(value, json_type_object) ||
        !json_object_object_get_ex(value, "n", &n) ||
        !json_object_object_get_ex(value, "sums", &sums) ||
        !json_object_is_type(sums, json_type_string))
        return false;
    *out = (weft__sums){.n = json_object_get_int64(n)};
    const char *text = json_object_get_string(sums);
    const int64_t classes = out->n < WEFT__CLASSES ? out->n : WEFT__CLASSES;
    bool valid = classes >= 0 && strlen(text) == 16 * (size_t)classes;
    for (int64_t k = 0; valid && k < classes; k++)
        valid = read_word(text + 16 * k, &out->sum[k]) &&
                read_word(text + 16 * k + 8, &out->weighted[k]);
    return valid;
}

/* x to the power of prime - 2, which is 1 / x. */
static uint64_t inverse(uint64_t x)
{
    uint64_t y = 1;
    for (uint64_t power = prime - 2; power > 0; power >>= 1) {
        y = power & 1 ? y * x % prime : y;
        x = x * x % prime;
    }
    return y;
}

/* The index of the only item of class k that changed; -1: several did. */
static int64_t find_changed(const weft__sums *a, const weft__sums *b, int k)
{
    const uint64_t sum = (b->sum[k] + prime - a->sum[k]) % prime,
                   weighted = (b->weighted[k] + prime - a->weighted[k]) % prime;
    const int64_t i = (int64_t)(weighted * inverse(sum) % prime);
    return sum != 0 && i % WEFT__CLASSES == k && i < a->n ? i : -1;
}

static int by_index(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Adds "lines 3, 7 and others of 24". */
static void add_changed(weft__text *out, const char *name, const int64_t *changed, int n,
                        bool others, int64_t of)
{
    enum { SHOWN = 8 };
    weft__text_format(out, "%s%s ", name, n > 1 || others ? "s" : "");
    for (int i = 0; i < n && i < SHOWN; i++)
        weft__text_format(out, "%s%" PRId64, i > 0 ? ", " : "", changed[i] + 1);
    if (others || n > SHOWN)
        weft__text_format(out, n > 0 ? " and others" : "at several positions");
    weft__text_format(out, " of %" PRId64, of);
}

bool weft__sums_compare(json_object *recorded, json_object *now, const char *name, weft__text *out)
{
    weft__sums a, b;
    int64_t changed[WEFT__CLASSES];
    int n = 0;
    bool others = false;
    if (!read_sums(recorded, &a) || !read_sums(now, &b))
        return false;
    if (a.n != b.n) {
        weft__text_format(out, "%ss: recorded %" PRId64 ", now %" PRId64, name, a.n, b.n);
        return true;
    }
    for (int k = 0; k < WEFT__CLASSES; k++) {
        if (a.sum[k] == b.sum[k] && a.weighted[k] == b.weighted[k])
            continue;
        const int64_t i = find_changed(&a, &b, k);
        others = others || i < 0;
        if (i >= 0)
            changed[n++] = i;
    }
    if (n == 0 && !others)
        return false;
    qsort(changed, (size_t)n, sizeof *changed, by_index);
    add_changed(out, name, changed, n, others, a.n);
    return true;
}
