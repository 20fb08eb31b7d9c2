/* optim/options_text.c -- parses an optimizer's options: "beta2=0.95,nesterov=true". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"
#include "weft/tool/options.h"

static const weft_field *field_named(const weft_optim_type *type, const char *name, size_t n)
{
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (strlen(f->name) == n && memcmp(f->name, name, n) == 0)
            return f;
    }
    return NULL;
}

static weft_status fail_name(const weft_optim_type *type, const char *name, size_t n)
{
    char names[256] = "";
    for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
        strncat(names, f == type->fields ? "" : ", ", sizeof names - strlen(names) - 1);
        strncat(names, f->name, sizeof names - strlen(names) - 1);
    }
    char *printable = weft_format("%.*s", (int)n, name);
    const weft_status status =
        weft_fail(WEFT_INVALID, "%s: there is no option '%s'; it has %s", type->name,
                  printable ? weft_printable(printable) : "", *names ? names : "none");
    weft_free(printable);
    return status;
}

/* The option value that stands for zero. A zero in options means the default; a negative value
 * means zero if the default is not zero. */
static double zero_of(const weft_optim_type *type, const weft_field *f)
{
    double standard = 0;
    if (type->defaults)
        memcpy(&standard, (const char *)type->defaults + f->offset, sizeof standard);
    return standard != 0 ? -1 : 0;
}

static bool set_field(const weft_optim_type *type, const weft_field *f, const char *text,
                      char **end, void *options)
{
    void *at = (char *)options + f->offset;
    if (f->type == WEFT_FIELD_BOOL) {
        const bool yes = strncmp(text, "true", 4) == 0;
        if (!yes && strncmp(text, "false", 5) != 0)
            return false;
        *(bool *)at = yes;
        *end = (char *)text + (yes ? 4 : 5);
        return true;
    }
    if (f->type == WEFT_FIELD_INT) {
        const long long value = strtoll(text, end, 10);
        *(int64_t *)at = value;
        return *end != text && value >= 1;
    }
    const double value = strtod(text, end);
    *(double *)at = value == 0 ? zero_of(type, f) : value;
    return *end != text && value >= 0 && isfinite(value);
}

weft_status weft_optim_options_parse(const weft_optim_type *type, const char *text, void *options)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, "=,");
        const weft_field *f = field_named(type, text, n);
        if (f == NULL)
            return fail_name(type, text, n);
        char *end = (char *)text + n;
        const bool good = *end == '=' && set_field(type, f, end + 1, &end, options);
        if (!good || (*end != ',' && *end != '\0'))
            return weft_fail(WEFT_INVALID, "%s: %s: expected '%s=' and %s", type->name, f->name,
                             f->name,
                             f->type == WEFT_FIELD_BOOL  ? "true or false"
                             : f->type == WEFT_FIELD_INT ? "a whole number of at least 1"
                                                         : "a number of at least 0");
        text = *end == ',' ? end + 1 : end;
    }
    return WEFT_OK;
}
