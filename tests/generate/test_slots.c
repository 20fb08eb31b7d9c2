/* tests/generate/test_slots.c -- generate/slots.c: one cache for several sequences. */
#include "generate/slots.h"

#include "tests/check.h"
#include "weft/weft.h"

enum { HEADS = 2, DIM = 3, ROW = HEADS * DIM };

/* (rows, tokens, HEADS, DIM) of first, first + 1, ... */
static weft_array *counted(int rows, int tokens, int first)
{
    return weft_reshape(weft_arange(first, first + rows * tokens * ROW, 1, WEFT_FLOAT32),
                        WEFT_DIMS(rows, tokens, HEADS, DIM));
}

/* The first element of a token. */
static double at(weft_array *x, int row, int token)
{
    weft_array *one = weft_slice_axis(weft_slice_axis(x, 0, row, row + 1), 1, token, token + 1);
    return weft_item(weft_slice_axis(weft_slice_axis(one, 2, 0, 1), 3, 0, 1));
}

static void each_sequence_has_its_slot(void)
{
    weft_cache *cache = weft__slots_new();
    if (!CHECK(cache != NULL))
        return;
    weft_scope_open();
    static const int32_t lengths[] = {2, 3}, swapped[] = {1, 0};
    weft_array *offset = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS(2));
    CHECK_OK(weft__slots_put(cache, 2, 0, counted(2, 3, 0), counted(2, 3, 500), 0, 2));
    CHECK_OK(weft__slots_put(cache, 2, 1, counted(2, 3, 0), counted(2, 3, 500), 1, 3));
    weft_cache_view view = weft_cache_append(cache, counted(2, 1, 100), counted(2, 1, 600), offset);
    CHECK_EQ_INT(weft_dim(view.keys, 1), 256);
    CHECK_CLOSE(at(view.keys, 0, 1), ROW, 0);
    CHECK_CLOSE(at(view.keys, 0, 2), 100, 0); /* the new token comes after the slot's own */
    CHECK_CLOSE(at(view.keys, 0, 3), 0, 0);
    CHECK_CLOSE(at(view.keys, 1, 2), 5 * ROW, 0);
    CHECK_CLOSE(at(view.keys, 1, 3), 100 + ROW, 0);
    CHECK_CLOSE(at(view.values, 1, 3), 600 + ROW, 0);
    CHECK_CLOSE(weft_item(weft_sum(view.lengths, WEFT_ALL_AXES, false)), 3 + 4, 0);
    CHECK_OK(weft__slots_keep(cache, swapped, 2));
    CHECK_OK(weft__slots_reserve(cache, 257));
    view = weft_cache_append(cache, counted(2, 1, 100), counted(2, 1, 600), offset);
    CHECK_EQ_INT(weft_dim(view.keys, 1), 512);
    CHECK_CLOSE(at(view.keys, 1, 1), ROW, 0);
    CHECK_CLOSE(at(view.keys, 0, 0), 3 * ROW, 0);
    weft_scope_close(NULL);
    weft_cache_free(cache);
}

/* Slots of float16 take float32; what is out of range becomes the largest number. */
static void tokens_are_rounded_to_the_dtype_of_the_slots(void)
{
    weft_cache *cache = weft__slots_new();
    if (!CHECK(cache != NULL))
        return;
    weft_scope_open();
    weft_array *offset = weft_zeros(WEFT_DIMS(1), WEFT_INT32);
    weft_array *narrow = weft_astype(counted(1, 2, 0), WEFT_FLOAT16);
    CHECK_OK(weft__slots_put(cache, 1, 0, narrow, narrow, 0, 2));
    const weft_cache_view view =
        weft_cache_append(cache, counted(1, 1, 70000), counted(1, 1, -80000), offset);
    CHECK(weft_dtype_of(view.keys) == WEFT_FLOAT16 && weft_dtype_of(view.values) == WEFT_FLOAT16);
    CHECK_CLOSE(at(view.keys, 0, 0), 65504, 0);
    CHECK_CLOSE(at(view.values, 0, 0), -65504, 0);
    CHECK_CLOSE(at(view.keys, 0, 1), ROW, 0);
    weft_scope_close(NULL);
    weft_cache_free(cache);
}

static void a_step_has_one_token_for_each(void)
{
    weft_cache *cache = weft__slots_new();
    if (!CHECK(cache != NULL))
        return;
    weft_scope_open();
    weft_array *offset = weft_zeros(WEFT_DIMS(2), WEFT_INT32);
    for (int tokens = 1; tokens <= 2; tokens++) { /* one, into an empty cache; two */
        const weft_cache_view view =
            weft_cache_append(cache, counted(2, tokens, 0), counted(2, tokens, 0), offset);
        CHECK_STATUS(weft_eval(view.values), WEFT_INVALID);
        CHECK_STATUS(weft_eval(view.keys), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "slots: expected one token for each");
        CHECK_OK(weft__slots_put(cache, 2, 0, counted(2, 3, 0), counted(2, 3, 0), 0, 3));
    }
    CHECK_STATUS(weft_cache_trim(cache, 1), WEFT_UNSUPPORTED);
    CHECK_OK(weft_cache_trim(cache, 0));
    weft_scope_close(NULL);
    weft_cache_free(cache);
}

CHECK_MAIN("slots", CHECK_CASE(each_sequence_has_its_slot),
           CHECK_CASE(tokens_are_rounded_to_the_dtype_of_the_slots),
           CHECK_CASE(a_step_has_one_token_for_each))
