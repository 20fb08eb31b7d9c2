/* weft/array.h -- lazy arrays: making them, holding them, evaluating them, reading them.
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
 * Errors ride in the value: a call on a failed array returns that array, so one check at weft_eval
 * or at reading is enough. Accessors are total: a failed array has rank 0.
 *
 * Open a scope for each iteration of a loop: what an iteration makes stays in memory until its
 * scope closes. A scope that many evaluations have filled without closing is reported once, as a
 * warning (weft_set_log). With WEFT_DEBUG=1 in the environment, scopes that are still open at the
 * end of their thread, arrays that are used after their release, and arrays that are dropped twice
 * are reported with the call stack, and such use gives an error array instead of undefined
 * behaviour.
 *
 * Threads: a scope and its arrays belong to their thread; evaluated arrays may be read from
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
WEFT_API bool weft_broadcast_shapes(const weft_dims *shapes, int n, weft_dims *out) WEFT_NONNULL(3);

/* ---- Scopes and ownership ------------------------------------------------------------------- */

/* Opens a scope. Arrays made from here on belong to it until it is closed, and can be read as often
 * and in whatever order until then. Not all of them take memory: an elementwise intermediate that
 * was computed as a part of another array is computed again when it is read.
 *
 * A lean scope is for code that knows what it will read: an intermediate is consumed by the
 * evaluation that uses it last (its memory is reused), unless it is kept, in a slot, made from data
 * or named in weft_eval. Using it later is an error that says so. Arrays that move out of a lean
 * scope follow the rule of the scope that receives them. Training steps, decoding loops and
 * compiled functions are computed in lean scopes. */
#define weft_scope_open() weft_scope_open_at(__func__, __FILE__, __LINE__, false)
#define weft_scope_open_lean() weft_scope_open_at(__func__, __FILE__, __LINE__, true)
WEFT_API void weft_scope_open_at(const char *function, const char *file, int line, bool lean);
WEFT_API void weft_scope_open_named(const char *name); /* not lean */

/* Closes the innermost scope and releases its arrays. `y` (NULL allowed) moves to the parent scope
 * if this scope owns it, and is returned. */
WEFT_API weft_array *weft_scope_close(weft_array *y);
WEFT_API void weft_scope_close_n(weft_array **ys, int n);
#define weft_scope_close(y) weft_scope_close_at((y), __func__)
#define weft_scope_close_n(ys, n) weft_scope_close_n_at((ys), (n), __func__)
WEFT_API weft_array *weft_scope_close_at(weft_array *y, const char *function);
WEFT_API void weft_scope_close_n_at(weft_array **ys, int n, const char *function);

/* How many scopes the thread has open. */
WEFT_API int weft_scope_depth(void);
/* How many arrays the innermost scope owns: a loop in which it grows needs a scope of its own. */
WEFT_API int64_t weft_scope_count(void);

/* weft_keep returns `a`, held until weft_drop; for arrays that outlive their scope. Every keep
 * needs one drop. Both accept NULL. */
WEFT_API weft_array *weft_keep(weft_array *a);
WEFT_API void weft_drop(weft_array *a);

/* Puts `a` in a slot and keeps it there. The array that was in the slot stays readable until the
 * scope that made it closes. If that is closed already, the innermost scope takes it over, and the
 * first evaluation that uses it consumes it. A failed array is refused: the slot is unchanged, the
 * status returned. NULL empties the slot. */
WEFT_NODISCARD WEFT_API weft_status weft_set(weft_array **slot, weft_array *a);

/* Sets n slots to n values at once: evaluates the values first, reusing the memory of the arrays
 * that are replaced when nothing else holds them and no open scope owns them. On a failure no slot
 * changes, and what the slots hold is readable as before, except that an array whose memory a
 * kernel had already overwritten has lost its elements: reading it fails. Without memory, and for
 * an index out of range in a kernel of the CPU, the failing step itself has overwritten nothing.
 * Devices that find such indices while they run have then overwritten everything. */
WEFT_NODISCARD WEFT_API weft_status weft_update(weft_array **const *slots,
                                                weft_array *const *values, int n);

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Computes `a` (and what it needs) and waits. Intermediates that no open scope owns are released as
 * soon as they have been used. */
WEFT_NODISCARD WEFT_API weft_status weft_eval(weft_array *a);
WEFT_NODISCARD WEFT_API weft_status weft_eval_n(weft_array *const *arrays, int n);

/* Starts it on the thread's default stream (stream.h) and returns; reading an array, or evaluating
 * what depends on it, waits. A failure of the computation is reported by whoever waits. */
WEFT_NODISCARD WEFT_API weft_status weft_eval_async(weft_array *const *arrays, int n);

/* ---- Reading -------------------------------------------------------------------------------- */

/* Evaluates `a` and copies its `count` elements (must equal weft_size) to `out`, row-major,
 * converted to `dtype`. */
WEFT_NODISCARD WEFT_API weft_status weft_read(weft_array *a, weft_dtype dtype, void *out,
                                              int64_t count);

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
WEFT_API const char *weft_device_name(const weft_device *device) WEFT_NONNULL(1);
/* Puts the name of device i, from 0, over all backends of this build or registered since; false:
 * there are no more. A backend that finds no device names its first one: weft_device_get says why
 * it cannot be had. Opens nothing. */
WEFT_API bool weft_device_at(int i, char *name, size_t size);
/* The hardware in words, as in "kernels for avx2"; may be "". */
WEFT_API const char *weft_device_description(const weft_device *device) WEFT_NONNULL(1);
/* Bytes that the device has for arrays in all, others' included; 0: it does not say. */
WEFT_API int64_t weft_device_memory(const weft_device *device) WEFT_NONNULL(1);
/* Whether float32 numbers nearer to zero than FLT_MIN (2^-126) may be taken and given as zeros:
 * shaders of many cards cannot do otherwise. What is said elsewhere of the accuracy of results does
 * not hold for such numbers there, nor for what is computed from them. */
WEFT_API bool weft_device_flushes_subnormals(const weft_device *device) WEFT_NONNULL(1);
/* The dtype whose matrix products the device computes fastest, with float32 sums: WEFT_BFLOAT16
 * where it has matrix cores for that, WEFT_FLOAT32 elsewhere. */
WEFT_API weft_dtype weft_device_matrix_dtype(const weft_device *device) WEFT_NONNULL(1);

/* The device of new arrays on the calling thread ("cpu" at first), and setting it. */
WEFT_API weft_device *weft_default_device(void);
WEFT_API void weft_set_default_device(weft_device *device);

/* Waits until everything submitted to the device is done. */
WEFT_NODISCARD WEFT_API weft_status weft_synchronize(weft_device *device);

/* `a` on another device; `a` itself when it is there. */
WEFT_API weft_array *weft_to(weft_array *a, weft_device *device);

/* Worker threads of the CPU backend, the caller included. The default is the number of usable
 * cores, or WEFT_THREADS. Results do not depend on it. */
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
