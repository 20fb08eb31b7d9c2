/* tests/cli/test_cli_overwrite.c -- commands do not overwrite files that they did not make, and
 * never what they read. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/weft.h"

static const char story[] = "A long story of a small dog that ran and ran until it was home. It "
                            "slept, and in the morning it ran again, to the sea and back.";

/* Checks that a file still has the text that shell command `before` printed. */
static void expect_same(const char *path, const char *digest)
{
    const output o = shell_command(NULL, "cat %s/* %s 2>/dev/null | cksum", path, path);
    CHECK_STR(o.out, digest);
}

static void digest_of(const char *path, char *digest, size_t size)
{
    snprintf(digest, size, "%s",
             shell_command(NULL, "cat %s/* %s 2>/dev/null | cksum", path, path).out);
}

/* ---- weft train ----------------------------------------------------------------------------- */

static output train_into(const char *folder, const char *options)
{
    const char *data = text_file("story.txt", story);
    return weft_command(NULL, "train %s --data %s --length 16 --batch-size 2 --steps 1 --out %s %s",
                        model(), data, folder, options);
}

/* Each name that a run writes: if a folder without a run has it, the run is refused, whatever the
 * options are. */
static void folders_of_others_are_refused(void)
{
    static const char *const names[] = {"config.json",
                                        "run.json",
                                        "metrics.jsonl",
                                        "loss.svg",
                                        "report.html",
                                        "best/x",
                                        "last/x",
                                        "step-3/x",
                                        "weights-3/x",
                                        "last",
                                        "reference.safetensors",
                                        "reference-validation.safetensors",
                                        "best/README.md"};
    static const char *const options[] = {"", "--overwrite", "--resume"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[512], digest[64];
        snprintf(folder, sizeof folder, "%s", check_temporary("others"));
        CHECK_EQ_INT(shell_command(NULL,
                                   "rm -rf %s; mkdir -p $(dirname %s/%s); echo '{\"a\": 1}' >%s/%s",
                                   folder, folder, names[i], folder, names[i])
                         .code,
                     0);
        digest_of(folder, digest, sizeof digest);
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            const output o = train_into(folder, options[k]);
            check_one_line(&o, 1);
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(names[i], "/"), names[i]);
            CHECK_CONTAINS(o.err, name);
            CHECK_CONTAINS(o.err, "choose another folder");
        }
        expect_same(folder, digest);
        CHECK_STR(shell_command(NULL, "ls -A %s | wc -l", folder).out, "1\n");
    }
}

static void the_folder_of_the_model_is_refused(void)
{
    char folder[512], digest[64];
    snprintf(folder, sizeof folder, "%s", check_temporary("model"));
    CHECK_EQ_INT(shell_command(NULL, "cp -rL %s %s", model(), folder).code, 0);
    digest_of(folder, digest, sizeof digest);
    const char *data = text_file("story.txt", story);
    const output o = shell_command(NULL, "cd %s && %s train . --data %s --steps 1 --out .", folder,
                                   check_built("cli/weft"), data);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "config.json");
    expect_same(folder, digest);
}

/* A run's own folder is recognized, also without run.json; other files in it stay. */
static void a_run_replaces_only_its_own_files(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("own"));
    CHECK_EQ_INT(
        shell_command(NULL, "mkdir -p %s/step-x; echo note >%s/notes.txt", folder, folder).code, 0);
    CHECK_EQ_INT(train_into(folder, "").code, 0);
    CHECK_EQ_INT(
        shell_command(NULL, "mkdir %s/step-77; echo x >%s/step-77/mine", folder, folder).code, 0);
    CHECK_EQ_INT(train_into(folder, "").code, 1);
    CHECK_EQ_INT(train_into(folder, "--overwrite").code, 0);
    CHECK_EQ_INT(shell_command(NULL, "rm %s/run.json", folder).code, 0);
    CHECK_EQ_INT(train_into(folder, "--overwrite").code, 0);
    CHECK_EQ_INT(shell_command(NULL,
                               "cd %s && grep -q note notes.txt && test -e step-77/mine && "
                               "test -d step-x",
                               folder)
                     .code,
                 0);
    const output o = weft_command(NULL,
                                  "train %s --data %s --length 16 --steps 1 --out %s --overwrite "
                                  "--init-adapter %s/last",
                                  model(), text_file("story.txt", story), folder, folder);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "/last, which is read");
    CHECK_EQ_INT(shell_command(NULL, "test -e %s/last/adapter_config.json", folder).code, 0);
}

/* ---- the other writers ---------------------------------------------------------------------- */

/* Files for the commands below in one folder: an adapter (ad), ids, texts and rows. */
static const char *work_folder(void)
{
    static char folder[512];
    if (folder[0])
        return folder;
    snprintf(folder, sizeof folder, "%s", check_temporary("work"));
    CHECK_EQ_INT(
        shell_command(NULL, "mkdir -p %s && cp -rL %s %s/model", folder, model(), folder).code, 0);
    char run[600];
    snprintf(run, sizeof run, "%s/run", folder);
    CHECK_EQ_INT(train_into(run, "").code, 0);
    CHECK_EQ_INT(
        shell_command(NULL,
                      "cd %s && cp -rL run/last ad && printf 'good\\nbad\\n' >texts.txt && "
                      "echo '{\"prompt\": \"a\", \"answer\": \"b\"}' >rows.jsonl",
                      folder)
            .code,
        0);
    char path[600];
    snprintf(path, sizeof path, "%s/ids.safetensors", folder);
    weft_scope_open();
    weft_array *ids = weft_zeros(WEFT_DIMS(1, 2), WEFT_INT32);
    CHECK_OK(weft_safetensors_save(path, &(const char *){"input_ids"}, &ids, 1, NULL, 0));
    weft_scope_close(NULL);
    return folder;
}

/* Commands in the folder that write `out`, and what they read. */
static const struct {
    const char *command; /* with OUT for the file */
    const char *input;   /* may not be OUT, even with --force */
} writers[] = {
    {"logits model --ids ids.safetensors --out OUT", "ids.safetensors"},
    {"inspect model -f texts.txt --out OUT", "texts.txt"},
    {"inspect model -f texts.txt --svg OUT", "texts.txt"},
    {"classify model -f texts.txt --logits OUT", "texts.txt"},
    {"eval model --task exact --data rows.jsonl -n 2 --details OUT", "rows.jsonl"},
    {"convert model OUT", "model"},
    {"convert model OUT", "model/model.safetensors"},
    {"fuse model ad OUT", "model"},
    {"fuse model ad OUT", "ad"},
    {"fuse model run/last OUT", "run"},
    {"convert ad OUT --adapter-format mlx --base model", "ad"},
    {"inspect model -a ad --show adapter --svg OUT", "ad"},
    {"inspect model -a ad --show adapter --svg OUT", "model"},
};

static output run_writer(size_t i, const char *out, const char *option)
{
    char command[512];
    const char *at = strstr(writers[i].command, "OUT");
    snprintf(command, sizeof command, "%.*s%s%s", (int)(at - writers[i].command),
             writers[i].command, out, at + 3);
    return shell_command(NULL, "cd %s && %s %s %s", work_folder(), check_built("cli/weft"), command,
                         option);
}

static void other_files_need_force(void)
{
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        char digest[64], path[600];
        CHECK_EQ_INT(shell_command(NULL, "cd %s; rm -rf mine; echo mine >mine", work_folder()).code,
                     0);
        snprintf(path, sizeof path, "%s/mine", work_folder());
        digest_of(path, digest, sizeof digest);
        output o = run_writer(i, "mine", "");
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "--force replaces it");
        expect_same(path, digest);
    }
}

static void inputs_are_never_overwritten(void)
{
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        char digest[64], path[600];
        snprintf(path, sizeof path, "%s/%s", work_folder(), writers[i].input);
        digest_of(path, digest, sizeof digest);
        output o = run_writer(i, writers[i].input, "--force");
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "read: choose another");
        expect_same(path, digest);
        /* the same place under another name */
        CHECK_EQ_INT(shell_command(NULL, "cd %s; rm -rf link; ln -s %s link", work_folder(),
                                   writers[i].input)
                         .code,
                     0);
        o = run_writer(i, "link", "--force");
        check_one_line(&o, 1);
        expect_same(path, digest);
    }
}

/* --force replaces the output. */
static void force_replaces(void)
{
    for (size_t i = 0; i < 5; i++) {
        CHECK_EQ_INT(shell_command(NULL, "cd %s; rm -rf mine; echo mine >mine", work_folder()).code,
                     0);
        const output o = run_writer(i, "mine", "--force");
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", writers[i].command, o.err);
        CHECK_EQ_INT(shell_command(NULL, "cd %s; grep -q '^mine$' mine", work_folder()).code, 1);
        CHECK_EQ_INT(run_writer(i, "mine", "").code, 0); /* its own file */
    }
}

static void a_run_is_no_model_to_replace(void)
{
    const output o = shell_command(NULL, "cd %s && %s convert model run --force", work_folder(),
                                   check_built("cli/weft"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "only the folders of models are replaced");
    CHECK_EQ_INT(shell_command(NULL, "test -e %s/run/run.json", work_folder()).code, 0);
}

static void traces_chats_and_reports(void)
{
    const char *mine = text_file("mine.json", "[{\"instruction\": \"mine\"}]");
    char digest[64];
    digest_of(mine, digest, sizeof digest);
    output o = weft_command(NULL, "generate %s -p Once -n 2 --trace %s", model(), mine);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--trace replaces only traces");
    expect_same(mine, digest);
    for (int i = 0; i < 2; i++) /* its own trace is replaced */
        CHECK_EQ_INT(weft_command(NULL, "generate %s -p Once -n 2 --trace %s", model(),
                                  check_temporary("trace.json"))
                         .code,
                     0);
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("report"));
    CHECK_EQ_INT(shell_command(NULL,
                               "mkdir -p %s; cd %s; echo '{}' >run.json; echo mine >report.html; "
                               "touch metrics.jsonl",
                               folder, folder)
                     .code,
                 0);
    o = weft_command(NULL, "report %s", folder);
    CHECK_EQ_INT(o.code, 1);
    CHECK_STR(shell_command(NULL, "cat %s/report.html", folder).out, "mine\n");
}

CHECK_MAIN("cli_overwrite", CHECK_CASE(folders_of_others_are_refused),
           CHECK_CASE(the_folder_of_the_model_is_refused),
           CHECK_CASE(a_run_replaces_only_its_own_files), CHECK_CASE(other_files_need_force),
           CHECK_CASE(inputs_are_never_overwritten), CHECK_CASE(force_replaces),
           CHECK_CASE(a_run_is_no_model_to_replace), CHECK_CASE(traces_chats_and_reports))
