/* tests/fuzz/fuzz_prompt_cache.c -- the bytes of a prompt cache's file, loaded, and prompts that
 * are looked up in it. */
#include "tests/fuzz/tiny_model.h"
#include "weft/io.h"
#include "weft/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goes on from what the cache has of a text. */
static void go_on(weft_prompt_cache *cache, const int32_t *ids, size_t n)
{
    static const weft_cache_options options = {.max_context = 9}; /* those of the corpus */
    weft_cache **caches;
    int64_t matched;
    if (weft_prompt_cache_take(cache, ids, n, &options, &caches, &matched) != WEFT_OK)
        return;
    weft_scope_open();
    weft_array *rest =
        weft_from_data(ids + matched, WEFT_INT32, WEFT_DIMS(1, (int64_t)n - matched));
    (void)weft_eval(weft_model_hidden(tiny_model(), rest, &(weft_model_call){.caches = caches}));
    weft_scope_close(NULL);
    (void)weft_prompt_cache_put(cache, ids, n, &options, caches);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const weft_prompt_cache_options options = {.max_bytes = 1 << 20, .min_tokens = 1};
    const char *path = tiny_model_file(data, size);
    weft_prompt_cache *cache;
    if (path == NULL || weft_prompt_cache_new(tiny_model(), &options, &cache) != WEFT_OK)
        return 0;
    if (weft_prompt_cache_load(cache, path) == WEFT_OK) {
        go_on(cache, ids, 8);
        go_on(cache, ids, 3);
    }
    weft_prompt_cache_free(cache);
    return 0;
}
