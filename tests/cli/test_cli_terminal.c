/* tests/cli/test_cli_terminal.c -- output on a terminal: text from models, files and arguments
 * cannot send control sequences, and a pipe still gets the bytes. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"

enum { SEEN = 1 << 16 };

/* A new pseudo-terminal's master, or -1 where the system has none (a chroot without /dev/pts). */
static int open_terminal(void)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        return master;
    if (master >= 0)
        close(master);
    return -1;
}

/* Skips the case, and returns true, where there are no pseudo-terminals. */
static bool skip_without_terminal(void)
{
    const int master = open_terminal();
    if (master < 0) {
        check_skip("there are no pseudo-terminals (/dev/pts)");
        return true;
    }
    close(master);
    return false;
}

/* Runs a shell command with standard output and standard error on a terminal. Returns what the
 * terminal got, which belongs to this function and lives until the next call. */
static const char *on_terminal(const char *command)
{
    static char seen[SEEN];
    size_t n = 0;
    seen[0] = '\0';
    const int master = open_terminal();
    if (master < 0)
        return seen;
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
        dup2(slave, STDOUT_FILENO);
        dup2(slave, STDERR_FILENO);
        close(master);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    struct pollfd ready = {.fd = master, .events = POLLIN};
    for (int quiet = 0; n + 1 < SEEN && quiet < 600;) {
        ssize_t got = 0;
        if (poll(&ready, 1, 100) > 0 && (got = read(master, seen + n, SEEN - 1 - n)) <= 0)
            break; /* the last process that had the terminal open has ended */
        n += (size_t)got;
        quiet = got > 0 ? 0 : quiet + 1;
    }
    seen[n] = '\0';
    close(master);
    waitpid(child, NULL, 0);
    return seen;
}

/* Newlines, to which a terminal driver adds a carriage return, and tabs are all that is allowed. */
static void check_harmless(const char *seen, const char *about)
{
    CHECK(seen[0] != '\0');
    for (const char *c = seen; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c, next = (unsigned char)c[1];
        if (byte == '\n' || byte == '\t' || (byte == '\r' && next == '\n'))
            continue;
        const unsigned char third = next != '\0' ? (unsigned char)c[2] : 0;
        const bool turns = (byte == 0xd8 && next == 0x9c) || /* U+061C */
                           (byte == 0xe2 && next == 0x80 &&
                            (third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae))) ||
                           (byte == 0xe2 && next == 0x81 && third >= 0xa6 && third <= 0xaf);
        if (turns || byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0)) {
            CHECK_FAIL("%s: byte %td on the terminal is 0x%02x", about, c - seen, byte);
            return;
        }
    }
}

/* A title, a color, a clear screen, a bell, C1 controls, a carriage return over a line, and
 * characters that change the direction of text: U+202E, U+2066 and U+061C. */
#define ATTACK                                                                                     \
    "a\\033]0;x\\007b\\033[31mc\\302\\233"                                                         \
    "2Jd\\re\\177f\\342\\200\\256g\\342\\201\\246h\\330\\234i"

/* Characters of two, three and four bytes. */
#define FOREIGN                                                                                    \
    "Gr\xC3\xBC\xC3\x9F"                                                                           \
    "e, \xE6\x97\xA5\xE6\x9C\xAC \xE2\x80\x93 \xF0\x9F\x98\x80"

static void text_of_all_languages_is_shown(void)
{
    if (skip_without_terminal())
        return;
    char command[3000];
    const output ids =
        shell_command(NULL, "%s tokenize %s -p '" FOREIGN "'", check_built("cli/weft"), model());
    CHECK_EQ_INT(ids.code, 0);
    snprintf(command, sizeof command, "%s tokenize %s --decode -p '%.*s'", check_built("cli/weft"),
             model(), (int)strcspn(ids.out, "\n"), ids.out);
    CHECK_CONTAINS(on_terminal(command), FOREIGN);
}

static void generated_text_commands_no_terminal(void)
{
    if (skip_without_terminal())
        return;
    char command[3000];
    const output ids = shell_command(NULL, "%s tokenize %s -p \"$(printf '%s')\"",
                                     check_built("cli/weft"), model(), ATTACK);
    CHECK_EQ_INT(ids.code, 0);
    char list[1000];
    snprintf(list, sizeof list, "%.*s", (int)strcspn(ids.out, "\n"), ids.out);
    snprintf(command, sizeof command, "%s tokenize %s --decode -p '%s'", check_built("cli/weft"),
             model(), list);
    const output piped = shell_command(NULL, "%s", command);
    CHECK_CONTAINS(piped.out, "\033[31m"); /* a pipe gets the text itself */
    const char *seen = on_terminal(command);
    check_harmless(seen, "decoded text");
    CHECK_CONTAINS(seen, "\\x1b[31mc");
    CHECK_CONTAINS(seen, "\\x07b");
    CHECK_CONTAINS(seen, "\\u202eg\\u2066h\\u061ci");
    /* The prompt is written before the continuation. */
    snprintf(command, sizeof command,
             "%s generate %s --echo --max-tokens 2 -p \"$(printf '%s')\" 2>&1 || "
             "%s generate %s --max-tokens 2 -p x",
             check_built("cli/weft"), model(), ATTACK, check_built("cli/weft"), model());
    check_harmless(on_terminal(command), "generate");
}

static void arguments_and_paths_command_no_terminal(void)
{
    if (skip_without_terminal())
        return;
    static const char *const lines[] = {
        "info \"$(printf '" ATTACK "')\"",
        "\"$(printf '" ATTACK "')\"",
        "generate x --device \"$(printf '" ATTACK "')\" -p x",
        "generate x \"$(printf -- '--" ATTACK "')\"",
        "generate x --max-tokens \"$(printf '" ATTACK "')\"",
        "pull \"$(printf '" ATTACK "')\"",
        "eval x --data \"$(printf '" ATTACK "')\"",
        "tokenize \"$(printf '" ATTACK "')\" -p x",
        "convert \"$(printf '" ATTACK "')\" out",
    };
    char command[3000];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(command, sizeof command, "%s %s", check_built("cli/weft"), lines[i]);
        check_harmless(on_terminal(command), lines[i]);
    }
}

/* A folder's name and the model_type in its config.json are shown by discover. */
static void discovered_names_command_no_terminal(void)
{
    if (skip_without_terminal())
        return;
    char command[4000];
    snprintf(command, sizeof command,
             "d=%s; m=\"$d/$(printf '" ATTACK "')\"; mkdir -p \"$m\" && cd \"$m\" && "
             "printf '{\"model_type\": \"l\\\\u001b[31m\\\\u0007\"}' >config.json && "
             "cp %s/*.safetensors %s/tokenizer.json . 2>/dev/null; %s discover \"$d\"",
             check_temporary("found"), model(), model(), check_built("cli/weft"));
    const char *seen = on_terminal(command);
    check_harmless(seen, "discover");
    CHECK_CONTAINS(seen, "\\x1b[31mc");
}

/* A validation shows its progress in place of the bar of the updates. */
static void validation_shows_its_progress(void)
{
    if (skip_without_terminal())
        return;
    char command[4000];
    snprintf(command, sizeof command,
             "d=%s; mkdir -p \"$d\" && cd \"$d\" && for i in 1 2 3 4 5 6 7 8 9 10; do "
             "echo '{\"text\": \"Tale '$i' of ten.\"}'; done >rows.jsonl && TERM=xterm %s train %s "
             "--data rows.jsonl --val-data rows.jsonl --steps 1 --batch-size 1 --out run",
             check_temporary("validated"), check_built("cli/weft"), model());
    const char *seen = on_terminal(command);
    CHECK_CONTAINS(seen, "] validation: 80%");
    CHECK_CONTAINS(seen, "step 1/1  loss ");
}

CHECK_MAIN("cli_terminal", CHECK_CASE(text_of_all_languages_is_shown),
           CHECK_CASE(generated_text_commands_no_terminal),
           CHECK_CASE(arguments_and_paths_command_no_terminal),
           CHECK_CASE(discovered_names_command_no_terminal),
           CHECK_CASE(validation_shows_its_progress))
