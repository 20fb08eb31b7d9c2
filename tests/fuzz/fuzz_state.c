/* tests/fuzz/fuzz_state.c -- the bytes of a saved generation state, and a few tokens generated from
 * it. */
#include "tests/fuzz/tiny_model.h"
#include "weft/io.h"
#include "weft/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const weft_generate_options options = {.max_tokens = 8, .no_compile = true};
    const char *path = tiny_model_file(data, size);
    weft_generator *generator;
    int32_t id = 0;
    if (path == NULL || weft_state_load(tiny_model(), path, NULL, &options, &generator) != WEFT_OK)
        return 0;
    for (int i = 0; i < 3 && id >= 0; i++) {
        if (weft_generator_next(generator, &id, NULL) != WEFT_OK)
            break;
    }
    weft_generator_free(generator);
    return 0;
}
