/* tests/core/test_array.c -- arrays from data, accessors, errors that propagate through arrays,
 * reading. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/ops.h"

static const float six[6] = {1, 2, 3, 4, 5, 6};

static void data_is_copied_and_read_back_converted(void)
{
    float mine[6];
    memcpy(mine, six, sizeof mine);
    weft_scope_open();
    weft_array *a = weft_from_data(mine, WEFT_FLOAT32, WEFT_DIMS(2, 3));
    mine[0] = 99;
    double wide[6];
    int32_t whole[6];
    CHECK_OK(weft_read(a, WEFT_FLOAT64, wide, 6));
    CHECK_OK(weft_read(a, WEFT_INT32, whole, 6));
    CHECK_CLOSE(wide[0], 1, 0);
    CHECK_EQ_INT(whole[5], 6);
    CHECK_EQ_INT(weft_ndim(a), 2);
    CHECK_EQ_INT(weft_dim(a, -1), 3);
    CHECK_EQ_INT(weft_dim(a, 5), 1);
    CHECK_EQ_INT(weft_nbytes(a), 24);
    CHECK(weft_is_evaluated(a));
    weft_scope_close(NULL);
}

static int released;

static void count_release(void *context)
{
    released += *(int *)context;
}

static void lent_memory_is_used_in_place_and_returned(void)
{
    int one = 1;
    float *mine = malloc(sizeof six);
    memcpy(mine, six, sizeof six);
    released = 0;
    weft_scope_open();
    weft_array *a = weft_from_memory(mine, WEFT_FLOAT32, WEFT_DIMS(6), count_release, &one);
    CHECK(weft_data(a) == mine);
    weft_array *b = weft_scale(a, 2); /* must not write into borrowed memory */
    CHECK_OK(weft_eval(b));
    CHECK_CLOSE(mine[3], 4, 0);
    CHECK_EQ_INT(released, 0);
    weft_scope_close(NULL);
    CHECK_EQ_INT(released, 1);
    weft_scope_open();
    char *odd = (char *)mine + 1;
    CHECK(!weft_ok(weft_from_memory(odd, WEFT_FLOAT32, WEFT_DIMS(1), count_release, &one)));
    CHECK_EQ_INT(released, 2);
    weft_scope_close(NULL);
    free(mine);
}

static void errors_propagate_through_arrays(void)
{
    weft_scope_open();
    weft_array *a = weft_zeros(WEFT_DIMS(2, 3), WEFT_FLOAT32);
    weft_array *bad = weft_add(a, weft_zeros(WEFT_DIMS(4), WEFT_FLOAT32));
    CHECK(!weft_ok(bad));
    CHECK_CONTAINS(weft_error(bad), "add: shapes do not broadcast: (2, 3) and (4,)");
    weft_array *later = weft_exp(weft_multiply(bad, a));
    CHECK_STR(weft_error(later), weft_error(bad)); /* the first message wins */
    CHECK_EQ_INT(weft_ndim(later), 0);
    CHECK_EQ_INT(weft_dim(later, 0), 1);
    CHECK_STATUS(weft_eval(later), WEFT_INVALID);
    CHECK_STR(weft_error_message(), weft_error(bad));
    CHECK(isnan(weft_item(later)));
    CHECK_EQ_INT(weft_item_int(later), INT64_MIN);
    CHECK(weft_data(later) == NULL);
    CHECK(weft_error(a) == NULL);
    CHECK_CONTAINS(weft_error(NULL), "NULL");
    CHECK(!weft_ok(weft_add(a, NULL)));
    weft_scope_close(NULL);
}

static void shapes_are_checked(void)
{
    weft_scope_open();
    CHECK(!weft_ok(weft_from_data(six, WEFT_FLOAT32, (weft_dims){.n = 17})));
    CHECK(!weft_ok(weft_from_data(six, WEFT_FLOAT32, WEFT_DIMS(-1))));
    CHECK(!weft_ok(weft_from_data(six, WEFT_FLOAT32, WEFT_DIMS(INT64_MAX, INT64_MAX))));
    CHECK(!weft_ok(weft_zeros(WEFT_DIMS(INT64_MAX, 3), WEFT_FLOAT32)));
    weft_array *empty = weft_from_data(six, WEFT_FLOAT32, WEFT_DIMS(0, 5));
    CHECK_OK(weft_eval(weft_exp(empty)));
    CHECK_EQ_INT(weft_size(empty), 0);
    weft_scope_close(NULL);
}

static void reading_into_too_little_room_is_an_error(void)
{
    weft_scope_open();
    weft_array *a = weft_from_data(six, WEFT_FLOAT32, WEFT_DIMS(2, 3));
    float out[6];
    CHECK_STATUS(weft_read(a, WEFT_FLOAT32, out, 5), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected 6 elements, got room for 5");
    CHECK(isnan(weft_item(a)));
    CHECK_CONTAINS(weft_error_message(), "(2, 3)");
    weft_array *t = weft_transpose(a, WEFT_DIMS(1, 0));
    CHECK(weft_data(t) == NULL);
    CHECK_OK(weft_read(t, WEFT_FLOAT32, out, 6));
    CHECK_CLOSE(out[1], 4, 0);
    CHECK_CLOSE(weft_item(weft_scalar(2.5, WEFT_BFLOAT16)), 2.5, 0);
    CHECK_EQ_INT(weft_item_int(weft_scalar_int(INT64_MIN + 1, WEFT_INT64)), INT64_MIN + 1);
    weft_scope_close(NULL);
}

static void devices_are_found_by_name(void)
{
    CHECK(weft_device_get("cpu") == weft_device_get("cpu:0"));
    CHECK(weft_device_get("cpu") == weft_default_device());
    CHECK(weft_device_get("tpu") == NULL);
    CHECK_CONTAINS(weft_error_message(), "expected one of cpu");
    CHECK(weft_device_get("cpu:9") == NULL);
    CHECK(weft_device_get("cpu:x") == NULL);
}

CHECK_MAIN("array", CHECK_CASE(data_is_copied_and_read_back_converted),
           CHECK_CASE(lent_memory_is_used_in_place_and_returned),
           CHECK_CASE(errors_propagate_through_arrays), CHECK_CASE(shapes_are_checked),
           CHECK_CASE(reading_into_too_little_room_is_an_error),
           CHECK_CASE(devices_are_found_by_name))
