/* cli/pages.c -- prints help and manual page from the option tables. */
#include "cli/pages.h"

#include <string.h>

#include "weft/version.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* The last option of every command. */
static const cli_option help_option = {
    .name = "help", .letter = 'h', .kind = CLI_FLAG, .help = "show this help"};

/* Option i of a command, followed by --help; NULL after that. */
static const cli_option *option_at(const cli_command *c, int i)
{
    if (i < c->n_options)
        return &c->options[i];
    return i == c->n_options ? &help_option : NULL;
}

const cli_option *cli_next_option(const cli_command *c, int *i)
{
    const cli_option *o;
    while ((o = option_at(c, (*i)++)) != NULL && o->hidden) {
    }
    return o;
}

/* ---- Help ----------------------------------------------------------------------------------- */

/* Prints text wrapped at HELP_WIDTH. The first line starts at column `at`; further lines are
 * indented. Empty lines are kept. */
static void wrap(FILE *file, const char *text, int at, int indent)
{
    int column = at;
    bool first = true;
    while (*text != '\0') {
        if (*text == '\n') {
            fprintf(file, "\n\n%*s", indent, "");
            column = indent;
            first = true;
            text += strspn(text, "\n");
            continue;
        }
        int n = (int)strcspn(text, " \n");
        if (!first && column + 1 + n > HELP_WIDTH) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        column += fprintf(file, "%s%.*s", first ? "" : " ", n, text);
        first = false;
        text += n;
        if (*text == ' ')
            text++;
    }
    fputc('\n', file);
}

/* Prints an option as "-p, --prompt TEXT"; returns the width. */
static int print_name(FILE *file, const cli_option *o)
{
    char letter[8] = "    ";
    if (o->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    return fprintf(file, "  %s--%s%s%s", letter, o->name, cli_value(o) != NULL ? " " : "",
                   cli_value(o) != NULL ? cli_value(o) : "");
}

/* Whether help shows the default; an empty one is not shown. */
static bool has_default(const cli_option *o)
{
    return o->fallback != NULL && o->fallback[0] != '\0';
}

static void print_option(FILE *file, const cli_option *o)
{
    char text[512];
    const bool shown = has_default(o);
    snprintf(text, sizeof text, "%s%s%s%s", o->help, shown ? " (default " : "",
             shown ? o->fallback : "", shown ? ")" : "");
    int column = print_name(file, o);
    if (column >= HELP_COLUMN)
        column = 0, fputc('\n', file);
    fprintf(file, "%*s", HELP_COLUMN - column, "");
    wrap(file, text, HELP_COLUMN, HELP_COLUMN);
}

static void print_usage(FILE *file, const cli_command *c)
{
    fprintf(file, "weft %s", c->name);
    for (int i = 0; i < c->n_arguments; i++)
        fprintf(file, c->arguments[i].optional ? " [%s%s]" : " %s%s", c->arguments[i].name,
                c->arguments[i].optional == CLI_MANY ? "..." : "");
    fputs(" [OPTION...]\n", file);
}

void cli_print_help(FILE *file, const cli_command *c)
{
    fputs("Usage: ", file);
    print_usage(file, c);
    fputc('\n', file);
    wrap(file, c->description, 0, 0);
    fputs("\nOptions:\n", file);
    const cli_option *o;
    for (int i = 0; (o = cli_next_option(c, &i)) != NULL;)
        print_option(file, o);
    fputs("\nExamples:\n  ", file);
    for (const char *p = c->example; *p != '\0'; p++)
        fputs(*p == '\n' ? "\n  " : (char[]){*p, '\0'}, file);
    fputc('\n', file);
}

void cli_print_overview(FILE *file)
{
    fputs(
        "Usage: weft COMMAND [OPTION...]\n\nLanguage models on this machine: generate, fine-tune, "
        "look inside.\n\nCommands:\n",
        file);
    for (int i = 0; cli_commands[i] != NULL; i++)
        fprintf(file, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs("\nA MODEL is a folder with config.json, *.safetensors and tokenizer.json, a GGUF file, "
          "or\n"
          "the ORG/NAME of one in the Hugging Face cache (weft pull fetches it). The name\n"
          "storyteller means the small one that comes with Weft.\n\n"
          "  weft COMMAND --help   the options of a command, with examples\n"
          "  weft --version        the version\n",
          file);
}

/* ---- The manual page ------------------------------------------------------------------------ */

/* Prints text for troff: escapes control lines and hyphens that are minus signs. */
static void print_troff(FILE *file, const char *text)
{
    bool line_start = true;
    for (const char *p = text; *p != '\0'; p++) {
        if (line_start && (*p == '.' || *p == '\''))
            fputs("\\&", file);
        if (*p == '\n' && p[1] == '\n') {
            fputs("\n.PP", file);
        } else if (*p == '-') {
            fputs("\\-", file);
        } else if (*p == '\\') {
            fputs("\\e", file);
        } else {
            fputc(*p, file);
        }
        line_start = *p == '\n';
    }
}

static void print_man_option(FILE *file, const cli_option *o)
{
    fputs(".TP\n.B ", file);
    if (o->letter != 0)
        fprintf(file, "\\-%c\\fR, \\fB", o->letter);
    fputs("\\-\\-", file);
    print_troff(file, o->name);
    if (cli_value(o) != NULL) {
        fputs(" \\fI", file);
        print_troff(file, cli_value(o));
        fputs("\\fR", file);
    }
    fputc('\n', file);
    print_troff(file, o->help);
    if (has_default(o)) {
        fputs(" (default ", file);
        print_troff(file, o->fallback);
        fputc(')', file);
    }
    fputc('\n', file);
}

static void print_man_command(FILE *file, const cli_command *c)
{
    fputs(".SS ", file);
    print_usage(file, c);
    print_troff(file, c->description);
    fputc('\n', file);
    const cli_option *o;
    for (int i = 0; (o = cli_next_option(c, &i)) != NULL;)
        print_man_option(file, o);
    fputs(".PP\n.nf\n", file);
    print_troff(file, c->example);
    fputs("\n.fi\n", file);
}

void cli_print_man(FILE *file)
{
    fprintf(file, ".TH WEFT 1 \"\" \"weft %s\" \"User Commands\"\n", weft_version());
    fputs(".SH NAME\nweft \\- generate with, fine\\-tune and look into language models\n"
          ".SH SYNOPSIS\n.B weft\n.I COMMAND\n[\\fIOPTION\\fR...]\n"
          ".SH DESCRIPTION\nA \\fIMODEL\\fR is a folder with config.json, *.safetensors and "
          "tokenizer.json. The name\n.B storyteller\nmeans the small one that comes with Weft.\n"
          ".SH COMMANDS\n",
          file);
    for (int i = 0; cli_commands[i] != NULL; i++)
        print_man_command(file, cli_commands[i]);
    fputs(
        ".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\na failure, reported on one line of standard "
        "error\n.TP\n.B 2\na usage error\n.TP\n.B 129, 130, 143\nSIGHUP, SIGINT or SIGTERM stopped "
        "the command; weft train has saved\n"
        ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nno colors when set\n"
        ".TP\n.B WEFT_DEVICE\nthe device, where \\-\\-device is not given\n"
        ".TP\n.B WEFT_DTYPE\nthe dtype of the weights, where \\-\\-dtype is not given\n"
        ".TP\n.B WEFT_THREADS\nthreads of the CPU, where \\-\\-threads is not given\n"
        ".TP\n.B WEFT_VULKAN_DISABLE\n"
        "optional features of Vulkan devices that are not to be used, separated by commas:\n"
        ".BR float64 \", \" int64 \", \" storage8 \", \" host \", \" budget \", \" transfer \", "
        "\" subnormals "
        "\", \" matrix \",\n.BR matrix\\-bfloat16 \", or \" all\n"
        ".TP\n.B WEFT_VULKAN_SELF_TEST\n"
        "Vulkan devices are compared with the CPU at first use, and the result is kept.\n"
        ".BR skip \": not compared; \" force \": compared again\n"
        ".TP\n.B WEFT_VULKAN_ENABLE\n"
        "optional features that are used though they were not measured to be faster on such a\n"
        "device, separated by commas:\n.BR matrix\n"
        ".TP\n.B WEFT_VULKAN_VALIDATE\n"
        "1: with the validation layer; what it finds fails the evaluation\n"
        ".TP\n.B XDG_CACHE_HOME\nwhere compiled Vulkan pipelines and results of self-tests are "
        "kept, in\n"
        ".IR weft ;\n.I ~/.cache\nwithout it\n",
        file);
}
