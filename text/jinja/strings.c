/* text/jinja/strings.c -- the string methods that search, trim, split, join and pad. */
#include <string.h>

#include "core/io/utf8.h"
#include "text/jinja/node.h"
#include "text/jinja/tables.h"

/* ---- finding -------------------------------------------------------------------------------- */

size_t weft__jinja_find(jinja *j, jinja_value s, jinja_value part, size_t from)
{
    if (from > s.n || !weft__jinja_charge(j, (s.n - from) / 64 + 1))
        return s.n + 1;
    if (part.n == 0)
        return from;
    const char *found = memmem(s.as.s + from, s.n - from, part.as.s, part.n);
    return found ? (size_t)(found - s.as.s) : s.n + 1;
}

/* The position of the last `part` in s[..end], or s.n + 1. */
static size_t find_last(jinja *j, jinja_value s, jinja_value part, size_t end)
{
    size_t last = s.n + 1;
    const jinja_value within = weft__jinja_view(s.as.s, end);
    for (size_t at = weft__jinja_find(j, within, part, 0); at <= end && !j->status;
         at = weft__jinja_find(j, within, part, at + 1))
        last = at;
    return last;
}

static int64_t characters_before(jinja_value s, size_t bytes)
{
    int64_t n = 0;
    weft__jinja_length(weft__jinja_view(s.as.s, bytes), &n);
    return n;
}

/* Reduces a string to the part that the arguments "start" and "end" select; *before: the characters
 * before it. False if there is no such part, in which not even "" is found. */
static bool select_part(jinja *j, const char *what, const jinja_value given[3], jinja_value *s,
                        int64_t *before)
{
    int64_t n = 0, end = 0;
    weft__jinja_length(*s, &n);
    const jinja_value none = {.kind = JINJA_MISSING};
    if (!weft__jinja_integer_argument(j, what, given[1].kind == JINJA_NONE ? none : given[1], 0,
                                      before) ||
        !weft__jinja_integer_argument(j, what, given[2].kind == JINJA_NONE ? none : given[2], n,
                                      &end))
        return false;
    *before = *before >= 0 ? *before : *before + n > 0 ? *before + n : 0;
    end = end >= n ? n : end >= 0 ? end : end + n;
    if (*before > n || end < *before)
        return false;
    *s = weft__jinja_slice(j, *s, weft__jinja_int(*before), weft__jinja_int(end),
                           weft__jinja_none());
    return !j->status;
}

static jinja_value position(jinja *j, const char *what, jinja_value self, const jinja_args *args,
                            bool last, bool required)
{
    jinja_value given[3];
    int64_t before = 0;
    if (!weft__jinja_arguments(j, what, args, "sub,start,end", given) ||
        !weft__jinja_string_argument(j, what, given[0]))
        return weft__jinja_nothing();
    size_t at = SIZE_MAX;
    if (select_part(j, what, given, &self, &before))
        at = last ? find_last(j, self, given[0], self.n) : weft__jinja_find(j, self, given[0], 0);
    if (at > self.n && required)
        return weft__jinja_fail(j, "%s: the text was not found", what);
    return weft__jinja_int(at > self.n ? -1 : before + characters_before(self, at));
}

static jinja_value method_find(jinja *j, jinja_value self, const jinja_args *args)
{
    return position(j, "find", self, args, false, false);
}

static jinja_value method_rfind(jinja *j, jinja_value self, const jinja_args *args)
{
    return position(j, "rfind", self, args, true, false);
}

static jinja_value method_index(jinja *j, jinja_value self, const jinja_args *args)
{
    return position(j, "index", self, args, false, true);
}

static jinja_value method_rindex(jinja *j, jinja_value self, const jinja_args *args)
{
    return position(j, "rindex", self, args, true, true);
}

static jinja_value method_count(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given[3];
    int64_t count = 0, before = 0;
    if (!weft__jinja_arguments(j, "count", args, "sub,start,end", given) ||
        !weft__jinja_string_argument(j, "count", given[0]))
        return weft__jinja_nothing();
    if (!select_part(j, "count", given, &self, &before))
        return weft__jinja_int(0);
    const jinja_value part = given[0];
    if (part.n == 0)
        return weft__jinja_int(characters_before(self, self.n) + 1);
    for (size_t at = weft__jinja_find(j, self, part, 0); at <= self.n && !j->status; count++)
        at = weft__jinja_find(j, self, part, at + part.n);
    return weft__jinja_int(count);
}

static bool begins(jinja_value s, jinja_value part)
{
    return part.n <= s.n && (part.n == 0 || memcmp(s.as.s, part.as.s, part.n) == 0);
}

static bool ends(jinja_value s, jinja_value part)
{
    return part.n <= s.n && (part.n == 0 || memcmp(s.as.s + s.n - part.n, part.as.s, part.n) == 0);
}

/* startswith and endswith: the argument is a string or a tuple of strings. */
static jinja_value affix(jinja *j, const char *what, jinja_value self, const jinja_args *args,
                         bool test(jinja_value, jinja_value))
{
    jinja_value given[3];
    int64_t before = 0;
    bool held = false;
    if (!weft__jinja_arguments(j, what, args, "prefix,start,end", given))
        return weft__jinja_nothing();
    if (!select_part(j, what, given, &self, &before))
        return weft__jinja_bool(false);
    const jinja_value part = given[0];
    if (part.kind != JINJA_LIST || part.as.list->form != FORM_TUPLE)
        return weft__jinja_string_argument(j, what, part) ? weft__jinja_bool(test(self, part))
                                                          : weft__jinja_nothing();
    for (size_t i = 0; i < part.as.list->n && !held; i++) {
        if (!weft__jinja_string_argument(j, what, part.as.list->at[i]))
            return weft__jinja_nothing();
        held = test(self, part.as.list->at[i]);
    }
    return weft__jinja_bool(held);
}

static jinja_value method_startswith(jinja *j, jinja_value self, const jinja_args *args)
{
    return affix(j, "startswith", self, args, begins);
}

static jinja_value method_endswith(jinja *j, jinja_value self, const jinja_args *args)
{
    return affix(j, "endswith", self, args, ends);
}

static jinja_value method_removeprefix(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value part;
    if (!weft__jinja_arguments(j, "removeprefix", args, "prefix", &part) ||
        !weft__jinja_string_argument(j, "removeprefix", part))
        return weft__jinja_nothing();
    return begins(self, part) ? weft__jinja_view(self.as.s + part.n, self.n - part.n) : self;
}

static jinja_value method_removesuffix(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value part;
    if (!weft__jinja_arguments(j, "removesuffix", args, "suffix", &part) ||
        !weft__jinja_string_argument(j, "removesuffix", part))
        return weft__jinja_nothing();
    return ends(self, part) ? weft__jinja_view(self.as.s, self.n - part.n) : self;
}

/* ---- trimming ------------------------------------------------------------------------------- */

/* Whether the character is trimmed: one of `characters` or, by default, white space. */
static bool goes(const char *text, int size, jinja_value characters)
{
    if (characters.kind != JINJA_STRING)
        return weft__jinja_space(weft__utf8_decode(text, size));
    for (size_t i = 0; i < characters.n;) {
        const int other = weft__utf8_step(characters.as.s + i, characters.n - i);
        if (other == size && memcmp(characters.as.s + i, text, (size_t)size) == 0)
            return true;
        i += other > 0 ? (size_t)other : 1;
    }
    return false;
}

jinja_value weft__jinja_trim(jinja *j, jinja_value s, jinja_value characters, bool left, bool right)
{
    size_t start = 0, end = s.n;
    if (characters.kind != JINJA_MISSING && characters.kind != JINJA_NONE &&
        !weft__jinja_string_argument(j, "strip", characters))
        return weft__jinja_nothing();
    while (left && start < end && weft__jinja_charge(j, characters.n / 16)) {
        const int size = weft__utf8_step(s.as.s + start, end - start);
        if (size <= 0 || !goes(s.as.s + start, size, characters))
            break;
        start += (size_t)size;
    }
    while (right && start < end && weft__jinja_charge(j, characters.n / 16)) {
        size_t last = end - 1;
        while (last > start && ((unsigned char)s.as.s[last] & 0xc0) == 0x80)
            last--;
        if (!goes(s.as.s + last, (int)(end - last), characters))
            break;
        end = last;
    }
    s.as.s += start;
    s.n = end - start;
    return s;
}

static jinja_value trim_method(jinja *j, const char *what, jinja_value self, const jinja_args *args,
                               bool left, bool right)
{
    jinja_value characters;
    return weft__jinja_arguments(j, what, args, "chars", &characters)
               ? weft__jinja_trim(j, self, characters, left, right)
               : weft__jinja_nothing();
}

static jinja_value method_strip(jinja *j, jinja_value self, const jinja_args *args)
{
    return trim_method(j, "strip", self, args, true, true);
}

static jinja_value method_lstrip(jinja *j, jinja_value self, const jinja_args *args)
{
    return trim_method(j, "lstrip", self, args, true, false);
}

static jinja_value method_rstrip(jinja *j, jinja_value self, const jinja_args *args)
{
    return trim_method(j, "rstrip", self, args, false, true);
}

/* ---- splitting and joining ------------------------------------------------------------------ */

static jinja_value piece(jinja_value s, size_t start, size_t end)
{
    return weft__jinja_view(s.as.s + start, end - start);
}

static size_t space_size(jinja_value s, size_t at)
{
    const int size = at < s.n ? weft__utf8_step(s.as.s + at, s.n - at) : 0;
    return size > 0 && weft__jinja_space(weft__utf8_decode(s.as.s + at, size)) ? (size_t)size : 0;
}

/* Splits at white space, at most `most` times. */
static void split_words(jinja *j, jinja_value s, int64_t most, jinja_value out)
{
    for (size_t i = 0; i < s.n && !j->status;) {
        for (size_t size = 0; (size = space_size(s, i)) > 0;)
            i += size;
        size_t end = i;
        if (most-- == 0) {
            end = weft__jinja_trim(j, piece(s, i, s.n), weft__jinja_none(), false, true).n + i;
            if (end > i)
                weft__jinja_push(j, out, piece(s, i, end));
            return;
        }
        while (end < s.n && space_size(s, end) == 0)
            end++;
        if (end > i)
            weft__jinja_push(j, out, piece(s, i, end));
        i = end;
    }
}

static void split_at(jinja *j, jinja_value s, jinja_value separator, int64_t most, jinja_value out)
{
    size_t start = 0;
    while (!j->status) {
        const size_t at = most-- == 0 ? s.n + 1 : weft__jinja_find(j, s, separator, start);
        weft__jinja_push(j, out, piece(s, start, at > s.n ? s.n : at));
        if (at > s.n)
            break;
        start = at + separator.n;
    }
}

/* Splits from the right. */
static void split_back(jinja *j, jinja_value s, jinja_value separator, int64_t most,
                       jinja_value out)
{
    size_t end = s.n;
    while (!j->status) {
        const size_t at = most-- == 0 ? s.n + 1 : find_last(j, s, separator, end);
        const size_t start = at > s.n ? 0 : at + separator.n;
        weft__jinja_push(j, out, piece(s, start, end));
        if (at > s.n)
            break;
        end = at;
    }
    for (size_t i = 0, k = out.as.list->n; !j->status && i + 1 < k; i++) {
        const jinja_value swap = out.as.list->at[i];
        out.as.list->at[i] = out.as.list->at[--k];
        out.as.list->at[k] = swap;
    }
}

static jinja_value split(jinja *j, const char *what, jinja_value self, const jinja_args *args,
                         bool back)
{
    jinja_value given[2];
    int64_t most = -1;
    if (!weft__jinja_arguments(j, what, args, "sep,maxsplit", given) ||
        !weft__jinja_integer_argument(j, what, given[1], -1, &most))
        return weft__jinja_nothing();
    const jinja_value out = weft__jinja_list(j, FORM_LIST);
    const bool words = given[0].kind == JINJA_MISSING || given[0].kind == JINJA_NONE;
    if (!words && !weft__jinja_string_argument(j, what, given[0]))
        return weft__jinja_nothing();
    if (!words && given[0].n == 0)
        return weft__jinja_fail(j, "%s: the separator is empty", what);
    if (words && back && most >= 0)
        return weft__jinja_fail(j, "%s: expected a separator with maxsplit", what);
    if (words)
        split_words(j, self, most, out);
    else if (back)
        split_back(j, self, given[0], most, out);
    else
        split_at(j, self, given[0], most, out);
    return out;
}

static jinja_value method_split(jinja *j, jinja_value self, const jinja_args *args)
{
    return split(j, "split", self, args, false);
}

static jinja_value method_rsplit(jinja *j, jinja_value self, const jinja_args *args)
{
    return split(j, "rsplit", self, args, true);
}

/* The size of the line end at a position, or 0. As in Python, line ends are \r\n, \r,
 * \n, \v, \f, \x1c to \x1e, U+0085, U+2028 and U+2029. */
static size_t line_end(jinja_value s, size_t at)
{
    const int size = weft__utf8_step(s.as.s + at, s.n - at);
    const uint32_t code = size > 0 ? weft__utf8_decode(s.as.s + at, size) : 0;
    if (code == '\r' && at + 1 < s.n && s.as.s[at + 1] == '\n')
        return 2;
    const bool ends_line = (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) ||
                           code == 0x85 || code == 0x2028 || code == 0x2029;
    return ends_line ? (size_t)size : 0;
}

static jinja_value method_splitlines(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value keep;
    if (!weft__jinja_arguments(j, "splitlines", args, "keepends", &keep))
        return weft__jinja_nothing();
    const jinja_value out = weft__jinja_list(j, FORM_LIST);
    size_t start = 0;
    for (size_t i = 0; i < self.n && !j->status;) {
        const size_t size = line_end(self, i);
        if (size > 0) {
            weft__jinja_push(j, out, piece(self, start, weft__jinja_truth(j, keep) ? i + size : i));
            start = i + size;
        }
        i += size > 0 ? size : 1;
    }
    if (start < self.n)
        weft__jinja_push(j, out, piece(self, start, self.n));
    return out;
}

static jinja_value partition(jinja *j, const char *what, jinja_value self, const jinja_args *args,
                             bool last)
{
    jinja_value part;
    if (!weft__jinja_arguments(j, what, args, "sep", &part) ||
        !weft__jinja_string_argument(j, what, part))
        return weft__jinja_nothing();
    if (part.n == 0)
        return weft__jinja_fail(j, "%s: the separator is empty", what);
    const size_t at = last ? find_last(j, self, part, self.n) : weft__jinja_find(j, self, part, 0);
    const bool found = at <= self.n;
    const jinja_value empty = weft__jinja_view("", 0), out = weft__jinja_list(j, FORM_TUPLE);
    weft__jinja_push(j, out, found ? piece(self, 0, at) : last ? empty : self);
    weft__jinja_push(j, out, found ? part : empty);
    weft__jinja_push(j, out, found ? piece(self, at + part.n, self.n) : last ? self : empty);
    return out;
}

static jinja_value method_partition(jinja *j, jinja_value self, const jinja_args *args)
{
    return partition(j, "partition", self, args, false);
}

static jinja_value method_rpartition(jinja *j, jinja_value self, const jinja_args *args)
{
    return partition(j, "rpartition", self, args, true);
}

static jinja_value method_join(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given;
    jinja_buffer out = {0};
    if (!weft__jinja_arguments(j, "join", args, "iterable", &given))
        return weft__jinja_nothing();
    const jinja_list *items = weft__jinja_items(j, given);
    for (size_t i = 0; items && i < items->n && !j->status; i++) {
        if (!weft__jinja_string_argument(j, "join", items->at[i]))
            return weft__jinja_nothing();
        if (i > 0)
            weft__jinja_append(j, &out, self.as.s, self.n);
        weft__jinja_append(j, &out, items->at[i].as.s, items->at[i].n);
    }
    return weft__jinja_taken(&out);
}

jinja_value weft__jinja_replace(jinja *j, jinja_value s, jinja_value old, jinja_value fresh,
                                int64_t count)
{
    jinja_buffer out = {0};
    size_t start = 0, from = 0;
    while (count-- != 0 && !j->status) {
        const size_t at = weft__jinja_find(j, s, old, from);
        if (at > s.n)
            break;
        weft__jinja_append(j, &out, s.as.s + start, at - start);
        weft__jinja_append(j, &out, fresh.as.s, fresh.n);
        start = at + old.n;
        from = start;
        if (old.n == 0) { /* between all characters, and at both ends */
            if (at >= s.n)
                break;
            from = at + (size_t)weft__utf8_step(s.as.s + at, s.n - at);
        }
    }
    weft__jinja_append(j, &out, s.as.s + start, s.n - start);
    return weft__jinja_taken(&out);
}

static jinja_value method_replace(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given[3];
    int64_t count = -1;
    if (!weft__jinja_arguments(j, "replace", args, "old,new,count", given) ||
        !weft__jinja_string_argument(j, "replace", given[0]) ||
        !weft__jinja_string_argument(j, "replace", given[1]) ||
        !weft__jinja_integer_argument(j, "replace", given[2], -1, &count))
        return weft__jinja_nothing();
    return weft__jinja_replace(j, self, given[0], given[1], count);
}

/* ---- padding -------------------------------------------------------------------------------- */

static jinja_value pad(jinja *j, const char *what, jinja_value self, const jinja_args *args,
                       int where)
{
    jinja_value given[2];
    jinja_buffer out = {0};
    int64_t width = 0;
    if (!weft__jinja_arguments(j, what, args, "width,fillchar", given) ||
        !weft__jinja_integer_argument(j, what, given[0], 0, &width))
        return weft__jinja_nothing();
    const jinja_value fill = given[1].kind == JINJA_STRING ? given[1] : weft__jinja_view(" ", 1);
    const int64_t missing = width - characters_before(self, self.n);
    /* If the padding is odd, Python puts the extra character left when the width is odd. */
    const int64_t left = missing <= 0 || where < 0 ? 0
                         : where > 0               ? missing
                                                   : missing / 2 + (missing & width & 1);
    for (int64_t i = 0; i < left && !j->status; i++)
        weft__jinja_append(j, &out, fill.as.s, fill.n);
    weft__jinja_append(j, &out, self.as.s, self.n);
    for (int64_t i = left; i < missing && weft__jinja_charge(j, 1); i++)
        weft__jinja_append(j, &out, fill.as.s, fill.n);
    return weft__jinja_taken(&out);
}

static jinja_value method_ljust(jinja *j, jinja_value self, const jinja_args *args)
{
    return pad(j, "ljust", self, args, -1);
}

static jinja_value method_rjust(jinja *j, jinja_value self, const jinja_args *args)
{
    return pad(j, "rjust", self, args, 1);
}

static jinja_value method_center(jinja *j, jinja_value self, const jinja_args *args)
{
    return pad(j, "center", self, args, 0);
}

static jinja_value method_format(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_format(j, self, args);
}

/* Zeros between a sign and the rest. */
static jinja_value method_zfill(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given;
    jinja_buffer out = {0};
    int64_t width = 0, n = 0;
    if (!weft__jinja_arguments(j, "zfill", args, "width", &given) ||
        !weft__jinja_integer_argument(j, "zfill", given, 0, &width))
        return weft__jinja_nothing();
    const size_t sign = self.n > 0 && (*self.as.s == '-' || *self.as.s == '+');
    weft__jinja_length(self, &n);
    weft__jinja_append(j, &out, self.as.s, sign);
    for (; n < width && !j->status; n++)
        weft__jinja_append(j, &out, "0", 1);
    weft__jinja_append(j, &out, self.as.s + sign, self.n - sign);
    return weft__jinja_taken(&out);
}

const jinja_row weft__jinja_string_methods[] = {
    {"strip", method_strip},
    {"lstrip", method_lstrip},
    {"rstrip", method_rstrip},
    {"split", method_split},
    {"rsplit", method_rsplit},
    {"splitlines", method_splitlines},
    {"partition", method_partition},
    {"rpartition", method_rpartition},
    {"join", method_join},
    {"replace", method_replace},
    {"startswith", method_startswith},
    {"endswith", method_endswith},
    {"removeprefix", method_removeprefix},
    {"removesuffix", method_removesuffix},
    {"find", method_find},
    {"rfind", method_rfind},
    {"index", method_index},
    {"rindex", method_rindex},
    {"zfill", method_zfill},
    {"count", method_count},
    {"ljust", method_ljust},
    {"rjust", method_rjust},
    {"center", method_center},
    {"format", method_format},
    {NULL, NULL},
};
