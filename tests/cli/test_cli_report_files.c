/* tests/cli/test_cli_report_files.c -- what weft report writes of real runs: every metric of every
 * objective is in the page, which is well-formed HTML without addresses; runs side by side; CSV and
 * JSON as Python reads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"

static char folder[512]; /* of the data, where commands run */

static void make_data(void)
{
    static const struct {
        const char *name, *row;
    } files[] = {
        {"rows.jsonl", "{\"prompt\": \"Tale %d is\", \"completion\": \" of a hen.\"}\n"},
        {"pairs.jsonl", "{\"prompt\": \"Tale %d is\", \"chosen\": \" of a hen.\", \"rejected\": "
                        "\" dull.\"}\n"},
        {"prompts.jsonl", "{\"prompt\": \"Tale %d\"}\n"},
        {"texts.jsonl", "{\"anchor\": \"Tale %d\", \"positive\": \"An egg.\"}\n"},
        {"labeled.jsonl", "{\"text\": \"Tale %d\", \"label\": \"a\"}\n{\"text\": \"No tale %d\", "
                          "\"label\": \"b\"}\n"}};
    snprintf(folder, sizeof folder, "%s", check_temporary("objectives"));
    CHECK_OK(weft_folder_make(folder));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[2000] = "", path[600];
        for (int k = 0; k < 8; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), files[i].row, k, k);
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        CHECK_OK(weft_file_write(path, text, strlen(text)));
    }
}

static int train(const char *out, const char *options)
{
    return shell_command(
               NULL, "cd %s && { [ -e %s ] || %s train %s --out %s --batch-size 4 --steps 3 %s; }",
               folder, out, check_built("cli/weft"), check_source("examples/storyteller"), out,
               options)
        .code;
}

static const struct {
    const char *out, *options;
} runs[] = {
    {"supervised", "--data rows.jsonl --val-split 0.3 --sample-prompt Tale"},
    {"dpo", "--data pairs.jsonl --objective dpo --val-split 0.3"},
    {"kto", "--data pairs.jsonl --objective kto --val-split 0.3"},
    {"orpo", "--data pairs.jsonl --objective orpo"},
    {"simpo", "--data pairs.jsonl --objective simpo"},
    {"grpo", "--data prompts.jsonl --objective grpo --num-generations 4 --max-completion-length 6 "
             "--reward pattern:e --reward 'pattern:a,b' --val-data prompts.jsonl --beta 0.1"},
    {"distill", "--data rows.jsonl --objective distill --teacher storyteller --val-split 0.3"},
    {"embedder", "--data texts.jsonl --task embed --val-split 0.3"},
    {"classifier", "--data labeled.jsonl --task classify --val-split 0.3"},
};
enum { RUNS = sizeof runs / sizeof *runs };

static void make_runs(void)
{
    make_data();
    for (int i = 0; i < RUNS; i++) {
        if (!CHECK_EQ_INT(train(runs[i].out, runs[i].options), 0))
            CHECK_FAIL("%s", runs[i].out);
    }
}

static void every_metric_is_in_the_page(void)
{
    make_runs();
    for (int i = 0; i < RUNS; i++) {
        output o = shell_command(
            NULL,
            "cd %s/%s && grep -o '\"[a-z_]*[^\" ]*\": [-0-9tfn]' metrics.jsonl | sed 's/^\"//; "
            "s/\": .$//' | sort -u | grep -v '^step$'",
            folder, runs[i].out);
        CHECK_EQ_INT(o.code, 0);
        char *names = weft_strdup(o.out);
        o = shell_command(NULL, "cat %s/%s/report.html", folder, runs[i].out);
        int n = 0;
        for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n")) {
            char row[200];
            snprintf(row, sizeof row, "<tr><th>%s</th><td>", name);
            if (!CHECK(strstr(o.out, row) != NULL))
                CHECK_FAIL("%s: %s", runs[i].out, name);
            n++;
        }
        CHECK(n > 8);
        weft_free(names);
    }
}

/* The panels of an objective. */
static void objectives_have_their_own_panels(void)
{
    static const struct {
        int run;
        const char *title;
    } panels[] = {{0, "<figcaption>Loss (nats per token)"},
                  {1, "<figcaption>Reward margin, smoothed"},
                  {1, "<figcaption>Reward accuracy, smoothed"},
                  {2, "<figcaption>Rewards"},
                  {5, "<figcaption>Mean of each reward"},
                  {5, "<figcaption>Divergence from the start (KL)"},
                  {5, "<figcaption>Entropy of the next token"},
                  {5, "<figcaption>Tokens of a completion"},
                  {6, "<figcaption>Loss (divergence from the teacher, nats per token)"},
                  {7, "<figcaption>Loss<small>"},
                  {8, "<figcaption>Validation accuracy"}};
    make_runs();
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
        const output o =
            shell_command(NULL, "cat %s/%s/report.html", folder, runs[panels[i].run].out);
        if (!CHECK(strstr(o.out, panels[i].title) != NULL))
            CHECK_FAIL("%s: %s", runs[panels[i].run].out, panels[i].title);
    }
}

/* Python's parser sees every element closed in its order, and no element or attribute that loads
 * something. */
static const char checker[] =
    "import sys\n"
    "from html.parser import HTMLParser\n"
    "VOID = {'meta', 'br'}\n"
    "class Page(HTMLParser):\n"
    "    stack, scripts, seen = [], 0, 0\n"
    "    def handle_starttag(self, tag, attrs):\n"
    "        self.seen += 1\n"
    "        assert tag not in ('link', 'img', 'iframe', 'object', 'embed', 'base'), tag\n"
    "        for name, value in attrs:\n"
    "            assert name not in ('src', 'href', 'xlink:href', 'style'), name\n"
    "            assert not name.startswith('on'), name\n"
    "            assert '//' not in (value or '') or name.startswith(('data-', 'aria-')), value\n"
    "        if tag not in VOID: self.stack.append(tag)\n"
    "        self.scripts += tag == 'script'\n"
    "    def handle_startendtag(self, tag, attrs):\n"
    "        self.handle_starttag(tag, attrs); self.stack.pop()\n"
    "    def handle_endtag(self, tag):\n"
    "        assert self.stack and self.stack.pop() == tag, (tag, self.getpos())\n"
    "for name in sys.argv[1:]:\n"
    "    page = Page()\n"
    "    page.stack = []\n"
    "    page.feed(open(name, encoding='utf-8').read())\n"
    "    page.close()\n"
    "    assert page.stack == [] and page.scripts == 1 and page.seen > 50, name\n";

static bool has_python(void)
{
    if (shell_command(NULL, "python3 -c 'import html.parser, csv, json'").code == 0)
        return true;
    check_skip("there is no python3 to read the files");
    return false;
}

/* Writes a report of three runs with the options, and reads it by a program: script.py. */
static void read_by(const char *program, const char *options, const char *command)
{
    char path[600];
    make_runs();
    snprintf(path, sizeof path, "%s/script.py", folder);
    CHECK_OK(weft_file_write(path, program, strlen(program)));
    const output o =
        shell_command(NULL, "cd %s && %s report supervised dpo grpo %s >/dev/null && %s", folder,
                      check_built("cli/weft"), options, command);
    if (!CHECK_EQ_INT(o.code, 0))
        printf("%s\n", o.err);
}

static void pages_are_well_formed(void)
{
    if (has_python())
        read_by(checker, "--html several.html", "python3 script.py several.html */report.html");
}

static void runs_are_laid_side_by_side(void)
{
    const char *weft = check_built("cli/weft");
    make_runs();
    CHECK_EQ_INT(train("other", "--data rows.jsonl --val-split 0.3 --rank 4 --lr 1e-3"), 0);
    output o = shell_command(NULL, "cd %s && %s report supervised other", folder, weft);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "validation loss\n");
    CHECK_CONTAINS(o.out, "a supervised   b other\n");
    CHECK_CONTAINS(o.out, "\nupdates                  3 of 3 ");
    CHECK_CONTAINS(o.out, "\noptions that differ:\n");
    CHECK_CONTAINS(o.out, "\nrank                     8 ");
    CHECK(strstr(o.out, "\nbatch-size") == NULL && strstr(o.out, "\nout ") == NULL);
    o = shell_command(NULL, "cd %s && %s report supervised no-run", folder, weft);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "no-run/run.json: there is no training run in this folder");
    o = shell_command(NULL, "cd %s && %s report dpo dpo dpo dpo dpo dpo dpo dpo dpo", folder, weft);
    check_one_line(&o, 2);
    CHECK_CONTAINS(o.err, "at most 8 runs");
    o = shell_command(NULL, "cd %s && echo mine >mine && %s report dpo kto --html mine", folder,
                      weft);
    check_one_line(&o, 1);
    CHECK_CONTAINS(shell_command(NULL, "cat %s/mine", folder).out, "mine\n");
}

/* The numbers that Python reads from CSV and JSON are those of metrics.jsonl. */
static const char reader[] =
    "import csv, json, sys\n"
    "lines = [json.loads(l) for l in open(sys.argv[1] + '/metrics.jsonl')]\n"
    "rows = list(csv.DictReader(open(sys.argv[2], newline='')))\n"
    "assert len(rows) == len(lines) > 2\n"
    "names = {k for l in lines for k, v in l.items() if isinstance(v, (int, float))}\n"
    "assert names == set(rows[0]), names ^ set(rows[0])\n"
    "for line, row in zip(lines, rows):\n"
    "    for name in names:\n"
    "        value = line.get(name)\n"
    "        assert row[name] == '' if value is None else float(row[name]) == value, (name, row)\n"
    "found = json.load(open(sys.argv[3]))['runs'][0]\n"
    "assert set(found['metrics']) == names - {'step'} and found['state'] == 'finished'\n"
    "for name, m in found['metrics'].items():\n"
    "    values = [l[name] for l in lines if l.get(name) is not None]\n"
    "    assert [m['first'], m['last'], m['least'], m['largest'], m['lines']] == [values[0], "
    "values[-1], min(values), max(values), len(values)], name\n";

static void python_reads_the_same_numbers(void)
{
    char path[600];
    if (!has_python())
        return;
    make_runs();
    snprintf(path, sizeof path, "%s/read.py", folder);
    CHECK_OK(weft_file_write(path, reader, sizeof reader - 1));
    for (int i = 0; i < RUNS; i++) {
        const char *name = runs[i].out;
        const output o = shell_command(
            NULL,
            "cd %s && %s report %s --csv %s.csv --json >%s.json && python3 read.py %s %s.csv "
            "%s.json",
            folder, check_built("cli/weft"), name, name, name, name, name, name);
        if (!CHECK_EQ_INT(o.code, 0))
            printf("%s\n", o.err);
    }
}

/* TensorBoard's reader, where it is installed, finds the same values. */
static const char events_reader[] =
    "import json, sys\n"
    "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
    "for name in sys.argv[1:]:\n"
    "    board = EventAccumulator('boards/' + name, size_guidance={'scalars': 0}).Reload()\n"
    "    lines = [json.loads(l) for l in open(name + '/metrics.jsonl')]\n"
    "    for tag in board.Tags()['scalars']:\n"
    "        expected = [(l['step'], l[tag]) for l in lines if l.get(tag) is not None]\n"
    "        found = [(s.step, s.value) for s in board.Scalars(tag)]\n"
    "        assert len(found) == len(expected) > 0, tag\n"
    "        for (a, x), (b, y) in zip(expected, found):\n"
    "            assert a == b and abs(x - y) <= 1e-6 * abs(x), (tag, x, y)\n"
    "    assert len(board.Tags()['scalars']) > 8\n";

static void tensorboard_reads_the_same_numbers(void)
{
    if (shell_command(NULL, "${WEFT_TENSORBOARD_PYTHON:-python3} -c 'import tensorboard'").code !=
        0) {
        check_skip("there is no tensorboard");
        return;
    }
    read_by(events_reader, "--tensorboard boards",
            "${WEFT_TENSORBOARD_PYTHON:-python3} script.py supervised dpo grpo");
}

CHECK_MAIN("cli_report_files", CHECK_CASE(every_metric_is_in_the_page),
           CHECK_CASE(objectives_have_their_own_panels), CHECK_CASE(pages_are_well_formed),
           CHECK_CASE(runs_are_laid_side_by_side), CHECK_CASE(python_reads_the_same_numbers),
           CHECK_CASE(tensorboard_reads_the_same_numbers))
