/* core/cancel.h -- requests to stop that depend on others. */
#ifndef WEFT_CORE_CANCEL_H
#define WEFT_CORE_CANCEL_H

#include "weft/cancel.h"

/* One that is set when `other` is, too; setting it leaves `other` alone. NULL: weft_cancel_new.
 * `other` must outlive it. */
weft_cancel *weft__cancel_new_with(const weft_cancel *other);

#endif
