/* text/schema/string.c -- JSON strings: characters, escapes, lengths, patterns. */
#include "text/schema/machine.h"

enum string_phase { BODY, ESCAPE, HEX, LOW_SLASH, LOW_U, LOW_HEX };

bool weft__utf8_feed(uint32_t *value, uint32_t *missing, unsigned char byte)
{
    if (*missing == 0) {
        *missing = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
        *value = byte < 0x80 ? byte : byte & (0x3Fu >> *missing);
        return byte < 0x80 || (byte >= 0xC2 && byte <= 0xF4);
    }
    if ((byte & 0xC0) != 0x80)
        return false;
    /* No long forms, no surrogates, nothing beyond the last character. */
    if ((*missing == 2 && *value == 0 && byte < 0xA0) ||
        (*missing == 2 && *value == 0xD && byte >= 0xA0) ||
        (*missing == 3 && *value == 0 && byte < 0x90) ||
        (*missing == 3 && *value == 4 && byte >= 0x90))
        return false;
    *value = *value << 6 | (byte & 0x3Fu);
    --*missing;
    return true;
}

/* Whether one of the characters first .. last may come next. */
static bool any_may_come(const schema_choice *c, const string_part *s, uint32_t first,
                         uint32_t last)
{
    if (c->pattern)
        return weft__pattern_steps(c->pattern, s->state, first, last);
    return c->max_length == SCHEMA_UNBOUNDED || s->length < c->max_length;
}

/* Bytes to the end of the string, where `more` belong to a character that has begun. */
static int64_t missing_bytes(const schema_choice *c, const string_part *s, int64_t more)
{
    if (c->pattern)
        return 1 + (more ? more + weft__pattern_longest(c->pattern)
                         : weft__pattern_distance(c->pattern, s->state));
    const int64_t length = s->length + (more > 0);
    return 1 + more + (length < c->min_length ? c->min_length - length : 0);
}

static void push(machine *m, frame f, unsigned char phase, int64_t more)
{
    f.phase = phase;
    f.rest = missing_bytes(&m->schema->choices[f.choice], &f.as.string, more);
    weft__machine_emit(m, weft__machine_push(m, f));
}

static void add_character(machine *m, frame f)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    string_part *s = &f.as.string;
    const uint32_t character = s->value;
    s->value = s->missing = 0;
    if (c->pattern) {
        s->state = weft__pattern_step(c->pattern, s->state, character);
        if (s->state < 0)
            return;
    } else if (c->max_length != SCHEMA_UNBOUNDED) {
        if (s->length++ == c->max_length)
            return;
    } else if (s->length < c->min_length) {
        s->length++;
    }
    push(m, f, BODY, 0);
}

/* A byte of UTF-8. */
static void body_step(machine *m, frame f, unsigned char byte)
{
    string_part *s = &f.as.string;
    if (!weft__utf8_feed(&s->value, &s->missing, byte))
        return;
    if (s->missing == 0) {
        add_character(m, f);
        return;
    }
    const uint32_t shift = 6 * s->missing;
    uint32_t first = s->value << shift;
    const uint32_t last = first + (1u << shift) - 1;
    if (s->value == 0)
        first = s->missing == 2 ? 0x800 : 0x10000;
    if (any_may_come(&m->schema->choices[f.choice], s, first, last))
        push(m, f, BODY, s->missing);
}

static void escape_step(machine *m, frame f, unsigned char byte)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (byte == 'u') {
        f.as.string.value = 0;
        f.as.string.missing = 4;
        push(m, f, HEX, 4);
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
    const uint32_t shift = 4 * s->missing, first = s->value << shift;
    const uint32_t last = first + (1u << shift) - 1;
    /* The second half of a pair alone is no character; behind a first half that must come. */
    const bool low_half = first >= 0xDC00 && last < 0xE000;
    const bool high_half = first >= 0xD800 && last < 0xDC00;
    if (low_half || !any_may_come(&m->schema->choices[f.choice], s, first, last))
        return;
    if (s->missing > 0)
        push(m, f, HEX, s->missing + (high_half ? 6 : 0));
    else if (high_half)
        push(m, f, LOW_SLASH, 6);
    else
        add_character(m, f);
}

/* The second half of a pair: digits of DC00 to DFFF behind those of the first half. */
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
        push(m, f, LOW_HEX, s->missing);
        return;
    }
    s->value = 0x10000 + ((s->value >> 16 & 0x3FF) << 10) + (s->value & 0x3FF);
    add_character(m, f);
}

void weft__string_begin(machine *m, int choice, const frame *parent)
{
    push(m, (frame){.kind = FRAME_STRING, .choice = choice, .parent = parent}, BODY, 0);
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
            push(m, *top, LOW_U, 5);
        return;
    case LOW_U:
        if (byte == 'u') {
            frame f = *top;
            f.as.string.missing = 4;
            push(m, f, LOW_HEX, 4);
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
        /* Which characters an escape can write is seen at its next byte: \\u00XX, at the worst. */
        if (any_may_come(c, s, 0, 0x10FFFF))
            push(m, *top, ESCAPE, 5);
    } else if (byte == '"' && missing_bytes(c, s, 0) == 1) {
        weft__machine_complete(m, top->parent);
    }
}
