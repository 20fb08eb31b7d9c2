/* tests/cli/test_cli_adapters.c -- adapters through the command: the options that make them, and
 * weft convert --adapter-format. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"

/* Options of the command line, compared with the saved adapter. */
static void adapters_are_made_as_options_say(void)
{
    char golden[1000], run[1000], path[1100], *text = NULL;
    snprintf(golden, sizeof golden, "%s", check_source("tests/golden"));
    snprintf(run, sizeof run, "%s", check_temporary("kinds"));
    const char *train = "train %s/models/qwen3 --batches %s/lora/lora-llama/trajectory.safetensors "
                        "--steps 1 --targets q_proj,v_proj --out %s %s";
    output o =
        weft_command(NULL, train, golden, golden, run,
                     "--rank 4 --dora --layers 1 --rank-pattern v_proj=2 --alpha-pattern v_proj=5");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "DoRA on 2 linears");
    snprintf(path, sizeof path, "%s/last/adapter_config.json", run);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
        CHECK_CONTAINS(text, "\"use_dora\": true");
        CHECK_CONTAINS(text, "\"layers_to_transform\": [1],");
        CHECK_CONTAINS(text, "\"v_proj\": 5");
        CHECK_CONTAINS(text, "\"v_proj\": 2");
    }
    weft_free(text);
    const struct {
        const char *options, *part;
    } wrong[] = {
        {"--layers 3", "--layers: the model has 2, got 3"},
        {"--rank-pattern v_proj", "--rank-pattern: 'v_proj': expected NAME=R"},
        {"--rank-pattern v_proj=2.5", "--rank-pattern: 'v_proj=2.5': expected NAME=R"},
        {"--alpha-pattern v_proj=0", "--alpha-pattern: 'v_proj=0': expected NAME=X"},
        {"--rank-pattern v_proj=2,k_prj=3", "the rank pattern 'k_prj' fits no adapted module"},
        {"--alpha-pattern 7.v_proj=3", "the alpha pattern '7.v_proj' fits no adapted module"},
        {"--pissa --rank 65", "PiSSA: expected a rank of at most 64"},
        {"--pissa --dora", "PiSSA and DoRA"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o = weft_command(NULL, train, golden, golden, check_temporary("none"), wrong[i].options);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, wrong[i].part);
    }
}

/* Trained tokens, noise and 8-bit moments, saved and used by other commands. */
static void methods_of_training_go_together(void)
{
    char run[1000], path[1100], *text = NULL;
    snprintf(run, sizeof run, "%s", check_temporary("methods"));
    const char *train = "train storyteller --data %s --steps 2 --length 16 -b 2 --rank 32 --out %s "
                        "--neftune 5 --optimizer adamw8bit --train-tokens %s";
    const char *data = check_source("examples/data/shakespeare.txt");
    output o = weft_command(NULL, train, data, run, "a,b");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "linears and rows of the embedding");
    snprintf(path, sizeof path, "%s/last/adapter_config.json", run);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        CHECK_CONTAINS(text, "\"trainable_token_indices\": {\n    \"embed_tokens\": [");
    weft_free(text);
    snprintf(path, sizeof path, "%s/run.json", run);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
        CHECK_CONTAINS(text, "\"neftune\": 5");
        CHECK_CONTAINS(text, "adamw8bit");
    }
    weft_free(text);
    o = weft_command(NULL, "generate storyteller --adapter %s/last -p Once -n 4", run);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "train --out %s --resume --train-tokens a", run);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--train-tokens");
    o = weft_command(NULL, train, data, check_temporary("none"), "unheard-of");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--train-tokens: the vocabulary has no token 'unheard-of'");
    o = weft_command(NULL, "train storyteller --data %s --neftune -1", data);
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "neftune");
}

/* A folder has the weights of one format, that of its configuration. */
static void expect_weights(const char *folder, const char *name)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapters.safetensors",
                                        "adapter_model.bin"};
    char path[1200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK_EQ_INT(access(path, F_OK) == 0, strcmp(names[i], name) == 0);
    }
}

/* From PEFT's format to the two others and back. */
static void adapters_are_converted(void)
{
    char golden[1000], there[1000], back[1000];
    snprintf(golden, sizeof golden, "%s", check_source("tests/golden"));
    snprintf(there, sizeof there, "%s", check_temporary("there.gguf"));
    snprintf(back, sizeof back, "%s", check_temporary("back"));
    const char *convert = "convert %s %s --adapter-format %s --base %s/models/llama";
    char initial[1100];
    snprintf(initial, sizeof initial, "%s/lora/lora-llama/final", golden);
    output o = weft_command(NULL, convert, initial, there, "gguf", golden);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "an adapter for 4 modules");
    o = weft_command(NULL, convert, initial, there, "gguf", golden);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "there.gguf: is there already; --force replaces it");
    char force[1200];
    snprintf(force, sizeof force, "%s --force", convert);
    o = weft_command(NULL, force, initial, there, "gguf", golden);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "convert %s %s --adapter-format mlx", there, back);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "does not name its base: give --base MODEL");
    o = weft_command(NULL, convert, there, back, "mlx", golden);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "info %s/models/llama --adapter %s", golden, back);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "4 linears");
    expect_weights(back, "adapters.safetensors");
    char path[1200], *text = NULL;
    snprintf(path, sizeof path, "%s/adapter_model.bin", back);
    CHECK_OK(weft_file_write(path, "old", 3));
    o = weft_command(NULL, force, there, back, "peft", golden);
    CHECK_EQ_INT(o.code, 0);
    expect_weights(back, "adapter_model.safetensors");
    o = weft_command(NULL, force, back, back, "mlx", golden); /* in place */
    CHECK_EQ_INT(o.code, 1);
    expect_weights(back, "adapter_model.safetensors");
    /* A chat template goes from folder to folder. */
    static const char template[] = "{{ messages[0].content }}";
    snprintf(path, sizeof path, "%s/chat_template.jinja", back);
    CHECK_OK(weft_file_write(path, template, strlen(template)));
    snprintf(there, sizeof there, "%s", check_temporary("there-mlx"));
    o = weft_command(NULL, convert, back, there, "mlx", golden);
    CHECK_EQ_INT(o.code, 0);
    snprintf(path, sizeof path, "%s/chat_template.jinja", there);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        CHECK_STR(text, template);
    weft_free(text);
    /* The template of an earlier adapter in the folder is removed. */
    o = weft_command(NULL, force, initial, there, "mlx", golden);
    CHECK_EQ_INT(o.code, 0);
    CHECK(access(path, F_OK) != 0);
}

/* --adapter as often as there are adapters. */
static void adapters_are_added_with_weights(void)
{
    char golden[1000];
    snprintf(golden, sizeof golden, "%s", check_source("tests/golden"));
    output o = weft_command(NULL,
                            "info %s/models/qwen3 --adapter %s/lora/lora-qwen3/final "
                            "--adapter %s/lora/lora-qwen3-rs/final:0.5",
                            golden, golden, golden);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "14 linears");
    o = weft_command(NULL,
                     "info %s/models/qwen3 --adapter %s/lora/lora-qwen3-dora/final "
                     "--adapter %s/lora/lora-qwen3-rs/final:0.5",
                     golden, golden, golden);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "DoRA");
}

static double loss_of_peft(void)
{
    json_object *root =
        json_object_from_file(check_source("tests/golden/lora/lora-llama-chat/expected.json"));
    const double loss = json_object_get_double(json_object_object_get(root, "loss"));
    json_object_put(root);
    return loss;
}

/* A base without tokenizer and chat template, and an adapter that has both. PEFT generates this
 * answer (tests/golden/lora/chat_adapter.py). */
static void adapters_bring_tokenizer_and_chat_template(void)
{
    static const char answer[] = "A fox and two geese.", question[] = "Who came to the wood?";
    char of[1100];
    char *golden = weft_strdup(check_source("tests/golden"));
    snprintf(of, sizeof of, "%s/models/llama --adapter %s/lora/lora-llama-chat", golden, golden);
    output o = weft_command(NULL, "chat %s -p '%s' --temperature 0", of, question);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, answer);
    CHECK(strstr(o.out, "turn") == NULL);
    o = weft_command(NULL, "generate %s --batch %s --temperature 0 -n 60", of,
                     text_file("batch.jsonl", "{\"messages\": [{\"role\": \"user\", "
                                              "\"content\": \"Who came to the wood?\"}]}\n"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, answer);
    o = weft_command(NULL, "eval %s --task exact --chat --json --data %s", of,
                     text_file("exact.jsonl", "{\"prompt\": \"Who came to the wood?\", "
                                              "\"answer\": \"A fox and two geese.\"}\n"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"exact\": 1,");
    /* The loss of the trained answer, rendered by the adapter's template. */
    o = weft_command(NULL, "eval %s --json --data %s", of,
                     text_file("chat.jsonl",
                               "{\"messages\": [{\"role\": \"user\", \"content\": \"Who came to "
                               "the wood?\"}, {\"role\": \"assistant\", \"content\": \"A fox "
                               "and two geese.\"}]}\n"));
    double loss = 1;
    const char *at = CHECK_EQ_INT(o.code, 0) ? strstr(o.out, "\"loss\": ") : NULL;
    if (CHECK(at != NULL && sscanf(at + 8, "%lf", &loss) == 1))
        CHECK_RELATIVE(loss, loss_of_peft(), 1e-5);
    weft_free(golden);
}

CHECK_MAIN("cli_adapters", CHECK_CASE(adapters_are_made_as_options_say),
           CHECK_CASE(methods_of_training_go_together), CHECK_CASE(adapters_are_converted),
           CHECK_CASE(adapters_are_added_with_weights),
           CHECK_CASE(adapters_bring_tokenizer_and_chat_template))
