/* core/compile/cache.c -- which trace a call needs: signatures, hashed, the latest kept. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/compile/compiled.h"
#include "core/compile/dynamic.h"
#include "core/shape.h"

/* ---- signatures ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash ^= word + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

/* The array of parameter i of a call; NULL: an empty slot. */
static weft_array *array_of(const weft_compiled *c, weft_array *const *in, int n_in, int i)
{
    return i < n_in ? in[i] : *c->slots[i - n_in];
}

/* Whether the axis is dynamic in a call in which it is that long. */
static bool is_marked(const weft_compiled *c, int parameter, int n_in, int axis, int64_t length)
{
    return parameter < n_in && parameter < c->options.n_dynamic && length > 1 &&
           (c->options.dynamic[parameter] >> axis & 1);
}

/* The number of the symbol of a marked axis of that length, which is a new one at first sight. More
 * symbols than there is room for: -1, the length is fixed. */
static int symbol_of(int64_t length, int64_t *sizes, int *n)
{
    for (int s = 0; s < *n; s++) {
        if (sizes[s] == length) {
            return s;
        }
    }
    if (*n == WEFT__SYMBOLS) {
        return -1;
    }
    sizes[*n] = length;
    return (*n)++;
}

static uint64_t hash_of(const weft_compiled *c, weft_array *const *in, int n_in, int n_out)
{
    uint64_t hash = mix(mix(0x51ed270b, (uint64_t)n_in), (uint64_t)n_out);
    int64_t sizes[WEFT__SYMBOLS];
    int n = 0;
    for (int i = 0; i < n_in + c->n_slots; i++) {
        const weft_array *a = array_of(c, in, n_in, i);
        if (!a) {
            hash = mix(hash, 1);
            continue;
        }
        const weft_dims *shape = &a->outs[0].spec.shape;
        hash = mix(hash, (uint64_t)a->outs[0].spec.dtype << 8 | (uint64_t)shape->n);
        for (int d = 0; d < shape->n; d++) {
            int64_t length = shape->at[d];
            int s = is_marked(c, i, n_in, d, length) ? symbol_of(length, sizes, &n) : -1;
            hash = mix(hash, s >= 0 ? UINT64_MAX - (uint64_t)s : (uint64_t)length);
        }
    }
    return hash;
}

static bool parameter_fits(const weft__parameter *p, const weft_array *a, int64_t *sizes, int *n)
{
    if (!a || !p->device) {
        return !a && !p->device;
    }
    const weft_spec *spec = &a->outs[0].spec;
    if (p->device != a->device || p->spec.dtype != spec->dtype ||
        p->spec.encoding != spec->encoding || p->spec.shape.n != spec->shape.n) {
        return false;
    }
    for (int d = 0; d < spec->shape.n; d++) {
        int64_t length = spec->shape.at[d];
        bool fits = p->symbols[d] ? length > 1 && symbol_of(length, sizes, n) == p->symbols[d] - 1
                                  : length == p->spec.shape.at[d];
        if (!fits) {
            return false;
        }
    }
    return true;
}

static bool fits(const weft_compiled *c, const weft__combination *k, weft_array *const *in,
                 int n_in, int n_out)
{
    int64_t sizes[WEFT__SYMBOLS];
    int n = 0;
    bool same = k->n_in == n_in && k->n_out == n_out;
    for (int i = 0; i < n_in + c->n_slots && same; i++) {
        same = parameter_fits(&k->parameters[i], array_of(c, in, n_in, i), sizes, &n);
    }
    return same;
}

void weft__combination_sizes(const weft_compiled *c, const weft__combination *k,
                             weft_array *const *in, int64_t *sizes)
{
    for (int i = 0; i < k->n_in && k->n_symbols > 0; i++) {
        const weft_array *a = array_of(c, in, k->n_in, i);
        for (int d = 0; d < k->parameters[i].spec.shape.n; d++) {
            if (k->parameters[i].symbols[d]) {
                sizes[k->parameters[i].symbols[d] - 1] = a->outs[0].spec.shape.at[d];
            }
        }
    }
}

/* ---- combinations --------------------------------------------------------------------------- */

static void fill_parameters(weft_compiled *c, weft__combination *k, weft_array *const *in)
{
    int64_t sizes[WEFT__SYMBOLS];
    for (int i = 0; i < k->n_in + c->n_slots; i++) {
        const weft_array *a = array_of(c, in, k->n_in, i);
        weft__parameter *p = &k->parameters[i];
        if (!a) {
            continue;
        }
        p->spec = a->outs[0].spec;
        p->device = a->device;
        for (int d = 0; d < p->spec.shape.n; d++) {
            int64_t length = p->spec.shape.at[d];
            if (is_marked(c, i, k->n_in, d, length)) {
                p->symbols[d] = (unsigned char)(symbol_of(length, sizes, &k->n_symbols) + 1);
            }
        }
        k->n_inputs++;
    }
}

weft__combination *weft__combination_new(weft_compiled *c, weft_array *const *in, int n_in,
                                         int n_out)
{
    weft__combination *k = weft_calloc(1, sizeof *k);
    if (!k) {
        return NULL;
    }
    const size_t n = (size_t)n_in + (size_t)c->n_slots;
    k->n_in = n_in;
    k->n_out = n_out;
    k->parameters = weft_calloc(n, sizeof *k->parameters);
    k->replaced = weft_calloc(n + 1, sizeof *k->replaced);
    k->fates = weft_calloc((size_t)c->n_slots, sizeof *k->fates);
    if (!k->parameters || !k->replaced || !k->fates) {
        weft__combination_free(k);
        return NULL;
    }
    k->hash = hash_of(c, in, n_in, n_out);
    fill_parameters(c, k, in);
    return k;
}

void weft__combination_free(weft__combination *k)
{
    if (!k) {
        return;
    }
    for (int i = 0; i < k->n_variants; i++) {
        weft__program_free(k->variants[i].program);
        weft_free(k->variants[i].layouts);
    }
    weft__trace_free(&k->trace);
    weft__forms_free(k->forms);
    weft_free(k->parameters);
    weft_free(k->replaced);
    weft_free(k->fates);
    weft_free(k);
}

/* ---- the cache ------------------------------------------------------------------------------ */

static void unlink_by_use(weft_compiled *c, weft__combination *k)
{
    *(k->newer ? &k->newer->older : &c->newest) = k->older;
    *(k->older ? &k->older->newer : &c->oldest) = k->newer;
    k->newer = k->older = NULL;
}

static void link_newest(weft_compiled *c, weft__combination *k)
{
    k->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = k;
    c->newest = k;
}

weft__combination *weft__compiled_find(weft_compiled *c, weft_array *const *in, int n_in, int n_out)
{
    weft__combination *k = c->newest; /* mostly the one of the call before */
    if (k && fits(c, k, in, n_in, n_out)) {
        return k;
    }
    const uint64_t hash = hash_of(c, in, n_in, n_out);
    k = c->buckets[hash % WEFT__BUCKETS];
    while (k && !(k->hash == hash && fits(c, k, in, n_in, n_out))) {
        k = k->chain;
    }
    if (k) {
        unlink_by_use(c, k);
        link_newest(c, k);
    }
    return k;
}

static void evict_oldest(weft_compiled *c)
{
    weft__combination *k = c->oldest;
    weft__combination **at = &c->buckets[k->hash % WEFT__BUCKETS];
    while (*at != k) {
        at = &(*at)->chain;
    }
    *at = k->chain;
    unlink_by_use(c, k);
    weft__combination_free(k);
    c->n_combinations--;
    c->counts.evictions++;
}

/* ---- why a trace was needed ----------------------------------------------------------------- */

void weft__compiled_note(weft_compiled *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char **place = &c->reasons[c->n_reasons % WEFT__REASONS];
    char *copy = weft_strdup(text);
    if (copy) { /* without memory one reason less is told */
        weft_free(*place);
        *place = copy;
        c->n_reasons++;
    }
}

static void parameter_text(const weft_compiled *c, int i, int n_in, char *text, size_t size)
{
    if (i < n_in) {
        snprintf(text, size, "input %d", i);
    } else {
        weft__slot_text(c, i - n_in, text, size);
    }
}

/* Notes the first way in which a parameter differs; false: in none. */
static bool note_difference(weft_compiled *c, const char *where, const weft__parameter *a,
                            const weft__parameter *b)
{
    char x[WEFT_SHAPE_TEXT], y[WEFT_SHAPE_TEXT];
    if (!a->device || !b->device) {
        if (a->device == b->device) {
            return false;
        }
        weft__compiled_note(c, "%s: %s", where, a->device ? "there -> empty" : "empty -> there");
        return true;
    }
    if (a->spec.dtype != b->spec.dtype) {
        weft__compiled_note(c, "%s dtype: %s -> %s", where, weft_dtype_name(a->spec.dtype),
                            weft_dtype_name(b->spec.dtype));
        return true;
    }
    if (a->device != b->device) {
        weft__compiled_note(c, "%s device: %s -> %s", where, weft_device_name(a->device),
                            weft_device_name(b->device));
        return true;
    }
    if (a->spec.shape.n != b->spec.shape.n) {
        weft__compiled_note(c, "%s shape: %s -> %s", where, weft__shape_text(&a->spec.shape, x),
                            weft__shape_text(&b->spec.shape, y));
        return true;
    }
    for (int d = 0; d < a->spec.shape.n; d++) {
        bool both = a->symbols[d] && b->symbols[d];
        if (both ? a->symbols[d] != b->symbols[d] : a->spec.shape.at[d] != b->spec.shape.at[d]) {
            weft__compiled_note(c, "%s dim %d: %lld -> %lld%s", where, d,
                                (long long)a->spec.shape.at[d], (long long)b->spec.shape.at[d],
                                both ? " (equal to others before or now)" : "");
            return true;
        }
    }
    return false;
}

static void note_reason(weft_compiled *c, const weft__combination *before,
                        const weft__combination *now)
{
    char where[160];
    if (before->n_in != now->n_in || before->n_out != now->n_out) {
        weft__compiled_note(c, "%d inputs and %d outputs -> %d and %d", before->n_in, before->n_out,
                            now->n_in, now->n_out);
        return;
    }
    for (int i = 0; i < now->n_in + c->n_slots; i++) {
        parameter_text(c, i, now->n_in, where, sizeof where);
        if (note_difference(c, where, &before->parameters[i], &now->parameters[i])) {
            return;
        }
    }
    weft__compiled_note(c, "another encoding of an input");
}

void weft__compiled_insert(weft_compiled *c, weft__combination *k)
{
    c->counts.compiles++;
    if (c->newest) {
        note_reason(c, c->newest, k);
    }
    c->counts.recompiles = c->counts.compiles - 1;
    k->chain = c->buckets[k->hash % WEFT__BUCKETS];
    c->buckets[k->hash % WEFT__BUCKETS] = k;
    link_newest(c, k);
    c->n_combinations++;
    while (c->n_combinations > c->options.cache) {
        evict_oldest(c);
    }
}
