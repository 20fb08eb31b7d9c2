/* weft/stream.h -- streams: queues of evaluations that run concurrently.
 *
 *     weft_stream *load = weft_stream_new(NULL);
 *     weft_eval_on(load, &batch, 1);           // starts, and returns
 *     weft_eval(step);                         // runs meanwhile, unless it needs the batch
 *     weft_status status = weft_stream_synchronize(load);
 *
 * Evaluations of one stream run in their order. Those of different streams, and of threads that
 * wait for theirs, run at the same time where they touch different memory; one that needs what
 * another computes waits for it, whatever their streams. On a device that works through a queue of
 * its own (Vulkan) they run one after another.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_stream weft_stream;

/* A stream, to be used by any thread; NULL: no memory. `device` is the one that
 * weft_stream_synchronize waits for besides (NULL: the thread's default device); what is evaluated
 * runs where its arrays are. Its thread is started when it is first needed. */
WEFT_API weft_stream *weft_stream_new(weft_device *device);

/* Runs what is queued to its end and frees the stream, which no thread may use any more; it may be
 * the calling thread's default. Accepts NULL. Not from a kernel or a callback. */
WEFT_API void weft_stream_free(weft_stream *stream);

/* Starts the computation of n arrays on the stream and returns, as weft_eval_async does. */
WEFT_NODISCARD WEFT_API weft_status weft_eval_on(weft_stream *stream, weft_array *const *arrays,
                                                 int n);

/* Waits until all work of the stream is done. Returns the first failure of the stream that has not
 * been reported yet, by this function or by evaluating an array that it affected. */
WEFT_NODISCARD WEFT_API weft_status weft_stream_synchronize(weft_stream *stream);

/* Where weft_eval_async of the calling thread runs. At first one stream that all threads share;
 * NULL goes back to it. That one is not to be freed. */
WEFT_API weft_stream *weft_default_stream(void);
WEFT_API void weft_set_default_stream(weft_stream *stream);

/* The device that the stream was created with. */
WEFT_API weft_device *weft_stream_device(const weft_stream *stream) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
