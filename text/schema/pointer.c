/* text/schema/pointer.c -- JSON pointers (RFC 6901), in URI fragments. */
#include "text/schema/pointer.h"

#include <string.h>

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes %XX. */
static bool unescape(const char *at, char *out)
{
    const int high = hex_value(at[1]), low = high < 0 ? -1 : hex_value(at[2]);
    *out = (char)(16 * high + low);
    return low >= 0 && *out != '\0';
}

bool weft__pointer_step(const char **at, char *out)
{
    char *end = out;
    for (; **at && **at != '/'; ++*at) {
        *end = **at;
        if (**at == '%') {
            if (!unescape(*at, end))
                return false;
            *at += 2;
        }
        end++;
    }
    *end = '\0';
    /* ~1 is a slash and ~0 a tilde; both may be percent-encoded, as %7E0. */
    char *to = out;
    for (const char *from = out; *from; from++) {
        char c = *from;
        if (c == '~') {
            c = *++from;
            if (c != '0' && c != '1')
                return false;
            c = c == '0' ? '~' : '/';
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

bool weft__pointer_index(const char *step, size_t *index)
{
    const size_t n = strlen(step);
    if (n == 0 || n > 9 || (n > 1 && step[0] == '0'))
        return false;
    *index = 0;
    for (size_t i = 0; i < n; i++) {
        if (step[i] < '0' || step[i] > '9')
            return false;
        *index = 10 * *index + (size_t)(step[i] - '0');
    }
    return true;
}
