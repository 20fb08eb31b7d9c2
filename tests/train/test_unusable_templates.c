/* tests/train/test_unusable_templates.c -- chat templates that are malformed or have unsupported
 * tags: calls that need the template fail and name the location; raw prompts and plain rows
 * work. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/engine.h"
#include "weft/train.h"

static const struct {
    const char *name, *source, *message;
    weft_status status;
} templates[] = {
    {"include", "{{ 'a' }}\n{% include 'b' %}",
     "chat_template.jinja: line 2: the tag \"include\" is unsupported", WEFT_UNSUPPORTED},
    {"trans", "\n\n{% trans %}a{% endtrans %}",
     "chat_template.jinja: line 3: the tag \"trans\" is unsupported", WEFT_UNSUPPORTED},
    {"open", "\n{{ messages", "chat_template.jinja: line 2: the tag has no end", WEFT_INVALID},
};

/* The storyteller with another template. */
static const char *make_folder(const char *name, const char *source)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    char path[600], from[600];
    const char *folder = check_temporary(name);
    CHECK(mkdir(folder, 0700) == 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        snprintf(from, sizeof from, "%s/%s", check_source("examples/storyteller"), files[i]);
        CHECK(symlink(from, path) == 0);
    }
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    CHECK_OK(weft_file_write(path, source, strlen(source)));
    return folder;
}

static const struct {
    const char *row;
    weft_examples examples;
    bool plain; /* does not use the template */
} rows[] = {
    {"{\"text\": \"A fox.\"}", WEFT_EXAMPLES_SINGLE, true},
    {"{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}", WEFT_EXAMPLES_SINGLE, true},
    {"{\"instruction\": \"Who?\", \"output\": \"A fox.\"}", WEFT_EXAMPLES_SINGLE, false},
    {"{\"question\": \"Who?\", \"answer\": \"A fox.\"}", WEFT_EXAMPLES_SINGLE, false},
    {"{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": \"assistant\", "
     "\"content\": \"A fox.\"}]}",
     WEFT_EXAMPLES_SINGLE, false},
    {"{\"prompt\": [{\"role\": \"user\", \"content\": \"Who?\"}], \"chosen\": [{\"role\": "
     "\"assistant\", \"content\": \"A fox.\"}], \"rejected\": [{\"role\": \"assistant\", "
     "\"content\": \"No.\"}]}",
     WEFT_EXAMPLES_PAIRS, false},
};

static void rows_that_need_the_template_fail(void)
{
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const char *folder = make_folder(templates[i].name, templates[i].source);
        weft_tokenizer *tokenizer = NULL;
        weft_chat *chat = NULL;
        CHECK_OK(weft_tokenizer_load(folder, &tokenizer));
        if (CHECK_OK(weft_chat_load(folder, &chat))) {
            CHECK_STATUS(weft_chat_check(chat, NULL), templates[i].status);
            CHECK_CONTAINS(weft_error_message(), templates[i].message);
        }
        for (size_t k = 0; k < sizeof rows / sizeof *rows && chat && tokenizer; k++) {
            const weft_dataset_options o = {.chat = chat, .examples = rows[k].examples};
            weft_dataset *d = NULL;
            const weft_status status = weft_dataset_parse(rows[k].row, strlen(rows[k].row),
                                                          "a.jsonl", tokenizer, &o, 0, &d, NULL);
            CHECK_STATUS(status, rows[k].plain ? WEFT_OK : templates[i].status);
            if (!rows[k].plain)
                CHECK_CONTAINS(weft_error_message(), templates[i].message);
            weft_dataset_free(d);
        }
        weft_chat_free(chat);
        weft_tokenizer_free(tokenizer);
    }
}

static void engines_generate_from_raw_prompts(void)
{
    const weft_generate_options few = {.max_tokens = 2};
    const weft_engine_request raw = {.prompt = "Once", .options = &few};
    const weft_engine_request chat = {.messages = "[{\"role\": \"user\", \"content\": \"Hi\"}]",
                                      .options = &few};
    weft_engine *engine = NULL;
    const char *folder = make_folder("engine", templates[0].source);
    if (!CHECK_OK(weft_engine_load(folder, NULL, &engine)))
        return;
    CHECK_OK(weft_engine_generate(engine, &raw, NULL, NULL));
    CHECK_STATUS(weft_engine_generate(engine, &chat, NULL, NULL), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), templates[0].message);
    weft_engine_free(engine);
}

CHECK_MAIN("unusable_templates", CHECK_CASE(rows_that_need_the_template_fail),
           CHECK_CASE(engines_generate_from_raw_prompts))
