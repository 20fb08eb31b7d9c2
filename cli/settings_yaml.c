/* cli/settings_yaml.c -- reads a settings file in YAML 1.2: one mapping of scalars and lists. */
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "cli/settings.h"

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current event; deleted before the next one is read */
    bool has_event;
    const char *file;
    cli_settings *out;
} reader;

static size_t line_of(const reader *r)
{
    return r->event.start_mark.line + 1;
}

static weft_status malformed(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return weft_fail(WEFT_MEMORY, "%s: out of memory for parsing", weft_printable(r->file));
    return weft_fail(WEFT_INVALID, "%s:%zu: column %zu: %s%s%s", weft_printable(r->file),
                     p->problem_mark.line + 1, p->problem_mark.column + 1,
                     p->problem ? p->problem : "malformed YAML", p->context ? ", " : "",
                     p->context ? p->context : "");
}

static weft_status refuse(const reader *r, const char *what)
{
    return weft_fail(WEFT_INVALID, "%s:%zu: %s", weft_printable(r->file), line_of(r), what);
}

static weft_status next(reader *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = yaml_parser_parse(&r->parser, &r->event) != 0;
    if (!r->has_event)
        return malformed(r);
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT)
        anchor = e->data.scalar.anchor, tag = e->data.scalar.tag;
    else if (e->type == YAML_SEQUENCE_START_EVENT)
        anchor = e->data.sequence_start.anchor, tag = e->data.sequence_start.tag;
    else if (e->type == YAML_MAPPING_START_EVENT)
        anchor = e->data.mapping_start.anchor, tag = e->data.mapping_start.tag;
    if (anchor || e->type == YAML_ALIAS_EVENT)
        return refuse(r, "anchors and aliases are not supported");
    return tag ? refuse(r, "tags are not supported") : WEFT_OK;
}

/* ---- scalars -------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcmp(text, *words) != 0)
        words++;
    return *words != NULL;
}

static const char *digits(const char *text)
{
    return text + strspn(text, "0123456789");
}

/* Whether the text is a number of YAML's core schema: decimal and finite. */
static bool is_number(const char *text)
{
    text += *text == '+' || *text == '-';
    const char *at = digits(text);
    bool any = at > text;
    if (*at == '.') {
        const char *fraction = at + 1;
        at = digits(fraction);
        any = any || at > fraction;
    }
    if (any && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1 + (at[1] == '+' || at[1] == '-');
        at = digits(exponent);
        any = at > exponent;
    }
    return any && *at == '\0';
}

static cli_setting_kind kind_of(const yaml_event_t *e)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE", NULL};
    const char *text = (const char *)e->data.scalar.value;
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return CLI_SETTING_TEXT;
    return is_one_of(text, nulls)   ? CLI_SETTING_NULL
           : is_one_of(text, bools) ? CLI_SETTING_BOOL
           : is_number(text)        ? CLI_SETTING_NUMBER
                                    : CLI_SETTING_TEXT;
}

/* Reads the current scalar. Booleans become "true" or "false" in lower case. */
static weft_status scalar(const reader *r, cli_setting_kind *kind, const char **text, bool *plain)
{
    const yaml_event_t *e = &r->event;
    *text = (const char *)e->data.scalar.value;
    *kind = kind_of(e);
    *plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(*text) != e->data.scalar.length)
        return refuse(r, "expected text without a NUL");
    if (*kind == CLI_SETTING_BOOL)
        *text = (*text)[0] == 't' || (*text)[0] == 'T' ? "true" : "false";
    return WEFT_OK;
}

/* ---- the mapping ---------------------------------------------------------------------------- */

static weft_status read_list(reader *r, cli_setting *setting)
{
    cli_setting_kind kind;
    const char *text;
    bool plain;
    weft_status status = next(r);
    while (status == WEFT_OK && r->event.type != YAML_SEQUENCE_END_EVENT) {
        if (r->event.type != YAML_SCALAR_EVENT)
            return weft_fail(WEFT_INVALID, "%s:%zu: %s: expected a list of texts and numbers",
                             weft_printable(r->file), line_of(r), weft_printable(setting->name));
        status = scalar(r, &kind, &text, &plain);
        if (status == WEFT_OK)
            status = cli_settings_add_item(setting, kind, text, plain);
        if (status == WEFT_OK)
            status = next(r);
    }
    return status;
}

static weft_status read_value(reader *r)
{
    cli_setting *setting = &r->out->at[r->out->n - 1];
    cli_setting_kind kind;
    const char *text;
    switch (r->event.type) {
    case YAML_SCALAR_EVENT: {
        weft_status status = scalar(r, &kind, &text, &setting->value.plain);
        return status == WEFT_OK ? cli_settings_set(&setting->value, kind, text) : status;
    }
    case YAML_SEQUENCE_START_EVENT:
        setting->value.kind = CLI_SETTING_LIST;
        return read_list(r, setting);
    default:
        return weft_fail(WEFT_INVALID, "%s:%zu: %s: expected a value or a list, got an object",
                         weft_printable(r->file), line_of(r), weft_printable(setting->name));
    }
}

static weft_status read_mapping(reader *r)
{
    weft_status status = next(r);
    while (status == WEFT_OK && r->event.type != YAML_MAPPING_END_EVENT) {
        if (r->event.type != YAML_SCALAR_EVENT)
            return refuse(r, "expected the name of an option");
        const char *name = (const char *)r->event.data.scalar.value;
        if (strlen(name) != r->event.data.scalar.length)
            return refuse(r, "expected text without a NUL");
        status = cli_settings_add(r->out, r->file, name, line_of(r), CLI_SETTING_NULL);
        if (status == WEFT_OK)
            status = next(r);
        if (status == WEFT_OK)
            status = read_value(r);
        if (status == WEFT_OK)
            status = next(r);
    }
    return status;
}

static weft_status read_stream(reader *r)
{
    weft_status status = next(r); /* start of the stream */
    if (status == WEFT_OK)
        status = next(r);
    if (status != WEFT_OK || r->event.type == YAML_STREAM_END_EVENT)
        return status;
    status = next(r);
    if (status == WEFT_OK && r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, "expected options as 'name: value'");
    if (status == WEFT_OK)
        status = read_mapping(r);
    if (status == WEFT_OK)
        status = next(r); /* end of the document */
    if (status == WEFT_OK)
        status = next(r);
    if (status == WEFT_OK && r->event.type != YAML_STREAM_END_EVENT)
        return refuse(r, "expected one document, got another one");
    return status;
}

weft_status cli_settings_parse_yaml(const char *text, size_t size, const char *name,
                                    cli_settings *out)
{
    reader r = {.file = name, .out = out};
    if (!yaml_parser_initialize(&r.parser))
        return weft_fail(WEFT_MEMORY, "%s: out of memory for parsing", weft_printable(name));
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    const weft_status status = read_stream(&r);
    if (r.has_event)
        yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}
