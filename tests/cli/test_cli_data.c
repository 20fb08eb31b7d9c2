/* tests/cli/test_cli_data.c -- weft data, and the options of data that commands share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"

static const char rows[] = "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n"
                           "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n"
                           "{\"text\": \"So it was.\"}\n";

static void the_summary_shows_kinds_lengths_and_samples(void)
{
    const char *path = text_file("rows.jsonl", rows);
    const output o = weft_command(NULL, "data %s storyteller --show 2", path);
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.err, "");
    CHECK_CONTAINS(o.out, "files      1 jsonl\nrows       2 completion\nrows       1 text\n");
    CHECK_CONTAINS(o.out, "samples    3, ");
    CHECK_CONTAINS(o.out, "duplicates 1\n");
    CHECK_CONTAINS(o.out, "\n  Who?\n+  A fox.<|endoftext|>\n");
    CHECK_CONTAINS(o.out, "sample 2, ");
    CHECK(strstr(o.out, "sample 3, ") == NULL);
    CHECK(strchr(o.out, '\033') == NULL);
}

/* mlx-lm's layout: train.jsonl is trained, valid.jsonl validates, and test.jsonl is evaluated. */
static void folders_in_the_layout_of_mlx_lm(void)
{
    static const char *const names[] = {"train", "valid", "test"};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("layout"));
    CHECK_EQ_INT(shell_command(NULL, "mkdir -p %s", folder).code, 0);
    for (int i = 0; i < 3; i++) {
        char path[600], text[200] = "";
        snprintf(path, sizeof path, "%s/%s.jsonl", folder, names[i]);
        for (int k = 0; k <= i; k++)
            snprintf(text + strlen(text), 60, "{\"text\": \"%s, row %d.\"}\n", names[i], k);
        CHECK_OK(weft_file_write(path, text, strlen(text)));
    }
    output o = weft_command(NULL, "data %s storyteller", folder);
    CHECK_CONTAINS(o.out, "rows       1 text\n");
    o = weft_command(NULL, "train storyteller --data %s --steps 1 --dry-run --json", folder);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train storyteller --data %s --steps 1 --out %s/run", folder, folder);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "val     2 samples");
    CHECK(strstr(o.err, "held out") == NULL);
    o = weft_command(NULL, "train storyteller --data %s --steps 1 --out %s/none --val-split 0",
                     folder, folder);
    CHECK_EQ_INT(o.code, 0);
    CHECK(strstr(o.err, "val     ") == NULL);
    char loss[2][40];
    for (int i = 0; i < 2; i++) {
        o = weft_command(NULL, "eval storyteller --data %s%s --json", folder,
                         i == 0 ? "" : "/test.jsonl");
        const char *at = strstr(o.out, "\"loss\": ");
        snprintf(loss[i], sizeof loss[i], "%.*s", at ? (int)strcspn(at, ",}") : 0, at ? at : "");
        CHECK_CONTAINS(loss[i], "\"loss\": ");
    }
    CHECK_STR(loss[0], loss[1]);
}

/* A tokenizer with more tokens than the model: the file and row are named before the run begins. */
static void ids_outside_the_vocabulary_name_their_row(void)
{
    static const char *const data[][3] = {
        {"t.jsonl", "{\"text\": \"A fox.\"}\n{\"text\": \"A <|new|> fox.\"}\n", "t.jsonl:2: token"},
        {"t.txt", "A <|new|> fox.", "t.txt: token"},
        {"c.jsonl",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"<|new|>\"}, {\"role\": "
         "\"assistant\", \"content\": \"x\"}]}\n",
         "c.jsonl:1: messages: token"},
    };
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("small"));
    const char *from = check_source("examples/storyteller");
    const output made = shell_command(
        NULL,
        "mkdir -p %s && cp %s/* %s/ && sed -i '/\"added_tokens\": \\[/a {\"id\": 4096, "
        "\"content\": \"<|new|>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true},' %s/tokenizer.json",
        folder, from, folder, folder);
    CHECK_EQ_INT(made.code, 0);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        const char *path = text_file(data[i][0], data[i][1]);
        const output o =
            weft_command(NULL, "train %s --data %s --steps 1 --out %s/run", folder, path, folder);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, data[i][2]);
        CHECK_CONTAINS(o.err, "and the model's vocabulary has 4096 tokens");
        CHECK(shell_command(NULL, "ls %s/run", folder).code != 0);
    }
}

static void samples_are_json_objects(void)
{
    const output o =
        weft_command(NULL, "data %s storyteller --jsonl", text_file("rows.jsonl", rows));
    int lines = 0;
    CHECK_EQ_INT(o.code, 0);
    for (const char *at = o.out; *at != '\0'; lines++) {
        const char *end = strchr(at, '\n');
        weft__json_doc doc = {0};
        weft__json list, item, part;
        size_t n = 0, m = 0;
        const char *text = NULL;
        if (!CHECK(end != NULL) ||
            !CHECK_OK(weft__json_parse(at, (size_t)(end - at), "line", &doc)))
            break;
        const weft__json root = weft__json_root(&doc);
        CHECK_OK(weft__json_get(&root, "ids", &list));
        CHECK_OK(weft__json_length(&list, &n));
        CHECK_OK(weft__json_get(&root, "weights", &list));
        CHECK_OK(weft__json_length(&list, &m));
        CHECK_EQ_INT(n, m);
        CHECK_OK(weft__json_at(&list, n - 1, &item));
        CHECK_EQ_INT(json_object_get_int(item.value), 1);
        CHECK_OK(weft__json_get(&root, "segments", &list));
        CHECK_OK(weft__json_length(&list, &m));
        CHECK_EQ_INT(m, lines < 2 ? 2 : 1);
        CHECK_OK(weft__json_at(&list, m - 1, &part));
        CHECK_OK(weft__json_get_string(&part, "text", &text));
        CHECK_STR(text, lines < 2 ? " A fox.<|endoftext|>" : "So it was.<|endoftext|>");
        weft__json_free(&doc);
        at = end + 1;
    }
    CHECK_EQ_INT(lines, 3);
}

static void the_summary_is_json_on_request(void)
{
    const output o = weft_command(rows, "data - storyteller --format jsonl --json --val-split 0.4");
    weft__json_doc doc = {0};
    int64_t n = -1;
    CHECK_EQ_INT(o.code, 0);
    if (!CHECK_OK(weft__json_parse(o.out, strlen(o.out), "out", &doc)))
        return;
    const weft__json root = weft__json_root(&doc);
    CHECK_OK(weft__json_get_int(&root, "samples", &n));
    CHECK_EQ_INT(n, 2);
    CHECK_OK(weft__json_get_int(&root, "validation_samples", &n));
    CHECK_EQ_INT(n, 1);
    weft__json_free(&doc);
}

static void model_and_data_come_in_either_order(void)
{
    char path[1024], first[4096];
    snprintf(path, sizeof path, "%s", text_file("rows.jsonl", rows));
    output o = weft_command(NULL, "data storyteller %s", path);
    CHECK_EQ_INT(o.code, 0);
    snprintf(first, sizeof first, "%s", o.out);
    o = weft_command(NULL, "data %s storyteller", path);
    CHECK_STR(o.out, first);
    /* A file named .json may be a tokenizer. */
    o = weft_command(NULL, "data %s storyteller",
                     text_file("rows.json", "[{\"text\": \"So it was.\"}]"));
    CHECK_CONTAINS(o.out, "files      1 json\n");
    for (int i = 0; i < 2; i++) {
        o = weft_command(NULL, "data %s %s", i ? "nowhere" : path, i ? path : "nowhere");
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "nowhere: there is no such model");
    }
}

static const char template_text[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

static void a_system_text_and_a_template_are_options(void)
{
    static const char chats[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, "
        "{\"role\": \"assistant\", \"content\": \"A fox.\"}]}\n"
        "{\"system\": \"Own.\", \"prompt\": \"Who?\", \"completion\": \"A hen.\"}\n"
        "{\"text\": \"So it was.\"}\n";
    char file[1024], data[1024], out[1024];
    snprintf(file, sizeof file, "%s", text_file("own.jinja", template_text));
    snprintf(data, sizeof data, "%s", text_file("chats.jsonl", chats));
    snprintf(out, sizeof out, "%s", check_temporary("with-template"));
    output o = weft_command(NULL, "data storyteller %s --system 'Be short.' --template %s --show 3",
                            data, file);
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.err, "");
    CHECK_CONTAINS(o.out, "  <system>Be short.</system><user>Who?</user><assistant>\n+ A fox.");
    CHECK_CONTAINS(o.out, "  <system>Own.</system><user>Who?</user><assistant>\n+ A hen.");
    CHECK_CONTAINS(o.out, "\n+ So it was.");
    o = weft_command(NULL,
                     "train storyteller --data %s --system 'Be short.' --template %s --steps 1 "
                     "--length 64 --out %s",
                     data, file, out);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL, "cat %s/last/chat_template.jinja", out);
    CHECK_STR(o.out, template_text);
    o = weft_command(NULL, "train --out %s --resume --steps 2 --system 'Be long.'", out);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "--system: the run in");
    o = weft_command(NULL, "train --out %s --resume --steps 2", out);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "data storyteller %s --task classify --system a", data);
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "no --system");
}

static void samples_beyond_the_positions_are_named(void)
{
    char text[8192] = "";
    for (int i = 0; i < 500; i++)
        strcat(text, "fox and hen ");
    const char *data = text_file("long.txt", text);
    const char *options = "--steps 1 --batch-size 1 --val-split 0 --dry-run";
    output o = weft_command(NULL, "train storyteller --data %s --length 1200 %s --out %s", data,
                            options, check_temporary("long"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "the longest sample has 1,200 tokens, and the model was trained for "
                          "1,024 positions: --length 1024");
}

/* Files of other programs, with the way to read them. */
static void files_of_other_programs_are_explained(void)
{
    static const struct {
        const char *name, *text, *error;
    } files[] = {
        {"semicolons.csv", "prompt;completion\nWho?;A fox.\n",
         "semicolons.csv:1: expected columns separated by commas, got semicolons"},
        {"latin.csv", "prompt,completion\nWho?,A caf\xe9.\n",
         "line 2 is not UTF-8 (byte 0xe9): iconv -f LATIN1 -t UTF-8 "},
        {"latin.jsonl", "{\"text\": \"So\"}\n{\"text\": \"caf\xe9\"}\n",
         "line 2 is not UTF-8 (byte 0xe9): iconv -f LATIN1 -t UTF-8 "},
        {"latin.txt", "So it was.\n\nA caf\xe9.\n",
         "line 3 is not UTF-8 (byte 0xe9): iconv -f LATIN1 -t UTF-8 "},
        {"wide.csv", "\xff\xfeprompt,completion\nWho?,A fox.\n",
         "line 1 is not UTF-8 (byte 0xff): iconv -f UTF-16 -t UTF-8 "},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const output o =
            weft_command(NULL, "data storyteller %s", text_file(files[i].name, files[i].text));
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, files[i].error);
    }
}

#define SNAPSHOT "datasets--org--tales/snapshots/0123456789abcdef0123456789abcdef01234567"

static void datasets_of_the_hub_are_read_from_the_cache(void)
{
    char path[1200];
    const char *cache = check_temporary("cache");
    CHECK_OK(weft_folder_make(check_temporary("cache/" SNAPSHOT)));
    CHECK_OK(weft_folder_make(check_temporary("cache/datasets--org--tales/refs")));
    text_file("cache/datasets--org--tales/refs/main", strrchr(SNAPSHOT, '/') + 1);
    text_file("cache/" SNAPSHOT "/train.jsonl", rows);
    text_file("cache/" SNAPSHOT "/test.jsonl", "{\"text\": \"The end.\"}\n");
    snprintf(path, sizeof path, "%s", cache);
    setenv("HF_HUB_CACHE", path, 1);
    output o = weft_command(NULL, "data org/tales storyteller");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "samples    3, ");
    o = weft_command(NULL, "data org/tales:test storyteller");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "samples    1, ");
    o = weft_command(NULL, "data org/tales:dev storyteller");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "no data file of the split 'dev'");
    o = weft_command(NULL, "data org/none storyteller");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "org/none: there is no such file or folder, and no such dataset in the "
                          "local cache (weft pull --dataset org/none fetches it)");
    unsetenv("HF_HUB_CACHE");
}

/* run.json has a hash of the files of datasets, and a run is not resumed with other files. */
static void a_run_records_datasets_of_the_hub(void)
{
    const char *out = check_temporary("hub-run");
    char command[2000];
    snprintf(command, sizeof command, "%s", check_temporary("cache"));
    setenv("HF_HUB_CACHE", command, 1);
    snprintf(command, sizeof command,
             "train storyteller --data org/tales --val-data org/tales:test --out %s", out);
    output o = weft_command(NULL, "%s --steps 1 --overwrite", command);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL, "grep source %s/run.json", out);
    CHECK_CONTAINS(o.out, "\"sources\": [{\"path\": \"org/tales\", \"weight\": 1, \"hash\": \"");
    CHECK_CONTAINS(o.out, "\"validation_source\": {\"path\": \"org/tales:test\", \"hash\": \"");
    text_file("cache/" SNAPSHOT "/train.jsonl", "{\"text\": \"A hen and a fox.\"}\n");
    o = weft_command(NULL, "%s --steps 2 --resume", command);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "the data has changed since the run began");
    unsetenv("HF_HUB_CACHE");
}

static void bad_data_is_one_line(void)
{
    output o = weft_command(NULL, "data %s storyteller", text_file("bad.csv", "text\n\"a\n"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "bad.csv:2: field 1: its quote is not closed");
    o = weft_command(rows, "data - storyteller");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "standard input: expected the format");
    o = weft_command(NULL, "data x storyteller --json --jsonl");
    check_one_line(&o, 2);
}

static void training_reads_what_data_shows(void)
{
    const char *out = check_temporary("run");
    output o = weft_command(rows,
                            "train storyteller --data - --format jsonl --long drop --steps 1 "
                            "--out %s",
                            out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "data    -: 3 samples");
    o = weft_command(rows, "train storyteller --data - --format jsonl --pack --steps 1 --out %sp",
                     out);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command("{\"text\": \"x y z\"}\n", "train storyteller --data - --out %s3", out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "standard input: expected the format");
    o = weft_command(NULL, "train storyteller --data %s --mix 1,2 --out %s3",
                     text_file("rows.jsonl", rows), out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--mix: expected a weight for each --data, 1, got 2");
    o = weft_command(NULL, "train storyteller --data x --mix 1,a --out %s3", out);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--mix: expected positive numbers");
    char path[512];
    snprintf(path, sizeof path, "%s", text_file("rows.jsonl", rows));
    o = weft_command(NULL, "train storyteller --data %s --val-data %s --steps 1 --out %s2", path,
                     path, out);
    CHECK_CONTAINS(o.err, "3 of the 3 validation samples are also trained");
}

/* The hash of a run's data. */
static const char *data_hash(const char *mix)
{
    static char hash[2][17];
    static int n;
    char first[512];
    const char *out = check_temporary("mixed");
    snprintf(first, sizeof first, "%s", text_file("rows.jsonl", rows));
    output o = weft_command(NULL,
                            "train storyteller --data %s --data %s --mix %s --steps 1 --overwrite "
                            "--out %s",
                            first, text_file("more.jsonl", rows), mix, out);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(
        NULL, "sed -n 's/.*\"identity.*\"data\": \"\\([0-9a-f]*\\)\".*/\\1/p' %s/run.json", out);
    n = 1 - n;
    snprintf(hash[n], sizeof hash[n], "%s", o.out);
    CHECK_EQ_INT(strlen(hash[n]), 16);
    return hash[n];
}

/* Even if an epoch has as many samples as before. */
static void another_mixture_is_other_data(void)
{
    const char *one = data_hash("1,2"), *other = data_hash("2,1");
    CHECK(strcmp(one, other) != 0);
}

/* run.json names every source, with the hash of what it has. */
static void a_run_records_all_its_data(void)
{
    const char *out = check_temporary("recorded");
    char first[512], second[512], text[4][64];
    snprintf(first, sizeof first, "%s", text_file("rows.jsonl", rows));
    snprintf(second, sizeof second, "%s", text_file("more.jsonl", rows));
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            text_file("more.jsonl", "{\"text\": \"A hen.\"}\n");
        output o = weft_command(NULL,
                                "train storyteller --data %s --data %s --mix 1,2.5 --val-data %s "
                                "--steps 1 --overwrite --out %s",
                                first, second, first, out);
        CHECK_EQ_INT(o.code, 0);
        o = shell_command(NULL, "grep source %s/run.json", out);
        CHECK_CONTAINS(o.out, "\"sources\": [{\"path\": \"");
        CHECK_CONTAINS(o.out, "rows.jsonl\", \"weight\": 1, \"hash\": \"");
        CHECK_CONTAINS(o.out, "more.jsonl\", \"weight\": 2.5, \"hash\": \"");
        CHECK_CONTAINS(o.out, "\"validation_source\": {\"path\": \"");
        const char *at = o.out;
        for (int k = 0; k < 2 && at; k++) {
            at = strstr(at, "\"hash\": ");
            snprintf(text[2 * i + k], sizeof text[0], "%.26s", at ? at : "");
            at = at ? at + 8 : NULL;
        }
    }
    CHECK_STR(text[0], text[2]);
    CHECK(strcmp(text[1], text[3]) != 0);
}

CHECK_MAIN("cli_data", CHECK_CASE(model_and_data_come_in_either_order),
           CHECK_CASE(a_system_text_and_a_template_are_options),
           CHECK_CASE(samples_beyond_the_positions_are_named),
           CHECK_CASE(files_of_other_programs_are_explained),
           CHECK_CASE(the_summary_shows_kinds_lengths_and_samples),
           CHECK_CASE(folders_in_the_layout_of_mlx_lm),
           CHECK_CASE(ids_outside_the_vocabulary_name_their_row),
           CHECK_CASE(samples_are_json_objects), CHECK_CASE(the_summary_is_json_on_request),
           CHECK_CASE(datasets_of_the_hub_are_read_from_the_cache),
           CHECK_CASE(a_run_records_datasets_of_the_hub), CHECK_CASE(bad_data_is_one_line),
           CHECK_CASE(another_mixture_is_other_data), CHECK_CASE(a_run_records_all_its_data),
           CHECK_CASE(training_reads_what_data_shows))
