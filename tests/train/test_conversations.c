/* tests/train/test_conversations.c -- samples of conversations, against transformers, and what is
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "weft/train.h"

/* Like ChatML, with the storyteller's end token as the end of a turn. */
static const char simple[] = "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
                             "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n{% endfor -%}"
                             "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";
enum { END = 4093 }; /* <|endoftext|> */

static weft_tokenizer *tokenizer;

static weft_status parse(const char *rows, const char *template, weft_dataset_options o,
                         weft_dataset **out)
{
    weft_chat *chat = NULL;
    *out = NULL;
    if (tokenizer == NULL &&
        !CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        return WEFT_IO;
    if (template != NULL)
        CHECK_OK(weft_chat_parse(template, strlen(template), "t", tokenizer, &chat));
    o.chat = chat;
    const weft_status status =
        weft_dataset_parse(rows, strlen(rows), "c.jsonl", tokenizer, &o, 0, out, NULL);
    weft_chat_free(chat);
    return status;
}

/* Sample i is the ids of `prompt` and `turn`, tokenized apart, and the end token. */
static void expect(const weft_dataset *d, int64_t i, const char *prompt, const char *turn)
{
    int32_t *before, *after;
    size_t n, m;
    const weft_sample s = weft_dataset_at(d, i);
    CHECK_OK(weft_tokenizer_encode(tokenizer, prompt, strlen(prompt), 0, &before, &n));
    CHECK_OK(weft_tokenizer_encode(tokenizer, turn, strlen(turn), 0, &after, &m));
    CHECK_EQ_INT(s.prompt, n);
    if (CHECK_EQ_INT(s.length, n + m + 1)) {
        CHECK_BYTES(s.ids, before, n * sizeof *before);
        CHECK_BYTES(s.ids + n, after, m * sizeof *after);
        CHECK_EQ_INT(s.ids[n + m], END);
    }
    weft_free(before);
    weft_free(after);
}

static const char two_turns[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": \"assistant\", "
    "\"content\": \"A fox.\"}, {\"role\": \"user\", \"content\": \"Where?\"}, "
    "{\"role\": \"assistant\", \"content\": \"Home.\"}]}\n";

static void every_assistant_turn_is_a_sample(void)
{
    weft_dataset *d;
    if (!CHECK_OK(parse(two_turns, simple, (weft_dataset_options){0}, &d)))
        return;
    if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2)) {
        expect(d, 0, "[user]Who?\n[assistant]", "A fox.");
        expect(d, 1, "[user]Who?\n[assistant]A fox.<|endoftext|>\n[user]Where?\n[assistant]",
               "Home.");
    }
    weft_dataset_free(d);
}

static void the_last_turn_or_everything_may_be_trained(void)
{
    weft_dataset *d;
    if (CHECK_OK(parse(two_turns, simple, (weft_dataset_options){.last_turn = true}, &d))) {
        if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1))
            expect(d, 0, "[user]Who?\n[assistant]A fox.<|endoftext|>\n[user]Where?\n[assistant]",
                   "Home.");
        weft_dataset_free(d);
    }
    if (CHECK_OK(parse(two_turns, simple, (weft_dataset_options){.learn_prompt = true}, &d))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1);
        CHECK_EQ_INT(weft_dataset_at(d, 0).prompt, 0);
        weft_dataset_free(d);
    }
}

static void refuse(const char *rows, const char *template, weft_status status, const char *message)
{
    weft_dataset *d;
    CHECK_STATUS(parse(rows, template, (weft_dataset_options){0}, &d), status);
    CHECK_CONTAINS(weft_error_message(), "c.jsonl:1");
    CHECK_CONTAINS(weft_error_message(), message);
    CHECK(d == NULL);
    weft_dataset_free(d);
}

static void malformed_conversations_are_refused(void)
{
    refuse(two_turns, NULL, WEFT_UNSUPPORTED, "no chat template");
    refuse("{\"messages\": []}", simple, WEFT_INVALID, "message of the assistant");
    refuse("{\"messages\": 5}", simple, WEFT_INVALID, "expected array");
    refuse("{\"messages\": [5]}", simple, WEFT_INVALID, "messages[0]");
    refuse("{\"messages\": [{\"content\": \"x\"}]}", simple, WEFT_INVALID, "messages[0].role");
    refuse("{\"messages\": [{\"role\": 1, \"content\": \"x\"}]}", simple, WEFT_INVALID,
           "expected string, got integer");
    refuse("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", simple, WEFT_INVALID,
           "message of the assistant");
    refuse("{\"conversations\": [{\"from\": \"cat\", \"value\": \"x\"}]}", simple, WEFT_INVALID,
           "expected system, human or gpt, got \"cat\"");
    refuse("{\"conversations\": [{\"from\": \"gpt\"}]}", simple, WEFT_INVALID, "value");
    /* A generation prompt that the rendered turn does not begin with. */
    refuse(two_turns, "{{ messages | length }}{{ '>' if add_generation_prompt else '' }}",
           WEFT_UNSUPPORTED, "message 2: the chat template renders the turn differently");
}

/* ---- real tokenizers ------------------------------------------------------------------------ */

static void compare(const weft_dataset *d, const weft__json *samples)
{
    size_t n = 0;
    CHECK_OK(weft__json_length(samples, &n));
    if (!CHECK_EQ_INT(weft_dataset_info_of(d).samples, n))
        return;
    for (size_t i = 0; i < n; i++) {
        weft__json sample, ids, id;
        int64_t prompt = -1, wanted = -1;
        size_t length = 0;
        CHECK_OK(weft__json_at(samples, i, &sample));
        CHECK_OK(weft__json_get_int(&sample, "prompt", &prompt));
        CHECK_OK(weft__json_get(&sample, "ids", &ids));
        CHECK_OK(weft__json_length(&ids, &length));
        const weft_sample s = weft_dataset_at(d, (int64_t)i);
        CHECK_EQ_INT(s.prompt, prompt);
        if (!CHECK_EQ_INT(s.length, length))
            continue;
        for (size_t k = 0; k < length; k++) {
            CHECK_OK(weft__json_at(&ids, k, &id));
            CHECK_OK(weft__json_as_int(&id, &wanted));
            CHECK_EQ_INT(s.ids[k], wanted);
        }
    }
}

static void compare_real(const char *name)
{
    char path[128], command[1024];
    snprintf(path, sizeof path, "tokenizers/%s.tar.xz", name);
    const char *archive = check_shared(path);
    if (!archive) {
        check_skip("../shared has no tokenizer %s", name);
        return;
    }
    const char *folder = check_temporary(name);
    snprintf(command, sizeof command, "mkdir -p '%s' && tar -xJf '%s' -C '%s'", folder, archive,
             folder);
    CHECK_EQ_INT(system(command), 0);
    snprintf(command, sizeof command, "%s/%s", folder, name);
    weft_tokenizer *real = NULL;
    weft_chat *chat = NULL;
    weft_dataset *d = NULL;
    weft__json_doc golden = {0};
    weft__json samples;
    if (CHECK_OK(weft_tokenizer_load(command, &real)) && CHECK_OK(weft_chat_load(command, &chat)) &&
        CHECK_OK(weft_dataset_load(check_source("tests/golden/train/conversations.jsonl"), real,
                                   &(weft_dataset_options){.chat = chat}, 0, &d, NULL)) &&
        CHECK_OK(weft__json_read(check_source("tests/golden/train/conversations.json"), &golden))) {
        const weft__json root = weft__json_root(&golden);
        CHECK_OK(weft__json_get(&root, name, &samples));
        compare(d, &samples);
    }
    weft__json_free(&golden);
    weft_dataset_free(d);
    weft_chat_free(chat);
    weft_tokenizer_free(real);
}

static void qwen3_conversations_equal_transformers(void)
{
    compare_real("qwen3");
}

static void qwen2_5_conversations_equal_transformers(void)
{
    compare_real("qwen2_5");
}

static void gemma3_conversations_equal_transformers(void)
{
    compare_real("gemma3");
}

CHECK_MAIN("conversations", CHECK_CASE(every_assistant_turn_is_a_sample),
           CHECK_CASE(the_last_turn_or_everything_may_be_trained),
           CHECK_CASE(malformed_conversations_are_refused),
           CHECK_CASE(qwen3_conversations_equal_transformers),
           CHECK_CASE(qwen2_5_conversations_equal_transformers),
           CHECK_CASE(gemma3_conversations_equal_transformers))
