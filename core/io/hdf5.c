/* core/io/hdf5.c -- reads HDF5 files as named arrays, one per dataset, and writes them. */
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

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/io/fileio.h"
#include "core/io/hdf5_types.h"

/* The library may be built without thread safety, and prints its errors unless that is turned off.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct quiet {
    H5E_auto2_t print;
    void *context;
} quiet;

static quiet enter(void)
{
    quiet q;
    pthread_mutex_lock(&lock);
    H5open();
    H5Eget_auto2(H5E_DEFAULT, &q.print, &q.context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return q;
}

static void restore_errors(quiet q)
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

/* The innermost error that the library reports. */
static weft_status failed(weft_status status, const char *path, const char *name)
{
    char reason[256] = "refused";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_message, reason);
    return weft_fail(status, "%s%s%s: HDF5: %s", path, *name ? ": " : "", name, reason);
}

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct loading {
    const char *path;
    weft_named_arrays *out;
    weft_status status;
} loading;

static weft_status dataset_shape(hid_t set, const loading *l, const char *name, weft_dims *out)
{
    hid_t space = H5Dget_space(set);
    int n = H5Sget_simple_extent_ndims(space);
    hsize_t dims[H5S_MAX_RANK];
    weft_status status = WEFT_OK;
    *out = (weft_dims){.n = n};
    if (n < 0 || n > WEFT_MAX_DIMS || H5Sget_simple_extent_type(space) == H5S_NULL) {
        status = weft_fail(WEFT_UNSUPPORTED, "%s: %s: expected 0 to %d dims, got %d", l->path, name,
                           WEFT_MAX_DIMS, n);
    } else {
        H5Sget_simple_extent_dims(space, dims, NULL);
    }
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        out->at[i] = (int64_t)dims[i];
    }
    H5Sclose(space);
    return status;
}

static weft_status read_elements(hid_t set, const loading *l, const char *name, weft_dtype dtype,
                                 weft_dims shape)
{
    int64_t bytes = (int64_t)weft_dtype_size(dtype);
    for (int i = 0; i < shape.n; i++) {
        if (__builtin_mul_overflow(bytes, shape.at[i], &bytes)) {
            return weft_fail(WEFT_INVALID, "%s: %s: too large", l->path, name);
        }
    }
    void *data = weft_malloc((size_t)bytes);
    hid_t type = data ? weft__hdf5_type(dtype) : H5I_INVALID_HID;
    weft_status status = WEFT_OK;
    if (type < 0) {
        status = weft_fail(WEFT_MEMORY, "%s: %s: out of memory to read it", l->path, name);
    } else if (bytes > 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        status = failed(WEFT_IO, l->path, name);
    }
    if (type >= 0) {
        H5Tclose(type);
    }
    if (status != WEFT_OK) {
        weft_free(data);
        return status;
    }
    weft_array *a = weft_from_memory(data, dtype, shape, weft_free, data);
    return weft_ok(a) && weft__named_arrays_add(l->out, name, a)
               ? WEFT_OK
               : weft_fail(WEFT_MEMORY, "%s: %s: out of memory to read it", l->path, name);
}

static weft_status load_dataset(hid_t set, const loading *l, const char *name)
{
    weft_dtype dtype;
    weft_dims shape;
    hid_t type = H5Dget_type(set);
    bool known = type >= 0 && weft__hdf5_dtype(type, &dtype);
    if (type >= 0) {
        H5Tclose(type);
    }
    if (!known) {
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s: unsupported type of dataset", l->path, name);
    }
    weft_status status = dataset_shape(set, l, name, &shape);
    return status == WEFT_OK ? read_elements(set, l, name, dtype, shape) : status;
}

/* HDF5 1.12 gives H5Ovisit a third version, with another object-info struct than version 2. The
 * unversioned name maps to whichever the system's configuration selects, so the version is written
 * out. */
#if H5_VERSION_GE(1, 12, 0)
typedef H5O_info2_t object_info;
#define VISIT_OBJECTS H5Ovisit3
#else
typedef H5O_info_t object_info;
#define VISIT_OBJECTS H5Ovisit2
#endif

/* Called for every object of the file; stops at the first failure. */
static herr_t visit(hid_t file, const char *name, const object_info *info, void *context)
{
    loading *l = context;
    if (info->type != H5O_TYPE_DATASET) {
        return 0;
    }
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    if (set < 0) {
        l->status = failed(WEFT_IO, l->path, name);
        return 1;
    }
    l->status = load_dataset(set, l, name);
    H5Dclose(set);
    return l->status != WEFT_OK;
}

weft_status weft_hdf5_load(const char *path, weft_named_arrays *out)
{
    loading l = {.path = path, .out = out};
    *out = (weft_named_arrays){0};
    int fd; /* opened here first, since the library would block on a FIFO */
    l.status = weft__file_open(path, O_RDONLY, &fd);
    if (l.status != WEFT_OK) {
        return l.status;
    }
    close(fd);
    quiet q = enter();
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) {
        l.status = failed(WEFT_IO, path, "");
    } else {
        if (VISIT_OBJECTS(file, H5_INDEX_NAME, H5_ITER_INC, visit, &l, H5O_INFO_BASIC) < 0 &&
            l.status == WEFT_OK) {
            l.status = failed(WEFT_IO, path, "");
        }
        H5Fclose(file);
    }
    restore_errors(q);
    if (l.status != WEFT_OK) {
        weft_named_arrays_free(out);
    }
    return l.status;
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
    quiet q = enter();
    hid_t type = weft__hdf5_type(weft_dtype_of(s->array));
    hid_t space = shape.n ? H5Screate_simple(shape.n, dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t link = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    hid_t set = H5Dcreate2(s->file, s->name, type, space, link, H5P_DEFAULT, H5P_DEFAULT);
    weft_status status = WEFT_OK;
    if (set < 0 || (size > 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0)) {
        status = failed(WEFT_IO, s->path, s->name);
    }
    if (set >= 0 && H5Dclose(set) < 0 && status == WEFT_OK) {
        status = failed(WEFT_IO, s->path, s->name);
    }
    H5Pclose(link);
    H5Sclose(space);
    H5Tclose(type);
    restore_errors(q);
    return status;
}

static weft_status write_all(const char *path, const char *beside, const char *const *names,
                             weft_array *const *arrays, int n)
{
    quiet q = enter();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS); /* the writer has locked the file */
    hid_t file = access >= 0 && H5Pset_file_locking(access, false, true) >= 0
                     ? H5Fcreate(beside, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                     : H5I_INVALID_HID;
    H5Pclose(access);
    weft_status status = file < 0 ? failed(WEFT_IO, path, "") : WEFT_OK;
    restore_errors(q);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        saving s = {file, path, names[i], arrays[i]};
        status = weft__with_bytes(arrays[i], names[i], write_dataset, &s);
    }
    q = enter();
    if (file >= 0 && H5Fclose(file) < 0 && status == WEFT_OK) {
        status = failed(WEFT_IO, path, "");
    }
    restore_errors(q);
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
