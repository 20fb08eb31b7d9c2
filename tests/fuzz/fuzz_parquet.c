/* tests/fuzz/fuzz_parquet.c -- the bytes of a Parquet file, whose first rows are read. */
#include <stddef.h>
#include <stdint.h>

#include "train/data/parquet/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { ROWS = 200 }; /* a few bytes can be millions of rows */
    weft__parquet *file;
    if (weft__parquet_open(data, size, "fuzz", &file) != WEFT_OK)
        return 0;
    for (int i = 0; i < ROWS; i++) {
        json_object *row;
        const char *bad;
        const weft_status status = weft__parquet_next(file, &row, &bad);
        const bool end = status != WEFT_OK || (row == NULL && bad == NULL);
        json_object_put(row);
        if (end)
            break;
    }
    weft__parquet_close(file);
    return 0;
}
