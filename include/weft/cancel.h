/* weft/cancel.h -- cancelling long operations from another thread or a signal handler. */
#ifndef WEFT_CANCEL_H
#define WEFT_CANCEL_H

#include <stdbool.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A flag that requests cancellation. All functions may be called from any thread at any time;
 * weft_cancel_set and weft_cancel_is_set also from a signal handler. */
typedef struct weft_cancel weft_cancel;

/* A new flag, not set; the caller frees it when no operation uses it any more. NULL: out of memory.
 */
WEFT_API weft_cancel *weft_cancel_new(void);
WEFT_API void weft_cancel_free(weft_cancel *self); /* NULL is accepted */

/* Sets the flag, clears it for the next operation, and reads it. */
WEFT_API void weft_cancel_set(weft_cancel *self) WEFT_NONNULL(1);
WEFT_API void weft_cancel_clear(weft_cancel *self) WEFT_NONNULL(1);
WEFT_API bool weft_cancel_is_set(const weft_cancel *self) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
