/* tests/cli/test_cli_embed.c -- weft train --task embed: adapters and whole models, their vectors,
 * resumed runs, and usage errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"

enum { ROWS = 24, MOST = 1024 };

static const char *pairs(void)
{
    static char text[8192];
    text[0] = '\0';
    for (int i = 0; i < ROWS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "{\"anchor\": \"question %d about %c\", \"positive\": \"answer %d: %c%c\"}\n", i,
                 'a' + i, i, 'a' + i, 'b' + i % 9);
    return text_file("pairs.jsonl", text);
}

static const char *model_of(const char *name)
{
    static char path[512];
    char relative[64];
    snprintf(relative, sizeof relative, "models/%s", name);
    const bool story = strcmp(name, "storyteller") == 0;
    snprintf(path, sizeof path, "%s",
             story ? check_source("examples/storyteller") : check_fixture(relative));
    return path;
}

/* Trains in a folder of this name, whose path is returned. */
static const char *train(const char *name, const char *base, const char *more)
{
    static char out[512];
    snprintf(out, sizeof out, "%s", check_temporary(name));
    const output o = weft_command(NULL,
                                  "train %s --task embed --data %s %s --batch-size 6 "
                                  "--lr 1e-2 --out %s %s",
                                  model_of(base), pairs(),
                                  strstr(more, "--epochs") ? "" : "--steps 4", out, more);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    return out;
}

/* The vector that weft embed prints. */
static int embed(const char *arguments, double out[MOST])
{
    const output o = weft_command(NULL, "embed %s 'question 3 about d'", arguments);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    int n = 0;
    for (char *at = o.out, *end; n < MOST; at = end, n++) {
        out[n] = strtod(at, &end);
        if (end == at)
            break;
    }
    return n;
}

static double distance(const double *a, const double *b, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

/* The loss falls, the vectors change, and a merged adapter gives the same ones. */
static void adapters_change_vectors(void)
{
    double before[MOST], adapted[MOST], merged[MOST];
    char line[2048], out[512];
    snprintf(out, sizeof out, "%s", train("adapter", "bert", "--json --micro-batch 2"));
    const int n = embed(model_of("bert"), before);
    snprintf(line, sizeof line, "%s --adapter %s/last", model_of("bert"), out);
    CHECK_EQ_INT(embed(line, adapted), n);
    CHECK(n == 32 && distance(before, adapted, n) > 1e-4);
    snprintf(line, sizeof line, "%s-merged", out);
    const output o = weft_command(NULL, "fuse %s %s/last %s", model_of("bert"), out, line);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_EQ_INT(embed(line, merged), n);
    CHECK_CLOSE(distance(adapted, merged, n), 0, 1e-6);
    CHECK_EQ_INT(shell_command(NULL,
                               "grep -q FEATURE_EXTRACTION %s/last/adapter_config.json && "
                               "test -e %s/last/1_Pooling/config.json",
                               out, out)
                     .code,
                 0);
}

/* The folder of a whole model says how its vectors are made. */
static void whole_models_have_their_modules(void)
{
    double before[MOST], after[MOST];
    char out[512], last[600];
    snprintf(out, sizeof out, "%s", train("whole", "bert", "--full"));
    snprintf(last, sizeof last, "%s/last", out);
    const int n = embed(model_of("bert"), before);
    CHECK_EQ_INT(embed(last, after), n);
    CHECK(distance(before, after, n) > 1e-3);
    CHECK_EQ_INT(
        shell_command(NULL, "cmp %s/modules.json %s/modules.json", model_of("bert"), last).code, 0);
    output o = shell_command(NULL, "grep -c . %s/metrics.jsonl", out);
    CHECK_EQ_INT(atoi(o.out), 4);
}

/* A decoder without modules.json: the pooling and the prompts of the options are saved. */
static void decoders_become_embedders(void)
{
    double last[MOST], own[MOST];
    char out[512], line[1024];
    snprintf(out, sizeof out, "%s",
             train("decoder", "storyteller",
                   "--full --pooling last --query-prompt 'query: ' --dimensions 32,16"));
    snprintf(line, sizeof line, "%s/last", out);
    const int n = embed(line, own);
    snprintf(line, sizeof line, "%s/last --pooling last", out);
    CHECK_EQ_INT(embed(line, last), n);
    CHECK(n > 0 && distance(own, last, n) == 0);
    snprintf(line, sizeof line, "%s/last --prompt query", out);
    CHECK_EQ_INT(embed(line, own), n);
    CHECK(distance(own, last, n) > 0);
}

static void resumed_runs_end_alike(void)
{
    char out[512];
    snprintf(out, sizeof out, "%s",
             train("resumed", "bert",
                   "--save-every 2 --dropout 0.2 --val-split 0.2 --seed 3 --micro-batch 3"));
    const output o =
        shell_command(NULL,
                      "cd %s && cp -r last first && rm -rf step-4 && %s train --out . --resume && "
                      "cmp first/adapter_model.safetensors last/adapter_model.safetensors",
                      out, check_built("cli/weft"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s%s", o.out, o.err);
}

static void a_dry_run_measures(void)
{
    const output o =
        weft_command(NULL, "train %s --task embed --data %s --batch-size 6 --dry-run --json",
                     model_of("bert"), pairs());
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_CONTAINS(o.out, "\"memory\"");
}

static void usage_errors_name_the_option(void)
{
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"--objective ranking", "this --objective is for --task embed"},
        {"--task embed --objective dpo", "this --objective is for --task generate"},
        {"--task embed --margin 3", "--margin is not an option of this --objective"},
        {"--task embed --dimensions 3,x", "--dimensions: expected positive numbers"},
        {"--task embed --dimensions 384,", "--dimensions: expected positive numbers"},
        {"--task embed --dimensions ,384", "--dimensions: expected positive numbers"},
        {"--query-prompt x", "--query-prompt is for --task embed"},
        {"--pooling last", "--pooling is for --task embed"},
        {"--task embed --train-on last", "--train-on is not for --task embed"},
        {"--task embed --pack", "--pack is not for --task embed"},
        {"--task embed --compile", "--compile is not for --task embed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o = weft_command(NULL, "train %s --data %s --out %s %s", model_of("bert"),
                                      pairs(), check_temporary("usage"), cases[i].arguments);
        CHECK_EQ_INT(o.code, 2);
        CHECK_CONTAINS(o.err, cases[i].message);
    }
    const output o =
        weft_command(NULL, "train %s --task embed --objective cosent --data %s --out %s",
                     model_of("bert"), pairs(), check_temporary("scores"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "objective cosent: data: missing column labels");
}

static void data_shows_examples(void)
{
    const output o =
        weft_command(NULL, "data %s %s --task embed --json", model_of("bert"), pairs());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"samples\": 48");
    CHECK_CONTAINS(o.out, "\"texts\": 2, \"scored\": false");
    const output shown = weft_command(NULL, "data %s %s --task embed --show 2 --query-prompt 'Q: '",
                                      model_of("bert"), pairs());
    CHECK_EQ_INT(shown.code, 0);
    CHECK_CONTAINS(shown.out, "examples   24 of 2 texts");
    CHECK_CONTAINS(shown.out, "sample 1, anchor");
    CHECK_CONTAINS(shown.out, "sample 2, positive");
    const output lines =
        weft_command(NULL, "data %s %s --task embed --jsonl", model_of("bert"), pairs());
    CHECK_EQ_INT(lines.code, 0);
    CHECK_CONTAINS(lines.out, "\"text\": \"anchor\", \"segments\": [{");
}

/* Training on the rows makes their passages easier to find. */
static void retrieval_is_measured(void)
{
    char out[512];
    snprintf(out, sizeof out, "%s", train("measured", "bert", "--epochs 12"));
    output o = weft_command(NULL, "eval %s --task retrieval --data %s --compare %s/last --json",
                            model_of("bert"), pairs(), out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    const char *change = strstr(o.out, "\"ndcg@10_change\": ");
    if (CHECK(change != NULL))
        CHECK(strtod(change + strlen("\"ndcg@10_change\": "), NULL) > 0.1);
    CHECK_CONTAINS(o.out, "\"recall@100\": 1");
    o = weft_command(NULL, "eval %s --task retrieval --data %s --rows 3", model_of("bert"),
                     pairs());
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "--rows is for --task exact and choices");
    o = weft_command(NULL, "eval %s --task retrieval --data %s -b 3", model_of("bert"), pairs());
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "--batch-size is not for --task retrieval");
}

/* A copy of the fixture bert in which a shell command was run. */
static const char *changed_model(const char *name, const char *change)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", check_temporary(name));
    const output o = shell_command(NULL, "cp -r %s %s && chmod -R u+w %s && cd %s && %s",
                                   model_of("bert"), path, path, path, change);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    return path;
}

/* Prompts whose tokens are not pooled are refused wherever a prompt is used. */
static void excluded_prompts_are_refused(void)
{
    static const struct {
        const char *command, *data, *more;
    } cases[] = {
        {"eval", "--task retrieval --data", ""},
        {"data", "", "--task embed"},
        {"train", "--task embed --dry-run --data", ""},
        {"train", "--task embed --dry-run --data", "--query-prompt '' --passage-prompt x"},
    };
    char own[512];
    snprintf(own, sizeof own, "%s",
             changed_model("excluded", "sed 's/{/{\"include_prompt\": false,/' -i "
                                       "1_Pooling/config.json"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o = weft_command(NULL, "%s %s %s %s %s", cases[i].command, own, cases[i].data,
                                      pairs(), cases[i].more);
        CHECK_EQ_INT(o.code, 1);
        CHECK_CONTAINS(o.err, "include_prompt: false with the prompt '");
    }
    const output o = weft_command(
        NULL, "train %s --task embed --data %s --query-prompt '' --dry-run", own, pairs());
    CHECK_EQ_INT(o.code, 0);
}

/* Texts are as long as the checkpoint says, or its positions, and those that are cut are counted.
 */
static void lengths_are_those_of_the_model(void)
{
    char text[2048] = "{\"anchor\": \"q\", \"positive\": \"", own[512];
    for (int i = 0; i < 100; i++)
        strcat(text, "one ");
    strcat(text, "\"}\n{\"anchor\": \"r\", \"positive\": \"two\"}\n");
    char path[512];
    snprintf(path, sizeof path, "%s", text_file("long.jsonl", text));
    output o = weft_command(NULL, "eval %s --task retrieval --data %s", model_of("bert"), path);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "1 of 4 texts are longer than 32 tokens");
    o = weft_command(NULL, "eval %s --task retrieval --data %s --window 8", model_of("bert"), path);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "1 of 4 texts are longer than 8 tokens");
    o = weft_command(NULL, "data %s %s --task embed", model_of("bert"), path);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "1 of 4 texts are longer than 32 tokens");
    snprintf(own, sizeof own, "%s",
             changed_model("unlimited",
                           "rm sentence_bert_config.json && sed "
                           "/model_max_length/d -i tokenizer_config.json && sed "
                           "'s/\"\\[MASK\\]\",/\"[MASK]\"/' -i tokenizer_config.json"));
    o = weft_command(NULL, "eval %s --task retrieval --data %s", own, path);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_CONTAINS(o.err, "1 of 4 texts are longer than 64 tokens");
    o = weft_command(NULL, "train %s --task embed --data %s --steps 1 --out %s", own, path,
                     check_temporary("positions"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_CONTAINS(o.err, "1 of 4 texts are longer than 64 tokens");
    o = weft_command(NULL, "train %s --task embed --data %s --steps 1 --length 65 --out %s", own,
                     path, check_temporary("beyond"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "--length: expected at most 64, the positions of");
}

/* --length is saved with the other files of the checkpoint, and --pooling with the checkpoint's own
 * value keeps its modules. */
static void a_given_length_is_saved(void)
{
    char out[512];
    snprintf(out, sizeof out, "%s", train("length", "bert", "--length 20 --pooling mean"));
    const output o = shell_command(
        NULL, "cmp %s/modules.json %s/last/modules.json && cat %s/last/sentence*.json",
        model_of("bert"), out, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"max_seq_length\": 20,");
    CHECK_CONTAINS(o.out, "\"do_lower_case\": false");
    snprintf(out, sizeof out, "%s", train("length-of-model", "bert", ""));
    CHECK_EQ_INT(shell_command(NULL, "cmp %s/sentence_bert_config.json %s/last/sentence*.json",
                               model_of("bert"), out)
                     .code,
                 0);
}

/* Models with different tokenizers and lengths have the same queries, including queries that differ
 * only in the part that is cut off. */
static void compared_models_share_their_queries(void)
{
    char text[8192] = "", more[128] = "";
    for (int i = 0; i < 12; i++)
        snprintf(more + strlen(more), sizeof more - strlen(more), "word%d ", i);
    for (int i = 0; i < ROWS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "{\"anchor\": \"%s%d\", \"positive\": \"answer %c\"}\n", i % 2 ? more : "", i,
                 'a' + i);
    char path[512], other[512];
    snprintf(path, sizeof path, "%s", text_file("queries.jsonl", text));
    snprintf(other, sizeof other, "%s", model_of("storyteller"));
    output o =
        weft_command(NULL, "eval %s --task retrieval --data %s --compare %s --window 24 --json",
                     model_of("bert"), path, other);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    int n = 0;
    for (const char *at = o.out; (at = strstr(at, "\"rows\": 24,")) != NULL; at++)
        n++;
    CHECK_EQ_INT(n, 2);
    CHECK(strstr(o.err, "tokenizer") == NULL);
}

/* The path of one of the fixture's files; the latest four are valid. */
static const char *mining(const char *name)
{
    static char path[4][512];
    static int i;
    char relative[128];
    snprintf(relative, sizeof relative, "train/mining/%s.jsonl", name);
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s", check_fixture(relative));
    return path[i];
}

static bool same_files(const char *a, const char *b)
{
    return shell_command(NULL, "cmp %s %s", a, b).code == 0;
}

static void negatives_are_mined(void)
{
    char out[512], other[512];
    snprintf(out, sizeof out, "%s", check_temporary("mined.jsonl"));
    snprintf(other, sizeof other, "%s", check_temporary("drawn.jsonl"));
    output o =
        weft_command(NULL, "data %s %s --mine-negatives %s", model_of("bert"), mining("bert"), out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "mined.jsonl: 87 rows\npairs      29 of 26 anchors, among 26 documents");
    CHECK(same_files(out, mining("bert-triplets")));
    o = weft_command(NULL, "data %s %s --mine-negatives %s", model_of("bert"), mining("bert"), out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "mined.jsonl: is there already; --force replaces it");
    o = weft_command(NULL,
                     "data %s %s --mine-negatives %s --force --json --corpus %s --range-min 2 "
                     "--range-max 20 --num-negatives 4 --output-format n-tuple --task embed",
                     model_of("bert"), mining("bert"), out, mining("bert-corpus"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"rows\": 29, \"anchors\": 26, \"pairs\": 29, \"documents\": 46, ");
    CHECK(same_files(out, mining("bert-tuples")));
    o = weft_command(NULL, "train %s --task embed --data %s --steps 2 --batch-size 4 --out %s",
                     model_of("bert"), out, check_temporary("on-negatives"));
    CHECK_EQ_INT(o.code, 0);
    static const char *const seeds[] = {"--seed 1 --output-scores", "--seed 1 --output-scores",
                                        "--seed 2 --output-scores"};
    for (int i = 0; i < 3; i++) {
        o = weft_command(NULL,
                         "data %s %s --mine-negatives %s --force --sampling random --range-max 20 "
                         "%s",
                         model_of("bert"), mining("bert"), i == 0 ? out : other, seeds[i]);
        CHECK_EQ_INT(o.code, 0);
        CHECK(i == 0 || same_files(out, other) == (i == 1));
    }
    o = shell_command(NULL, "head -1 %s", out);
    CHECK_CONTAINS(o.out, "river tree ship rain rain crow\", \"negative\": \"river moon");
    CHECK_CONTAINS(o.out, "\"cosines\": [0.84405");
}

static void bad_mining_is_refused(void)
{
    char out[512], files[4][512];
    snprintf(out, sizeof out, "%s", check_temporary("none.jsonl"));
    const char *const texts[] = {"{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": 1}\n",
                                 "{\"text\": \"a\"}\n", "{\"id\": \"a\"}\n",
                                 "{\"query\": \"a\", \"passage\": \"b\"}\n"};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d.jsonl", i);
        snprintf(files[i], sizeof files[i], "%s", text_file(name, texts[i]));
    }
    const struct {
        const char *data, *options, *part;
        int code;
    } wrong[] = {
        {files[0], "", "file-0.jsonl:1: expected texts without a score", 1},
        {files[1], "", "file-1.jsonl:1: expected at least two texts", 1},
        {files[3], "", "no negatives within the limits were found", 1},
        {mining("bert"), "--corpus file-none.jsonl", "file-none.jsonl", 1},
        {mining("bert"), "--range-max 2", "range_max - range_min of at least num_negatives, 3", 1},
        {mining("bert"), "--max-score -1.5", "no negatives within the limits were found", 1},
        {mining("bert"), "--num-negatives 0", "--num-negatives", 2},
        {mining("bert"), "--sampling most", "--sampling", 2},
        {mining("bert"), "--jsonl", "--mine-negatives writes rows: no --jsonl", 2},
        {mining("bert"), "--task classify", "--mine-negatives is for rows of --task embed", 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const output o = weft_command(NULL, "data %s %s --mine-negatives %s %s", model_of("bert"),
                                      wrong[i].data, out, wrong[i].options);
        CHECK_EQ_INT(o.code, wrong[i].code);
        CHECK_CONTAINS(o.err, wrong[i].part);
        CHECK(access(out, F_OK) != 0);
    }
    output o = weft_command(NULL, "data %s %s --mine-negatives %s --corpus %s", model_of("bert"),
                            mining("bert"), out, files[2]);
    CHECK_CONTAINS(o.err, "file-2.jsonl:1: \"text\" (or \"passage\", \"document\") is missing");
    o = weft_command(NULL, "data %s %s --mine-negatives %s --force", model_of("bert"), files[3],
                     files[3]);
    CHECK_CONTAINS(o.err, "it is read: choose another file to write");
    o = weft_command(NULL, "data %s %s --range-min 3", model_of("bert"), mining("bert"));
    check_one_line(&o, 2);
    CHECK_CONTAINS(o.err, "--range-min is for --mine-negatives");
    o = weft_command(NULL, "data %s %s --mine-negatives %s",
                     check_fixture("lora/labels-bert/initial"), mining("bert"), out);
    CHECK_EQ_INT(o.code, 1);
}

CHECK_MAIN("cli_embed", CHECK_CASE(adapters_change_vectors),
           CHECK_CASE(whole_models_have_their_modules), CHECK_CASE(decoders_become_embedders),
           CHECK_CASE(resumed_runs_end_alike), CHECK_CASE(a_dry_run_measures),
           CHECK_CASE(usage_errors_name_the_option), CHECK_CASE(data_shows_examples),
           CHECK_CASE(retrieval_is_measured), CHECK_CASE(compared_models_share_their_queries),
           CHECK_CASE(excluded_prompts_are_refused), CHECK_CASE(lengths_are_those_of_the_model),
           CHECK_CASE(a_given_length_is_saved), CHECK_CASE(negatives_are_mined),
           CHECK_CASE(bad_mining_is_refused))
