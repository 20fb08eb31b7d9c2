/* core/io/json_parse.h -- the JSON grammar (RFC 8259) into json-c values.
 *
 * json-c holds and prints values, but its parser is not used: which texts its strict mode accepts
 * differs between versions (0.18 rejects every character beyond ASCII), and it decodes some
 * surrogate pairs wrongly. */
#ifndef WEFT_CORE_IO_JSON_PARSE_H
#define WEFT_CORE_IO_JSON_PARSE_H

#include <stddef.h>

#include <json-c/json_object.h>

#include "weft/status.h"

enum { WEFT__JSON_MAX_DEPTH = 64, WEFT__JSON_MAX_BYTES = 256 << 20 };

/* Parses `length` bytes, exactly one value with white space around it, into *out, which the caller
 * releases with json_object_put; JSON's null is a NULL *out. Beyond the grammar, NaN, Infinity and
 * -Infinity are numbers, as Python writes them. Of duplicate names the last value counts.
 *
 * Strings may contain \u0000: read them with json_object_get_string_len. Names of members may not.
 * Integers of more than 64 bits become doubles. A double prints as it was written.
 *
 * WEFT_INVALID, with "name: line 3, column 7: what" as the message: malformed JSON, invalid UTF-8,
 * a lone surrogate, nesting deeper than WEFT__JSON_MAX_DEPTH, more than WEFT__JSON_MAX_BYTES. */
weft_status weft__json_parse_value(const char *text, size_t length, const char *name,
                                   json_object **out);

#endif
