/* tests/core/test_low.c -- helpers of core/: arena, hash, clock, and the out-of-memory message. */
#include <stdint.h>
#include <string.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/failure.h"
#include "core/hash.h"
#include "tests/check.h"

/* Pieces of many sizes, each filled with its own byte, keep their bytes and do not overlap. */
static void pieces_of_an_arena_do_not_overlap(void)
{
    enum { PIECES = 2000 };
    static unsigned char *at[PIECES];
    static size_t size[PIECES];
    for (int round = 0; round < 2; round++) { /* the second round reuses the blocks */
        weft__arena arena = {0};
        for (int i = 0; i < PIECES; i++) {
            size[i] = i % 97 == 0 ? 70000 + (size_t)i : (size_t)(i * 37 % 1000);
            at[i] = weft__arena_take(&arena, size[i]);
            CHECK(at[i] != NULL);
            CHECK_EQ_INT((uintptr_t)at[i] % 16, 0);
            memset(at[i], i % 251, size[i]);
        }
        for (int i = 0; i < PIECES; i++) {
            size_t k = 0;
            while (k < size[i] && at[i][k] == i % 251) {
                k++;
            }
            CHECK_EQ_INT(k, size[i]);
        }
        weft__arena_release(&arena);
        CHECK(arena.blocks == NULL && arena.free == NULL);
    }
}

/* A block that comes back is dirty; take_zeroed clears it. */
static void zeroed_pieces_are_zero_in_reused_blocks(void)
{
    weft__arena arena = {0};
    memset(weft__arena_take(&arena, 5000), 0xff, 5000);
    weft__arena_release(&arena);
    const unsigned char *piece = weft__arena_take_zeroed(&arena, 5000);
    int sum = 0;
    for (int i = 0; i < 5000; i++) {
        sum += piece[i];
    }
    CHECK_EQ_INT(sum, 0);
    weft__arena_release(&arena);
}

/* A large piece does not end the block that is being filled: the next small piece is in that block.
 */
static void a_large_piece_has_its_own_block(void)
{
    weft__arena arena = {0};
    char *first = weft__arena_take(&arena, 16);
    CHECK(weft__arena_take(&arena, 1 << 20) != NULL);
    char *second = weft__arena_take(&arena, 16);
    CHECK(second == first + 16);
    weft__arena_release(&arena);
}

static void an_arena_keeps_its_limit(void)
{
    weft__arena arena = {.limit = 1000};
    CHECK(weft__arena_take(&arena, 600) != NULL);
    CHECK(weft__arena_take(&arena, 600) == NULL);
    CHECK(weft__arena_take(&arena, 392) != NULL); /* 600 counts as 608 */
    CHECK(weft__arena_take(&arena, 1) == NULL);
    CHECK(weft__arena_take(&arena, SIZE_MAX) == NULL);
    weft__arena_release(&arena);
    CHECK_EQ_INT(arena.limit, 1000);
    CHECK(weft__arena_take(&arena, 1000) != NULL);
    weft__arena_release(&arena);
    weft__arena unlimited = {0};
    CHECK(weft__arena_take(&unlimited, SIZE_MAX) == NULL);
    CHECK(weft__arena_take(&unlimited, SIZE_MAX - 8) == NULL);
    weft__arena_release(&unlimited);
}

/* The hash depends on every word and on the length, also of zeros. Its low bits are well mixed,
 * since tables mask them. */
static void hashes_of_short_lists_differ(void)
{
    enum { LISTS = 1 + 8 + 64 + 512 };
    uint64_t seen[LISTS];
    int n = 0;
    for (int length = 0, lists = 1; length <= 3; length++, lists *= 8) {
        for (int list = 0; list < lists; list++) {
            uint64_t hash = 0;
            for (int i = 0, rest = list; i < length; i++, rest /= 8) {
                hash = weft__mix(hash, (uint64_t)(rest % 8) << 40);
            }
            seen[n++] = hash;
        }
    }
    CHECK_EQ_INT(n, LISTS);
    int equal = 0, low = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            equal += seen[i] == seen[j];
            low += (seen[i] & 1023) == (seen[j] & 1023);
        }
    }
    CHECK_EQ_INT(equal, 0);
    CHECK(low < 2 * LISTS * LISTS / 2 / 1024); /* twice what chance gives */
}

static void the_clock_is_monotonic(void)
{
    const int64_t began = weft__nanoseconds();
    const double seconds = weft__seconds();
    while (weft__nanoseconds() < began + 2000000) {
    }
    const double passed = weft__seconds() - seconds;
    CHECK(passed > 0 && passed < 300);
    CHECK(weft__seconds() * 1e9 >= (double)began + 2e6);
    const double now = weft__seconds() * 1e9;
    CHECK(now <= (double)weft__nanoseconds() + 1e6);
}

static void messages_name_what_memory_was_for(void)
{
    CHECK_STATUS(weft__out_of_memory("vjp", NULL), WEFT_MEMORY);
    CHECK_STR(weft_error_message(), "vjp: out of memory");
    CHECK_STATUS(weft__out_of_memory("a/b.gguf", "its header"), WEFT_MEMORY);
    CHECK_STR(weft_error_message(), "a/b.gguf: out of memory for its header");
}

CHECK_MAIN("low", CHECK_CASE(pieces_of_an_arena_do_not_overlap),
           CHECK_CASE(zeroed_pieces_are_zero_in_reused_blocks),
           CHECK_CASE(a_large_piece_has_its_own_block), CHECK_CASE(an_arena_keeps_its_limit),
           CHECK_CASE(hashes_of_short_lists_differ), CHECK_CASE(the_clock_is_monotonic),
           CHECK_CASE(messages_name_what_memory_was_for))
