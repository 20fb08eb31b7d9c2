/* tests/cli/test_cli.c -- conventions of the command: help, exit status, messages, the pages
 * generated from its tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/version.h"

static const char *const commands[] = {"generate", "train", "eval", "tokenize",
                                       "logits",   "info",  "help"};
enum { COMMANDS = (int)(sizeof commands / sizeof *commands) };

static void every_command_has_help(void)
{
    for (int i = 0; i < COMMANDS; i++) {
        output o = weft_command(NULL, "%s --help", commands[i]);
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: weft %s", commands[i]);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.out, usage);
        CHECK_CONTAINS(o.out, "-h, --help");
        CHECK_CONTAINS(o.out, "Examples:");
        CHECK_STR(o.err, "");
        char *said = weft_strdup(o.out);
        o = weft_command(NULL, "help %s", commands[i]);
        CHECK_STR(o.out, said);
        weft_free(said);
    }
}

static void the_overview_lists_the_commands(void)
{
    for (int i = 0; i < COMMANDS; i++) {
        CHECK_CONTAINS(weft_command(NULL, "--help").out, commands[i]);
        CHECK_CONTAINS(weft_command(NULL, "help").out, commands[i]);
    }
    output o = weft_command(NULL, " ");
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "Usage: weft COMMAND");
    o = weft_command(NULL, "--version");
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, "weft " WEFT_VERSION "\n");
}

static void usage_errors_are_status_2(void)
{
    static const char *const lines[] = {
        "sing",
        "help sing",
        "help --completion csh",
        "generate --no-such-option",
        "generate -q",
        "generate MODEL",
        "generate MODEL EXTRA -p x",
        "generate MODEL -p",
        "generate MODEL -p x -f y",
        "generate MODEL -p x --temperature warm",
        "generate MODEL -p x --temperature -1",
        "generate MODEL -p x --temperature nan",
        "generate MODEL -p x --top-p 0",
        "generate MODEL -p x --top-p 1.5",
        "generate MODEL -p x --max-tokens 0",
        "generate MODEL -p x --max-tokens 99999999999999999999",
        "generate MODEL -p x --max-tokens 1.5",
        "generate MODEL -p x --dtype int8",
        "generate MODEL -p x --json=yes",
        "generate MODEL -p x --suppress -1",
        "generate MODEL -p x --suppress 99999999999",
        "chat MODEL --stop-tokens 1,,2",
        "generate MODEL -p x --logit-bias 5",
        "generate MODEL -p x --logit-bias 5:1,",
        "generate MODEL -p x --timeout 0",
        "generate MODEL -p x --json-value --json-schema x",
        "generate MODEL -p x --schema-open",
        "generate MODEL -p x --xtc-probability 2",
        "generate MODEL -p x --gpu-layers 2",
        "generate MODEL -p x --device vulkan --gpu-layers -1",
        "train MODEL --data a --gpu-layers 2 --device cpu:0",
        "train MODEL --batches a --objective dpo",
        "train MODEL --data a --train-on prompts",
        "eval MODEL --data a --gpu-layers 2",
        "logits MODEL --ids a --out b --gpu-layers 2",
        "train",
        "train MODEL",
        "train MODEL --data a --batches b",
        "train MODEL --data a --steps 3 --epochs 1",
        "train MODEL --data a --schedule steep",
        "train MODEL --data a --rank 0",
        "train MODEL --batches a --val-split 0.1",
        "eval MODEL",
        "eval MODEL --data x --last 1",
        "logits MODEL --ids x",
        "logits MODEL --out x",
        "info MODEL --devices",
        "tokenize",
        "tokenize MODEL --jsonl --prompt x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        output o = weft_command(NULL, "%s", lines[i]);
        check_one_line(&o, 2);
        CHECK_STR(o.out, "");
        if (o.code != 2)
            CHECK_FAIL("status %d: weft %s", o.code, lines[i]);
    }
}

static void failures_are_status_1_and_one_line(void)
{
    const char *text = text_file("small.txt", "It was a dark night.\n");
    const char *empty = text_file("empty.txt", "");
    const struct {
        const char *line, *argument, *says;
    } cases[] = {
        {"generate /no/such/model -p x", "", "/no/such/model"},
        {"generate %s -p x --device quantum", model(), "quantum"},
        {"generate %s -p x --adapter /no/such/adapter", model(), "/no/such/adapter"},
        {"generate %s -p ''", model(), "no tokens"},
        {"generate %s -f /no/such/file", model(), "/no/such/file"},
        {"generate %s -p \"$(printf '\\377')\"", model(), "UTF-8"},
        {"train %s --data /no/such/data", model(), "/no/such/data"},
        {"train %s --data /dev/null", model(), "/dev/null"},
        {"train %s --batches /no/such/batches", model(), "/no/such/batches"},
        {"eval %s --data /no/such/data", model(), "/no/such/data"},
        {"logits %s --ids /no/such/ids --out x", model(), "/no/such/ids"},
        {"tokenize /no/such/tokenizer -p x", "", "/no/such/tokenizer"},
        {"info /no/such/model", "", "/no/such/model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        const char *at = strstr(cases[i].line, "%s");
        int front = at != NULL ? (int)(at - cases[i].line) : (int)strlen(cases[i].line);
        snprintf(line, sizeof line, "%.*s%s%s", front, cases[i].line, cases[i].argument,
                 at != NULL ? at + 2 : "");
        output o = weft_command(NULL, "%s", line);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, cases[i].says);
    }
    output o = weft_command(NULL, "eval %s --data %s", model(), empty);
    check_one_line(&o, 1);
    o = weft_command(NULL, "train %s --data %s --targets nothing --out %s", model(), text,
                     check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "nothing");
}

/* Commands in messages have the path that the program was called by, unless it is in the PATH. */
static void suggested_commands_can_be_run(void)
{
    static const struct {
        const char *called, *shown;
    } cases[] = {{"PATH=$PWD:$PATH weft", "weft"},           {"./weft", "./weft"},
                 {"../there/weft", "../there/weft"},         {"'../a b/weft'", "'../a b/weft'"},
                 {"\"../it's/weft\"", "'../it'\\''s/weft'"}, {"$(printf '../\\001/weft')", "weft"}};
    char expected[200];
    CHECK_EQ_INT(
        shell_command(NULL,
                      "mkdir %s && cd %s && mkdir there 'a b' \"it's\" $(printf '\\001') && "
                      "for d in *; do ln -s %s \"$d/weft\"; done",
                      check_temporary("called"), check_temporary("called"), check_built("cli/weft"))
            .code,
        0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        output o = shell_command(NULL, "cd %s/there && %s zzzzzz", check_temporary("called"),
                                 cases[i].called);
        snprintf(expected, sizeof expected, "(%s help lists the commands)", cases[i].shown);
        CHECK_CONTAINS(o.err, expected);
        o = shell_command(NULL, "cd %s/there && %s generate --zzzzzz", check_temporary("called"),
                          cases[i].called);
        snprintf(expected, sizeof expected, "(%s generate --help tells more)", cases[i].shown);
        CHECK_CONTAINS(o.err, expected);
    }
}

/* Misspelled words get a suggestion if a known word is similar. */
static void misspelled_words_get_suggestions(void)
{
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"genrate", "'genrate'; is it generate? ("},
        {"help pul", "'pul'; is it pull? ("},
        {"zzzzzz", "'zzzzzz' ("},
        {"--versoin", "'--versoin'; is it --version? ("},
        {"--hlep", "'--hlep'; is it --help? ("},
        {"generate --temprature 1", "unknown option --temprature; is it --temperature? ("},
        {"generate --max-token=5", "unknown option --max-token; is it --max-tokens? ("},
        {"generate --qqqqqq", "unknown option --qqqqqq ("},
        {"generate -Z", "unknown option -Z ("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        output o = weft_command(NULL, "%s", cases[i].line);
        check_one_line(&o, 2);
        CHECK_CONTAINS(o.err, cases[i].part);
    }
}

/* Reports a file that is not a model. */
static void files_that_are_not_models_are_reported(void)
{
    output o = weft_command(NULL, "generate %s -p x", text_file("story.txt", "Once"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "story.txt: not a model: expected a folder");
    CHECK_OK(weft_folder_make(check_temporary("pictures")));
    CHECK_OK(weft_file_write(check_temporary("pictures/tokenizer.json"), "{", 1));
    o = weft_command(NULL, "generate %s -p x", check_temporary("pictures"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "pictures: not a model: expected config.json or a .gguf file in the");
    o = weft_command(NULL, "tokenize %s -p x", check_temporary("pictures"));
    CHECK_CONTAINS(o.err, "pictures/tokenizer.json: ");
    o = weft_command(NULL, "generate %s -p x", check_temporary("pictures/tokenizer.json"));
    CHECK_CONTAINS(o.err, "tokenizer.json: not a model: ");
    o = weft_command(NULL, "info nowhere");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "nowhere: there is no such model: ");
    o = weft_command(NULL, "pull nowhere");
    check_one_line(&o, 2);
    o = weft_command(NULL, "discover %s", check_source("docs"));
    check_one_line(&o, 0);
    o = weft_command("", "classify storyteller");
    check_one_line(&o, 1);
    o = weft_command(NULL, "tokenize storyteller --decode -p '5 99999'");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "item 1: the vocabulary has no id 99999");
    static const char *const not_ids[] = {"nope", "[1.5]", "1 2x",        "-1", "[1] 2",
                                          "[1",   "1]",    "99999999999", " "};
    for (size_t i = 0; i < sizeof not_ids / sizeof *not_ids; i++) {
        o = weft_command(NULL, "tokenize storyteller --decode -p '%s'", not_ids[i]);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "expected ");
    }
    o = weft_command(NULL, "tokenize storyteller --decode -p ' [2010,370 , 627] '");
    CHECK_STR(o.out, "Once upon\n");
}

/* A full disk, and a path where nothing can be written. */
static void failed_writes_are_failures(void)
{
    output o =
        shell_command(NULL, "%s tokenize %s -p hello >/dev/full", check_built("cli/weft"), model());
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "No space left");
    const char *text = text_file("few.txt", "It was a dark night, and a cold one.\n");
    o = weft_command(NULL, "train %s --data %s --steps 1 --out /dev/null/run", model(), text);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "weft: /dev/null: make folder");
}

static void the_manual_page_is_up_to_date(void)
{
    char *page = NULL;
    output o = weft_command(NULL, "help --man");
    CHECK_EQ_INT(o.code, 0);
    CHECK(strstr(o.out, "(default )") == NULL); /* a default without a value */
    CHECK_OK(weft_file_read(check_source("docs/weft.1"), 0, &page, NULL));
    if (!CHECK(page != NULL && strcmp(page, o.out) == 0))
        CHECK_FAIL("build/cli/weft help --man > docs/weft.1 brings it up to date");
    weft_free(page);
}

/* What the completion script of a shell offers: the words before the last one of `line`, which is
 * to be completed, are given. bash and fish complete by themselves; in zsh that takes a terminal,
 * so stubs print what the script passes to zsh's functions. */
static const char *const completers[][2] = {
    {"bash",
     "bash -c 'source %s; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _weft weft "
     "\"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; "
     "printf \"%%s\\n\" \"${COMPREPLY[@]}\"'"},
    {"fish", "HOME=/nonexistent fish --no-config -c 'source %s; complete -C \"%s\"' | cut -f 1"},
    {"zsh", "zsh -f -c '_describe() { print -l -- $commands }; _arguments() { print -l -- $@ }; "
            "words=(%2$s); CURRENT=$#words; source %1$s'"},
};

static void completion_completes(void)
{
    const struct {
        const char *shell, *words, *wanted;
    } cases[] = {
        {"bash", "weft tr", "train\n"},
        {"bash", "weft train --sche", "--schedule\n"},
        {"bash", "weft train --schedule c", "constant\ncosine\n"},
        {"bash", "weft generate --top", "--top-p\n--top-k\n"},
        {"fish", "weft tr", "train\n"},
        {"fish", "weft train --sche", "--schedule\n"},
        {"fish", "weft train --schedule co", "constant\ncosine\n"},
        {"fish", "weft help --completion f", "fish\n"},
        {"zsh", "weft tr", "train:fine-tune a model"},
        {"zsh", "weft train --sche", "\n--schedule["},
        {"zsh", "weft train --sche", ":schedule:(constant "},
        {"zsh", "weft generate -", "\n(-p --prompt)--prompt["},
        {"zsh", "weft generate -", "]:TEXT:_files\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *completer = completers[0];
        while (strcmp(completer[0], cases[i].shell) != 0)
            completer += 2;
        if (shell_command(NULL, "command -v %s", cases[i].shell).code != 0) {
            printf("%s is not installed: its completion is not tested\n", cases[i].shell);
            continue;
        }
        const char *script = check_temporary("completion");
        output o = weft_command(NULL, "help --completion %s >%s", cases[i].shell, script);
        CHECK_EQ_INT(o.code, 0);
        o = shell_command(NULL, completer[1], script, cases[i].words);
        CHECK_STR(o.err, "");
        if (strcmp(cases[i].shell, "zsh") == 0)
            CHECK_CONTAINS(o.out, cases[i].wanted);
        else
            CHECK_STR(o.out, cases[i].wanted);
    }
}

static void info_describes_models_of_unknown_families(void)
{
    const char *folder = check_temporary("unknown");
    char *text, *type;
    size_t n;
    CHECK(mkdir(folder, 0700) == 0);
    CHECK(symlink(check_fixture("models/granite/model.safetensors"),
                  check_temporary("unknown/model.safetensors")) == 0);
    if (!CHECK_OK(weft_file_read(check_fixture("models/granite/config.json"), 0, &text, &n)))
        return;
    if (CHECK((type = strstr(text, "\"granite\"")) != NULL)) {
        memcpy(type, "\"marbles\"", 9);
        CHECK_OK(weft_file_write(check_temporary("unknown/config.json"), text, n));
    }
    output o = weft_command(NULL, "info %s", folder);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out,
                   "family      marbles is unknown\nnearest     granite: 21 tensors fit, 0 do");
    CHECK_CONTAINS(o.out, "\"model_type\": \"granite\" in config.json loads it");
    CHECK_CONTAINS(o.err, "model_type 'marbles' is unknown (nearest is granite, where 21 ");
    if (type) {
        memcpy(strstr(text, "\"residual_multiplier\""), "\"residual_multiplies\"", 21);
        CHECK_OK(weft_file_write(check_temporary("unknown/config.json"), text, n));
    }
    o = weft_command(NULL, "info %s --json", folder);
    CHECK_CONTAINS(o.out,
                   "{\"family\": null, \"nearest\": \"granite\", \"same\": 21, \"different\": 0, "
                   "\"differences\": [\"config.json: residual_multiplies is not read: 0.5\"]}");
    /* Another model_type would not help. */
    char *quantized =
        weft_format("{\"quantization_config\": {\"quant_method\": \"fp8\"},%s", text + 1);
    CHECK_OK(weft_file_write(check_temporary("unknown/config.json"), quantized, strlen(quantized)));
    weft_free(quantized);
    o = weft_command(NULL, "info %s", folder);
    CHECK_CONTAINS(o.out, "family      marbles is unknown");
    CHECK_CONTAINS(o.err, "quantized by 'fp8' are unsupported");
    CHECK(strstr(o.out, "loads it") == NULL);
    const char class[] = "{\"architectures\": [\"MarblesForCausalLM\"],";
    if (type) { /* without model_type the class is not known */
        memcpy(strstr(text, "\"model_type\""), "\"_odel_type\"", 12);
        char *config = weft_format("%s%s", class, strchr(text, '{') + 1);
        CHECK_OK(weft_file_write(check_temporary("unknown/config.json"), config, strlen(config)));
        weft_free(config);
    }
    o = weft_command(NULL, "info %s", folder);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "family      MarblesForCausalLM is unknown\nnearest     ");
    CHECK_CONTAINS(o.err, "architectures[0] 'MarblesForCausalLM' is unknown (nearest is ");
    weft_free(text);
}

static void info_describes_machine_and_model(void)
{
    output o = weft_command(NULL, "info");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, WEFT_VERSION);
    CHECK_CONTAINS(o.out, "cpu");
    CHECK_CONTAINS(o.out, "qwen3");
    o = weft_command(NULL, "info --json");
    CHECK_CONTAINS(o.out, "\"families\": [");
    CHECK_CONTAINS(o.out, "\"llama\"");
    o = weft_command(NULL, "info %s", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "3,148,992 bfloat16");
    CHECK_CONTAINS(weft_command(NULL, "info %s --tensors", model()).out, "model.norm.weight");
    CHECK_CONTAINS(weft_command(NULL, "info %s --tree", model()).out, "q_proj");
    CHECK_CONTAINS(weft_command(NULL, "info %s --json", model()).out, "\"vocab_size\": 4096");
}

/* Whether every line is a warning about what a driver computes wrongly. */
static bool is_about_drivers(const char *text)
{
    static const char warning[] = "weft: warning: vulkan: ";
    while (*text && strncmp(text, warning, strlen(warning)) == 0) {
        const char *end = strchr(text, '\n');
        text = end ? end + 1 : text + strlen(text);
    }
    return *text == '\0';
}

/* Without a driver Vulkan is listed with the reason; a build without it does not know the name. */
static void info_lists_the_devices(void)
{
    output o = weft_command(NULL, "info --devices");
    CHECK_EQ_INT(o.code, 0);
    CHECK(strncmp(o.out, "cpu  ", 5) == 0);
    CHECK(is_about_drivers(o.err));
    bool built = strstr(o.out, "\nvulkan ") != NULL;
    o = weft_command(NULL, "info --devices --json");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "{\"devices\": [{\"name\": \"cpu\", \"usable\": true");
    o = shell_command(NULL, "VK_ICD_FILENAMES=/none VK_DRIVER_FILES=/none %s info --devices",
                      check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.err, "");
    if (built) {
        CHECK_CONTAINS(o.out, "vulkan    cannot be used: ");
        o = shell_command(NULL,
                          "VK_ICD_FILENAMES=/none VK_DRIVER_FILES=/none %s info --devices "
                          "--json",
                          check_built("cli/weft"));
        CHECK_CONTAINS(o.out, "{\"name\": \"vulkan\", \"usable\": false, \"reason\": \"vulkan: ");
    } else {
        o = weft_command(NULL, "info --device vulkan");
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "--device vulkan: expected one of cpu");
    }
}

/* A message that begins with the device's name does not repeat it. */
static void devices_that_cannot_be_used_are_named_once(void)
{
    static const struct {
        const char *environment, *device, *said;
    } cases[] = {
        {"LD_LIBRARY_PATH=\"$NO_LOADER\"", "vulkan", "no Vulkan loader: "},
        {"VK_ICD_FILENAMES=/none VK_DRIVER_FILES=/none", "vulkan", "vkCreateInstance: "},
        {"", "vulkan:99", "expected an index below "},
        {"", "abacus", "expected one of cpu"},
        {"", "cpu:1", "expected an index below 1"},
    };
    char library[600], expected[100];
    snprintf(library, sizeof library, "%s/libvulkan.so.1", check_temporary("loader"));
    mkdir(check_temporary("loader"), 0777);
    setenv("NO_LOADER", check_temporary("loader"), 1);
    FILE *empty = fopen(library, "w");
    if (!CHECK(empty != NULL))
        return;
    fclose(empty);
    const bool built = strstr(weft_command(NULL, "info --devices").out, "\nvulkan ") != NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool vulkan = strncmp(cases[i].device, "vulkan", 6) == 0;
        if (vulkan && !built)
            continue;
        output o = shell_command(NULL, "%s %s generate storyteller -p x -n 1 --device %s",
                                 cases[i].environment, check_built("cli/weft"), cases[i].device);
        check_one_line(&o, 1);
        snprintf(expected, sizeof expected, "weft: --device %s: %s", cases[i].device,
                 cases[i].said);
        CHECK_CONTAINS(o.err, expected);
        if (strcmp(cases[i].device, "vulkan") != 0)
            continue;
        o = shell_command(NULL, "%s %s info --devices", cases[i].environment,
                          check_built("cli/weft"));
        snprintf(expected, sizeof expected, "\nvulkan    cannot be used: %s", cases[i].said);
        CHECK_CONTAINS(o.out, expected);
    }
}

/* The program in docs/embedding.md, built as a user would and run where the guide says. */
static void the_guides_program_runs(void)
{
#ifdef __SANITIZE_ADDRESS__
    check_skip("a plain program cannot load a sanitized library");
#else
    char source[1000], program[1000], build[1000];
    snprintf(source, sizeof source, "%s", check_source("."));
    snprintf(program, sizeof program, "%s", check_temporary("embedding"));
    snprintf(build, sizeof build, "%s", check_built("."));
    output o =
        shell_command(NULL,
                      "cd %s && awk '/^```$/ { f = 0 } f { print } /^```c$/ { f = 1 }' "
                      "docs/embedding.md >%s.c && cc -std=c11 -Wall -Wextra -Werror -Iinclude %s.c "
                      "-o %s -L%s -lweft -Wl,-rpath,%s && %s",
                      source, program, program, program, build, build, program);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK(strlen(o.out) > 40);
#endif
}

CHECK_MAIN("cli", CHECK_CASE(every_command_has_help), CHECK_CASE(the_overview_lists_the_commands),
           CHECK_CASE(usage_errors_are_status_2), CHECK_CASE(failures_are_status_1_and_one_line),
           CHECK_CASE(failed_writes_are_failures), CHECK_CASE(suggested_commands_can_be_run),
           CHECK_CASE(misspelled_words_get_suggestions),
           CHECK_CASE(files_that_are_not_models_are_reported),
           CHECK_CASE(the_manual_page_is_up_to_date), CHECK_CASE(completion_completes),
           CHECK_CASE(info_describes_machine_and_model),
           CHECK_CASE(info_describes_models_of_unknown_families),
           CHECK_CASE(info_lists_the_devices),
           CHECK_CASE(devices_that_cannot_be_used_are_named_once),
           CHECK_CASE(the_guides_program_runs))
