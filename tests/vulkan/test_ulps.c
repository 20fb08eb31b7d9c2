/* tests/vulkan/test_ulps.c -- every elementwise op of float32 on the device, over its whole domain:
 * within the bounds that hold on the CPU and those that math.glsl states for its functions, and
 * with the same bits when the op is merged with a select of its operand. With WEFT_TEST_VERBOSE it
 * prints what it measured. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/builtin.h"
#include "tests/check.h"
#include "tests/support/ulps.h"
#include "weft/ops.h"

enum { N = 6000 };

/* The bounds that math.glsl states for its functions, if the CPU's are tighter. */
static const double FUNCTIONS = 3;

/* Sums and products are rounded once on every device, and ops that are exact on the CPU are
 * exact. */
static double limit_of(const weft_tape *tape, double on_cpu)
{
    const int code = tape->n_steps == 1 ? tape->steps[0].code : WEFT_TAPE_CODE_COUNT;
    const bool once = code == WEFT_TAPE_ADD || code == WEFT_TAPE_SUB || code == WEFT_TAPE_MUL;
    return once || on_cpu == 0 ? on_cpu : fmax(on_cpu, FUNCTIONS);
}

static const float special[] = {
    0.0F,       -0.0F,       INFINITY, -INFINITY,  NAN,          FLT_MAX,       -FLT_MAX,
    FLT_MIN,    -FLT_MIN,    1e-40F,   -0x1p-149F, 1.0F,         -1.0F,         8388607.5F,
    8388608.0F, -8388609.0F, 1e10F,    3e38F,      -16777216.0F, 2147483648.0F, 88.7F,
    -87.3F,     -103.9F,     0.5F,     -0.5F,      1.5F,         2.5F};
enum { SPECIAL = sizeof special / sizeof *special };

static float in[2][N], plain[N], merged[N];
static unsigned char choice[N];

/* All pairs of special values, halves, and samples of all sizes. */
static void draw(void)
{
    for (int i = 0; i < N; i++) {
        const int half_ = i - SPECIAL * SPECIAL;
        choice[i] = i * 7 % 3 != 0;
        if (half_ < 0) {
            in[0][i] = special[i % SPECIAL];
            in[1][i] = special[i / SPECIAL];
        } else if (half_ < 400) {
            in[0][i] = (float)(half_ - 200) + 0.5F;
            in[1][i] = ulps_sample(i);
        } else {
            in[0][i] = ulps_sample(i);
            in[1][i] = ulps_sample(i / 4 % 3 ? i : i / 16);
        }
    }
}

static weft_array *apply(const weft_op *op, weft_array *const *x)
{
    return weft_apply_elementwise(op, x, op->arity);
}

static bool is_subnormal(double x)
{
    return x != 0 && fabs(x) < 0x1p-126;
}

/* A device that flushes subnormal numbers may take one for 0, and give 0 for one. */
static bool says_nothing(const weft_op *op, int i, double want)
{
    return weft_device_flushes_subnormals(weft_default_device()) &&
           (is_subnormal(want) || is_subnormal((double)in[0][i]) ||
            (op->arity > 1 && is_subnormal((double)in[1][i])));
}

static void check_bounds(const weft_op *op, const ulps_bound *b)
{
    const weft_tape *tape = weft_op_tape(op, WEFT_FLOAT32);
    const double limit = limit_of(tape, b->ulps);
    double worst = 0;
    int at = 0;
    for (int i = 0; i < N; i++) {
        const double operands[2] = {(double)in[0][i], (double)in[1][i]};
        const double want = weft_tape_eval(tape, operands);
        const double scale = b->scaled ? weft_tape_eval(&b->scale, operands) : 0;
        const double d = ulps_distance((double)plain[i], want, scale);
        if (d > worst && !says_nothing(op, i, want)) {
            worst = d;
            at = i;
        }
    }
    if (getenv("WEFT_TEST_VERBOSE")) {
        printf("%s %.3g (%.3g) %a %a\n", op->name, worst, b->ulps, (double)in[0][at],
               (double)in[1][at]);
    }
    check_that(worst <= limit, __FILE__, __LINE__,
               "%s(%.9g, %.9g) is %.9g: %.3g ulp off, expected at most %.3g", op->name,
               (double)in[0][at], (double)in[1][at], (double)plain[at], worst, limit);
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* A select of the result or of an operand, either way around, in the shader of the op. */
static void check_merged(const weft_op *op, weft_array *const *x, weft_array *condition)
{
    for (int turn = 0; turn < 2; turn++) {
        weft_array *y = apply(op, x);
        weft_array *z = turn ? weft_where(condition, y, x[0]) : weft_where(condition, x[0], y);
        weft_device_reset_counts(weft_default_device());
        if (!CHECK_OK(weft_read(z, WEFT_FLOAT32, merged, N))) {
            return;
        }
        CHECK_EQ_INT(weft_device_counts(weft_default_device()).fused, 1);
        int wrong = 0, at = -1;
        for (int i = 0; i < N; i++) {
            const bool chosen = (choice[i] != 0) == (turn != 0);
            if (!same_bits(merged[i], chosen ? plain[i] : in[0][i])) {
                wrong++;
                at = i;
            }
        }
        if (wrong > 0) {
            CHECK_FAIL("%s(%.9g) merged with a select: %d differ, such as %.9g instead of %.9g",
                       op->name, (double)in[0][at], wrong, (double)merged[at],
                       (double)((choice[at] != 0) == (turn != 0) ? plain[at] : in[0][at]));
        }
    }
}

static void check_op(const weft_op *op, const ulps_bound *b)
{
    weft_scope_open();
    weft_array *x[2] = {weft_from_data(in[0], WEFT_FLOAT32, WEFT_DIMS(N)),
                        weft_from_data(in[1], WEFT_FLOAT32, WEFT_DIMS(N))};
    weft_array *condition = weft_from_data(choice, WEFT_BOOL, WEFT_DIMS(N));
    if (CHECK_OK(weft_read(apply(op, x), WEFT_FLOAT32, plain, N))) {
        check_bounds(op, b);
        check_merged(op, x, condition);
    }
    weft_scope_close(NULL);
}

static void every_op_is_within_its_bounds(void)
{
    static ulps_bound bounds[ULPS_MAX_BOUNDS];
    const char *some = getenv("WEFT_TEST_OPS");
    weft_device *vulkan = weft_device_get("vulkan");
    if (!vulkan) {
        check_skip("%s", weft_error_message());
        return;
    }
    weft_set_default_device(vulkan);
    const int n = ulps_read_bounds(bounds);
    draw();
    for (int k = 0; k < weft__op_table_size; k++) {
        const weft_op *op = weft__op_table[k];
        const ulps_bound *b = ulps_find(bounds, n, op->name);
        if (ulps_is_measured(op) && CHECK(b != NULL) && (!some || strstr(some, op->name))) {
            check_op(op, b);
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_ulps", CHECK_CASE(every_op_is_within_its_bounds))
