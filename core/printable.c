/* core/printable.c -- makes external text printable for messages: one line, no control characters.
 */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"

enum { TEXTS = 16, LONGEST = 120, TEXT_SIZE = LONGEST + 48 };

/* Writes the printable form of the first character of a non-empty text to out[12]. Returns the
 * bytes of the text consumed; *n is the length of the form. */
static size_t show_one(const char *text, size_t length, char *out, size_t *n)
{
    const int step = weft__utf8_step(text, length);
    if (step <= 0) {
        *n = (size_t)snprintf(out, 12, "\\x%02x", (unsigned char)text[0]);
        return 1;
    }
    const uint32_t code = weft__utf8_decode(text, step);
    const char *names = "\n"
                        "n"
                        "\r"
                        "r"
                        "\t"
                        "t";
    const char *name = code < 0x20 && code ? strchr(names, (int)code) : NULL;
    if (name) {
        *n = (size_t)snprintf(out, 12, "\\%c", name[1]);
    } else if (code < 0x80 && weft__utf8_is_hidden(code)) {
        *n = (size_t)snprintf(out, 12, "\\x%02x", (unsigned)code);
    } else if (weft__utf8_is_hidden(code)) {
        *n = (size_t)snprintf(out, 12, "\\u%04x", (unsigned)code);
    } else {
        memcpy(out, text, (size_t)step);
        *n = (size_t)step;
    }
    return (size_t)step;
}

/* Writes as much of the text as fits into `room` bytes, without a NUL; *shown is the number of
 * bytes written. Returns how many bytes of the text that covers. */
static size_t show(const char *text, size_t length, char *out, size_t room, size_t *shown)
{
    size_t at = 0;
    *shown = 0;
    while (at < length) {
        char one[12];
        size_t n = 0;
        const size_t taken = show_one(text + at, length - at, one, &n);
        if (*shown + n > room) {
            break;
        }
        memcpy(out + *shown, one, n);
        *shown += n;
        at += taken;
    }
    return at;
}

const char *weft_printable_n(const char *text, size_t length)
{
    static _Thread_local char texts[TEXTS][TEXT_SIZE];
    static _Thread_local unsigned next;
    char *out = texts[next++ % TEXTS];
    size_t shown = 0;
    if (!text) {
        text = "(null)";
        length = 6;
    }
    if (show(text, length, out, LONGEST, &shown) < length) {
        snprintf(out + shown, TEXT_SIZE - shown, "... (%zu bytes)", length);
    } else {
        out[shown] = '\0';
    }
    return out;
}

const char *weft_printable(const char *text)
{
    return weft_printable_n(text, text ? strlen(text) : 0);
}

void weft__write_printable(char *out, size_t size, const char *text)
{
    const size_t length = strlen(text);
    size_t shown = 0;
    if (show(text, length, out, size - 1, &shown) < length) {
        show(text, length, out, size - 4, &shown);
        memcpy(out + shown, "...", 3);
        shown += 3;
    }
    out[shown] = '\0';
}
