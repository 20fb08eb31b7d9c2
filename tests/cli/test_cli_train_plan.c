/* tests/cli/test_cli_train_plan.c -- weft train before it trains: --dry-run and --config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* Twelve rows; the completion has `sentences` of 13 tokens. */
static const char *rows_of(const char *name, int sentences)
{
    static char text[20000];
    text[0] = '\0';
    for (int i = 0; i < 12; i++) {
        snprintf(text + strlen(text), 100, "{\"prompt\": \"Tale %d begins.\", \"completion\": \"",
                 i);
        for (int k = 0; k < sentences; k++)
            strcat(text, " Once there was a fox who walked through wood and field for days.");
        strcat(text, "\"}\n");
    }
    return text_file(name, text);
}

static const char *chats(void)
{
    return rows_of("rows.jsonl", 1);
}

static const char *long_chats(void)
{
    return rows_of("long.jsonl", 10);
}

/* The number behind "key": in a JSON text; -1: it is not there. */
static double number(const char *text, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "\"%s\": ", key);
    const char *at = strstr(text, name);
    return at ? strtod(at + strlen(name), NULL) : -1;
}

static double dry_peak_of(const char *data, const char *options)
{
    const output o =
        weft_command(NULL, "train %s --data %s --dry-run --json %s", model(), data, options);
    CHECK_EQ_INT(o.code, 0);
    return number(o.out, "peak_memory");
}

static double dry_peak(const char *options)
{
    return dry_peak_of(chats(), options);
}

/* The dry run's peak is that of a run that goes through an epoch, within 5 %. */
static void the_peak_is_that_of_the_run(void)
{
    static const char *const options[] = {
        "--epochs 1", "--epochs 1 --accumulate 2", "--epochs 1 --checkpoint",
        "--epochs 1 --batch-size 2 --optimizer sgd", "--epochs 1 --pack --length 64"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const double dry = dry_peak(options[i]);
        const output o = weft_command(NULL, "train %s --data %s --json --overwrite --out %s %s",
                                      model(), chats(), check_temporary("run"), options[i]);
        CHECK_EQ_INT(o.code, 0);
        const double real = number(o.out, "peak_active");
        if (!CHECK(real > 1e6 && dry > 0.95 * real && dry < 1.05 * real))
            CHECK_FAIL("%s: %g bytes foreseen, %g taken", options[i], dry, real);
    }
}

/* Preference pairs have two rows each. */
static void pairs_are_measured_too(void)
{
    const char *pairs =
        text_file("pairs.jsonl",
                  "{\"prompt\": \"A fox\", \"chosen\": \" slept.\", \"rejected\": \" sat.\"}\n"
                  "{\"prompt\": \"A cat\", \"chosen\": \" ran.\", \"rejected\": \" flew.\"}\n"
                  "{\"prompt\": \"A dog\", \"chosen\": \" ate.\", \"rejected\": \" sang.\"}\n");
    output o =
        weft_command(NULL, "train %s --data %s --objective dpo --dry-run --json", model(), pairs);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"largest_batch\": [6, ");
    const double dry = number(o.out, "peak_memory");
    o = weft_command(NULL,
                     "train %s --data %s --objective dpo --steps 3 --json --overwrite --out %s",
                     model(), pairs, check_temporary("dpo"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_RELATIVE(dry, number(o.out, "peak_active"), 0.05);
}

/* Completions that are sampled share their prompts, unless there is dropout. The peak is above that
 * of the run, by a seventh of the activations. */
static void prompts_of_completions_are_counted_once(void)
{
    static const char *const options[] = {"", "--micro-batch 3 --sample-rows 2", "--compile",
                                          "--beta 0.1 --num-iterations 2"};
    static const char *const base = "--objective grpo --reward pattern:e --num-generations 8 "
                                    "--max-completion-length 12 --batch-size 2 --steps 2";
    char all[400], text[600];
    const char *prompts = text_file(
        "prompts.jsonl", "{\"prompt\": \"Once there was a fox who walked through wood and "
                         "field for days, and a dog who slept on a bed of hay.\"}\n"
                         "{\"prompt\": \"Once there was a cat.\"}\n");
    snprintf(text, sizeof text, "%s --dropout 0.1", base);
    const double apart = dry_peak_of(prompts, text);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        snprintf(all, sizeof all, "%s %s", base, options[i]);
        const double dry = dry_peak_of(prompts, all);
        const output o = weft_command(NULL, "train %s --data %s --json --overwrite --out %s %s",
                                      model(), prompts, check_temporary("scored"), all);
        CHECK_EQ_INT(o.code, 0);
        const double real = number(o.out, "peak_active");
        if (!CHECK(real > 1e6 && dry >= real && dry < 1.2 * real && dry < 0.8 * apart))
            CHECK_FAIL("%s: %g bytes foreseen, %g taken, %g with dropout", options[i], dry, real,
                       apart);
    }
}

static void a_dry_run_shows_the_plan_and_writes_nothing(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("nothing"));
    output o = weft_command(NULL, "train %s --data %s --dry-run --epochs 2 --out %s", model(),
                            chats(), out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "trainable  162,816 of 3,311,808 parameters");
    CHECK_CONTAINS(o.out, "weights 12.6 MB");
    CHECK_CONTAINS(o.out, "an epoch: 3 updates");
    CHECK_CONTAINS(o.out, "the run: 6 updates");
    CHECK_CONTAINS(o.out, "  Tale ");
    CHECK_CONTAINS(o.out, "+  Once there was a fox");
    CHECK(shell_command(NULL, "test -e %s", out).code != 0);
    o = weft_command(NULL, "train %s --data %s --dry-run --epochs 2 --json", model(), chats());
    CHECK_EQ_INT(number(o.out, "updates_per_epoch"), 3);
    CHECK_EQ_INT(number(o.out, "trainable"), 162816);
    CHECK_CONTAINS(o.out, "\"weight\": 1, \"text\": \" Once");
}

/* The advised options fit. Rows are long enough that one row uses the kernels for many rows:
 * estimates from a few tokens are higher. */
static void runs_that_do_not_fit_are_refused(void)
{
    const double all = dry_peak_of(long_chats(), "--batch-size 8") / 1e9;
    output o = weft_command(NULL,
                            "train %s --data %s --dry-run --batch-size 8 --micro-batch 8 "
                            "--max-memory %.4f",
                            model(), long_chats(), 0.9 * all);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "are available; what would fit: --batch-size");
    CHECK_CONTAINS(o.err, "--checkpoint (");
    const char *advice = strstr(o.err, "--batch-size ");
    const int rows = advice ? atoi(advice + strlen("--batch-size ")) : 0;
    CHECK(rows >= 1 && rows < 8);
    o = weft_command(NULL, "train %s --data %s --dry-run --batch-size %d --max-memory %.4f",
                     model(), long_chats(), rows, 0.9 * all);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL,
                     "train %s --data %s --dry-run --batch-size 8 --checkpoint --max-memory %.4f",
                     model(), long_chats(), 0.9 * all);
    CHECK_EQ_INT(o.code, 0);
    /* Batches are split first, so the advice is for one sample at a time. */
    const double one = dry_peak_of(long_chats(), "--batch-size 8 --micro-batch 1") / 1e9;
    o = weft_command(NULL, "train %s --data %s --dry-run --batch-size 8 --max-memory %.4f", model(),
                     long_chats(), 0.85 * one);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "are available; what would fit: --checkpoint (");
    CHECK_CONTAINS(o.err, " or --quantize 4 (");
    o = weft_command(NULL,
                     "train %s --data %s --dry-run --batch-size 8 --quantize 4 --max-memory %.4f",
                     model(), long_chats(), 0.85 * one);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train %s --data %s --dry-run --max-memory 0.001", model(),
                     long_chats());
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "a smaller model or more memory");
}

/* Batches that do not fit are computed some samples at a time, by the dry run and by the run. */
static void micro_batches_fit_into_memory(void)
{
    const double all = dry_peak("--batch-size 8") / 1e9;
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("micro"));
    output o =
        weft_command(NULL, "train %s --data %s --dry-run --json --batch-size 8 --max-memory %.4f",
                     model(), chats(), 0.7 * all);
    CHECK_EQ_INT(o.code, 0);
    const double micro = number(o.out, "micro_batch");
    CHECK(micro >= 1 && micro < 8 && number(o.out, "total") <= 0.7e9 * all);
    o = weft_command(NULL,
                     "train %s --data %s --json --batch-size 8 --epochs 1 --max-memory %.4f "
                     "--overwrite --out %s",
                     model(), chats(), 0.7 * all, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "out of memory; from now on batches are computed");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* The limit includes idle buffers. Memory outside of arrays is reported but not limited. */
    CHECK(number(o.out, "peak_memory") <= 0.7e9 * all + 12e6);
#endif
    const double loss = number(o.out, "loss");
    o = weft_command(NULL,
                     "train %s --data %s --json --batch-size 8 --epochs 1 --overwrite --out %s",
                     model(), chats(), out);
    CHECK_RELATIVE(loss, number(o.out, "loss"), 1e-5);
    o = weft_command(NULL, "train %s --data %s --epochs 1 --max-memory 0.016 --overwrite --out %s",
                     model(), chats(), out);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "of memory, and 16.0 MB are available; what would fit: ");
}

/* Runs the printed commands but the first: two merged models and an adapter for llama.cpp, in a
 * folder of their own. The run's report lists the same commands. */
static void run_printed(const char *run, char *printed)
{
    char folder[1024], begin[1024], page[8192], listed[1024];
    snprintf(folder, sizeof folder, "%s", check_temporary("deploy"));
    snprintf(begin, sizeof begin, "  %s ", check_built("cli/weft"));
    output o = shell_command(
        NULL, "sed -n \"/<h2>Next/,/<.pre>/{s/&#39;/'/g;p}\" \"%s\"/report.html", run);
    snprintf(page, sizeof page, "%s", o.out);
    int n = 0;
    for (char *line = strtok(printed, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, begin, strlen(begin)) != 0)
            continue;
        snprintf(listed, sizeof listed, "</b>\nweft %s\n", line + strlen(begin));
        CHECK_CONTAINS(page, listed);
        if (n++ == 0)
            continue;
        o = shell_command(NULL, "mkdir -p %s && cd %s && %s", folder, folder, line);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", line, o.err);
    }
    CHECK_EQ_INT(n, 4);
    o = shell_command(NULL, "cd %s && ls fused/config.json fused.gguf adapter.gguf", folder);
    CHECK_EQ_INT(o.code, 0);
}

/* The commands that are printed at the end run, with names that a shell would split. */
static void the_end_says_which_adapter_to_use(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("it's a run"));
    /* Training on the rows makes another text less likely. */
    const char *other =
        text_file("other.txt", "But soft, what light through yonder window breaks?");
    output o = weft_command(NULL,
                            "train %s --data %s --val-data %s --steps 40 --lr 1e-2 --patience 2 "
                            "--sample-prompt Once --sample-prompt 'A fox' --out \"%s\"",
                            model(), chats(), other, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "stopped early: the validation loss has not fallen since update");
    CHECK_CONTAINS(o.out, "/report.html");
    CHECK_CONTAINS(o.out, "/best was loaded again: its validation loss is the same, ");
    char begin[1024], command[2048];
    snprintf(begin, sizeof begin, "  %s ", check_built("cli/weft")); /* as in the command */
    const size_t n_begin = strlen(begin);
    const char *at = strstr(o.out, begin);
    if (!CHECK(at != NULL && strncmp(at + n_begin, "generate ", 9) == 0))
        return;
    snprintf(command, sizeof command, "%.*s", (int)strcspn(at, "\n"), at);
    char *prompt = strstr(command, "TEXT");
    if (CHECK(prompt != NULL))
        memcpy(prompt, "Once", 4);
    char all[4096];
    snprintf(all, sizeof all, "%s", o.out);
    o = shell_command(NULL, "%s --max-tokens 4", command);
    CHECK_EQ_INT(o.code, 0);
    run_printed(out, all);
    o = shell_command(NULL, "grep -c '\"samples\": .*A fox' \"%s\"/metrics.jsonl", out);
    CHECK(atoi(o.out) >= 2);
    static const char *const bad[] = {"--patience 1 --val-split 0",
                                      "--sample-prompt a --val-split 0",
                                      "--patience 1 --val-split 0.1 --val-every 0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = weft_command(NULL, "train M --data a %s", bad[i]);
        check_one_line(&o, 2);
    }
}

/* Questions are rendered by the chat template, as conversations are. */
static void questions_are_asked_in_a_chat(void)
{
    const char *table = text_file("table.csv", "question,answer\nWho came?,A fox.\n");
    output o = weft_command(NULL, "train %s --data %s --steps 1 --out %s", model(), table,
                            check_temporary("asked"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "weft chat ");
    o = shell_command(NULL, "cat %s/report.html", check_temporary("asked"));
    CHECK_CONTAINS(o.out, table); /* the path of the data, as it is */
    CHECK(strstr(o.out, "\\/") == NULL);
}

/* config.json of a run makes the same adapter again, also of one with --init-adapter. */
static void the_config_of_a_run_reproduces_it(void)
{
    char first[1024], second[1024], third[1024], fourth[1024];
    snprintf(first, sizeof first, "%s", check_temporary("first"));
    snprintf(second, sizeof second, "%s", check_temporary("second"));
    snprintf(third, sizeof third, "%s", check_temporary("third"));
    snprintf(fourth, sizeof fourth, "%s", check_temporary("fourth"));
    const char *same = "cmp %s/last/adapter_model.safetensors %s/last/adapter_model.safetensors";
    output o =
        weft_command(NULL,
                     "train %s --data %s --data %s --steps 3 --lr 1e-3 --rank 4 --dropout "
                     "0.1 --checkpoint --seed 7 --out %s",
                     model(), chats(), text_file("more.txt", "A tale of more than that."), first);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train --config %s/config.json --out %s", first, second);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(shell_command(NULL, same, first, second).code, 0);
    CHECK_EQ_INT(shell_command(NULL, "cmp %s/config.json %s/config.json", first, second).code, 0);
    /* The command line takes precedence, and --epochs replaces the file's steps. */
    o = weft_command(NULL, "train --config %s/config.json --seed 8 --epochs 1 --out %s", first,
                     third);
    CHECK_EQ_INT(o.code, 0);
    CHECK(shell_command(NULL, same, first, third).code != 0);
    CHECK_EQ_INT(shell_command(NULL, "grep -q '\"seed\": 8' %s/run.json", third).code, 0);
    o = weft_command(NULL, "train %s --data %s --steps 2 --init-adapter %s/last --out %s", model(),
                     chats(), first, fourth);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train --config %s/config.json --overwrite --out %s", fourth, second);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(shell_command(NULL, same, fourth, second).code, 0);
}

/* The adapter of a run, of each kind, has the loss that was measured before it was saved. */
static void saved_adapters_are_loaded_again(void)
{
    static const char *const kinds[] = {"--rslora --layers 2", "--dora", "--pissa --quantize 8"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const output o =
            weft_command(NULL,
                         "train %s --data %s --val-split 0.3 --steps 4 --lr 5e-3 --json --out %s "
                         "--overwrite %s",
                         model(), chats(), check_temporary("reloaded"), kinds[i]);
        CHECK_EQ_INT(o.code, 0);
        CHECK(number(o.out, "best_validation") > 0);
        CHECK_RELATIVE(number(o.out, "reloaded_validation"), number(o.out, "best_validation"),
                       1e-3);
    }
}

static void packed_updates_compile(void)
{
    double losses[2];
    for (int i = 0; i < 2; i++) {
        const output o =
            weft_command(NULL,
                         "train %s --data %s --pack --length 64 --batch-size 2 --steps 6 --lr 2e-3 "
                         "--json --out %s --overwrite %s",
                         model(), chats(), check_temporary("packed"), i > 0 ? "--compile" : "");
        CHECK_EQ_INT(o.code, 0);
        losses[i] = number(o.out, "loss");
    }
    CHECK(losses[0] > 0);
    CHECK_RELATIVE(losses[1], losses[0], 1e-6);
}

CHECK_MAIN("cli_train_plan", CHECK_CASE(the_peak_is_that_of_the_run),
           CHECK_CASE(pairs_are_measured_too), CHECK_CASE(prompts_of_completions_are_counted_once),
           CHECK_CASE(a_dry_run_shows_the_plan_and_writes_nothing),
           CHECK_CASE(runs_that_do_not_fit_are_refused), CHECK_CASE(micro_batches_fit_into_memory),
           CHECK_CASE(the_config_of_a_run_reproduces_it),
           CHECK_CASE(the_end_says_which_adapter_to_use), CHECK_CASE(questions_are_asked_in_a_chat),
           CHECK_CASE(saved_adapters_are_loaded_again), CHECK_CASE(packed_updates_compile))
