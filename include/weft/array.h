/* weft/array.h -- lazy arrays: creation, ownership, evaluation and reading.
 *
 * A weft_array is a node of a graph that is computed when its elements are needed. Every function
 * that makes one borrows its inputs and returns an array of the calling thread's innermost open
 * scope. The array is readable, in any order and any number of times, until that scope closes; call
 * weft_keep or weft_set for an array that outlives the scope. A function leaves only its results in
 * the caller's scope.
 *
 *     weft_scope_open();
 *     weft_array *y = weft_add(weft_matmul(a, b), c);
 *     weft_status status = weft_eval(y);
 *     ...
 *     weft_scope_close(NULL);
 *
 * Errors propagate through arrays: a call with an error array returns that array, so one check at
 * weft_eval or when reading is enough. Accessors accept error arrays, which have rank 0.
 *
 * Open a scope for each iteration of a loop, since arrays stay in memory until their scope closes.
 * A scope that many evaluations have filled without closing is reported once, as a warning
 * (weft_set_log). With WEFT_DEBUG=1 in the environment these are reported with the call stack:
 * scopes that are open at the end of their thread, arrays used after their release, and arrays
 * dropped twice. Such use then gives an error array instead of undefined behavior.
 *
 * Threads: a scope and its arrays belong to their thread; evaluated arrays may be read from any
 * thread; reference counts are atomic; independent evaluations run concurrently (stream.h).
 */
#ifndef WEFT_ARRAY_H
#define WEFT_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/dtype.h"
#include "weft/memory.h"
#include "weft/status.h"

#ifdef __cplusplus
#include <type_traits>
extern "C" {
#endif

enum { WEFT_MAX_DIMS = 16 };

typedef struct weft_array weft_array;
typedef struct weft_device weft_device;

/* A short list of integers: a shape, a list of axes, starts of a slice. By value. */
typedef struct weft_dims {
    int n;
    int64_t at[WEFT_MAX_DIMS];
} weft_dims;

#ifndef __cplusplus
/* WEFT_DIMS(B, L, D): a weft_dims of the arguments, at least one. */
#define WEFT_DIMS(...)                                                                             \
    ((weft_dims){.n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                   \
                 .at = {__VA_ARGS__}})
/* The shape of a 0-d array. */
#define WEFT_SCALAR ((weft_dims){0})
/* For reductions: every axis. */
#define WEFT_ALL_AXES ((weft_dims){.n = -1})
#endif

/* ---- Making arrays from data ---------------------------------------------------------------- */

/* An array of `shape` and `dtype` with a copy of the row-major elements at `data`. */
WEFT_API weft_array *weft_from_data(const void *data, weft_dtype dtype, weft_dims shape);

/* An array of `shape` and `dtype` over the caller's row-major memory, without copying. The memory
 * is never written and must stay unchanged until Weft calls `release(context)`; with `release` NULL
 * it must outlive the array. `data` must be aligned for `dtype`. If the call fails, `release` is
 * called and the result is an error array. */
WEFT_API weft_array *weft_from_memory(void *data, weft_dtype dtype, weft_dims shape,
                                      void (*release)(void *context), void *context);

/* A 0-d array with the value converted to `dtype`. It takes part in promotion like any array; the
 * functions of elementwise.h that end in _scalar take C numbers that do not. */
WEFT_API weft_array *weft_scalar(double value, weft_dtype dtype);
WEFT_API weft_array *weft_scalar_int(int64_t value, weft_dtype dtype);

/* An error array (shape 0-d, float32) with this message, for functions that build graphs. */
WEFT_API weft_array *weft_error_array(const char *format, ...) WEFT_PRINTF(1, 2);

/* ---- What an array is ----------------------------------------------------------------------- */

WEFT_API bool weft_ok(const weft_array *a);           /* not NULL and not an error array */
WEFT_API const char *weft_error(const weft_array *a); /* its message; NULL: it is no error array */
/* The properties of an array. An error array is float32, 0-d, on the default device. */
WEFT_API weft_dtype weft_dtype_of(const weft_array *a);
WEFT_API int weft_ndim(const weft_array *a);
WEFT_API int64_t weft_dim(const weft_array *a, int axis); /* axis may be negative; 1 if absent */
WEFT_API weft_dims weft_shape(const weft_array *a);
WEFT_API int64_t weft_size(const weft_array *a);   /* number of elements */
WEFT_API int64_t weft_nbytes(const weft_array *a); /* stored size of its elements */
WEFT_API weft_device *weft_device_of(const weft_array *a);
WEFT_API bool weft_is_evaluated(const weft_array *a);
/* The promoted dtype of n arrays (weft_promote); float32 for n = 0. */
WEFT_API weft_dtype weft_result_type(weft_array *const *arrays, int n);
/* Sets *out to the shape that n shapes broadcast to. Returns false, with *out unchanged, if they do
 * not broadcast. */
WEFT_API bool weft_broadcast_shapes(const weft_dims *shapes, int n, weft_dims *out) WEFT_NONNULL(3);

/* ---- Scopes and ownership ------------------------------------------------------------------- */

/* Opens a scope. New arrays belong to the innermost scope and can be read in any order until it is
 * closed. An elementwise intermediate that was computed as part of another array is not stored; it
 * is computed again when it is read.
 *
 * A lean scope reuses memory earlier: the last evaluation that uses an intermediate consumes it.
 * Arrays that are kept, in a slot, made from data or named in weft_eval are not consumed. Using a
 * consumed array is an error. An array that moves out of a lean scope follows the rule of the scope
 * that receives it. Training steps, decoding loops and compiled functions run in lean scopes. */
#define weft_scope_open() weft_scope_open_at(__func__, __FILE__, __LINE__, false)
#define weft_scope_open_lean() weft_scope_open_at(__func__, __FILE__, __LINE__, true)
WEFT_API void weft_scope_open_at(const char *function, const char *file, int line, bool lean);
WEFT_API void weft_scope_open_named(const char *name); /* not lean */

/* Closes the innermost scope and releases its arrays. `y`, an array of any shape and dtype or NULL,
 * moves to the parent scope if this scope owns it, and is returned. weft_scope_close_n does the
 * same with n arrays. */
WEFT_API weft_array *weft_scope_close(weft_array *y);
WEFT_API void weft_scope_close_n(weft_array **ys, int n);
#define weft_scope_close(y) weft_scope_close_at((y), __func__)
#define weft_scope_close_n(ys, n) weft_scope_close_n_at((ys), (n), __func__)
WEFT_API weft_array *weft_scope_close_at(weft_array *y, const char *function);
WEFT_API void weft_scope_close_n_at(weft_array **ys, int n, const char *function);

/* The number of scopes that the thread has open. */
WEFT_API int weft_scope_depth(void);
/* The number of arrays that the innermost scope owns. If it grows in a loop, open a scope for each
 * iteration. */
WEFT_API int64_t weft_scope_count(void);

/* weft_keep returns `a`, which then outlives its scope until weft_drop is called. Every weft_keep
 * needs one weft_drop. Both accept NULL. */
WEFT_API weft_array *weft_keep(weft_array *a);
WEFT_API void weft_drop(weft_array *a);

/* Stores `a` in a slot and keeps it there; NULL empties the slot, which cannot fail. The previous
 * array stays readable until the scope that made it closes. If that scope is closed already, the
 * innermost scope takes it over, and the first evaluation that uses it consumes it. If `a` is an
 * error array, the slot stays unchanged and its status is returned. */
WEFT_NODISCARD WEFT_API weft_status weft_set(weft_array **slot, weft_array *a);

/* Evaluates n values and then sets n slots to them. The memory of the replaced arrays is reused
 * when nothing else holds them and no open scope owns them. On a failure no slot changes. Replaced
 * arrays stay readable unless a kernel had overwritten their memory before the failure: reading
 * such an array fails. Out of memory, and an index out of range on the CPU, are found before the
 * failing step overwrites anything; other devices find such indices while they run. */
WEFT_NODISCARD WEFT_API weft_status weft_update(weft_array **const *slots,
                                                weft_array *const *values, int n);

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Computes `a`, or n arrays in one evaluation, and waits. Intermediates that no open scope owns are
 * released as soon as they have been used. Returns the status of an error array or of the first
 * kernel that fails. */
WEFT_NODISCARD WEFT_API weft_status weft_eval(weft_array *a);
WEFT_NODISCARD WEFT_API weft_status weft_eval_n(weft_array *const *arrays, int n);

/* Starts the evaluation on the thread's default stream (stream.h) and returns. Reading one of the
 * arrays, or evaluating an array that depends on it, waits for it and reports its failure. */
WEFT_NODISCARD WEFT_API weft_status weft_eval_async(weft_array *const *arrays, int n);

/* Where a thread pauses, so that another one can use the same model: between the kernels of an
 * evaluation on the CPU alone, after each evaluation, and before and after a wait for a disk, such
 * as every file that the library writes, during which it does not use a module. */
typedef enum weft_pause_point {
    WEFT_PAUSE_INSIDE = 0,
    WEFT_PAUSE_AFTER,
    WEFT_PAUSE_DISK,
    WEFT_PAUSE_DISK_DONE
} weft_pause_point;
/* It may wait, inside an evaluation only for a bounded time, since other evaluations may wait for
 * that one, and not at DISK. It evaluates nothing. */
typedef void weft_pause_fn(void *context, weft_pause_point point);
/* Sets the function of the calling thread; NULL: none. The context is borrowed. */
WEFT_API void weft_set_pause(weft_pause_fn *pause, void *context);

/* ---- Reading -------------------------------------------------------------------------------- */

/* Evaluates `a` and copies its elements to `out`, row-major and converted to `dtype`. WEFT_INVALID
 * unless `count` is weft_size(a); other failures are those of weft_eval. */
WEFT_NODISCARD WEFT_API weft_status weft_read(weft_array *a, weft_dtype dtype, void *out,
                                              int64_t count);

/* Evaluates `a`, which has one element, and returns it. NaN or INT64_MIN after a failure, with the
 * message in weft_error_message. */
WEFT_API double weft_item(weft_array *a);
WEFT_API int64_t weft_item_int(weft_array *a);

/* Evaluates `a` and returns the address of its row-major elements in host memory, valid while the
 * array lives. NULL after a failure, and for an array that is not contiguous or not in host memory;
 * weft_read works for these. */
WEFT_API const void *weft_data(weft_array *a);

/* ---- Devices -------------------------------------------------------------------------------- */

/* The device with a name such as "cpu" or "vulkan:1", owned by the library, or NULL with a message;
 * and the name of a device. */
WEFT_API weft_device *weft_device_get(const char *name);
/* The devices of a list of names such as "vulkan,vulkan:1": out[0, *n), *n >= 1. WEFT_DEVICE if one
 * cannot be opened, WEFT_INVALID if one is listed twice or if there are more than `most`. */
WEFT_NODISCARD WEFT_API weft_status weft_devices_get(const char *names, weft_device **out, int most,
                                                     int *n) WEFT_NONNULL(1, 2, 4);
WEFT_API const char *weft_device_name(const weft_device *device) WEFT_NONNULL(1);
/* Writes the name of device i, counted from 0 over all backends, to `name`. Returns false past the
 * last device. Opens no device. A backend without devices is listed with its first name, and
 * weft_device_get reports why it cannot be opened. */
WEFT_API bool weft_device_at(int i, char *name, size_t size);
/* A description of the hardware such as "kernels for avx2", owned by the device; may be "". */
WEFT_API const char *weft_device_description(const weft_device *device) WEFT_NONNULL(1);
/* The total memory of the device in bytes, including what others use; 0: unknown. */
WEFT_API int64_t weft_device_memory(const weft_device *device) WEFT_NONNULL(1);
/* Whether the device may replace subnormal float32 numbers (magnitude below FLT_MIN, 2^-126) by
 * zero, as shaders of many GPUs do. Statements about accuracy do not hold for such numbers and for
 * results computed from them. */
WEFT_API bool weft_device_flushes_subnormals(const weft_device *device) WEFT_NONNULL(1);
/* The dtype whose matrix products the device computes fastest, with float32 sums: WEFT_BFLOAT16
 * where it has matrix cores for that, WEFT_FLOAT32 elsewhere. */
WEFT_API weft_dtype weft_device_matrix_dtype(const weft_device *device) WEFT_NONNULL(1);

/* Gets and sets the device of new arrays of the calling thread; "cpu" at first. */
WEFT_API weft_device *weft_default_device(void);
WEFT_API void weft_set_default_device(weft_device *device);

/* Waits until all work submitted to the device is done. Fails with the first unreported failure. */
WEFT_NODISCARD WEFT_API weft_status weft_synchronize(weft_device *device);

/* A copy of `a` on another device, with the same shape and dtype; `a` itself if it is there. */
WEFT_API weft_array *weft_to(weft_array *a, weft_device *device);

/* Sets and gets the number of threads of the CPU backend, the caller included. The default is
 * WEFT_THREADS or the number of usable cores. Results do not depend on it. */
WEFT_API void weft_set_threads(int n);
WEFT_API int weft_threads(void);

#ifdef __cplusplus
}

/* The macros above in C++17. */
template <typename... T> constexpr weft_dims weft_make_dims(T... dims)
{
    static_assert(sizeof...(T) <= WEFT_MAX_DIMS, "WEFT_DIMS: more than WEFT_MAX_DIMS dims");
    static_assert((... && !std::is_floating_point<T>::value), "WEFT_DIMS: expected integers");
    return weft_dims{static_cast<int>(sizeof...(T)), {static_cast<int64_t>(dims)...}};
}
#define WEFT_DIMS(...) weft_make_dims(__VA_ARGS__)
#define WEFT_SCALAR weft_make_dims()
#define WEFT_ALL_AXES (weft_dims{-1, {}})
#endif
#endif
