/* tests/fuzz/input.h -- the bytes of an input as a file, or as files of a folder, for formats that
 * are opened by name: the same path for the whole run, in a file system in memory if there is one.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/folder.h"
#include "weft/array.h"
#include "weft/io.h"
#include "weft/status.h"

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
    if (weft__exists(input_path()) && weft__folder_remove(input_path()) != WEFT_OK)
        fprintf(stderr, "%s\n", weft_error_message());
}

/* Registers the deletion of the input at the end of the program. */
static inline void register_input(void)
{
    static int registered;
    if (!registered)
        registered = atexit(remove_input) == 0;
}

/* Not weft_file_write: that one syncs. */
static inline bool write_input(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return false;
    const size_t written = fwrite(data, 1, size, f);
    return fclose(f) == 0 && written == size;
}

/* The input as a file. NULL when it cannot be written. */
static inline const char *input_file(const uint8_t *data, size_t size)
{
    register_input();
    return write_input(input_path(), data, size) ? input_path() : NULL;
}

/* An empty folder, which replaces that of the input before. NULL when it cannot be made. */
static inline const char *input_folder(void)
{
    register_input();
    remove_input();
    return mkdir(input_path(), 0777) == 0 ? input_path() : NULL;
}

/* Writes a file of the folder. */
static inline bool input_member(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", input_path(), name);
    return write_input(path, data, size);
}

/* The number of bytes in front of the first NUL; `size` without one. */
static inline size_t input_head(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    return end ? (size_t)(end - data) : size;
}

/* For weft_set_log: the warnings of millions of inputs would hide a finding. */
static inline void input_drop_log(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    (void)message;
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
