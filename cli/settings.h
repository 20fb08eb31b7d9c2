/* cli/settings.h -- reads a settings file in JSON or YAML: names, values and line numbers. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

typedef enum cli_setting_kind {
    CLI_SETTING_NULL,
    CLI_SETTING_BOOL,
    CLI_SETTING_NUMBER,
    CLI_SETTING_TEXT,
    CLI_SETTING_LIST,
    CLI_SETTING_OBJECT
} cli_setting_kind;

typedef struct cli_setting_value {
    cli_setting_kind kind;
    char *text; /* a scalar as written in the file, such as "true" or "1e-4"; else NULL */
    bool plain; /* an unquoted YAML scalar, in which a number may be meant as text */
} cli_setting_value;

typedef struct cli_setting {
    char *name;
    size_t line;
    cli_setting_value value;
    cli_setting_value *items; /* (n_items) elements of a list */
    size_t n_items;
} cli_setting;

typedef struct cli_settings {
    cli_setting *at;
    size_t n;
} cli_settings;

/* Parses the text of a file: YAML if its name ends with .yaml or .yml, else one JSON object.
 * Messages begin with "name:line: ". WEFT_INVALID for malformed text, for duplicate names, and for
 * YAML other than one mapping of scalars and lists of scalars (several documents, anchors, tags).
 * WEFT_UNSUPPORTED for YAML in builds without libyaml. Free with cli_settings_free, also after a
 * failure. */
weft_status cli_settings_parse(const char *text, size_t size, const char *name, cli_settings *out);
void cli_settings_free(cli_settings *settings);

/* The name of a kind for messages, such as "a number". */
const char *cli_setting_kind_name(cli_setting_kind kind);

/* For the two parsers: add a setting, set its value, and add an item to its list. Texts are copied.
 */
weft_status cli_settings_add(cli_settings *settings, const char *file, const char *name,
                             size_t line, cli_setting_kind kind);
weft_status cli_settings_set(cli_setting_value *value, cli_setting_kind kind, const char *text);
weft_status cli_settings_add_item(cli_setting *setting, cli_setting_kind kind, const char *text,
                                  bool plain);

/* The YAML parser (settings_yaml.c). */
weft_status cli_settings_parse_yaml(const char *text, size_t size, const char *name,
                                    cli_settings *out);

#endif
