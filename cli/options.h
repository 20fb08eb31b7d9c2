/* cli/options.h -- option tables: one a command; parsing, --help, the manual page and completion
 * all read them. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of the field that an option fills, and what it holds when the option is absent and has
 * no default. */
typedef enum cli_kind {
    CLI_FLAG,   /* bool: false */
    CLI_TEXT,   /* const char *: NULL */
    CLI_INT,    /* int64_t: CLI_ABSENT */
    CLI_REAL,   /* double: NaN */
    CLI_CHOICE, /* int, an index into the words of `value`: -1 */
    CLI_JOINED, /* const char *, the texts of all times it is given, separated by commas: NULL */
    CLI_TEXTS,  /* cli_texts, one more each time the option is given: none */
    CLI_IDS,    /* cli_ids, "5,17": none */
    CLI_BIASES, /* cli_biases, "5:-1.5,17:inf": none */
} cli_kind;

enum { CLI_MOST = 256 }; /* the most that lists hold */

typedef struct cli_texts {
    const char *at[CLI_MOST];
    int n;
} cli_texts;

typedef struct cli_ids {
    int32_t at[CLI_MOST];
    int n;
} cli_ids;

typedef struct cli_biases {
    int32_t ids[CLI_MOST];
    float values[CLI_MOST];
    int n;
} cli_biases;

#define CLI_ABSENT INT64_MIN

typedef struct cli_option {
    const char *name;
    char letter; /* 0: none */
    cli_kind kind;
    const char *value;    /* what --help calls it: "N"; of a choice: "linear|cosine" */
    const char *fallback; /* the value when absent, as text; NULL: none */
    double low, high;     /* of a number, both inclusive; both 0: any */
    size_t offset;        /* of the field in the command's struct */
    const char *help;
    bool hidden; /* not shown in lists */
} cli_option;

/* The words of a command line, for a command that asks which options were given. */
typedef struct cli_given {
    char **at;
    int n;
} cli_given;

/* An argument without a name: fills a const char *. The last of a command may be CLI_MANY: it is
 * optional, and takes all words that are left into a cli_words. */
enum { CLI_MANY = 2 };

typedef struct cli_argument {
    const char *name;
    size_t offset;
    int optional; /* true, or CLI_MANY */
} cli_argument;

typedef struct cli_words {
    char **at; /* of argv */
    int n;
} cli_words;

typedef struct cli_command {
    const char *name;
    const char *summary;     /* one line */
    const char *description; /* paragraphs, separated by an empty line */
    const char *example;     /* a command line a line */
    const cli_argument *arguments;
    int n_arguments;
    const cli_option *options;
    int n_options;
    size_t size;  /* of its struct */
    size_t given; /* of its field for cli_given; 0: it has none */
    int (*run)(void *values);
} cli_command;

/* The literal of a command: its arrays and their lengths, and the size of its struct. */
#define CLI_TABLE(T, argument_array, option_array)                                                 \
    .arguments = (argument_array),                                                                 \
    .n_arguments = (int)(sizeof(argument_array) / sizeof *(argument_array)),                       \
    .options = (option_array), .n_options = (int)(sizeof(option_array) / sizeof *(option_array)),  \
    .size = sizeof(T)

/* The last is what shells expect after a Ctrl-C: 128 + SIGINT. */
enum { CLI_OK = 0, CLI_FAILURE = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* What parsing found. */
typedef enum cli_parsed {
    CLI_PARSED_RUN,
    CLI_PARSED_HELP, /* --help was among the options */
    CLI_PARSED_WRONG /* said why on standard error */
} cli_parsed;

/* Fills `values` (command->size bytes) with defaults and then from the words after the command's
 * name. An option that does not gather values may be given once. */
cli_parsed cli_parse(const cli_command *command, int argc, char **argv, void *values);

/* The option that a word such as "--lr", "--lr=1" or "-n8" names, and its value where that is in
 * the word (else NULL); NULL: there is none. */
const cli_option *cli_find_option(const cli_command *command, const char *word, const char **text);

/* Whether an option's value can be this text; else what is expected, as in "a number above 0". */
bool cli_takes_value(const cli_option *option, const char *text, char *expected, size_t size);

/* Word `index` of "a|b|c" into out. */
void cli_word(const char *words, int index, char *out, size_t size);

/* The table of commands, ended by NULL. */
extern const cli_command *const cli_commands[];
const cli_command *cli_find(const char *name);
/* Says on standard error that there is no such command, and which one may be meant; CLI_USAGE. */
int cli_unknown_command(const char *name);

#endif
