/* weft/status.h -- how calls report failure, and where the library's messages go.
 *
 * Three kinds of failure, three answers: a caller's bug is an assert; a bad shape, dtype or value
 * makes an error array (array.h); I/O, device, memory and file contents return a status, and the
 * message is kept for the calling thread. The library never exits or aborts on bad input, and
 * prints nothing but warnings, to stderr, as long as no log callback is installed.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* WEFT_API exports a function from the shared library. WEFT_NODISCARD asks the compiler to warn
 * where the result is ignored; a cast to void ignores it on purpose. WEFT_NONNULL(i, ...) says that
 * the arguments with these numbers, from 1, must not be NULL. WEFT_PRINTF checks a format string.
 * Each is empty for compilers that have no such attribute. */
#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#define WEFT_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#define WEFT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define WEFT_API
#define WEFT_NONNULL(...)
#define WEFT_PRINTF(fmt, args)
#endif
#if defined(__cplusplus) && __cplusplus >= 201703L
#define WEFT_NODISCARD [[nodiscard]]
#elif defined(__clang__)
#define WEFT_NODISCARD __attribute__((warn_unused_result))
#elif defined(__GNUC__) && __GNUC__ >= 10 && !defined(__cplusplus)
#define WEFT_NODISCARD __extension__ [[nodiscard]]
#else
#define WEFT_NODISCARD
#endif

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID,     /* an argument, an array or a file's contents do not fit */
    WEFT_IO,          /* the operating system refused: open, read, write, rename */
    WEFT_MEMORY,      /* no memory, or the memory limit was reached */
    WEFT_DEVICE,      /* the device failed or is absent */
    WEFT_UNSUPPORTED, /* a valid request that this version does not do */
    WEFT_CANCELLED    /* a callback asked to stop */
} weft_status;

/* The name of a status, as in "invalid". Never NULL. */
WEFT_API const char *weft_status_name(weft_status status);

/* The message of the calling thread's last failed call: one line, no newline, never NULL.
 * Valid until the thread's next failure. */
WEFT_API const char *weft_error_message(void);

/* Its status, for calls that answer with NULL. WEFT_OK before the thread's first failure. */
WEFT_API weft_status weft_error_status(void);

/* Records a message for the calling thread and returns `status`, so that a failure is one line:
 *     return weft_fail(WEFT_IO, "%s: open: %s", path, strerror(errno));
 * The message says where, what, expected, got; for code that extends Weft as well as for Weft. */
WEFT_API weft_status weft_fail(weft_status status, const char *format, ...) WEFT_PRINTF(2, 3);

/* Makes external text (of a file, model, server or user) safe to print in a message. Control
 * characters, bidirectional controls and invalid UTF-8 become escapes (\n, \x1b, \u202e). Text of
 * more than 120 bytes is truncated and ends with "... (N bytes)". NULL gives "(null)". The result
 * is valid until the calling thread's 16th call after this one.
 *
 * weft_fail, weft_error_array and weft_log_message escape whole messages in the same way, without
 * truncation, so no message sends a control character to a terminal. */
WEFT_API const char *weft_printable(const char *text);
WEFT_API const char *weft_printable_n(const char *text, size_t length);

typedef enum weft_log_level { WEFT_LOG_DEBUG, WEFT_LOG_INFO, WEFT_LOG_WARNING } weft_log_level;

/* Receives every message the library wants a person to see. `message` is one line without newline
 * and is the library's; copy it to keep it. May be called from any thread. */
typedef void weft_log_fn(void *context, weft_log_level level, const char *message);

/* Installs the process's log callback. NULL (the default): warnings go to stderr, other messages
 * are dropped. */
WEFT_API void weft_set_log(weft_log_fn *callback, void *context);

/* Sends one message to the log callback, or without one a warning to stderr. */
WEFT_API void weft_log_message(weft_log_level level, const char *format, ...) WEFT_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
