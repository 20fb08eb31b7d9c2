/* tests/cli/test_cli_mpi.c -- weft train under mpirun: the losses of one process, memory, ranks
 * that are killed or stopped, resuming, failures on one rank, and sampled completions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/cli/launcher.h"
#include "tests/cli/runs.h"
#include "weft/array.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- data ----------------------------------------------------------------------------------- */

/* Preference pairs. */
static const char *pairs(void)
{
    static char text[9000];
    text[0] = '\0';
    for (int i = 0; i < 30; i++)
        snprintf(text + strlen(text), 250,
                 "{\"prompt\": \"Story %d: \", \"chosen\": \"The fox had %d cubs.%.*s\", "
                 "\"rejected\": \"No fox%.*s.\"}\n",
                 i, i % 7, 4 * (i % 9), " He ran to the old tree in the far wood.", i % 5,
                 "......");
    return text_file("pairs.jsonl", text);
}

/* Texts of different lengths with three labels. */
static const char *labeled(void)
{
    static const char *const labels[] = {"none", "few", "many"};
    static char text[9000];
    text[0] = '\0';
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), 200,
                 "{\"text\": \"Story %d: The fox had %d cubs.%.*s\", \"label\": \"%s\"}\n", i,
                 i % 7, 4 * (i % 9), " He ran to the old tree in the far wood.", labels[i % 7 / 3]);
    return text_file("labeled.jsonl", text);
}

/* Rows of three texts, two of which have the same positive. */
static const char *triplets(void)
{
    static char text[9000];
    text[0] = '\0';
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), 200,
                 "{\"anchor\": \"Story %d%.*s\", \"positive\": \"The fox had %d cubs.\", "
                 "\"negative\": \"No fox had %d.\"}\n",
                 i, 4 * (i % 9), " He ran to the old tree in the far wood.", i % 20, i);
    return text_file("triplets.jsonl", text);
}

/* ---- the same losses ------------------------------------------------------------------------ */

static bool is_once(const char *text, const char *part)
{
    const char *at = strstr(text, part);
    return at && strstr(at + 1, part) == NULL;
}

static void ranks_have_the_losses_of_one_process(void)
{
    static const struct {
        const char *name, *options;
        int ranks;
        bool apart; /* ranks share no memory, as on several machines */
    } runs[] = {
        {"padded", "--dropout 0.1", 2, true},
        {"padded", "--dropout 0.1", 4, false},
        {"packed", "--pack --compile", 2, false},
        {"dpo", "--objective dpo", 2, false},
        {"tokens", "--add-tokens Story,cubs", 2, false},
        {"classify", "--task classify", 2, false},
        {"embed", "--task embed --dropout 0.1", 2, false},
        {"embed", "--task embed --dropout 0.1", 3, false},
    };
    if (!launcher_is_there())
        return;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const bool embed = strcmp(runs[i].name, "embed") == 0;
        const char *rows = embed                                   ? triplets()
                           : strcmp(runs[i].name, "dpo") == 0      ? pairs()
                           : strcmp(runs[i].name, "classify") == 0 ? labeled()
                                                                   : launcher_data();
        const char *one = check_temporary(runs[i].name), *many = check_temporary("ranks");
        char options[600];
        snprintf(options, sizeof options,
                 "%s --data %s --val-split 0.1 --steps 5 --length 48 --accumulate 4 --val-every 2 "
                 "--lr 2e-4 --overwrite",
                 runs[i].options, rows);
        if (i == 0 || strcmp(runs[i].name, runs[i - 1].name) != 0)
            CHECK_EQ_INT(launch(0, "%s --batch-size %d --out %s", options, embed ? 6 : 2, one).code,
                         0);
        setenv("WEFT_MPI_SHARED", runs[i].apart ? "0" : "1", 1);
        const output o = launch(runs[i].ranks, "%s --batch-size %d --out %s", options,
                                embed ? 6 / runs[i].ranks : 2, many);
        CHECK_EQ_INT(o.code, 0);
        char ranks[32];
        snprintf(ranks, sizeof ranks, "ranks   %d, %d of them", runs[i].ranks, runs[i].ranks);
        CHECK_CONTAINS(o.err, ranks);
        CHECK(is_once(o.out, "5 updates")); /* one rank prints */
        CHECK(is_once(o.out, "/best was loaded again: its validation loss is the same"));
        const curve a = read_curve(one), b = read_curve(many);
        double loss = 0, norm = 0, validation = 0;
        CHECK_EQ_INT(b.n, a.n);
        for (int s = 0; s < a.n; s++) {
            loss = fmax(loss, off(b.loss[s], a.loss[s]));
            norm = fmax(norm, off(b.norm[s], a.norm[s]));
            validation = fmax(validation, off(b.validation[s], a.validation[s]));
        }
        printf("  %s, %d ranks: worst loss %.2g, norm %.2g, validation %.2g (relative)\n",
               runs[i].name, runs[i].ranks, loss, norm, validation);
        CHECK(loss <= (runs[i].ranks == 4 ? 0 : 1e-6)); /* a batch a rank: the same sums */
        CHECK(norm <= (runs[i].ranks == 4 ? 0 : 1e-5));
        CHECK(validation <= 2e-6); /* rounding of earlier updates: 1.1e-6 for dpo */
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Of the line of the plan "ranks   2, ..., 1 thread and at most 31.2 GB each". */
static double memory_each(const output *o)
{
    const char *at = strstr(o->err, " and at most ");
    double number = NAN;
    char unit = ' ';
    CHECK(at && sscanf(at, " and at most %lf %cB each", &number, &unit) == 2);
    return number * (unit == 'G' ? 1e9 : unit == 'M' ? 1e6 : unit == 'T' ? 1e12 : 1);
}

/* Ranks of one machine share its memory. */
static void ranks_share_the_memory(void)
{
    if (!launcher_is_there())
        return;
    const char *out = check_temporary("memory");
    double each[2];
    for (int i = 0; i < 2; i++) {
        const output o = launch(2 + 2 * i, "--data %s --steps 1 --length 32 --overwrite --out %s",
                                launcher_data(), out);
        CHECK_EQ_INT(o.code, 0);
        each[i] = memory_each(&o);
    }
    const double all = (double)weft_device_memory(weft_default_device());
    CHECK_RELATIVE(each[0], all / 2, 0.01); /* three digits are printed */
    CHECK_RELATIVE(each[1], all / 4, 0.01);
}

/* The message is printed once. */
static void check_failure(const output *o, const char *message)
{
    CHECK(o->code != 0);
    CHECK(o->code != 124);
    CHECK_CONTAINS(o->err, message);
    CHECK(is_once(o->err, message));
}

/* --max-memory applies to each rank. If a batch does not fit, ranks split their batches, with the
 * losses of a process with enough memory; if nothing fits, all ranks end with one message. */
static void max_memory_is_of_each_rank(void)
{
    if (!launcher_is_there())
        return;
    static const char *const tasks[] = {"--batch-size 8 --accumulate 2", "--task embed"};
    const char *one = check_temporary("enough"), *many = check_temporary("short");
    output o;
    for (int i = 0; i < 2; i++) {
        const char *rows = i == 0 ? launcher_data() : triplets(),
                   *size = i == 0 ? "" : "--batch-size 32";
        const char *half = i == 0 ? "" : "--batch-size 16", *memory = i == 0 ? "0.03" : "0.05";
        const char *options = "--steps 3 --length 48 --overwrite";
        CHECK_EQ_INT(
            launch(0, "--data %s %s %s %s --out %s", rows, options, tasks[i], size, one).code, 0);
        o = launch(2, "--data %s %s %s %s --out %s --max-memory %s", rows, options, tasks[i], half,
                   many, memory);
        if (!CHECK_EQ_INT(o.code, 0))
            printf("%s\n", o.err);
        CHECK_RELATIVE(memory_each(&o), strtod(memory, NULL) * 1e9, 1e-3);
        CHECK_CONTAINS(o.err, "out of memory; from now on batches are computed");
        const curve a = read_curve(one), b = read_curve(many);
        CHECK_EQ_INT(b.n, a.n);
        for (int s = 0; s < a.n; s++) {
            CHECK(off(b.loss[s], a.loss[s]) <= 1e-6);
            CHECK(off(b.norm[s], a.norm[s]) <= 1e-5);
        }
    }
    o = launch(2, "--data %s --steps 1 %s --out %s --max-memory 0.016 --overwrite", launcher_data(),
               tasks[0], many);
    check_failure(&o, "memory limit reached");
}

/* ---- ranks that are lost -------------------------------------------------------------------- */

/* Enough that a rank is unlikely to have ended before it is killed. */
#ifdef __SANITIZE_ADDRESS__
enum { UPDATES = 40 };
#else
enum { UPDATES = 80 };
#endif

static const char *long_run(void)
{
    static char options[600];
    snprintf(options, sizeof options,
             "--data %s --steps %d --length 32 --batch-size 1 --save-every 10 --save-minutes 0",
             launcher_data(), UPDATES);
    return options;
}

/* Runs it until metrics.jsonl has so many updates, does `what`, and waits. */
static output interrupt(int ranks, const char *out, int updates, const char *what)
{
    char arguments[900];
    snprintf(arguments, sizeof arguments, "%s --out %s", long_run(), out);
    return shell_command(
        NULL,
        "rm -f %s.*; %s & p=$!; i=0; until [ \"$(cat %s/metrics.jsonl 2>/dev/null | wc -l)\" "
        "-ge %d ] || [ $i = 12000 ]; do sleep 0.01; i=$((i + 1)); done; %s; "
        "wait $p",
        check_temporary("pid"), launcher_command(ranks, arguments), out, updates, what);
}

/* Repeats it if the run had ended before. */
static output interrupt_in_time(int ranks, const char *out, int updates, const char *what)
{
    output o = interrupt(ranks, out, updates, what);
    for (int i = 0; i < 4 && o.code == 0; i++) {
        shell_command(NULL, "rm -rf %s", out);
        o = interrupt(ranks, out, updates, what);
    }
    return o;
}

/* The uninterrupted run. */
static const char *whole_run(void)
{
    static const char *out;
    if (out == NULL) {
        out = check_temporary("whole");
        CHECK_EQ_INT(launch(2, "%s --out %s", long_run(), out).code, 0);
    }
    return out;
}

/* Nothing hangs, every checkpoint is complete, and a resumed run ends with the bytes of an
 * uninterrupted one. */
static void check_resumed(const char *out)
{
    const char *whole = whole_run();
    output o = launch(2, "--out %s --resume", out);
    if (!CHECK_EQ_INT(o.code, 0))
        printf("%s\n", o.err);
    o = shell_command(NULL,
                      "cmp %s/last/adapter_model.safetensors %s/last/adapter_model.safetensors",
                      whole, out);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL, "wc -l <%s/metrics.jsonl", out);
    CHECK_EQ_INT(atoi(o.out), 1 + UPDATES); /* the first has the loss of the general text */
}

static void a_lost_rank_loses_no_checkpoint(void)
{
    if (!launcher_is_there())
        return;
    for (int rank = 0; rank < 2; rank++) {
        const char *out = check_temporary(rank == 0 ? "lost-first" : "lost-second");
        char what[600];
        snprintf(what, sizeof what, "kill -9 $(cat %s.%d)", check_temporary("pid"), rank);
        const output o = interrupt_in_time(2, out, 14 + 9 * rank, what);
        CHECK(o.code != 0);
        CHECK(o.code != 124); /* timeout's */
        CHECK_EQ_INT(shell_command(NULL, "grep -q finished %s/run.json", out).code, 1);
        check_resumed(out);
    }
}

/* A rank that waits for another one leaves its core to others: of a second, in which rank 0 is
 * stopped, it takes a tenth at most. It may be stopped while the gradients are summed, where MPI
 * waits in its own way, so the best of six seconds counts. Again where the run ended before. */
static void waiting_ranks_are_idle(void)
{
    if (!launcher_is_there())
        return;
    const char *out = check_temporary("idle");
    char what[2400], path[400], pid[300], *text = NULL;
    snprintf(pid, sizeof pid, "%s", check_temporary("pid"));
    snprintf(what, sizeof what,
             "rm -f %s.ticks; for n in 1 2 3 4 5 6; do kill -STOP $(cat %s.0); sleep 0.2; "
             "a=$(cut -d ' ' -f 14,15 /proc/$(cat %s.1)/stat); sleep 1; "
             "b=$(cut -d ' ' -f 14,15 /proc/$(cat %s.1)/stat); kill -CONT $(cat %s.0); "
             "echo $b $a >>%s.ticks; sleep 0.05; done",
             pid, pid, pid, pid, pid, pid);
    snprintf(path, sizeof path, "%s.ticks", pid);
    long least = 1000, user[2], system[2];
    int lines = 0, used = 0;
    for (int i = 0; i < 5 && lines < 6; i++) {
        shell_command(NULL, "rm -rf %s", out);
        CHECK_EQ_INT(interrupt(2, out, 10, what).code, 0);
        if (!CHECK_OK(weft_file_read(path, 0, &text, NULL)))
            return;
        lines = 0;
        for (const char *at = text; sscanf(at, "%ld %ld %ld %ld%n", &user[0], &system[0], &user[1],
                                           &system[1], &used) == 4;
             at += used, lines++) {
            const long ticks = user[0] + system[0] - user[1] - system[1];
            least = ticks < least ? ticks : least;
        }
        weft_free(text);
    }
    CHECK_EQ_INT(lines, 6);
    CHECK(least * 10 <= sysconf(_SC_CLK_TCK));
}

/* The launcher takes a while to pass a signal on: until then a rank is stopped, so that the run
 * does not end first. Open MPI 5 may kill the processes of SIGINT and SIGTERM before they have
 * saved, and shows no more of what they print. */
static void the_launchers_signals_lose_nothing(void)
{
    static const char *const signals[] = {"TERM", "INT", "USR1"};
    if (!launcher_is_there())
        return;
    setenv("SECONDS_TO_SAVE", "5", 1);
    for (int i = 0; i < 3; i++) {
        const char *out = check_temporary(signals[i]);
        char what[2000], pid[400];
        snprintf(pid, sizeof pid, "%s", check_temporary("pid"));
        snprintf(what, sizeof what,
                 "kill -STOP $(cat %s.1); kill -%s $(cat %s.launcher); sleep 0.5; "
                 "kill -CONT $(cat %s.1)",
                 pid, signals[i], pid, pid);
        const output o = interrupt_in_time(2, out, 6, what);
        CHECK(o.code != 0);
        const bool stopped =
            shell_command(NULL, "grep -q '\"state\": \"stopped\"' %s/run.json", out).code == 0;
        CHECK(stopped || strcmp(signals[i], "USR1") != 0);
        check_resumed(out);
    }
    unsetenv("SECONDS_TO_SAVE");
}

/* ---- failures ------------------------------------------------------------------------------- */

static void failures_name_their_rank(void)
{
    if (!launcher_is_there())
        return;
    const char *out = check_temporary("failed");
    char rows[512], other[512], bad[512];
    snprintf(rows, sizeof rows, "%s", launcher_data());
    snprintf(other, sizeof other, "%s", pairs());
    snprintf(
        bad, sizeof bad, "%s",
        text_file("bad.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": 1}\n"));
    char link[600];
    snprintf(link, sizeof link, "%s", check_temporary("of"));
    CHECK_EQ_INT(
        shell_command(NULL, "head -20 %s >%s.0; head -21 %s >%s.1", rows, link, rows, link).code,
        0);
    output o = launch(2, "--data %s.$R --format jsonl --steps 2 --out %s", link, out);
    check_failure(&o, "weft: rank 1: training: data: expected ");
    CHECK_EQ_INT(shell_command(NULL, "cp %s %s.0; cp %s %s.1", rows, link, bad, link).code, 0);
    o = launch(2, "--data %s.$R --format jsonl --steps 2 --out %s", link, out);
    check_failure(&o, "weft: rank 1: ");
    CHECK_CONTAINS(o.err, "of.1:2: ");
    o = launch(2, "--data %s --steps 2 --out %s --lr 1e-$((4 + R))", rows, out);
    check_failure(&o, "weft: rank 1: training: learning rate: expected 0.0001, as on rank 0, got ");
    o = launch(2, "--data /no/such/file --out %s", out);
    check_failure(&o, "weft: /no/such/file: "); /* the same on all ranks */
    o = launch(2, "--data - --format jsonl --out %s", out);
    check_failure(&o, "--data - is for one process");
    o = launch(3, "--data %s --accumulate 2 --steps 2 --out %s", rows, out);
    check_failure(&o, "accumulate: expected at least a batch for each of 3 ranks, got 2");
    CHECK_EQ_INT(shell_command(NULL, "[ -e %s/run.json ]", out).code, 1);
}

static void runs_are_resumed_with_their_ranks(void)
{
    if (!launcher_is_there())
        return;
    const char *out = check_temporary("two");
    CHECK_EQ_INT(launch(2, "--data %s --steps 2 --length 32 --out %s", launcher_data(), out).code,
                 0);
    output o = launch(3, "--out %s --resume --steps 4", out);
    check_failure(&o, "ranks: expected the run's 2, got 3");
    o = launch(0, "--out %s --resume --steps 4", out);
    check_failure(&o, "ranks: expected the run's 2, got 1");
    CHECK_EQ_INT(launch(2, "--out %s --resume --steps 4", out).code, 0);
    CHECK_EQ_INT(shell_command(NULL, "[ -e %s/step-4/training.safetensors ]", out).code, 0);
}

/* ---- sampled completions -------------------------------------------------------------------- */

/* A reward program of rank 1 does what the file `what` says, at its 12th line. */
static const char scoring[] = "n=0; r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
                              "while read -r line; do\n"
                              "  n=$((n + 1)); id=${line#*: }; id=${id%%,*}\n"
                              "  if [ \"$r\" = 1 ] && [ $n = 12 ] && [ -e what ]; then\n"
                              "    w=$(cat what); rm what; eval \"$w\"; fi\n"
                              "  echo \"{\\\"id\\\": $id, \\\"reward\\\": $((${#line} % 5))}\"\n"
                              "done\n";

/* A folder with prompts and the program. */
static const char *rewards(void)
{
    static char folder[512];
    char path[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("rewards"));
    CHECK_EQ_INT(shell_command(NULL,
                               "mkdir -p %s && cd %s && for w in \"The king\" \"A fox\" "
                               "\"Long ago\" \"She said\"; do echo "
                               "\"{\\\"prompt\\\": \\\"$w\\\"}\"; done > prompts.jsonl",
                               folder, folder)
                     .code,
                 0);
    snprintf(path, sizeof path, "%s/score.sh", folder);
    CHECK_OK(weft_file_write(path, scoring, sizeof scoring - 1));
    return folder;
}

/* Trains on completions of prompts, with two batches of a group each in an update. */
static output sample(int ranks, const char *folder, const char *out, const char *more)
{
    return launch(ranks,
                  "--data %s/prompts.jsonl --objective grpo --num-generations 4 --batch-size 1 "
                  "--max-completion-length 30 --accumulate 2 --steps 4 --save-every 2 --lr 1e-3 "
                  "--reward \"program:cd %s; exec sh score.sh\" --reward length:10,30 "
                  "--val-data %s/prompts.jsonl --out %s/%s %s",
                  folder, folder, folder, folder, out, more);
}

/* Ranks sample the completions of one process, each with a program of its own. A rank that is
 * killed, and a program that fails, end all of them; what was complete is not sampled again. */
static void ranks_sample_as_one_process(void)
{
    if (!launcher_is_there())
        return;
    static const char *const files[] = {"completions.jsonl", "last/adapter_model.safetensors",
                                        "best/adapter_model.safetensors"};
    static const struct {
        const char *what, *message;
    } ends[] = {
        {NULL, NULL},
        {"kill -9 $PPID; exit", NULL},
        {"echo It broke. >&2; exit 3", "It broke."},
        {"echo nonsense", "in the line 'nonsense'"},
    };
    const char *folder = rewards();
    output o = sample(0, folder, "one", "");
    if (!CHECK_EQ_INT(o.code, 0))
        printf("%s\n", o.err);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/what", folder);
        if (ends[i].what)
            CHECK_OK(weft_file_write(path, ends[i].what, strlen(ends[i].what)));
        o = sample(2, folder, "two", "--overwrite");
        if (ends[i].what) {
            CHECK(o.code != 0 && o.code != 124);
            if (ends[i].message)
                check_failure(&o, ends[i].message);
            if (ends[i].message)
                CHECK_CONTAINS(o.err, "rank 1: ");
            o = sample(2, folder, "two", "--resume");
        }
        if (!CHECK_EQ_INT(o.code, 0))
            printf("%s\n", o.err);
        for (size_t k = 0; k < sizeof files / sizeof *files; k++)
            CHECK_EQ_INT(
                shell_command(NULL, "cmp %s/one/%s %s/two/%s", folder, files[k], folder, files[k])
                    .code,
                0);
    }
}

/* Distillation on the model's own completions, and from a teacher that rank 0 stores. */
static void ranks_distill_as_one_process(void)
{
    if (!launcher_is_there())
        return;
    for (int i = 0; i < 2; i++) {
        char out[2][512];
        for (int k = 0; k < 2; k++) {
            char given[700];
            snprintf(out[k], sizeof out[k], "%s", check_temporary(k ? "taught-two" : "taught"));
            snprintf(given, sizeof given,
                     i ? "--teacher-file %s.top --teacher"
                       : "--lmbda 1 --max-completion-length 20 --teacher%.0s",
                     out[k]);
            const output o =
                launch(2 * k,
                       "--data %s --objective distill %s %s --steps 3 --length 48 --accumulate 2 "
                       "--batch-size 2 --lr 2e-4 --overwrite --val-split 0.1 --out %s",
                       launcher_data(), given, model(), out[k]);
            if (!CHECK_EQ_INT(o.code, 0))
                printf("%s\n", o.err);
        }
        CHECK_EQ_INT(shell_command(NULL,
                                   "cmp %s/last/adapter_model.safetensors "
                                   "%s/last/adapter_model.safetensors",
                                   out[0], out[1])
                         .code,
                     0);
        CHECK_EQ_INT(shell_command(NULL, "[ %d = 0 ] || cmp %s.top %s.top", i, out[0], out[1]).code,
                     0);
    }
}

/* Processes of a launcher that Weft was not built for are not ranks of one run: each would train
 * separately. */
static void other_launchers_are_refused(void)
{
    const output o = shell_command(NULL, "PMI_SIZE=2 PMI_RANK=0 %s",
                                   launcher_command(0, "--data none --out none"));
    CHECK_EQ_INT(o.code, 1);
    CHECK(strstr(o.err, "built without MPI") || strstr(o.err, "another MPI than the one"));
}

CHECK_MAIN("cli_mpi", CHECK_CASE(ranks_have_the_losses_of_one_process),
           CHECK_CASE(ranks_share_the_memory), CHECK_CASE(max_memory_is_of_each_rank),
           CHECK_CASE(a_lost_rank_loses_no_checkpoint), CHECK_CASE(waiting_ranks_are_idle),
           CHECK_CASE(the_launchers_signals_lose_nothing), CHECK_CASE(failures_name_their_rank),
           CHECK_CASE(runs_are_resumed_with_their_ranks), CHECK_CASE(ranks_sample_as_one_process),
           CHECK_CASE(ranks_distill_as_one_process), CHECK_CASE(other_launchers_are_refused))
