/* text/jinja/case.c -- upper, lower and title case, and character classes of strings. Uses
 * Unicode's simple case mappings, and the common letters whose upper case is several letters. */
#include <string.h>

#include <utf8proc.h>

#include "core/io/utf8.h"
#include "text/jinja/tables.h"

bool weft__jinja_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
           code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

static void append_upper(jinja *j, jinja_buffer *out, uint32_t code, bool title)
{
    static const char *const ligatures[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};
    static const char *const titles[] = {"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
    const char *several = NULL;
    if (code == 0xdf)
        several = title ? "Ss" : "SS";
    else if (code >= 0xfb00 && code <= 0xfb06)
        several = title ? titles[code - 0xfb00] : ligatures[code - 0xfb00];
    if (several)
        weft__jinja_append(j, out, several, strlen(several));
    else
        weft__jinja_append_code(j, out,
                                (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)code)
                                                 : utf8proc_toupper((utf8proc_int32_t)code)));
}

/* Whether the letter has cases. */
static bool cased(uint32_t code)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

static uint32_t next_code(jinja_value s, size_t *at)
{
    const int size = weft__utf8_step(s.as.s + *at, s.n - *at);
    const uint32_t code = size > 0 ? weft__utf8_decode(s.as.s + *at, size) : 0xfffd;
    *at += size > 0 ? (size_t)size : 1;
    return code;
}

jinja_value weft__jinja_change_case(jinja *j, jinja_value s, jinja_case how)
{
    jinja_buffer out = {0};
    bool inside = false; /* the previous character was a cased letter */
    for (size_t i = 0; i < s.n && !j->status;) {
        const bool first = i == 0;
        const uint32_t code = next_code(s, &i);
        const bool title = how == CASE_TITLE ? !inside : how == CASE_CAPITALIZE && first;
        if (how == CASE_UPPER || title)
            append_upper(j, &out, code, title);
        else
            weft__jinja_append_code(j, &out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
        inside = cased(code);
    }
    jinja_value changed = weft__jinja_taken(&out);
    changed.safe = s.safe;
    return changed;
}

static jinja_value method_upper(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "upper", args, "", NULL)
               ? weft__jinja_change_case(j, self, CASE_UPPER)
               : weft__jinja_undefined(NULL);
}

static jinja_value method_lower(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "lower", args, "", NULL)
               ? weft__jinja_change_case(j, self, CASE_LOWER)
               : weft__jinja_undefined(NULL);
}

static jinja_value method_title(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "title", args, "", NULL)
               ? weft__jinja_change_case(j, self, CASE_TITLE)
               : weft__jinja_undefined(NULL);
}

static jinja_value method_capitalize(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "capitalize", args, "", NULL)
               ? weft__jinja_change_case(j, self, CASE_CAPITALIZE)
               : weft__jinja_undefined(NULL);
}

typedef enum letters { ALPHA, ALNUM, DIGIT, SPACE, ASCII } letters;

static bool fits(uint32_t code, letters what)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    const bool alpha = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    const bool number =
        c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    switch (what) {
    case ALPHA:
        return alpha;
    case ALNUM:
        return alpha || number;
    case DIGIT:
        return c == UTF8PROC_CATEGORY_ND;
    case ASCII:
        return code < 0x80;
    case SPACE:
        break;
    }
    return weft__jinja_space(code);
}

static jinja_value all_fit(jinja *j, jinja_value self, letters what)
{
    bool fit = self.n > 0;
    weft__jinja_charge(j, self.n / 16);
    for (size_t i = 0; i < self.n && fit;)
        fit = fits(next_code(self, &i), what);
    return weft__jinja_bool(fit);
}

static jinja_value method_isalpha(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return all_fit(j, self, ALPHA);
}

static jinja_value method_isalnum(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return all_fit(j, self, ALNUM);
}

static jinja_value method_isdigit(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return all_fit(j, self, DIGIT);
}

static jinja_value method_isspace(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return all_fit(j, self, SPACE);
}

static jinja_value method_isascii(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return self.n == 0 ? weft__jinja_bool(true) : all_fit(j, self, ASCII);
}

/* Whether the string has cased letters, all of them of the given case. */
static jinja_value one_case(jinja *j, jinja_value self, bool upper)
{
    bool some = false, fit = true;
    weft__jinja_charge(j, self.n / 16);
    for (size_t i = 0; i < self.n && fit;) {
        const uint32_t code = next_code(self, &i);
        const bool big = utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_LU;
        fit = !cased(code) || big == upper;
        some = some || cased(code);
    }
    return weft__jinja_bool(some && fit);
}

static jinja_value method_isupper(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return one_case(j, self, true);
}

static jinja_value method_islower(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    return one_case(j, self, false);
}

const jinja_row weft__jinja_case_methods[] = {
    {"upper", method_upper},       {"lower", method_lower},
    {"title", method_title},       {"capitalize", method_capitalize},
    {"isalpha", method_isalpha},   {"isalnum", method_isalnum},
    {"isdigit", method_isdigit},   {"isdecimal", method_isdigit},
    {"isnumeric", method_isdigit}, {"isspace", method_isspace},
    {"isascii", method_isascii},   {"isupper", method_isupper},
    {"islower", method_islower},   {NULL, NULL},
};
