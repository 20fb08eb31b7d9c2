/* tests/fuzz/fuzz_safetensors.c -- the bytes of a safetensors file, opened and read to the end. */
#include "tests/fuzz/input.h"
#include "weft/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_safetensors *file;
    const char *path = input_file(data, size);
    if (path == NULL || weft_safetensors_open(path, &file) != WEFT_OK)
        return 0;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file); i++)
        input_touch(weft_safetensors_get(file, weft_safetensors_name(file, i)));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return 0;
}
