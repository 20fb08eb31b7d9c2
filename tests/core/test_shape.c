/* tests/core/test_shape.c -- core/shape.c, and the shapes of results that weft_apply refuses. */
#include <string.h>

#include "core/shape.h"
#include "tests/check.h"
#include "weft/ops.h"

static void texts_are_written_like_tuples_and_never_overflow(void)
{
    char text[WEFT_SHAPE_TEXT];
    CHECK_STR(weft__shape_text(&WEFT_SCALAR, text), "()");
    CHECK_STR(weft__shape_text(&WEFT_DIMS(7), text), "(7,)");
    CHECK_STR(weft__shape_text(&WEFT_DIMS(2, 0, 3), text), "(2, 0, 3)");
    weft_dims wide = {.n = WEFT_MAX_DIMS};
    for (int i = 0; i < wide.n; i++) {
        wide.at[i] = INT64_MAX;
    }
    CHECK(strlen(weft__shape_text(&wide, text)) < WEFT_SHAPE_TEXT);
}

static void sizes_of_empty_and_too_large_shapes(void)
{
    CHECK_EQ_INT(weft__shape_size(&WEFT_SCALAR), 1);
    CHECK_EQ_INT(weft__shape_size(&WEFT_DIMS(3, 4)), 12);
    CHECK_EQ_INT(weft__shape_size(&WEFT_DIMS(3, 0, 4)), 0);
    int64_t half = (int64_t)1 << 32;
    CHECK_EQ_INT(weft__shape_size(&WEFT_DIMS(half, half)), -1);
    CHECK_EQ_INT(weft__shape_size(&WEFT_DIMS(half, half / 4)), (int64_t)1 << 62);
    CHECK_EQ_INT(weft__shape_size(&WEFT_DIMS(half, 0, half)), -1); /* its strides would not fit */
}

static void broadcasting_stretches_ones(void)
{
    weft_dims out;
    CHECK(weft__shape_broadcast(&WEFT_DIMS(5, 1, 3), &WEFT_DIMS(4, 1), &out));
    CHECK(weft__shape_equal(&out, &WEFT_DIMS(5, 4, 3)));
    CHECK(weft__shape_broadcast(&WEFT_SCALAR, &WEFT_DIMS(2), &out));
    CHECK(weft__shape_equal(&out, &WEFT_DIMS(2)));
    CHECK(weft__shape_broadcast(&WEFT_DIMS(1), &WEFT_DIMS(0), &out));
    CHECK(weft__shape_equal(&out, &WEFT_DIMS(0)));
    CHECK(!weft__shape_broadcast(&WEFT_DIMS(2), &WEFT_DIMS(3), &out));
    CHECK(!weft__shape_broadcast(&WEFT_DIMS(0), &WEFT_DIMS(2), &out));
    out = WEFT_DIMS(2, 3); /* the result may be one of the operands */
    CHECK(weft__shape_broadcast(&out, &WEFT_DIMS(4, 1, 1), &out));
    CHECK(weft__shape_equal(&out, &WEFT_DIMS(4, 2, 3)));
    CHECK(!weft__shape_equal(&WEFT_DIMS(2, 1), &WEFT_DIMS(2)));
}

static void strides_are_row_major(void)
{
    int64_t strides[WEFT_MAX_DIMS];
    weft__strides_contiguous(&WEFT_DIMS(2, 3, 4), strides);
    CHECK_EQ_INT(strides[0], 12);
    CHECK_EQ_INT(strides[1], 4);
    CHECK_EQ_INT(strides[2], 1);
}

static void axes_count_from_the_end(void)
{
    weft_dims out;
    weft_why why;
    CHECK_EQ_INT(weft__axis_front(-1, 3), 2);
    CHECK_EQ_INT(weft__axis_front(0, 3), 0);
    CHECK_EQ_INT(weft__axis_front(3, 3), -1);
    CHECK_EQ_INT(weft__axis_front(-4, 3), -1);
    CHECK_EQ_INT(weft__axis_front(0, 0), -1);
    CHECK_EQ_INT(weft__axis_front(INT64_MIN, 3), -1);
    CHECK(weft__axes_from_end(&WEFT_DIMS(2, 0), 3, &out, &why));
    CHECK(weft__shape_equal(&out, &WEFT_DIMS(-3, -1)));
    CHECK(weft__axes_from_end(&WEFT_ALL_AXES, 2, &out, &why));
    CHECK(weft__shape_equal(&out, &WEFT_DIMS(-2, -1)));
    CHECK(!weft__axes_from_end(&WEFT_DIMS(3), 3, &out, &why));
    CHECK_CONTAINS(why.text, "axis 3 is out of range for rank 3");
    CHECK(!weft__axes_from_end(&WEFT_DIMS(1, -2), 3, &out, &why));
    CHECK_CONTAINS(why.text, "named twice");
}

static void impossible_results_are_refused(void)
{
    weft_scope_open();
    int64_t large = (int64_t)1 << 31;
    weft_array *x = weft_ones(WEFT_DIMS(1, 1), WEFT_FLOAT32);
    weft_array *much = weft_broadcast_to(x, WEFT_DIMS(large, large));
    CHECK(!weft_ok(much)); /* 2^62 elements of 4 bytes */
    CHECK_CONTAINS(weft_error(much), "2^63 bytes");
    CHECK(!weft_ok(weft_zeros(WEFT_DIMS(-2), WEFT_FLOAT32)));
    CHECK(!weft_ok(weft_from_data("", WEFT_FLOAT32, WEFT_DIMS(large, large))));
    CHECK(!weft_ok(weft_from_data(NULL, WEFT_FLOAT32, WEFT_DIMS(2))));
    weft_array *huge = weft_zeros(WEFT_DIMS(large, large / 4), WEFT_FLOAT32); /* 2^62 bytes */
    CHECK_STATUS(weft_eval(huge), WEFT_MEMORY);
    weft_scope_close(NULL);
}

static void ops_take_empty_arrays(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data(NULL, WEFT_FLOAT32, WEFT_DIMS(0, 3));
    weft_array *y = weft_exp(weft_add(weft_swapaxes(x, 0, 1), weft_scalar(1, WEFT_FLOAT32)));
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(weft_size(y), 0);
    CHECK_OK(weft_read(y, WEFT_FLOAT64, NULL, 0));
    CHECK_CLOSE(weft_item(weft_sum(y, WEFT_ALL_AXES, false)), 0, 0);
    weft_array *both[] = {x, weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32)};
    CHECK_CLOSE(weft_item(weft_sum(weft_concatenate(both, 2, 0), WEFT_ALL_AXES, false)), 6, 0);
    weft_scope_close(NULL);
}

CHECK_MAIN("shape", CHECK_CASE(texts_are_written_like_tuples_and_never_overflow),
           CHECK_CASE(sizes_of_empty_and_too_large_shapes), CHECK_CASE(broadcasting_stretches_ones),
           CHECK_CASE(strides_are_row_major), CHECK_CASE(axes_count_from_the_end),
           CHECK_CASE(impossible_results_are_refused), CHECK_CASE(ops_take_empty_arrays))
