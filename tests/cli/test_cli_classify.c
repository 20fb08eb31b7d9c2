/* tests/cli/test_cli_classify.c -- weft train --task classify, and weft classify with what it made.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"

static const char rows[] =
    "{\"text\": \"The king met the queen.\", \"label\": \"court\"}\n"
    "{\"text\": \"The wolf met the fox.\", \"label\": \"animals\"}\n"
    "{\"text\": \"The prince met the king.\", \"label\": \"court\"}\n"
    "{\"text\": \"The hen met the wolf and the bear.\", \"label\": \"animals\"}\n"
    "{\"text\": \"The queen had a crown.\", \"label\": \"court\"}\n"
    "{\"text\": \"The bear ate the hen.\", \"label\": \"animals\"}\n";

static char run[512], data[512];

static bool train(void)
{
    static bool done;
    snprintf(run, sizeof run, "%s", check_temporary("run"));
    snprintf(data, sizeof data, "%s", text_file("rows.jsonl", rows));
    if (done)
        return true;
    const output o = weft_command(NULL,
                                  "train storyteller --task classify --data %s --val-data %s "
                                  "--steps 12 --lr 2e-3 -b 3 --out %s --overwrite",
                                  data, data, run);
    CHECK_CONTAINS(o.err, "labels  animals, court");
    CHECK_CONTAINS(o.err, "accuracy ");
    CHECK_CONTAINS(o.out, "weft classify storyteller --adapter");
    return done = CHECK_EQ_INT(o.code, 0);
}

static void expect_in_file(const char *name, const char *part)
{
    char path[700], *text;
    snprintf(path, sizeof path, "%s/%s", run, name);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        CHECK_CONTAINS(text, part);
    weft_free(text);
}

static void a_classifier_is_trained_and_used(void)
{
    if (!train())
        return;
    expect_in_file("best/adapter_config.json", "\"task_type\": \"SEQ_CLS\"");
    expect_in_file("best/adapter_config.json", "\"score\"");
    expect_in_file("best/config.json", "\"id2label\"");
    expect_in_file("metrics.jsonl", "\"validation_accuracy\": 1");
    output o = weft_command(NULL,
                            "classify storyteller --adapter %s/best \"The queen met the king.\" "
                            "\"The fox ate the hen.\" --json",
                            run);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "king.\", \"label\": \"court\"");
    CHECK_CONTAINS(o.out, "hen.\", \"label\": \"animals\"");
    o = weft_command(NULL, "classify storyteller --adapter %s/best \"The king.\" --top 2", run);
    CHECK_CONTAINS(o.out, "court\t");
    CHECK_CONTAINS(o.out, "\tanimals\t");
    o = weft_command(NULL, "train --out %s --resume --steps 14", run);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train --out %s --resume --labels court,animals", run);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--labels: the run in");
    o = weft_command(NULL,
                     "train storyteller --task classify --data %s --init-adapter %s/best --pack "
                     "--steps 1 --out %s --overwrite",
                     data, run, check_temporary("next"));
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(
        NULL, "train storyteller --task classify --labels court,animals --data %s --dry-run", data);
    CHECK_EQ_INT(o.code, 0);
}

static void what_is_refused(void)
{
    if (!train())
        return;
    static const struct {
        const char *command, *part;
        int code;
    } uses[] = {
        {"generate storyteller --adapter %s/best -p x", "a classifier of 2 labels", 1},
        {"eval storyteller --adapter %s/best --data rows", "of a classifier", 1},
        {"fuse storyteller %s/best none", "of a classifier", 1},
        {"classify storyteller --adapter %s/best x --labels a,b", "labels of its own", 1},
        {"convert %s/best x.gguf --adapter-format gguf", "trained whole", 1},
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char command[1200];
        const char *at = strstr(uses[i].command, "%s");
        snprintf(command, sizeof command, "%.*s%s%s", (int)(at - uses[i].command), uses[i].command,
                 run, at + 2);
        output o = weft_command(NULL, "%s", command);
        CHECK_EQ_INT(o.code, uses[i].code);
        CHECK_CONTAINS(o.err, uses[i].part);
    }
    static const struct {
        const char *options, *rows, *part;
        int code;
    } wrong[] = {
        {"", "{\"text\": \"a\", \"label\": \"x\"}\n", "expected at least two labels, got 1: 'x'",
         1},
        {"", "{\"text\": \"a\"}\n", "there is no \"label\"", 1},
        {"--labels a,b", "{\"text\": \"a\", \"label\": \"x\"}\n", "one of the labels a, b", 1},
        {"--labels a", "{\"text\": \"a\", \"label\": \"a\"}\n", "expected at least two, got 1", 1},
        {"--labels a,b,a", "{\"text\": \"a\", \"label\": \"a\"}\n", "'a' is given twice", 1},
        {"--objective dpo", "{\"text\": \"a\"}\n", "--objective is for --task generate", 2},
        {"--train-on last", "{\"text\": \"a\"}\n", "--train-on is for --task generate", 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        output o = weft_command(NULL, "train storyteller --task classify --data %s --out %s %s",
                                text_file("wrong.jsonl", wrong[i].rows), check_temporary("none"),
                                wrong[i].options);
        check_one_line(&o, wrong[i].code);
        CHECK_CONTAINS(o.err, wrong[i].part);
    }
    output o = weft_command(NULL, "train storyteller --labels a,b --data %s", data);
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "--labels is for --task classify");
    o = weft_command(
        NULL, "train storyteller --task classify --data %s --val-data %s --steps 1 --out %s", data,
        text_file("v.jsonl", "{\"text\": \"a\", \"label\": \"other\"}\n"), check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err,
                   "v.jsonl:1: label: expected one of the labels animals, court, got 'other'");
}

CHECK_MAIN("cli_classify", CHECK_CASE(a_classifier_is_trained_and_used),
           CHECK_CASE(what_is_refused))
