/* tests/cli/test_cli_train_options.c -- no option of weft train is silently ignored: each one
 * changes what a new or resumed run writes, or is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"

static char folder[512]; /* of the data, where commands run */

static void make_data(void)
{
    static const char words[][8] = {"fox", "hen", "wood", "field", "day", "night", "king", "queen"};
    char completions[4000] = "", rows[4000] = "", pairs[4000] = "", story[4000] = "", path[600];
    for (int i = 0; i < 8; i++) {
        snprintf(rows + strlen(rows), 200,
                 "{\"prompt\": \"Tale %d begins.\", \"completion\": \" Once there was a %s.\"}\n",
                 i, words[i]);
        snprintf(
            pairs + strlen(pairs), 200,
            "{\"prompt\": \"Tale %d is\", \"chosen\": \" of a %s.\", \"rejected\": \" dull.\"}\n",
            i, words[i]);
        snprintf(story + strlen(story), 200, "Line %d is about a %s and about nothing else. ", i,
                 words[i]);
    }
    snprintf(folder, sizeof folder, "%s", check_temporary("options"));
    CHECK_OK(weft_folder_make(folder));
    for (int i = 0; i < 12; i++)
        snprintf(completions + strlen(completions), 200,
                 "{\"prompt_ids\": [%d, 9], \"completion_ids\": [%d, %d%s], \"reward\": %d, "
                 "\"truncated\": %s}\n",
                 10 + i / 4, 20 + i, 40 - i, i % 3 ? ", 15, 60" : "", i * i % 7,
                 i % 5 ? "false" : "true");
    const struct {
        const char *name, *text;
    } files[] = {
        {"rows.jsonl", rows},
        {"completions.jsonl", completions},
        {"pairs.jsonl", pairs},
        {"prompts.jsonl", "{\"prompt\": \"Once\"}\n{\"prompt\": \"A king\"}\n"
                          "{\"prompt\": \"The fox\"}\n{\"prompt\": \"Long ago\"}\n"},
        {"story.txt", story},
        {"labeled.jsonl", "{\"text\": \"A hen.\", \"label\": \"a\"}\n"
                          "{\"text\": \"A king.\", \"label\": \"b\"}\n"},
        {"texts.jsonl",
         "{\"anchor\": \"A hen.\", \"positive\": \"An egg.\", \"negative\": \"A cow.\"}\n"
         "{\"anchor\": \"A king.\", \"positive\": \"A crown.\", \"negative\": \"A hat.\"}\n"
         "{\"anchor\": \"A ship.\", \"positive\": \"A sail.\", \"negative\": \"A car.\"}\n"},
        {"chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, "
                        "{\"role\": \"assistant\", \"content\": \"A hen.\"}]}\n"},
        {"own.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                      "{% if add_generation_prompt %}assistant: {% endif %}"},
        {"bad.jsonl", "{\"text\": 5}\n{\"text\": \"A hen and a fox.\"}\n"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        CHECK_OK(weft_file_write(path, files[i].text, strlen(files[i].text)));
    }
}

/* The files of a run without times and the command line; "refused" after a usage error, "failed"
 * after another error. */
static char *effect_of(const char *out, int code)
{
    if (code != 0)
        return weft_strdup(code == 2 ? "refused" : "failed");
    const output o =
        shell_command(NULL,
                      "cd %s/%s && ls && cksum $(ls last/adapter_* last/model.safetensors "
                      "2>/dev/null) && sed 's/\"command\".*//; "
                      "/seconds\\|memory\\|\"weft\"/d' "
                      "run.json && sed 's/\"tokens_per_second.*peak_memory\": [0-9]*//; "
                      "s/\"seconds.*peak_memory\": "
                      "[0-9]*//' metrics.jsonl",
                      folder, out);
    CHECK_EQ_INT(o.code, 0);
    return weft_strdup(o.out);
}

static int train(const char *options, const char *out)
{
    return shell_command(NULL, "cd %s && %s train %s --out %s %s", folder, check_built("cli/weft"),
                         check_source("examples/storyteller"), out, options)
        .code;
}

/* The effect of a run with these options, kept for the next that asks for the same. */
static const char *base_effect(const char *base)
{
    enum { MOST = 32 };
    static struct {
        const char *base;
        char *effect;
    } known[MOST];
    int i = 0;
    while (i < MOST && known[i].base && strcmp(known[i].base, base) != 0)
        i++;
    if (i == MOST || known[i].base)
        return i < MOST ? known[i].effect : "";
    char out[32];
    snprintf(out, sizeof out, "base%d", i);
    known[i].base = base;
    known[i].effect = effect_of(out, train(base, out));
    return known[i].effect;
}

#define ROWS "--data rows.jsonl --batch-size 2 --steps 3"
#define PAIRS "--data pairs.jsonl --batch-size 2 --steps 3 --objective dpo"
#define LABELED "--data labeled.jsonl --batch-size 2 --steps 3"
#define REWARDS                                                                                    \
    "--completions completions.jsonl --objective grpo --batch-size 3 --steps 4 --lr 0.02"
#define SCORED REWARDS " --num-generations 4"
#define TWICE SCORED " --num-iterations 2"
#define PROMPTS                                                                                    \
    "--data prompts.jsonl --objective grpo --num-generations 4 --max-completion-length 12 "        \
    "--batch-size 2 --steps 2 --lr 0.02"
#define SAMPLED PROMPTS " --reward pattern:e --reward pattern:a"
#define TEXTS "--data texts.jsonl --batch-size 3 --steps 3 --task embed"
#define DISTILL ROWS " --objective distill --teacher taught/last"
#define SPLIT ROWS " --val-split 0.3"

/* Every option with a value that differs from that of `base`. */
static const struct {
    const char *name, *base, *value;
} option_cases[] = {
    {"data", ROWS, "story.txt"},
    {"mix", ROWS " --data story.txt", "1,2"},
    {"format", "--data rows.jsonl --batch-size 2 --steps 3", "text"},
    {"long", "--data story.txt --data rows.jsonl --batch-size 2 --steps 3 --length 8", "keep-tail"},
    {"system", ROWS " --template own.jinja", "Short."},
    {"template", "--data chats.jsonl --batch-size 2 --steps 3", "own.jinja"}, /* fails without */
    {"max-bad-rows", "--data bad.jsonl --batch-size 2 --steps 3", "1"},
    {"val-split", ROWS, "0.4"},
    {"val-data", SAMPLED, "prompts.jsonl"},
    {"val-data", ROWS, "bad.jsonl --max-bad-rows 1"},
    {"val-every", SPLIT, "2"},
    {"save-every", ROWS, "2"},
    {"save-minutes", ROWS, "0.000001"},
    {"keep", ROWS " --save-every 1", "1"},
    {"batch-size", "--data rows.jsonl --steps 3", "3"},
    {"micro-batch", ROWS, "1"},
    {"accumulate", ROWS, "2"},
    {"length", "--data story.txt --batch-size 2 --steps 3", "16"},
    {"pack", ROWS, ""},
    {"train-on", ROWS, "everything"},
    {"objective", "--data pairs.jsonl --batch-size 2 --steps 3", "simpo"},
    {"beta", PAIRS, "0.2"},
    {"query-prompt", TEXTS, "Q:"},
    {"passage-prompt", TEXTS, "P:"},
    {"pooling", TEXTS, "last"},
    {"dimensions", TEXTS, "8,4"},
    {"scale", TEXTS, "10"},
    {"margin", TEXTS " --objective triplet", "3"},
    {"gamma", "--data pairs.jsonl --batch-size 2 --steps 3 --objective simpo", "0.2"},
    {"desirable-weight", "--data pairs.jsonl --batch-size 2 --steps 3 --objective kto", "2"},
    {"undesirable-weight", "--data pairs.jsonl --batch-size 2 --steps 3 --objective kto", "2"},
    {"label-smoothing", PAIRS, "0.1"},
    {"completions", "--objective grpo --num-generations 4 --batch-size 3 --steps 4",
     "completions.jsonl"},
    {"num-generations", REWARDS, "4"},
    {"num-iterations", SCORED, "2"},
    {"reward", PROMPTS, "pattern:e"}, /* fails without */
    {"reward-weights", SAMPLED, "1,3"},
    {"top-p", SAMPLED, "0.1"},
    {"min-p", SAMPLED, "0.5"},
    {"top-k", SAMPLED, "1"},
    {"teacher", ROWS " --objective distill", "taught/last"}, /* fails without */
    {"teacher-system",
     "--data chats.jsonl --batch-size 2 --steps 3 --objective distill --template "
     "own.jinja --teacher taught/last",
     "Brief."},
    {"teacher-file", DISTILL, "top.safetensors"},
    {"lmbda", DISTILL " --max-completion-length 8", "1"},
    {"epsilon", TWICE, "0.001"},
    {"epsilon-high", TWICE, "0.001"},
    {"delta", TWICE, "1.001"},
    {"temperature", SCORED, "0.5"},
    {"max-completion-length", SCORED " --loss-type dr_grpo", "64"},
    {"mask-truncated", SCORED, "1"},
    {"loss-type", SCORED, "grpo"},
    {"importance", TWICE, "sequence"},
    {"scale-rewards", SCORED, "none"},
    {"lr", ROWS, "1e-3"},
    {"optimizer", ROWS, "lion"},
    {"optimizer-options", ROWS, "beta2=0.9"},
    {"lora-plus", ROWS, "4"},
    {"weight-decay", ROWS, "0.5"},
    {"schedule", ROWS, "constant"},
    {"warmup", ROWS, "2"},
    {"clip", ROWS, "0.01"},
    {"neftune", ROWS, "5"},
    {"seed", ROWS, "4"},
    {"checkpoint", ROWS, ""},
    {"compile", ROWS, ""},
    {"rank", ROWS, "2"},
    {"alpha", ROWS, "3"},
    {"rslora", ROWS, ""},
    {"dora", ROWS, ""},
    {"pissa", ROWS, ""},
    {"rank-pattern", ROWS, "v_proj=2"},
    {"alpha-pattern", ROWS, "v_proj=2"},
    {"layers", ROWS, "1"},
    {"dropout", ROWS, "0.3"},
    {"targets", ROWS, "q_proj"},
    {"train-tokens", ROWS, "a"},
    {"task", LABELED, "classify"},
    {"labels", LABELED " --task classify", "b,a"},
    {"add-tokens", ROWS, "xqz"},
    {"modules-to-save", ROWS, "norm"},
    {"full", ROWS, ""},
    {"adapter-dtype", ROWS, "bfloat16"},
    {"init-adapter", ROWS, "start/last"},
    {"patience", SPLIT, "2"},
    {"sample-prompt", SPLIT, "Tale"},
    {"general-text", ROWS, "none"},
    {"dtype", ROWS, "bfloat16"},
    {"quantize", ROWS, "4"},
};

/* Options about the command, the machine or files, which change no run, and how long it is. */
static const char *const others[] = {
    "out",    "overwrite",   "resume",     "json",   "config",  "device",         "threads",
    "pull",   "dry-run",     "max-memory", "help",   "profile", "batches",        "gpu-layers",
    "stream", "token-cache", "steps",      "epochs", "trace",   "reward-seconds", "sample-rows"};

enum { N = sizeof option_cases / sizeof *option_cases, N_OTHERS = sizeof others / sizeof *others };

static void every_option_has_a_case(void)
{
    const output o = weft_command(NULL, "train --help");
    int n = 0;
    for (const char *at = o.out; (at = strstr(at, " --")) != NULL; at++) {
        const char *line = at;
        while (line > o.out && line[-1] != '\n')
            line--;
        if (strspn(line, " ") > 6 || (line + strspn(line, " ") != at + 1 && line[2] != '-'))
            continue; /* within a text */
        char name[64] = "";
        const size_t length = strcspn(at + 3, " ,\n");
        snprintf(name, sizeof name, "%.*s", (int)length, at + 3);
        bool found = false;
        for (int i = 0; i < N; i++)
            found = found || strcmp(option_cases[i].name, name) == 0;
        for (int i = 0; i < N_OTHERS; i++)
            found = found || strcmp(others[i], name) == 0;
        if (!CHECK(found))
            CHECK_FAIL("--%s has no case here", name);
        n++;
    }
    CHECK(n >= N + N_OTHERS - 1);
}

static void every_option_changes_the_run(void)
{
    make_data();
    CHECK_EQ_INT(train(ROWS " --targets v_proj --lr 0.01", "start"), 0);
    CHECK_EQ_INT(train(ROWS " --full --lr 0.001", "taught"), 0);
    for (int i = 0; i < N; i++) {
        char options[512], out[32];
        snprintf(out, sizeof out, "run%d", i);
        snprintf(options, sizeof options, "%s --%s %s", option_cases[i].base, option_cases[i].name,
                 option_cases[i].value);
        char *effect = effect_of(out, train(options, out));
        if (!CHECK(strcmp(effect, "refused") != 0 && strcmp(effect, "failed") != 0))
            CHECK_FAIL("--%s %s: %s", option_cases[i].name, option_cases[i].value, effect);
        if (!CHECK(strcmp(effect, base_effect(option_cases[i].base)) != 0))
            CHECK_FAIL("--%s %s changes nothing", option_cases[i].name, option_cases[i].value);
        weft_free(effect);
    }
}

/* A run of three updates, resumed to five with another option. */
static char *resumed(const char *option, const char *value)
{
    const output o =
        shell_command(NULL,
                      "cd %s && rm -rf again && cp -a begun again && %s train --resume "
                      "--out again --steps 5 %s%s %s",
                      folder, check_built("cli/weft"), *option ? "--" : "", option, value);
    return effect_of("again", o.code);
}

static void every_option_of_a_resumed_run_changes_it_or_is_refused(void)
{
    CHECK_EQ_INT(train(SPLIT " --save-every 1", "begun"), 0);
    char *plain = resumed("", "");
    CHECK(strcmp(plain, "refused") != 0 && strcmp(plain, "failed") != 0);
    for (int i = 0; i < N; i++) {
        if (strcmp(option_cases[i].name, "save-every") == 0)
            continue; /* of the same checkpoints the newest two stay */
        char *effect = resumed(option_cases[i].name, option_cases[i].value);
        if (!CHECK(strcmp(effect, plain) != 0))
            CHECK_FAIL("--resume --%s %s changes nothing", option_cases[i].name,
                       option_cases[i].value);
        weft_free(effect);
    }
    /* The run's own values are accepted. */
    static const char *const same[] = {"--batch-size 2",   "--alpha 16",  "--rank 8",
                                       "--train-on turns", "--lr 0.0002", "--long keep-head"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *effect = resumed("", same[i]);
        if (!CHECK_STR(effect, plain))
            CHECK_FAIL("%s", same[i]);
        weft_free(effect);
    }
    weft_free(plain);
    const output o = shell_command(NULL, "cd %s && %s train --resume --out begun --steps 2", folder,
                                   check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "begun: steps: the run has made 3 updates already");
}

/* The memory of an update, and a completion with its loss mask. */
static void completions_are_measured_and_shown(void)
{
    make_data();
    const output o =
        shell_command(NULL, "cd %s && %s train %s " SCORED " --beta 0.1 --dry-run", folder,
                      check_built("cli/weft"), check_source("examples/storyteller"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "measured with the largest batch");
}

#define DAPO                                                                                       \
    "--completions completions.jsonl --objective dapo --batch-size 3 --steps 4 --lr 0.02 "         \
    "--num-generations 4"

/* Explicit zeros mean zero: options whose default is 0 give the same run as without them, and
 * dapo's mask another run. */
static void explicit_zeros_are_zeros(void)
{
    make_data();
    char *plain = effect_of("zeros0", train(SCORED, "zeros0"));
    char *zeros =
        effect_of("zeros1", train(SCORED " --beta 0 --delta 0 --epsilon-high 0 --mask-truncated 0",
                                  "zeros1"));
    CHECK_STR(zeros, plain);
    weft_free(zeros);
    weft_free(plain);
    plain = effect_of("zeros2", train(DAPO, "zeros2"));
    zeros = effect_of("zeros3", train(DAPO " --mask-truncated 0", "zeros3"));
    CHECK(strcmp(plain, zeros) != 0);
    weft_free(zeros);
    weft_free(plain);
    const output o = shell_command(
        NULL, "cd %s && %s train --resume --out zeros0 --beta 0 --mask-truncated 0 --steps 4",
        folder, check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 0);
}

/* Options that have no effect together with the others. */
static const struct {
    const char *options, *says;
} without_effect[] = {
    {ROWS " --val-split 0 --val-every 2", "--val-every needs --val-split or --val-data"},
    {ROWS " --weight-decay 0.5 --optimizer adam", "--weight-decay is not an option of this"},
    {ROWS " --val-split 0 --patience 2", "need --val-split or --val-data"},
    {ROWS " --beta 0.2",
     "--beta is not an option of this --objective, but of dpo, orpo, simpo, kto"},
    {ROWS " --desirable-weight 1",
     "--desirable-weight is not an option of this --objective, but of kto"},
    {PAIRS " --gamma 0.1", "--gamma is not an option of this --objective, but of simpo"},
    {PAIRS " --train-on everything", "--train-on everything is for --objective supervised"},
    {PAIRS " --task classify", "--objective is for --task generate"},
    {"--data pairs.jsonl --objective kto --micro-batch 1", "--micro-batch is not for kto"},
    {LABELED " --task classify --train-on last", "--train-on is for --task generate"},
    {LABELED " --task classify --train-on everything", "--train-on is for --task generate"},
    {LABELED " --task classify --general-text x", "--general-text is for --task generate"},
    {TEXTS " --general-text x", "--general-text is not for --task embed"},
    {"--batches x --general-text x", "--general-text is for --data and --completions"},
    {LABELED " --task classify --sample-prompt x", "--sample-prompt is for --task generate"},
    {LABELED " --task classify --system x", "no --system and no --template"},
    {LABELED " --task classify --template own.jinja", "no --system and no --template"},
    {LABELED " --labels a,b", "--labels is for --task classify"},
    {ROWS " --epochs 1", "--steps and --epochs exclude each other"},
    {ROWS " --resume --overwrite", "--resume and --overwrite exclude each other"},
    {ROWS " --batches x", "needs --data FILE or --batches FILE"},
    {"", "needs --data FILE, --batches FILE or --completions FILE"},
    {ROWS " --completions x", "--completions and --data exclude each other"},
    {"--batches x --completions x --objective grpo", "exclude each other"},
    {"--completions x", "--completions is for --objective grpo, dapo"},
    {ROWS " --objective rloo",
     "this --objective needs --reward for the prompts of --data, or --completions FILE"},
    {ROWS " --objective distill",
     "--objective distill needs --teacher MODEL, --teacher-system TEXT or --teacher-file FILE"},
    {ROWS " --teacher-system x", "--teacher-system is for --objective distill"},
    {DISTILL " --teacher-system x --pack", "--pack is not for --teacher-system"},
    {ROWS " --teacher x", "--teacher is for --objective distill"},
    {ROWS " --teacher-file x", "--teacher-file is for --objective distill"},
    {ROWS " --lmbda 0.5", "--lmbda is not an option of this --objective, but of distill"},
    {DISTILL " --teacher-file x --pack", "--pack is not for --teacher-file"},
    {DISTILL " --teacher-file x --lmbda 0.5", "--lmbda needs the teacher's model"},
    {DISTILL " --lmbda 0.5 --pack", "--pack is not for --lmbda"},
    {DISTILL " --top-k 4", "--top-k is for --reward or --lmbda"},
    {SCORED " --loss-type bnpo --micro-batch 1", "--micro-batch is not for kto"},
    {SCORED " --pack", "--pack is for --data: completions are not packed"},
    {SCORED " --val-data rows.jsonl", "--val-data is not for --completions"},
    {PROMPTS " --reward pattern:e --val-split 0.5", "held-out prompts are --val-data"},
    {PROMPTS " --reward pattern:e --reward pattern:e", "--reward: two are the same"},
    {SCORED " --length 64", "--length is for --data, not for --completions"},
    {SCORED " --patience 2", "need --val-split or --val-data"},
    {SPLIT " --patience 2 --val-every 0", "--patience needs --val-every above 0"},
    {ROWS " --val-split 0 --sample-prompt x", "it needs --val-split or --val-data"},
    {ROWS " --train-tokens a --modules-to-save lm_head", "these are not for --modules-to-save"},
    {ROWS " --full --rank 4", "--full trains the whole model: --rank is for adapters"},
    {ROWS " --full --lora-plus 2", "--full trains the whole model: --lora-plus is for adapters"},
    {"--batches x --val-split 0.1", "--val-split is for --data without --val-data"},
    {"--batches x --accumulate 2", "--batches makes one update of each batch"},
    {"--batches x --pack", "--pack is for --data"},
    {"--batches x --objective dpo", "--batches is for --objective supervised"},
    {"--batches x --task classify", "--task classify reads rows with text and label"},
    {ROWS " --gpu-layers 1", "--gpu-layers"},
    {ROWS " --stream", "--stream needs a --device beside the CPU"},
    {ROWS " --val-split 0.3 --val-data bad.jsonl", "--val-split is for --data without"},
    {ROWS " --init-adapter start/last --rank 4", "--rank cannot be combined with --init-adapter"},
    {ROWS " --init-adapter start/last --modules-to-save norm",
     "--modules-to-save cannot be combined with --init-adapter"},
    {"--batches x --length 64", "--length is for --data, not for --batches"},
    {"--batches x --batch-size 8", "--batch-size is for --data, not for --batches"},
    {"--batches x --mix 1", "--mix is for --data, not for --batches"},
    {"--batches x --train-on last", "--train-on is for --data, not for --batches"},
    {"--batches x --token-cache c", "--token-cache is for --data, not for --batches"},
};

static void options_without_an_effect_are_refused(void)
{
    for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++) {
        const output o = shell_command(
            NULL, "cd %s && %s train %s --out refused %s", folder, check_built("cli/weft"),
            check_source("examples/storyteller"), without_effect[i].options);
        check_one_line(&o, 2);
        CHECK_CONTAINS(o.err, without_effect[i].says);
    }
}

/* The teacher's tokenizer, its weights in --dry-run, and a stored teacher that is read again. */
static void teachers_are_checked(void)
{
    const char *weft = check_built("cli/weft");
    make_data();
    CHECK_EQ_INT(train(ROWS " --full --lr 0.001 --overwrite", "taught"), 0);
    output o = shell_command(
        NULL, "cd %s && %s train %s --out refused " ROWS " --objective distill --teacher %s",
        folder, weft, check_source("examples/storyteller"),
        check_source("tests/golden/models/embedder-qwen3"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "its tokenizer differs from the model's: id ");
    o = shell_command(
        NULL,
        "cd %s && for t in '' '--objective distill --teacher taught/last'; do %s train %s " ROWS
        " --dry-run --json $t | grep -o '\"weights\": [0-9]*'; done",
        folder, weft, check_source("examples/storyteller"));
    CHECK_EQ_INT(o.code, 0);
    long long alone = 0, both = 0;
    CHECK_EQ_INT(sscanf(o.out, "\"weights\": %lld \"weights\": %lld", &alone, &both), 2);
    CHECK(both > alone + alone / 2);
    CHECK_EQ_INT(train(DISTILL " --val-split 0.3 --overwrite --teacher-file top.safetensors", "a"),
                 0);
    CHECK_EQ_INT(train(ROWS " --val-split 0.3 --overwrite --objective distill --teacher-file "
                            "top.safetensors",
                       "b"),
                 0);
    o = shell_command(NULL,
                      "cd %s && cmp a/last/adapter_model.safetensors "
                      "b/last/adapter_model.safetensors",
                      folder);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL, "cd %s && %s train %s --out taught " DISTILL " --overwrite", folder,
                      weft, check_source("examples/storyteller"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "taught: it has taught/last, which is read");
}

/* Data with at least 200 samples is split by default; with fewer, options that need validation are
 * refused. */
static void large_data_is_validated_by_default(void)
{
    static const char *const refused[] = {"--val-every", "--patience"};
    for (int i = 0; i < 2; i++) {
        const output o = shell_command(NULL, "cd %s && %s train %s --out refused " ROWS " %s 2",
                                       folder, check_built("cli/weft"),
                                       check_source("examples/storyteller"), refused[i]);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, refused[i]);
        CHECK_CONTAINS(o.err, " needs --val-split or --val-data: the data has only 8 samples");
    }
    char begin[2048];
    snprintf(begin, sizeof begin,
             "cd %s && seq 200 | sed 's/.*/{\"text\": \"line &\"}/' >many.jsonl && %s train %s "
             "--data many.jsonl --steps 2",
             folder, check_built("cli/weft"), check_source("examples/storyteller"));
    output o = shell_command(NULL, "%s --out split", begin);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "many.jsonl: 190 samples");
    CHECK_CONTAINS(o.err, "val     10 samples");
    CHECK_CONTAINS(o.err, "held out of the data; --val-split 0 trains on all of it");
    CHECK_CONTAINS(o.out, "validation loss ");
    o = shell_command(NULL, "%s --out unsplit --val-split 0", begin);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "many.jsonl: 200 samples");
    CHECK(strstr(o.err, "held out") == NULL && strstr(o.out, "validation loss ") == NULL);
    static const char *const resumed[][3] = {
        {"split", "", "10 samples"},
        {"split", "--val-split 0", "--val-split: the run in split has the default"},
        {"unsplit", "", "200 samples"},
        {"unsplit", "--val-split 0.1", "has 0, and a resumed run keeps it"}};
    for (int i = 0; i < 4; i++) {
        o = shell_command(NULL, "cd %s && %s train --out %s --resume --steps 3 %s", folder,
                          check_built("cli/weft"), resumed[i][0], resumed[i][1]);
        CHECK_EQ_INT(o.code, i % 2);
        CHECK_CONTAINS(o.err, resumed[i][2]);
    }
}

/* The JSON object of --json comes from a run that a signal stopped, too. */
static void a_stopped_run_prints_its_object(void)
{
    output o = shell_command(
        NULL,
        "cd %s && { %s train %s --data story.txt --length 32 --steps 100000 --json --out stopped & "
        "p=$!; i=0; until [ -s stopped/metrics.jsonl ] || [ $i = 600 ]; do sleep 0.1; i=$((i + "
        "1)); "
        "done; kill -INT $p; wait $p; }",
        folder, check_built("cli/weft"), check_source("examples/storyteller"));
    CHECK_EQ_INT(o.code, 130);
    CHECK_CONTAINS(o.out, "{\"steps\": ");
    CHECK_CONTAINS(o.out, "\"stopped\": true, ");
    CHECK_STR(strchr(o.out, '}'), "}\n");
}

CHECK_MAIN("cli_train_options", CHECK_CASE(every_option_has_a_case),
           CHECK_CASE(every_option_changes_the_run),
           CHECK_CASE(every_option_of_a_resumed_run_changes_it_or_is_refused),
           CHECK_CASE(completions_are_measured_and_shown), CHECK_CASE(explicit_zeros_are_zeros),
           CHECK_CASE(options_without_an_effect_are_refused), CHECK_CASE(teachers_are_checked),
           CHECK_CASE(large_data_is_validated_by_default),
           CHECK_CASE(a_stopped_run_prints_its_object))
