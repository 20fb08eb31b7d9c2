/* tests/cli/test_cli_verify.c -- weft verify: a run whose updates are repeated with the same bytes,
 * and runs with a changed row, option, base model, tokenizer, build or result, each named. The
 * run's folder is never changed. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* A folder with a model, rows and a finished run of them; `name` is the folder. */
static const char *run_in(const char *name, const char *options)
{
    static char folder[1024];
    snprintf(folder, sizeof folder, "%s", check_temporary(name));
    output o = shell_command(NULL,
                             "mkdir -p %s && cd %s && cp -r %s base && i=0 && "
                             "while [ $i -lt 24 ]; do i=$((i+1)); "
                             "echo \"{\\\"prompt\\\": \\\"Tale $i is\\\", \\\"completion\\\": "
                             "\\\" number $i.\\\"}\"; done > rows.jsonl && "
                             "%s train base --data rows.jsonl --steps 6 --save-every 2 --length 32 "
                             "--batch-size 2 --dropout 0.1 --val-split 0.2 %s --out run",
                             folder, folder, check_source("examples/storyteller"),
                             check_built("cli/weft"), options);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    return folder;
}

/* Runs a shell command in the folder, then `weft verify run OPTIONS`, and checks that the run is as
 * before and that no temporary folder is left. */
static output verify_after(const char *folder, const char *change, const char *options)
{
    output o = shell_command(NULL, "cd %s && %s", folder, change);
    CHECK_EQ_INT(o.code, 0);
    static const char *const list =
        "(find run -printf '%p %s %T@ %l\\n' | sort; find run -type f | sort | xargs sha256sum)";
    o = shell_command(NULL, "cd %s && mkdir -p tmp && %s > before", folder, list);
    CHECK_EQ_INT(o.code, 0);
    static char out[16384], err[16384];
    o = shell_command(NULL, "cd %s && TMPDIR=tmp %s verify run %s", folder, check_built("cli/weft"),
                      options);
    snprintf(out, sizeof out, "%s", o.out);
    snprintf(err, sizeof err, "%s", o.err);
    const output kept = {o.code, out, err};
    o = shell_command(NULL,
                      "cd %s && %s > after && cmp before after && ls tmp | wc -l | grep -qx 0",
                      folder, list);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s%s", o.out, o.err);
    return kept;
}

static const char *const all_equal = "base       equal\ntokenizer  equal\nrows       equal\n"
                                     "options    equal\nbuild      equal\n";

static void an_unchanged_run_is_verified(void)
{
    const char *folder = run_in("unchanged", "");
    output o = verify_after(folder, "true", "");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "run: update 6\n");
    CHECK_CONTAINS(o.out, all_equal);
    CHECK_CONTAINS(o.out, "updates    5 to 6 repeated in ");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    o = verify_after(folder, "true", "--from 0 --to 4 --json");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "{\"state\": \"verified\", \"checkpoint\": 4, ");
    CHECK_CONTAINS(o.out, "\"updates\": {\"from\": 0, \"to\": 4, ");
    CHECK_CONTAINS(o.out, "\"same_bytes\": true, ");
    o = verify_after(folder, "true", "--hashes");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "build      equal\nverified\n");
    /* A run that was stopped and resumed is verified like any other. */
    o = verify_after(folder, "rm -r run/step-6", "--from 0");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    o = shell_command(NULL, "cd %s && %s train --out run --resume", folder,
                      check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 0);
    o = verify_after(folder, "true", "--from 4");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
}

/* Changes something in a copy of the run, and expects a message that names it. */
static void expect_named(const char *folder, const char *change, const char *undo, const char *item,
                         const char *difference)
{
    output o = verify_after(folder, change, "--programs");
    char line[64];
    CHECK_EQ_INT(o.code, 1);
    snprintf(line, sizeof line, "\n%-10s differs\n           ", item);
    if (!CHECK(strstr(o.out, line) != NULL) || !CHECK(strstr(o.out, difference) != NULL))
        CHECK_FAIL("%s%s", o.out, o.err);
    CHECK_CONTAINS(o.out, "updates    not repeated: they would be those of another run\ndiffers\n");
    int differing = 0;
    for (const char *at = o.out; (at = strstr(at, " differs\n")) != NULL; at++)
        differing++;
    CHECK_EQ_INT(differing, 1);
    o = shell_command(NULL, "cd %s && %s", folder, undo);
    CHECK_EQ_INT(o.code, 0);
}

static void changed_inputs_are_named(void)
{
    const char *folder = run_in("inputs", "");
    CHECK_EQ_INT(
        shell_command(NULL, "cd %s && cp -r base base0 && cp rows.jsonl rows0", folder).code, 0);
    expect_named(folder, "sed -i '3s/number 3/number 4/' rows.jsonl", "cp rows0 rows.jsonl", "rows",
                 "rows.jsonl: recorded ");
    expect_named(folder, "sed -i '3s/number 3/number 4/' rows.jsonl", "cp rows0 rows.jsonl", "rows",
                 "\n           rows.jsonl: line 3 of 24\n");
    expect_named(folder, "sed -i 1d rows.jsonl", "cp rows0 rows.jsonl", "rows",
                 "\n           samples: recorded ");
    expect_named(folder, "sed -i '5s/$/ /;20s/Tale/Tail/' rows.jsonl", "cp rows0 rows.jsonl",
                 "rows", "\n           rows.jsonl: lines 5, 20 of 24\n");
    expect_named(folder, "sed -i.0 's/\"--lr\", \"2e-4\"/\"--lr\", \"3e-4\"/' run/run.json",
                 "mv run/run.json.0 run/run.json", "options", "--lr: recorded 2e-4, now 3e-4\n");
    expect_named(folder, "sed -i.0 's/\"--rank\", \"8\"/\"--rank\", \"4\"/' run/run.json",
                 "mv run/run.json.0 run/run.json", "options", "--rank: recorded 8, now 4\n");
    expect_named(folder,
                 "printf x | dd of=base/model.safetensors bs=1 seek=3000000 conv=notrunc 2>&1",
                 "cp base0/model.safetensors base", "base", "model.safetensors: recorded ");
    expect_named(folder, "printf ' ' >> base/tokenizer.json", "cp base0/tokenizer.json base",
                 "tokenizer", "tokenizer.json: recorded ");
    expect_named(folder, "printf ' ' >> base/tokenizer_config.json",
                 "cp base0/tokenizer_config.json base", "tokenizer",
                 "tokenizer_config.json: recorded ");
    /* Options that do not change the result are named, and no difference is reported. */
    output o =
        verify_after(folder, "sed -i 's/\"--keep\", \"2\"/\"--keep\", \"5\"/' run/run.json", "");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "options    equal\n"
                          "           keep: recorded 2, now 5 (does not change the result)\n");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
}

/* Files beside base and rows: a validation row, the adapter to begin from, a general text, which
 * nothing depends on, and a program's file. */
static void other_inputs_are_named(void)
{
    const char *folder = run_in("first", "");
    output o = shell_command(
        NULL,
        "cd %s && printf 'Some text.\\n' > general.txt && cp -r run/step-6 begin && rm -r run && "
        "cp rows.jsonl val.jsonl && %s train base --data rows.jsonl --val-data val.jsonl --steps 4 "
        "--save-every 2 --length 32 --init-adapter begin --general-text general.txt --out run && "
        "cp val.jsonl val0 && cp -r begin begin0",
        folder, check_built("cli/weft"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    o = verify_after(folder, "rm general.txt", "");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    expect_named(folder, "sed -i '7s/Tale/Tail/' val.jsonl", "cp val0 val.jsonl", "rows",
                 "\n           val.jsonl: line 7 of 24\n");
    expect_named(folder,
                 "printf x | dd of=begin/adapter_model.safetensors bs=1 seek=20000 conv=notrunc "
                 "2>&1",
                 "rm -r begin && cp -r begin0 begin", "base",
                 "adapter adapter_model.safetensors: recorded ");
    expect_named(folder, "echo >> begin/adapter_config.json", "rm -r begin && cp -r begin0 begin",
                 "base", "adapter adapter_config.json: recorded ");
}

/* Files whose SHA-256 is not recorded are compared by their blocks, and what is not recorded at all
 * is not verified by hashes. */
static void quick_and_missing_hashes_are_reported(void)
{
    static const char no_sums[] =
        "sed -i -E 's/sha256(.{6}5814)/sha_56\\1/' run/step-6/training.safetensors";
    const char *folder = run_in("quick", "");
    CHECK_EQ_INT(shell_command(NULL, "cd %s && cp -r run run0 && cp -r base base0", folder).code,
                 0);
    output o = verify_after(folder, no_sums, "--hashes");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out,
                   "base       equal by quick hashes\n           model.safetensors: equal by "
                   "its quick hash");
    CHECK_CONTAINS(o.out, "\nagrees, by quick hashes\n");
    o = verify_after(folder, "true", "");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    o = verify_after(folder,
                     "printf x | dd of=base/model.safetensors bs=1 seek=6305000 conv=notrunc 2>&1",
                     "--hashes");
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "\n           model.safetensors: recorded ");
    o = verify_after(folder,
                     "cp base0/model.safetensors base && "
                     "sed -i 's/quick/qu_ck/g' run/step-6/training.safetensors",
                     "--hashes");
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "base       unknown\n           model.safetensors: not recorded\n");
    CHECK_CONTAINS(o.out, "\nnot verified: the run's record is incomplete\n");
}

/* By default the shortest stretch is repeated; its progress and an estimate are shown. */
static void the_shortest_stretch_is_repeated(void)
{
    const char *folder = run_in("stretch", "--keep 9");
    output o = verify_after(folder, "true", "");
    CHECK_CONTAINS(o.out, "updates    5 to 6 repeated in ");
    CHECK_CONTAINS(o.err, "repeating updates 5 to 6: about 0:0");
    CHECK_CONTAINS(o.err, "update 6 of 5 to 6  loss ");
    CHECK_CONTAINS(o.err, "  0:00 left\n");
    o = verify_after(folder, "rm -r run/step-4", "");
    CHECK_CONTAINS(o.out, "run: update 2\n");
    CHECK_CONTAINS(o.out, "updates    1 to 2 repeated in ");
    o = verify_after(folder, "true", "--to 6");
    CHECK_CONTAINS(o.out, "updates    3 to 6 repeated in ");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
}

/* Expects that the repeated updates differ after a change of the run, which is then undone. */
static output expect_other(const char *folder, const char *change, const char *says,
                           const char *undo)
{
    static char out[16384];
    const output o = verify_after(folder, change, "");
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "\ndiffers\n");
    if (!CHECK(strstr(o.out, says) != NULL))
        CHECK_FAIL("%s", o.out);
    snprintf(out, sizeof out, "%s", o.out);
    CHECK_EQ_INT(shell_command(NULL, "cd %s && %s", folder, undo).code, 0);
    return (output){o.code, out, o.err};
}

/* Results that were changed after the run differ in the bytes that are repeated. */
static void changed_results_are_named(void)
{
    static const struct {
        const char *change, *says;
    } cases[] = {
        {"sed -i '6s/\"loss\": [0-9.]*/\"loss\": 3.5/' run/metrics.jsonl",
         "update 5: loss: recorded 3.5, now "},
        {"sed -i '7s/\"validation_loss\": [0-9.]*/\"validation_loss\": 0.5/' run/metrics.jsonl",
         "update 6: validation_loss: recorded 0.5, now "},
        {"printf x | dd of=run/step-6/adapter_model.safetensors bs=1 seek=20000 conv=notrunc 2>&1",
         "adapter_model.safetensors: 1 of 84 tensors differ, first base_model.model.model.layers."},
        {"printf x | dd of=run/step-6/training.safetensors bs=1 seek=60000 conv=notrunc 2>&1",
         "training.safetensors: 1 of 254 tensors differ, first model.layers."},
        {"sed -i 's/\"r\": 8/\"r\": 4/' run/step-6/adapter_config.json",
         "adapter_config.json: other bytes\n"},
    };
    const char *folder = run_in("results", "");
    CHECK_EQ_INT(shell_command(NULL, "cd %s && cp -r run run0", folder).code, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o =
            expect_other(folder, cases[i].change, cases[i].says, "rm -r run && cp -r run0 run");
        CHECK_CONTAINS(o.out, all_equal);
        CHECK_CONTAINS(o.out, ": other bytes\n");
    }
}

/* Bytes depend on the build, so runs of another build are compared with a tolerance. */
static void another_build_is_named(void)
{
    const char *folder = run_in("build", "");
    output o = verify_after(folder, "cp -r run run0", "");
    CHECK_EQ_INT(o.code, 0);
    /* Same length: the metadata of a safetensors file. */
    o = verify_after(folder,
                     "sed -i 's/\\(weft..: ..\\)[0-9]/\\19/' "
                     "run/step-6/training.safetensors",
                     "");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "options    equal\nbuild      differs\n           weft: recorded 9");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    /* Files without tensors do not depend on the build. */
    static const struct {
        const char *change, *undo, *says;
    } files[] = {
        {"sed -i 's/\"r\": 8/\"r\": 4/' run/step-6/adapter_config.json",
         "cp run0/step-6/adapter_config.json run/step-6", "adapter_config.json: other bytes\n"},
        {"echo > run/step-6/README.md", "rm run/step-6/README.md", "README.md: not made again\n"},
        {"rm run/step-6/adapter_config.json", "cp run0/step-6/adapter_config.json run/step-6",
         "adapter_config.json: missing\n"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        o = expect_other(folder, files[i].change, files[i].says, files[i].undo);
        CHECK_CONTAINS(o.out, "losses differ by at most 0, weights by 0\n");
    }
    o = verify_after(folder, "sed -i '6s/\"loss\": [0-9.]*/\"loss\": 0.5/' run/metrics.jsonl", "");
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, ": compared with tolerance 0.05, since bytes depend on the build: losses "
                          "differ by at most ");
    CHECK_CONTAINS(o.out, "update 5: loss: recorded 0.5, now ");
    CHECK_CONTAINS(o.out, "\ndiffers\n");
    /* An adapter of another run, and a run of an older version. */
    o = verify_after(folder,
                     "rm -r run && cp -r run0 run && "
                     "cp run/step-4/adapter_model.safetensors run/step-6 && "
                     "sed -i 's/build\\(..: {\\)/built\\1/' run/step-6/training.safetensors",
                     "");
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "build      unknown\n");
    CHECK_CONTAINS(o.out, "adapter_model.safetensors: 84 of 84 tensors differ");
#if defined(__x86_64__)
    shell_command(NULL, "cd %s && rm -r run && cp -r run0 run", folder);
    o = verify_after(folder, "true", "");
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    o = shell_command(NULL, "cd %s && WEFT_CPU_ISA=portable %s verify run", folder,
                      check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 0);
    if (strstr(o.out, "build      equal") == NULL) { /* a machine with AVX2 */
        CHECK_CONTAINS(o.out, "description: recorded kernels for ");
        CHECK_CONTAINS(o.out, "agrees within the tolerance, on another build or machine\n");
    }
#endif
}

/* Runs of each task, whose checkpoints have other files and folders. */
static void every_task_is_verified(void)
{
    static const struct {
        const char *name, *base, *row, *options;
    } runs[] = {
        {"embedder", "storyteller", "\\\"anchor\\\": \\\"q $i\\\", \\\"positive\\\": \\\"a $i\\\"",
         "--task embed --full --batch-size 4"},
        {"classifier", "storyteller",
         "\\\"text\\\": \\\"tale $i\\\", \\\"label\\\": \\\"$((i % 2))\\\"", "--task classify"},
        {"whole", "storyteller",
         "\\\"prompt\\\": \\\"Tale $i\\\", \\\"completion\\\": \\\" ends.\\\"", "--full"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char folder[1024];
        snprintf(folder, sizeof folder, "%s", check_temporary(runs[i].name));
        output o = shell_command(NULL,
                                 "mkdir -p %s && cd %s && cp -r %s base && i=0 && "
                                 "while [ $i -lt 16 ]; do i=$((i+1)); echo \"{%s}\"; done > "
                                 "rows.jsonl && %s train base --data rows.jsonl --steps 4 "
                                 "--save-every 2 --length 32 %s --out run",
                                 folder, folder, check_source("examples/storyteller"), runs[i].row,
                                 check_built("cli/weft"), runs[i].options);
        if (!CHECK_EQ_INT(o.code, 0)) {
            CHECK_FAIL("%s: %s", runs[i].name, o.err);
            continue;
        }
        o = verify_after(folder, "true", "");
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s%s", runs[i].name, o.out, o.err);
        CHECK_CONTAINS(o.out, "updates    3 to 4 repeated in ");
        CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    }
    const char *folder = check_temporary("embedder");
    output o = verify_after(folder, "echo ' ' >> run/step-4/1_Pooling/config.json", "");
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "config.json: other bytes");
}

/* Programs that a run names are run only on request. */
static void programs_run_only_on_request(void)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", check_temporary("programs"));
    output o = shell_command(
        NULL,
        "mkdir -p %s && cd %s && cp -r %s base && "
        "for i in 1 2 3 4; do echo \"{\\\"prompt\\\": \\\"Tale $i\\\"}\"; done > rows.jsonl && "
        "echo 'touch ran; while read x; do id=${x#*: }; "
        "echo \"{\\\"id\\\": ${id%%%%,*}, \\\"reward\\\": 1}\"; done' > judge.sh && "
        "%s train base --data rows.jsonl --objective grpo --steps 4 --save-every 2 "
        "--num-generations 2 --batch-size 2 --max-completion-length 4 --reward 'program:sh "
        "judge.sh' "
        "--out run && rm ran",
        folder, folder, check_source("examples/storyteller"), check_built("cli/weft"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    o = verify_after(folder, "true", "");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run: the run names reward programs: ");
    o = verify_after(folder, "true", "--hashes");
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(shell_command(NULL, "test -e %s/ran", folder).code, 1);
    o = verify_after(folder, "true", "--programs");
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s%s", o.out, o.err);
    CHECK_CONTAINS(o.out, ": equal bytes\nverified\n");
    CHECK_EQ_INT(shell_command(NULL, "test -e %s/ran", folder).code, 0);
    expect_named(folder, "echo '# other' >> judge.sh", "true", "options", "judge.sh: recorded ");
}

/* A run that cannot be checked is refused. */
static void missing_files_are_reported(void)
{
    const char *folder = run_in("missing", "--keep 1");
    output o = verify_after(folder, "true", "");
    CHECK_EQ_INT(o.code, 0); /* a short run is repeated from its beginning */
    CHECK_CONTAINS(o.out, "updates    1 to 6 repeated in ");
    o = verify_after(folder, "true", "--from 4");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run: expected a checkpoint of the run (6), got 4\n");
    o = verify_after(folder, "true", "--to 5");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run: expected a checkpoint of the run (6), got 5\n");
    o = verify_after(folder, "true", "--from 6");
    CHECK_CONTAINS(o.err, "run: expected a checkpoint before update 6 to begin from, got 6\n");
    o = verify_after(folder,
                     "sed -i -E 's/(training_seconds..: )[0-9]\\.[0-9]{5}/\\19999.00/' "
                     "run/step-6/training.safetensors",
                     "");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run: repeating updates 1 to 6 takes about 167 minutes: ask for it by "
                          "`from` (0)\n");
    o = verify_after(folder, "true", "--from 0");
    CHECK_EQ_INT(o.code, 0);
    o = verify_after(folder, "sed -i -E 's/(.ranks..: )1,/\\12,/' run/step-6/training.safetensors",
                     "");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "verify: run: expected a run of one process, got one of 2\n");
    o = verify_after(folder, "rm -r run/step-6", "");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run: it has no checkpoint");
    o = verify_after(folder, "rm run/run.json", "");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "run: there is no training run in this folder\n");
    o = weft_command(NULL, "verify %s --tolerance 0", folder);
    CHECK_EQ_INT(o.code, 2);
}

CHECK_MAIN("cli_verify", CHECK_CASE(an_unchanged_run_is_verified),
           CHECK_CASE(changed_inputs_are_named), CHECK_CASE(other_inputs_are_named),
           CHECK_CASE(quick_and_missing_hashes_are_reported),
           CHECK_CASE(the_shortest_stretch_is_repeated), CHECK_CASE(changed_results_are_named),
           CHECK_CASE(another_build_is_named), CHECK_CASE(every_task_is_verified),
           CHECK_CASE(programs_run_only_on_request), CHECK_CASE(missing_files_are_reported))
