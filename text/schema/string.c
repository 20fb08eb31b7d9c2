/* text/schema/string.c -- JSON strings: characters, escapes, lengths, patterns. */
#include "core/hash.h"
#include "core/math.h"
#include "text/schema/machine.h"

enum string_phase { BODY, ESCAPE, HEX, LOW_SLASH, LOW_U, LOW_HEX };

enum { MOST_BLANK = 32 }; /* whitespace characters in succession */

bool weft__utf8_feed(uint32_t *value, uint32_t *missing, unsigned char byte)
{
    if (*missing == 0) {
        *missing = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
        *value = byte < 0x80 ? byte : byte & (0x3Fu >> *missing);
        return byte < 0x80 || (byte >= 0xC2 && byte <= 0xF4);
    }
    if ((byte & 0xC0) != 0x80)
        return false;
    /* No overlong forms, no surrogates, nothing above U+10FFFF. */
    if ((*missing == 2 && *value == 0 && byte < 0xA0) ||
        (*missing == 2 && *value == 0xD && byte >= 0xA0) ||
        (*missing == 3 && *value == 0 && byte < 0x90) ||
        (*missing == 3 && *value == 4 && byte >= 0x90))
        return false;
    *value = *value << 6 | (byte & 0x3Fu);
    --*missing;
    return true;
}

/* The number of characters that may follow; negative: any. */
static int64_t left(const schema_choice *c, const string_part *s)
{
    return c->max_length == SCHEMA_UNBOUNDED ? -1 : c->max_length - s->length;
}

static int64_t least_length(const schema_choice *c, const string_part *s)
{
    return s->distinct && c->min_length == 0 ? 1 : c->min_length;
}

/* The fewest bytes from after the next character, one of first .. last, to the closing quote;
 * SCHEMA_NEVER when none of these characters is allowed. */
static int64_t after_one_of(const schema_choice *c, const string_part *s, uint32_t first,
                            uint32_t last)
{
    if (left(c, s) == 0)
        return SCHEMA_NEVER;
    if (c->pattern) {
        const int32_t nearest =
            weft__pattern_nearest(c->pattern, s->state, first, last, left(c, s) - 1);
        return nearest == INT32_MAX ? SCHEMA_NEVER : nearest;
    }
    const int64_t least = least_length(c, s);
    return s->length + 1 < least ? least - s->length - 1 : 0;
}

/* The fewest bytes to the closing quote, between two characters. */
static int64_t between(const schema_choice *c, const string_part *s)
{
    if (c->pattern) {
        const int32_t distance = weft__pattern_distance(c->pattern, s->state, left(c, s));
        return distance == INT32_MAX ? SCHEMA_NEVER : distance;
    }
    const int64_t least = least_length(c, s);
    if (s->repeated)
        return left(c, s) == 0 ? SCHEMA_NEVER : 1;
    return s->length < least ? least - s->length : 0;
}

/* The same within four hexadecimal digits of which `missing` are missing; s->value has the others.
 * The first half of a surrogate pair needs the six bytes of the second; a second half alone is
 * invalid. */
static int64_t after_digits(const schema_choice *c, const string_part *s)
{
    const uint32_t shift = 4 * s->missing, first = s->value << shift;
    const uint32_t last = first + (1u << shift) - 1;
    int64_t least = SCHEMA_NEVER;
    if (first < 0xD800)
        least = after_one_of(c, s, first, last < 0xD800 ? last : 0xD7FF);
    if (last > 0xDFFF)
        least = weft__smaller(least, after_one_of(c, s, first > 0xDFFF ? first : 0xE000, last));
    const uint32_t low = first > 0xD800 ? first : 0xD800, high = last < 0xDBFF ? last : 0xDBFF;
    if (low <= high)
        least = weft__smaller(least, 6 + after_one_of(c, s, 0x10000 + ((low - 0xD800) << 10),
                                                      0x10000 + ((high - 0xD800) << 10) + 0x3FF));
    return least + s->missing;
}

/* The same after a backslash. */
static int64_t after_escape(const schema_choice *c, string_part s)
{
    int64_t least = SCHEMA_NEVER;
    for (const char *at = "\"\\/\b\f\n\r\t"; *at; at++)
        least = weft__smaller(least, 1 + after_one_of(c, &s, (uint32_t)*at, (uint32_t)*at));
    s.value = 0;
    s.missing = 4;
    return weft__smaller(least, 1 + after_digits(c, &s));
}

/* The same within the second \u of a pair: `done` digits of it are in the low bits of s->value,
 * above them the four of the first half. */
static int64_t after_low_digits(const schema_choice *c, const string_part *s, uint32_t done)
{
    const uint32_t half = s->value >> (4 * done), shift = 4 * (4 - done);
    uint32_t low = (s->value << shift) & 0xFFFF, high = low + (1u << shift) - 1;
    low = low < 0xDC00 ? 0xDC00 : low;
    high = high > 0xDFFF ? 0xDFFF : high;
    if (low > high)
        return SCHEMA_NEVER;
    const uint32_t base = 0x10000 + ((half & 0x3FF) << 10);
    return 4 - done + after_one_of(c, s, base + (low & 0x3FF), base + (high & 0x3FF));
}

/* The same within a UTF-8 character. */
static int64_t after_utf8(const schema_choice *c, const string_part *s)
{
    const uint32_t shift = 6 * s->missing;
    uint32_t first = s->value << shift, last = first + (1u << shift) - 1;
    if (s->value == 0) /* no overlong forms */
        first = s->missing == 2 ? 0x800 : 0x10000;
    if (last > 0x10FFFF)
        last = 0x10FFFF;
    int64_t least = SCHEMA_NEVER;
    if (first < 0xD800)
        least = after_one_of(c, s, first, last < 0xD800 ? last : 0xD7FF);
    if (last > 0xDFFF)
        least = weft__smaller(least, after_one_of(c, s, first > 0xDFFF ? first : 0xE000, last));
    return least + s->missing;
}

/* The fewest bytes to the end of the string, including its quote: the frame's `rest`. From every
 * state some byte leads to a state that is one byte nearer to the end. */
static int64_t missing_bytes(const schema_choice *c, const string_part *s, unsigned char phase)
{
    switch ((enum string_phase)phase) {
    case BODY:
        return 1 + (s->missing > 0 ? after_utf8(c, s) : between(c, s));
    case ESCAPE:
        return 1 + after_escape(c, *s);
    case HEX:
        return 1 + after_digits(c, s);
    case LOW_SLASH:
        return 3 + after_low_digits(c, s, 0);
    case LOW_U:
        return 2 + after_low_digits(c, s, 0);
    case LOW_HEX:
        return 1 + after_low_digits(c, s, 4 - s->missing);
    }
    return SCHEMA_NEVER;
}

static void push(machine *m, frame f, unsigned char phase)
{
    f.phase = phase;
    f.rest = missing_bytes(&m->schema->choices[f.choice], &f.as.string, phase);
    weft__machine_emit(m, weft__machine_push(m, f));
}

static void add_character(machine *m, frame f)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    string_part *s = &f.as.string;
    const uint32_t character = s->value;
    const bool blank =
        character == ' ' || character == '\n' || character == '\r' || character == '\t';
    s->value = s->missing = 0;
    if (blank && !c->pattern && f.blank++ == MOST_BLANK)
        return;
    if (!blank)
        f.blank = 0;
    if (c->pattern) {
        s->state = weft__pattern_step(c->pattern, s->state, character);
        if (s->state < 0)
            return;
    }
    if (left(c, s) == 0)
        return;
    if (c->max_length != SCHEMA_UNBOUNDED || s->length < least_length(c, s))
        s->length++;
    if (s->distinct) {
        s->mark = weft__mix(s->mark, character);
        s->repeated = weft__array_has(f.parent, s->mark);
    }
    push(m, f, BODY);
}

/* Reads a byte of UTF-8. */
static void body_step(machine *m, frame f, unsigned char byte)
{
    string_part *s = &f.as.string;
    if (!weft__utf8_feed(&s->value, &s->missing, byte))
        return;
    if (s->missing == 0) {
        add_character(m, f);
        return;
    }
    push(m, f, BODY);
}

static void escape_step(machine *m, frame f, unsigned char byte)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (byte == 'u') {
        f.as.string.value = 0;
        f.as.string.missing = 4;
        push(m, f, HEX);
        return;
    }
    for (const char *at = letters; *at; at += 2)
        if ((unsigned char)at[0] == byte) {
            f.as.string.value = (unsigned char)at[1];
            add_character(m, f);
            return;
        }
}

static bool hex_digit(unsigned char byte, uint32_t *value)
{
    if (byte >= '0' && byte <= '9')
        *value = byte - '0';
    else if (byte >= 'a' && byte <= 'f')
        *value = byte - 'a' + 10u;
    else if (byte >= 'A' && byte <= 'F')
        *value = byte - 'A' + 10u;
    else
        return false;
    return true;
}

static void hex_step(machine *m, frame f, unsigned char byte)
{
    string_part *s = &f.as.string;
    uint32_t digit;
    if (!hex_digit(byte, &digit))
        return;
    s->value = s->value << 4 | digit;
    s->missing--;
    if (s->missing > 0)
        push(m, f, HEX);
    else if (s->value >= 0xD800 && s->value < 0xDC00)
        push(m, f, LOW_SLASH);
    else if (s->value < 0xDC00 || s->value > 0xDFFF)
        add_character(m, f);
}

/* Reads the second half of a pair: digits DC00 to DFFF after those of the first half. */
static void low_step(machine *m, frame f, unsigned char byte)
{
    string_part *s = &f.as.string;
    uint32_t digit;
    if (!hex_digit(byte, &digit) || (s->missing == 4 && digit != 0xD) ||
        (s->missing == 3 && digit < 0xC))
        return;
    s->value = s->value << 4 | digit;
    s->missing--;
    if (s->missing > 0) {
        push(m, f, LOW_HEX);
        return;
    }
    s->value = 0x10000 + ((s->value >> 16 & 0x3FF) << 10) + (s->value & 0x3FF);
    add_character(m, f);
}

void weft__string_begin(machine *m, int choice, const frame *parent)
{
    push(m,
         (frame){.kind = FRAME_STRING,
                 .choice = choice,
                 .parent = parent,
                 .as.string.distinct = weft__array_is_distinct(m, parent)},
         BODY);
}

void weft__string_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    const string_part *s = &top->as.string;
    switch (top->phase) {
    case ESCAPE:
        escape_step(m, *top, byte);
        return;
    case HEX:
        hex_step(m, *top, byte);
        return;
    case LOW_SLASH:
        if (byte == '\\')
            push(m, *top, LOW_U);
        return;
    case LOW_U:
        if (byte == 'u') {
            frame f = *top;
            f.as.string.missing = 4;
            push(m, f, LOW_HEX);
        }
        return;
    case LOW_HEX:
        low_step(m, *top, byte);
        return;
    default:
        break;
    }
    if (s->missing > 0 || (byte >= ' ' && byte != '"' && byte != '\\')) {
        body_step(m, *top, byte);
    } else if (byte == '\\') {
        push(m, *top, ESCAPE);
    } else if (byte == '"' && between(c, s) == 0) {
        weft__machine_complete(m, s->distinct ? weft__array_mark(m, top->parent, s->mark)
                                              : top->parent);
    }
}
