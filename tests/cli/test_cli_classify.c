/* tests/cli/test_cli_classify.c -- weft train --task classify, and weft classify with the resulting
 * adapter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/cli/runs.h"
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

static void a_classifier_is_trained_and_used(void)
{
    if (!train())
        return;
    check_in_file(run, "best/adapter_config.json", "\"task_type\": \"SEQ_CLS\"");
    check_in_file(run, "best/adapter_config.json", "\"score\"");
    check_in_file(run, "best/config.json", "\"id2label\"");
    check_in_file(run, "metrics.jsonl", "\"validation_accuracy\": 1");
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

/* A number behind a key of JSON text; NaN: it is not there. */
static double number(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return CHECK(at != NULL) ? atof(at + strlen(key)) : (double)NAN;
}

/* The loss and the accuracy are those of the last validation; the base's accuracy is the share of a
 * label: three of six rows. */
static void a_classifier_is_measured(void)
{
    if (!train())
        return;
    output o = weft_command(NULL, "eval storyteller --data %s --compare %s/last --json", data, run);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"name\": \"label frequencies\", \"loss\": 0.69314718");
    CHECK_CONTAINS(o.out, "\"accuracy\": 0.5, ");
    CHECK_CONTAINS(o.out, "\"rows\": 6");
    const char *second = strstr(o.out, "/last\"");
    char path[700], *metrics;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    if (CHECK(second != NULL) && CHECK_OK(weft_file_read(path, 0, &metrics, NULL))) {
        const char *accuracy = metrics, *loss = metrics;
        for (const char *at = metrics; (at = strstr(at, "\"validation_")) != NULL; at++) {
            loss = strncmp(at, "\"validation_loss", 16) == 0 ? at : loss;
            accuracy = strncmp(at, "\"validation_accuracy", 20) == 0 ? at : accuracy;
        }
        CHECK_CLOSE(number(second, "\"accuracy\": "), number(accuracy, "_accuracy\": "), 0);
        CHECK_RELATIVE(number(second, "\"loss\": "), number(loss, "_loss\": "), 1e-6);
        weft_free(metrics);
    }
    o = weft_command(NULL, "eval storyteller --data %s --adapter %s/last", data, run);
    CHECK_CONTAINS(o.out, "accuracy 100.00% +/- 0.00, over 6 rows");
    o = weft_command(NULL, "eval storyteller --data %s --compare %s/last", data, run);
    CHECK_CONTAINS(o.out, "label frequencies");
    CHECK_CONTAINS(o.out, "\n6 rows\n");
    o = weft_command(NULL, "eval storyteller --adapter %s/last --task exact --data %s", run,
                     text_file("q.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "classifiers have a loss and an accuracy: --task loss");
}

/* Labels, lengths and a sample, of the data and of the plan. */
static void data_shows_labels(void)
{
    output o =
        weft_command(NULL, "data %s storyteller --task classify", text_file("rows.jsonl", rows));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "labels     2\n   animals        3 #####");
    CHECK_CONTAINS(o.out, "     court        3 #####");
    CHECK_CONTAINS(o.out, "lengths    median ");
    CHECK_CONTAINS(o.out, "\n  The king met the queen.\n+ court\n");
    o = weft_command(NULL,
                     "data %s storyteller --task classify --labels court,other,animals --json",
                     text_file("rows.jsonl", rows));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"labels\": [{\"label\": \"court\", \"samples\": 3}, {\"label\": "
                          "\"other\", \"samples\": 0}, {\"label\": \"animals\"");
    o = weft_command(NULL, "data %s storyteller --task classify --jsonl",
                     text_file("rows.jsonl", rows));
    CHECK_CONTAINS(o.out, "\"label\": \"court\", \"segments\": [");
    CHECK_CONTAINS(o.out, "\"weight\": 1, \"text\": \"animals\"}]}");
    const char *file = text_file("rows.jsonl", rows);
    o = weft_command(NULL, "train storyteller --task classify --data %s --dry-run", file);
    CHECK_CONTAINS(o.out, "\nlabels     2\n   animals        3 #####");
    CHECK_CONTAINS(o.out, "lengths    median ");
    CHECK_CONTAINS(o.out, "\n+ court\n");
    o = weft_command(NULL, "train storyteller --task classify --data %s --dry-run --json", file);
    CHECK_CONTAINS(o.out, "\"labels\": [{\"label\": \"animals\", \"samples\": 3}, ");
    CHECK_CONTAINS(o.out, "\"text\": \"court\"}], \"device\": \"cpu\", ");
    o = weft_command(NULL, "data %s storyteller --labels a,b", file);
    check_one_line(&o, 2);
    o = weft_command(NULL, "data %s storyteller --task classify --objective dpo", file);
    check_one_line(&o, 2);
}

/* The fused model has the head, and the adapter's probabilities. */
static void a_classifier_is_fused(void)
{
    char fused[512];
    snprintf(fused, sizeof fused, "%s", check_temporary("fused"));
    if (!train())
        return;
    output o = weft_command(NULL, "fuse storyteller %s/last %s --type f32", run, fused);
    CHECK_EQ_INT(o.code, 0);
    check_in_file(fused, "config.json", "Qwen3ForSequenceClassification");
    check_in_file(fused, "README.md", "pipeline_tag: text-classification");
    o = weft_command(NULL, "eval storyteller --data %s --adapter %s/last --json --dtype float32",
                     data, run);
    const double loss = number(o.out, "\"loss\": ");
    o = weft_command(NULL, "eval %s --data %s --json --dtype float32", fused, data);
    CHECK_EQ_INT(o.code, 0);
    CHECK_RELATIVE(number(o.out, "\"loss\": "), loss, 1e-3);
}

static void bad_options_are_refused(void)
{
    if (!train())
        return;
    static const struct {
        const char *command, *part;
        int code;
    } uses[] = {
        {"generate storyteller --adapter %s/best -p x", "a classifier of 2 labels", 1},
        {"eval storyteller --adapter %s/best --data rows --context 8", "without --context", 1},
        {"fuse storyteller %s/best none --quantize 4", "of a classifier", 1},
        {"fuse storyteller %s/best none --data rows", "which weft eval measures", 1},
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

static bool train_whole(const char *out, const char *file)
{
    const output o = weft_command(NULL,
                                  "train storyteller --task classify --full --data %s --labels "
                                  "court,animals --steps 8 -b 3 --lr 5e-4 --out %s",
                                  file, out);
    return CHECK_EQ_INT(o.code, 0);
}

/* A classifier that was trained whole is a model: its labels are its own. */
static void a_classifier_is_trained_further(void)
{
    char base[512], next[512];
    snprintf(base, sizeof base, "%s", check_temporary("base"));
    snprintf(next, sizeof next, "%s", check_temporary("trained-on"));
    snprintf(data, sizeof data, "%s", text_file("rows.jsonl", rows));
    if (!train_whole(base, data))
        return;
    check_in_file(base, "last/config.json", "single_label_classification");
    output o = weft_command(NULL, "eval %s/last --data %s --json", base, data);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"rows\": 6");
    CHECK(number(o.out, "\"loss\": ") < 0.69);
    o = weft_command(
        NULL,
        "train %s/last --task classify --data %s --quantize 4 --steps 8 --lr 2e-3 -b 3 "
        "--out %s",
        base, data, next);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "labels  court, animals");
    check_in_file(next, "last/adapter_config.json", "\"score\"");
    o = weft_command(NULL, "eval %s/last --data %s --compare %s/last --json", base, data, next);
    CHECK_EQ_INT(o.code, 0);
    const char *second = strstr(o.out, "trained-on/last\"");
    if (CHECK(second != NULL))
        CHECK(number(second, "\"loss\": ") < number(o.out, "\"loss\": "));
    o = weft_command(NULL, "data %s %s/last --task classify --json", data, base);
    CHECK_CONTAINS(o.out, "\"labels\": [{\"label\": \"court\", \"samples\": 3}, {\"label\": ");
}

/* Runs a command with names in capitals replaced by the paths of these files. */
static output command_with(const char *command, const char *const files[][2], int n)
{
    char text[2000];
    size_t used = 0;
    for (const char *at = command; *at != '\0' && used < sizeof text - 1; at++) {
        int k = 0;
        while (k < n && strncmp(at, files[k][0], strlen(files[k][0])) != 0)
            k++;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 k < n ? files[k][1] : (char[]){*at, '\0'});
        at += k < n ? strlen(files[k][0]) - 1 : 0;
    }
    return weft_command(NULL, "%s", text);
}

static void other_uses_of_a_classifier_are_refused(void)
{
    char base[512], far[512], paths[4][512];
    static const char *const texts[] = {
        rows, "{\"text\": \"a\", \"label\": \"other\"}\n",
        "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n",
        "{\"prompt\": \"a\", \"completion\": \"b\"}\n"};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "use-%d.jsonl", i);
        snprintf(paths[i], sizeof paths[i], "%s", text_file(name, texts[i]));
    }
    snprintf(base, sizeof base, "%s", check_temporary("whole"));
    snprintf(far, sizeof far, "%s", check_temporary("far"));
    if (!train_whole(base, paths[0]))
        return;
    const char *const files[][2] = {{"BASE", base},      {"FAR", far},        {"ROWS", paths[0]},
                                    {"OTHER", paths[1]}, {"PAIRS", paths[2]}, {"TEXTS", paths[3]}};
    static const struct {
        const char *command, *part;
    } wrong[] = {
        {"train BASE/last --data ROWS --out FAR", "expected --task classify"},
        {"train BASE/last --task classify --labels a,b --data ROWS --out FAR",
         "expected its 2 labels, with 'court', got 'a,b'"},
        {"train BASE/last --task classify --data OTHER --out FAR",
         "label: expected one of the labels court, animals, got 'other'"},
        {"train BASE/last --objective dpo --data PAIRS --out FAR", "expected --task classify"},
        {"convert BASE/last FAR --bits 4",
         "a classifier as a quantized model in MLX's format is unsupported"},
        {"generate BASE/last -p x", "a classifier of 2 labels"},
        {"train storyteller --objective distill --teacher BASE/last --data TEXTS --out FAR",
         "teacher: the model is a classifier of 2 labels"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const output o = command_with(wrong[i].command, files, 6);
        CHECK_EQ_INT(o.code, 1);
        CHECK_CONTAINS(o.err, wrong[i].part);
    }
}

/* An encoder with 64 positions. */
static void texts_fit_the_positions(void)
{
    char text[2000] = "", long_rows[4400];
    const char *model = check_fixture("models/bert");
    for (int i = 0; i < 100; i++)
        strcat(text, "king and ");
    snprintf(long_rows, sizeof long_rows,
             "{\"text\": \"%s\", \"label\": \"a\"}\n{\"text\": \"fox\", \"label\": \"b\"}\n", text);
    char file[512], out[512];
    snprintf(file, sizeof file, "%s", text_file("long.jsonl", long_rows));
    snprintf(out, sizeof out, "%s", check_temporary("positions"));
    output o = weft_command(NULL, "train %s --task classify --data %s --length 66 --out %s", model,
                            text_file("rows.jsonl", rows), out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--length: expected at most 65, the positions of");
    CHECK_CONTAINS(o.err, "and the label, got 66");
    o = weft_command(NULL, "train %s --task classify --data %s --long keep-head --steps 2 --out %s",
                     model, file, out);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "eval %s --adapter %s/last --data %s --long keep-head", model, out,
                     file);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "over 2 rows");
    o = weft_command(NULL, "eval %s --adapter %s/last --data %s --window 65", model, out, file);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--window: expected at most 64, the positions of");
}

static void devices_give_the_same_losses(void)
{
    char options[700];
    snprintf(options, sizeof options, "--task classify --data %s -b 3",
             text_file("rows.jsonl", rows));
    check_devices_agree(options);
}

CHECK_MAIN("cli_classify", CHECK_CASE(a_classifier_is_trained_and_used),
           CHECK_CASE(a_classifier_is_measured), CHECK_CASE(data_shows_labels),
           CHECK_CASE(a_classifier_is_fused), CHECK_CASE(bad_options_are_refused),
           CHECK_CASE(a_classifier_is_trained_further),
           CHECK_CASE(other_uses_of_a_classifier_are_refused), CHECK_CASE(texts_fit_the_positions),
           CHECK_CASE(devices_give_the_same_losses))
