/* core/cancel.c -- cancellation requests: a flag that threads and signal handlers may set. */
#include "core/cancel.h"

#include <stdatomic.h>

#include "weft/memory.h"

struct weft_cancel {
    atomic_bool set;
    const weft_cancel *other; /* NULL: independent */
};

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a signal handler may set it");

weft_cancel *weft_cancel_new(void)
{
    return weft__cancel_new_with(NULL);
}

weft_cancel *weft__cancel_new_with(const weft_cancel *other)
{
    weft_cancel *self = weft_malloc(sizeof *self);
    if (self == NULL) {
        weft_fail(WEFT_MEMORY, "out of memory for a request to stop");
        return NULL;
    }
    atomic_init(&self->set, false);
    self->other = other;
    return self;
}

void weft_cancel_free(weft_cancel *self)
{
    weft_free(self);
}

void weft_cancel_set(weft_cancel *self)
{
    atomic_store_explicit(&self->set, true, memory_order_release);
}

void weft_cancel_clear(weft_cancel *self)
{
    atomic_store_explicit(&self->set, false, memory_order_release);
}

bool weft_cancel_is_set(const weft_cancel *self)
{
    return atomic_load_explicit(&self->set, memory_order_acquire) ||
           (self->other != NULL && weft_cancel_is_set(self->other));
}
