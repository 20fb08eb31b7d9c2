/* tests/cli/test_cli_tokens.c -- weft train --add-tokens: from the option to every command that
 * uses the adapter. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/cli/runs.h"
#include "tests/support/tokenizer_json.h"
#include "weft/io.h"
#include "weft/memory.h"

static const char rows[] =
    "{\"prompt\": \"<q> Who was it? <a>\", \"completion\": \" It was the <hero>.\"}\n"
    "{\"prompt\": \"<q> Where was the <hero>? <a>\", \"completion\": \" At home.\"}\n"
    "{\"prompt\": \"<q> What had the <hero>? <a>\", \"completion\": \" Two apples.\"}\n"
    "{\"prompt\": \"<q> Who came? <a>\", \"completion\": \" The king and the <hero>.\"}\n";

static char run[512], data[512];

/* The storyteller with three new tokens: four updates, in `run`. */
static bool train(void)
{
    static bool done;
    snprintf(run, sizeof run, "%s", check_temporary("run"));
    snprintf(data, sizeof data, "%s", text_file("rows.jsonl", rows));
    if (done)
        return true;
    const output o = weft_command(NULL,
                                  "train storyteller --data %s --add-tokens '%s' --steps 4 -b 2 "
                                  "--val-data %s --token-cache %s --out %s --overwrite",
                                  data, text_file("new.txt", "<q>\r\n<a>\n\n<hero>\n"), data,
                                  check_temporary("cache"), run);
    CHECK_CONTAINS(o.err, "3 new, ids 4096 to 4098");
    return done = CHECK_EQ_INT(o.code, 0);
}

/* The loss of the rows, as weft eval prints it. */
static double loss_of(const char *model, const char *adapter)
{
    double loss = -1;
    const output o = weft_command(NULL, "eval %s %s --data %s --json", model, adapter, data);
    const char *at = CHECK_EQ_INT(o.code, 0) ? strstr(o.out, "\"loss\": ") : NULL;
    if (CHECK(at != NULL))
        CHECK_EQ_INT(sscanf(at + 8, "%lf", &loss), 1);
    return loss;
}

static void the_tokenizer_is_saved_beside_the_adapter(void)
{
    if (!train())
        return;
    check_in_file(run, "last/tokenizer.json", "\"content\": \"<hero>\"");
    check_in_file(run, "best/tokenizer.json", "{\"id\": 4098, \"content\": \"<hero>\"");
    char folder[600];
    snprintf(folder, sizeof folder, "%s/best", run);
    check_tokenizer_json(folder, NULL);
    check_in_file(run, "last/adapter_config.json", "\"embed_tokens\": [4096, 4097, 4098]");
    check_in_file(run, "last/tokenizer_config.json", "eos_token");
    output o = weft_command(NULL, "tokenize %s/last --prompt '<q><hero>'", run);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "4096 4098");
}

static void other_commands_use_it(void)
{
    char adapter[600];
    if (!train())
        return;
    snprintf(adapter, sizeof adapter, "--adapter %s/last", run);
    CHECK(loss_of("storyteller", adapter) > 0);
    output o = weft_command(NULL, "generate storyteller %s -p '<q> Who' -n 4", adapter);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "embed storyteller %s '<hero>' --json", adapter);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "classify storyteller %s '<hero>' --top 2 --logits %s", adapter,
                     check_temporary("logits.npy"));
    CHECK_EQ_INT(o.code, 0);
}

static void fused_models_have_the_larger_vocabulary(void)
{
    static const char *const options[] = {"--type f32", "--type f32", "--quantize 8",
                                          "--type q8_0"};
    static const char *const names[] = {"fused", "fused.gguf", "eight", "eight.gguf"};
    char adapter[600], out[512], path[600], *text;
    if (!train())
        return;
    snprintf(adapter, sizeof adapter, "--adapter %s/last", run);
    const double loss = loss_of("storyteller", adapter);
    for (int i = 0; i < 4; i++) {
        snprintf(out, sizeof out, "%s", check_temporary(names[i]));
        output o =
            weft_command(NULL, "fuse storyteller %s/last %s %s --force", run, out, options[i]);
        CHECK_EQ_INT(o.code, 0);
        /* The sums of all but the first are rounded to the base's bfloat16. */
        CHECK_CLOSE(loss_of(out, ""), loss, i == 0 ? 1e-5 : 0.1);
        snprintf(path, sizeof path, "%s/config.json", out);
        if (i % 2 == 0 && CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
            CHECK_CONTAINS(text, "\"vocab_size\": 4099");
            weft_free(text);
        }
    }
    output o = weft_command(NULL, "fuse storyteller %s/last %s --force --data %s", run,
                            check_temporary("fused"), data);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "the base lacks tokens of the data");
    o = weft_command(NULL, "convert %s/last %s --adapter-format gguf", run,
                     check_temporary("no.gguf"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "rows of trained tokens, which GGUF adapters cannot have");
    snprintf(out, sizeof out, "%s", check_temporary("copy"));
    o = weft_command(NULL, "convert %s/last %s --adapter-format peft --force", run, out);
    CHECK_EQ_INT(o.code, 0);
    snprintf(path, sizeof path, "--adapter %s", out);
    CHECK_CLOSE(loss_of("storyteller", path), loss, 1e-6);
}

/* Matrices in blocks or groups keep their encoding beside the new rows. */
static void bases_may_be_encoded(void)
{
    static const char *const formats[] = {"base.gguf --type q4_k", "base4 --bits 4"};
    char base[512], out[512], adapter[600];
    if (!train())
        return;
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(formats[i], " "), formats[i]);
        snprintf(base, sizeof base, "%s", check_temporary(name));
        output o =
            weft_command(NULL, "convert storyteller %s%s --force", base, strchr(formats[i], ' '));
        CHECK_EQ_INT(o.code, 0);
        snprintf(out, sizeof out, "%s", check_temporary("encoded"));
        o = weft_command(NULL,
                         "train %s --data %s --add-tokens '<q>, <a>' --steps 2 -b 2 --out %s "
                         "--overwrite",
                         base, data, out);
        CHECK_EQ_INT(o.code, 0);
        snprintf(adapter, sizeof adapter, "--adapter %s/last", out);
        const double loss = loss_of(base, adapter);
        o = weft_command(NULL, "fuse %s %s/last %s --force --adapted-bits 0", base, out,
                         check_temporary("f"));
        CHECK_EQ_INT(o.code, 0);
        CHECK_CLOSE(loss_of(check_temporary("f"), ""), loss, 0.1);
    }
}

static void runs_are_resumed_and_extended(void)
{
    if (!train())
        return;
    output o = weft_command(NULL, "train --out %s --resume --steps 6", run);
    CHECK_EQ_INT(o.code, 0);
    check_in_file(run, "last/tokenizer.json", "\"content\": \"<hero>\"");
    o = weft_command(NULL, "train --out %s --resume --add-tokens '<z>'", run);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--add-tokens: the run in");
    text_file("new.txt", "<q>\n<z>\n<hero>\n"); /* the run's file, with another token */
    o = weft_command(NULL, "train --out %s --resume --steps 7", run);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "has changed since the run began");
    char next[512];
    snprintf(next, sizeof next, "%s", check_temporary("next"));
    o = weft_command(NULL,
                     "train storyteller --data %s --init-adapter %s/best --steps 1 --out %s "
                     "--overwrite",
                     data, run, next);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "weft fuse ");
    CHECK(strstr(o.out, "adapter.gguf") == NULL); /* such files cannot have rows of tokens */
    snprintf(run, sizeof run, "%s", next);
    check_in_file(run, "last/tokenizer.json", "\"content\": \"<hero>\"");
}

static void bad_options_are_refused(void)
{
    static const struct {
        const char *options, *part;
        int code;
    } wrong[] = {
        {"--add-tokens the", "has the token 'the' already, with id", 1},
        {"--add-tokens '<x>,<x>'", "'<x>' is given twice", 1},
        {"--add-tokens none.txt", "none.txt: there is no such file", 1},
        {"--add-tokens ' , '", "expected at least one", 1},
        {"--add-tokens '<x>' --modules-to-save lm_head", "are not for --modules-to-save", 2},
        {"--add-tokens '<x>' --targets embed_tokens", "without an adapter", 1},
        {"--add-tokens '<x>' --init-adapter a",
         "--add-tokens cannot be combined with --init-adapter", 2},
        {"--add-tokens '<x>' --train-tokens nothing", "no token 'nothing'", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        output o =
            weft_command(NULL, "train storyteller --data %s --steps 1 --out %s %s",
                         text_file("r.jsonl", rows), check_temporary("none"), wrong[i].options);
        check_one_line(&o, wrong[i].code);
        CHECK_CONTAINS(o.err, wrong[i].part);
    }
    output o = weft_command(NULL,
                            "train storyteller --data %s --add-tokens '<x>' --dry-run "
                            "--out %s",
                            text_file("r.jsonl", rows), check_temporary("dry"));
    CHECK_EQ_INT(o.code, 0);
    CHECK(access(check_temporary("dry"), F_OK) != 0);
}

static void devices_give_the_same_losses(void)
{
    char options[700];
    snprintf(options, sizeof options, "--data %s --add-tokens '<q>,<a>,<hero>' -b 2",
             text_file("rows.jsonl", rows));
    check_devices_agree(options);
}

CHECK_MAIN("cli_tokens", CHECK_CASE(the_tokenizer_is_saved_beside_the_adapter),
           CHECK_CASE(other_commands_use_it), CHECK_CASE(fused_models_have_the_larger_vocabulary),
           CHECK_CASE(bases_may_be_encoded), CHECK_CASE(runs_are_resumed_and_extended),
           CHECK_CASE(bad_options_are_refused), CHECK_CASE(devices_give_the_same_losses))
