/* tests/ops/test_elementwise_layouts.c -- copies and conversion between all dtypes, and elementwise
 * kernels on strided, broadcast, reversed, empty and aliased tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/walk.h"
#include "tests/check.h"

static uint64_t state = 7;

static uint64_t next_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state ^ state >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* ---- A second implementation of conversion -------------------------------------------------- */

typedef struct number {
    bool whole; /* exactly this integer of 65 bits: magnitude and sign */
    bool negative;
    uint64_t magnitude;
    long double real; /* else, or as well */
} number;

static number whole_number(bool negative, uint64_t magnitude)
{
    long double real = (long double)magnitude;
    return (number){true, negative, magnitude, negative ? -real : real};
}

static number read_number(weft_dtype dtype, const void *p)
{
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f;
        double d;
    } x = {.u64 = 0};
    size_t size = dtype == WEFT_COMPLEX64 ? sizeof(float) : weft_dtype_size(dtype);
    memcpy(&x, p, size);
    switch (dtype) {
    case WEFT_FLOAT16:
        return (number){.real = (long double)weft_float16_to_float(x.u16)};
    case WEFT_BFLOAT16:
        return (number){.real = (long double)weft_bfloat16_to_float(x.u16)};
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        return (number){.real = (long double)x.f};
    case WEFT_FLOAT64:
        return (number){.real = (long double)x.d};
    default:
        break;
    }
    uint64_t top = UINT64_C(1) << (8 * size - 1);
    if (weft_dtype_is_signed(dtype) && (x.u64 & top)) {
        return whole_number(true, top - (x.u64 & (top - 1)));
    }
    return whole_number(false, x.u64);
}

/* The nearest number with `digits` binary digits and no digit below 2^lowest; ties to even. */
static long double round_digits(long double x, int digits, int lowest)
{
    int e;
    frexpl(x, &e);
    int last = e - digits > lowest ? e - digits : lowest;
    return ldexpl(rintl(ldexpl(x, -last)), last);
}

static uint64_t saturate(number x, weft_dtype dtype)
{
    int bits = 8 * (int)weft_dtype_size(dtype);
    uint64_t mask = ~UINT64_C(0) >> (64 - bits);
    if (x.whole) {
        return (x.negative ? 0 - x.magnitude : x.magnitude) & mask;
    }
    bool is_signed = weft_dtype_is_signed(dtype);
    long double end = ldexpl(1, is_signed ? bits - 1 : bits);
    if (isnan(x.real)) {
        return 0;
    }
    if (x.real >= end) {
        return is_signed ? mask >> 1 : mask;
    }
    if (is_signed && x.real <= -end) {
        return (mask >> 1) + 1;
    }
    if (!is_signed && x.real <= 0) {
        return 0;
    }
    uint64_t magnitude = (uint64_t)truncl(fabsl(x.real));
    return (x.real < 0 ? 0 - magnitude : magnitude) & mask;
}

/* Writes the element that x becomes; 0 filled up to 8 bytes. */
static void write_number(weft_dtype dtype, number x, bool truth, void *p)
{
    memset(p, 0, 8);
    if (dtype == WEFT_BOOL) {
        *(uint8_t *)p = truth;
    } else if (dtype == WEFT_FLOAT64) {
        double value = (double)x.real;
        memcpy(p, &value, sizeof value);
    } else if (dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16) {
        bool half = dtype == WEFT_FLOAT16;
        long double rounded = round_digits(x.real, half ? 11 : 8, half ? -24 : -133);
        rounded = isfinite(x.real) ? rounded : x.real;
        float value = (float)rounded; /* exact, or beyond every 16-bit float */
        uint16_t bits = half ? weft_float_to_float16(value) : weft_float_to_bfloat16(value);
        memcpy(p, &bits, sizeof bits);
    } else if (!weft_dtype_is_integer(dtype)) {
        float value = (float)x.real;
        memcpy(p, &value, sizeof value);
    } else {
        uint64_t bits = saturate(x, dtype);
        memcpy(p, &bits, sizeof bits);
    }
}

static bool is_nan_of(weft_dtype dtype, const void *p)
{
    return !weft_dtype_is_integer(dtype) && dtype != WEFT_BOOL && isnan(read_number(dtype, p).real);
}

/* ---- All pairs ------------------------------------------------------------------------------ */

enum { PAIRS = 2500 };

static const double edges[] = {0,
                               -0.0,
                               1,
                               -1,
                               0.5,
                               -0.5,
                               1.5,
                               2.5,
                               127,
                               127.5,
                               128,
                               -128,
                               -128.5,
                               -129,
                               255,
                               255.5,
                               256,
                               32767,
                               32768,
                               -32768,
                               -32769,
                               65504,
                               65519,
                               65520,
                               65535,
                               65536,
                               0x1p31,
                               -0x1p31,
                               0x1.fffffep30,
                               0x1p32,
                               0x1.fffffep31,
                               -0x1p32,
                               0x1p63,
                               -0x1p63,
                               0x1.fffffep62,
                               0x1p64,
                               0x1.fffffep63,
                               -0x1p64,
                               1e30,
                               -1e30,
                               1e300,
                               -1e300,
                               0x1p-24,
                               0x1p-25,
                               0x1.8p-25,
                               0x1.000001p-25,
                               0x1p-14,
                               0x1p-126,
                               0x1p-149,
                               0x1p-150,
                               1 + 0x1p-11,
                               1 + 0x1p-11 + 0x1p-40,
                               1 + 0x1p-8 + 0x1p-40,
                               1 + 0x1p-9,
                               0x1.00ffp0,
                               0x1.0080000000001p0,
                               2049,
                               2051,
                               0x1.fffffffffffffp62,
                               3.9999999,
                               INFINITY,
                               -INFINITY,
                               NAN};
enum { EDGES = sizeof edges / sizeof *edges };

static void fill_source(weft_dtype dtype, char *data)
{
    size_t size = weft_dtype_size(dtype);
    for (int i = 0; i < PAIRS; i++) {
        uint64_t word = next_word();
        if (dtype == WEFT_BOOL) {
            word &= 1;
        } else if (i % 4 == 1) { /* few bits set: ends and powers of two */
            word = (UINT64_C(1) << (word & 63)) + (word >> 6 & 1) - (word >> 7 & 1);
        } else if (i % 4 == 2 && weft_dtype_is_integer(dtype)) { /* long runs of equal digits */
            word = (word >> (word & 63)) | (UINT64_C(1) << (word >> 8 & 63));
        }
        memcpy(data + (size_t)i * size, &word, size);
        if (i < EDGES && !weft_dtype_is_integer(dtype) && dtype != WEFT_BOOL) {
            weft_tensor one = {.dtype = dtype == WEFT_COMPLEX64 ? WEFT_FLOAT32 : dtype,
                               .data = data + (size_t)i * size};
            weft_tensor_set(&one, 0, edges[i]);
        }
    }
}

static void check_pair(weft_dtype from, weft_dtype to)
{
    static union {
        char bytes[PAIRS * 8];
        double aligned;
    } source, target;
    fill_source(from, source.bytes);
    weft_dims shape = {1, {PAIRS}};
    weft_tensor in = {.dtype = from, .shape = shape, .strides = {1}, .data = &source};
    weft_tensor out = {.dtype = to, .shape = shape, .strides = {1}, .data = &target};
    weft_call call = {.n_inputs = 1, .n_outputs = 1, .in = &in, .out = &out};
    CHECK_OK(weft__cpu_copy(&call));
    size_t from_size = weft_dtype_size(from), to_size = weft_dtype_size(to);
    for (size_t i = 0; i < PAIRS; i++) {
        const char *element = source.bytes + i * from_size, *got = target.bytes + i * to_size;
        char want[8];
        number x = read_number(from, element);
        bool truth = !(x.real == 0);
        if (from == WEFT_COMPLEX64) {
            truth = truth || !(read_number(WEFT_FLOAT32, element + 4).real == 0);
        }
        write_number(to, x, truth, want);
        if (from == WEFT_COMPLEX64 && to == WEFT_COMPLEX64) {
            memcpy(want + 4, element + 4, 4);
        }
        bool same = memcmp(got, want, to_size) == 0 || (is_nan_of(to, got) && is_nan_of(to, want));
        if (!same) {
            CHECK_FAIL("%s to %s: %.17Lg: %.17Lg, expected %.17Lg", weft_dtype_name(from),
                       weft_dtype_name(to), x.real, read_number(to, got).real,
                       read_number(to, want).real);
            return;
        }
    }
    CHECK(true);
}

static void all_pairs_of_dtypes(void)
{
    for (cpu_isa isa = CPU_BASELINE; isa <= weft__cpu_isa(); isa++) {
        weft__cpu_elementwise_table();
        weft__cpu_elementwise_use(isa);
        for (int from = 0; from < WEFT_DTYPE_COUNT; from++) {
            for (int to = 0; to < WEFT_DTYPE_COUNT; to++) {
                check_pair((weft_dtype)from, (weft_dtype)to);
            }
        }
    }
}

/* ---- Layouts -------------------------------------------------------------------------------- */

/* Views of one buffer of BUFFER numbers, element 0 in its middle, so that strides may be negative.
 */
enum { BUFFER = 1 << 17 };

typedef struct layout {
    const char *name;
    weft_dims shape;
    int64_t strides[4];
} layout;

static const layout layouts[] = {
    {"contiguous", {2, {30, 41}}, {41, 1}},
    {"transposed", {2, {70, 90}}, {1, 70}},
    {"transposed, small", {2, {3, 5}}, {1, 3}},
    {"transposed in a batch", {3, {5, 33, 65}}, {2200, 1, 33}},
    {"axes reversed", {3, {9, 11, 13}}, {1, 9, 99}},
    {"first axis inside", {3, {40, 3, 35}}, {1, 40, 120}},
    {"every other", {2, {20, 30}}, {60, 2}},
    {"reversed", {1, {1000}}, {-1}},
    {"rows reversed", {2, {20, 150}}, {-150, 1}},
    {"columns reversed", {2, {20, 150}}, {150, -1}},
    {"a scalar", {2, {20, 150}}, {0, 0}},
    {"a row for all", {2, {20, 150}}, {0, 1}},
    {"a column for all", {2, {20, 150}}, {1, 0}},
    {"a short row for all", {2, {300, 7}}, {0, 1}},
    {"padded rows", {2, {20, 150}}, {160, 1}},
    {"four axes", {4, {4, 5, 6, 7}}, {210, 1, 35, 5}},
    {"axes of one", {4, {1, 9, 1, 300}}, {77, 300, -5, 1}},
    {"0-d", {0, {0}}, {0}},
    {"empty", {2, {0, 5}}, {5, 1}},
    {"empty inside", {3, {4, 0, 5}}, {0, 5, 1}},
    {"large", {2, {300, 350}}, {1, 300}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static weft_tensor view(const layout *l, weft_dtype dtype, void *buffer)
{
    weft_tensor t = {.dtype = dtype, .shape = l->shape};
    memcpy(t.strides, l->strides, sizeof l->strides);
    bool backwards = false;
    for (int axis = 0; axis < l->shape.n; axis++) {
        backwards = backwards || l->strides[axis] < 0;
    }
    t.data = (char *)buffer + (backwards ? BUFFER / 2 : 0) * weft_dtype_size(dtype);
    return t;
}

static weft_tensor dense(weft_dims shape, weft_dtype dtype, void *buffer)
{
    weft_tensor t = {.dtype = dtype, .shape = shape, .data = buffer};
    int64_t stride = 1;
    for (int axis = shape.n - 1; axis >= 0; axis--) {
        t.strides[axis] = stride;
        stride *= shape.at[axis];
    }
    return t;
}

static union {
    char bytes[BUFFER * 8];
    double aligned;
} sources[3], target;

static void fill_sources(weft_dtype dtype)
{
    for (int k = 0; k < 3; k++) {
        weft_tensor all = dense((weft_dims){1, {BUFFER}}, dtype, &sources[k]);
        for (int64_t i = 0; i < BUFFER; i++) {
            weft_tensor_set(&all, i, (double)(next_word() % 100) + (k == 1));
        }
    }
    memset(&target, 0x5a, sizeof target);
}

/* Checks that nothing is written beyond the output. */
static void check_end(const weft_tensor *out)
{
    size_t end = (size_t)weft_tensor_size(out) * weft_dtype_size(out->dtype);
    for (size_t i = end; i < end + 64; i++) {
        if (target.bytes[i] != 0x5a) {
            CHECK_FAIL("byte %zu beyond the output was written", i - end);
            return;
        }
    }
}

static void copies_of_every_layout(void)
{
    static const weft_dtype dtypes[][2] = {
        {WEFT_FLOAT32, WEFT_FLOAT32},  {WEFT_FLOAT32, WEFT_BFLOAT16}, {WEFT_UINT8, WEFT_UINT8},
        {WEFT_FLOAT16, WEFT_FLOAT16},  {WEFT_INT64, WEFT_INT64},      {WEFT_INT64, WEFT_FLOAT32},
        {WEFT_BFLOAT16, WEFT_FLOAT64},
    };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int i = 0; i < LAYOUTS; i++) {
            fill_sources(dtypes[d][0]);
            weft_tensor in = view(&layouts[i], dtypes[d][0], &sources[0]);
            weft_tensor out = dense(in.shape, dtypes[d][1], &target);
            weft_call call = {.n_inputs = 1, .n_outputs = 1, .in = &in, .out = &out};
            CHECK_OK(weft__cpu_copy(&call));
            for (int64_t at = 0; at < weft_tensor_size(&out); at++) {
                if (weft_tensor_get(&out, at) != weft_tensor_get(&in, at)) {
                    CHECK_FAIL("%s, %s: element %lld: %g, expected %g", layouts[i].name,
                               weft_dtype_name(dtypes[d][0]), (long long)at,
                               weft_tensor_get(&out, at), weft_tensor_get(&in, at));
                    break;
                }
            }
            check_end(&out);
        }
    }
}

static void check_layout(const layout *first, const layout *second, weft_dtype dtype)
{
    fill_sources(dtype);
    const weft_op *op = weft_op_find("subtract");
    weft_tensor in[2] = {view(first, dtype, &sources[0]), view(second, dtype, &sources[1])};
    weft_tensor out = dense(first->shape, dtype, &target);
    weft_call call = {.op = op, .n_inputs = 2, .n_outputs = 1, .in = in, .out = &out};
    CHECK_OK(weft__cpu_elementwise(&call, weft_op_tape(op, dtype)));
    for (int64_t at = 0; at < weft_tensor_size(&out); at++) {
        double want = weft_tensor_get(&in[0], at) - weft_tensor_get(&in[1], at);
        if (weft_tensor_get(&out, at) != want) {
            CHECK_FAIL("%s and %s, %s: element %lld: %g, expected %g", first->name, second->name,
                       weft_dtype_name(dtype), (long long)at, weft_tensor_get(&out, at), want);
            return;
        }
    }
    check_end(&out);
    CHECK(true);
}

/* Every pair of layouts of one shape. */
static void operands_of_every_layout(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT64,
                                        WEFT_INT8,    WEFT_INT32,    WEFT_INT64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int i = 0; i < LAYOUTS; i++) {
            for (int k = 0; k < LAYOUTS; k++) {
                if (memcmp(&layouts[i].shape, &layouts[k].shape, sizeof layouts[i].shape) == 0) {
                    check_layout(&layouts[i], &layouts[k], dtypes[d]);
                }
            }
        }
    }
}

static void choice_between_layouts(void)
{
    const layout *l = layouts;
    for (int i = 0; i + 2 < LAYOUTS; i++) {
        fill_sources(WEFT_FLOAT32);
        weft_tensor condition = view(&l[i], WEFT_BOOL, &sources[2]);
        for (int64_t at = 0; at < BUFFER; at++) {
            sources[2].bytes[at] = (char)(next_word() >> 33 & 1);
        }
        weft_tensor in[3] = {condition, view(&l[i], WEFT_FLOAT32, &sources[0]),
                             view(&l[i], WEFT_FLOAT32, &sources[1])};
        weft_tensor out = dense(l[i].shape, WEFT_FLOAT32, &target);
        const weft_op *op = weft_op_find("where");
        weft_call call = {.op = op, .n_inputs = 3, .n_outputs = 1, .in = in, .out = &out};
        CHECK_OK(weft__cpu_elementwise(&call, weft_op_tape(op, WEFT_FLOAT32)));
        for (int64_t at = 0; at < weft_tensor_size(&out); at++) {
            bool chosen = weft_tensor_get_int(&in[0], at) != 0;
            if (!CHECK(weft_tensor_get(&out, at) == weft_tensor_get(&in[chosen ? 1 : 2], at))) {
                break;
            }
        }
    }
}

/* The output may be an input: silu has several steps, each of which reads it. */
static void in_place(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_FLOAT64};
    const weft_op *op = weft_op_find("swiglu");
    for (size_t d = 0; d < 3; d++) {
        for (int aliased = 0; aliased < 2; aliased++) {
            fill_sources(dtypes[d]);
            weft_dims shape = {1, {5000}};
            weft_tensor in[2] = {dense(shape, dtypes[d], &sources[0]),
                                 dense(shape, dtypes[d], &sources[1])};
            weft_tensor apart = dense(shape, dtypes[d], &target);
            weft_call call = {.op = op, .n_inputs = 2, .n_outputs = 1, .in = in, .out = &apart};
            const weft_tape *tape = weft_op_tape(op, dtypes[d]);
            CHECK_OK(weft__cpu_elementwise(&call, tape));
            weft_call same = {
                .op = op, .n_inputs = 2, .n_outputs = 1, .in = in, .out = &in[aliased]};
            CHECK_OK(weft__cpu_elementwise(&same, tape));
            CHECK_BYTES(&sources[aliased], &target, 5000 * weft_dtype_size(dtypes[d]));
        }
    }
}

/* A formula of eight operands that no op has, whose intermediate integers wrap. */
static void a_users_formula(void)
{
    weft_tape tape;
    char why[128];
    CHECK(weft_tape_parse("(a + b) / 2 + (a * b >> (bits - 3)) - (a < b ? 7 : a ^ 3)",
                          WEFT_CLASS_INTEGER, 2, &tape, why, sizeof why));
    static const weft_dtype dtypes[] = {WEFT_INT8,  WEFT_UINT8,  WEFT_INT16, WEFT_UINT16,
                                        WEFT_INT32, WEFT_UINT32, WEFT_INT64, WEFT_UINT64};
    static const weft_op op = {.name = "users_formula", .family = WEFT_ELEMENTWISE, .arity = 2};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        enum { N = 3000 };
        weft_dims shape = {1, {N}};
        for (size_t i = 0; i < N; i++) {
            uint64_t words[2] = {next_word(), next_word()};
            memcpy(sources[0].bytes + 8 * i, &words[0], 8);
            memcpy(sources[1].bytes + 8 * i, &words[1], 8);
        }
        weft_tensor in[2] = {dense(shape, dtypes[d], &sources[0]),
                             dense(shape, dtypes[d], &sources[1])};
        weft_tensor out = dense(shape, dtypes[d], &target);
        weft_call call = {.op = &op, .n_inputs = 2, .n_outputs = 1, .in = in, .out = &out};
        CHECK_OK(weft__cpu_elementwise(&call, &tape));
        for (int64_t i = 0; i < N; i++) {
            int64_t operands[2] = {weft_tensor_get_int(&in[0], i), weft_tensor_get_int(&in[1], i)};
            if (!CHECK_EQ_INT(weft_tensor_get_int(&out, i),
                              weft_tape_eval_int(&tape, operands, dtypes[d]))) {
                break;
            }
        }
    }
}

static void encoded_inputs_are_refused(void)
{
    static const weft_encoding blocks = {.name = "blocks", .block = 32, .block_bytes = 18};
    weft_dims shape = {1, {32}};
    weft_tensor in = dense(shape, WEFT_FLOAT32, &sources[0]);
    weft_tensor out = dense(shape, WEFT_FLOAT32, &target);
    in.encoding = &blocks;
    const weft_op *op = weft_op_find("exp");
    weft_call call = {.op = op, .n_inputs = 1, .n_outputs = 1, .in = &in, .out = &out};
    CHECK_STATUS(weft__cpu_elementwise(&call, weft_op_tape(op, WEFT_FLOAT32)), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "exp: input 0: unsupported for the encoding blocks");
    CHECK_STATUS(weft__cpu_copy(&call), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "copy: unsupported for the encoding blocks");
}

CHECK_MAIN("elementwise_layouts", CHECK_CASE(all_pairs_of_dtypes),
           CHECK_CASE(copies_of_every_layout), CHECK_CASE(operands_of_every_layout),
           CHECK_CASE(choice_between_layouts), CHECK_CASE(in_place), CHECK_CASE(a_users_formula),
           CHECK_CASE(encoded_inputs_are_refused))
