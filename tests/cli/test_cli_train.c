/* tests/cli/test_cli_train.c -- weft train as a process: signals, folders that contain a run,
 * closed pipes. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/memory.h"
#include "weft/optim.h"

/* Waits until the run in `out` has reported an update, then does `what`; $p is the process. */
static output stop_run(const char *out, const char *what)
{
    static char command[2048];
    snprintf(command, sizeof command,
             "i=0; until [ -s %s/metrics.jsonl ] || [ $i = 600 ]; do sleep 0.1; i=$((i + 1)); "
             "done; %s; wait $p",
             out, what);
    return shell_command(NULL,
                         "%s train %s --data %s --out %s --steps 100000 --length 32 & p=$!; %s",
                         check_built("cli/weft"), model(), story_file(), out, command);
}

/* A shell makes background commands ignore SIGINT; the command handles it nevertheless. */
static void signals_save_and_stop(void)
{
    static const struct {
        const char *name;
        int status;
    } signals[] = {{"INT", 130}, {"TERM", 143}, {"HUP", 129}};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char out[1024], what[64];
        snprintf(out, sizeof out, "%s", check_temporary(signals[i].name));
        snprintf(what, sizeof what, "kill -%s $p", signals[i].name);
        output o = stop_run(out, what);
        CHECK_EQ_INT(o.code, signals[i].status);
        CHECK_CONTAINS(o.err, "weft: train: stopping");
        CHECK_CONTAINS(o.err, "weft: train: stopped after update");
        CHECK_CONTAINS(o.err, "holds the result so far");
        CHECK_EQ_INT(shell_command(NULL, "grep -q '\"state\": \"stopped\"' %s/run.json", out).code,
                     0);
        o = weft_command(NULL, "info %s --adapter %s/last", model(), out);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.out, "42 linears");
    }
}

/* nohup: the run outlives its terminal. */
static void an_ignored_hangup_stays_ignored(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("nohup"));
    const output o = shell_command(
        NULL,
        "trap '' HUP; %s train %s --data %s --out %s --steps 6 --length 32 & p=$!; "
        "i=0; until [ -s %s/metrics.jsonl ] || [ $i = 600 ]; do sleep 0.1; i=$((i + 1)); done; "
        "kill -HUP $p; wait $p",
        check_built("cli/weft"), model(), story_file(), out, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK(strstr(o.err, "stopping") == NULL);
}

/* `weft train 2>&1 | head -1`: the reader ends after a line, and the run is complete. */
static void a_closed_pipe_does_not_end_a_run(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("piped"));
    shell_command(NULL, "%s train %s --data %s --out %s --steps 12 --length 32 2>&1 | head -1",
                  check_built("cli/weft"), model(), story_file(), out);
    CHECK_EQ_INT(shell_command(NULL, "grep -q '\"state\": \"finished\"' %s/run.json", out).code, 0);
}

/* ulimit -f: writes fail, and the command reports it and says what it kept. */
static void a_limit_on_files_does_not_kill_a_run(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("limited"));
    const char *data = story_file();
    const output o = shell_command(
        NULL, "ulimit -f 100; %s train %s --data %s --out %s --steps 8 --length 32 --save-every 2",
        check_built("cli/weft"), model(), data, out);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "step 8/8");
    CHECK_CONTAINS(o.err, "nothing was saved before");
    CHECK_EQ_INT(shell_command(NULL, "grep -q '\"state\": \"failed\"' %s/run.json", out).code, 0);
}

/* Reported before the data are read and the model is loaded: neither exists. Nothing is left
 * behind. */
static void an_unusable_folder_is_found_first(void)
{
    char folder[512], file[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("unusable"));
    snprintf(file, sizeof file, "%s", text_file("in_the_way", "x"));
    const struct {
        const char *limit, *out, *says;
    } cases[] = {
        {"", file, "in_the_way: make folder: "},
        {"", weft_format("%s/run", file), "in_the_way: make folder: "},
        {"", "/proc/self/run", "/proc/self/run: make folder: "},
        {"ulimit -f 2; ", folder, "unusable/run.json"}, /* as a full disk */
        {"ulimit -f 2; ", weft_format("%s/a/b", folder), "unusable/a/b/run.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o =
            shell_command(NULL, "%s%s train no/such/model --data no/such/data --out %s",
                          cases[i].limit, check_built("cli/weft"), cases[i].out);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, cases[i].says);
        CHECK_EQ_INT(shell_command(NULL, "test -e %s", folder).code, 1);
    }
    weft_free((char *)cases[1].out);
    weft_free((char *)cases[4].out);
    /* If the folder can be written, the error of the data is reported, and the folder is
     * removed. */
    output o = weft_command(NULL, "train %s --data no/such/data --out %s/c", model(), folder);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "no/such/data");
    CHECK_EQ_INT(shell_command(NULL, "test -e %s", folder).code, 1);
    CHECK_EQ_INT(shell_command(NULL, "mkdir %s", folder).code, 0);
    o = weft_command(NULL, "train %s --data no/such/data --out %s", model(), folder);
    check_one_line(&o, 1);
    CHECK_EQ_INT(shell_command(NULL, "rmdir %s", folder).code, 0); /* empty, as it was */
}

static void a_folder_with_a_run_is_refused(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("taken"));
    const char *data = story_file();
    output o =
        weft_command(NULL, "train %s --data %s --out %s --steps 1 --length 32 --val-split 0.1",
                     model(), data, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "tokens/s");
    o = weft_command(NULL, "train %s --data %s --out %s --steps 1 --length 32", model(), data, out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "already has a run");
    CHECK_CONTAINS(o.err, "--overwrite");
    CHECK_CONTAINS(o.err, "--resume");
    o = weft_command(NULL, "train %s --data %s --out %s --steps 1 --length 32 --overwrite", model(),
                     data, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK(shell_command(NULL, "test -e %s/best", out).code != 0);
}

/* Each type and a joined schedule run, and run.json has their numbers. */
static void every_optimizer_and_schedule_can_be_chosen(void)
{
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("optimizers"));
    const char *data = story_file();
    for (int i = 0; weft_optim_type_at(i) != NULL; i++) {
        const char *name = weft_optim_type_at(i)->name;
        output o = weft_command(NULL,
                                "train %s --data %s --out %s --overwrite --steps 3 --length 32 "
                                "--optimizer %s --schedule constant@2,linear --targets q_proj",
                                model(), data, out, name);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", name, o.err);
        CHECK_CONTAINS(o.err, name);
        o = shell_command(NULL, "grep -q '\"optimizer\": \"%s\"' %s/run.json", name, out);
        CHECK_EQ_INT(o.code, 0);
    }
    output o = weft_command(NULL,
                            "train %s --data %s --out %s --overwrite --steps 4 --length 32 --lr "
                            "0.001 --optimizer sgd --optimizer-options momentum=0.5,nesterov=true "
                            "--schedule wsd:0.5 --warmup 0",
                            model(), data, out);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL,
                      "grep -q '\"momentum\": 0.5,' %s/run.json && grep -o '\"lr\": [^,]*' "
                      "%s/metrics.jsonl",
                      out, out);
    CHECK_STR(o.out, "\"lr\": 0.001\n\"lr\": 0.001\n\"lr\": 0.001\n\"lr\": 0.0005\n");
    o = weft_command(NULL, "train %s --data %s --optimizer sgd --optimizer-options beta1=0.5",
                     model(), data);
    check_one_line(&o, 2);
    CHECK_CONTAINS(o.err, "sgd: there is no option 'beta1'; it has momentum");
    o = weft_command(NULL, "train %s --data %s --schedule cosine:x", model(), data);
    check_one_line(&o, 2);
}

/* No given option is ignored. */
static void conflicting_options_are_refused(void)
{
    static const char *const of_adapter[] = {"--rank 8", "--targets q_proj", "--dropout 0.1",
                                             "--alpha 16", "--rslora"};
    output o;
    for (size_t i = 0; i < sizeof of_adapter / sizeof *of_adapter; i++) {
        o = weft_command(NULL, "train M --data a --init-adapter b %s", of_adapter[i]);
        check_one_line(&o, 2);
        CHECK_CONTAINS(o.err, "cannot be combined with --init-adapter");
    }
    static const char *const others[] = {
        "train M --data a --resume --overwrite", "train --data a", "train --resume --out /no/such",
        "train M --data a --lr 1 --lr 2", "train M --data a --batches b --batches c"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        o = weft_command(NULL, "%s", others[i]);
        check_one_line(&o, 2);
    }
    o = weft_command(NULL, "generate M --temperature 0 -t 1");
    check_one_line(&o, 2);
    CHECK_CONTAINS(o.err, "--temperature is given twice");
}

/* ---- all parameters -------------------------------------------------------------------------- */

static const char *full_run(const char *out, const char *options)
{
    static char line[2048];
    snprintf(line, sizeof line,
             "train %s --data %s --val-split 0.5 --full --lr 1e-4 --schedule constant --warmup 0 "
             "--out %s %s",
             model(),
             text_file("two.jsonl",
                       "{\"prompt\": \"A fox\", \"completion\": \" slept in the wood.\"}\n"
                       "{\"prompt\": \"A cat\", \"completion\": \" slept in the wood.\"}\n"),
             out, options);
    return line;
}

/* last and best are models, complete with tokenizer and generation config. A resumed run ends with
 * the same bytes. */
static void all_parameters_are_trained(void)
{
    char first[512], second[512], quantized[512];
    snprintf(first, sizeof first, "%s", check_temporary("full"));
    snprintf(second, sizeof second, "%s", check_temporary("full-again"));
    snprintf(quantized, sizeof quantized, "%s", check_temporary("quantized.gguf"));
    output o = weft_command(NULL, "%s", full_run(first, "--steps 4"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_CONTAINS(o.err, "train   all 3,148,992 parameters");
    CHECK_CONTAINS(o.out, "/best was loaded again: its validation loss is the same");
    CHECK_CONTAINS(o.out, "weft convert ");
    CHECK(strstr(o.out, "--adapter") == NULL);
    o = weft_command(NULL, "generate %s/best -p 'The hen' -n 4", first);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL,
                      "cd %s/best && ls config.json model.safetensors tokenizer.json "
                      "tokenizer_config.json generation_config.json",
                      first);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(weft_command(NULL, "%s", full_run(second, "--steps 2")).code, 0);
    CHECK_EQ_INT(weft_command(NULL, "train --out %s --resume --steps 4", second).code, 0);
    const char *same = "cmp %s/last/model.safetensors %s/last/model.safetensors";
    CHECK_EQ_INT(shell_command(NULL, same, first, second).code, 0);
    o = weft_command(NULL, "train --config %s/config.json --overwrite --out %s", first, second);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(shell_command(NULL, same, first, second).code, 0);
    CHECK_EQ_INT(weft_command(NULL, "convert %s %s --type q8_0", model(), quantized).code, 0);
    o = weft_command(NULL, "train %s --data %s --full --steps 1 --out %s", quantized,
                     check_temporary("two.jsonl"), check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "is quantized, so it cannot be trained");
    static const char *const conflicts[] = {"--rank 4", "--init-adapter a", "--quantize 4",
                                            "--lora-plus 2"};
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++) {
        o = weft_command(NULL, "train M --data a --full %s", conflicts[i]);
        check_one_line(&o, 2);
        CHECK_CONTAINS(o.err, "--full");
    }
}

/* The loss of a general text is in the result, the JSON, metrics.jsonl and the model card of the
 * last adapter; --general-text none measures nothing and trains the same adapter. */
static void a_general_text_is_measured(void)
{
    const char *weft = check_built("cli/weft");
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("general"));
    CHECK_OK(weft_folder_make(folder));
    output o = shell_command(
        NULL,
        "cd %s && printf 'The hen slept.\\nThe fox sat.\\n' >a.txt && %s train %s --data a.txt "
        "--steps 2 --length 8 --out a && grep -c general_loss a/metrics.jsonl && "
        "%s fuse %s a/last merged >/dev/null && grep '^| Loss of' merged/README.md",
        folder, weft, check_source("examples/storyteller"), weft,
        check_source("examples/storyteller"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "step 0/2  general ");
    CHECK_CONTAINS(o.out, "general text: loss ");
    CHECK_CONTAINS(o.out, "\n2\n| Loss of a general text, before and after training | ");
    o = shell_command(NULL,
                      "cd %s && %s train %s --data a.txt --steps 2 --length 8 --out b "
                      "--general-text none --json && cmp a/last/adapter_model.safetensors "
                      "b/last/adapter_model.safetensors && ! grep general_loss b/metrics.jsonl",
                      folder, weft, check_source("examples/storyteller"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"first_general\": null, \"last_general\": null");
    o = shell_command(NULL, "cd %s && %s train %s --data a.txt --steps 2 --out c --general-text no",
                      folder, weft, check_source("examples/storyteller"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "no: ");
}

CHECK_MAIN("cli_train", CHECK_CASE(conflicting_options_are_refused),
           CHECK_CASE(every_optimizer_and_schedule_can_be_chosen),
           CHECK_CASE(all_parameters_are_trained), CHECK_CASE(a_general_text_is_measured),
           CHECK_CASE(signals_save_and_stop), CHECK_CASE(an_ignored_hangup_stays_ignored),
           CHECK_CASE(a_closed_pipe_does_not_end_a_run),
           CHECK_CASE(a_limit_on_files_does_not_kill_a_run),
           CHECK_CASE(an_unusable_folder_is_found_first),
           CHECK_CASE(a_folder_with_a_run_is_refused))
