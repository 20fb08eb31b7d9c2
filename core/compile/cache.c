/* core/compile/cache.c -- the cache of traces: combinations are found by hash and grouped into
 * families that differ only in dynamic lengths. The most recently used ones are kept. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/compile/compiled.h"
#include "core/hash.h"
#include "core/shape.h"

/* ---- signatures ----------------------------------------------------------------------------- */

/* The array of parameter i of a call; NULL for an empty slot. */
static weft_array *array_of(const weft_compiled *c, weft_array *const *in, int n_in, int i)
{
    return i < n_in ? in[i] : *c->slots[i - n_in];
}

/* The marked axes of a parameter. */
static uint32_t varying(const weft_compiled *c, int parameter, int n_in)
{
    return parameter < n_in && parameter < c->options.n_dynamic ? c->options.dynamic[parameter] : 0;
}

static uint64_t hash_of(const weft_compiled *c, weft_array *const *in, int n_in)
{
    uint64_t hash = weft__mix(0x51ed270b, (uint64_t)n_in);
    for (int i = 0; i < n_in + c->n_slots; i++) {
        const weft_array *a = array_of(c, in, n_in, i);
        if (!a) {
            hash = weft__mix(hash, 1);
            continue;
        }
        const weft_dims *shape = &a->spec.shape;
        hash = weft__mix(hash, (uint64_t)a->spec.dtype << 8 | (uint64_t)shape->n);
        for (int d = 0; d < shape->n; d++) {
            hash = weft__mix(hash, (uint64_t)shape->at[d]);
        }
    }
    return hash;
}

/* Whether an array of this spec on this device (NULL: no array) matches the parameter, except for
 * the lengths of the axes in `but`. */
static bool parameter_fits(const weft__parameter *p, const weft_spec *spec,
                           const weft_device *device, uint32_t but)
{
    if (!p->device || !device) {
        return p->device == device;
    }
    bool same = p->device == device && p->spec.dtype == spec->dtype &&
                p->spec.encoding == spec->encoding && p->spec.shape.n == spec->shape.n;
    for (int d = 0; same && d < spec->shape.n; d++) {
        same = p->spec.shape.at[d] == spec->shape.at[d] || (but >> d & 1);
    }
    return same;
}

static bool fits(const weft_compiled *c, const weft__combination *k, weft_array *const *in,
                 int n_in)
{
    bool same = k->n_in == n_in;
    for (int i = 0; i < n_in + c->n_slots && same; i++) {
        const weft_array *a = array_of(c, in, n_in, i);
        same = parameter_fits(&k->parameters[i], a ? &a->spec : NULL, a ? a->device : NULL, 0);
    }
    return same;
}

/* Whether two combinations differ at most in the lengths of dynamic axes. */
static bool are_related(const weft_compiled *c, const weft__combination *a,
                        const weft__combination *b)
{
    bool same = a->n_in == b->n_in;
    for (int i = 0; i < a->n_in + c->n_slots && same; i++) {
        const weft__parameter *p = &b->parameters[i];
        same = parameter_fits(&a->parameters[i], &p->spec, p->device, p->varying);
    }
    return same;
}

/* ---- combinations --------------------------------------------------------------------------- */

static void fill_parameters(weft_compiled *c, weft__combination *k, weft_array *const *in)
{
    for (int i = 0; i < k->n_in + c->n_slots; i++) {
        const weft_array *a = array_of(c, in, k->n_in, i);
        if (a) {
            k->parameters[i] = (weft__parameter){a->spec, a->device, varying(c, i, k->n_in)};
            k->n_inputs++;
        }
    }
}

weft__combination *weft__combination_new(weft_compiled *c, weft_array *const *in, int n_in)
{
    weft__combination *k = weft_calloc(1, sizeof *k);
    if (!k) {
        return NULL;
    }
    const size_t n = (size_t)n_in + (size_t)c->n_slots;
    k->n_in = n_in;
    k->parameters = weft_calloc(n, sizeof *k->parameters);
    k->replaced = weft_calloc(n + 1, sizeof *k->replaced);
    k->effects = weft_calloc((size_t)c->n_slots, sizeof *k->effects);
    if (!k->parameters || !k->replaced || !k->effects) {
        weft__combination_free(k);
        return NULL;
    }
    k->hash = hash_of(c, in, n_in);
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
    weft_free(k->parameters);
    weft_free(k->replaced);
    weft_free(k->effects);
    weft_free(k);
}

/* ---- the cache ------------------------------------------------------------------------------ */

static void unlink_combination(weft__combination *k)
{
    weft__family *f = k->family;
    *(k->newer ? &k->newer->older : &f->newest) = k->older;
    *(k->older ? &k->older->newer : &f->oldest) = k->newer;
    k->newer = k->older = NULL;
    f->n--;
}

static void link_combination(weft__family *f, weft__combination *k)
{
    k->family = f;
    k->older = f->newest;
    *(f->newest ? &f->newest->newer : &f->oldest) = k;
    f->newest = k;
    f->n++;
}

static void unlink_family(weft_compiled *c, weft__family *f)
{
    *(f->newer ? &f->newer->older : &c->newest) = f->older;
    *(f->older ? &f->older->newer : &c->oldest) = f->newer;
    f->newer = f->older = NULL;
    c->n_families--;
}

static void link_family(weft_compiled *c, weft__family *f)
{
    f->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = f;
    c->newest = f;
    c->n_families++;
}

/* Makes a family the most recently used one. */
static void touch_family(weft_compiled *c, weft__family *f)
{
    if (f != c->newest) {
        unlink_family(c, f);
        link_family(c, f);
    }
}

weft__combination *weft__compiled_find(weft_compiled *c, weft_array *const *in, int n_in)
{
    weft__combination *k = c->newest ? c->newest->newest : NULL; /* the combination of the previous
                                                                  * call */
    if (k && fits(c, k, in, n_in)) {
        return k;
    }
    const uint64_t hash = hash_of(c, in, n_in);
    k = c->buckets[hash % WEFT__BUCKETS];
    while (k && !(k->hash == hash && fits(c, k, in, n_in))) {
        k = k->chain;
    }
    if (k) {
        weft__family *f = k->family;
        unlink_combination(k);
        link_combination(f, k);
        touch_family(c, f);
    }
    return k;
}

static void evict_combination(weft_compiled *c, weft__combination *k)
{
    weft__combination **at = &c->buckets[k->hash % WEFT__BUCKETS];
    while (*at != k) {
        at = &(*at)->chain;
    }
    *at = k->chain;
    unlink_combination(k);
    weft__combination_free(k);
}

static void evict_family(weft_compiled *c, weft__family *f)
{
    while (f->oldest) {
        evict_combination(c, f->oldest);
    }
    unlink_family(c, f);
    weft_free(f);
}

void weft__compiled_clear(weft_compiled *c)
{
    while (c->oldest) {
        evict_family(c, c->oldest);
    }
}

/* ---- reasons for traces ---------------------------------------------------------------------- */

WEFT_PRINTF(2, 3) static void note(weft_compiled *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char **place = &c->reasons[c->n_reasons % WEFT__REASONS];
    char *copy = weft_strdup(text);
    if (copy) { /* out of memory: the reason is not listed */
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

/* Records the first difference of a parameter; false: it has none. */
static bool note_difference(weft_compiled *c, const char *where, const weft__parameter *a,
                            const weft__parameter *b)
{
    char x[WEFT_SHAPE_TEXT], y[WEFT_SHAPE_TEXT];
    if (!a->device || !b->device) {
        if (a->device == b->device) {
            return false;
        }
        note(c, "%s: %s", where, a->device ? "there -> empty" : "empty -> there");
        return true;
    }
    if (a->spec.dtype != b->spec.dtype) {
        note(c, "%s dtype: %s -> %s", where, weft_dtype_name(a->spec.dtype),
             weft_dtype_name(b->spec.dtype));
        return true;
    }
    if (a->device != b->device) {
        note(c, "%s device: %s -> %s", where, weft_device_name(a->device),
             weft_device_name(b->device));
        return true;
    }
    if (a->spec.shape.n != b->spec.shape.n) {
        note(c, "%s shape: %s -> %s", where, weft__shape_text(&a->spec.shape, x),
             weft__shape_text(&b->spec.shape, y));
        return true;
    }
    for (int d = 0; d < a->spec.shape.n; d++) {
        if (a->spec.shape.at[d] != b->spec.shape.at[d] && !(b->varying >> d & 1)) {
            note(c, "%s dim %d: %lld -> %lld", where, d, (long long)a->spec.shape.at[d],
                 (long long)b->spec.shape.at[d]);
            return true;
        }
    }
    return false;
}

static void note_reason(weft_compiled *c, const weft__combination *before,
                        const weft__combination *now)
{
    char where[160];
    if (before->n_in != now->n_in) {
        note(c, "%d inputs -> %d", before->n_in, now->n_in);
        return;
    }
    for (int i = 0; i < now->n_in + c->n_slots; i++) {
        parameter_text(c, i, now->n_in, where, sizeof where);
        if (note_difference(c, where, &before->parameters[i], &now->parameters[i])) {
            return;
        }
    }
    note(c, "another encoding of an input");
}

/* The family of a new combination; a new family if its shapes are not in the cache. NULL: out of
 * memory. */
static weft__family *family_for(weft_compiled *c, const weft__combination *k)
{
    for (weft__family *f = c->newest; f; f = f->older) {
        if (are_related(c, f->newest, k)) {
            touch_family(c, f);
            return f;
        }
    }
    weft__family *f = weft_calloc(1, sizeof *f);
    if (!f) {
        return NULL;
    }
    c->counts.compiles++;
    c->counts.recompiles = c->counts.compiles - 1;
    if (c->newest) {
        note_reason(c, c->newest->newest, k);
    }
    link_family(c, f);
    return f;
}

weft_status weft__compiled_insert(weft_compiled *c, weft__combination *k)
{
    weft__family *f = family_for(c, k);
    if (!f) {
        return weft_fail(WEFT_MEMORY, "%s: out of memory for a trace", c->name);
    }
    k->chain = c->buckets[k->hash % WEFT__BUCKETS];
    c->buckets[k->hash % WEFT__BUCKETS] = k;
    link_combination(f, k);
    for (; f->n > c->options.lengths; c->counts.evictions++) {
        evict_combination(c, f->oldest);
    }
    for (; c->n_families > c->options.cache; c->counts.evictions++) {
        evict_family(c, c->oldest);
    }
    return WEFT_OK;
}
