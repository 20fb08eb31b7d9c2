/* tests/cli/test_cli_chat_terminal.c -- weft chat on a terminal: pasted texts, the terminal's modes
 * at every end, the history of typed lines, completion, and /compare. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"

enum { SEEN = 1 << 18, SECONDS = 20 };

#define MARKS_ON "\033[?2004h"
#define MARKS_OFF "\033[?2004l"
#define PASTED(text) "\033[200~" text "\033[201~"

/* How a chat ended: its wait status, and the terminal's modes then. */
typedef struct ending {
    int status;
    struct termios modes;
} ending;

/* A chat on a pseudo-terminal. */
typedef struct terminal {
    int master, slave;
    int channel; /* to the session's leader: reports the ending, and ends the leader when closed */
    pid_t child;
    char seen[SEEN];
    size_t n, from; /* bytes seen; where the search for the next text starts */
    struct termios modes;
} terminal;

static terminal t;

static const char *state(void)
{
    return check_temporary("state");
}

static const char *history_file(void)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/weft/chat_history", state());
    return path;
}

/* The leader of the terminal's session, as a shell is: runs the command in a group of its own, and
 * continues it a moment after it has stopped. Its exit hangs up the terminal, which resets the
 * modes and drops output, so it reports the ending first and then waits. */
static void lead(const char *command, int channel)
{
    ending e = {0};
    setsid();
    ioctl(t.slave, TIOCSCTTY, 0);
    const pid_t chat = fork();
    if (chat == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_IGN);
        tcsetpgrp(t.slave, getpid());
        signal(SIGTTOU, SIG_DFL);
        signal(SIGHUP, SIG_DFL); /* the suite may run under nohup */
        for (int fd = 0; fd < 3; fd++)
            dup2(t.slave, fd);
        close(t.slave);
        close(t.master);
        close(channel);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (waitpid(chat, &e.status, WUNTRACED) == chat && WIFSTOPPED(e.status)) {
        usleep(200000);
        kill(-chat, SIGCONT);
    }
    char more;
    if (tcgetattr(t.slave, &e.modes) == 0 && write(channel, &e, sizeof e) == sizeof e)
        (void)!read(channel, &more, 1);
    _exit(0);
}

/* Starts `weft chat` with the options; `environment` is as for env(1). False: the case is skipped,
 * since there are no pseudo-terminals. */
static bool start(const char *environment, const char *options)
{
    char command[3000];
    t.n = t.from = 0;
    t.seen[0] = '\0';
    t.master = posix_openpt(O_RDWR | O_NOCTTY);
    if (t.master < 0 || grantpt(t.master) != 0 || unlockpt(t.master) != 0 ||
        (t.slave = open(ptsname(t.master), O_RDWR | O_NOCTTY)) < 0) {
        check_skip("there are no pseudo-terminals (/dev/pts)");
        return false;
    }
    const struct winsize size = {.ws_row = 40, .ws_col = 100};
    ioctl(t.slave, TIOCSWINSZ, &size);
    tcgetattr(t.slave, &t.modes);
    snprintf(command, sizeof command, "exec env TERM=xterm XDG_STATE_HOME=%s %s %s chat %s %s",
             state(), environment, check_built("cli/weft"), model(), options);
    int channel[2];
    CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    t.channel = channel[0];
    t.child = fork();
    if (t.child == 0) {
        close(channel[0]);
        lead(command, channel[1]);
    }
    close(channel[1]);
    return true;
}

/* Reads what the terminal gets for up to `ms`. */
static bool read_more(int ms)
{
    struct pollfd ready = {.fd = t.master, .events = POLLIN};
    if (t.n + 1 >= SEEN || poll(&ready, 1, ms) <= 0)
        return false;
    const ssize_t got = read(t.master, t.seen + t.n, SEEN - 1 - t.n);
    t.n += got > 0 ? (size_t)got : 0;
    t.seen[t.n] = '\0';
    return got > 0;
}

/* Waits until the terminal shows the text, searching after the previous match. */
static void expect(const char *text)
{
    const time_t end = time(NULL) + SECONDS;
    const char *at;
    while ((at = strstr(t.seen + t.from, text)) == NULL && time(NULL) < end)
        (void)read_more(100);
    if (at == NULL)
        CHECK_FAIL("the terminal lacks '%s' after: %s", text, t.seen + t.from);
    else
        t.from = (size_t)(at - t.seen) + strlen(text);
}

static void type(const char *keys)
{
    CHECK(write(t.master, keys, strlen(keys)) == (ssize_t)strlen(keys));
}

/* Whether marking pasted texts was switched off last, or was never switched on. */
static bool marks_are_off(void)
{
    const char *on = NULL, *off = NULL;
    for (const char *at = t.seen; (at = strstr(at, MARKS_ON)) != NULL; at++)
        on = at;
    for (const char *at = t.seen; (at = strstr(at, MARKS_OFF)) != NULL; at++)
        off = at;
    return on != NULL ? off > on : off == NULL;
}

/* Waits for the end of the process and returns its exit status, or 128 + N for signal N.
 * The terminal then has its first modes, and does not mark pasted texts. */
static int finish(void)
{
    ending e = {.status = -1};
    struct pollfd ended = {.fd = t.channel, .events = POLLIN};
    const time_t end = time(NULL) + SECONDS;
    while (poll(&ended, 1, 20) == 0 && time(NULL) < end)
        (void)read_more(10);
    const bool reported = ended.revents != 0 && read(t.channel, &e, sizeof e) == sizeof e;
    if (!reported) {
        CHECK_FAIL("the chat does not end: %s", t.seen + t.from);
        kill(-tcgetpgrp(t.master), SIGKILL);
    }
    /* The kernel passes output on in its own time. */
    for (int i = 0; i < 100 && (read_more(50) || !marks_are_off()); i++)
        continue;
    CHECK(marks_are_off());
    close(t.channel);
    waitpid(t.child, NULL, 0);
    if (reported) {
        CHECK_EQ_INT(e.modes.c_lflag, t.modes.c_lflag);
        CHECK_EQ_INT(e.modes.c_iflag, t.modes.c_iflag);
        CHECK_EQ_INT(e.modes.c_oflag, t.modes.c_oflag);
    }
    close(t.master);
    close(t.slave);
    return WIFSIGNALED(e.status) ? 128 + WTERMSIG(e.status) : WEXITSTATUS(e.status);
}

/* Waits until the editor reads keys: in the terminal's own mode, Ctrl-D is another key. */
static void expect_editor(void)
{
    struct termios modes;
    const time_t end = time(NULL) + SECONDS;
    while (tcgetattr(t.slave, &modes) == 0 && (modes.c_lflag & ICANON) != 0 && time(NULL) < end)
        usleep(10000);
    CHECK((modes.c_lflag & ICANON) == 0);
}

static void expect_prompt(void)
{
    expect(MARKS_ON);
    expect("> ");
    expect_editor();
}

/* ---- pasted texts --------------------------------------------------------------------------- */

static void a_pasted_text_is_one_message(void)
{
    if (!start("", "-n 3 -t 0"))
        return;
    expect_prompt();
    type("so: " PASTED("first line\rsecond \033[31m\"line\"\r\n\tthird \xC3\xBC\r") " end\r");
    expect_prompt();
    type("/history\r");
    expect(
        "\"role\": \"user\", \"content\": \"so: first line\\nsecond [31m\\\"line\\\"\\n\\n\\tthird "
        "\xC3\xBC end\"");
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
    int users = 0;
    for (const char *at = t.seen; (at = strstr(at, "\"role\": \"user\"")) != NULL; at++)
        users++;
    CHECK_EQ_INT(users, 1);
}

/* The terminal marks a text that is pasted while an answer is generated, too. */
static void a_text_pasted_during_an_answer_is_one_message(void)
{
    if (!start("", "-n 2000 -t 0 --shift"))
        return;
    expect_prompt();
    type("Once\r");
    expect("Once\r\n");
    while (!read_more(100))
        continue;
    CHECK(!marks_are_off());
    CHECK(strstr(t.seen + t.from, MARKS_ON) == NULL); /* the answer is not complete */
    type(PASTED("first\rsecond\rthird") "\r");
    expect_prompt();
    expect_prompt();
    type("/history\r");
    expect("\"role\": \"user\", \"content\": \"first\\nsecond\\nthird\"");
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
}

static void large_pasted_texts_are_complete(void)
{
    static char text[20000];
    char file[600], keys[700];
    snprintf(file, sizeof file, "%s", check_temporary("saved.json"));
    if (!start("", "-n 3 -t 0"))
        return;
    size_t n = (size_t)snprintf(text, sizeof text, "/system \033[200~");
    for (int i = 0; i < 300; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "line %d of a long text\r", i);
    snprintf(text + n, sizeof text - n, "the end\033[201~\r");
    expect_prompt();
    for (const char *at = text; *at != '\0';) { /* no more than the terminal's buffer at a time */
        const size_t part = strlen(at) < 500 ? strlen(at) : 500;
        CHECK(write(t.master, at, part) == (ssize_t)part);
        at += part;
        while (read_more(20))
            continue;
    }
    expect("(system text set)");
    expect_prompt();
    snprintf(keys, sizeof keys, "/save %s\r", file);
    type(keys);
    expect("(saved)");
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
    const output o = shell_command(NULL,
                                   "grep -o 'line [0-9]* of a long text.u000a' %s | wc -l; grep -c "
                                   "'u000athe end\"' %s",
                                   file, file);
    CHECK_STR(o.out, "300\n1\n");
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void the_terminal_is_restored_at_every_end(void)
{
    static const struct {
        const char *keys;
        int signal, ends_by; /* 0: by itself */
    } all[] = {{"\x04", 0, 0},
               {"/quit\r", 0, 0},
               {"\x03\x03", 0, 0},
               {"", SIGTERM, SIGTERM},
               {"", SIGHUP, SIGHUP},
               {"\x1c", 0, SIGQUIT},
               {"\033[200~never ends\x03\x04", 0, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!start("", "-n 3 -t 0"))
            return;
        expect_prompt();
        for (const char *key = all[i].keys; *key != '\0'; key++) {
            if (*key == '\x03' || *key == '\x04') {
                while (read_more(200))
                    continue;
            }
            type((const char[]){*key, '\0'});
        }
        if (all[i].signal != 0)
            kill(-tcgetpgrp(t.master), all[i].signal);
        if (!CHECK_EQ_INT(finish(), all[i].ends_by != 0 ? 128 + all[i].ends_by : 0))
            CHECK_FAIL("end %d", (int)i);
    }
}

static void a_stopped_chat_continues(void)
{
    if (!start("", "-n 3 -t 0"))
        return;
    expect_prompt();
    for (int i = 0; i < 2; i++) {
        while (read_more(200))
            continue;
        type("\x1a");
        expect(MARKS_OFF);
        expect(MARKS_ON); /* the prompt may be drawn before that */
        expect_editor();
    }
    type(PASTED("a\rb") "\r");
    expect_prompt();
    type("/history\r");
    expect("\"content\": \"a\\nb\"");
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
}

/* ---- history -------------------------------------------------------------------------------- */

static void clear_state(void)
{
    CHECK_EQ_INT(shell_command(NULL, "rm -rf %s", state()).code, 0);
}

static void run_lines(const char *environment, const char *options, const char *keys)
{
    if (!start(environment, options))
        return;
    expect_prompt();
    type(keys);
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
}

static void lines_are_kept_for_later_runs(void)
{
    struct stat info;
    clear_state();
    run_lines("", "-n 3 -t 0", PASTED("one \\ \rtwo") "\r");
    CHECK_EQ_INT(stat(history_file(), &info), 0);
    CHECK_EQ_INT(info.st_mode & 0777, 0600);
    output o = shell_command(NULL, "cat %s", history_file());
    CHECK_STR(o.out, "one \\\\ \\ntwo\n/quit\n");
    if (!start("", "-n 3 -t 0")) /* the second arrow up brings back the text */
        return;
    expect_prompt();
    type("\033[A\033[A\r");
    expect_prompt();
    type("/history\r");
    expect("\"content\": \"one \\\\ \\ntwo\"");
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
    o = shell_command(NULL, "cat %s", history_file());
    CHECK_STR(o.out, "one \\\\ \\ntwo\n/quit\none \\\\ \\ntwo\n/history\n/quit\n");
}

static void history_can_be_turned_off(void)
{
    clear_state();
    run_lines("", "-n 3 -t 0 --history off", "secret\r");
    run_lines("WEFT_CHAT_HISTORY=off", "-n 3 -t 0", "secret\r");
    CHECK_EQ_INT(access(state(), F_OK), -1);
    /* Without a folder that can be written, and from a pipe, nothing is kept either. */
    run_lines("XDG_STATE_HOME= HOME=/proc/none", "-n 3 -t 0", "secret\r");
    const output o = shell_command("secret\n", "XDG_STATE_HOME=%s %s chat %s -n 3 -t 0", state(),
                                   check_built("cli/weft"), model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(access(state(), F_OK), -1);
}

static void a_foreign_file_is_left_alone(void)
{
    clear_state();
    output o = shell_command(NULL, "mkdir -p %s/weft && echo mine > %s/mine && ln -s %s/mine %s",
                             state(), state(), state(), history_file());
    CHECK_EQ_INT(o.code, 0);
    run_lines("", "-n 3 -t 0", "secret\r");
    o = shell_command(NULL, "cat %s/mine", state());
    CHECK_STR(o.out, "mine\n");
    /* A folder, and a FIFO without a writer, do not block a chat. */
    o = shell_command(NULL, "rm %s && mkdir %s", history_file(), history_file());
    run_lines("", "-n 3 -t 0", "secret\r");
    o = shell_command(NULL, "rmdir %s && mkfifo %s", history_file(), history_file());
    run_lines("", "-n 3 -t 0", "secret\r");
}

static void the_file_is_bounded(void)
{
    struct stat info;
    clear_state();
    output o = shell_command(NULL,
                             "mkdir -p %s/weft && { seq 1500 | sed 's/^/line /'; printf 'bad "
                             "\\377\\nodd \\\\x\\n'; head -c 20000 /dev/zero | tr '\\0' a; echo; } "
                             "> %s && chmod 644 %s",
                             state(), history_file(), history_file());
    CHECK_EQ_INT(o.code, 0);
    if (!start("", "-n 3 -t 0"))
        return;
    expect_prompt();
    type("\033[A\r"); /* the last well-formed entry */
    expect_prompt();
    type("/history\r");
    expect("\"content\": \"line 1500\"");
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
    CHECK_EQ_INT(stat(history_file(), &info), 0);
    CHECK_EQ_INT(info.st_mode & 0777, 0600);
    o = shell_command(NULL, "wc -l < %s; ls %s/weft", history_file(), state());
    CHECK_STR(o.out, "502\nchat_history\n"); /* "line 1500" again is not added */
}

/* ---- commands ------------------------------------------------------------------------------- */

static void tab_completes_commands(void)
{
    if (!start("", "-n 3 -t 0"))
        return;
    expect_prompt();
    type("/hi\t\r");
    expect("[]");
    expect_prompt();
    type("/s\t");
    expect("/system  /save  /stats  ");
    type("ys\tBe brief.\r");
    expect("(system text set)");
    expect_prompt();
    type("a\tb\r");
    expect_prompt();
    type("/history\r");
    expect("\"content\": \"a\\tb\"");
    expect_prompt();
    type("/zz\t\x15/quit\r"); /* an unknown command stays as it is; Ctrl-U clears the line */
    CHECK_EQ_INT(finish(), 0);
}

static const char *adapter(void)
{
    return storyteller_adapter("--steps 12 --rank 4 --lr 0.02");
}

static void the_start_names_model_and_adapter(void)
{
    char options[800], wanted[1400];
    snprintf(options, sizeof options, "-n 3 -t 0 -a %s", adapter());
    snprintf(wanted, sizeof wanted, "(%s with the adapter %s; /help lists the commands)", model(),
             adapter());
    if (!start("", options))
        return;
    expect(wanted);
    expect_prompt();
    type("\x04");
    CHECK_EQ_INT(finish(), 0);
}

/* What `weft chat` prints for the lines. */
static void answer(const char *lines, const char *options, char *out, size_t size)
{
    const output o = weft_command(lines, "chat %s -n 8 -t 0 %s", model(), options);
    CHECK_EQ_INT(o.code, 0);
    snprintf(out, size, "%s", o.out);
}

static void base_and_adapter_are_compared(void)
{
    char with[700], base[1000], adapted[1000], both[4000], wanted[4000];
    snprintf(with, sizeof with, "-a %s", adapter());
    answer("Once\n", "", base, sizeof base);
    answer("Once\n", with, adapted, sizeof adapted);
    CHECK(strcmp(base, adapted) != 0);
    answer("/compare Once\n", with, both, sizeof both);
    snprintf(wanted, sizeof wanted, "(base)\n%s(adapter %s)\n%s", base, adapter(), adapted);
    CHECK_STR(both, wanted);
    answer("Once\n/compare\n", with, both, sizeof both);
    snprintf(wanted, sizeof wanted, "%s(base)\n%s(adapter %s)\n%s", adapted, base, adapter(),
             adapted);
    CHECK_STR(both, wanted);
    /* The conversation then continues with the adapter, and has its answer alone. */
    char plain[2000], after[4000];
    answer("Once\nAnd then?\n/history\n", with, plain, sizeof plain);
    answer("/compare Once\nAnd then?\n/history\n", with, after, sizeof after);
    snprintf(wanted, sizeof wanted, "(base)\n%s(adapter %s)\n%s", base, adapter(), plain);
    CHECK_STR(after, wanted);
}

/* The last answer stays when the base's answer to /compare is stopped. */
static void a_stopped_comparison_keeps_the_last_answer(void)
{
    char options[800];
    snprintf(options, sizeof options, "-n 2000 -t 0 --shift -a %s", adapter());
    if (!start("", options))
        return;
    expect_prompt();
    type("Once\r");
    expect_prompt();
    type("/compare\r");
    expect("(base)");
    while (!read_more(100))
        continue;
    type("\x03");
    expect_prompt();
    CHECK(strstr(t.seen, "(adapter ") == NULL);
    type("/history\r");
    expect("\"role\": \"user\", \"content\": \"Once\"");
    expect("\"role\": \"assistant\"");
    expect_prompt();
    type("/quit\r");
    CHECK_EQ_INT(finish(), 0);
}

static void comparisons_need_an_adapter_and_a_message(void)
{
    output o = weft_command("/compare Once\n", "chat %s -n 3 -t 0", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, "");
    CHECK_CONTAINS(o.err, "/compare needs --adapter DIR");
    o = weft_command("/compare\n", "chat %s -n 3 -t 0 -a %s", model(), adapter());
    CHECK_STR(o.out, "");
    CHECK_CONTAINS(o.err, "there is no message yet");
    /* An adapter that is gone when it is to be loaded again ends the chat. */
    const char *copy = check_temporary("copy");
    CHECK_EQ_INT(shell_command(NULL, "cp -rL %s %s", adapter(), copy).code, 0);
    o = shell_command(
        NULL,
        "trap '' PIPE; cd $(dirname %s) && rm -f turns said && mkfifo turns && { %s "
        "chat %s -n 3 -t 0 -a %s < turns > said & } && exec 3> turns && echo Once >&3 "
        "&& for i in $(seq 1200); do [ -s said ] && break; sleep 0.1; done; rm -r %s; "
        "echo '/compare And?' >&3; echo Never >&3; exec 3>&-; wait $!",
        copy, check_built("cli/weft"), model(), copy, copy);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "the adapter cannot be loaded again, so the chat ends");
    CHECK(strstr(o.out, "Never") == NULL);
}

CHECK_MAIN("cli_chat_terminal", CHECK_CASE(a_pasted_text_is_one_message),
           CHECK_CASE(a_text_pasted_during_an_answer_is_one_message),
           CHECK_CASE(large_pasted_texts_are_complete),
           CHECK_CASE(the_terminal_is_restored_at_every_end), CHECK_CASE(a_stopped_chat_continues),
           CHECK_CASE(lines_are_kept_for_later_runs), CHECK_CASE(history_can_be_turned_off),
           CHECK_CASE(a_foreign_file_is_left_alone), CHECK_CASE(the_file_is_bounded),
           CHECK_CASE(tab_completes_commands), CHECK_CASE(the_start_names_model_and_adapter),
           CHECK_CASE(base_and_adapter_are_compared),
           CHECK_CASE(a_stopped_comparison_keeps_the_last_answer),
           CHECK_CASE(comparisons_need_an_adapter_and_a_message))
