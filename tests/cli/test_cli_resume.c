/* tests/cli/test_cli_resume.c -- weft train is killed or stopped at random moments, by every
 * signal, and --resume always ends with the adapter of an uninterrupted run: WEFT_TEST_KILLS sets
 * the number of repetitions (3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* The options of every run here, including everything that draws random numbers. */
static const char *arguments(void)
{
    static char line[2048];
    snprintf(line, sizeof line,
             "%s --data %s --steps 40 --length 16 --batch-size 2 --dropout 0.1 --val-split 0.1 "
             "--val-every 10 "
             "--save-every 3 --seed 7",
             model(), story_file());
    return line;
}

/* The adapter of a run that was not stopped, and how many seconds it took. */
static const char *whole(double *seconds)
{
    static char path[1024];
    static double took;
    if (path[0] == '\0') {
        snprintf(path, sizeof path, "%s", check_temporary("whole"));
        const output o = weft_command(NULL, "train %s --out %s --json", arguments(), path);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        const char *at = strstr(o.out, "\"seconds\": ");
        took = at ? strtod(at + strlen("\"seconds\": "), NULL) : 1;
    }
    *seconds = took;
    return path;
}

static int stopped_runs; /* runs that had not ended when the signal came */

/* Starts or resumes the run in `out`, sends the signal after so many seconds, and resumes it until
 * it ends by itself. */
static void stop_and_resume(const char *out, const char *signal, double after)
{
    output o = shell_command(NULL,
                             "%s train %s --out %s --resume & p=$!; sleep %.3f; kill -%s $p; "
                             "wait $p",
                             check_built("cli/weft"), arguments(), out, after, signal);
    stopped_runs += o.code != 0;
    const bool begun = shell_command(NULL, "test -e %s/run.json", out).code == 0;
    o = begun ? weft_command(NULL, "train --out %s --resume", out)
              : weft_command(NULL, "train %s --out %s --resume", arguments(), out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s after %.3f s: %s", signal, after, o.err);
}

static void expect_whole(const char *out)
{
    double seconds;
    const char *expected = whole(&seconds);
    static const char *const files[] = {"last/adapter_model.safetensors",
                                        "last/adapter_config.json"};
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(shell_command(NULL, "cmp %s/%s %s/%s", expected, files[i], out, files[i]).code,
                     0);
    const output o = shell_command(
        NULL, "sed 's/^{\"step\": \\([0-9]*\\).*/\\1/' %s/metrics.jsonl | tr '\\n' ' '", out);
    char steps[512] = "";
    for (int s = 0; s <= 40; s++)
        snprintf(steps + strlen(steps), 8, "%d ", s);
    CHECK_STR(o.out, steps);
    CHECK_EQ_INT(shell_command(NULL, "test -z \"$(ls -R %s | grep part)\"", out).code, 0);
}

static void killed_runs_are_resumed(void)
{
    double seconds;
    whole(&seconds);
    const char *kills = getenv("WEFT_TEST_KILLS");
    const int n = kills ? atoi(kills) : 3;
    unsigned state = 12345;
    for (int i = 0; i < n; i++) {
        char out[1024], name[32];
        snprintf(name, sizeof name, "killed%d", i);
        snprintf(out, sizeof out, "%s", check_temporary(name));
        state = state * 1103515245u + 12345u;
        const double share = (double)(state >> 8 & 0xffff) / 0x10000;
        stop_and_resume(out, "KILL", 0.05 + share * (seconds + 0.1));
        expect_whole(out);
    }
    for (int i = 0; stopped_runs == 0 && i < 5; i++) { /* all had ended before: earlier signals */
        char out[1024], name[32];
        snprintf(name, sizeof name, "sooner%d", i);
        snprintf(out, sizeof out, "%s", check_temporary(name));
        stop_and_resume(out, "KILL", seconds / (2 << i));
        expect_whole(out);
    }
    printf("  %d of %d runs were killed at work, and resumed\n", stopped_runs, n);
    CHECK(stopped_runs > 0);
}

static void stopped_runs_are_resumed(void)
{
    static const char *const signals[] = {"TERM", "HUP", "INT"};
    double seconds;
    whole(&seconds);
    for (int i = 0; i < 3; i++) {
        char out[1024];
        snprintf(out, sizeof out, "%s", check_temporary(signals[i]));
        stop_and_resume(out, signals[i], 0.1 + seconds / 3);
        expect_whole(out);
    }
}

/* The partial file or folder of a killed process is deleted, and nothing else. */
static void partial_files_are_deleted(void)
{
    static const char *const partial[] = {"config.json.part-7-0",
                                          "report.html.part-7-12",
                                          "metrics.jsonl.part-7-1",
                                          "best.part-7/README.md.part-7-3",
                                          "best.part-7/model.safetensors",
                                          "last.part-7/config.json",
                                          "step-99.part-7/x",
                                          "step-4.part-7.old/x",
                                          "best.part-7.old/x"};
    static const char *const others[] = {"notes.part-7", "run.json.part-two", "run.json.part-7-",
                                         "run.json.part-7-1b", ".part-7"};
    enum { PARTIAL = sizeof partial / sizeof *partial, OTHERS = sizeof others / sizeof *others };
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("partial"));
    output o = weft_command(NULL,
                            "train %s --data %s --steps 4 --length 16 --batch-size 2 "
                            "--val-split 0.1 --val-every 2 --out %s",
                            model(), story_file(), out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    for (int i = 0; i < PARTIAL; i++)
        CHECK_EQ_INT(
            shell_command(NULL, "cd %s; mkdir -p $(dirname %s); : >%s", out, partial[i], partial[i])
                .code,
            0);
    for (int i = 0; i < OTHERS; i++)
        CHECK_EQ_INT(shell_command(NULL, ": >%s/%s", out, others[i]).code, 0);
    CHECK_EQ_INT(weft_command(NULL, "train --out %s --resume --steps 6", out).code, 0);
    for (int i = 0; i < PARTIAL; i++)
        CHECK_EQ_INT(
            shell_command(NULL, "test ! -e %s/%.*s", out, (int)strcspn(partial[i], "/"), partial[i])
                .code,
            0);
    for (int i = 0; i < OTHERS; i++)
        CHECK_EQ_INT(shell_command(NULL, "test -e %s/%s", out, others[i]).code, 0);
}

/* A run killed while it replaced `best` in two steps: the previous best is restored. */
static void the_previous_best_is_restored(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("aside"));
    const char *options = "--length 16 --batch-size 2 --val-split 0.1 --val-every 2";
    CHECK_EQ_INT(weft_command(NULL, "train %s --data %s --steps 2 %s --out %s", model(),
                              story_file(), options, out)
                     .code,
                 0);
    CHECK_EQ_INT(
        shell_command(NULL, "cd %s && cp -r best kept && mv best best.part-7.old", out).code, 0);
    CHECK_EQ_INT(weft_command(NULL, "train --out %s --resume", out).code, 0);
    CHECK_EQ_INT(shell_command(NULL, "diff -r %s/best %s/kept", out, out).code, 0);
}

/* A second signal ends the process at once, and nothing that was saved is lost. */
static void a_second_signal_does_no_harm(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("twice"));
    shell_command(NULL,
                  "%s train %s --out %s & p=$!; i=0; until [ -e %s/step-3 ] || [ $i = 6000 ]; do "
                  "sleep 0.02; i=$((i + 1)); done; kill -INT $p; kill -INT $p; wait $p",
                  check_built("cli/weft"), arguments(), out, out);
    const output o = weft_command(NULL, "train --out %s --resume", out);
    CHECK_EQ_INT(o.code, 0);
    expect_whole(out);
}

/* A run that was killed before run.json was there leaves a partial file, which the next one in the
 * folder deletes. */
static void partial_files_of_a_new_run_are_deleted(void)
{
    static const char *const again[] = {"--resume", ""};
    for (int i = 0; i < 2; i++) {
        char out[1024];
        snprintf(out, sizeof out, "%s", check_temporary(i ? "anew" : "early"));
        CHECK_EQ_INT(shell_command(NULL,
                                   "mkdir %s && : >%s/run.json.part-7 && : >%s/run.json.part-7-0",
                                   out, out, out)
                         .code,
                     0);
        const output o = weft_command(NULL, "train %s --data %s --steps 1 --length 16 --out %s %s",
                                      model(), story_file(), out, again[i]);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        CHECK_EQ_INT(shell_command(NULL, "ls %s | grep part", out).code, 1);
    }
}

/* The message has the option's name, not that of a field. */
static void a_resumed_run_keeps_its_rate_of_lora_plus(void)
{
    const char *out = check_temporary("plus");
    output o = weft_command(NULL, "train %s --data %s --steps 1 --lora-plus 2 --out %s", model(),
                            story_file(), out);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train --out %s --resume --steps 2 --lora-plus 4", out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "train: --lora-plus: the run in ");
    CHECK_CONTAINS(o.err, " has 2, and a resumed run keeps it");
}

/* Options that would change the run are refused by name; others may differ. */
static void a_resumed_run_keeps_its_options(void)
{
    static const struct {
        const char *given, *says;
    } refused[] = {
        {"--rank 4", "--rank: the run in"},
        {"--targets q_proj", "--targets: the run in"},
        {"--batch-size 4", "has 2, and a resumed run keeps it"},
        {"--seed 8", "has 7, and a resumed run keeps it"},
        {"--optimizer lion", "--optimizer: the run in"},
        {"--alpha 3", "--alpha: the run in"},
        {"--rslora", "--rslora: the run in"},
    };
    char out[1024], other[1024];
    snprintf(out, sizeof out, "%s", check_temporary("kept"));
    output o = weft_command(NULL, "train %s --out %s --save-minutes 0", arguments(), out);
    CHECK_EQ_INT(o.code, 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        o = weft_command(NULL, "train --out %s --resume --steps 50 %s", out, refused[i].given);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, refused[i].says);
    }
    snprintf(other, sizeof other, "%s", text_file("other.txt", "Another story, told elsewhere.\n"));
    o = weft_command(NULL, "train --out %s --resume --data %s --val-split 0.1", out, other);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "the data has changed");
    o = weft_command(NULL, "train --out %s --resume", out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "All of its updates were made before; --steps N");
    o = weft_command(NULL, "train --out %s --resume --steps 42 --batch-size 2 --lr 1e-4 --json",
                     out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"steps\": 42");
    CHECK(strstr(o.out, "made before") == NULL);
    CHECK_CONTAINS(o.err, "after update 40");
    CHECK_EQ_INT(shell_command(NULL,
                               "test -e %s/last/adapter_config.json -a $(readlink %s/last) = "
                               "step-42",
                               out, out)
                     .code,
                 0);
}

/* ---- sampled completions --------------------------------------------------------------------- */

/* A reward program that answers line by line, and kills the run once at the line in the file
 * `kill`, while the others wait for their rewards. */
static const char scoring[] =
    "n=0\n"
    "while read -r line; do\n"
    "  n=$((n + 1)); id=${line#*: }; id=${id%%,*}\n"
    "  if [ -e kill ] && [ $n = \"$(cat kill)\" ]; then rm kill; kill -9 $PPID; exit; fi\n"
    "  echo \"{\\\"id\\\": $id, \\\"reward\\\": $(( ${#line} %% 5 ))}\"\n"
    "done\n";

static output sample_run(const char *folder, const char *prefix, const char *more)
{
    return shell_command(NULL,
                         "cd %s && %s %s train %s --data prompts.jsonl --objective grpo "
                         "--reward 'program:exec sh score.sh' --reward length:20,60 "
                         "--num-generations 4 --max-completion-length 60 --batch-size 2 --steps 6 "
                         "--save-every 2 --lr 1e-3 --seed 3 --temperature 0.9 --beta 0.01 %s",
                         folder, prefix, check_built("cli/weft"), model(), more);
}

/* Runs that are killed while they sample, and while they wait for rewards, are resumed and end with
 * the adapter and the completions of a run that was not. */
static void killed_sampling_begins_again(void)
{
    static const char *const lines[] = {"3", "12", "21", "36"};
    static const char *const seconds[] = {"0.4", "0.9", "1.7"};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("sampled"));
    CHECK_EQ_INT(shell_command(NULL,
                               "mkdir %s && cd %s && printf '%s' > score.sh && for w in 'The king' "
                               "'A fox' 'Long ago' 'She said'; do echo \"{\\\"prompt\\\": "
                               "\\\"$w\\\"}\"; done > prompts.jsonl",
                               folder, folder, scoring)
                     .code,
                 0);
    output o = sample_run(folder, "", "--out whole");
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    for (size_t i = 0; i < 7; i++) {
        char prefix[64] = "";
        if (i < 4)
            CHECK_EQ_INT(
                shell_command(NULL, "cd %s && rm -rf out && echo %s > kill", folder, lines[i]).code,
                0);
        else
            snprintf(prefix, sizeof prefix, "rm -rf out; timeout -s KILL %s", seconds[i - 4]);
        o = sample_run(folder, prefix, "--out out");
        CHECK(i >= 4 || o.code != 0);
        o = sample_run(folder, "", "--out out --resume");
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        CHECK_EQ_INT(shell_command(NULL,
                                   "cd %s && cmp whole/last/adapter_model.safetensors "
                                   "out/last/adapter_model.safetensors && cmp "
                                   "whole/completions.jsonl out/completions.jsonl",
                                   folder)
                         .code,
                     0);
    }
    o = sample_run(folder, "", "--out out --resume --reward exact");
    CHECK_CONTAINS(o.err, "reward");
    CHECK(o.code != 0);
}

CHECK_MAIN("cli_resume", CHECK_CASE(killed_runs_are_resumed), CHECK_CASE(partial_files_are_deleted),
           CHECK_CASE(the_previous_best_is_restored),
           CHECK_CASE(partial_files_of_a_new_run_are_deleted), CHECK_CASE(stopped_runs_are_resumed),
           CHECK_CASE(a_second_signal_does_no_harm),
           CHECK_CASE(a_resumed_run_keeps_its_rate_of_lora_plus),
           CHECK_CASE(a_resumed_run_keeps_its_options), CHECK_CASE(killed_sampling_begins_again))
