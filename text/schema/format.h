/* text/schema/format.h -- the formats of strings that JSON Schema names, as patterns. */
#ifndef WEFT_TEXT_SCHEMA_FORMAT_H
#define WEFT_TEXT_SCHEMA_FORMAT_H

/* NULL: an unknown format. */
typedef struct weft__format_pattern {
    const char *name;
    const char *generated; /* strings of the format; not all where that is no regular expression */
    const char *outside;   /* what strings that are not of the format do not match */
} weft__format_pattern;

const weft__format_pattern *weft__format_find(const char *name);

/* The known formats: "date, date-time, ...". */
extern const char weft__format_names[];

#endif
