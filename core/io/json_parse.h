/* core/io/json_parse.h -- a JSON parser (RFC 8259) that makes json-c values.
 *
 * json-c stores and prints values, but its parser is not used: what its strict mode accepts differs
 * between versions (0.18 rejects all non-ASCII characters), and it decodes some surrogate pairs
 * incorrectly.
 */
#ifndef WEFT_CORE_IO_JSON_PARSE_H
#define WEFT_CORE_IO_JSON_PARSE_H

#include <stddef.h>

#include <json-c/json_object.h>

#include "weft/status.h"

enum { WEFT__JSON_MAX_DEPTH = 64, WEFT__JSON_MAX_BYTES = 256 << 20 };

/* Parses `length` bytes, which must be exactly one value with optional white space around it. The
 * caller releases *out with json_object_put; JSON's null is a NULL *out. Beyond the grammar, NaN,
 * Infinity and -Infinity are accepted as numbers, as Python writes them. Of duplicate names the
 * last value counts.
 *
 * Strings may contain \u0000: read them with json_object_get_string_len. Names of members may not.
 * A double prints as it was written. Integers beyond 64 signed bits are stored as doubles, and so
 * keep their digits: see weft__json_big_integer.
 *
 * WEFT_INVALID, with "name: line 3, column 7: what" as the message: malformed JSON, invalid UTF-8,
 * a lone surrogate, nesting deeper than WEFT__JSON_MAX_DEPTH, more than WEFT__JSON_MAX_BYTES. */
weft_status weft__json_parse_value(const char *text, size_t length, const char *name,
                                   json_object **out);

#endif
