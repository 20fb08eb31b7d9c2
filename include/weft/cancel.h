/* weft/cancel.h -- asking long work to stop, from another thread or a signal handler. */
#ifndef WEFT_CANCEL_H
#define WEFT_CANCEL_H

#include <stdbool.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request to stop that has been made or not. Every function may be called from any thread at any
 * time; weft_cancel_set and weft_cancel_is_set from a signal handler too. */
typedef struct weft_cancel weft_cancel;

WEFT_API weft_cancel *weft_cancel_new(void);       /* not set; NULL without memory */
WEFT_API void weft_cancel_free(weft_cancel *self); /* when nobody looks any more; NULL: accepted */

WEFT_API void weft_cancel_set(weft_cancel *self) WEFT_NONNULL(1);
WEFT_API void weft_cancel_clear(weft_cancel *self) WEFT_NONNULL(1); /* for the next work */
WEFT_API bool weft_cancel_is_set(const weft_cancel *self) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
