/* text/schema/format.c -- JSON Schema's string formats as patterns, OpenAPI's number formats as
 * ranges.
 *
 * date, time and duration: RFC 3339 and its appendix A; uri and its relatives: RFC 3986, RFC 3987
 * and RFC 6570; ipv6: RFC 4291; hostname: RFC 1123; email: RFC 5321; json-pointer: RFC 6901.
 */
#include "text/schema/format.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALL(inside) "^(?:" inside ")$"

/* ---- dates and times ------------------------------------------------------------------------- */

#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"                                \
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
/* Calendars of programming languages, such as Python's, begin with the year 1. */
#define AFTER_YEAR_0(inside) "^(?!0000)(?:" inside ")$"
#define HOUR_MINUTE "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define FRACTION "(?:\\.[0-9]+)?"
#define OFFSET "(?:[Zz]|[+-]" HOUR_MINUTE ")"
/* Leap seconds occur at the end of a day in UTC; only those written in UTC are generated. */
#define TIME                                                                                       \
    "(?:" HOUR_MINUTE ":[0-5][0-9]" FRACTION OFFSET "|23:59:60" FRACTION "(?:[Zz]|[+-]00:00))"
#define ANY_TIME HOUR_MINUTE ":(?:[0-5][0-9]|60)" FRACTION OFFSET
#define N "[0-9]+"
#define DURATION_TIME "T(?:" N "H(?:" N "M(?:" N "S)?)?|" N "M(?:" N "S)?|" N "S)"
#define DURATION                                                                                   \
    "P(?:" N "W|" DURATION_TIME "|(?:" N "Y(?:" N "M(?:" N "D)?)?|" N "M(?:" N "D)?|" N            \
    "D)(?:" DURATION_TIME ")?)"

/* ---- hosts ------------------------------------------------------------------------------------
 */

#define HEX "[0-9A-Fa-f]"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define H16 HEX "{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define UP_TO(n) "(?:(?:" H16 ":){0," #n "}" H16 ")?::"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32                                            \
    "|" UP_TO(0) "(?:" H16 ":){4}" LS32 "|" UP_TO(1) "(?:" H16 ":){3}" LS32                        \
                                                     "|" UP_TO(2) "(?:" H16 ":){2}" LS32           \
                                                                  "|" UP_TO(3) H16                 \
        ":" LS32 "|" UP_TO(4) LS32 "|" UP_TO(5) H16 "|" UP_TO(6) ")"

#define ALNUM "[A-Za-z0-9]"
#define INNER "[A-Za-z0-9-]"
#define ANY_LABEL ALNUM "(?:" INNER "{0,61}" ALNUM ")?"
/* Without hyphens as third and fourth characters, which mark encoded names ("xn--"). */
#define LABEL                                                                                      \
    "(?:" ALNUM "(?:" INNER "?" ALNUM ")?|" ALNUM INNER INNER ALNUM "|" ALNUM INNER                \
    "(?:" ALNUM INNER "|-" ALNUM ")" INNER "{0,58}" ALNUM ")"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define DOT_ATOM ATOM "(?:\\." ATOM ")*"

/* ---- URIs -------------------------------------------------------------------------------------
 */

#define PERCENT "%" HEX HEX
#define SUB "!$&'()*+,;="
/* In IRIs: the non-ASCII characters. */
#define UCS                                                                                        \
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}"      \
    "\\u{30000}-\\u{3FFFD}\\u{E1000}-\\u{EFFFD}"
#define PRIVATE "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"
#define CHARACTERS(more, u) "(?:[A-Za-z0-9._~" SUB more u "-]|" PERCENT ")"
#define SEGMENTS(u) "(?:/" CHARACTERS(":@", u) "*)*"
#define AUTHORITY(u)                                                                               \
    "(?:" CHARACTERS(":", u) "*@)?(?:\\[(?:" IPV6 "|[Vv]" HEX "+\\.[A-Za-z0-9._~" SUB              \
                             ":-]+)\\]|" CHARACTERS("", u) "*)(?::[0-9]*)?"
#define ABSOLUTE(u)                                                                                \
    "(?://" AUTHORITY(u) SEGMENTS(u) "|/(?:" CHARACTERS(":@", u) "+" SEGMENTS(u) ")?)"
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define ROOTLESS(u) CHARACTERS(":@", u) "+" SEGMENTS(u)
#define TAIL(u, p) "(?:\\?" CHARACTERS(":@/?", u p) "*)?(?:#" CHARACTERS(":@/?", u) "*)?"
#define URI(u, p) SCHEME "(?:" ABSOLUTE(u) "|" ROOTLESS(u) "|)" TAIL(u, p)
#define URI_REFERENCE(u, p)                                                                        \
    "(?:(?:" SCHEME ")?" ABSOLUTE(u) "|" SCHEME ROOTLESS(u) "|" SCHEME "|" CHARACTERS(             \
        "@", u) "+" SEGMENTS(u) "|)" TAIL(u, p)
#define VARIABLE                                                                                   \
    "(?:[A-Za-z0-9_]|" PERCENT ")(?:\\.?(?:[A-Za-z0-9_]|" PERCENT "))*(?::[1-9][0-9]{0,3}|\\*)?"
#define URI_TEMPLATE                                                                               \
    "(?:[!#$&(-;=?-\\[\\]_a-z~" UCS PRIVATE "]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARIABLE            \
    "(?:," VARIABLE ")*\\})*"
#define POINTER "(?:/(?:[^~/]|~[01])*)*"

static const weft__format_pattern formats[] = {
    {"date", AFTER_YEAR_0(DATE), ALL(DATE)},
    {"date-time", AFTER_YEAR_0(DATE "[Tt]" TIME), ALL(DATE "[Tt]" ANY_TIME)},
    {"duration", ALL(DURATION), NULL},
    {"email", ALL(DOT_ATOM "@" LABEL "(?:\\." LABEL ")*"),
     ALL("(?:" DOT_ATOM "|\"(?:[^\"\\\\]|\\\\.)*\")@(?:" ANY_LABEL "(?:\\." ANY_LABEL
         ")*|\\[[^\\]]*\\])")},
    {"hostname", ALL(LABEL "(?:\\." LABEL ")*"), ALL(ANY_LABEL "(?:\\." ANY_LABEL ")*")},
    {"ipv4", ALL(IPV4), NULL},
    {"ipv6", ALL(IPV6), NULL},
    {"iri", ALL(URI(UCS, PRIVATE)), NULL},
    {"iri-reference", ALL(URI_REFERENCE(UCS, PRIVATE)), NULL},
    {"json-pointer", ALL(POINTER), NULL},
    {"relative-json-pointer", ALL("(?:0|[1-9][0-9]*)(?:#|" POINTER ")"), NULL},
    {"time", ALL(TIME), ALL(ANY_TIME)},
    {"uri", ALL(URI("", "")), NULL},
    {"uri-reference", ALL(URI_REFERENCE("", "")), NULL},
    {"uri-template", ALL(URI_TEMPLATE), NULL},
    {"uuid", ALL(HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"), NULL},
};

const weft__format_pattern *weft__format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

/* Integers of more than 15 digits are never generated, and every number is a double. */
const weft__format_bounds *weft__format_range(const char *name)
{
    static const weft__format_bounds ranges[] = {
        {"double", -INFINITY, INFINITY}, {"float", -INFINITY, INFINITY},
        {"int16", INT16_MIN, INT16_MAX}, {"int32", INT32_MIN, INT32_MAX},
        {"int64", -INFINITY, INFINITY},  {"int8", INT8_MIN, INT8_MAX},
        {"uint16", 0, UINT16_MAX},       {"uint32", 0, UINT32_MAX},
        {"uint64", 0, INFINITY},         {"uint8", 0, UINT8_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (strcmp(ranges[i].name, name) == 0)
            return &ranges[i];
    return NULL;
}

#undef ALL
#undef N
#undef UP_TO
