/* cli/completion.c -- prints completion scripts for shells from the option tables. */
#include "cli/pages.h"

#include <string.h>

/* Whether the option's value is one of the words in its table. */
static bool has_words(const cli_option *o)
{
    return cli_value(o) != NULL && strchr(cli_value(o), '|') != NULL;
}

static void print_words(FILE *file, const char *words)
{
    for (const char *p = words; *p != '\0'; p++)
        fputc(*p == '|' ? ' ' : *p, file);
}

/* Prints the first paragraph of a text for inside single quotes. In zsh a backslash also precedes
 * the characters of `special`. */
static void print_quoted(FILE *file, const char *text, const char *special)
{
    for (const char *p = text; *p != '\0' && *p != '\n'; p++) {
        if (*p == '\'') {
            fputs("'\\''", file);
            continue;
        }
        if (strchr(special, *p) != NULL)
            fputc('\\', file);
        fputc(*p, file);
    }
}

/* ---- bash ------------------------------------------------------------------------------------ */

/* Prints the completion of a command: its options, and the words of its choices. */
static void print_bash_command(FILE *file, const cli_command *c)
{
    const cli_option *o;
    const char *separator = "";
    fprintf(file, "    %s)\n        options=\"", c->name);
    for (int i = 0; (o = cli_next_option(c, &i)) != NULL; separator = " ")
        fprintf(file, "%s--%s", separator, o->name);
    fputs("\"\n        case $previous in\n", file);
    for (int i = 0; (o = cli_next_option(c, &i)) != NULL;) {
        if (!has_words(o))
            continue;
        fprintf(file, "        --%s) words=\"", o->name);
        print_words(file, cli_value(o));
        fputs("\" ;;\n", file);
    }
    fputs("        esac\n        ;;\n", file);
}

static void print_bash(FILE *file)
{
    fputs("# bash completion for weft; made by: weft help --completion bash\n"
          "_weft()\n{\n    local word=$2 previous=$3 options='' words=''\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"",
          file);
    for (int i = 0; cli_commands[i] != NULL; i++)
        fprintf(file, "%s%s", i > 0 ? " " : "", cli_commands[i]->name);
    fputs("\"\n    fi\n    case ${COMP_WORDS[1]} in\n", file);
    for (int i = 0; cli_commands[i] != NULL; i++)
        print_bash_command(file, cli_commands[i]);
    fputs("    esac\n"
          "    if [ -z \"$words\" ] && [[ $word == -* ]]; then\n        words=$options\n    fi\n"
          "    if [ -n \"$words\" ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n    fi\n"
          "}\ncomplete -o default -F _weft weft\n",
          file);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void print_fish_option(FILE *file, const cli_command *c, const cli_option *o)
{
    fprintf(file, "complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
    if (o->letter != 0)
        fprintf(file, " -s %c", o->letter);
    if (has_words(o)) {
        fputs(" -x -a '", file);
        print_words(file, cli_value(o));
        fputc('\'', file);
    } else if (cli_value(o) != NULL) {
        fputs(" -r", file);
    }
    fputs(" -d '", file);
    print_quoted(file, o->help, "\\");
    fputs("'\n", file);
}

static void print_fish(FILE *file)
{
    const cli_option *o;
    fputs("# fish completion for weft; made by: weft help --completion fish\n", file);
    for (int i = 0; cli_commands[i] != NULL; i++) {
        const cli_command *c = cli_commands[i];
        fprintf(file, "complete -c weft -n __fish_use_subcommand -f -a %s -d '", c->name);
        print_quoted(file, c->summary, "\\");
        fputs("'\n", file);
        for (int j = 0; (o = cli_next_option(c, &j)) != NULL;)
            print_fish_option(file, c, o);
    }
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Prints an option as an argument of zsh's _arguments: '(-n
 * --number)'{-n,--number}'[help]:N:_files', or '--schedule[help]:schedule:(constant cosine)'. */
static void print_zsh_option(FILE *file, const cli_option *o)
{
    const bool repeats = o->kind == CLI_JOINED || o->kind == CLI_TEXTS;
    fputs(" \\\n            ", file);
    if (repeats)
        fputs("'*'", file);
    else if (o->letter != 0)
        fprintf(file, "'(-%c --%s)'", o->letter, o->name);
    if (o->letter != 0)
        fprintf(file, "{-%c,--%s}'[", o->letter, o->name);
    else
        fprintf(file, "'--%s[", o->name);
    print_quoted(file, o->help, "\\[]:");
    fputc(']', file);
    if (cli_value(o) != NULL) {
        fputc(':', file);
        print_quoted(file, has_words(o) ? o->name : cli_value(o), "\\[]:");
        fputs(has_words(o) ? ":(" : ":_files", file);
        if (has_words(o)) {
            print_words(file, cli_value(o));
            fputc(')', file);
        }
    }
    fputc('\'', file);
}

static void print_zsh(FILE *file)
{
    const cli_option *o;
    fputs("#compdef weft\n# zsh completion for weft; made by: weft help --completion zsh\n"
          "_weft()\n{\n    local -a commands=(\n",
          file);
    for (int i = 0; cli_commands[i] != NULL; i++) {
        fprintf(file, "        '%s:", cli_commands[i]->name);
        print_quoted(file, cli_commands[i]->summary, "\\:");
        fputs("'\n", file);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
          "        return\n    fi\n    shift words\n    (( CURRENT-- ))\n    case $words[1] in\n",
          file);
    for (int i = 0; cli_commands[i] != NULL; i++) {
        fprintf(file, "    %s)\n        _arguments", cli_commands[i]->name);
        for (int j = 0; (o = cli_next_option(cli_commands[i], &j)) != NULL;)
            print_zsh_option(file, o);
        fputs(" \\\n            '*:file:_files'\n        ;;\n", file);
    }
    fputs("    esac\n}\n_weft \"$@\"\n", file);
}

void cli_print_completion(FILE *file, int shell)
{
    void (*const scripts[])(FILE *) = {print_bash, print_fish, print_zsh}; /* as in CLI_SHELLS */
    scripts[shell](file);
}
