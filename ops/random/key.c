/* ops/random/key.c -- random keys, and the calling thread's default generator. */
#include "core/graph.h"
#include "ops/random/random.h"
#include "ops/random/threefry.h"

/* The key of the default generator; initially that of seed 0. */
static _Thread_local uint32_t current[2];

weft_array *weft_random_key(uint64_t seed)
{
    uint32_t words[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
    return weft_from_data(words, WEFT_UINT32, WEFT_DIMS(2));
}

void weft_random_seed(uint64_t seed)
{
    current[0] = (uint32_t)(seed >> 32);
    current[1] = (uint32_t)seed;
}

weft_array *weft_random_split(weft_array *key, int64_t n)
{
    return weft_random_bits(key, WEFT_DIMS(n, 2), 4);
}

void weft_random_split_pair(weft_array *key, weft_array **first, weft_array **second)
{
    weft_scope_open();
    weft_array *keys = weft_random_split(key, 2);
    *first = weft_reshape(weft_slice_axis(keys, 0, 0, 1), WEFT_DIMS(2));
    *second = weft_reshape(weft_slice_axis(keys, 0, 1, 2), WEFT_DIMS(2));
    close_with(first, second);
}

/* The four words of a split are the blocks (0, 2) and (1, 3): the first words of both, then the
 * second. */
void weft__random_next(uint32_t key[2], uint32_t given[2])
{
    uint32_t even[2] = {0, 2}, odd[2] = {1, 3};
    threefry(key, even);
    threefry(key, odd);
    given[0] = even[1];
    given[1] = odd[1];
    key[0] = even[0];
    key[1] = odd[0];
}

weft_array *weft_random_next_key(void)
{
    if (weft__current_observer) { /* a constant key would repeat the same numbers in every call */
        return weft__current_observer->next_key(weft__current_observer);
    }
    uint32_t given[2];
    weft__random_next(current, given);
    return weft_from_data(given, WEFT_UINT32, WEFT_DIMS(2));
}
