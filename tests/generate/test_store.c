/* tests/generate/test_store.c -- generate/caches/store.c: how many bytes a token takes, and which
 * arrays from a file are accepted as keys or values. */
#include "generate/caches/store.h"
#include "tests/check.h"

/* The planned memory of a model's caches is that of the arrays. */
static void bytes_are_those_of_the_arrays(void)
{
    static const int bits[] = {0, 4, 8};
    static const int64_t dims[] = {32, 64, 80, 96, 128, 192, 256};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16};
    for (int b = 0; b < 3; b++) {
        for (int d = 0; d < 7; d++) {
            for (int t = 0; t < 2; t++) {
                const weft__store store = {.bits = bits[b], .dtype = dtypes[t]};
                weft_scope_open();
                weft_array *x = weft_zeros(WEFT_DIMS(1, 3, 2, dims[d]), dtypes[t]);
                const weft__parts parts = weft__store_encode(&store, x);
                int64_t bytes = 0;
                for (int i = 0; i < parts.n; i++) {
                    bytes += weft_size(parts.at[i]) *
                             (int64_t)weft_dtype_size(weft_dtype_of(parts.at[i]));
                }
                CHECK_EQ_INT(weft__store_bytes(bits[b], dims[d], dtypes[t]), bytes / 6);
                weft_scope_close(NULL);
            }
        }
    }
}

/* A store with codes of 8 bits, D = 64, one part of which is replaced. */
static bool fits_with(int part, weft_array *replacement, int bits, weft_dtype dtype)
{
    weft__store store = {.bits = bits, .dtype = dtype};
    weft_array *x = weft_zeros(WEFT_DIMS(1, 3, 2, 64), WEFT_FLOAT32);
    const weft__parts parts = weft__store_encode(&(weft__store){.bits = 8, .dtype = dtype}, x);
    for (int i = 0; i < parts.n; i++) {
        store.held[i] = i == part ? replacement : parts.at[i];
    }
    return weft__store_fits(&store);
}

static void arrays_of_another_kind_are_refused(void)
{
    weft_scope_open();
    const weft_dims codes = WEFT_DIMS(1, 3, 2, 64), groups = WEFT_DIMS(1, 3, 2, 1);
    CHECK(fits_with(-1, NULL, 8, WEFT_FLOAT32));
    CHECK(fits_with(0, weft_zeros(codes, WEFT_UINT8), 8, WEFT_FLOAT32));
    CHECK(!fits_with(0, weft_zeros(codes, WEFT_INT8), 8, WEFT_FLOAT32));
    CHECK(!fits_with(0, NULL, 8, WEFT_FLOAT32));
    CHECK(!fits_with(0, weft_zeros(WEFT_DIMS(3, 2, 64), WEFT_UINT8), 8, WEFT_FLOAT32));
    for (int part = 1; part < 3; part++) {
        CHECK(fits_with(part, weft_zeros(groups, WEFT_FLOAT32), 8, WEFT_FLOAT32));
        CHECK(!fits_with(part, weft_zeros(groups, WEFT_FLOAT16), 8, WEFT_FLOAT32));
        CHECK(!fits_with(part, weft_zeros(codes, WEFT_FLOAT32), 8, WEFT_FLOAT32));
        CHECK(!fits_with(part, weft_zeros(WEFT_DIMS(1, 4, 2, 1), WEFT_FLOAT32), 8, WEFT_FLOAT32));
        CHECK(!fits_with(part, NULL, 8, WEFT_FLOAT32));
    }
    CHECK(!fits_with(-1, NULL, 8, WEFT_INT32));
    CHECK(!fits_with(-1, NULL, 8, (weft_dtype)-1));
    CHECK(!fits_with(-1, NULL, 0, WEFT_FLOAT32)); /* codes where floats were declared */
    weft_scope_close(NULL);
}

CHECK_MAIN("store", CHECK_CASE(bytes_are_those_of_the_arrays),
           CHECK_CASE(arrays_of_another_kind_are_refused))
