/* tests/core/test_memory.c -- weft/memory.h: counters, limits, the cache, failing allocations;
 * core/list.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/buffer.h"
#include "core/list.h"
#include "tests/check.h"
#include "weft/ops.h"

static weft_array *block(int64_t bytes)
{
    return weft_zeros(WEFT_DIMS(bytes / 4), WEFT_FLOAT32);
}

static void buckets_waste_at_most_an_eighth(void)
{
    int64_t last = 0;
    for (int64_t bytes = 1; bytes < (int64_t)1 << 60; bytes += bytes / 37 + 1) {
        int64_t rounded = weft__bucket_bytes(bytes);
        bool fits = rounded >= bytes && rounded % 64 == 0 && rounded >= last;
        bool tight = rounded - bytes < 64 || (rounded - bytes) * 8 <= bytes;
        if (!fits || !tight || weft__bucket_bytes(rounded) != rounded) {
            CHECK_FAIL("%lld becomes %lld", (long long)bytes, (long long)rounded);
        }
        last = rounded;
    }
    CHECK_EQ_INT(weft__bucket_bytes(0), 64);
    CHECK_EQ_INT(weft__bucket_bytes(1 << 20), 1 << 20);
}

static void counters_follow_arrays(void)
{
    weft_memory_clear_cache();
    int64_t active = weft_memory_active();
    weft_scope_open();
    weft_array *a = block(1 << 20);
    CHECK_EQ_INT(weft_memory_active(), active); /* lazy */
    weft_memory_reset_peak();
    CHECK_OK(weft_eval(a));
    CHECK_EQ_INT(weft_memory_active() - active, 1 << 20);
    CHECK_EQ_INT(weft_memory_peak() - active, 1 << 20);
    int64_t cached = weft_memory_cached();
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), active);
    CHECK_EQ_INT(weft_memory_cached() - cached, 1 << 20);
    CHECK_EQ_INT(weft_memory_peak() - active, 1 << 20);
    weft_memory_reset_peak();
    CHECK_EQ_INT(weft_memory_peak(), active);
    weft_scope_open();
    CHECK_OK(weft_eval(block(1 << 20))); /* out of the cache */
    CHECK_EQ_INT(weft_memory_cached(), cached);
    weft_scope_close(NULL);
    weft_memory_clear_cache();
    CHECK_EQ_INT(weft_memory_cached(), 0);
}

static void wired_memory_is_locked_and_counted(void)
{
    int64_t before = -1;
    CHECK_EQ_INT(weft_memory_wired(), 0);
    if (weft_memory_set_wired_limit(1 << 20, &before) == WEFT_UNSUPPORTED) {
        check_skip("%s", weft_error_message());
        return;
    }
    CHECK_EQ_INT(before, 0);
    weft_memory_clear_cache();
    weft_scope_open();
    weft_array *fits = block(1 << 19), *does_not = block(1 << 21), *small = block(1 << 10);
    CHECK_OK(weft_eval_n((weft_array *[]){fits, does_not, small}, 3));
    CHECK(weft_memory_wired() > (1 << 19) - 8192 && weft_memory_wired() <= 1 << 19);
    CHECK_OK(weft_memory_set_wired_limit(1 << 22, &before)); /* now the other fits too */
    CHECK_EQ_INT(before, 1 << 20);
    CHECK(weft_memory_wired() > (1 << 21) + (1 << 19) - 16384);
    weft_scope_close(NULL);
    weft_memory_clear_cache();
    CHECK_EQ_INT(weft_memory_wired(), 0);
    CHECK_OK(weft_memory_set_wired_limit(0, NULL));
}

static void the_cache_keeps_to_its_limit(void)
{
    weft_memory_clear_cache();
    int64_t before = weft_memory_set_cache_limit(3 << 20);
    weft_scope_open();
    weft_array *many[8];
    for (int i = 0; i < 8; i++) {
        many[i] = block(1 << 20);
    }
    CHECK_OK(weft_eval_n(many, 8));
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_cached(), 3 << 20);
    CHECK_EQ_INT(weft_memory_set_cache_limit(1 << 20), 3 << 20); /* at once */
    CHECK_EQ_INT(weft_memory_cached(), 1 << 20);
    weft_memory_set_cache_limit(0);
    CHECK_EQ_INT(weft_memory_cached(), 0);
    weft_scope_open();
    CHECK_OK(weft_eval(block(1 << 20)));
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_cached(), 0);
    CHECK_EQ_INT(weft_memory_set_cache_limit(before), 0);
    CHECK_EQ_INT(before, WEFT_CACHE_AUTOMATIC);
}

/* Sizes that do not recur, such as those of batches of unequal lengths: the memory held stays near
 * the peak of the memory in use. */
static void idle_buffers_are_bounded_by_those_in_use(void)
{
    enum { STEPS = 60, MB = 1 << 20 };
    weft_memory_clear_cache();
    weft_memory_reset_peak();
    const int64_t active = weft_memory_active();
    for (int i = 0; i < STEPS; i++) {
        weft_scope_open();
        weft_array *two[] = {block(40 * MB + i * 5 * MB / 2), block(60 * MB - i * MB / 2)};
        CHECK_OK(weft_eval_n(two, 2));
        weft_scope_close(NULL);
    }
    const int64_t peak = weft_memory_peak() - active, held = weft_memory_peak_held() - active;
    CHECK(peak > 200 * MB);
    CHECK(held >= peak && held <= peak + peak / 8 + 32 * MB);
    CHECK(weft_memory_cached() <= held);
    weft_memory_clear_cache();
    weft_memory_reset_peak();
    CHECK_EQ_INT(weft_memory_peak_held(), weft_memory_active());
}

static void the_limit_applies_to_data_and_results(void)
{
    static const float zeros[1 << 10];
    weft_scope_open();
    weft_array *x = weft_keep(block(1 << 20));
    CHECK_OK(weft_eval(x));
    int64_t before = weft_memory_set_limit(weft_memory_active() + (1 << 12));
    weft_array *fits = weft_from_data(zeros, WEFT_FLOAT32, WEFT_DIMS(1 << 10));
    CHECK(weft_ok(fits));
    weft_array *over = weft_from_data(zeros, WEFT_FLOAT32, WEFT_DIMS(1 << 10));
    CHECK_STATUS(weft_eval(over), WEFT_MEMORY);
    CHECK_CONTAINS(weft_error_message(), "memory limit reached");
    CHECK_CONTAINS(weft_error_message(), "(262144,) float32");
    weft_array *y = weft_exp(x);
    CHECK_STATUS(weft_eval(y), WEFT_MEMORY);
    CHECK(!weft_is_evaluated(y));
    CHECK_OK(weft_eval(weft_reshape(x, WEFT_DIMS(4, -1)))); /* a view needs none */
    CHECK_EQ_INT(weft_memory_set_limit(before), weft_memory_active());
    CHECK_OK(weft_eval(y));
    weft_drop(x);
    weft_scope_close(NULL);
}

static int returned;

static void take_back(void *context)
{
    free(context);
    returned++;
}

static void lent_memory_is_not_counted(void)
{
    int64_t active = weft_memory_active(), cached = weft_memory_cached();
    float *mine = calloc(1 << 16, sizeof *mine);
    weft_scope_open();
    weft_array *a = weft_from_memory(mine, WEFT_FLOAT32, WEFT_DIMS(1 << 16), take_back, mine);
    weft_array *view = weft_keep(weft_slice_axis(a, 0, 5, 9));
    CHECK_OK(weft_eval(view));
    CHECK_EQ_INT(weft_memory_active(), active);
    weft_scope_close(NULL);
    CHECK_EQ_INT(returned, 0); /* the view still refers to it */
    weft_scope_open();
    weft_array *sum = weft_sum(view, WEFT_ALL_AXES, false);
    CHECK_OK(weft_eval_async(&sum, 1));
    weft_drop(view); /* perhaps before the sum ran */
    CHECK_CLOSE(weft_item(sum), 0, 0);
    weft_scope_close(NULL);
    CHECK_OK(weft_synchronize(weft_default_device()));
    CHECK_EQ_INT(returned, 1);
    CHECK_EQ_INT(weft_memory_active(), active);
    CHECK(weft_memory_cached() - cached < 1 << 16);
}

static void allocations_fail_on_request(void)
{
    weft_memory_fail_at(3);
    void *first = weft_malloc(1), *second = weft_calloc(2, 8);
    CHECK(first && second);
    CHECK(weft_realloc(first, 100) == NULL); /* the old block stays */
    void *third = weft_realloc(first, 100);
    CHECK(third != NULL);
    CHECK_EQ_INT(weft_memory_fail_at(1), 4);
    CHECK(weft_strdup("text") == NULL);
    char *text = weft_format("%d and %s", 3, "more");
    CHECK_STR(text, "3 and more");
    CHECK_EQ_INT(weft_memory_fail_at(0), 2);
    weft_free(NULL);
    weft_free(text);
    weft_free(third);
    weft_free(second);
}

/* The list grows and shrinks at random; AddressSanitizer sees an element without room. */
static void lists_have_room_for_one_more(void)
{
    int64_t *list = NULL, n = 0, largest = 0;
    uint64_t random = 1;
    for (int step = 0; step < 20000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int64_t to = random >> 60 == 0 ? n / 2 : random >> 60 == 1 ? 0 : n;
        n = step % 64 == 0 ? to : n;
        if (!CHECK(weft__list_more(list, n))) {
            break;
        }
        list[n] = n * n;
        n++;
        largest = n > largest ? n : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        CHECK_EQ_INT(list[i], i * i);
    }
    CHECK(largest > 500);
    weft_free(list);
}

/* Room for 8, 16, 32, ... elements: each allocation fails once, and the list is as it was. */
static void lists_survive_a_failed_allocation(void)
{
    char *list = NULL;
    int allocations = 0;
    for (int n = 0; n < 1000; n++) {
        weft_memory_fail_at(1);
        const bool more = weft__list_more(list, n);
        weft_memory_fail_at(0);
        if (!more) {
            allocations++;

            CHECK(weft__list_more(list, n));
        }
        list[n] = (char)('a' + n % 26);
    }
    for (int n = 0; n < 1000; n++) {
        CHECK_EQ_INT(list[n], 'a' + n % 26);
    }
    CHECK_EQ_INT(allocations, 8);                        /* of 8 to 1024 */
    CHECK(!weft__list_room(&list, (size_t)1 << 62, 16)); /* more bytes than the address space has */
    weft_free(list);
}

/* Memory that was in buffers and that malloc keeps is counted once. */
static void the_peak_counts_freed_memory_once(void)
{
    enum { BYTES = 3 << 20, BUFFERS = 60 }; /* smaller than those that malloc maps */
    void *volatile between[BUFFERS];        /* what keeps malloc from returning the buffers */
    struct rusage usage;
    const int64_t before = weft_memory_set_cache_limit(0);
    void *volatile large = malloc(BYTES << 3);
    free(large); /* raises the size from which malloc maps */
    weft_memory_reset_peak();
    weft_scope_open();
    for (int i = 0; i < BUFFERS; i++) {
        CHECK_OK(weft_eval(weft_ones(WEFT_DIMS(BYTES), WEFT_UINT8)));
        between[i] = malloc(1 << 16);
    }
    weft_scope_close(NULL);
    const int64_t peak = weft__memory_peak_process();
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    CHECK(peak >= (int64_t)BYTES * BUFFERS);
    CHECK(peak <= usage.ru_maxrss * 1024);
    weft_memory_clear_cache();
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which keep freed memory */
    CHECK(weft__memory_outside() < (int64_t)BYTES * BUFFERS / 2);
#endif
    for (int i = 0; i < BUFFERS; i++)
        free(between[i]);
    weft_memory_set_cache_limit(before);
}

CHECK_MAIN("memory", CHECK_CASE(the_peak_counts_freed_memory_once),
           CHECK_CASE(buckets_waste_at_most_an_eighth), CHECK_CASE(counters_follow_arrays),
           CHECK_CASE(wired_memory_is_locked_and_counted), CHECK_CASE(the_cache_keeps_to_its_limit),
           CHECK_CASE(idle_buffers_are_bounded_by_those_in_use),
           CHECK_CASE(the_limit_applies_to_data_and_results),
           CHECK_CASE(lent_memory_is_not_counted), CHECK_CASE(allocations_fail_on_request),
           CHECK_CASE(lists_have_room_for_one_more), CHECK_CASE(lists_survive_a_failed_allocation))
