/* tests/train/test_conversations.c -- samples of conversations against transformers, and refused
 * input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/unpacked.h"
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

/* A piece of a sample: a text whose tokens have this weight. */
typedef struct piece {
    const char *text;
    float weight;
} piece;

/* Sample i is the ids of these pieces, each tokenized apart. Nothing precedes the first token, so
 * it is not trained. */
static void expect(const weft_dataset *d, int64_t i, const piece *pieces, int n_pieces)
{
    const weft_sample s = weft_dataset_at(d, i);
    int64_t at = 0;
    for (int p = 0; p < n_pieces; p++) {
        int32_t *ids;
        size_t n = 0;
        const char *text = pieces[p].text;
        CHECK_OK(weft_tokenizer_encode(tokenizer, text, strlen(text), 0, &ids, &n));
        if (CHECK(at + (int64_t)n <= s.length)) {
            CHECK_BYTES(s.ids + at, ids, n * sizeof *ids);
            for (size_t k = 0; k < n; k++)
                CHECK_CLOSE(s.weights[at + (int64_t)k], at + (int64_t)k > 0 ? pieces[p].weight : 0,
                            0);
        }
        at += (int64_t)n;
        weft_free(ids);
    }
    CHECK_EQ_INT(s.length, at);
}

#define EXPECT(d, i, ...)                                                                          \
    expect(d, i, (const piece[]){__VA_ARGS__},                                                     \
           (int)(sizeof((const piece[]){__VA_ARGS__}) / sizeof(piece)))

static const char two_turns[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": \"assistant\", "
    "\"content\": \"A fox.\"}, {\"role\": \"user\", \"content\": \"Where?\"}, "
    "{\"role\": \"assistant\", \"content\": \"Home.\"}]}\n";

/* Writes the mark [old] into all assistant turns but the last. */
static const char unstable[] =
    "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
    "{{ '[old]' if m.role == 'assistant' and not loop.last else '' }}"
    "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n{% endfor -%}"
    "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";

static void every_assistant_turn_is_trained(void)
{
    weft_dataset *d;
    if (!CHECK_OK(parse(two_turns, simple, (weft_dataset_options){0}, &d)))
        return;
    if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1))
        EXPECT(d, 0, {"[user]Who?\n[assistant]", 0}, {"A fox.<|endoftext|>", 1},
               {"\n[user]Where?\n[assistant]", 0}, {"Home.<|endoftext|>", 1});
    weft_dataset_free(d);
}

static void turns_that_are_rendered_differently_later_are_samples_of_a_group(void)
{
    weft_dataset *d;
    char rows[2 * sizeof two_turns];
    snprintf(rows, sizeof rows, "%s%s", two_turns, two_turns);
    if (!CHECK_OK(parse(rows, unstable, (weft_dataset_options){0}, &d)))
        return;
    if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 4)) {
        EXPECT(d, 0, {"[user]Who?\n[assistant]", 0}, {"A fox.<|endoftext|>", 1});
        EXPECT(d, 1,
               {"[user]Who?\n[assistant]A fox.[old]<|endoftext|>\n[user]Where?\n[assistant]", 0},
               {"Home.<|endoftext|>", 1});
        CHECK(weft_dataset_at(d, 0).group != 0);
        CHECK_EQ_INT(weft_dataset_at(d, 1).group, weft_dataset_at(d, 0).group);
        CHECK(weft_dataset_at(d, 2).group != weft_dataset_at(d, 0).group);
    }
    weft_dataset_free(d);
}

/* Shortened templates of models on the hub: the trained tokens of an answer without a question, and
 * of content that the template renders only as a text or only as a list. */
static void templates_that_need_questions_lists_or_ends_are_trained(void)
{
    static const char welcome[] =
        "{\"messages\": [{\"role\": \"assistant\", \"content\": \"Hello.\"}, {\"role\": \"user\", "
        "\"content\": \"Who?\"}, {\"role\": \"assistant\", \"content\": \"A fox.\"}]}\n";
    static const char parts[] =
        "{\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"Hel\"}, {\"type\": \"text\", \"text\": \"lo.\"}]}, {\"role\": \"user\", \"content\": "
        "\"Who?\"}, {\"role\": \"assistant\", \"content\": \"A fox.\"}]}\n";
    /* Qwen 3.5: fails without a question. */
    static const char asks[] =
        "{%- if messages | selectattr('role', 'equalto', 'user') | list | length == 0 -%}"
        "{{ raise_exception('no question') }}{%- endif -%}"
        "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
        "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n{% endfor -%}"
        "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";
    /* SmolVLM: renders lists only. */
    static const char lists[] =
        "{%- for m in messages -%}[{{ m.role }}]{% for part in m.content %}"
        "{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
        "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n{% endfor -%}"
        "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";
    /* Llama 2: the generation prompt is empty. */
    static const char empty[] =
        "{%- for m in messages -%}{%- if m.role == 'user' -%}[INST]{{ m.content }}[/INST]"
        "{%- else -%}{{ m.content }}<|endoftext|>{%- endif -%}{%- endfor -%}";
    static const struct {
        const char *row, *template, *before, *between;
    } cases[] = {
        {welcome, simple, "[assistant]", "\n[user]Who?\n[assistant]"},
        {parts, simple, "[assistant]", "\n[user]Who?\n[assistant]"},
        {welcome, asks, "[assistant]", "\n[user]Who?\n[assistant]"},
        {welcome, lists, "[assistant]", "\n[user]Who?\n[assistant]"},
        {parts, lists, "[assistant]", "\n[user]Who?\n[assistant]"},
        {welcome, empty, "", "[INST]Who?[/INST]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_dataset *d;
        if (!CHECK_OK(parse(cases[i].row, cases[i].template, (weft_dataset_options){0}, &d)))
            continue;
        if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1))
            EXPECT(d, 0, {cases[i].before, 0}, {"Hello.<|endoftext|>", 1}, {cases[i].between, 0},
                   {"A fox.<|endoftext|>", 1});
        weft_dataset_free(d);
    }
}

/* GLM's template writes no end token: the model ends its answer with the token that begins the next
 * message. */
static void the_token_that_begins_a_question_ends_a_turn(void)
{
    static const char glm[] =
        "{%- for m in messages -%}{{ '<|im_start|>[user]' if m.role == 'user' else '[assistant]' "
        "}}"
        "{{ m.content }}{% endfor -%}{%- if add_generation_prompt -%}[assistant]{%- endif -%}";
    weft_dataset *d;
    if (!CHECK_OK(parse(two_turns, glm, (weft_dataset_options){0}, &d)))
        return;
    if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1))
        EXPECT(d, 0, {"<|im_start|>[user]Who?[assistant]", 0}, {"A fox.<|im_start|>", 1},
               {"[user]Where?[assistant]", 0}, {"Home.<|im_start|>", 1});
    weft_dataset_free(d);
}

static void messages_may_have_weights(void)
{
    static const char row[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": \"assistant\", "
        "\"content\": \"A fox.\", \"weight\": 0}, {\"role\": \"user\", \"content\": \"Where?\"}, "
        "{\"role\": \"assistant\", \"content\": \"Home.\", \"weight\": 0.5}]}\n";
    weft_dataset *d;
    if (!CHECK_OK(parse(row, simple, (weft_dataset_options){0}, &d)))
        return;
    if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1))
        EXPECT(d, 0, {"[user]Who?\n[assistant]A fox.<|endoftext|>\n[user]Where?\n[assistant]", 0},
               {"Home.<|endoftext|>", 0.5f});
    weft_dataset_free(d);
}

static void the_last_turn_or_everything_may_be_trained(void)
{
    weft_dataset *d;
    if (CHECK_OK(parse(two_turns, simple, (weft_dataset_options){.last_turn = true}, &d))) {
        if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1))
            EXPECT(d, 0,
                   {"[user]Who?\n[assistant]A fox.<|endoftext|>\n[user]Where?\n[assistant]", 0},
                   {"Home.<|endoftext|>", 1});
        weft_dataset_free(d);
    }
    if (CHECK_OK(parse(two_turns, simple, (weft_dataset_options){.learn_prompt = true}, &d))) {
        const weft_dataset_info info = weft_dataset_info_of(d);
        CHECK_EQ_INT(info.samples, 1);
        CHECK_EQ_INT(info.targets, info.tokens - 1);
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
    refuse("{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\", \"weight\": -1}]}",
           simple, WEFT_INVALID,
           "messages[0]: weight: expected a finite number of at least 0, got -1");
    refuse("{\"conversations\": [{\"from\": \"gpt\"}]}", simple, WEFT_INVALID, "value");
    /* A generation prompt that the rendered turn does not begin with. */
    refuse(two_turns, "{{ messages | length }}{{ '>' if add_generation_prompt else '' }}",
           WEFT_UNSUPPORTED, "message 2: the chat template renders the turn differently");
}

/* ---- real tokenizers ------------------------------------------------------------------------ */

static void compare_list(const weft__json *sample, const char *key, const weft_sample *s)
{
    weft__json list, item;
    size_t n = 0;
    double value = 0;
    CHECK_OK(weft__json_get(sample, key, &list));
    CHECK_OK(weft__json_length(&list, &n));
    if (!CHECK_EQ_INT(s->length, n))
        return;
    for (size_t k = 0; k < n; k++) {
        CHECK_OK(weft__json_at(&list, k, &item));
        CHECK_OK(weft__json_as_number(&item, &value));
        CHECK_CLOSE(strcmp(key, "ids") == 0 ? (double)s->ids[k] : (double)s->weights[k], value, 0);
    }
}

static void compare(const weft_dataset *d, const weft__json *samples)
{
    size_t n = 0;
    CHECK_OK(weft__json_length(samples, &n));
    if (!CHECK_EQ_INT(weft_dataset_info_of(d).samples, n))
        return;
    for (size_t i = 0; i < n; i++) {
        weft__json sample;
        const weft_sample s = weft_dataset_at(d, (int64_t)i);
        CHECK_OK(weft__json_at(samples, i, &sample));
        compare_list(&sample, "ids", &s);
        compare_list(&sample, "weights", &s);
    }
}

/* Whether a token is made of line breaks. */
static bool is_line_break(const weft_tokenizer *real, int32_t id)
{
    char *text = NULL;
    CHECK_OK(weft_tokenizer_decode(real, &id, 1, 0, &text, NULL));
    const bool is = text != NULL && strcmp(text, "\n") == 0;
    weft_free(text);
    return is;
}

/* TRL has the same ids, and trains the same tokens except for line breaks around turns, which are
 * not generated. */
static void compare_trl(const weft_dataset *d, const weft__json *samples,
                        const weft_tokenizer *real)
{
    size_t n = 0;
    CHECK_OK(weft__json_length(samples, &n));
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, n);
    for (size_t i = 0; i < n; i++) {
        weft__json sample, ids, weights, item;
        const weft_sample s = weft_dataset_at(d, (int64_t)i);
        size_t length = 0;
        int64_t id = -1, trained = -1, more = 0;
        CHECK_OK(weft__json_at(samples, i, &sample));
        CHECK_OK(weft__json_get(&sample, "ids", &ids));
        CHECK_OK(weft__json_get(&sample, "weights", &weights));
        CHECK_OK(weft__json_length(&ids, &length));
        if (!CHECK(s.length <= (int64_t)length))
            return;
        for (int64_t k = 0; k < s.length; k++) {
            CHECK_OK(weft__json_at(&ids, (size_t)k, &item));
            CHECK_OK(weft__json_as_int(&item, &id));
            CHECK_OK(weft__json_at(&weights, (size_t)k, &item));
            CHECK_OK(weft__json_as_int(&item, &trained));
            CHECK_EQ_INT(s.ids[k], id);
            if (s.weights[k] != 0)
                CHECK_EQ_INT(trained, 1);
            else if (trained)
                more += CHECK(is_line_break(real, s.ids[k]));
        }
        CHECK(more <= 4); /* two a turn */
    }
}

/* Compares the samples of a file of rows, with the tokenizer and template of a folder, with member
 * `key`. */
static void compare_file(const char *folder, const char *file, const char *key)
{
    weft_tokenizer *real = NULL;
    weft_chat *chat = NULL;
    weft_dataset *d = NULL;
    weft__json_doc golden = {0};
    weft__json samples, trl, masks;
    char path[256];
    snprintf(path, sizeof path, "tests/golden/train/%s.jsonl", file);
    if (CHECK_OK(weft_tokenizer_load(folder, &real)) && CHECK_OK(weft_chat_load(folder, &chat)) &&
        CHECK_OK(weft_dataset_load(check_source(path), real, &(weft_dataset_options){.chat = chat},
                                   0, &d, NULL)) &&
        CHECK_OK(weft__json_read(check_source("tests/golden/train/conversations.json"), &golden))) {
        const weft__json root = weft__json_root(&golden);
        CHECK_OK(weft__json_get(&root, key, &samples));
        compare(d, &samples);
        CHECK_OK(weft__json_get(&root, "trl", &trl));
        CHECK_OK(weft__json_find(&trl, key, &masks));
        if (masks.value)
            compare_trl(d, &masks, real);
    }
    weft__json_free(&golden);
    weft_dataset_free(d);
    weft_chat_free(chat);
    weft_tokenizer_free(real);
}

static void compare_real(const char *name, bool plain, bool tools, bool kwargs)
{
    char key[64];
    const char *folder = unpacked_tokenizer(name);
    if (!folder)
        return;
    if (plain)
        compare_file(folder, "conversations", name);
    snprintf(key, sizeof key, "%s_tools", name);
    if (tools)
        compare_file(folder, "conversations_tools", key);
    snprintf(key, sizeof key, "%s_kwargs", name);
    if (kwargs)
        compare_file(folder, "conversations_kwargs", key);
}

static void qwen3_conversations_equal_transformers(void)
{
    compare_real("qwen3", true, true, true);
}

static void qwen2_5_conversations_equal_transformers(void)
{
    compare_real("qwen2_5", true, true, false);
}

/* Gemma's template takes no tools. */
static void gemma3_conversations_equal_transformers(void)
{
    compare_real("gemma3", true, false, false);
}

/* Llama's template writes the date, which the row gives. */
static void llama3_2_conversations_equal_transformers(void)
{
    compare_real("llama3_2", false, false, true);
}

CHECK_MAIN("conversations", CHECK_CASE(every_assistant_turn_is_trained),
           CHECK_CASE(turns_that_are_rendered_differently_later_are_samples_of_a_group),
           CHECK_CASE(templates_that_need_questions_lists_or_ends_are_trained),
           CHECK_CASE(the_token_that_begins_a_question_ends_a_turn),
           CHECK_CASE(messages_may_have_weights),
           CHECK_CASE(the_last_turn_or_everything_may_be_trained),
           CHECK_CASE(malformed_conversations_are_refused),
           CHECK_CASE(qwen3_conversations_equal_transformers),
           CHECK_CASE(qwen2_5_conversations_equal_transformers),
           CHECK_CASE(gemma3_conversations_equal_transformers),
           CHECK_CASE(llama3_2_conversations_equal_transformers))
