/* cli/options.h -- option tables, one for each command, from which command lines are parsed and
 * help, manual page and completion are made. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of an option's field, and its value when the option is absent and has no default. */
typedef enum cli_kind {
    CLI_FLAG,   /* bool: false */
    CLI_TEXT,   /* const char *: NULL */
    CLI_INT,    /* int64_t: CLI_ABSENT */
    CLI_REAL,   /* double: NaN */
    CLI_CHOICE, /* int, index of a word of `value`: -1 */
    CLI_JOINED, /* const char *, all given values joined by commas: NULL */
    CLI_TEXTS,  /* cli_texts, a list of all given values: empty */
    CLI_IDS,    /* cli_ids, from "5,17": empty */
    CLI_BIASES, /* cli_biases, from "5:-1.5,17:inf": empty */
} cli_kind;

enum { CLI_MOST = 256 }; /* capacity of lists */

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

/* Properties of an option, by which commands treat several options alike. */
enum {
    CLI_FIXED = 1,          /* a resumed run keeps its value */
    CLI_TRANSIENT = 2,      /* for one command: not saved with a run */
    CLI_OF_ADAPTER = 4,     /* determined by --init-adapter, unused by --full */
    CLI_NOT_OF_FULL = 8,    /* unused by --full */
    CLI_OF_DATA = 16,       /* for --data, not for --batches */
    CLI_OF_VALIDATION = 32, /* for --data and --val-data, not for --batches */
    CLI_OF_OBJECTIVE = 64,  /* for the objectives that have a field of its name */
    CLI_ZERO = 128,         /* a number that is 0 when absent, as in the library's option structs */
    CLI_NEGATIVE = 256,     /* a number whose 0 is stored as -1, as there */
};

typedef struct cli_option {
    const char *name;
    char letter; /* 0: none */
    cli_kind kind;
    /* Its placeholder in --help, such as "N"; for a choice its words, "linear|cosine". */
    const char *value;
    const char *(*word)(int i); /* lists the words of a choice instead; NULL at the end */
    const char *fallback;       /* the default value as text; NULL: none */
    const char *environment;    /* the variable that sets the default instead; NULL: none */
    double low, high;           /* inclusive bounds of a number; both 0: any number */
    size_t offset;              /* offset of the field in the command's struct */
    const char *help;
    unsigned marks;    /* CLI_FIXED, ... */
    const char *unset; /* the value that stands for an absent option on resume; NULL: none */
    bool hidden;       /* not listed in help and completion */
} cli_option;

/* An option with a text; the rest is its offset, its help and other members. */
#define CLI_TEXT_OPTION(NAME, VALUE, ...)                                                          \
    {                                                                                              \
        .name = (NAME), .kind = CLI_TEXT, .value = (VALUE), __VA_ARGS__                            \
    }

/* The words of a command line, for commands that check which options were given. */
typedef struct cli_given {
    char **at;
    int n;
} cli_given;

/* A positional argument, which fills a const char *. The last one of a command may be CLI_MANY: it
 * is optional and takes all remaining words into a cli_words. */
enum { CLI_MANY = 2 };

typedef struct cli_argument {
    const char *name;
    size_t offset;
    int optional; /* true, or CLI_MANY */
} cli_argument;

typedef struct cli_words {
    char **at; /* points into argv */
    int n;
} cli_words;

typedef struct cli_command {
    const char *name;
    const char *summary;     /* one line */
    const char *description; /* paragraphs, separated by an empty line */
    const char *example;     /* command lines, one per line */
    const cli_argument *arguments;
    int n_arguments;
    const cli_option *options;
    int n_options;
    size_t size;  /* size of its struct of values */
    size_t given; /* offset of the cli_given in it; 0: none */
    int (*run)(void *values);
} cli_command;

/* Initializes a command's arrays, their lengths, and the size of its struct T. */
#define CLI_TABLE(T, argument_array, option_array)                                                 \
    .arguments = (argument_array),                                                                 \
    .n_arguments = (int)(sizeof(argument_array) / sizeof *(argument_array)),                       \
    .options = (option_array), .n_options = (int)(sizeof(option_array) / sizeof *(option_array)),  \
    .size = sizeof(T)

/* Exit statuses. CLI_INTERRUPTED is 128 + SIGINT, as shells expect after Ctrl-C. */
enum { CLI_OK = 0, CLI_FAILURE = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* The result of parsing. */
typedef enum cli_parsed {
    CLI_PARSED_RUN,
    CLI_PARSED_HELP, /* --help was among the options */
    CLI_PARSED_WRONG /* usage error, reported on standard error */
} cli_parsed;

/* Fills `values` (command->size bytes) with defaults and then from the words after the command's
 * name. Only options that collect several values may be given more than once. */
cli_parsed cli_parse(const cli_command *command, int argc, char **argv, void *values);

/* The placeholder of an option's value, or the words of a choice ("a|b"), until the next call; NULL
 * for a flag. */
const char *cli_value(const cli_option *option);

/* The default value of an option as text: that of its environment variable, if it is set and not
 * empty, otherwise `fallback`; NULL: none. */
const char *cli_default_of(const cli_option *option);

/* The option of that long name; NULL: unknown. */
const cli_option *cli_option_named(const cli_command *command, const char *name);

/* The option that a word such as "--lr", "--lr=1" or "-n8" names; NULL: unknown. *text is the value
 * if the word contains it, else NULL. */
const cli_option *cli_find_option(const cli_command *command, const char *word, const char **text);

/* Whether the text is a valid value of the option. If not, writes what is expected, such as "a
 * number above 0". */
bool cli_takes_value(const cli_option *option, const char *text, char *expected, size_t size);

/* Copies word `index` of "a|b|c" to `out`. */
void cli_word(const char *words, int index, char *out, size_t size);

/* All commands; the last element is NULL. */
extern const cli_command *const cli_commands[];
const cli_command *cli_find(const char *name);
/* Reports an unknown command on standard error, with a similar one as suggestion; returns
 * CLI_USAGE. */
int cli_unknown_command(const char *name);

#endif
