/* tests/fuzz/fuzz_saved_caches.c -- the bytes of a file of saved caches from any source, and a step
 * with the loaded caches. */
#include "tests/fuzz/tiny_model.h"
#include "weft/io.h"
#include "weft/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void step(weft_model *model, weft_cache **caches)
{
    const int32_t ids[] = {1, 2, 3};
    for (int64_t n = 1; n <= 2; n++) {
        weft_scope_open();
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
        (void)weft_eval(weft_model_hidden(model, tokens, &(weft_model_call){.caches = caches}));
        weft_scope_close(NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_model *model = tiny_model();
    const char *path = input_file(data, size);
    weft_safetensors *file;
    if (path == NULL || model == NULL || weft_safetensors_open(path, &file) != WEFT_OK)
        return 0;
    weft_cache_options options;
    weft_cache **caches;
    int32_t *ids;
    int64_t n;
    weft_scope_open();
    if (weft__saved_ids(file, path, "0.", "ids", model, &ids, &n) == WEFT_OK)
        weft_free(ids);
    if (weft__saved_caches(file, path, "0.", model, &options, &caches) == WEFT_OK) {
        step(model, caches);
        weft_model_free_caches(model, caches);
    }
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return 0;
}
