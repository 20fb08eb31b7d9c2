/* weft/stream.h -- streams: queues of evaluations that run concurrently.
 *
 *     weft_stream *load = weft_stream_new(NULL);
 *     weft_eval_on(load, &batch, 1);           // starts, and returns
 *     weft_eval(step);                         // runs meanwhile, unless it needs the batch
 *     weft_status status = weft_stream_synchronize(load);
 *
 * Evaluations of one stream run in their order. Those of different streams, and of threads that
 * wait for theirs, run concurrently if they use different memory; an evaluation that needs the
 * result of another waits for it. On a device with its own queue (Vulkan) they run one after
 * another.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_stream weft_stream;

/* Creates a stream that any thread may use; free it with weft_stream_free. NULL: out of memory.
 * weft_stream_synchronize also waits for `device` (NULL: the thread's default device); evaluations
 * run on the devices of their arrays. The stream's thread starts on first use. */
WEFT_API weft_stream *weft_stream_new(weft_device *device);

/* Finishes the queued work and frees the stream, which may be the calling thread's default; no
 * thread may use it afterwards. NULL is accepted. Do not call it from a kernel or a callback. */
WEFT_API void weft_stream_free(weft_stream *stream);

/* Starts the computation of n arrays on the stream and returns, as weft_eval_async does. */
WEFT_NODISCARD WEFT_API weft_status weft_eval_on(weft_stream *stream, weft_array *const *arrays,
                                                 int n);

/* Waits until all work of the stream is done. Returns the first failure of the stream that has not
 * been reported yet, by this function or by evaluating an array that it affected. */
WEFT_NODISCARD WEFT_API weft_status weft_stream_synchronize(weft_stream *stream);

/* Gets and sets the stream for weft_eval_async of the calling thread. Initially, and after NULL,
 * this is one stream that all threads share, which must not be freed. */
WEFT_API weft_stream *weft_default_stream(void);
WEFT_API void weft_set_default_stream(weft_stream *stream);

/* The device that the stream was created with. */
WEFT_API weft_device *weft_stream_device(const weft_stream *stream) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
