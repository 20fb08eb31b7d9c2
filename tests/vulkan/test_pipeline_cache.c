/* tests/vulkan/test_pipeline_cache.c -- when compiled pipelines are saved to the cache on disk. */
#include "backends/vulkan/pipeline.h"
#include "tests/check.h"

/* Compiles n pipelines and saves them when that is due, as after each wait for the device. Returns
 * the nanoseconds spent saving. */
static int64_t compile(weft__vulkan_pipelines *p, int n, int64_t each, int64_t save_each)
{
    int64_t spent = 0;
    for (int i = 0; i < n; i++) {
        p->count++;
        p->nanoseconds += each;
        if (weft__vulkan_cache_is_due(p)) {
            p->saving = (int64_t)p->count * save_each;
            p->saved = p->count;
            p->saved_nanoseconds = p->nanoseconds;
            spent += p->saving;
        }
    }
    return spent;
}

static void few_pipelines_are_left_out_and_saving_is_fast(void)
{
    static const int64_t times[] = {1000000, 5000000, 200000000}; /* of a pipeline */
    enum { SAVE_EACH = 30000 };
    for (int i = 0; i < 3; i++) {
        for (int n = 1; n < 2000; n = 2 * n + 1) {
            weft__vulkan_pipelines p = {.count = 0};
            const int64_t spent = compile(&p, n, times[i], SAVE_EACH),
                          left = p.nanoseconds - p.saved_nanoseconds;
            check_that(left <= 20 * p.saving, __FILE__, __LINE__,
                       "%d pipelines: %lld of %lld ns left out", n, (long long)left,
                       (long long)p.nanoseconds);
            check_that(spent <= p.nanoseconds / 16 + n * SAVE_EACH, __FILE__, __LINE__,
                       "%d pipelines: %lld ns of saving, %lld of compiling", n, (long long)spent,
                       (long long)p.nanoseconds);
        }
    }
}

static void a_cache_without_new_pipelines_is_not_saved(void)
{
    weft__vulkan_pipelines p = {.count = 0};
    CHECK(!weft__vulkan_cache_is_due(&p));
    compile(&p, 1, 1000000, 1000);
    CHECK_EQ_INT(p.saved, 1);
    CHECK(!weft__vulkan_cache_is_due(&p));
}

CHECK_MAIN("vulkan_pipeline_cache", CHECK_CASE(few_pipelines_are_left_out_and_saving_is_fast),
           CHECK_CASE(a_cache_without_new_pipelines_is_not_saved))
