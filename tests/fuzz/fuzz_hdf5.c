/* tests/fuzz/fuzz_hdf5.c -- the bytes of an HDF5 file, which a child process of the loader reads.
 */
#include "tests/fuzz/input.h"
#include "weft/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = input_file(data, size);
    weft_named_arrays all;
    if (path == NULL)
        return 0;
    weft_scope_open();
    if (weft_hdf5_load(path, &all) == WEFT_OK) {
        for (int i = 0; i < all.n; i++)
            input_touch(all.arrays[i]);
        weft_named_arrays_free(&all);
    }
    weft_scope_close(NULL);
    return 0;
}
