/* tests/cli/test_cli_messages.c -- bad input to every option of every command: a failure is a
 * message that begins with the location, which is named only once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

enum { COMMANDS = 32, OPTIONS = 100 };

typedef struct option {
    char name[48], value[64];
} option;

/* ---- commands and options ------------------------------------------------------------------- */

/* The names in `weft help`, a line each. */
static int commands_of(char names[COMMANDS][16])
{
    int n = 0;
    const output o = weft_command(NULL, "help");
    const char *line = strstr(o.out, "Commands:\n");
    for (; line != NULL && n < COMMANDS; line = strchr(line + 1, '\n')) {
        if (sscanf(line, "\n  %15[a-z] ", names[n]) == 1 && line[3] != ' ')
            n++;
        else if (n > 0)
            break;
    }
    return n;
}

/* The options with a value in `weft COMMAND --help`. */
static int options_of(const char *command, option *all)
{
    int n = 0;
    const output o = weft_command(NULL, "%s --help", command);
    for (const char *line = strstr(o.out, "\nOptions:\n"); line != NULL && n < OPTIONS;
         line = strchr(line + 1, '\n')) {
        const char *dashes = strstr(line, "--"), *end = strchr(line + 1, '\n');
        if (strncmp(line, "\n  ", 3) != 0 || dashes == NULL || dashes > line + 8 ||
            (end != NULL && dashes > end))
            continue;
        option *new = &all[n];
        if (sscanf(dashes, "--%47[a-z0-9-] %63[^ \n]", new->name, new->value) == 2 &&
            dashes[2 + strlen(new->name) + 1] != ' ')
            n++;
    }
    return n;
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Whether "X: " stands twice in a line, X being without spaces. */
static bool says_a_place_twice(const char *line, size_t n)
{
    char text[2000], *parts[64];
    int count = 0;
    snprintf(text, sizeof text, "%.*s", (int)n, line);
    for (char *at = text; count < 64;) {
        parts[count++] = at;
        at = strstr(at, ": ");
        if (at == NULL)
            break;
        *at = '\0';
        at += 2;
    }
    for (int i = 0; i + 1 < count; i++) { /* the last part has no colon behind it */
        for (int k = i + 1; k + 1 < count; k++) {
            if (strchr(parts[i], ' ') == NULL && strcmp(parts[i], parts[k]) == 0)
                return true;
        }
    }
    return false;
}

/* Every line on standard error. */
static bool check_messages(const output *o, const char *command)
{
    bool fine = true;
    for (const char *line = o->err; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        if (strncmp(line, "weft: ", 6) == 0 && says_a_place_twice(line, n)) {
            CHECK_FAIL("%s: %.*s", command, (int)n, line);
            fine = false;
        }
        line += n + (line[n] == '\n');
    }
    /* A usage error, a failure or success; never a signal or the timeout. */
    if (o->code < 0 || o->code > 2) {
        CHECK_FAIL("%s: exit status %d: %s", command, o->code, o->err);
        fine = false;
    }
    if (o->code != 0 && strncmp(o->err, "weft: ", 6) != 0 && strstr(o->err, "\nweft: ") == NULL &&
        strstr(o->out, "\"error\": ") == NULL) {
        CHECK_FAIL("%s: no message: %s", command, o->err);
        fine = false;
    }
    return fine;
}

static void doubled_places_are_noticed(void)
{
    static const char *const twice[] = {"weft: embed: embed: no", "weft: a.json: x y: a.json: no"};
    static const char *const once[] = {"weft: embed: a.json: no", "weft: a: b", "weft: a b: a b: c",
                                       "weft: x: y: x"};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++)
        CHECK(says_a_place_twice(twice[i], strlen(twice[i])));
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        CHECK(!says_a_place_twice(once[i], strlen(once[i])));
}

/* ---- bad values ----------------------------------------------------------------------------- */

static char data[600], nonsense[600], folder[600], out[600];

static void prepare(void)
{
    snprintf(data, sizeof data, "%s", text_file("data.txt", "Once upon a time.\n"));
    snprintf(nonsense, sizeof nonsense, "%s", text_file("nonsense.json", "{\"a\": nonsense\n"));
    snprintf(folder, sizeof folder, "%s", check_temporary("empty"));
    snprintf(out, sizeof out, "%s", check_temporary("written"));
    CHECK_EQ_INT(shell_command(NULL, "mkdir -p %s %s.in", folder, folder).code, 0);
}

/* Sufficient arguments with which a command does little, for a shell: $M is the model, $D data, $O
 * a name for what is written. */
static const char *arguments_of(const char *command)
{
    static const struct {
        const char *command, *arguments;
    } all[] = {
        {"generate", "$M -p Once -n 1"},
        {"chat", "$M -p Once -n 1"},
        {"classify", "$M Once"},
        {"embed", "$M Once"},
        {"train", "$M --data $D --steps 1 --rank 1 --length 8 --out $O.run --overwrite"},
        {"data", "$D $M"},
        {"eval", "$M --data $D"},
        {"tokenize", "$M -p Once"},
        {"convert", "$M $O.gguf --overwrite"},
        {"fuse", "$M $O.adapter $O.fused"},
        {"inspect", "$M -p Once -o $O.inspected"},
        {"logits", "$M --ids $D --out $O.logits"},
        {"bench", "$M -n 1 --prompt 2 --runs 1 --warm-up 0"},
        {"discover", "$M"},
        {"pull", "$M --endpoint http://127.0.0.1:1"},
        {"info", "$M"},
        {"help", "$M"},
        {"report", "$M"},
        {"verify", "$M"},
        {"serve", "$M --host 203.0.113.1"}, /* no address of this machine: it ends at once */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(command, all[i].command) == 0)
            return all[i].arguments;
    }
    CHECK_FAIL("%s: this suite has no arguments for it", command);
    return "";
}

/* In a folder of its own, for values that become names of files. */
static void try_line(const char *model, const char *line)
{
    const output o =
        shell_command("nonsense\n", "cd '%s.in' && M='%s' D='%s' N='%s' O='%s' && timeout 60 %s %s",
                      folder, model, data, nonsense, out, check_built("cli/weft"), line);
    CHECK(check_messages(&o, line));
}

static void try_command(const char *model, const char *command, const char *name, const char *value)
{
    char line[2000];
    snprintf(line, sizeof line, "%s %s%s%.60s%s%s", command, arguments_of(command),
             name != NULL ? " --" : "", name != NULL ? name : "", value != NULL ? " " : "",
             value != NULL ? value : "");
    try_line(model, line);
}

enum { VALUES = 5 };

/* The code that reads a value is shared by many options, so each option gets some of the values, in
 * turn: a process takes 60 ms under the sanitizers, and all take minutes. */
static int values_each(void)
{
    return check_exhaustive() ? VALUES : check_few() ? 1 : 3;
}

static void bad_values_of_every_option(void)
{
    char names[COMMANDS][16], model[600];
    prepare();
    snprintf(model, sizeof model, "%s", check_source("examples/storyteller"));
    const char *const bad[VALUES] = {"/no/such/file", nonsense, folder, "-1e999", "''"};
    const int n = commands_of(names), each = values_each();
    CHECK(n >= 17);
    for (int c = 0; c < n; c++) {
        option all[OPTIONS];
        const int n_options = options_of(names[c], all);
        for (int i = 0; i < n_options; i += check_few() ? 3 : 1) {
            for (int k = 0; k < each; k++)
                try_command(model, names[c], all[i].name, bad[(i * each + k) % VALUES]);
        }
    }
}

static void bad_models_of_every_command(void)
{
    char names[COMMANDS][16];
    prepare();
    const char *const bad[] = {"/no/such/model", nonsense, folder, "no/such", ""};
    const int n = commands_of(names);
    for (int c = 0; c < n; c++) {
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
            try_command(bad[k], names[c], NULL, NULL);
    }
}

/* Texts and files of texts that a command can read, but not use; $N is malformed JSON. */
static void bad_texts(void)
{
    static const char *const lines[] = {
        "generate $M -p ''",
        "generate $M --batch $N",
        "generate $M -p Once --json-schema $N",
        "chat $M -p ''",
        "chat $M --json",
        "classify $M ''",
        "classify $M '' --labels a,b",
        "classify $M -f $N",
        "embed $M ''",
        "embed $M -f $N",
        "train $M --data $N --out $O.bad",
        "train $M --batches $N --out $O.bad",
        "data $N $M",
        "eval $M --data $N",
        "eval $M --data /dev/null",
        "tokenize $M -p ''",
        "tokenize $M --jsonl",
        "tokenize $M --jsonl --decode",
        "tokenize $M --decode -p nope",
        "convert $N $O.gguf",
        "fuse $M $N $O.fused",
        "inspect $M -p '' -o $O.inspected",
        "inspect $M -p '' --svg $O.svg",
        "inspect $M -p Once --svg /no/such/folder/x.svg",
        "inspect $M -p Once --show attention --layers 4-2",
        "inspect $M -p Once --show loss --layers 2",
        "inspect $M --show adapter --adapter $N",
        "inspect $M --show adapter",
        "logits $M --ids $N --out $O.logits",
        "pull a/b --endpoint http://127.0.0.1:1",
        "help nope",
        "nope",
    };
    prepare();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        try_line(check_source("examples/storyteller"), lines[i]);
}

CHECK_MAIN("cli_messages", CHECK_CASE(doubled_places_are_noticed),
           CHECK_CASE(bad_values_of_every_option), CHECK_CASE(bad_models_of_every_command),
           CHECK_CASE(bad_texts))
