/* weft/array.h -- lazy arrays: making them, holding them, evaluating them, reading them.
 *
 * A weft_array is a node of a graph that is computed when somebody needs its elements. Every
 * function that makes one borrows its inputs and returns a temporary of the calling thread's
 * innermost open scope: use it, pass it on, and forget it.
 *
 *     weft_scope_open();
 *     weft_array *y = weft_add(weft_matmul(a, b), c);
 *     weft_status status = weft_eval(y);
 *     ...
 *     weft_scope_close(NULL);
 *
 * Errors ride in the value: a call on a failed array returns that array, so one check at weft_eval
 * or at reading is enough. Accessors are total: a failed array has rank 0.
 *
 * Threads: a scope and its temporaries belong to their thread; evaluated arrays may be read from
 * any thread; reference counts are atomic; independent evaluations run side by side (stream.h).
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

/* WEFT_DIMS(B, L, D): a weft_dims of the arguments, at least one.
 * WEFT_SCALAR: the shape of a 0-d array.
 * WEFT_ALL_AXES: for reductions, every axis. */
#ifndef __cplusplus
#define WEFT_DIMS(...)                                                                             \
    ((weft_dims){.n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                   \
                 .at = {__VA_ARGS__}})
#define WEFT_SCALAR ((weft_dims){0})
#define WEFT_ALL_AXES ((weft_dims){.n = -1})
#else
} /* templates have no C linkage */
template <typename... T> constexpr weft_dims weft_make_dims(T... dims)
{
    static_assert(sizeof...(T) <= WEFT_MAX_DIMS, "WEFT_DIMS: more than WEFT_MAX_DIMS dims");
    static_assert((... && !std::is_floating_point<T>::value), "WEFT_DIMS: expected integers");
    return weft_dims{static_cast<int>(sizeof...(T)), {static_cast<int64_t>(dims)...}};
}
#define WEFT_DIMS(...) weft_make_dims(__VA_ARGS__)
#define WEFT_SCALAR weft_make_dims()
#define WEFT_ALL_AXES (weft_dims{-1, {}})
extern "C" {
#endif

/* ---- Making arrays from data ---------------------------------------------------------------- */

/* Copies product(shape) elements of `dtype`, row-major, from `data`. */
WEFT_API weft_array *weft_from_data(const void *data, weft_dtype dtype, weft_dims shape);

/* Uses the caller's row-major memory without copying. The memory must stay unchanged until
 * `release(context)` is called (NULL: never called; the memory outlives the array). Weft does not
 * write to it. `data` must be aligned for `dtype`. If the call fails, `release` is called. */
WEFT_API weft_array *weft_from_memory(void *data, weft_dtype dtype, weft_dims shape,
                                      void (*release)(void *context), void *context);

/* 0-d arrays. weft_scalar takes `dtype`; float32 and int64 are the strong types of C's literals. */
WEFT_API weft_array *weft_scalar(double value, weft_dtype dtype);
WEFT_API weft_array *weft_scalar_int(int64_t value, weft_dtype dtype);

/* An error array with this message, for functions that build graphs. */
WEFT_API weft_array *weft_error_array(const char *format, ...) WEFT_PRINTF(1, 2);

/* ---- What an array is ----------------------------------------------------------------------- */

WEFT_API bool weft_ok(const weft_array *a);           /* not an error array */
WEFT_API const char *weft_error(const weft_array *a); /* its message; NULL when it is fine */
WEFT_API weft_dtype weft_dtype_of(const weft_array *a);
WEFT_API int weft_ndim(const weft_array *a);
WEFT_API int64_t weft_dim(const weft_array *a, int axis); /* axis may be negative; 1 if absent */
WEFT_API weft_dims weft_shape(const weft_array *a);
WEFT_API int64_t weft_size(const weft_array *a);   /* number of elements */
WEFT_API int64_t weft_nbytes(const weft_array *a); /* of its elements as they are stored */
WEFT_API weft_device *weft_device_of(const weft_array *a);
WEFT_API bool weft_is_evaluated(const weft_array *a);
/* The dtype that n arrays take together (weft_promote); float32 for none. */
WEFT_API weft_dtype weft_result_type(weft_array *const *arrays, int n);
/* The shape that n shapes broadcast to; false leaves *out as it was: they do not. */
WEFT_API bool weft_broadcast_shapes(const weft_dims *shapes, int n, weft_dims *out);

/* ---- Scopes and ownership ------------------------------------------------------------------- */

/* Opens a scope: temporaries made from here on live until it is closed. */
#define weft_scope_open() weft_scope_open_named(__func__)
WEFT_API void weft_scope_open_named(const char *name);

/* Closes the innermost scope and releases its temporaries. `y` (NULL allowed) moves to the parent
 * scope if this scope owns it, and is returned. */
WEFT_API weft_array *weft_scope_close(weft_array *y);
WEFT_API void weft_scope_close_n(weft_array **ys, int n);

/* How many scopes the thread has open. */
WEFT_API int weft_scope_depth(void);

/* weft_keep returns `a`, held until weft_drop; for arrays that outlive their scope. Every keep
 * needs one drop. Both accept NULL. */
WEFT_API weft_array *weft_keep(weft_array *a);
WEFT_API void weft_drop(weft_array *a);

/* Puts `a` in a slot: keeps it, and hands the array that was there to the innermost scope as an
 * ordinary temporary. A failed array is refused: the slot is unchanged, the status returned. NULL
 * empties the slot. */
WEFT_API weft_status weft_set(weft_array **slot, weft_array *a);

/* Sets n slots to n values at once: evaluates the values first, reusing the memory of the arrays
 * that are replaced when nothing else holds them. On a failure no slot changes, and what the slots
 * hold is readable as before, except that an array whose memory a kernel had already overwritten
 * has lost its elements: reading it fails. Without memory, and for an index out of range in a
 * kernel of the CPU, the failing step itself has overwritten nothing. Devices that find such
 * indices while they run have then overwritten everything. */
WEFT_API weft_status weft_update(weft_array **const *slots, weft_array *const *values, int n);

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Computes `a` (and what it needs) and waits. An array named here stays readable until its scope
 * closes. Temporaries that the evaluation used up, and that nobody holds or named, are spent:
 * their memory is reused, and using them later is an error that says so. */
WEFT_API weft_status weft_eval(weft_array *a);
WEFT_API weft_status weft_eval_n(weft_array *const *arrays, int n);

/* Starts it on the thread's default stream (stream.h) and returns; reading an array, or evaluating
 * what depends on it, waits. A failure of the computation is reported by whoever waits. */
WEFT_API weft_status weft_eval_async(weft_array *const *arrays, int n);

/* ---- Reading -------------------------------------------------------------------------------- */

/* Evaluates `a` and copies its `count` elements (must equal weft_size) to `out`, row-major,
 * converted to `dtype`. */
WEFT_API weft_status weft_read(weft_array *a, weft_dtype dtype, void *out, int64_t count);

/* The one element of a size-1 array; NaN or INT64_MIN after a failure (weft_error_message). */
WEFT_API double weft_item(weft_array *a);
WEFT_API int64_t weft_item_int(weft_array *a);

/* Evaluates `a` and returns its elements in host memory, row-major, valid while the array lives.
 * NULL after a failure, and for an array that is not contiguous or not in host memory: weft_read
 * works for those. */
WEFT_API const void *weft_data(weft_array *a);

/* ---- Devices -------------------------------------------------------------------------------- */

/* The device that a name such as "cpu" or "vulkan:1" means; NULL when there is none. The library
 * owns devices. */
WEFT_API weft_device *weft_device_get(const char *name);
WEFT_API const char *weft_device_name(const weft_device *device);
/* Puts the name of device i, from 0, over all backends of this build or registered since; false:
 * there are no more. A backend that finds no device names its first one: weft_device_get says why
 * it cannot be had. Opens nothing. */
WEFT_API bool weft_device_at(int i, char *name, size_t size);
/* The hardware in words, as in "kernels for avx2"; may be "". */
WEFT_API const char *weft_device_description(const weft_device *device);
/* Bytes that the device has for arrays in all, others' included; 0: it does not say. */
WEFT_API int64_t weft_device_memory(const weft_device *device);
/* Whether float32 numbers nearer to zero than FLT_MIN (2^-126) may be taken and given as zeros:
 * shaders of many cards cannot do otherwise. What is said elsewhere of the accuracy of results does
 * not hold for such numbers there, nor for what is computed from them. */
WEFT_API bool weft_device_flushes_subnormals(const weft_device *device);

/* The device of new arrays on the calling thread ("cpu" at first), and setting it. */
WEFT_API weft_device *weft_default_device(void);
WEFT_API void weft_set_default_device(weft_device *device);

/* Waits until everything submitted to the device is done. */
WEFT_API weft_status weft_synchronize(weft_device *device);

/* `a` on another device; `a` itself when it is there. */
WEFT_API weft_array *weft_to(weft_array *a, weft_device *device);

/* Worker threads of the CPU backend, the caller included. The default is the number of usable
 * cores, or WEFT_THREADS. Results do not depend on it. */
WEFT_API void weft_set_threads(int n);
WEFT_API int weft_threads(void);

#ifdef __cplusplus
}
#endif
#endif
