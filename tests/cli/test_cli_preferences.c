/* tests/cli/test_cli_preferences.c -- preference data from the command line: weft data --objective,
 * and the reference of a resumed run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/objective.h"

static const char *pairs(void)
{
    static const char *const words[] = {"fox", "hen", "wood", "field", "day", "night"};
    static char text[4000];
    text[0] = '\0';
    for (int i = 0; i < 12; i++)
        snprintf(text + strlen(text), 200,
                 "{\"prompt\": \"Tale %d is\", \"chosen\": \" of a %s.\", \"rejected\": \" of no "
                 "%s at all.\"}\n",
                 i, words[i % 6], words[i % 5]);
    return text_file("pairs.jsonl", text);
}

/* ---- weft data ------------------------------------------------------------------------------ */

static void data_shows_the_samples_of_an_objective(void)
{
    static const char *const objectives[] = {"dpo", "orpo", "simpo"};
    output o;
    for (int i = 0; i < 3; i++) {
        o = weft_command(NULL, "data %s storyteller --objective %s --show 2", pairs(),
                         objectives[i]);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.out, "rows       12 preference\n");
        CHECK_CONTAINS(o.out, "samples    24, ");
        CHECK_CONTAINS(o.out, "pairs      12\n");
        CHECK_CONTAINS(o.out, "\nsample 1, chosen, ");
        CHECK_CONTAINS(o.out, "\n  Tale 0 is\n+  of a fox.<|endoftext|>\n");
        CHECK_CONTAINS(o.out, "\nsample 2, rejected, ");
        CHECK_CONTAINS(o.out, "\n+  of no fox at all.<|endoftext|>\n");
    }
    o = weft_command(NULL, "data %s storyteller --objective kto --show 2", pairs());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "labels     12 desirable, 12 not\n");
    CHECK_CONTAINS(o.out, "\nsample 1, desirable, ");
    CHECK_CONTAINS(o.out, "\nsample 2, undesirable, ");
    o = weft_command(NULL, "data %s storyteller --objective kto --json", pairs());
    CHECK_CONTAINS(o.out, "\"desirable\": 12, ");
    o = weft_command(NULL, "data %s storyteller", pairs());
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "preference pair");
    o = weft_command(NULL, "data %s storyteller --objective dpo --train-on everything", pairs());
    check_one_line(&o, 2);
    o = weft_command(NULL, "data %s storyteller --objective dpo",
                     text_file("text.jsonl", "{\"text\": \"A fox.\"}\n"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "text.jsonl:1: expected a preference pair");
}

/* Lines of standard output that have both texts. */
static int count_lines(const char *text, const char *a, const char *b)
{
    int n = 0;
    for (const char *at = text; *at;) {
        const char *end = strchr(at, '\n');
        const size_t length = end ? (size_t)(end - at) : strlen(at);
        char line[4096];
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        n += strstr(line, a) && strstr(line, b);
        at += length + (end != NULL);
    }
    return n;
}

/* Both parts are printed, and groups stay in one. */
static void samples_name_their_part_and_their_side(void)
{
    output o =
        weft_command(NULL, "data %s storyteller --objective kto --jsonl --val-split 0.25", pairs());
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(count_lines(o.out, "\"part\": \"train\"", "\"desirable\": true"), 9);
    CHECK_EQ_INT(count_lines(o.out, "\"part\": \"train\"", "\"desirable\": false"), 9);
    CHECK_EQ_INT(count_lines(o.out, "\"part\": \"validation\"", "\"desirable\": true"), 3);
    CHECK_EQ_INT(count_lines(o.out, "\"part\": \"validation\"", "\"desirable\": false"), 3);
    /* Weights are written so that they are read as the same number. */
    o = weft_command("{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": "
                     "\"assistant\", \"content\": \"A fox.\", \"weight\": 0.123456789}]}\n",
                     "data - storyteller --format jsonl --jsonl");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, ", 0.123456791");
    CHECK_CONTAINS(o.out, "\"weight\": 0.123456791, ");
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void train_whole(const char *options, const char *out)
{
    const output o =
        weft_command(NULL, "train storyteller --data %s %s --out %s", pairs(), options, out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
}

/* A pair is one example, in counts of the data and of the validation split. */
static void pairs_are_counted_as_pairs(void)
{
    const char *out = check_temporary("counted");
    const output o = weft_command(
        NULL, "train storyteller --data %s --objective dpo --val-split 0.25 --steps 1 --out %s",
        pairs(), out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, ": 9 pairs, ");
    CHECK_CONTAINS(o.err, "\nval     3 pairs, ");
    CHECK_EQ_INT(shell_command(NULL,
                               "grep -q '\"pairs\": 9,' %s/run.json && grep -q "
                               "'\"validation_pairs\": 3,' %s/run.json",
                               out, out)
                     .code,
                 0);
}

/* The last loss of two updates from all pairs at once. */
static double loss_of(const char *objective, const char *options)
{
    double loss = 0;
    const output o = weft_command(NULL,
                                  "train storyteller --data %s --objective %s --batch-size 100 "
                                  "--steps 2 --lr 0.002 --json --overwrite --out %s %s",
                                  pairs(), objective, check_temporary("loss"), options);
    CHECK_EQ_INT(o.code, 0);
    const char *at = strstr(o.out, "\"loss\": ");
    if (CHECK(at != NULL))
        loss = atof(at + strlen("\"loss\": "));
    return loss;
}

/* Packed, and planned. */
static void packed_pairs_have_the_same_loss(void)
{
    for (int i = 1; weft_objectives[i]; i++) {
        const char *name = weft_objectives[i]->name;
        if (weft_objectives[i]->examples == WEFT_EXAMPLES_SCORED || weft_objectives[i]->compare ||
            weft_objectives[i] == &weft_objective_distill)
            continue; /* they cannot be packed, or need a teacher */
        const double padded = loss_of(name, "");
        CHECK(padded > 0);
        CHECK_RELATIVE(loss_of(name, "--pack --length 20"), padded, 1e-5);
        if (i < 2)
            CHECK_RELATIVE(loss_of(name, "--pack --length 20 --compile"), padded, 1e-5);
        for (int packed = 0; packed < 2; packed++) {
            const output o = weft_command(
                NULL, "train storyteller --data %s --objective %s --length 20 --dry-run %s",
                pairs(), name, packed ? "--pack" : "");
            if (!CHECK_EQ_INT(o.code, 0))
                CHECK_FAIL("%s", o.err);
            CHECK_CONTAINS(o.out, ", measured with the largest batch, ");
        }
    }
}

/* The adapter in best/ is loaded again and has the objective's loss that the run measured. */
static void the_best_adapter_is_measured_again(void)
{
    static const char *const objectives[] = {"dpo", "kto", "simpo"};
    for (int i = 0; i < 3; i++) {
        const output o = weft_command(
            NULL,
            "train storyteller --data %s --objective %s --val-split 0.25 --steps 4 --lr 0.002 "
            "--val-every 2 --overwrite --out %s",
            pairs(), objectives[i], check_temporary("reloaded"));
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.out, "/best was loaded again: its validation loss is the same, ");
    }
}

/* Begins the same run and kills it once it has a checkpoint. */
static void train_and_kill(const char *options, const char *out)
{
    shell_command(NULL,
                  "%s train storyteller --data %s %s --out %s & p=$!; i=0; until [ -e %s/last ] || "
                  "[ $i = 3000 ]; do sleep 0.01; i=$((i + 1)); done; kill -KILL $p; wait $p",
                  check_built("cli/weft"), pairs(), options, out, out);
    CHECK_EQ_INT(shell_command(NULL,
                               "test -e %s/reference.safetensors -a $(readlink %s/last) != step-30",
                               out, out)
                     .code,
                 0);
}

static void expect_same(const char *a, const char *b)
{
    static const char *const files[] = {"last/adapter_model.safetensors", "reference.safetensors",
                                        "reference-validation.safetensors"};
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(shell_command(NULL, "cmp %s/%s %s/%s", a, files[i], b, files[i]).code, 0);
    const output o = shell_command(NULL,
                                   "for d in %s %s; do sed 's/\"tokens_per_second.*peak_memory\": "
                                   "[0-9]*//; s/\"seconds.*peak_memory\": [0-9]*//' "
                                   "$d/metrics.jsonl | cksum; done | uniq | wc -l",
                                   a, b);
    CHECK_STR(o.out, "1\n");
}

/* A run keeps the reference of its starting weights: it is read from the folder, even if the
 * adapter that the run began with has changed since, or computed again. */
static void resumed_runs_have_the_reference_that_they_began_with(void)
{
    static const char *const objectives[] = {"dpo", "kto"};
    for (int i = 0; i < 2; i++) {
        char start[600], out[600], whole[600], options[1400], name[32];
        snprintf(start, sizeof start, "%s", check_temporary("start"));
        snprintf(name, sizeof name, "whole-%s", objectives[i]);
        snprintf(whole, sizeof whole, "%s", check_temporary(name));
        snprintf(name, sizeof name, "killed-%s", objectives[i]);
        snprintf(out, sizeof out, "%s", check_temporary(name));
        train_whole("--objective orpo --steps 2 --lr 0.01 --overwrite", start);
        snprintf(options, sizeof options,
                 "--objective %s --steps 30 --batch-size 2 --lr 0.002 --val-split 0.25 --val-every "
                 "5 --save-every 2 --seed 5 --init-adapter %s/last",
                 objectives[i], start);
        train_whole(options, whole);
        train_and_kill(options, out);
        if (i == 0) /* the same starting weights, but no column */
            shell_command(NULL, "rm %s/reference*.safetensors", out);
        else /* other starting weights */
            train_whole("--objective orpo --steps 3 --lr 0.02 --overwrite", start);
        const output o = weft_command(NULL, "train --out %s --resume", out);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        expect_same(whole, out);
    }
}

/* An option with the run's own value is accepted. */
static void own_values_are_accepted(void)
{
    static const struct {
        const char *objective, *same, *other, *says;
    } cases[] = {
        {"dpo", "--beta 0.1 --label-smoothing 0", "--beta 0.2", "--beta: the run in"},
        {"simpo", "--beta 2.0 --gamma 0.5", "--gamma 0.4", "has 0.5, and a resumed run keeps it"},
        {"kto", "--desirable-weight 1 --undesirable-weight 1", "--desirable-weight 2",
         "--desirable-weight: the run in"},
        {"orpo", "--beta 1e-1 --objective orpo", "--objective simpo", "--objective: the run in"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[600], options[200];
        snprintf(out, sizeof out, "%s", check_temporary(cases[i].objective));
        snprintf(options, sizeof options, "--objective %s --steps 2", cases[i].objective);
        train_whole(options, out);
        output o = weft_command(NULL, "train --out %s --resume --steps 3 %s", out, cases[i].other);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, cases[i].says);
        o = weft_command(NULL, "train --out %s --resume --steps 3 %s", out, cases[i].same);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
    }
}

CHECK_MAIN("cli_preferences", CHECK_CASE(data_shows_the_samples_of_an_objective),
           CHECK_CASE(samples_name_their_part_and_their_side),
           CHECK_CASE(resumed_runs_have_the_reference_that_they_began_with),
           CHECK_CASE(own_values_are_accepted), CHECK_CASE(pairs_are_counted_as_pairs),
           CHECK_CASE(packed_pairs_have_the_same_loss),
           CHECK_CASE(the_best_adapter_is_measured_again))
