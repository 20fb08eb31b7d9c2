/* ops/nn/rope_frequencies.c -- inverse frequencies of rotary embeddings, and their scaling for long
 * contexts. Computed in double; the result is float32. */
#include "core/failure.h"
#include "core/options.h"
#include "ops/nn/nn.h"

#include <math.h>

#define PI 3.14159265358979323846

/* The options with defaults filled in. */
typedef struct rope_setup {
    weft_rope_options o;
    int64_t dims; /* rotated dims, 2 per frequency */
} rope_setup;

static rope_setup setup_of(const weft_rope_options *options)
{
    rope_setup s = {.o = *options};
    weft_rope_options *o = &s.o;
    o->theta = weft__or_default(o->theta, 10000);
    if (o->kind == WEFT_ROPE_LONGROPE && o->original_max_position != 0)
        o->factor =
            weft__or_default(o->factor, (double)o->max_position / (double)o->original_max_position);
    o->factor = weft__or_default(o->factor, 1);
    o->partial = weft__or_default(o->partial, 1);
    o->low_freq_factor = weft__or_default(o->low_freq_factor, 1);
    o->high_freq_factor = weft__or_default(o->high_freq_factor, 4);
    o->beta_fast = weft__or_default(o->beta_fast, 32);
    o->beta_slow = weft__or_default(o->beta_slow, 1);
    if (o->original_max_position == 0) {
        o->original_max_position = o->kind == WEFT_ROPE_LLAMA3 ? 8192 : o->max_position;
    }
    s.dims = o->kind == WEFT_ROPE_PROPORTIONAL ? o->head_dim
                                               : (int64_t)((double)o->head_dim * o->partial);
    return s;
}

/* ---- Scaling kinds: f[j], j < dims / 2, from the base frequencies ---------------------------- */

static void scale_all(const rope_setup *s, double *f)
{
    for (int64_t j = 0; j < s->dims / 2; j++) {
        f[j] /= s->o.factor;
    }
}

/* Long wavelengths are scaled by the factor, short ones kept, those between interpolated (Llama
 * 3.1). */
static void llama3(const rope_setup *s, double *f)
{
    double M = (double)s->o.original_max_position;
    double low = s->o.low_freq_factor, high = s->o.high_freq_factor;
    for (int64_t j = 0; j < s->dims / 2; j++) {
        double turns = M * f[j] / (2 * PI);
        double keep = (turns - low) / (high - low);
        keep = turns < low ? 0 : turns > high ? 1 : keep;
        f[j] = (1 - keep) * f[j] / s->o.factor + keep * f[j];
    }
}

/* The real-valued index of the frequency that rotates `rotations` times over the original context.
 */
static double yarn_index(const rope_setup *s, double rotations)
{
    double M = (double)s->o.original_max_position;
    return (double)s->dims * log(M / (2 * PI * rotations)) / (2 * log(s->o.theta));
}

/* Peng et al. 2023. */
static void yarn(const rope_setup *s, double *f)
{
    double low = yarn_index(s, s->o.beta_fast), high = yarn_index(s, s->o.beta_slow);
    if (!s->o.no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)s->dims - 1);
    high += low == high ? 0.001 : 0;
    for (int64_t j = 0; j < s->dims / 2; j++) {
        double ramp = fmin(fmax(((double)j - low) / (high - low), 0), 1);
        f[j] = f[j] / s->o.factor * ramp + f[j] * (1 - ramp);
    }
}

static double yarn_scale(double factor, double k)
{
    return factor > 1 ? 0.1 * k * log(factor) + 1 : 1;
}

static double yarn_amplitude(const rope_setup *s)
{
    const weft_rope_options *o = &s->o;
    if (o->attention_factor != 0) {
        return o->attention_factor;
    }
    if (o->mscale != 0 && o->mscale_all_dim != 0) {
        return yarn_scale(o->factor, o->mscale) / yarn_scale(o->factor, o->mscale_all_dim);
    }
    return yarn_scale(o->factor, 1);
}

/* The base grows with the length beyond the trained length. */
static double dynamic_theta(const rope_setup *s)
{
    double P = (double)s->o.max_position, length = fmax((double)s->o.length, P);
    double growth = s->o.factor * length / P - (s->o.factor - 1);
    return s->o.theta * pow(growth, (double)s->dims / ((double)s->dims - 2));
}

static void longrope(const rope_setup *s, double *f)
{
    bool beyond = s->o.length > s->o.original_max_position;
    const double *factors = beyond ? s->o.long_factor : s->o.short_factor;
    for (int64_t j = 0; j < s->dims / 2; j++) {
        f[j] /= factors[j];
    }
}

/* The context grows by `factor` or, without one, by max / original. */
static double longrope_amplitude(const rope_setup *s)
{
    double original = (double)s->o.original_max_position;
    double growth = s->o.factor;
    if (s->o.attention_factor != 0) {
        return s->o.attention_factor;
    }
    return growth > 1 ? sqrt(1 + log(growth) / log(original)) : 1;
}

/* The first share of the pairs rotates and the others do not; the exponents count all pairs. */
static void proportional(const rope_setup *s, double *f)
{
    int64_t turning = (int64_t)(s->o.partial * (double)s->dims / 2);
    for (int64_t j = 0; j < s->dims / 2; j++) {
        f[j] = j < turning ? f[j] / s->o.factor : 0;
    }
}

/* Fills f and returns the amplitude. */
static double frequencies(const rope_setup *s, double *f)
{
    double theta = s->o.kind == WEFT_ROPE_DYNAMIC ? dynamic_theta(s) : s->o.theta;
    for (int64_t j = 0; j < s->dims / 2; j++) {
        f[j] = pow(theta, -2 * (double)j / (double)s->dims);
    }
    switch (s->o.kind) {
    case WEFT_ROPE_DEFAULT:
    case WEFT_ROPE_DYNAMIC:
        return 1;
    case WEFT_ROPE_LINEAR:
        scale_all(s, f);
        return 1;
    case WEFT_ROPE_LLAMA3:
        llama3(s, f);
        return 1;
    case WEFT_ROPE_YARN:
        yarn(s, f);
        return yarn_amplitude(s);
    case WEFT_ROPE_LONGROPE:
        longrope(s, f);
        return longrope_amplitude(s);
    case WEFT_ROPE_PROPORTIONAL:
        proportional(s, f);
        return 1;
    }
    return 1;
}

/* ---- Public --------------------------------------------------------------------------------- */

/* An error message for invalid options, or NULL. */
static const char *fault_of(const rope_setup *s)
{
    const weft_rope_options *o = &s->o;
    bool needs_original = o->kind == WEFT_ROPE_YARN || o->kind == WEFT_ROPE_LONGROPE;
    if ((int)o->kind < WEFT_ROPE_DEFAULT || o->kind > WEFT_ROPE_PROPORTIONAL) {
        return "unsupported kind";
    }
    if (s->dims < 2 || s->dims % 2 != 0 || s->dims > o->head_dim) {
        return "head_dim * partial must be even, at least 2 and at most head_dim";
    }
    if (!(o->theta > 0) || !(o->factor > 0)) {
        return "theta and factor must be positive";
    }
    if (!(o->beta_fast > 0) || !(o->beta_slow > 0)) {
        return "beta_fast and beta_slow must be positive";
    }
    if (o->attention_factor < 0 || o->mscale < 0 || o->mscale_all_dim < 0 ||
        o->original_max_position < 0) {
        return "attention_factor, mscale, mscale_all_dim and original_max_position must not be "
               "negative";
    }
    if (needs_original && o->original_max_position <= 0) {
        return "yarn and longrope need original_max_position or max_position";
    }
    if (o->kind == WEFT_ROPE_DYNAMIC && (o->max_position <= 0 || s->dims < 4)) {
        return "dynamic needs max_position and at least 4 dims that rotate";
    }
    if (o->kind == WEFT_ROPE_LONGROPE && (!o->short_factor || !o->long_factor)) {
        return "longrope needs short_factor and long_factor";
    }
    return NULL;
}

weft_array *weft_rope_frequencies(const weft_rope_options *options, double *amplitude)
{
    rope_setup s = setup_of(options);
    const char *fault = fault_of(&s);
    if (fault) {
        return weft_error_array("rope_frequencies: %s (head_dim %lld, partial %g)", fault,
                                (long long)s.o.head_dim, s.o.partial);
    }
    int64_t n = s.dims / 2;
    double *f = weft_malloc((size_t)n * sizeof *f);
    float *rounded = weft_malloc((size_t)n * sizeof *rounded);
    weft_array *result = NULL;
    if (f && rounded) {
        double a = frequencies(&s, f);
        for (int64_t j = 0; j < n; j++) {
            rounded[j] = (float)f[j];
        }
        result = weft_from_data(rounded, WEFT_FLOAT32, WEFT_DIMS(n));
        if (amplitude) {
            *amplitude = a;
        }
    } else {
        result = weft__memory_error("rope_frequencies", NULL);
    }
    weft_free(f);
    weft_free(rounded);
    return result;
}
