/* cli/options.c -- parses command lines by option tables. */
#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/suggest.h"
#include "weft/status.h"

void cli_word(const char *words, int index, char *out, size_t size)
{
    for (; index > 0 && words != NULL; index--) {
        words = strchr(words, '|');
        words = words != NULL ? words + 1 : NULL;
    }
    size_t n = words != NULL ? strcspn(words, "|") : 0;
    snprintf(out, size, "%.*s", (int)n, words != NULL ? words : "");
}

/* The index of a word in "a|b|c", or -1. */
static int find_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (int i = 0; words != NULL; i++) {
        size_t length = strcspn(words, "|");
        if (length == n && memcmp(words, word, n) == 0)
            return i;
        words = words[length] == '|' ? words + length + 1 : NULL;
    }
    return -1;
}

const char *cli_value(const cli_option *o)
{
    static char words[512];
    size_t n = 0;
    for (int i = 0; o->word && o->word(i) && n < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", i > 0 ? "|" : "", o->word(i));
    return o->word ? words : o->value;
}

WEFT_PRINTF(2, 3)
static cli_parsed wrong(const cli_command *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cli_usage_va(c->name, format, arguments);
    va_end(arguments);
    return CLI_PARSED_WRONG;
}

enum { MOST_OPTIONS = 128 };

/* ---- Values --------------------------------------------------------------------------------- */

static bool in_range(const cli_option *o, double value)
{
    return (o->low == 0 && o->high == 0) || (value >= o->low && value <= o->high);
}

/* Describes the valid range of a number for messages. */
static void describe_range(const cli_option *o, char *out, size_t size)
{
    const char *kind = o->kind == CLI_INT ? "a whole number" : "a number";
    bool above = o->low > 0 && o->low < 1e-300; /* the lower bound is exclusive (CLI_ABOVE_ZERO) */
    if (o->low == 0 && o->high == 0)
        snprintf(out, size, "%s", kind);
    else if (isinf(o->high))
        snprintf(out, size, "%s %s %g", kind, above ? "above" : "of at least", above ? 0 : o->low);
    else
        snprintf(out, size, "%s %s %.10g %s %.10g", kind, above ? "above" : "from",
                 above ? 0 : o->low, above ? "up to" : "to", o->high);
}

static bool read_id(const char **text, int32_t *id)
{
    char *end;
    const long value = strtol(*text, &end, 10);
    const bool good = end != *text && value >= 0 && value <= INT32_MAX;
    *id = good ? (int32_t)value : 0;
    *text = end;
    return good;
}

static bool read_ids(const char *text, cli_ids *ids)
{
    for (ids->n = 0; ids->n < CLI_MOST; text++) {
        if (!read_id(&text, &ids->at[ids->n++]))
            return false;
        if (*text != ',')
            return *text == '\0';
    }
    return false;
}

static bool read_biases(const char *text, cli_biases *b)
{
    for (b->n = 0; b->n < CLI_MOST; text++) {
        char *end;
        if (!read_id(&text, &b->ids[b->n]) || *text++ != ':')
            return false;
        b->values[b->n++] = strtof(text, &end);
        if (end == text || (*end != ',' && *end != '\0'))
            return false;
        if (*end == '\0')
            return true;
        text = end;
    }
    return false;
}

/* Appends to a CLI_JOINED value. A command has at most one such option, since the buffer is static.
 */
static bool join(const char *text, const char **field)
{
    static char room[8192];
    const size_t used = *field ? strlen(*field) : 0, more = strlen(text);
    if (*field == NULL) {
        *field = text;
        return true;
    }
    if (used + more + 2 > sizeof room)
        return false;
    memmove(room, *field, used);
    room[used] = ',';
    memcpy(room + used + 1, text, more + 1);
    *field = room;
    return true;
}

/* Parses the text into the option's field; false when it is invalid. */
static bool set_value(const cli_option *o, const char *text, void *field)
{
    char *end;
    errno = 0;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)field = true;
        return true;
    case CLI_TEXT:
        *(const char **)field = text;
        return true;
    case CLI_JOINED:
        return join(text, field);
    case CLI_INT: {
        long long value = strtoll(text, &end, 10);
        *(int64_t *)field = value == 0 && o->marks & CLI_NEGATIVE ? -1 : value;
        return end != text && *end == '\0' && errno == 0 && in_range(o, (double)value);
    }
    case CLI_REAL: {
        double value = strtod(text, &end);
        *(double *)field = value == 0 && o->marks & CLI_NEGATIVE ? -1 : value;
        return end != text && *end == '\0' && isfinite(value) && in_range(o, value);
    }
    case CLI_CHOICE:
        *(int *)field = find_word(cli_value(o), text);
        return *(int *)field >= 0;
    case CLI_TEXTS: {
        cli_texts *texts = field;
        if (texts->n == CLI_MOST)
            return false;
        texts->at[texts->n++] = text;
        return true;
    }
    case CLI_IDS:
        return read_ids(text, field);
    case CLI_BIASES:
        return read_biases(text, field);
    }
    return false;
}

static void set_absent(const cli_option *o, void *field)
{
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)field = false;
        break;
    case CLI_TEXT:
    case CLI_JOINED:
        *(const char **)field = NULL;
        break;
    case CLI_INT:
        *(int64_t *)field = o->marks & CLI_ZERO ? 0 : CLI_ABSENT;
        break;
    case CLI_REAL:
        *(double *)field = o->marks & CLI_ZERO ? 0 : (double)NAN;
        break;
    case CLI_CHOICE:
        *(int *)field = -1;
        break;
    case CLI_TEXTS:
    case CLI_IDS:
    case CLI_BIASES: /* already zeroed */
        break;
    }
}

bool cli_takes_value(const cli_option *o, const char *text, char *expected, size_t size)
{
    union {
        int64_t number;
        cli_texts texts;
        cli_biases biases;
    } room = {0};
    if (set_value(o, text, &room))
        return true;
    if (o->kind == CLI_INT || o->kind == CLI_REAL)
        describe_range(o, expected, size);
    else
        snprintf(expected, size, "%s%s", o->kind == CLI_CHOICE ? "one of " : "", cli_value(o));
    return false;
}

static cli_parsed read_value(const cli_command *c, const cli_option *o, const char *text,
                             char *values)
{
    if (set_value(o, text, values + o->offset))
        return CLI_PARSED_RUN;
    if (o->kind == CLI_CHOICE)
        return wrong(c, "--%s: expected one of %s, got '%s'", o->name, cli_value(o),
                     weft_printable(text));
    if (o->kind == CLI_JOINED)
        return wrong(c, "--%s: expected less text", o->name);
    if (o->kind == CLI_TEXTS)
        return wrong(c, "--%s: given more than %d times", o->name, CLI_MOST);
    if (o->kind == CLI_IDS || o->kind == CLI_BIASES)
        return wrong(c, "--%s: expected %s, at most %d of them, got '%s'", o->name, cli_value(o),
                     CLI_MOST, weft_printable(text));
    char range[80];
    describe_range(o, range, sizeof range);
    return wrong(c, "--%s: expected %s, got '%s'", o->name, range, weft_printable(text));
}

static const cli_option *by_name(const cli_command *c, const char *name, size_t n)
{
    for (int i = 0; i < c->n_options; i++) {
        if (strlen(c->options[i].name) == n && memcmp(c->options[i].name, name, n) == 0)
            return &c->options[i];
    }
    return NULL;
}

const cli_option *cli_option_named(const cli_command *c, const char *name)
{
    return by_name(c, name, strlen(name));
}

/* ---- Words ---------------------------------------------------------------------------------- */

static const cli_option *by_letter(const cli_command *c, char letter)
{
    for (int i = 0; i < c->n_options; i++) {
        if (c->options[i].letter == letter)
            return &c->options[i];
    }
    return NULL;
}

/* Reports an unknown option, with a similar one as suggestion. */
static cli_parsed unknown_option(const cli_command *c, const char *word)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    cli_suggestion near = {.word = name + strspn(name, "-")};
    for (int i = 0; word[1] == '-' && i < c->n_options; i++) {
        if (!c->options[i].hidden)
            cli_suggest_from(&near, c->options[i].name);
    }
    return near.name != NULL ? wrong(c, "unknown option %s; is it --%s?", name, near.name)
                             : wrong(c, "unknown option %s", word);
}

const cli_option *cli_find_option(const cli_command *c, const char *word, const char **text)
{
    if (word[1] != '-') {
        *text = word[2] != '\0' ? word + 2 : NULL;
        return by_letter(c, word[1]);
    }
    const size_t n = strcspn(word + 2, "=");
    *text = word[2 + n] == '=' ? word + 3 + n : NULL;
    return by_name(c, word + 2, n);
}

/* Parses the option at argv[*i], and the next word if that is its value. */
static cli_parsed read_option(const cli_command *c, int argc, char **argv, int *i, bool *seen,
                              char *values)
{
    const char *word = argv[*i], *text;
    const cli_option *o = cli_find_option(c, word, &text);
    if (o == NULL)
        return unknown_option(c, word);
    if (o->kind == CLI_FLAG && text != NULL)
        return wrong(c, "--%s takes no value", o->name);
    if (o->kind != CLI_FLAG && text == NULL) {
        if (*i + 1 >= argc)
            return wrong(c, "--%s needs a value: %s", o->name, cli_value(o));
        text = argv[++*i];
    }
    if (o->kind != CLI_FLAG && o->kind != CLI_TEXTS && o->kind != CLI_JOINED &&
        seen[o - c->options])
        return wrong(c, "--%s is given twice", o->name);
    seen[o - c->options] = true;
    return read_value(c, o, text, values);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

const char *cli_default_of(const cli_option *o)
{
    const char *own = o->environment != NULL ? getenv(o->environment) : NULL;
    return own != NULL && *own != '\0' ? own : o->fallback;
}

/* Sets the options without a word on the command line from their environment variables. */
static cli_parsed read_environment(const cli_command *c, const bool *seen, char *values)
{
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        const char *text = cli_default_of(o);
        if (o->environment == NULL || seen[i] || text == o->fallback)
            continue;
        char expected[160];
        if (!cli_takes_value(o, text, expected, sizeof expected))
            return wrong(c, "%s (environment variable): expected %s, got '%s'", o->environment,
                         expected, weft_printable(text));
        (void)set_value(o, text, values + o->offset);
    }
    return CLI_PARSED_RUN;
}

static void set_defaults(const cli_command *c, char *values)
{
    memset(values, 0, c->size);
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (o->fallback == NULL || !set_value(o, o->fallback, values + o->offset))
            set_absent(o, values + o->offset);
    }
}

/* Takes a positional argument; false when there are too many. The words of a CLI_MANY argument are
 * moved to the front of argv, whose words have already been parsed. */
static bool take_word(const cli_command *c, int *given, char **argv, int i, char *values)
{
    const cli_argument *a = *given < c->n_arguments ? &c->arguments[*given] : NULL;
    if (a == NULL)
        return false;
    if (a->optional != CLI_MANY) {
        *(const char **)(values + a->offset) = argv[i];
        (*given)++;
        return true;
    }
    cli_words *words = (cli_words *)(values + a->offset);
    words->at = argv;
    argv[words->n++] = argv[i];
    return true;
}

cli_parsed cli_parse(const cli_command *c, int argc, char **argv, void *out)
{
    char *values = out;
    set_defaults(c, values);
    if (asks_for_help(argc, argv))
        return CLI_PARSED_HELP;
    if (c->given != 0)
        *(cli_given *)(void *)(values + c->given) = (cli_given){argv, argc};
    int given = 0;
    bool only_arguments = false, seen[MOST_OPTIONS] = {false};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_arguments && strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && word[0] == '-' && word[1] != '\0') {
            cli_parsed result = read_option(c, argc, argv, &i, seen, values);
            if (result != CLI_PARSED_RUN)
                return result;
        } else if (!take_word(c, &given, argv, i, values)) {
            return wrong(c, "unexpected argument '%s'", weft_printable(word));
        }
    }
    if (given < c->n_arguments && !c->arguments[given].optional)
        return wrong(c, "%s is missing", c->arguments[given].name);
    return read_environment(c, seen, values);
}
