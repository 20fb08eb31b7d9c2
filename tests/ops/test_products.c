/* tests/ops/test_products.c -- products of arrays against NumPy, their gradients, their messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* float64: a few roundings of sums of up to 20 terms below 4. */
static const double exact = 1e-13;
/* The same in float32. */
static const double close = 3e-6;

static const char *const subscripts[] = {
    "ij,jk->ik",
    "ij,jk",
    "ba,cb",
    "ii->i",
    "ii",
    "iijj->ij",
    "iji->j",
    "ijk->kji",
    "ij->",
    "...ij,...jk->...ik",
    "...ij,jk",
    "i...->...",
    "...,...",
    "i,j->ij",
    "i,i->i",
    "bi,bj->bij",
    "bhqd,bhkd->bhqk",
    "bqhd,bkhd->bhqk",
    "ij,jk,kl,lm->im",
    "ab,ac,bd,cd,de->e",
    "ij,ij,ij->ij",
    "ij,kj->ik",
    "aab,bc->c",
    "ij,jk->ik",
    "i,j,k->",
    "Ab,bA->b",
    " i j , j k -> k i ",
    "ab,bc,cd,de,ef,fg,gh,hi,ij->aj",
    "...a,...b->ab...",
};
enum { EINSUMS = sizeof subscripts / sizeof *subscripts, MOST = 9 };

static int inputs_of(const char *name, weft_dtype dtype, weft_array **in)
{
    char tensor[64];
    int n = 0;
    for (;; n++) {
        snprintf(tensor, sizeof tensor, "%s/in%d", name, n);
        if (n == MOST || !golden_has(tensor)) {
            return n;
        }
        in[n] = golden_as(tensor, dtype);
    }
}

static void einsum_equals_numpy(void)
{
    weft_array *in[MOST];
    char name[32], result[64];
    CHECK(golden_open("ops/products"));
    for (int i = 0; i < EINSUMS; i++) {
        weft_scope_open();
        snprintf(name, sizeof name, "einsum%d", i);
        snprintf(result, sizeof result, "%s/out0", name);
        int n = inputs_of(name, WEFT_FLOAT64, in);
        golden_check(weft_einsum(subscripts[i], in, n), result, exact);
        n = inputs_of(name, WEFT_FLOAT32, in);
        golden_check(weft_einsum(subscripts[i], in, n), result, 40 * close);
        weft_scope_close(NULL);
    }
    golden_close();
}

static int einsum_of(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    out[0] = weft_einsum(context, in, n_in);
    return 1;
}

static void einsum_has_gradients(void)
{
    weft_array *in[MOST];
    char name[32];
    CHECK(golden_open("ops/products"));
    for (int i = 0; i < EINSUMS; i++) {
        weft_scope_open();
        snprintf(name, sizeof name, "einsum%d", i);
        int n = inputs_of(name, WEFT_FLOAT64, in);
        weft_gradcheck_options options = {.seed = 3, .max_elements = 6};
        if (!CHECK_OK(weft_gradcheck(einsum_of, (void *)subscripts[i], in, n, &options)))
            printf("%s\n", subscripts[i]);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void einsum_of_integers_and_bool(void)
{
    weft_scope_open();
    int8_t a[] = {100, 100, 1, 2}, found[4];
    weft_array *x = weft_from_data(a, WEFT_INT8, WEFT_DIMS(2, 2));
    weft_array *both[] = {x, x};
    weft_array *sum = weft_einsum("ij->i", &x, 1);
    CHECK_EQ_INT(weft_dtype_of(sum), WEFT_INT8);
    CHECK_OK(weft_read(sum, WEFT_INT8, found, 2));
    CHECK_EQ_INT(found[0], (int8_t)200);
    CHECK_EQ_INT(found[1], 3);
    CHECK_OK(weft_read(weft_einsum("ij,kj->ik", both, 2), WEFT_INT8, found, 4));
    CHECK_EQ_INT(found[0], (int8_t)20000);
    CHECK_EQ_INT(found[3], 5);
    weft_array *mask = weft_greater(x, weft_scalar_int(1, WEFT_INT8));
    weft_array *any = weft_einsum("ij->i", &mask, 1);
    CHECK_EQ_INT(weft_dtype_of(any), WEFT_BOOL);
    CHECK_EQ_INT(weft_item_int(weft_sum(any, WEFT_ALL_AXES, false)), 2);
    weft_scope_close(NULL);
}

static void refuses(const char *text, int n, const char *part)
{
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(2, 3), WEFT_FLOAT32), *in[] = {x, x};
    weft_array *y = weft_einsum(text, in, n);
    CHECK(!weft_ok(y));
    CHECK_CONTAINS(weft_error(y), part);
    weft_scope_close(NULL);
}

static void einsum_errors_say_what_is_wrong(void)
{
    refuses("ij,jk->ik", 2, "operand 1: axis 'j' has 2 elements, 3 before");
    refuses("ii->i", 1, "operand 0: axes 'i' of 2 and 3 elements");
    refuses("ij,ij", 1, "more subscripts than the 1 operands");
    refuses("ij", 2, "fewer subscripts than the 2 operands");
    refuses("i", 1, "operand 0 has rank 2, its subscript 1 letters");
    refuses("ijk", 1, "operand 0 has rank 2, its subscript 3 letters");
    refuses("ij->k", 1, "'k' of the result is in no operand");
    refuses("ij->ii", 1, "'i' twice in the result");
    refuses("i...->i", 1, "the result has no ellipsis");
    refuses("......", 1, "two ellipses");
    refuses("i2", 1, "'2' is not a letter");
    refuses("ij-ij", 1, "'-' without '>'");
    refuses("ij->i,j", 1, "',' in the result's subscript");
    refuses("", 0, "no operands");
}

static void paths_are_the_cheapest(void)
{
    weft_scope_open();
    weft_array *in[10];
    char text[1024];
    in[0] = weft_zeros(WEFT_DIMS(10, 1000), WEFT_FLOAT32);
    in[1] = weft_zeros(WEFT_DIMS(1000, 2), WEFT_FLOAT32);
    in[2] = weft_zeros(WEFT_DIMS(2, 500), WEFT_FLOAT32);
    CHECK_OK(weft_einsum_path("ij,jk,kl->il", in, 3, text, sizeof text));
    /* 10 1000 2 500 terms of two products and a sum; 2 (10 1000 2) and then 2 (10 2 500). */
    CHECK_STR(text, "at once: 3e+07 flops\nin pairs: 60000 flops\n"
                    "(0, 1) ij,jk->ik: 40000 flops, leaves 20 elements\n"
                    "(0, 1) kl,ik->il: 20000 flops, leaves 5000 elements\n");
    CHECK_OK(weft_einsum_path("ij,jk,kl->il", in, 3, text, 12));
    CHECK_STR(text, "at once: 3e");
    for (int i = 0; i < 10; i++)
        in[i] = weft_zeros(WEFT_DIMS(4, 4), WEFT_FLOAT32);
    CHECK_OK(weft_einsum_path("ab,bc,cd,de,ef,fg,gh,hi,ij,jk->ak", in, 10, text, sizeof text));
    CHECK_CONTAINS(text, "in pairs: 1152 flops\n"); /* nine products of 4 by 4 */
    CHECK_STATUS(weft_einsum_path("ab,cd", in, 1, text, sizeof text), WEFT_INVALID);
    weft_scope_close(NULL);
}

static weft_array *in_of(const char *name, int i)
{
    char tensor[64];
    snprintf(tensor, sizeof tensor, "%s/in%d", name, i);
    return golden_as(tensor, WEFT_FLOAT64);
}

static void the_other_products_equal_numpy(void)
{
    weft_scope_open();
    CHECK(golden_open("ops/products"));
#define A(name) in_of(name, 0), in_of(name, 1)
    golden_check(weft_tensordot(A("tensordot_axes"), WEFT_DIMS(-1, 1), WEFT_DIMS(0, 1)),
                 "tensordot_axes/out0", exact);
    golden_check(weft_tensordot_n(A("tensordot_two"), 2), "tensordot_two/out0", exact);
    golden_check(weft_tensordot_n(A("tensordot_none"), 0), "tensordot_none/out0", exact);
    golden_check(weft_outer(A("outer")), "outer/out0", 0);
    golden_check(weft_kron(A("kron")), "kron/out0", 0);
    golden_check(weft_kron(A("kron_ranks")), "kron_ranks/out0", 0);
    golden_check(weft_inner(A("inner")), "inner/out0", exact);
    golden_check(weft_vecdot(A("vecdot"), -1), "vecdot/out0", exact);
    golden_check(weft_vecdot(A("vecdot_axis"), 1), "vecdot_axis/out0", exact);
    golden_check(weft_addmm(A("addmm"), in_of("addmm", 2), 0.5, -2), "addmm/out0", exact);
#undef A
    golden_close();
    weft_scope_close(NULL);
}

static void errors_of_the_other_products_say_what_is_wrong(void)
{
    weft_scope_open();
    weft_array *a = weft_zeros(WEFT_DIMS(2, 3), WEFT_FLOAT32), *b = weft_scalar(1, WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_tensordot(a, a, WEFT_DIMS(0), WEFT_DIMS(1))),
                   "axis 0 of a has 2 elements, axis 1 of b 3");
    CHECK_CONTAINS(weft_error(weft_tensordot(a, a, WEFT_DIMS(0, 1), WEFT_DIMS(1))),
                   "2 axes of a and 1 of b");
    CHECK_CONTAINS(weft_error(weft_tensordot(a, a, WEFT_DIMS(2), WEFT_DIMS(1))), "axis 2");
    CHECK_CONTAINS(weft_error(weft_tensordot_n(a, b, 1)), "rank 2 and 0");
    CHECK_CONTAINS(weft_error(weft_vecdot(a, b, -1)), "rank 0");
    CHECK_EQ_INT(weft_ndim(weft_inner(a, b)), 2);
    CHECK_EQ_INT(weft_dim(weft_outer(weft_zeros(WEFT_DIMS(0), WEFT_FLOAT32), a), 1), 6);
    weft_scope_close(NULL);
}

/* ---- Products of parts ---------------------------------------------------------------------- */

static weft_array *part_in(const char *name, int i, weft_dtype dtype)
{
    char tensor[64];
    snprintf(tensor, sizeof tensor, "%s/in%d", name, i);
    return golden_as(tensor, dtype);
}

static weft_array *gathered(const char *name, weft_dtype dtype, bool sorted)
{
    return weft_gather_mm(part_in(name, 0, dtype), part_in(name, 1, dtype),
                          part_in(name, 2, WEFT_INT32), part_in(name, 3, WEFT_INT64), sorted);
}

static void products_of_parts_equal_numpy(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT64, WEFT_FLOAT32};
    CHECK(golden_open("ops/products"));
    for (int i = 0; i < 2; i++) {
        weft_dtype d = dtypes[i];
        double tolerance = i ? 2e-5 : 1e-12; /* sums of up to 64 products */
        weft_scope_open();
        golden_check(gathered("gather_mm", d, false), "gather_mm/out0", tolerance);
        golden_check(gathered("gather_mm_rows", d, true), "gather_mm_rows/out0", tolerance);
        golden_check(weft_segmented_mm(part_in("segmented_mm", 0, d), part_in("segmented_mm", 1, d),
                                       part_in("segmented_mm", 2, WEFT_INT32)),
                     "segmented_mm/out0", tolerance);
        golden_check(
            weft_block_masked_mm(part_in("block_masked", 0, d), part_in("block_masked", 1, d), 32,
                                 part_in("block_masked", 2, d), part_in("block_masked", 3, d),
                                 part_in("block_masked", 4, d)),
            "block_masked/out0", tolerance);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void false_masks_hide_nan_and_infinity(void)
{
    weft_scope_open();
    float v[4] = {1, 2, 3, 4};
    bool keep[4] = {true, false, false, true};
    weft_array *a = weft_from_data(v, WEFT_FLOAT32, WEFT_DIMS(2, 2));
    weft_array *mask = weft_from_data(keep, WEFT_BOOL, WEFT_DIMS(2, 2));
    weft_array *bad =
        weft_divide(a, weft_where(mask, a, weft_zeros(WEFT_DIMS(2, 2), WEFT_FLOAT32)));
    float y[4];
    CHECK_OK(weft_read(weft_block_masked_mm(bad, a, 1, mask, mask, NULL), WEFT_FLOAT32, y, 4));
    CHECK(y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 4);
    weft_scope_close(NULL);
}

/* bfloat16 experts: one rounding of each result, by groups and by single rows. */
static void gathered_bfloat16_is_rounded_once(void)
{
    weft_scope_open();
    CHECK(golden_open("ops/products"));
    weft_array *in[4];
    for (int i = 0; i < 4; i++)
        in[i] = part_in("gather_mm_rows", i, i < 2 ? WEFT_BFLOAT16 : WEFT_INT32);
    CHECK_OK(weft_eval_n(in, 4));
    weft_array *turned = weft_swapaxes(weft_contiguous(weft_swapaxes(in[1], 1, 2)), 1, 2);
    weft_array *want = weft_gather_mm(weft_astype(in[0], WEFT_FLOAT64),
                                      weft_astype(in[1], WEFT_FLOAT64), in[2], in[3], false);
    CHECK_OK(weft_eval(want));
    CHECK_OK(weft_eval(turned));
    for (int i = 0; i < 2; i++) {
        weft_array *y = weft_gather_mm(in[0], i ? turned : in[1], in[2], in[3], i);
        CHECK_EQ_INT(weft_dtype_of(y), WEFT_BFLOAT16);
        weft_array *error = weft_abs(weft_subtract(weft_astype(y, WEFT_FLOAT64), want));
        weft_array *limit =
            weft_scale(weft_maximum(weft_abs(want), weft_scalar(1, WEFT_FLOAT64)), 0x1p-8 + 1e-5);
        CHECK(weft_item_int(weft_all(weft_less_equal(error, limit), WEFT_ALL_AXES, false)) == 1);
    }
    golden_close();
    weft_scope_close(NULL);
}

static void hadamard_equals_scipy_and_mlx(void)
{
    static const int sizes[] = {1, 2, 64, 256, 12, 40, 112};
    CHECK(golden_open("ops/products"));
    for (int i = 0; i < 7; i++) {
        char in[32], out[32];
        snprintf(in, sizeof in, "hadamard%d/in0", sizes[i]);
        snprintf(out, sizeof out, "hadamard%d/out0", sizes[i]);
        weft_scope_open();
        golden_check(weft_hadamard_transform(golden_get(in), 0), out, 1e-13);
        golden_check(weft_hadamard_transform(golden_as(in, WEFT_FLOAT32), 0), out, 2e-6);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void errors_of_products_of_parts_say_what_is_wrong(void)
{
    weft_scope_open();
    weft_array *a = weft_zeros(WEFT_DIMS(2, 3, 4), WEFT_FLOAT32);
    weft_array *b = weft_zeros(WEFT_DIMS(3, 4, 5), WEFT_FLOAT32);
    weft_array *three = weft_full(WEFT_DIMS(1), 3, WEFT_INT32);
    CHECK_STATUS(weft_eval(weft_gather_mm(a, b, NULL, three, false)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "index 3 is out of range for an axis of size 3");
    weft_array *bad = weft_zeros(WEFT_DIMS(2, 3, 5), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_gather_mm(bad, bad, NULL, NULL, false)),
                   "inner dimensions differ");
    CHECK_CONTAINS(weft_error(weft_hadamard_transform(bad, 0)), "got 5");
    weft_array *scalar = weft_scalar(3, WEFT_FLOAT32); /* H_1 is 1 */
    CHECK_EQ_INT(weft_ndim(weft_hadamard_transform(scalar, 0)), 0);
    CHECK_CLOSE(weft_item(weft_hadamard_transform(scalar, 0)), 3, 0);
    CHECK_CLOSE(weft_item(weft_hadamard_transform(scalar, 0.5)), 1.5, 0);
    CHECK_CONTAINS(weft_error(weft_block_masked_mm(bad, bad, 32, NULL, bad, NULL)), "mask_lhs");
    CHECK_CONTAINS(weft_error(weft_segmented_mm(bad, bad, bad)), "segments (..., 2)");
    weft_array *m = weft_zeros(WEFT_DIMS(2, 4), WEFT_FLOAT32);
    weft_array *n = weft_zeros(WEFT_DIMS(4, 2), WEFT_FLOAT32);
    weft_array *beyond = weft_full(WEFT_DIMS(1, 2), 5, WEFT_INT32);
    CHECK_STATUS(weft_eval(weft_segmented_mm(m, n, beyond)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "segment [5, 5) of 4 terms");
    weft_scope_close(NULL);
}

CHECK_MAIN("products", CHECK_CASE(einsum_equals_numpy), CHECK_CASE(einsum_has_gradients),
           CHECK_CASE(einsum_of_integers_and_bool), CHECK_CASE(einsum_errors_say_what_is_wrong),
           CHECK_CASE(paths_are_the_cheapest), CHECK_CASE(the_other_products_equal_numpy),
           CHECK_CASE(errors_of_the_other_products_say_what_is_wrong),
           CHECK_CASE(products_of_parts_equal_numpy), CHECK_CASE(false_masks_hide_nan_and_infinity),
           CHECK_CASE(gathered_bfloat16_is_rounded_once), CHECK_CASE(hadamard_equals_scipy_and_mlx),
           CHECK_CASE(errors_of_products_of_parts_say_what_is_wrong))
