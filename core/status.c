/* core/status.c -- statuses, the thread's last message, and the log callback. */
#include "weft/status.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MESSAGE_SIZE = 4096 };

static _Thread_local char last_message[MESSAGE_SIZE];
static _Thread_local weft_status last_status;

const char *weft_status_name(weft_status status)
{
    switch (status) {
    case WEFT_OK:
        return "ok";
    case WEFT_INVALID:
        return "invalid";
    case WEFT_IO:
        return "input/output";
    case WEFT_MEMORY:
        return "out of memory";
    case WEFT_DEVICE:
        return "device";
    case WEFT_UNSUPPORTED:
        return "unsupported";
    case WEFT_CANCELLED:
        return "cancelled";
    }
    return "unknown status";
}

const char *weft_error_message(void)
{
    return last_message;
}

weft_status weft_error_status(void)
{
    return last_status;
}

weft_status weft_fail(weft_status status, const char *format, ...)
{
    /* Formatted aside first: an argument may be the last message itself. */
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(last_message, sizeof last_message, "%s", text);
    last_status = status;
    return status;
}

static struct {
    _Atomic(weft_log_fn *) callback;
    _Atomic(void *) context;
} sink;

void weft_set_log(weft_log_fn *callback, void *context)
{
    atomic_store(&sink.callback, NULL);
    atomic_store(&sink.context, context);
    atomic_store(&sink.callback, callback);
}

void weft_log_message(weft_log_level level, const char *format, ...)
{
    weft_log_fn *callback = atomic_load(&sink.callback);
    if (!callback) {
        return;
    }
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    callback(atomic_load(&sink.context), level, text);
}
