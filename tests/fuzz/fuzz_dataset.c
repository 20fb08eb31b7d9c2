/* tests/fuzz/fuzz_dataset.c -- training data of a tokenizer of bytes. The first three bytes select
 * the format, what happens to long samples, and the kind of rows: texts, chats, pairs, labeled
 * completions or classes. The rest are the data. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "weft/memory.h"
#include "weft/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 3 };

typedef enum kind { TEXTS = 0, CHATS, PAIRS, LABELED, CLASSES, NEW_CLASSES, KINDS } kind;

/* Byte-level without merges: the letters and digits are the vocabulary. */
static const char json[] =
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"trim_offsets\": true, \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\"}, "
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2}, \"merges\": []}}";

static const char template[] =
    "{{ tools | tojson if tools else '' }}{% for m in messages %}{{ m.role[0] }}"
    "{{ m.content or '' }}{% for t in m.tool_calls or [] %}{{ t.function | tojson }}"
    "{% endfor %}c{% endfor %}{% if add_generation_prompt %}a{% endif %}";

static const weft_tokenizer *tokenizer_of_bytes(weft_chat **chat)
{
    static weft_tokenizer *tokenizer;
    static weft_chat *parsed;
    if (tokenizer == NULL &&
        weft_tokenizer_parse(json, strlen(json), NULL, 0, "fuzz", &tokenizer) != WEFT_OK)
        return NULL;
    if (parsed == NULL &&
        weft_chat_parse(template, strlen(template), "fuzz", tokenizer, &parsed) != WEFT_OK)
        return NULL;
    *chat = parsed;
    return tokenizer;
}

/* Labels on the heap: rows may add to them. */
static bool labels_of(kind k, weft_labels *labels)
{
    static const char *const names[] = {"a", "b"};
    *labels = (weft_labels){.open = k == NEW_CLASSES};
    if (k == NEW_CLASSES)
        return true;
    labels->at = weft_calloc(2, sizeof *labels->at);
    for (; labels->at && labels->n < 2; labels->n++)
        labels->at[labels->n] = weft_strdup(names[labels->n]);
    return labels->at && labels->at[0] && labels->at[1];
}

static void parse(const uint8_t *data, size_t size, const weft_tokenizer *tokenizer,
                  const weft_dataset_options *options)
{
    weft_dataset *train, *validation;
    if (weft_dataset_parse((const char *)data, size, "fuzz", tokenizer, options, 0.25, &train,
                           &validation) != WEFT_OK)
        return;
    weft_dataset_free(train);
    weft_dataset_free(validation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_chat *chat;
    const weft_tokenizer *tokenizer = tokenizer_of_bytes(&chat);
    if (size < HEAD || tokenizer == NULL)
        return 0;
    weft_set_log(input_drop_log, NULL);
    static const weft_examples examples[KINDS] = {
        [PAIRS] = WEFT_EXAMPLES_PAIRS, [LABELED] = WEFT_EXAMPLES_LABELED};
    const kind k = (kind)(data[2] % KINDS);
    weft_labels labels;
    weft_dataset_options o = {
        .format = (weft_data_format)(data[0] % WEFT_DATA_FORMATS),
        .longer = (weft_long_samples)(data[1] % WEFT_LONG_POLICIES),
        .max_bad_rows = 1,
        .length = k == TEXTS ? 8 : 400,
        .eos = &(int32_t){2},
        .chat = chat,
        .examples = examples[k],
    };
    if (k != CLASSES && k != NEW_CLASSES) {
        parse(data + HEAD, size - HEAD, tokenizer, &o);
        return 0;
    }
    if (labels_of(k, &labels)) {
        o.labels = &labels;
        parse(data + HEAD, size - HEAD, tokenizer, &o);
    }
    weft_labels_free(&labels);
    return 0;
}
