/* optim/rate_text.c -- parses rates: "cosine", "wsd:0.2", "linear:0.1@100,cosine". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"

enum { MOST_PARTS = 16, MOST_NUMBERS = 2 };

/* A part of the text, and its position. */
typedef struct part {
    char name[16];
    double numbers[MOST_NUMBERS];
    int n;
    int64_t steps; /* 0: all remaining steps */
} part;

/* Creates the rate of a part from *level on, and sets *level to its final value. */
typedef weft_rate *maker(const part *p, double init, double *level, int64_t steps);

static double number_or(const part *p, double otherwise)
{
    return p->n > 0 ? p->numbers[0] : otherwise;
}

static weft_rate *make_constant(const part *p, double init, double *level, int64_t steps)
{
    (void)p;
    (void)init;
    (void)steps;
    return weft_rate_constant(*level);
}

static weft_rate *make_linear(const part *p, double init, double *level, int64_t steps)
{
    const double from = *level;
    *level = init * number_or(p, 0);
    return weft_rate_linear(from, *level, steps);
}

static weft_rate *make_cosine(const part *p, double init, double *level, int64_t steps)
{
    const double from = *level;
    *level = init * number_or(p, 0);
    return weft_rate_cosine_decay(from, steps, *level);
}

static weft_rate *make_exponential(const part *p, double init, double *level, int64_t steps)
{
    (void)init;
    const double from = *level;
    *level *= pow(p->numbers[0], (double)steps);
    return weft_rate_exponential_decay(from, p->numbers[0]);
}

static weft_rate *make_step(const part *p, double init, double *level, int64_t steps)
{
    (void)init;
    const double from = *level;
    const int64_t size = p->numbers[1] >= 1 && p->numbers[1] < 1e15 ? (int64_t)p->numbers[1] : 0;
    *level *= size > 0 ? pow(p->numbers[0], (double)(steps / size)) : 1;
    return weft_rate_step_decay(from, p->numbers[0], size);
}

/* Creates a rate that is constant, then falls linearly to zero over the last share of the steps. */
static weft_rate *make_wsd(const part *p, double init, double *level, int64_t steps)
{
    (void)init;
    const double from = *level, share = number_or(p, 0.2);
    if (!(share > 0 && share <= 1)) {
        weft_fail(WEFT_INVALID, "wsd: expected a share above 0 and up to 1, got %g", share);
        return NULL;
    }
    int64_t last = (int64_t)ceil(share * (double)steps);
    last = last < 1 ? 1 : last > steps ? steps : last;
    *level = 0;
    weft_rate *parts[] = {weft_rate_constant(from), weft_rate_linear(from, 0, last)};
    return weft_rate_join(parts, 2, (const int64_t[]){steps - last});
}

static const struct {
    const char *name;
    maker *make;
    int least, most; /* minimum and maximum of numbers after the name */
} makers[] = {
    {"constant", make_constant, 0, 0},       {"linear", make_linear, 0, 1},
    {"cosine", make_cosine, 0, 1},           {"wsd", make_wsd, 0, 1},
    {"exponential", make_exponential, 1, 1}, {"step", make_step, 2, 2},
};

enum { N_MAKERS = sizeof makers / sizeof *makers };

static weft_status fail_text(const char *text, const char *what)
{
    return weft_fail(WEFT_INVALID,
                     "schedule '%s': %s; expected constant, linear[:END], cosine[:END], "
                     "wsd[:SHARE], exponential:RATE or step:RATE:SIZE, several as "
                     "PART@STEPS,...,PART",
                     weft_printable(text), what);
}

/* Parses one part up to a comma or the end; NULL after a failure. */
static const char *read_part(const char *text, const char *at, part *p)
{
    const size_t n = strcspn(at, ":@,");
    *p = (part){.n = 0};
    if (n >= sizeof p->name) {
        fail_text(text, "unknown name");
        return NULL;
    }
    memcpy(p->name, at, n);
    char *end = (char *)at + n;
    while (*end == ':') {
        const char *number = end + 1;
        if (p->n == MOST_NUMBERS) {
            fail_text(text, "too many numbers");
            return NULL;
        }
        p->numbers[p->n] = strtod(number, &end);
        if (end == number || !(p->numbers[p->n] >= 0 && isfinite(p->numbers[p->n]))) {
            fail_text(text, "not a number of at least 0");
            return NULL;
        }
        p->n++;
    }
    if (*end == '@') {
        const char *number = end + 1;
        p->steps = strtoll(number, &end, 10);
        if (end == number || p->steps < 1) {
            fail_text(text, "not a number of steps after '@'");
            return NULL;
        }
    }
    if (*end != ',' && *end != '\0') {
        fail_text(text, "malformed");
        return NULL;
    }
    return end;
}

static weft_rate *make_part(const char *text, const part *p, double init, double *level,
                            int64_t steps)
{
    for (int i = 0; i < N_MAKERS; i++) {
        if (strcmp(makers[i].name, p->name) != 0)
            continue;
        if (p->n >= makers[i].least && p->n <= makers[i].most)
            return makers[i].make(p, init, level, steps);
        fail_text(text, p->n < makers[i].least ? "too few numbers" : "too many numbers");
        return NULL;
    }
    fail_text(text, "unknown name");
    return NULL;
}

weft_status weft_rate_parse(const char *text, double init, int64_t steps, weft_rate **out)
{
    weft_rate *rates[MOST_PARTS];
    int64_t boundaries[MOST_PARTS] = {0}, begin = 0;
    double level = init;
    int n = 0;
    bool good = true;
    *out = NULL;
    for (const char *at = text; good && at; at = *at == ',' ? at + 1 : NULL) {
        part p;
        const char *next = n < MOST_PARTS ? read_part(text, at, &p) : NULL;
        if (next == NULL || (*next == ',') != (p.steps > 0)) {
            good = false;
            if (n == MOST_PARTS)
                fail_text(text, "too many parts");
            else if (next)
                fail_text(text, *next ? "every part but the last needs @STEPS"
                                      : "the last part takes what is left, without @STEPS");
            break;
        }
        const int64_t left = steps - begin > 1 ? steps - begin : 1;
        rates[n] = make_part(text, &p, init, &level, p.steps > 0 ? p.steps : left);
        good = rates[n] != NULL;
        n += good;
        begin += p.steps;
        boundaries[n > 0 ? n - 1 : 0] = begin;
        at = next;
    }
    if (!good) {
        while (n > 0)
            weft_rate_free(rates[--n]);
        return weft_error_status();
    }
    *out = n == 1 ? rates[0] : weft_rate_join(rates, n, boundaries);
    return *out ? WEFT_OK : weft_error_status();
}
