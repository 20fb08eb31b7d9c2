/* core/io/hdf5_load.c -- reads HDF5 files as named arrays, one per dataset.
 *
 * The library crashes on some malformed files. A child process therefore reads the file and writes
 * what it found to memory that the parent then reads: a record for each dataset and, last, one that
 * says how it ended. If that record is missing, the child has crashed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/hdf5_types.h"
#include "core/io/named.h"

/* A dataset, followed by its name and elements; or, with `ended`, the status and its message. */
typedef struct record {
    int32_t ended, status;
    int64_t dtype, name, bytes; /* lengths of name and elements, or of the message */
    weft_dims shape;
} record;

/* Most processor time for a file: malformed ones can make the library loop. */
enum { MOST_SECONDS = 1200 };

/* ---- in the child --------------------------------------------------------------------------- */

typedef struct loading {
    const char *path;
    int out;
    weft_status status;
} loading;

static weft_status put(const loading *l, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        const ssize_t n = write(l->out, at, size);
        if (n < 0 && errno != EINTR) {
            return weft__fail_errno(l->path, "read");
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return WEFT_OK;
}

static weft_status dataset_shape(hid_t set, const loading *l, const char *name, weft_dims *out)
{
    hid_t space = H5Dget_space(set);
    int n = H5Sget_simple_extent_ndims(space);
    hsize_t dims[H5S_MAX_RANK];
    weft_status status = WEFT_OK;
    memset(out, 0, sizeof *out);
    if (n < 0 || n > WEFT_MAX_DIMS || H5Sget_simple_extent_type(space) == H5S_NULL) {
        status = weft_fail(WEFT_UNSUPPORTED, "%s: %s: expected 0 to %d dims, got %d", l->path, name,
                           WEFT_MAX_DIMS, n);
    } else {
        out->n = n;
        H5Sget_simple_extent_dims(space, dims, NULL);
    }
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        out->at[i] = (int64_t)dims[i];
    }
    H5Sclose(space);
    return status;
}

/* The size in bytes; -1: it overflows. */
static int64_t bytes_of(weft_dtype dtype, const weft_dims *shape)
{
    int64_t bytes = (int64_t)weft_dtype_size(dtype);
    for (int i = 0; i < shape->n; i++) {
        if (shape->at[i] < 0 || __builtin_mul_overflow(bytes, shape->at[i], &bytes)) {
            return -1;
        }
    }
    return bytes;
}

static weft_status read_elements(hid_t set, const loading *l, const char *name, weft_dtype dtype,
                                 const weft_dims *shape)
{
    const int64_t bytes = bytes_of(dtype, shape);
    if (bytes < 0) {
        return weft_fail(WEFT_INVALID, "%s: %s: too large", l->path, name);
    }
    void *data = weft_calloc((size_t)bytes + 1, 1); /* a dataset may lack some elements */
    hid_t type = data ? weft__hdf5_type(dtype) : H5I_INVALID_HID;
    weft_status status = WEFT_OK;
    if (type < 0) {
        status = weft_fail(WEFT_MEMORY, "%s: %s: out of memory to read it", l->path, name);
    } else if (bytes > 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        status = weft__hdf5_failed(WEFT_IO, l->path, name);
    }
    if (type >= 0) {
        H5Tclose(type);
    }
    record r = {.dtype = dtype, .name = (int64_t)strlen(name), .bytes = bytes, .shape = *shape};
    if (status == WEFT_OK) {
        status = put(l, &r, sizeof r);
    }
    if (status == WEFT_OK) {
        status = put(l, name, (size_t)r.name);
    }
    if (status == WEFT_OK) {
        status = put(l, data, (size_t)bytes);
    }
    weft_free(data);
    return status;
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
    return status == WEFT_OK ? read_elements(set, l, name, dtype, &shape) : status;
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
        l->status = weft__hdf5_failed(WEFT_IO, l->path, name);
        return 1;
    }
    l->status = load_dataset(set, l, name);
    H5Dclose(set);
    return l->status != WEFT_OK;
}

/* Reads the file and ends the process. The thread has entered the library. */
static void read_in_child(loading *l)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        signal(signals[i], SIG_DFL);
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_CPU, &(struct rlimit){MOST_SECONDS, MOST_SECONDS});
    hid_t file = H5Fopen(l->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) {
        l->status = weft__hdf5_failed(WEFT_IO, l->path, "");
    } else if (VISIT_OBJECTS(file, H5_INDEX_NAME, H5_ITER_INC, visit, l, H5O_INFO_BASIC) < 0 &&
               l->status == WEFT_OK) {
        l->status = weft__hdf5_failed(WEFT_IO, l->path, "");
    }
    const char *message = l->status == WEFT_OK ? "" : weft_error_message();
    const record r = {.ended = 1, .status = l->status, .bytes = (int64_t)strlen(message)};
    if (put(l, &r, sizeof r) == WEFT_OK) {
        (void)put(l, message, (size_t)r.bytes);
    }
    _exit(0);
}

/* ---- in the parent -------------------------------------------------------------------------- */

typedef struct results {
    const char *path;
    int in;
    int64_t at, size;
} results;

/* Takes the next `size` bytes and gives their memory back. */
static bool take(results *r, void *out, int64_t size)
{
    if (size < 0 || size > r->size - r->at) {
        return false;
    }
    for (int64_t done = 0; done < size;) {
        const ssize_t n = pread(r->in, (char *)out + done, (size_t)(size - done), r->at + done);
        if (n <= 0) {
            return false;
        }
        done += n;
    }
    (void)fallocate(r->in, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->at, size);
    r->at += size;
    return true;
}

static weft_status crashed(const results *r)
{
    return weft_fail(WEFT_INVALID, "%s: the file is malformed: the HDF5 library fails on it",
                     r->path);
}

/* Adds the array of a record. The child may have been damaged before it crashed. */
static weft_status add_array(results *r, const record *of, weft_named_arrays *out)
{
    if (of->dtype < 0 || of->dtype >= WEFT_DTYPE_COUNT || of->shape.n < 0 ||
        of->shape.n > WEFT_MAX_DIMS || of->name < 0 || of->name > r->size - r->at ||
        of->bytes != bytes_of((weft_dtype)of->dtype, &of->shape) || of->bytes > r->size - r->at) {
        return crashed(r);
    }
    char *name = weft_calloc((size_t)of->name + 1, 1);
    void *data = weft_malloc((size_t)of->bytes + 1);
    weft_status status = WEFT_OK;
    if (name == NULL || data == NULL) {
        status = weft_fail(WEFT_MEMORY, "%s: out of memory to read it", r->path);
    } else if (!take(r, name, of->name) || !take(r, data, of->bytes)) {
        status = crashed(r);
    }
    if (status != WEFT_OK) {
        weft_free(data);
    } else {
        weft_array *a = weft_from_memory(data, (weft_dtype)of->dtype, of->shape, weft_free, data);
        if (!weft_ok(a) || !weft__named_arrays_add(out, name, a)) {
            status = weft_fail(WEFT_MEMORY, "%s: %s: out of memory to read it", r->path, name);
        }
    }
    weft_free(name);
    return status;
}

static weft_status take_status(results *r, const record *of)
{
    char message[1024] = "";
    const int64_t most = (int64_t)sizeof message - 1;
    if (!take(r, message, of->bytes < most ? of->bytes : most)) {
        return crashed(r);
    }
    return of->status == WEFT_OK ? WEFT_OK : weft_fail((weft_status)of->status, "%s", message);
}

static weft_status take_all(const char *path, int in, weft_named_arrays *out)
{
    struct stat info;
    record next;
    results r = {.path = path, .in = in, .size = fstat(in, &info) == 0 ? info.st_size : 0};
    while (take(&r, &next, sizeof next)) {
        if (next.ended) {
            return take_status(&r, &next);
        }
        const weft_status status = add_array(&r, &next, out);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return crashed(&r);
}

weft_status weft_hdf5_load(const char *path, weft_named_arrays *out)
{
    *out = (weft_named_arrays){0};
    int fd; /* opened here first, since the library would block on a FIFO */
    weft_status status = weft__file_open(path, O_RDONLY, &fd);
    if (status != WEFT_OK) {
        return status;
    }
    close(fd);
    loading l = {.path = path, .out = memfd_create("weft-hdf5", MFD_CLOEXEC)};
    weft__hdf5_quiet q = weft__hdf5_enter();
    const pid_t child = l.out >= 0 ? fork() : -1;
    if (child == 0) {
        read_in_child(&l);
    }
    const int error = errno;
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    weft__hdf5_leave(q);
    errno = error;
    status = child > 0 ? take_all(path, l.out, out) : weft__fail_errno(path, "read");
    if (l.out >= 0) {
        close(l.out);
    }
    if (status != WEFT_OK) {
        weft_named_arrays_free(out);
    }
    return status;
}
