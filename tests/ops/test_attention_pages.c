/* tests/ops/test_attention_pages.c -- attention over pages of a pool equals attention over the same
 * keys and values one after another: on the CPU bit for bit where both read them in place. Pages
 * are shared, out of order and of every length; and refused input. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/creation.h"
#include "weft/neural.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { B = 3, MOST = 5 };

typedef struct problem {
    const char *name;
    int64_t page, N, H, Hk, D, Dv, P;
    int32_t pages[B * MOST], lengths[B];
    double softcap;
    int64_t window;
    int bits; /* bits of codes; 0: not quantized */
    weft_dtype dtype;
    bool mask, sinks, packed; /* packed: many rows, for which keys are copied first */
} problem;

/* Rows of very different lengths; the second shares pages with the first. */
#define TABLE                                                                                      \
    {                                                                                              \
        6, 0, 3, 5, 2, 6, 0, 1, 5, 1, 4, 2, 2, 0, 6                                                \
    }
#define P(name_, page_, H_, Hk_, D_, Dv_, a, b, c, ...)                                            \
    {                                                                                              \
        .name = (name_), .page = (page_), .N = MOST, .H = (H_), .Hk = (Hk_), .D = (D_),            \
        .Dv = (Dv_), .P = 7, .pages = TABLE, .lengths = {a, b, c}, __VA_ARGS__                     \
    }
static const problem problems[] = {
    P("long pages", 256, 4, 2, 64, 64, 1280, 300, 1, .bits = 0),
    P("parts", 256, 4, 2, 64, 64, 1001, 999, 513, .bits = 0),
    P("short pages", 16, 6, 2, 32, 48, 80, 17, 16, .bits = 0),
    P("odd pages", 7, 2, 1, 20, 20, 35, 6, 14, .softcap = 3),
    P("a window", 64, 3, 3, 64, 64, 320, 200, 3, .window = 50),
    P("a mask", 32, 4, 1, 64, 64, 160, 90, 7, .mask = true),
    P("sinks", 32, 4, 2, 64, 64, 160, 90, 7, .sinks = true),
    P("nothing is seen", 32, 4, 2, 64, 64, 160, 0, 7, .bits = 0),
    P("float16", 256, 9, 3, 64, 64, 1280, 700, 30, .dtype = WEFT_FLOAT16),
    P("many heads", 48, 32, 2, 64, 64, 240, 100, 9, .packed = true),
    P("8 bits", 64, 4, 2, 64, 64, 320, 111, 9, .bits = 8),
    P("4 bits", 64, 4, 2, 64, 64, 320, 111, 9, .bits = 4),
    P("many heads of 8 bits", 64, 32, 2, 64, 64, 320, 111, 9, .bits = 8, .packed = true),
};
#undef P
#undef TABLE
enum { PROBLEMS = sizeof problems / sizeof *problems };

static weft_array *uniform(uint64_t *key, weft_dims shape, double lo, double hi)
{
    return weft_random_uniform(weft_random_key(++*key), shape, lo, hi, WEFT_FLOAT32);
}

/* The pages of each row one after another: (B, N page, ...). */
static weft_array *in_rows(const problem *p, weft_array *pool)
{
    weft_array *rows[B], *parts[MOST];
    for (int b = 0; b < B; b++) {
        for (int i = 0; i < p->N; i++) {
            const int64_t at = p->pages[b * p->N + i];
            parts[i] = weft_slice_axis(pool, 0, at, at + 1);
        }
        rows[b] = weft_concatenate(parts, (int)p->N, 1);
    }
    return weft_concatenate(rows, B, 0);
}

static weft_kv_codes codes(uint64_t *key, const problem *p, int64_t width)
{
    const int64_t bytes = width * p->bits / 8, groups = p->bits == 4 ? 2 : 1;
    weft_array *all = uniform(key, WEFT_DIMS(p->P, p->page, p->Hk, bytes), 0, 255.99);
    const weft_dims steps = WEFT_DIMS(p->P, p->page, p->Hk, groups);
    const double most = p->bits == 8 ? 255 : 15;
    return (weft_kv_codes){weft_astype(all, WEFT_UINT8), uniform(key, steps, 1 / most, 2 / most),
                           uniform(key, steps, -1, 0)};
}

static weft_kv_codes codes_in_rows(const problem *p, const weft_kv_codes *k)
{
    return (weft_kv_codes){in_rows(p, k->codes), in_rows(p, k->steps), in_rows(p, k->least)};
}

static weft_attention_options options_of(uint64_t *key, const problem *p)
{
    weft_attention_options o = {.causal = true, .window = p->window, .softcap = p->softcap};
    const int64_t S = p->N * p->page;
    o.lengths = weft_from_data(p->lengths, WEFT_INT32, WEFT_DIMS(B));
    if (p->mask)
        o.mask =
            weft_greater(uniform(key, WEFT_DIMS(B, 1, 1, S), 0, 1), weft_scalar(0.3, WEFT_FLOAT32));
    if (p->sinks)
        o.sinks = uniform(key, WEFT_DIMS(p->H), -1, 1);
    return o;
}

/* Attention over pages and over rows. */
static void compute(const problem *p, weft_array **paged, weft_array **whole)
{
    uint64_t key = 7;
    weft_array *q = uniform(&key, WEFT_DIMS(B, 1, p->H, p->D), -2, 2);
    weft_array *pages = weft_from_data(p->pages, WEFT_INT32, WEFT_DIMS(B, p->N));
    weft_attention_options o = options_of(&key, p), over = o;
    over.pages = pages;
    if (p->bits) {
        const weft_kv_codes k = codes(&key, p, p->D), v = codes(&key, p, p->Dv),
                            rows_k = codes_in_rows(p, &k), rows_v = codes_in_rows(p, &v);
        *paged = weft_attention_codes(q, &k, &v, &over);
        *whole = weft_attention_codes(q, &rows_k, &rows_v, &o);
        return;
    }
    weft_array *k = uniform(&key, WEFT_DIMS(p->P, p->page, p->Hk, p->D), -1, 1);
    weft_array *v = uniform(&key, WEFT_DIMS(p->P, p->page, p->Hk, p->Dv), -1, 1);
    if (p->dtype == WEFT_FLOAT16) {
        k = weft_astype(k, WEFT_FLOAT16);
        v = weft_astype(v, WEFT_FLOAT16);
    }
    *paged = weft_attention(q, k, v, &over);
    *whole = weft_attention(q, in_rows(p, k), in_rows(p, v), &o);
}

static void pages_give_what_rows_give(void)
{
    const bool cpu = strcmp(weft_device_name(weft_default_device()), "cpu") == 0;
    for (int i = 0; i < PROBLEMS; i++) {
        const problem *p = &problems[i];
        weft_array *paged, *whole;
        weft_scope_open();
        compute(p, &paged, &whole);
        weft_array *apart = weft_max(weft_abs(weft_subtract(paged, whole)), WEFT_ALL_AXES, false);
        if (!CHECK_OK(weft_eval(apart)))
            printf("  %s\n", p->name);
        /* Means of numbers below 2; the order of the sums may differ. */
        const bool exact = cpu && !p->packed && p->bits == 0;
        if (!CHECK_CLOSE(weft_item(apart), 0, exact ? 0 : 1e-6))
            printf("  %s\n", p->name);
        weft_scope_close(NULL);
    }
}

static void misfits_are_errors(void)
{
    weft_scope_open();
    weft_array *q = weft_zeros(WEFT_DIMS(2, 1, 4, 8), WEFT_FLOAT32);
    weft_array *k = weft_zeros(WEFT_DIMS(3, 4, 2, 8), WEFT_FLOAT32);
    weft_attention_options o = {.causal = true};
    o.pages = weft_zeros(WEFT_DIMS(2, 2), WEFT_INT64);
    CHECK_CONTAINS(weft_error(weft_attention(q, k, k, &o)), "pages are int64, expected int32");
    o.pages = weft_zeros(WEFT_DIMS(3, 2), WEFT_INT32);
    CHECK_CONTAINS(weft_error(weft_attention(q, k, k, &o)), "pages");
    o.pages = weft_zeros(WEFT_DIMS(2), WEFT_INT32);
    CHECK_CONTAINS(weft_error(weft_attention(q, k, k, &o)), "pages");
    o.pages = weft_zeros(WEFT_DIMS(2, 2), WEFT_INT32);
    CHECK_CONTAINS(
        weft_error(weft_attention(q, weft_zeros(WEFT_DIMS(3, 4, 2, 7), WEFT_FLOAT32), k, &o)), "k");
    weft_scope_close(NULL);
}

CHECK_MAIN("attention over pages", CHECK_CASE(pages_give_what_rows_give),
           CHECK_CASE(misfits_are_errors))
