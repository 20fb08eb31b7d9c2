/* tests/fuzz/input.h -- the bytes of an input as a file, for formats that are memory-mapped or
 * opened by name: one file for the whole run, in a file system in memory if there is one. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "weft/array.h"

static inline const char *input_path(void)
{
    static char path[64];
    if (*path == '\0')
        snprintf(path, sizeof path, "%s/weft-fuzz-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    return path;
}

static inline void remove_input(void)
{
    unlink(input_path());
}

/* Not weft_file_write: that one syncs. NULL when the file cannot be written. */
static inline const char *input_file(const uint8_t *data, size_t size)
{
    static int registered;
    if (!registered)
        registered = atexit(remove_input) == 0;
    FILE *f = fopen(input_path(), "wb");
    if (f == NULL)
        return NULL;
    const size_t written = fwrite(data, 1, size, f);
    return fclose(f) == 0 && written == size ? input_path() : NULL;
}

/* Reads every byte of the array. */
static inline void input_touch(weft_array *a)
{
    const unsigned char *bytes = weft_data(a);
    volatile unsigned char sum = 0;
    for (int64_t j = 0; bytes && j < weft_nbytes(a); j++)
        sum = (unsigned char)(sum + bytes[j]);
}

#endif
