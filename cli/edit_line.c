/* cli/edit_line.c -- reads a line from a terminal with editing, by libedit: history, completion,
 * and pasted texts of several lines.
 *
 * From the first line on, the terminal is asked to mark pasted text ("bracketed paste"), which is
 * then inserted with its line breaks, also if it arrives before the next line is read. This ends
 * with the process, and while a signal stops it. */
#include "cli/edit_line.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/history.h"

/* SHOWN: entries of the history that are kept in memory. LONGEST: characters of a pasted text. */
enum { SHOWN = 1000, LONGEST = 1 << 20 };

static const char *(*list_command)(int i);
static bool keeps_history;
static const char *shown_prompt;
static EditLine *editor;
static History *past;
static bool interrupted; /* within a pasted text */

void cli_edit_line_configure(const char *(*command)(int i), bool history)
{
    list_command = command;
    keeps_history = history;
}

/* ---- the terminal's mode -------------------------------------------------------------------- */

static volatile sig_atomic_t marks_pastes;
static pthread_t reader;     /* the thread that reads lines */
static struct termios usual; /* the terminal's modes before a line is read */

/* Called by signal handlers, too. */
static void mark_pastes(bool on)
{
    static const char start[] = "\033[?2004h", end[] = "\033[?2004l";
    marks_pastes = on;
    if (write(STDOUT_FILENO, on ? start : end, sizeof start - 1) < 0)
        marks_pastes = false;
}

/* Restores the mode, and then does what the signal does without a handler. libedit sends itself the
 * signals that it catches, and another thread may get them: only the one that reads may change the
 * modes, since it could otherwise begin the next line meanwhile. */
static void on_signal(int number)
{
    const int before = errno;
    if (!pthread_equal(pthread_self(), reader)) {
        (void)pthread_kill(reader, number);
        errno = before;
        return;
    }
    /* Another process group may have the terminal, whose modes are then not this one's. */
    const bool has_terminal = tcgetpgrp(STDIN_FILENO) == getpgrp();
    const bool on = has_terminal && marks_pastes != 0;
    struct sigaction fallback = {.sa_handler = SIG_DFL}, own;
    sigset_t set;
    if (has_terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &usual); /* libedit may not have caught the signal yet */
    if (on) /* after the terminal has dropped its output, as at Ctrl-C */
        mark_pastes(false);
    sigaction(number, &fallback, &own);
    sigemptyset(&set);
    sigaddset(&set, number);
    (void)raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* the process ends or stops here */
    sigaction(number, &own, NULL);
    if (on)
        mark_pastes(true);
    errno = before;
}

static void end_marks(void)
{
    if (marks_pastes)
        mark_pastes(false);
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old, own = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &own, NULL);
    }
}

/* ---- pasted text ---------------------------------------------------------------------------- */

/* Reads up to the end mark; returns the number of characters in *text, which the caller frees. */
static size_t read_paste(EditLine *e, wchar_t **text)
{
    static const wchar_t mark[] = L"\033[201~";
    const size_t m = sizeof mark / sizeof *mark - 1;
    size_t n = 0, room = 0;
    wchar_t c;
    *text = NULL;
    for (;;) {
        interrupted = el_wgetc(e, &c) <= 0;
        if (interrupted)
            return 0;
        if (n == room) {
            room = room > 0 ? 2 * room : 256;
            wchar_t *more = realloc(*text, room * sizeof *more);
            if (more == NULL)
                return 0;
            *text = more;
        }
        (*text)[n++] = c;
        if (n >= m && wmemcmp(*text + n - m, mark, m) == 0)
            return n - m;
        if (n > LONGEST + m)
            wmemmove(*text + LONGEST, *text + LONGEST + 1, --n - LONGEST);
    }
}

/* Makes line breaks \n, and drops other control characters and the breaks at the end. */
static size_t clean(wchar_t *text, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const wchar_t c = text[i] == L'\r' ? L'\n' : text[i];
        if (c == L'\n' || c == L'\t' || (c >= L' ' && c != 0x7f))
            text[kept++] = c;
    }
    while (kept > 0 && text[kept - 1] == L'\n')
        kept--;
    return kept;
}

static unsigned char paste(EditLine *e, int key)
{
    wchar_t *text;
    (void)key;
    size_t n = read_paste(e, &text);
    n = text != NULL ? clean(text, n) : 0;
    if (n > 0)
        text[n] = L'\0'; /* replaces the end mark */
    const bool failed = n > 0 && el_winsertstr(e, text) != 0;
    free(text);
    return interrupted ? CC_EOF : failed ? CC_ERROR : CC_REFRESH;
}

/* ---- completion ----------------------------------------------------------------------------- */

/* The number of commands that begin with the n characters of `start`; *common is the length of what
 * they have in common, *first the first. */
static int find_commands(const char *start, size_t n, const char **first, size_t *common)
{
    const char *name;
    int found = 0;
    for (int i = 0; (name = list_command(i)) != NULL; i++) {
        size_t same = 0;
        if (strncmp(name, start, n) != 0)
            continue;
        if (found++ == 0) {
            *first = name;
            *common = strlen(name);
        }
        while (same < *common && name[same] == (*first)[same])
            same++;
        *common = same;
    }
    return found;
}

static void print_commands(const char *start, size_t n)
{
    const char *name;
    putchar('\n');
    for (int i = 0; (name = list_command(i)) != NULL; i++) {
        if (strncmp(name, start, n) == 0)
            printf("/%s  ", name);
    }
    putchar('\n');
    fflush(stdout);
}

/* Completes a command at the start of the line; elsewhere Tab is a character. */
static unsigned char complete(EditLine *e, int key)
{
    const LineInfo *line = el_line(e);
    const char *first = NULL;
    size_t n = (size_t)(line->cursor - line->buffer), common = 0;
    (void)key;
    if (list_command == NULL || n == 0 || *line->buffer != '/' || memchr(line->buffer, ' ', n))
        return el_winsertstr(e, L"\t") == 0 ? CC_REFRESH : CC_ERROR;
    const char *start = line->buffer + 1;
    const int found = find_commands(start, --n, &first, &common);
    if (found == 0)
        return CC_ERROR;
    char rest[64];
    snprintf(rest, sizeof rest, "%.*s%s", (int)(common - n), first + n, found == 1 ? " " : "");
    if (*rest != '\0')
        return el_insertstr(e, rest) == 0 ? CC_REFRESH : CC_ERROR;
    print_commands(start, n);
    return CC_REDISPLAY;
}

/* ---- the editor ----------------------------------------------------------------------------- */

static char *prompt_of(EditLine *e)
{
    (void)e;
    return (char *)shown_prompt;
}

static void enter(void *context, const char *line)
{
    HistEvent event;
    (void)context;
    history(past, &event, H_ENTER, line);
}

static void bind_keys(void)
{
    static const char *const keys[][2] = {
        {"\033[200~", "weft-paste"},   {"\t", "weft-complete"},
        {"^R", "em-inc-search-prev"},  {"\033[3~", "ed-delete-next-char"},
        {"\033[H", "ed-move-to-beg"},  {"\033[F", "ed-move-to-end"},
        {"\033[1~", "ed-move-to-beg"}, {"\033[4~", "ed-move-to-end"},
        {"\033[1;5C", "em-next-word"}, {"\033[1;5D", "ed-prev-word"},
    };
    el_set(editor, EL_ADDFN, "weft-paste", "insert pasted text", paste);
    el_set(editor, EL_ADDFN, "weft-complete", "complete a command", complete);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* Multi-byte characters are edited as a whole; where no locale is set, in UTF-8. */
static void choose_locale(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static bool open_editor(void)
{
    HistEvent event;
    choose_locale();
    reader = pthread_self();
    editor = el_init("weft", stdin, stdout, stderr);
    past = history_init();
    if (editor == NULL || past == NULL)
        return false;
    history(past, &event, H_SETSIZE, SHOWN);
    history(past, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 1);
    el_set(editor, EL_PROMPT, prompt_of);
    el_set(editor, EL_HIST, history, past);
    bind_keys();
    el_source(editor, NULL);
    if (keeps_history)
        cli_history_load(enter, NULL);
    catch_signals();
    return atexit(end_marks) == 0;
}

static void remember(const char *line)
{
    HistEvent last;
    const bool again = history(past, &last, H_FIRST) == 0 && strcmp(last.str, line) == 0;
    if (*line == '\0' || again)
        return;
    enter(NULL, line);
    if (keeps_history)
        cli_history_add(line);
}

cli_edit_result cli_edit_line(const char *prompt, char **line)
{
    *line = NULL;
    if (tcgetattr(STDIN_FILENO, &usual) != 0 || (editor == NULL && !open_editor()))
        return CLI_EDIT_FAILED;
    const char *term = getenv("TERM");
    const bool plain = term == NULL || strcmp(term, "dumb") == 0;
    int n = 0;
    shown_prompt = prompt;
    interrupted = false;
    errno = 0;
    if (!plain)
        mark_pastes(true);
    const char *found = el_gets(editor, &n);
    const bool broken = interrupted || errno == EINTR;
    tcsetattr(STDIN_FILENO, TCSANOW, &usual); /* as in on_signal */
    if (found == NULL || n <= 0)
        return broken ? CLI_EDIT_INTERRUPTED : CLI_EDIT_END;
    *line = strndup(found, (size_t)n - (found[n - 1] == '\n'));
    if (*line == NULL)
        return CLI_EDIT_FAILED;
    remember(*line);
    return CLI_EDIT_LINE;
}
