/* core/io/utf8.c -- UTF-8: one state machine that validates, decodes and replaces. */
#include "core/io/utf8.h"

#include <string.h>

int weft__utf8_step(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 0)
        return 0;
    const unsigned char lead = s[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return -1;
    const int size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    /* Only the second byte has narrower bounds: they exclude overlong forms, surrogates and code
     * points above U+10FFFF. */
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < size; i++) {
        if ((size_t)i == length)
            return 0;
        if (s[i] < low || s[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return size;
}

size_t weft__utf8_valid(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length) {
        uint64_t word;
        if (length - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof word;
                continue;
            }
        }
        const int size = weft__utf8_step(text + i, length - i);
        if (size <= 0)
            return i;
        i += (size_t)size;
    }
    return length;
}

uint32_t weft__utf8_decode(const char *text, int size)
{
    const unsigned char *s = (const unsigned char *)text;
    switch (size) {
    case 1:
        return s[0];
    case 2:
        return (uint32_t)(s[0] & 0x1F) << 6 | (uint32_t)(s[1] & 0x3F);
    case 3:
        return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 |
               (uint32_t)(s[2] & 0x3F);
    default:
        return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
               (uint32_t)(s[2] & 0x3F) << 6 | (uint32_t)(s[3] & 0x3F);
    }
}

int weft__utf8_encode(uint32_t code, char *text)
{
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        text[0] = (char)(0xC0 | code >> 6);
        text[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        text[0] = (char)(0xE0 | code >> 12);
        text[1] = (char)(0x80 | (code >> 6 & 0x3F));
        text[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    text[0] = (char)(0xF0 | code >> 18);
    text[1] = (char)(0x80 | (code >> 12 & 0x3F));
    text[2] = (char)(0x80 | (code >> 6 & 0x3F));
    text[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

bool weft__utf8_is_hidden(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x206f) || code == 0xfeff ||
           (code >= 0xfff9 && code <= 0xfffb);
}
