/* core/io/hdf5.c -- writes named arrays as HDF5 files, one dataset each. */
#include "core/io/named.h"

#ifndef WEFT_HAVE_HDF5

static weft_status without_hdf5(const char *path)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: this build of Weft has no HDF5", path);
}

weft_status weft_hdf5_load(const char *path, weft_named_arrays *out)
{
    *out = (weft_named_arrays){0};
    return without_hdf5(path);
}

weft_status weft_hdf5_save(const char *path, const char *const *names, weft_array *const *arrays,
                           int n)
{
    (void)names, (void)arrays, (void)n;
    return without_hdf5(path);
}

#else

#include <pthread.h>
#include <stdio.h>

#include "core/io/fileio.h"
#include "core/io/hdf5_types.h"

/* The library may be built without thread safety, and prints its errors unless that is turned off.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

weft__hdf5_quiet weft__hdf5_enter(void)
{
    weft__hdf5_quiet q;
    pthread_mutex_lock(&lock);
    H5open();
    H5Eget_auto2(H5E_DEFAULT, &q.print, &q.context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return q;
}

void weft__hdf5_leave(weft__hdf5_quiet q)
{
    H5Eset_auto2(H5E_DEFAULT, q.print, q.context);
    pthread_mutex_unlock(&lock);
}

static herr_t first_message(unsigned n, const H5E_error2_t *error, void *out)
{
    if (n == 0 && error->desc) {
        snprintf(out, 256, "%s", error->desc);
    }
    return 0;
}

weft_status weft__hdf5_failed(weft_status status, const char *path, const char *name)
{
    char reason[256] = "refused";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_message, reason);
    return weft_fail(status, "%s%s%s: HDF5: %s", path, *name ? ": " : "", name, reason);
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct saving {
    hid_t file;
    const char *path, *name;
    weft_array *array;
} saving;

static weft_status write_dataset(void *context, const void *bytes, size_t size)
{
    const saving *s = context;
    weft_dims shape = weft_shape(s->array);
    hsize_t dims[WEFT_MAX_DIMS];
    for (int i = 0; i < shape.n; i++) {
        dims[i] = (hsize_t)shape.at[i];
    }
    weft__hdf5_quiet q = weft__hdf5_enter();
    hid_t type = weft__hdf5_type(weft_dtype_of(s->array));
    hid_t space = shape.n ? H5Screate_simple(shape.n, dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t link = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    hid_t set = H5Dcreate2(s->file, s->name, type, space, link, H5P_DEFAULT, H5P_DEFAULT);
    weft_status status = WEFT_OK;
    if (set < 0 || (size > 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0)) {
        status = weft__hdf5_failed(WEFT_IO, s->path, s->name);
    }
    if (set >= 0 && H5Dclose(set) < 0 && status == WEFT_OK) {
        status = weft__hdf5_failed(WEFT_IO, s->path, s->name);
    }
    H5Pclose(link);
    H5Sclose(space);
    H5Tclose(type);
    weft__hdf5_leave(q);
    return status;
}

static weft_status write_all(const char *path, const char *beside, const char *const *names,
                             weft_array *const *arrays, int n)
{
    weft__hdf5_quiet q = weft__hdf5_enter();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS); /* the writer has locked the file */
    hid_t file = access >= 0 && H5Pset_file_locking(access, false, true) >= 0
                     ? H5Fcreate(beside, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                     : H5I_INVALID_HID;
    H5Pclose(access);
    weft_status status = file < 0 ? weft__hdf5_failed(WEFT_IO, path, "") : WEFT_OK;
    weft__hdf5_leave(q);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        saving s = {file, path, names[i], arrays[i]};
        status = weft__with_bytes(arrays[i], names[i], write_dataset, &s);
    }
    q = weft__hdf5_enter();
    if (file >= 0 && H5Fclose(file) < 0 && status == WEFT_OK) {
        status = weft__hdf5_failed(WEFT_IO, path, "");
    }
    weft__hdf5_leave(q);
    return status;
}

weft_status weft_hdf5_save(const char *path, const char *const *names, weft_array *const *arrays,
                           int n)
{
    weft__writer *writer = NULL;
    weft_status status = weft__named_arrays_check(path, names, arrays, n, false);
    if (status == WEFT_OK) {
        status = weft__writer_open(path, &writer);
    }
    if (status == WEFT_OK) {
        status = write_all(path, weft__writer_temporary_path(writer), names, arrays, n);
    }
    if (status == WEFT_OK) {
        status = weft__writer_written(writer);
    }
    return weft__writer_close(writer, status);
}

#endif
