/* train/data/parquet/json.c -- converts values of Parquet files to JSON.
 *
 * Decimals become numbers with their digits; dates, times and timestamps texts of ISO 8601. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "core/io/utf8.h"
#include "train/data/parquet/parquet.h"

static json_object *fail(const char **error, const char *what)
{
    *error = what;
    return NULL;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* A double, which prints with the fewest digits that are read as the same double. */
static json_object *new_double(double number)
{
    char text[40];
    if (!isfinite(number))
        return json_object_new_double(number);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    char *comma = strchr(text, ','); /* of the locale */
    if (comma)
        *comma = '.';
    if (strpbrk(text, ".e") == NULL)
        strcat(text, ".0");
    return json_object_new_double_s(number, text);
}

/* A number with these digits, as in JSON. */
static json_object *parse_number(const char *text, size_t n, const char **error)
{
    json_object *out = NULL;
    const weft_status status = weft__json_parse_value(text, n, "", &out);
    return status == WEFT_OK || status == WEFT_MEMORY ? out : fail(error, "an invalid number");
}

static double half_of(const uint8_t *at)
{
    const int bits = at[0] | at[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

/* ---- decimals ------------------------------------------------------------------------------- */

enum { MOST_BYTES = 32, MOST_DIGITS = 80 };

/* The digits of the absolute value of a big-endian integer of n bytes; *negative is its sign. */
static int digits_of(const uint8_t *bytes, size_t n, char out[MOST_DIGITS], bool *negative)
{
    uint8_t left[MOST_BYTES];
    int count = 0, carry = 1;
    *negative = n > 0 && bytes[0] >= 0x80;
    for (size_t i = n; i-- > 0;) {
        left[i] = *negative ? (uint8_t)~bytes[i] : bytes[i];
        if (*negative) {
            carry += left[i];
            left[i] = (uint8_t)carry;
            carry >>= 8;
        }
    }
    for (bool more = true; more;) { /* divides by 10 */
        int rest = 0;
        more = false;
        for (size_t i = 0; i < n; i++) {
            const int part = rest << 8 | left[i];
            left[i] = (uint8_t)(part / 10);
            rest = part % 10;
            more |= left[i] != 0;
        }
        out[count++] = (char)('0' + rest);
    }
    return count; /* the lowest digit first */
}

static json_object *new_decimal(const weft__parquet_element *e, const weft__parquet_value *v,
                                const char **error)
{
    uint8_t whole[8];
    const uint8_t *bytes = v->bytes;
    size_t n = v->n, used = 0;
    char digits[MOST_DIGITS], text[2 * MOST_DIGITS + 4];
    bool negative;
    if (e->type == WEFT__PARQUET_INT32 || e->type == WEFT__PARQUET_INT64) {
        for (int i = 0; i < 8; i++)
            whole[i] = (uint8_t)((uint64_t)v->whole >> (56 - 8 * i));
        bytes = whole;
        n = sizeof whole;
    }
    if (n > MOST_BYTES || e->scale < 0 || e->scale > MOST_DIGITS)
        return fail(error, "a decimal number has too many digits");
    int count = digits_of(bytes, n, digits, &negative);
    if (negative)
        text[used++] = '-';
    if (count <= e->scale)
        text[used++] = '0';
    for (int i = count - 1 > (int)e->scale ? count - 1 : (int)e->scale; i >= 0; i--) {
        if (i + 1 == e->scale)
            text[used++] = '.';
        if (i < count || i < e->scale)
            text[used++] = i < count ? digits[i] : '0';
    }
    return parse_number(text, used, error);
}

/* ---- times ---------------------------------------------------------------------------------- */

/* The date of a day after 1970-01-01, in the Gregorian calendar. The algorithm is Howard Hinnant's
 * (http://howardhinnant.github.io/date_algorithms.html, civil_from_days). */
static bool write_date(int64_t day, char *out, size_t size)
{
    enum { ERA = 146097, TO_1970 = 719468 }; /* days of 400 years, and from 0000-03-01 */
    const int64_t most = INT64_C(4000000);   /* more than 10,000 years */
    if (day < -most || day > most)
        return false;
    const int64_t at = day + TO_1970, era = (at >= 0 ? at : at - ERA + 1) / ERA;
    const int64_t in_era = at - era * ERA;
    const int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    const int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * in_year + 2) / 153;
    const int64_t in_month = in_year - (153 * month + 2) / 5 + 1;
    const int64_t number = month < 10 ? month + 3 : month - 9;
    const int64_t full = year + era * 400 + (number <= 2);
    if (full < 1 || full > 9999)
        return false;
    snprintf(out, size, "%04d-%02d-%02d", (int)full, (int)number, (int)in_month);
    return true;
}

static int64_t unit_of(int digits)
{
    return digits == 3 ? 1000 : digits == 6 ? 1000000 : 1000000000;
}

/* The time of day after `n` units since midnight; a fraction of 0 is not written. */
static void write_time(int64_t n, int digits, char *out, size_t size)
{
    const int64_t unit = unit_of(digits), second = n / unit;
    int used = snprintf(out, size, "%02d:%02d:%02d", (int)(second / 3600), (int)(second / 60 % 60),
                        (int)(second % 60));
    if (n % unit != 0)
        snprintf(out + used, size - (size_t)used, ".%0*lld", digits, (long long)(n % unit));
}

static json_object *new_timestamp(int64_t day, int64_t rest, int digits, bool zulu,
                                  const char **error)
{
    char date[32], time[40], text[80];
    if (!write_date(day, date, sizeof date))
        return fail(error, "a date is not between the years 1 and 9999");
    write_time(rest, digits, time, sizeof time);
    snprintf(text, sizeof text, "%sT%s%s", date, time, zulu ? "Z" : "");
    return json_object_new_string(text);
}

static json_object *new_time(const weft__parquet_element *e, const weft__parquet_value *v,
                             const char **error)
{
    char text[40];
    const int64_t in_day = 86400 * unit_of(e->digits);
    if (e->digits == 0)
        return fail(error, "a time has an unknown unit");
    const int64_t rest = (v->whole % in_day + in_day) % in_day;
    if (e->meaning == WEFT__PARQUET_TIMESTAMP)
        return new_timestamp(v->whole / in_day - (v->whole % in_day < 0), rest, e->digits, e->zulu,
                             error);
    if (v->whole != rest)
        return fail(error, "a time is not within a day");
    write_time(rest, e->digits, text, sizeof text);
    return json_object_new_string(text);
}

/* A timestamp of older writers: nanoseconds within a day, and the day's Julian number. */
static json_object *new_int96(const weft__parquet_value *v, const char **error)
{
    enum { JULIAN_1970 = 2440588 };
    const int64_t in_day = 86400 * unit_of(9);
    const int64_t rest = (int64_t)weft__parquet_bits(v->bytes, 8, 0, 64);
    const int64_t day = (int32_t)weft__parquet_bits(v->bytes + 8, 4, 0, 32) - (int64_t)JULIAN_1970;
    if (rest < 0 || rest >= in_day)
        return fail(error, "a time is not within a day");
    return new_timestamp(day, rest, 9, false, error);
}

static json_object *new_date(const weft__parquet_value *v, const char **error)
{
    char text[32];
    if (!write_date(v->whole, text, sizeof text))
        return fail(error, "a date is not between the years 1 and 9999");
    return json_object_new_string(text);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static json_object *new_text(const weft__parquet_value *v, const char **error)
{
    if (v->n > WEFT__JSON_MAX_BYTES)
        return fail(error, "a text is too long");
    if (weft__utf8_valid((const char *)v->bytes, v->n) != v->n)
        return fail(error, "a text is not UTF-8");
    return json_object_new_string_len((const char *)v->bytes, (int)v->n);
}

static json_object *new_uuid(const weft__parquet_value *v)
{
    char text[40];
    size_t used = 0;
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%02x",
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", v->bytes[i]);
    return json_object_new_string(text);
}

static json_object *new_unsigned(const weft__parquet_element *e, const weft__parquet_value *v,
                                 const char **error)
{
    char text[24];
    const uint64_t number =
        e->type == WEFT__PARQUET_INT32 ? (uint32_t)v->whole : (uint64_t)v->whole;
    const int n = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return parse_number(text, (size_t)n, error);
}

static json_object *new_plain(const weft__parquet_element *e, const weft__parquet_value *v,
                              const char **error)
{
    switch (e->type) {
    case WEFT__PARQUET_BOOLEAN:
        return json_object_new_boolean(v->whole != 0);
    case WEFT__PARQUET_INT96:
        return new_int96(v, error);
    case WEFT__PARQUET_FLOAT:
    case WEFT__PARQUET_DOUBLE:
        return new_double(v->number);
    default:
        return json_object_new_int64(v->whole);
    }
}

json_object *weft__parquet_json(const weft__parquet_element *element,
                                const weft__parquet_value *value, const char **error)
{
    *error = NULL;
    switch (element->meaning) {
    case WEFT__PARQUET_TEXT:
        return new_text(value, error);
    case WEFT__PARQUET_UNSIGNED:
        return new_unsigned(element, value, error);
    case WEFT__PARQUET_DECIMAL:
        return new_decimal(element, value, error);
    case WEFT__PARQUET_DATE:
        return new_date(value, error);
    case WEFT__PARQUET_TIME:
    case WEFT__PARQUET_TIMESTAMP:
        return new_time(element, value, error);
    case WEFT__PARQUET_HALF:
        return new_double(half_of(value->bytes));
    case WEFT__PARQUET_UUID:
        return new_uuid(value);
    default:
        return new_plain(element, value, error);
    }
}
