/* tests/cli/test_cli_config.c -- weft train --config: YAML and JSON mean the same as the options,
 * and errors in a file name its line. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

static const char *rows(void)
{
    return text_file("rows.jsonl",
                     "{\"prompt\": \"A fox\", \"completion\": \" slept in the wood.\"}\n"
                     "{\"prompt\": \"A cat\", \"completion\": \" sat by the fire.\"}\n");
}

/* False, and the case is skipped, where the build has no libyaml. */
static bool has_yaml(void)
{
    const output o = weft_command(NULL, "train --config %s", text_file("empty.yaml", ""));
    if (strstr(o.err, "libyaml") == NULL)
        return true;
    CHECK_EQ_INT(o.code, 1);
    check_skip("the build has no libyaml");
    return false;
}

/* config.json of a run with options, and of one with a file: the same bytes. */
static void a_file_means_what_its_options_mean(void)
{
    char a[1024], b[1024], c[1024], data[1024];
    snprintf(a, sizeof a, "%s", check_temporary("a"));
    snprintf(b, sizeof b, "%s", check_temporary("b"));
    snprintf(c, sizeof c, "%s", check_temporary("c"));
    snprintf(data, sizeof data, "%s", rows());
    char file[4096];
    const output o = weft_command(
        NULL,
        "train %s --data %s --data %s --mix 1,0.5 --steps 2 --lr 1e-3 --rank 4 --targets "
        "q_proj,v_proj --checkpoint --schedule cosine:0.1 --rank-pattern q_proj=2 --val-split 0.4 "
        "--sample-prompt 'A fox: \"yes\"' --sample-prompt 12 --out %s",
        model(), data, data, a);
    CHECK_EQ_INT(o.code, 0);
    snprintf(file, sizeof file,
             "# options of a run\nmodel: %s\ndata:\n  - %s\n  - '%s'\nmix: [1, 0.5]\n"
             "steps: 2\nlr: 1e-3   # as it is\nrank: 4\ntargets: [q_proj, v_proj]\n"
             "checkpoint: true\ncompile: false\nschedule: cosine:0.1\nclip: ~\n"
             "rank-pattern: [q_proj=2]\nval-split: 0.4\n"
             "sample-prompt: [\"A fox: \\\"yes\\\"\", 12]\n",
             model(), data, data);
    const char *same = "cmp %s/config.json %s/config.json";
    if (has_yaml()) {
        const output y =
            weft_command(NULL, "train --config %s --out %s", text_file("run.yaml", file), b);
        if (!CHECK_EQ_INT(y.code, 0))
            CHECK_FAIL("%s", y.err);
        CHECK_EQ_INT(shell_command(NULL, same, a, b).code, 0);
    }
    snprintf(file, sizeof file,
             "{\"model\": \"%s\", \"data\": [\"%s\", \"%s\"], \"mix\": [1, 0.5], \"steps\": "
             "2,\n\"lr\": 1e-3, \"r\\u0061nk\": \"4\", \"targets\": \"q_proj,v_proj\", "
             "\"checkpoint\": true, \"compile\": false, \"schedule\": \"cosine:0.1\", \"clip\": "
             "null, \"rank-pattern\": [\"q_proj=2\"], \"val-split\": 0.4, \"sample-prompt\": "
             "[\"A fox: \\\"yes\\\"\", \"12\"]}",
             model(), data, data);
    const output j =
        weft_command(NULL, "train --config %s --out %s", text_file("run.json", file), c);
    if (!CHECK_EQ_INT(j.code, 0))
        CHECK_FAIL("%s", j.err);
    CHECK_EQ_INT(shell_command(NULL, same, a, c).code, 0);
}

typedef struct bad_file {
    const char *text, *message;
} bad_file;

static void check_refused(const char *name, const bad_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const output o = weft_command(NULL, "train --config %s", text_file(name, files[i].text));
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, name);
        if (!CHECK_CONTAINS(o.err, files[i].message))
            CHECK_FAIL("%s", files[i].text);
    }
}

static void bad_json_is_refused_with_its_line(void)
{
    static const bad_file bad[] = {
        {"{\"lrr\": 1}", "bad.json:1: there is no option 'lrr'; is it lr?"},
        {"{\"seed\": 1,\n\n\"batch_size\": 1}", ":3: there is no option 'batch_size'; is it "},
        {"{\"config\": \"other.json\"}", ":1: there is no option 'config'"},
        {"{\n\"lr\": [1]}", ":2: lr: expected a number, got a list"},
        {"{\"lr\": {\"lr\": 1}}", ":1: lr: expected a number, got an object"},
        {"{\"lr\": true}", "lr: expected a number, got true or false"},
        {"{\"lr\": \"fast\"}", "lr: expected a number above 0, got 'fast'"},
        {"{\"lr\": -1}", "lr: expected a number above 0, got -1"},
        {"{\"rank\": 1.5}", "rank: expected a whole number from 1 to 65536, got 1.5"},
        {"{\"optimizer\": \"adamm\"}", "optimizer: expected one of adamw|"},
        {"{\"checkpoint\": 1}", "checkpoint: expected true or false, got 1"},
        {"{\"checkpoint\": \"true\"}", "checkpoint: expected true or false, got 'true'"},
        {"{\"targets\": 1}", "targets: expected a string, got 1"},
        {"{\"targets\": [null]}", "targets: expected a list of strings, got null"},
        {"{\"out\": [\"a\"]}", "out: expected a string, got a list"},
        {"{\"model\": 3}", "model: expected a string, got 3"},
        {"{\"data\": [3]}", "data: expected a string, got 3"},
        {"{\"data\": \"a\\u0000b\"}", "data: expected text without a NUL"},
        {"{\"lr\": 1, \"seed\": [1, {\"lr\": 2}],\n\"lr\": 2}",
         ":2: lr is given twice, before in line 1"},
        {"{\"l\\u0072\": 1,\n\"lr\": 2}", ":2: lr is given twice, before in line 1"},
        {"[1]", "expected a JSON object of options"},
        {"", "bad.json"},
        {"{\"lr\": ", "column 8"},
        {"{\"\\u001b[31m\": 1}", "there is no option '\\x1b[31m'"},
    };
    check_refused("bad.json", bad, sizeof bad / sizeof *bad);
    output o = weft_command(NULL, "train --config /nonexistent.json");
    check_one_line(&o, 1);
    /* null stands for an option that is absent, false for a flag that is not given. */
    o = weft_command(NULL, "train --config %s --dry-run",
                     text_file("null.json", "{\"lr\": null, \"checkpoint\": false}"));
    check_one_line(&o, 2);
    CHECK_CONTAINS(o.err, "MODEL is missing");
}

static void bad_yaml_is_refused_with_its_line(void)
{
    static const bad_file bad[] = {
        {"seed: 1\nlrr: 1\n", "bad.yaml:2: there is no option 'lrr'; is it lr?"},
        {"lr: 1\nseed: 2\nlr: 1\n", ":3: lr is given twice, before in line 1"},
        {"# one\n\nlr: fast\n", ":3: lr: expected a number above 0, got 'fast'"},
        {"lr: .inf\n", "lr: expected a number above 0, got '.inf'"},
        {"lr: 0x10p\n", "lr: expected a number"},
        {"rank: 0\n", "rank: expected a whole number from 1 to 65536, got 0"},
        {"rank: yes\n", "rank: expected a whole number from 1 to 65536, got 'yes'"},
        {"rank: true\n", "rank: expected a number, got true or false"},
        {"checkpoint: yes\n", "checkpoint: expected true or false, got 'yes'"},
        {"checkpoint: 'true'\n", "checkpoint: expected true or false, got 'true'"},
        {"lr:\n  - 1\n", "lr: expected a number, got a list"},
        {"lr:\n  a: 1\n", ":2: lr: expected a value or a list, got an object"},
        {"data: [[a]]\n", ":1: data: expected a list of texts and numbers"},
        {"? [a]\n: b\n", ":1: expected the name of an option"},
        {"- lr\n", ":1: expected options as 'name: value'"},
        {"lr\n", ":1: expected options as 'name: value'"},
        {"lr: 1\n---\nlr: 2\n", ":2: expected one document, got another one"},
        {"lr: &x 1\n", ":1: anchors and aliases are not supported"},
        {"lr: *x\n", ":1: anchors and aliases are not supported"},
        {"lr: !!float 1\n", ":1: tags are not supported"},
        {"lr: [1\n", "bad.yaml:2: column 1: "},
        {"\tlr: 1\n", "bad.yaml:1: column 1: "},
        {"lr: \"\xff\"\n", "bad.yaml:"},
        {"data: \"a\\0b\"\n", ":1: expected text without a NUL"},
        {"\"data\\0\": b\n", ":1: expected text without a NUL"},
    };
    if (has_yaml())
        check_refused("bad.yaml", bad, sizeof bad / sizeof *bad);
}

/* The file of --trace is written after the words of --config and of a resumed run are freed. */
static void a_trace_from_a_file_is_written(void)
{
    char file[2048], trace[1024], out[1024];
    snprintf(trace, sizeof trace, "%s", check_temporary("trace.json"));
    snprintf(out, sizeof out, "%s", check_temporary("traced"));
    snprintf(file, sizeof file,
             "{\"model\": \"%s\", \"data\": \"%s\", \"steps\": 1, \"trace\": \"%s\"}", model(),
             rows(), trace);
    output o =
        weft_command(NULL, "train --config %s --out %s", text_file("trace-it.json", file), out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(shell_command(NULL, "rm %s", trace).code, 0);
    o = weft_command(NULL, "train --resume --steps 2 --out %s", out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(shell_command(NULL, "rm %s", trace).code, 0);
}

CHECK_MAIN("cli_config", CHECK_CASE(a_file_means_what_its_options_mean),
           CHECK_CASE(a_trace_from_a_file_is_written),
           CHECK_CASE(bad_json_is_refused_with_its_line),
           CHECK_CASE(bad_yaml_is_refused_with_its_line))
