/* tests/fuzz/fuzz_safetensors.c -- the bytes of a safetensors file, opened and read to the end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "weft/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The format is read by memory map, so the input must be a file: one, in memory where there is a
 * file system there, for the whole run. */
static const char *input_path(void)
{
    static char path[64];
    if (*path == '\0')
        snprintf(path, sizeof path, "%s/weft-fuzz-%ld.safetensors",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    return path;
}

static void remove_input(void)
{
    unlink(input_path());
}

/* Not weft_file_write: that one syncs. */
static int write_input(const uint8_t *data, size_t size)
{
    FILE *f = fopen(input_path(), "wb");
    if (f == NULL)
        return 0;
    const size_t written = fwrite(data, 1, size, f);
    return fclose(f) == 0 && written == size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int registered;
    if (!registered)
        registered = atexit(remove_input) == 0;
    weft_safetensors *file;
    if (!write_input(data, size) || weft_safetensors_open(input_path(), &file) != WEFT_OK)
        return 0;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        weft_array *a = weft_safetensors_get(file, weft_safetensors_name(file, i));
        const unsigned char *bytes = weft_data(a);
        volatile unsigned char sum = 0;
        for (int64_t j = 0; bytes && j < weft_nbytes(a); j++)
            sum = (unsigned char)(sum + bytes[j]);
    }
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return 0;
}
