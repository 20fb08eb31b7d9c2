/* core/io/npz.c -- npz archives: zip files with an npy file for each array. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/named.h"
#include "core/io/npy.h"

#ifndef WEFT_HAVE_ZIP

static weft_status without_zip(const char *path)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: this build of Weft has no libzip", path);
}

weft_status weft_npz_load(const char *path, weft_named_arrays *out)
{
    *out = (weft_named_arrays){0};
    return without_zip(path);
}

weft_status weft_npz_save(const char *path, const char *const *names, weft_array *const *arrays,
                          int n, bool compress)
{
    (void)names, (void)arrays, (void)n, (void)compress;
    return without_zip(path);
}

#else

#include <zip.h>

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status zip_failure(const char *path, int code)
{
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    weft_status status =
        weft_fail(code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS ? WEFT_INVALID : WEFT_IO, "%s: %s",
                  path, zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

/* Unpacks an entry. It is read to its end, since the size in the archive may be false. */
static weft_status unpack(zip_t *archive, zip_uint64_t i, const char *where, char **out,
                          size_t *size)
{
    zip_file_t *file = zip_fopen_index(archive, i, 0);
    if (!file) {
        return weft_fail(WEFT_INVALID, "%s: %s", where, zip_strerror(archive));
    }
    size_t capacity = 1 << 16, n = 0;
    char *data = weft_malloc(capacity);
    zip_int64_t got = 1;
    while (data && got > 0) {
        if (n == capacity) {
            char *larger = weft_realloc(data, capacity *= 2);
            if (!larger) {
                weft_free(data);
            }
            data = larger;
            continue;
        }
        got = zip_fread(file, data + n, capacity - n);
        n += got > 0 ? (size_t)got : 0;
    }
    weft_status status = !data ? weft__out_of_memory(where, "reading it")
                         : got < 0
                             ? weft_fail(WEFT_INVALID, "%s: %s", where, zip_file_strerror(file))
                             : WEFT_OK;
    zip_fclose(file);
    if (status != WEFT_OK) {
        weft_free(data);
        return status;
    }
    *out = data;
    *size = n;
    return WEFT_OK;
}

static weft_status load_entry(zip_t *archive, zip_uint64_t i, const char *path,
                              weft_named_arrays *out)
{
    const char *full = zip_get_name(archive, i, 0);
    char *data = NULL, *where = weft_format("%s: %s", path, full ? full : "?");
    char *name = weft_strdup(full ? full : "");
    size_t size = 0;
    weft_status status = where && name ? WEFT_OK : weft__out_of_memory(path, "reading it");
    if (status == WEFT_OK) {
        status = unpack(archive, i, where, &data, &size);
    }
    weft__npy npy;
    if (status == WEFT_OK) {
        status = weft__npy_parse(data, size, where, &npy);
    }
    if (status == WEFT_OK) {
        size_t n = strlen(name);
        if (n > 4 && strcmp(name + n - 4, ".npy") == 0) {
            name[n - 4] = 0;
        }
        weft_array *a = weft__npy_array(data, &npy, weft_free, data);
        data = NULL;
        if (!weft_ok(a) || !weft__named_arrays_add(out, name, a)) {
            status = weft__out_of_memory(where, "reading it");
        }
    }
    weft_free(data);
    weft_free(where);
    weft_free(name);
    return status;
}

weft_status weft_npz_load(const char *path, weft_named_arrays *out)
{
    *out = (weft_named_arrays){0};
    int code, fd;
    weft_status status = weft__file_open(path, O_RDONLY, &fd);
    if (status != WEFT_OK) {
        return status;
    }
    zip_t *archive = zip_fdopen(fd, ZIP_CHECKCONS, &code); /* owns fd on success */
    if (!archive) {
        close(fd);
        return zip_failure(path, code);
    }
    zip_int64_t n = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < n && status == WEFT_OK; i++) {
        status = load_entry(archive, (zip_uint64_t)i, path, out);
    }
    zip_discard(archive);
    if (status != WEFT_OK) {
        weft_named_arrays_free(out);
    }
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static weft_status append_bytes(void *context, const void *bytes, size_t size)
{
    weft__text *t = context;
    if (size > 0) {
        weft__text_append(t, bytes, size);
    }
    return WEFT_OK;
}

/* Adds an entry; its bytes are kept until the archive is closed, which frees them. */
static weft_status add_entry(zip_t *archive, const char *path, const char *name, weft_array *a,
                             bool compress)
{
    weft__text t = {0};
    weft__npy_header(&t, a);
    weft_status status = weft__with_bytes(a, name, append_bytes, &t);
    char *full = weft_format("%s.npy", name);
    if (status == WEFT_OK && (t.failed || !full)) {
        status =
            weft_fail(WEFT_MEMORY, "%s: out of memory to write '%s'", path, weft_printable(name));
    }
    if (status == WEFT_OK) {
        zip_source_t *source = zip_source_buffer(archive, t.at, t.n, 1);
        zip_int64_t i = source ? zip_file_add(archive, full, source, ZIP_FL_ENC_UTF_8) : -1;
        if (i < 0) {
            status = weft_fail(WEFT_IO, "%s: '%s': %s", path, weft_printable(name),
                               zip_strerror(archive));
            zip_source_free(source);
            t.at = source ? NULL : t.at;
        } else {
            t.at = NULL;
            (void)zip_set_file_compression(archive, (zip_uint64_t)i,
                                           compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
        }
    }
    weft_free(full);
    weft_free(t.at);
    return status;
}

static weft_status write_archive(const char *path, const char *beside, const char *const *names,
                                 weft_array *const *arrays, int n, bool compress)
{
    int code;
    zip_t *archive = zip_open(beside, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!archive) {
        return zip_failure(path, code);
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        status = add_entry(archive, path, names[i], arrays[i], compress);
    }
    if (status == WEFT_OK && zip_close(archive) != 0) {
        status = weft_fail(WEFT_IO, "%s: write: %s", path, zip_strerror(archive));
    } else if (status == WEFT_OK) {
        return WEFT_OK;
    }
    zip_discard(archive);
    return status;
}

/* Writes an archive without entries, which libzip cannot: only the end record. */
static weft_status write_empty(weft__writer *writer)
{
    static const char end[22] = "PK\x05\x06";
    return weft__writer_write(writer, end, sizeof end);
}

weft_status weft_npz_save(const char *path, const char *const *names, weft_array *const *arrays,
                          int n, bool compress)
{
    weft__writer *writer = NULL;
    weft_status status = weft__named_arrays_check(path, names, arrays, n, false);
    if (status == WEFT_OK) {
        status = weft__writer_open(path, &writer);
    }
    if (status == WEFT_OK && n == 0) {
        return weft__writer_close(writer, write_empty(writer));
    }
    if (status == WEFT_OK) {
        status =
            write_archive(path, weft__writer_temporary_path(writer), names, arrays, n, compress);
    }
    if (status == WEFT_OK) {
        status = weft__writer_written(writer);
    }
    return weft__writer_close(writer, status);
}

#endif
