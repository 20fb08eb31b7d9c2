/* tests/fuzz/fuzz_npy.c -- the bytes of an npy file, and of an npz archive. */
#include "tests/fuzz/input.h"
#include "weft/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_array *a;
    weft_named_arrays all;
    const char *path = input_file(data, size);
    if (path == NULL)
        return 0;
    weft_scope_open();
    if (weft_npy_load(path, &a) == WEFT_OK)
        input_touch(a);
    if (weft_npz_load(path, &all) == WEFT_OK) {
        for (int i = 0; i < all.n; i++)
            input_touch(all.arrays[i]);
        weft_named_arrays_free(&all);
    }
    weft_scope_close(NULL);
    return 0;
}
