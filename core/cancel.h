/* core/cancel.h -- cancellation requests that depend on others. */
#ifndef WEFT_CORE_CANCEL_H
#define WEFT_CORE_CANCEL_H

#include "weft/cancel.h"

/* A request that is also set when `other` is set. Setting it does not set `other`. With NULL the
 * same as weft_cancel_new. `other` must outlive it. */
weft_cancel *weft__cancel_new_with(const weft_cancel *other);

#endif
