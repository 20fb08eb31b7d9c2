/* tests/cli/test_cli_report.c -- weft report: curves as text on and off a terminal, and report.html
 * with the rewards of preferences. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"

/* A folder with a run's two files. */
static const char *run_folder(const char *name, const char *run, const char *metrics)
{
    static char folder[1024];
    char path[1100];
    snprintf(folder, sizeof folder, "%s", check_temporary(name));
    shell_command(NULL, "mkdir -p %s", folder);
    snprintf(path, sizeof path, "%s/run.json", folder);
    CHECK_OK(weft_file_write(path, run, strlen(run)));
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    CHECK_OK(weft_file_write(path, metrics, strlen(metrics)));
    return folder;
}

static const char *const finished =
    "{\"state\": \"finished\", \"options\": {\"steps\": 4}, \"result\": {\"steps\": 4, \"tokens\": "
    "90, \"seconds\": 61, \"loss\": 1.5, \"first_validation\": 4, \"last_validation\": 2, "
    "\"best_validation\": 2, \"best_step\": 4}}\n";

/* Smoothed by weights 0.8^k: 4, 3.444.., and so on; null and NaN are left out. */
static const char *const falling = "{\"step\": 0, \"validation_loss\": 4.0}\n"
                                   "{\"step\": 1, \"loss\": 4.0, \"lr\": 0.1}\n"
                                   "{\"step\": 2, \"loss\": null}\n"
                                   "{\"step\": 3, \"loss\": 3.0}\n"
                                   "{\"step\": 4, \"loss\": 2.0, \"validation_loss\": 2.0}\n";

static void curves_are_ascii_off_a_terminal(void)
{
    const char *folder = run_folder("ascii", finished, falling);
    const output o = weft_command(NULL, "report %s", folder);
    CHECK_EQ_INT(o.code, 0);
    char axis[128];
    snprintf(axis, sizeof axis, "\n%10s0%60d\n%10s. training, smoothed   o validation\n", "", 4,
             "");
    CHECK(strncmp(o.out, "       4 |o", 11) == 0);
    CHECK_CONTAINS(o.out, "\n       2 |");
    CHECK_CONTAINS(o.out, axis);
    CHECK_CONTAINS(o.out, "finished, 4 of 4 updates, 90 tokens in 1:01\n");
    CHECK_CONTAINS(o.out, "validation loss 4.0000 before, 2.0000 after, best 2.0000 at update 4\n");
    int rows = 0;
    for (const char *line = o.out; *line; line++) {
        CHECK((unsigned char)*line < 0x80 && *line != '\033');
        rows += *line == '|';
    }
    CHECK_EQ_INT(rows, 12);
    char command[1100];
    snprintf(command, sizeof command, "test -s %s/report.html", folder);
    CHECK_EQ_INT(shell_command(NULL, "%s", command).code, 0);
}

/* The widest line in characters, escapes aside. */
static int widest(const char *text)
{
    int most = 0, n = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '\033') {
            while (*at && *at != 'm')
                at++;
        } else if (*at == '\n' || *at == '\r') {
            n = 0;
        } else if ((*at & 0xC0) != 0x80) {
            n++;
        }
        most = n > most ? n : most;
    }
    return most;
}

static output on_terminal(const char *environment, int columns, const char *folder)
{
    return shell_command(NULL, "script -qec 'stty cols %d; env %s %s report %s' /dev/null", columns,
                         environment, check_built("cli/weft"), folder);
}

static void a_terminal_decides_width_and_characters(void)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", run_folder("t", "{\"state\": \"running\"}", falling));
    if (shell_command(NULL, "script -qec true /dev/null").code != 0) {
        check_skip("there is no script command or no pseudo-terminal");
        return;
    }
    output o = on_terminal("-u NO_COLOR TERM=xterm LC_ALL=C.UTF-8", 40, folder);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\xE2\xA0"); /* braille from U+2800 on */
    CHECK_CONTAINS(o.out, "\xE2\x97\x8F");
    CHECK_CONTAINS(o.out, "\033[36m");
    char *end = strstr(o.out, folder);
    if (CHECK(end != NULL))
        *end = '\0';
    CHECK(widest(o.out) > 30 && widest(o.out) <= 40);
    o = on_terminal("NO_COLOR=1 TERM=xterm LC_ALL=C.UTF-8", 80, folder);
    CHECK_CONTAINS(o.out, "\xE2\xA0");
    CHECK(strchr(o.out, '\033') == NULL);
    o = on_terminal("LC_ALL=C TERM=xterm NO_COLOR=1", 80, folder);
    CHECK(strstr(o.out, "\xE2") == NULL);
    CHECK_CONTAINS(o.out, "o validation");
    o = on_terminal("LC_ALL=C.UTF-8 TERM=dumb", 80, folder);
    CHECK(strstr(o.out, "\xE2") == NULL && strchr(o.out, '\033') == NULL);
}

static void runs_of_few_updates_have_no_curve(void)
{
    const output o =
        weft_command(NULL, "report %s",
                     run_folder("few", "{\"state\": \"running\"}", "{\"step\": 1, \"loss\": 2}\n"));
    CHECK_EQ_INT(o.code, 0);
    CHECK(strchr(o.out, '|') == NULL);
    CHECK_CONTAINS(o.out, ": running\n");
}

static void rewards_are_in_the_report(void)
{
    static const char *const pairs =
        "{\"step\": 1, \"loss\": 0.7, \"rewards/chosen\": 0.1, \"rewards/rejected\": -0.1, "
        "\"rewards/accuracies\": 0.5, \"rewards/margins\": 0.2}\n"
        "{\"step\": 2, \"loss\": 0.6, \"rewards/chosen\": 0.3, \"rewards/rejected\": -0.2, "
        "\"rewards/accuracies\": 0.75, \"rewards/margins\": 0.5}\n";
    static const char *const labeled =
        "{\"step\": 1, \"loss\": 0.7, \"rewards/chosen\": 0.1, \"rewards/rejected\": null, "
        "\"rewards/margins\": null}\n"
        "{\"step\": 2, \"loss\": 0.6, \"rewards/chosen\": 0.2, \"rewards/rejected\": -0.2, "
        "\"rewards/margins\": 0.4}\n"
        "{\"step\": 3, \"loss\": 0.5, \"rewards/chosen\": 0.3, \"rewards/rejected\": -0.3, "
        "\"rewards/margins\": 0.6}\n";
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", run_folder("pairs", finished, pairs));
    CHECK_EQ_INT(weft_command(NULL, "report %s", folder).code, 0);
    output o = shell_command(NULL, "cat %s/report.html", folder);
    static const char *const parts[] = {">Rewards<", ">chosen<", ">rejected<",
                                        "Reward margin, smoothed", "Reward accuracy, smoothed"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK_CONTAINS(o.out, parts[i]);
    CHECK(strstr(o.out, "nats per token") == NULL);
    snprintf(folder, sizeof folder, "%s", run_folder("labeled", finished, labeled));
    CHECK_EQ_INT(weft_command(NULL, "report %s", folder).code, 0);
    o = shell_command(NULL, "cat %s/report.html", folder);
    CHECK_CONTAINS(o.out, "Reward margin, smoothed");
    CHECK(strstr(o.out, "Reward accuracy") == NULL);
    CHECK_EQ_INT(weft_command(NULL, "report %s", run_folder("supervised", finished, falling)).code,
                 0);
    o = shell_command(NULL, "cat %s/report.html", run_folder("supervised", finished, falling));
    CHECK(strstr(o.out, "Reward") == NULL);
}

/* A run whose held-out completions have rewards. */
static void validation_rewards_are_shown(void)
{
    static const char *const result =
        "{\"state\": \"finished\", \"options\": {\"steps\": 2}, \"result\": {\"steps\": 2, "
        "\"loss\": "
        "0, \"first_validation_reward\": 0, \"last_validation_reward\": 0.5, "
        "\"best_validation_reward\": 0.75, \"best_step\": 1}}\n";
    static const char *const rising = "{\"step\": 0, \"validation_reward\": 0.0}\n"
                                      "{\"step\": 1, \"loss\": 0.1, \"validation_reward\": 0.75}\n"
                                      "{\"step\": 2, \"loss\": 0.0, \"validation_reward\": 0.5}\n";
    const output o = weft_command(NULL, "report %s", run_folder("held", result, rising));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out,
                   "validation reward 0.0000 before, 0.5000 after, best 0.7500 at update 1\n");
    CHECK_CONTAINS(o.out, "o validation");
}

/* Objects and lists of run.json are shown as text, not as JSON. */
static void sources_are_shown_as_text(void)
{
    const char *folder =
        run_folder("sources",
                   "{\"state\": \"finished\", \"data\": {\"sources\": [{\"path\": \"a.jsonl\", "
                   "\"weight\": 2}, {\"path\": \"<b>\", \"weight\": 1}], \"samples\": 9}}",
                   falling);
    CHECK_EQ_INT(weft_command(NULL, "report %s", folder).code, 0);
    const output o = shell_command(NULL, "cat %s/report.html", folder);
    CHECK_CONTAINS(o.out, "path a.jsonl, weight 2<br>path &#60;b&#62;, weight 1<");
}

/* Every option of the run, with its text escaped. */
static void options_are_in_the_report(void)
{
    const char *folder = run_folder("options",
                                    "{\"state\": \"finished\", \"command\": [\"--rank\", \"16\", "
                                    "\"--checkpoint\", \"--data\", \"<a>.jsonl\", \"--\", "
                                    "\"a&b\"]}",
                                    falling);
    CHECK_EQ_INT(weft_command(NULL, "report %s", folder).code, 0);
    const output o = shell_command(NULL, "cat %s/report.html", folder);
    CHECK_CONTAINS(
        o.out, "<h2>Options</h2>\n<div class=\"wide\"><table>\n<tr><th>rank</th><td>16</td></tr>\n"
               "<tr><th>checkpoint</th><td></td></tr>\n"
               "<tr><th>data</th><td>&#60;a&#62;.jsonl</td></tr>\n"
               "<tr><th>argument</th><td>a&#38;b</td></tr>\n</table></div>\n");
}

static void folders_without_a_run_are_refused(void)
{
    output o = weft_command(NULL, "report /no/such/run");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "/no/such/run/run.json: there is no training run in this folder: name "
                          "the --out of weft train");
    o = weft_command(NULL, "report %s", run_folder("broken", "[1]", falling));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run.json");
    o = weft_command(NULL, "report %s", run_folder("torn", finished, "{\"step\": 1\n"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "metrics.jsonl");
}

/* Malformed lines are skipped; characters that change the direction of text are escaped. */
static void a_bad_line_hides_no_other_line(void)
{
    char lines[1000];
    snprintf(lines, sizeof lines,
             "%s{\"step\": \"x\"}\n{\"step\": 3, \"loss\": [1]}\nnot JSON\n{\"step\": 4, "
             "\"samples\": [{\"prompt\": \"a\\u202eb\", \"text\": \"c\\u009bd\"}]}\n",
             falling);
    const char *folder = run_folder("bad-line", finished, lines);
    output o = weft_command(NULL, "report %s", folder);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "malformed lines are skipped");
    o = shell_command(NULL, "cat %s/report.html", folder);
    CHECK_CONTAINS(o.out, "<b>a\\u202eb</b>c\\u009bd<");
}

CHECK_MAIN("cli_report", CHECK_CASE(a_bad_line_hides_no_other_line),
           CHECK_CASE(curves_are_ascii_off_a_terminal),
           CHECK_CASE(a_terminal_decides_width_and_characters),
           CHECK_CASE(runs_of_few_updates_have_no_curve), CHECK_CASE(rewards_are_in_the_report),
           CHECK_CASE(validation_rewards_are_shown), CHECK_CASE(options_are_in_the_report),
           CHECK_CASE(sources_are_shown_as_text), CHECK_CASE(folders_without_a_run_are_refused))
