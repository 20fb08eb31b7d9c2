/* tests/core/test_dtype.c -- weft/dtype.h: names, sizes, promotion, 16-bit float conversions. */
#include "weft/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static const char *const names[WEFT_DTYPE_COUNT] = {
    "bool",  "uint8", "uint16",  "uint32",   "uint64",  "int8",    "int16",
    "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
};
static const int sizes[WEFT_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8};

/* Row and column in the order of `names`, written out by hand: ? bool, B H W Q uint8..uint64,
 * b h w q int8..int64, e float16, z bfloat16, f float32, d float64, c complex64. */
static const char letters[] = "?BHWQbhwqezfdc";
static const char *const promotion[WEFT_DTYPE_COUNT] = {
    "?BHWQbhwqezfdc", /* bool */
    "BBHWQhhwqezfdc", /* uint8 */
    "HHHWQwwwqezfdc", /* uint16 */
    "WWWWQqqqqezfdc", /* uint32 */
    "QQQQQffffezfdc", /* uint64 */
    "bhwqfbhwqezfdc", /* int8 */
    "hhwqfhhwqezfdc", /* int16 */
    "wwwqfwwwqezfdc", /* int32 */
    "qqqqfqqqqezfdc", /* int64 */
    "eeeeeeeeeeffdc", /* float16 */
    "zzzzzzzzzfzfdc", /* bfloat16 */
    "ffffffffffffdc", /* float32 */
    "dddddddddddddc", /* float64 */
    "cccccccccccccc", /* complex64 */
};

static void names_and_sizes(void)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        weft_dtype dtype = (weft_dtype)i, parsed = WEFT_DTYPE_COUNT;
        CHECK_STR(weft_dtype_name(dtype), names[i]);
        CHECK_EQ_INT(weft_dtype_size(dtype), sizes[i]);
        CHECK(weft_dtype_parse(names[i], &parsed));
        CHECK_EQ_INT(parsed, dtype);
    }
}

static void parse_leaves_the_result_alone_when_unknown(void)
{
    static const char *const unknown[] = {"", "float", "Float32", "float32 ", "f32", "complex128"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        weft_dtype dtype = WEFT_INT16;
        CHECK(!weft_dtype_parse(unknown[i], &dtype));
        CHECK_EQ_INT(dtype, WEFT_INT16);
    }
}

static void classes(void)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        weft_dtype dtype = (weft_dtype)i;
        const char *name = names[i];
        bool is_float = strstr(name, "float") != NULL;
        bool is_integer = strstr(name, "int") != NULL;
        CHECK_EQ_INT(weft_dtype_is_float(dtype), is_float);
        CHECK_EQ_INT(weft_dtype_is_integer(dtype), is_integer);
        CHECK_EQ_INT(weft_dtype_is_signed(dtype), strncmp(name, "int", 3) == 0);
        CHECK_EQ_INT(weft_dtype_class(dtype), is_float             ? WEFT_CLASS_REAL
                                              : is_integer         ? WEFT_CLASS_INTEGER
                                              : dtype == WEFT_BOOL ? WEFT_CLASS_BOOL
                                                                   : WEFT_CLASS_COMPLEX);
    }
}

static void promotion_of_all_pairs(void)
{
    for (int a = 0; a < WEFT_DTYPE_COUNT; a++) {
        for (int b = 0; b < WEFT_DTYPE_COUNT; b++) {
            char actual = letters[weft_promote((weft_dtype)a, (weft_dtype)b)];
            if (actual != promotion[a][b]) {
                CHECK_FAIL("%s with %s: %c, expected %c", names[a], names[b], actual,
                           promotion[a][b]);
            }
        }
    }
    CHECK(true);
}

static void promotion_is_symmetric_and_absorbs(void)
{
    for (int a = 0; a < WEFT_DTYPE_COUNT; a++) {
        for (int b = 0; b < WEFT_DTYPE_COUNT; b++) {
            weft_dtype x = (weft_dtype)a, y = (weft_dtype)b;
            weft_dtype joined = weft_promote(x, y);
            CHECK_EQ_INT(weft_promote(y, x), joined);
            CHECK_EQ_INT(weft_promote(joined, y), joined);
        }
    }
}

/* The value of a 16-bit float with `exponent_bits` of exponent, from the definition. */
static double decode(unsigned bits, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits;
    int bias = (1 << (exponent_bits - 1)) - 1;
    int top = (1 << exponent_bits) - 1;
    int exponent = (int)(bits >> mantissa_bits) & top;
    int mantissa = (int)bits & ((1 << mantissa_bits) - 1);
    double sign = bits & 0x8000u ? -1 : 1;
    if (exponent == top) {
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    }
    int whole = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    return sign * ldexp(whole, (exponent ? exponent : 1) - bias - mantissa_bits);
}

typedef struct half_format {
    const char *name;
    int exponent_bits;
    float (*to_float)(uint16_t bits);
    uint16_t (*from_float)(float value);
} half_format;

static const half_format formats[] = {
    {"float16", 5, weft_float16_to_float, weft_float_to_float16},
    {"bfloat16", 8, weft_bfloat16_to_float, weft_float_to_bfloat16},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void check_code(const half_format *f, unsigned bits)
{
    double expected = decode(bits, f->exponent_bits);
    float value = f->to_float((uint16_t)bits);
    uint16_t back = f->from_float(value);
    if (isnan(expected)) {
        bool sign_kept = ((back ^ bits) & 0x8000u) == 0;
        if (!isnan(value) || !isnan(decode(back, f->exponent_bits)) || !sign_kept) {
            CHECK_FAIL("%s NaN 0x%04x: value %g, back 0x%04x", f->name, bits, value, back);
        }
    } else if ((double)value != expected || back != bits) {
        CHECK_FAIL("%s 0x%04x: %a, expected %a; back 0x%04x", f->name, bits, value, expected, back);
    }
}

static void every_16_bit_value_survives_a_round_trip(void)
{
    for (int i = 0; i < FORMATS; i++) {
        for (unsigned bits = 0; bits <= 0xffffu; bits++) {
            check_code(&formats[i], bits);
        }
    }
    CHECK(true);
}

static void expect_code(const half_format *f, float value, unsigned bits)
{
    if (f->from_float(value) != bits) {
        CHECK_FAIL("%s from %a: 0x%04x, expected 0x%04x", f->name, value, f->from_float(value),
                   bits);
    }
}

/* Between each two neighbors the halfway point goes to the even one, and the floats just beside it
 * to the nearer one; so do their negatives. The neighbor of the largest is infinity. */
static void halfway_rounds_to_even(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const half_format *f = &formats[i];
        unsigned infinity = ((1u << f->exponent_bits) - 1) << (15 - f->exponent_bits);
        for (unsigned bits = 0; bits < infinity; bits++) {
            double low = decode(bits, f->exponent_bits);
            double high = bits + 1 == infinity ? 2 * low - decode(bits - 1, f->exponent_bits)
                                               : decode(bits + 1, f->exponent_bits);
            float middle = (float)((low + high) / 2); /* exact: one more bit than the format */
            unsigned even = bits & 1u ? bits + 1 : bits;
            expect_code(f, middle, even);
            expect_code(f, -middle, even | 0x8000u);
            expect_code(f, nextafterf(middle, -INFINITY), bits);
            expect_code(f, nextafterf(middle, INFINITY), bits + 1);
            expect_code(f, -nextafterf(middle, INFINITY), (bits + 1) | 0x8000u);
        }
    }
    CHECK(true);
}

static void far_values(void)
{
    CHECK_EQ_INT(weft_float_to_float16(65504.0f), 0x7bff);
    CHECK_EQ_INT(weft_float_to_float16(65519.996f), 0x7bff);
    CHECK_EQ_INT(weft_float_to_float16(65520.0f), 0x7c00);
    CHECK_EQ_INT(weft_float_to_float16(3e38f), 0x7c00);
    CHECK_EQ_INT(weft_float_to_float16(-INFINITY), 0xfc00);
    CHECK_EQ_INT(weft_float_to_float16(0x1p-25f), 0);
    CHECK_EQ_INT(weft_float_to_float16(-0x1p-149f), 0x8000);
    CHECK_EQ_INT(weft_float_to_bfloat16(3.4028235e38f), 0x7f80);
    CHECK_EQ_INT(weft_float_to_bfloat16(-INFINITY), 0xff80);
    CHECK_EQ_INT(weft_float_to_bfloat16(-0.0f), 0x8000);
}

/* A NaN whose payload lies only in the bits that are cut off must not become an infinity. */
static void low_payload_nan_stays_nan(void)
{
    static const uint32_t words[] = {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        float value;
        memcpy(&value, &words[i], sizeof value);
        CHECK(isnan(decode(weft_float_to_float16(value), 5)));
        CHECK(isnan(decode(weft_float_to_bfloat16(value), 8)));
    }
}

CHECK_MAIN("dtype", CHECK_CASE(names_and_sizes),
           CHECK_CASE(parse_leaves_the_result_alone_when_unknown), CHECK_CASE(classes),
           CHECK_CASE(promotion_of_all_pairs), CHECK_CASE(promotion_is_symmetric_and_absorbs),
           CHECK_CASE(every_16_bit_value_survives_a_round_trip), CHECK_CASE(halfway_rounds_to_even),
           CHECK_CASE(far_values), CHECK_CASE(low_payload_nan_stays_nan))
