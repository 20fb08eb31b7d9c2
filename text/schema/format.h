/* text/schema/format.h -- JSON Schema's string formats as patterns. */
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

/* The known formats: "date, date-time, ...". */
extern const char weft__format_names[];

#endif
