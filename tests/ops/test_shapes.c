/* tests/ops/test_shapes.c -- axes, splitting, repeating, padding, windows: values against NumPy's
 * (tests/golden/ops/structure.py), gradients against finite differences, views that copy nothing.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/backend.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *input(const char *name)
{
    char tensor[80];
    snprintf(tensor, sizeof tensor, "%s/in0", name);
    return golden_get(tensor);
}

/* Every function moves elements, so all must be equal. */
static void expect(const char *name, weft_array *const *out, int n)
{
    char tensor[80];
    for (int i = 0; i < n; i++) {
        snprintf(tensor, sizeof tensor, "%s/out%d", name, i);
        golden_check(out[i], tensor, 0);
    }
}

#define EXPECT(name, ...)                                                                          \
    expect((name), (weft_array *[]){__VA_ARGS__},                                                  \
           (int)(sizeof((weft_array *[]){__VA_ARGS__}) / sizeof(weft_array *)))

static int64_t kernels_run(void)
{
    weft_counts c = weft_device_counts(weft_default_device());
    return c.rows + c.expansions + c.elementwise + c.references + c.copies;
}

static void axes_are_moved_as_numpy_does(void)
{
    weft_scope_open();
    weft_array *x = input("unflatten");
    CHECK_OK(weft_eval(x));
    int64_t before = kernels_run();
    weft_array *views[] = {weft_unflatten(x, 1, WEFT_DIMS(2, -1)),
                           weft_moveaxis(x, 0, -1),
                           weft_flip(x, WEFT_ALL_AXES),
                           weft_expand_dims_axes(x, WEFT_DIMS(0, 2, -1)),
                           weft_atleast_3d(x),
                           weft_as_strided(x, WEFT_DIMS(4), WEFT_DIMS(9), 3)};
    CHECK_OK(weft_eval_n(views, 6));
    CHECK_EQ_INT(kernels_run() - before, 0);
    EXPECT("unflatten", views[0]);
    EXPECT("moveaxis", views[1], weft_moveaxis(x, 2, 0), weft_moveaxis(x, 1, 1));
    EXPECT("flip", views[2], weft_flip(x, WEFT_DIMS(1)), weft_flip(x, WEFT_DIMS(0, -1)));
    EXPECT("expand", views[3]);
    weft_array *ones = input("squeeze"), *v = input("atleast"), *m = input("atleast2");
    EXPECT("squeeze", weft_squeeze_axes(ones, WEFT_ALL_AXES),
           weft_squeeze_axes(ones, WEFT_DIMS(0, -1)));
    EXPECT("atleast", weft_atleast_1d(v), weft_atleast_2d(v), weft_atleast_3d(v));
    EXPECT("atleast2", weft_atleast_2d(m), weft_atleast_3d(m));
    CHECK_EQ_INT(weft_ndim(weft_atleast_3d(weft_scalar(1, WEFT_INT8))), 3);
    weft_array *pair[] = {golden_get("broadcast/in0"), golden_get("broadcast/in1")}, *out[2];
    weft_broadcast_arrays(pair, 2, out);
    expect("broadcast", out, 2);
    CHECK_CLOSE(weft_item(weft_number_of_elements(x, WEFT_DIMS(0, 2), false, WEFT_INT32)), 15, 0);
    CHECK_CLOSE(weft_item(weft_number_of_elements(x, WEFT_DIMS(1), true, WEFT_FLOAT32)), 0.25, 0);
    weft_scope_close(NULL);
}

static void parts_and_repetitions_equal_numpy(void)
{
    weft_array *out[10];
    weft_scope_open();
    weft_array *x = input("split");
    weft_split(x, 2, 1, out);
    weft_split_at(x, WEFT_DIMS(1, 3, 9), -1, out + 2);
    weft_split_at(x, WEFT_DIMS(2, -1), 0, out + 6);
    expect("split", out, 9);
    weft_unstack(x, 1, out, 4);
    expect("unstack", out, 4);
    EXPECT("repeat", weft_repeat(x, 3, 1), weft_repeat(x, 2, -1), weft_repeat(x, 0, 0));
    EXPECT("tile", weft_tile(x, WEFT_DIMS(2)), weft_tile(x, WEFT_DIMS(2, 1, 1, 3)),
           weft_tile(x, WEFT_DIMS(2, 3, 2)), weft_tile(x, WEFT_DIMS(0, 1)));
    EXPECT("roll", weft_roll(x, WEFT_DIMS(2), WEFT_DIMS(1)),
           weft_roll(x, WEFT_DIMS(-7), WEFT_ALL_AXES),
           weft_roll(x, WEFT_DIMS(1, -2), WEFT_DIMS(0, 2)),
           weft_roll(x, WEFT_DIMS(4, 4), WEFT_DIMS(1, 1)));
    EXPECT("diff", weft_diff(x, 1, -1, NULL, NULL), weft_diff(x, 2, 1, NULL, NULL),
           weft_diff(x, 1, 0, weft_slice_axis(x, 0, 1, 2), weft_slice_axis(x, 0, 0, 2)),
           weft_diff(x, 0, -1, NULL, NULL));
    EXPECT("diff_bool", weft_diff(input("diff_bool"), 2, -1, NULL, NULL));
    weft_array *e = input("empty");
    EXPECT(
        "empty", weft_repeat(e, 2, 0), weft_tile(e, WEFT_DIMS(2, 2, 2)),
        weft_roll(e, WEFT_DIMS(3), WEFT_DIMS(1)), weft_flip(e, WEFT_ALL_AXES),
        weft_pad_axes(e, WEFT_DIMS(0, 1), WEFT_DIMS(1, 0), WEFT_DIMS(0, 2), WEFT_PAD_CONSTANT, 0),
        weft_diff(e, 1, -1, NULL, NULL), weft_diff(e, 1, 1, NULL, NULL));
    weft_scope_close(NULL);
}

static void padding_equals_numpy(void)
{
    static const char *const names[] = {"pad_constant", "pad_edge", "pad_reflect", "pad_symmetric",
                                        "pad_wrap"};
    weft_scope_open();
    for (int mode = WEFT_PAD_CONSTANT; mode <= WEFT_PAD_WRAP; mode++) {
        weft_array *x = input(names[mode]);
        weft_array *out[] = {weft_pad_axes(x, WEFT_DIMS(0, -1), WEFT_DIMS(2, 1), WEFT_DIMS(1, 3),
                                           (weft_pad_mode)mode, -1.5),
                             weft_pad_axes(x, WEFT_DIMS(2, 0, 1), WEFT_DIMS(0, 7, 9),
                                           WEFT_DIMS(8, 11, 0), (weft_pad_mode)mode, -1.5),
                             weft_pad_axes(weft_slice_axis(x, 0, 0, 1), WEFT_DIMS(0), WEFT_DIMS(3),
                                           WEFT_DIMS(2), (weft_pad_mode)mode, -1.5)};
        expect(names[mode], out, 3);
        CHECK(weft_pad_axes(x, WEFT_DIMS(0), WEFT_DIMS(0), WEFT_DIMS(0), (weft_pad_mode)mode, 0) ==
              x);
    }
    weft_scope_close(NULL);
}

static void windows_and_bytes(void)
{
    weft_scope_open();
    weft_array *x = input("as_strided"), *h = input("view");
    EXPECT("as_strided", weft_as_strided(x, WEFT_DIMS(4, 3, 2), WEFT_DIMS(5, 2, 1), 7),
           weft_as_strided(x, WEFT_DIMS(3, 5), WEFT_DIMS(-4, -2), 59),
           weft_as_strided(x, WEFT_SCALAR, WEFT_SCALAR, 2));
    weft_array *moved = weft_moveaxis(weft_copy(weft_moveaxis(x, 0, 2)), 2, 0); /* strided */
    EXPECT("as_strided", weft_as_strided(moved, WEFT_DIMS(4, 3, 2), WEFT_DIMS(5, 2, 1), 7));
    weft_array *wide[] = {h, h}; /* a view whose rows are not where they were */
    weft_array *part = weft_slice_axis(weft_concatenate(wide, 2, -1), -1, 4, 8);
    weft_array *turned = weft_swapaxes(weft_copy(weft_swapaxes(h, -1, 0)), -1, 0);
    weft_array *sources[] = {h, part, turned};
    CHECK_OK(weft_eval_n(sources, 3)); /* named here, they stay */
    for (int i = 0; i < 3; i++) {
        EXPECT("view", weft_view(sources[i], WEFT_INT32), weft_view(sources[i], WEFT_UINT8),
               weft_view(sources[i], WEFT_INT16));
        golden_check(weft_view(weft_view(sources[i], WEFT_UINT64), WEFT_FLOAT16), "view/in0", 0);
    }
    const uint8_t bytes[] = {0, 2, 255, 1};
    weft_array *b = weft_view(weft_from_data(bytes, WEFT_UINT8, WEFT_DIMS(4)), WEFT_BOOL);
    CHECK_CLOSE(weft_item(weft_sum(weft_astype(b, WEFT_INT32), WEFT_ALL_AXES, false)), 3, 0);
    weft_scope_close(NULL);
}

static void errors_say_why(void)
{
    weft_array *out[3];
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(3, 4), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_unflatten(x, 1, WEFT_DIMS(3, -1))),
                   "axis 1 of size 4 as (3, -1");
    CHECK_CONTAINS(weft_error(weft_squeeze_axes(x, WEFT_DIMS(0))), "expected a dimension of 1");
    CHECK_CONTAINS(weft_error(weft_as_strided(x, WEFT_DIMS(4), WEFT_DIMS(4), 0)),
                   "shape (4,) with strides (4,) from 0 leaves 12 elements");
    CHECK_CONTAINS(weft_error(weft_as_strided(x, WEFT_DIMS(2), WEFT_DIMS(INT64_MIN), 0)), "leaves");
    CHECK_CONTAINS(weft_error(weft_view(weft_slice_axis(x, 1, 0, 3), WEFT_FLOAT64)),
                   "no whole number of elements");
    CHECK_CONTAINS(weft_error(weft_repeat(x, -1, 0)), "repeat: -1 times");
    CHECK_CONTAINS(weft_error(weft_tile(x, WEFT_DIMS(-1))), "tile: rank 2");
    CHECK_CONTAINS(weft_error(weft_roll(x, WEFT_DIMS(1, 2), WEFT_DIMS(0))), "2 shifts for 1 axes");
    CHECK_CONTAINS(
        weft_error(weft_pad_axes(x, WEFT_DIMS(0), WEFT_DIMS(-1), WEFT_DIMS(0), WEFT_PAD_EDGE, 0)),
        "sizes of 0 or more");
    CHECK_CONTAINS(weft_error(weft_pad_axes(weft_slice_axis(x, 0, 1, 1), WEFT_DIMS(0), WEFT_DIMS(1),
                                            WEFT_DIMS(0), WEFT_PAD_WRAP, 0)),
                   "axis -2 is empty");
    weft_split(x, 3, 1, out);
    CHECK_CONTAINS(weft_error(out[2]), "axis 1 of size 4 into 3 equal parts");
    weft_unstack(x, 0, out, 2);
    CHECK_CONTAINS(weft_error(out[1]), "axis 0 has size 3, expected 2");
    weft_array *pair[] = {x, weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32)};
    weft_broadcast_arrays(pair, 2, out);
    CHECK_CONTAINS(weft_error(out[0]), "array 1 is (3,), those before are (3, 4)");
    weft_scope_close(NULL);
}

static int many(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *x = in[0];
    out[0] = weft_roll(weft_tile(x, WEFT_DIMS(2, 2)), WEFT_DIMS(3), WEFT_DIMS(1));
    out[1] = weft_repeat(weft_flip(x, WEFT_ALL_AXES), 2, 0);
    out[2] =
        weft_pad_axes(x, WEFT_DIMS(0, 1), WEFT_DIMS(1, 2), WEFT_DIMS(3, 0), WEFT_PAD_REFLECT, 0);
    out[3] = weft_diff(weft_square(x), 2, 1, NULL, NULL);
    return 4;
}

static void gradients_flow_through_every_function(void)
{
    weft_scope_open();
    weft_array *x = weft_astype(weft_slice_axis(golden_get("flip/in0"), 0, 0, 1), WEFT_FLOAT64);
    x = weft_squeeze(x, 0);
    CHECK_OK(weft_gradcheck(many, NULL, &x, 1, NULL));
    weft_scope_close(NULL);
}

static void open_file(void)
{
    CHECK(golden_open("ops/structure"));
}

static void close_file(void)
{
    golden_close();
    CHECK(true);
}

CHECK_MAIN("shapes", CHECK_CASE(open_file), CHECK_CASE(axes_are_moved_as_numpy_does),
           CHECK_CASE(parts_and_repetitions_equal_numpy), CHECK_CASE(padding_equals_numpy),
           CHECK_CASE(windows_and_bytes), CHECK_CASE(errors_say_why),
           CHECK_CASE(gradients_flow_through_every_function), CHECK_CASE(close_file))
