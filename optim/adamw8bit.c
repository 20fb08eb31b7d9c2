/* optim/adamw8bit.c -- AdamW with moments of 8 bits (Dettmers et al. 2022): each block of 256 has a
 * largest magnitude in float32 and, for each element, the nearest of 256 values between 0 and it,
 * which are denser towards 0 (dynamic quantization). */
#include <math.h>

#include "core/failure.h"
#include "optim/optim.h"

enum { M, V, M_SCALE, V_SCALE };
enum { BLOCK = 256, FEWEST = 4096 };

/* ---- codes ---------------------------------------------------------------------------------- */

/* Magnitudes are in seven decades from 1e-7 to 1. Decade d has first * 2^d values: the middles of
 * as many equal parts. Two codes more stand for 0 and 1. The first moment has a value in the lowest
 * decade and all of them negative too (but -1): code 127 is 0. The second has two, and code 0 is 0.
 */
typedef struct coding {
    double zero;  /* the code of 0, after which the smallest magnitude comes */
    double first; /* values in the lowest decade */
} coding;

enum { DECADES = 7, LAST = 255 };

static const coding codings[] = {[M] = {127, 1}, [V] = {0, 2}};

/* Value i of n of a decade, in parts of its upper end. */
static double middle(double i, double n)
{
    return 0.1 + 0.9 * (i + 0.5) / n;
}

/* A decade for each element: how many values it has, and its upper end or 1 over that. */
typedef struct decade {
    weft_array *n, *end;
} decade;

/* Whether the decade of an element is d >= 1 or one above it. */
typedef weft_array *decade_test(const coding *c, weft_array *x, int d);

/* `factor` takes `end` from one decade to the next. */
static decade decade_of(const coding *c, weft_array *x, decade_test *is_in, double end,
                        double factor)
{
    weft_array *none = weft_scale(x, 0);
    decade out = {weft_add_scalar(none, c->first), weft_add_scalar(none, end)};
    for (int d = 1; d < DECADES; d++) {
        weft_array *in = is_in(c, x, d);
        out.n = weft_where(in, weft_scale(out.n, 2), out.n);
        out.end = weft_where(in, weft_scale(out.end, factor), out.end);
    }
    return out;
}

/* Above halfway between the last value of the decade before d and its first one. */
static weft_array *has_magnitude(const coding *c, weft_array *x, int d)
{
    const double n = c->first * (1 << d), end = pow(10, d - DECADES + 1);
    const double limit = (end / 10 * middle(n / 2 - 1, n / 2) + end * middle(0, n)) / 2;
    return weft_greater_scalar(x, limit);
}

static weft_array *has_code(const coding *c, weft_array *x, int d)
{
    return weft_greater_equal_scalar(x, c->first * ((1 << d) - 1));
}

/* x in [-1, 1] -> the code of the nearest value, as a float. */
static weft_array *codes_of(const coding *c, weft_array *x)
{
    weft_array *size = weft_abs(x);
    const decade d = decade_of(c, size, has_magnitude, 1e6, 0.1);
    weft_array *part = weft_add_scalar(weft_multiply(size, d.end), -0.1); /* 0 to 0.9 */
    weft_array *i = weft_floor(weft_multiply(weft_scale(part, 1 / 0.9), d.n));
    i = weft_minimum(weft_maximum_scalar(i, 0), weft_add_scalar(d.n, -1));
    weft_array *rank = weft_add_scalar(weft_add(i, d.n), 1 - c->first); /* from 1 */
    weft_array *none = weft_scale(rank, 0);
    weft_array *is_zero = weft_less_equal_scalar(size, 0.5e-6 * middle(0, c->first));
    weft_array *up = weft_add_scalar(weft_where(is_zero, none, rank), c->zero);
    weft_array *down = weft_add_scalar(weft_negative(up), 2 * c->zero);
    const double n = c->first * (1 << (DECADES - 1)), one = (1 + middle(n - 1, n)) / 2;
    up = weft_where(weft_greater_scalar(x, one), weft_add_scalar(none, LAST), up);
    return weft_where(weft_less_scalar(x, 0), down, up);
}

/* Codes as floats -> their values. */
static weft_array *values_of(const coding *c, weft_array *codes)
{
    weft_array *rank = weft_add_scalar(codes, -c->zero);
    weft_array *index = weft_add_scalar(weft_abs(rank), -1);
    const decade d = decade_of(c, index, has_code, 1e-6, 10);
    weft_array *i = weft_add_scalar(weft_subtract(index, d.n), c->first + 0.5);
    weft_array *part = weft_add_scalar(weft_scale(weft_divide(i, d.n), 0.9), 0.1);
    weft_array *size = weft_minimum_scalar(weft_multiply(part, d.end), 1); /* that of the last */
    return weft_multiply(size, weft_sign(rank));
}

/* ---- encoding and decoding ------------------------------------------------------------------ */

static int64_t count_blocks(int64_t size)
{
    return (size + BLOCK - 1) / BLOCK;
}

/* Elements in blocks, the last one filled with zeros: (blocks, 256). */
static weft_array *in_blocks(weft_array *x)
{
    const int64_t size = weft_size(x), n = count_blocks(size);
    weft_array *flat = weft_reshape(x, WEFT_DIMS(size));
    if (n * BLOCK != size)
        flat = weft_pad(flat, 0, 0, n * BLOCK - size, 0);
    return weft_reshape(flat, WEFT_DIMS(n, BLOCK));
}

static weft_array *out_of_blocks(weft_array *blocks, weft_array *like)
{
    const int64_t size = weft_size(like);
    weft_array *flat = weft_reshape(blocks, WEFT_DIMS(weft_size(blocks)));
    return weft_reshape(weft_slice_axis(flat, 0, 0, size), weft_shape(like));
}

/* State i in the parameter's dtype. */
static weft_array *decoded(weft_optim_step *s, int i)
{
    weft_array *codes = weft_astype(in_blocks(s->state[i]), WEFT_FLOAT32);
    weft_array *scale = weft_expand_dims(s->state[M_SCALE + i], 1); /* (blocks, 1) */
    weft_array *values = weft_multiply(values_of(&codings[i], codes), scale);
    return weft_astype(out_of_blocks(values, s->parameter), weft_dtype_of(s->parameter));
}

/* Replaces state i by the codes of x. A positive v never becomes 0: m would be divided by next to
 * nothing where a small gradient follows, and the step be a hundred times too large. */
static void encode(weft_optim_step *s, int i, weft_array *x)
{
    weft_array *blocks = in_blocks(weft_astype(x, WEFT_FLOAT32));
    weft_array *scale = weft_max(weft_abs(blocks), WEFT_DIMS(1), true); /* (blocks, 1) */
    weft_array *filled = weft_where(weft_greater_scalar(scale, 0), scale, weft_exp(scale));
    weft_array *share = weft_divide(blocks, filled); /* in [-1, 1] */
    weft_array *codes = codes_of(&codings[i], share);
    if (i == V)
        codes = weft_where(weft_greater_scalar(share, 0), weft_maximum_scalar(codes, 1), codes);
    s->state[i] = out_of_blocks(weft_astype(codes, WEFT_UINT8), s->parameter);
    s->state[M_SCALE + i] = weft_squeeze(scale, 1);
}

/* ---- the update ----------------------------------------------------------------------------- */

static weft_array *over(weft_array *x, weft_optim_number a)
{
    return a.array ? weft_divide(x, weft_astype(a.array, weft_dtype_of(x))) : x;
}

static weft_optim_number rest_of(const weft_optim_step *s, weft_optim_number beta)
{
    return weft_optim_hyper(s, "bias_correction").value != 0
               ? weft_optim_rest_of_power(beta, s->count)
               : (weft_optim_number){.value = 1};
}

/* AdamW's, with the moments of this update as they are before they are encoded. */
static weft_array *update(weft_optim_step *s)
{
    const bool coded = s->state[M_SCALE] != NULL;
    const weft_optim_number beta1 = weft_optim_hyper(s, "beta1");
    const weft_optim_number beta2 = weft_optim_hyper(s, "beta2");
    weft_array *m = coded ? decoded(s, M) : s->state[M];
    weft_array *v = coded ? decoded(s, V) : s->state[V];
    m = weft_optim_average(m, s->gradient, beta1);
    v = weft_optim_average(v, weft_square(s->gradient), beta2);
    weft_array *root = weft_sqrt(over(v, rest_of(s, beta2)));
    root = weft_optim_plus(root, weft_optim_hyper(s, "eps"));
    weft_array *step = weft_divide(over(m, rest_of(s, beta1)), root);
    step = weft_add(step, weft_optim_times(s->parameter, weft_optim_hyper(s, "weight_decay")));
    if (coded) {
        encode(s, M, m);
        encode(s, V, v);
    } else {
        s->state[M] = m;
        s->state[V] = v;
    }
    return weft_subtract(s->parameter, weft_optim_times(step, s->learning_rate));
}

/* ---- the type ------------------------------------------------------------------------------- */

static int64_t size_of(const weft_dims *shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape->n; i++)
        size *= shape->at[i];
    return size;
}

static bool state_shape(const void *options, int i, weft_dims *shape)
{
    (void)options;
    const int64_t size = size_of(shape);
    if (i >= M_SCALE)
        *shape = WEFT_DIMS(count_blocks(size));
    return i < M_SCALE || size >= FEWEST;
}

static weft_dtype state_dtype(const void *options, int i, const weft_dims *parameter)
{
    (void)options;
    if (size_of(parameter) < FEWEST)
        return 0;
    return i < M_SCALE ? WEFT_UINT8 : WEFT_FLOAT32;
}

static weft_status check(const void *options)
{
    const weft_optim_adamw_options *o = options;
    const weft_status status = weft__optim_expect("adamw8bit", "beta1", o->beta1, true, false);
    return status == WEFT_OK ? weft__optim_expect("adamw8bit", "beta2", o->beta2, true, false)
                             : status;
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, beta2),
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, eps),
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, weight_decay),
    WEFT_FIELD(BOOL, weft_optim_adamw_options, bias_correction),
    WEFT_FIELDS_END,
};

static const weft_optim_adamw_options defaults = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};

const weft_optim_type weft_optim_adamw8bit = {
    .name = "adamw8bit",
    .fields = fields,
    .options_size = sizeof(weft_optim_adamw_options),
    .defaults = &defaults,
    .states = {"m", "v", "m_scale", "v_scale"},
    .state_shape = state_shape,
    .state_dtype = state_dtype,
    .check = check,
    .update = update,
};
