/* tests/train/test_data_malformed.c -- malformed data files, and the message for each: location,
 * what was expected and what was found. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/train.h"

static const char template[] = "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
                               "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n"
                               "{% endfor -%}"
                               "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";

typedef struct malformed {
    const char *name, *data, *message;
} malformed;

#define TEN "0123456789"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define USER "{\"role\": \"user\", \"content\": \"x\"}"
#define GPT "{\"role\": \"assistant\", \"content\": \"y\"}"

static const malformed files[] = {
    /* JSON lines */
    {"a.jsonl", "{\"text\": \"fine\"}\n{\"text\": \n", "a.jsonl:2: column "},
    {"a.jsonl", "{\"text\": \"fine\"}\n\n[1]\n", "a.jsonl:3: expected object, got array"},
    {"a.jsonl", "5\n", "a.jsonl:1: expected object, got integer"},
    {"a.jsonl", "{\"text\": 5}\n", "a.jsonl:1: text: expected string, got integer"},
    {"a.jsonl", "{\"text\": null}\n", "a.jsonl:1: expected \"text\", \"prompt\" and"},
    {"a.jsonl", "{\"text\": null}\n", "and \"answer\", got \"text\": null"},
    {"a.jsonl", "{}\n", "and \"answer\", got no members"},
    {"a.jsonl", "{\"" LONG "\": 1}\n", "and \"answer\", got other members"},
    {"a.jsonl", "{\"q\": 1, \"" LONG "\": 1}\n", "and \"answer\", got \"q\", ..."},
    {"a.jsonl", "{\"text\": \"\xff\"}\n", "a.jsonl:1: "},
    {"a.jsonl", "{'text': 'x'}\n", "a.jsonl:1: column "},
    {"a.jsonl", "{\"text\": \"a\"} {\"text\": \"b\"}\n", "a.jsonl:1: column "},
    {"a.jsonl", "{\"Text\": \"a\"}\n", "a.jsonl:1: expected \"text\""},
    {"a.jsonl", "", "a.jsonl: the dataset is empty"},
    {"a.jsonl", "{\"text\": \"\"}\n", "a.jsonl: there is nothing to learn in its 1 samples"},
    /* prompts and completions */
    {"b.jsonl", "{\"prompt\": \"x\", \"completon\": \"y\"}",
     "b.jsonl:1: expected \"completion\" beside \"prompt\", got \"prompt\", \"completon\""},
    {"b.jsonl", "{\"completion\": \"x\"}", "b.jsonl:1: expected \"prompt\" beside \"completion\""},
    {"b.jsonl", "{\"prompt\": \"x\", \"completion\": [" GPT "]}",
     "completion: expected string, got"},
    {"b.jsonl", "{\"prompt\": [" USER "], \"completion\": \"x\"}", "expected array, got string"},
    {"b.jsonl", "{\"prompt\": [\"x\"], \"completion\": [" GPT "]}", "prompt[0]: expected object"},
    {"b.jsonl", "{\"instruction\": \"x\"}",
     "b.jsonl:1: expected \"output\" beside \"instruction\""},
    {"b.jsonl", "{\"instruction\": \"x\", \"output\": 7}", "b.jsonl:1: output: expected string"},
    {"b.jsonl", "{\"question\": {}, \"answer\": \"x\"}", "b.jsonl:1: question: expected string"},
    {"b.jsonl", "{\"chosen\": \"x\", \"rejected\": \"y\", \"prompt\": \"z\"}",
     "b.jsonl:1: the row is a preference pair (\"chosen\", \"rejected\")"},
    /* conversations */
    {"c.jsonl", "{\"messages\": []}", "c.jsonl:1: messages: expected a message of the assistant"},
    {"c.jsonl", "{\"messages\": {}}", "c.jsonl:1: messages: expected array, got object"},
    {"c.jsonl", "{\"messages\": [" USER "]}", "messages: expected a message of the assistant"},
    {"c.jsonl", "{\"messages\": [" USER ", {\"content\": \"y\"}]}", "messages[1].role"},
    {"c.jsonl", "{\"messages\": [" USER ", {\"role\": 5}]}", "messages[1].role: expected string"},
    {"c.jsonl", "{\"messages\": [" USER ", {\"role\": \"assistant\", \"weight\": \"1\"}]}",
     "messages[1].weight: expected number, got string"},
    {"c.jsonl", "{\"messages\": \"[{]\"}", "c.jsonl:1: column "},
    {"c.jsonl", "{\"messages\": [" USER ", " GPT "], \"tools\": 5}", "c.jsonl:1: tools: expected"},
    {"c.jsonl", "{\"messages\": [" USER ", " GPT "], \"tools\": \"{\"}", "c.jsonl:1: tools: "},
    {"c.jsonl", "{\"messages\": [" USER ", " GPT "], \"chat_template_kwargs\": [1]}",
     "chat_template_kwargs: expected a JSON object, got array"},
    {"c.jsonl", "{\"conversations\": [{\"from\": \"cat\", \"value\": \"x\"}]}",
     "expected system, human or gpt, got \"cat\""},
    {"c.jsonl", "{\"conversations\": [{\"from\": \"gpt\"}]}", "conversations[0].value"},
    /* JSON arrays */
    {"d.json", "[{\"text\": \"a\"}, {\"text\": \"b\"}", "d.json: column "},
    {"d.json", "[{\"text\": \"a\"}, 5]", "d.json: row 2: expected object, got integer"},
    {"d.json", "{\n  \"data\": [{\"text\": \"a\"}]\n}", "d.json:1: column "},
    {"d.json", "[]", "d.json: the dataset is empty"},
    /* tables */
    {"e.csv", "text\n\"a\" b\n", "e.csv:2: field 1: expected a separator after the closing quote"},
    {"e.csv", "text,n\na,1\n\"b\n", "e.csv:3: field 1: its quote is not closed"},
    {"e.csv", "text,n\na\n", "e.csv:2: expected 2 fields, as the header has, got 1"},
    {"e.csv", "text,n\r\na,1\r\n\r\nb\r\n", "e.csv:4: expected 2 fields, as the header has, got 1"},
    {"e.csv", "text,n\n\"a\n\nb\",1\nb", "e.csv:5: expected 2 fields, as the header has, got 1"},
    {"e.csv", "text,text\na,b\n", "e.csv:1: the header has the name text twice"},
    {"e.csv", "sentence\na\n", "e.csv:2: expected \"text\""},
    {"e.csv", "text\n", "e.csv: the dataset is empty"},
    {"e.tsv", "text\tn\na,b\n", "e.tsv:2: expected 2 fields, as the header has, got 1"},
    /* others */
    {"f.txt", "\xc3(", "f.txt: "},
    {"f.arrow", "A",
     "f.arrow: expected one of Parquet, JSON lines, a JSON array, CSV, TSV, plain text"},
    {"f.jsonl.xz", "\xfd", ".xz files cannot be read"},
};

static void each_file_gives_its_message(void)
{
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    if (!CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)) ||
        !CHECK_OK(weft_chat_parse(template, strlen(template), "t", tokenizer, &chat)))
        return;
    const weft_dataset_options o = {.chat = chat};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        weft_dataset *d;
        const char *path = check_temporary(files[i].name);
        CHECK_OK(weft_file_write(path, files[i].data, strlen(files[i].data)));
        const weft_status status = weft_dataset_load(path, tokenizer, &o, 0, &d, NULL);
        if (!CHECK(status == WEFT_INVALID || status == WEFT_UNSUPPORTED))
            printf("  %s: %s\n", files[i].name, files[i].data);
        CHECK(d == NULL);
        CHECK_CONTAINS(weft_error_message(), files[i].message);
        weft_dataset_free(d);
    }
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("data_malformed", CHECK_CASE(each_file_gives_its_message))
