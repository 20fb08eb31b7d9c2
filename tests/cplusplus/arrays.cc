/* tests/cplusplus/arrays.cc -- arrays, shapes, axes, indices and gradients from C++17. */
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <weft/weft.h>

#include "tests/cplusplus/check.h"

static bool same_shape(weft_array *x, weft_dims expected)
{
    const weft_dims shape = weft_shape(x);
    return shape.n == expected.n &&
           std::memcmp(shape.at, expected.at, sizeof(int64_t) * static_cast<size_t>(shape.n)) == 0;
}

static void shapes()
{
    enum { ROWS = 2 };
    const std::size_t columns = 3;
    static_assert(WEFT_DIMS(4, 5).n == 2 && WEFT_DIMS(4, 5).at[1] == 5, "a constant");
    static_assert(WEFT_SCALAR.n == 0 && WEFT_ALL_AXES.n == -1, "a constant");
    CHECK(same_shape(weft_zeros(WEFT_DIMS(ROWS, columns, -1 + 5), WEFT_FLOAT32),
                     WEFT_DIMS(2, 3, 4)));
    CHECK(same_shape(weft_zeros(WEFT_SCALAR, WEFT_FLOAT32), WEFT_SCALAR));
    const weft_dims most = WEFT_DIMS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    CHECK(most.n == WEFT_MAX_DIMS && most.at[15] == 16);
}

static void reductions_and_indices()
{
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    weft_array *x = weft_from_data(values.data(), WEFT_FLOAT32, WEFT_DIMS(2, 3));
    CHECK(weft_eval(x) == WEFT_OK);
    CHECK(weft_item(weft_sum(x, WEFT_ALL_AXES, false)) == 21);
    CHECK(same_shape(weft_sum(x, WEFT_DIMS(1), true), WEFT_DIMS(2, 1)));
    weft_array *column = WEFT_INDEX(x, weft_every(), weft_at(1));
    CHECK(same_shape(column, WEFT_DIMS(2)));
    CHECK(weft_item(weft_sum(column, WEFT_ALL_AXES, false)) == 7);
    CHECK(weft_item(WEFT_INDEX(x, weft_at(-1), weft_at(0))) == 4);
    CHECK(same_shape(WEFT_INDEX(x, weft_newaxis(), weft_ellipsis(), weft_from_to(0, 2)),
                     WEFT_DIMS(1, 2, 2)));
}

/* sum(x^2) */
static weft_array *loss(void *, weft_array *const *in, int)
{
    return weft_sum(weft_square(in[0]), WEFT_ALL_AXES, false);
}

static void gradients()
{
    weft_array *x = weft_arange(0, 4, 1, WEFT_FLOAT32), *gradient = nullptr;
    weft_array *value = weft_value_and_grad(loss, nullptr, &x, 1, &gradient);
    float elements[4];
    CHECK(weft_eval_n(&gradient, 1) == WEFT_OK);
    CHECK(weft_read(gradient, WEFT_FLOAT32, elements, 4) == WEFT_OK);
    CHECK(elements[0] == 0 && elements[3] == 6);
    CHECK(weft_item(value) == 14);
}

int main()
{
    void (*const cases[])() = {shapes, reductions_and_indices, gradients};
    for (void (*const one)() : cases) {
        weft_scope_open();
        one();
        weft_scope_close(nullptr);
    }
    return failures != 0;
}
