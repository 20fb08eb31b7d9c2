/* text/schema/format.h -- JSON Schema's string formats as patterns, OpenAPI's number formats as
 * ranges. */
#ifndef WEFT_TEXT_SCHEMA_FORMAT_H
#define WEFT_TEXT_SCHEMA_FORMAT_H

/* A format's patterns. weft__format_find returns NULL for an unknown format. */
typedef struct weft__format_pattern {
    const char *name;
    const char *generated; /* matches strings of the format; not all of them if the format is not
                            * regular */
    const char *outside;   /* strings that do not have the format do not match this */
} weft__format_pattern;

const weft__format_pattern *weft__format_find(const char *name);

/* The bounds of a format of numbers, inclusive. weft__format_range returns NULL for others. */
typedef struct weft__format_bounds {
    const char *name;
    double least, most;
} weft__format_bounds;

const weft__format_bounds *weft__format_range(const char *name);

#endif
