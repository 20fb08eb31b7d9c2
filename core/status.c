/* core/status.c -- statuses, the thread's last message, and the log callback. */
#include "weft/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/failure.h"

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
    /* Formatted into a separate buffer first: an argument may be the last message itself. */
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft__write_printable(last_message, sizeof last_message, text);
    last_status = status;
    return status;
}

weft_status weft__out_of_memory(const char *where, const char *purpose)
{
    return weft_fail(WEFT_MEMORY, "%s: out of memory%s%s", where, purpose ? " for " : "",
                     purpose ? purpose : "");
}

/* Callback and context are read together. */
static struct {
    pthread_mutex_t lock;
    weft_log_fn *callback;
    void *context;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

void weft_set_log(weft_log_fn *callback, void *context)
{
    pthread_mutex_lock(&sink.lock);
    sink.callback = callback;
    sink.context = context;
    pthread_mutex_unlock(&sink.lock);
}

void weft_log_message(weft_log_level level, const char *format, ...)
{
    pthread_mutex_lock(&sink.lock);
    weft_log_fn *callback = sink.callback;
    void *context = sink.context;
    pthread_mutex_unlock(&sink.lock);
    if (!callback && level != WEFT_LOG_WARNING) {
        return;
    }
    char text[MESSAGE_SIZE], shown[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft__write_printable(shown, sizeof shown, text);
    if (callback) {
        callback(context, level, shown);
    } else {
        fprintf(stderr, "weft: warning: %s\n", shown);
    }
}
