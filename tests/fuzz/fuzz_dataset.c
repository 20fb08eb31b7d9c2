/* tests/fuzz/fuzz_dataset.c -- JSON lines, a JSON array, tables or plain text, as the first byte
 * says, as training data of a tokenizer of bytes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weft/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Byte-level without merges: the letters and digits are the vocabulary. */
static const char json[] =
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"trim_offsets\": true, \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\"}, "
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2}, \"merges\": []}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_tokenizer *tokenizer;
    if (tokenizer == NULL &&
        weft_tokenizer_parse(json, strlen(json), NULL, 0, "fuzz", &tokenizer) != WEFT_OK)
        return 0;
    weft_dataset *train, *validation;
    const weft_dataset_options o = {
        .format = size > 0 ? (weft_data_format)(data[0] % WEFT_DATA_FORMATS) : WEFT_DATA_AUTO,
        .longer = size > 1 ? (weft_long_samples)(data[1] % WEFT_LONG_POLICIES) : WEFT_LONG_SPLIT,
        .max_bad_rows = 1,
        .length = 8,
        .eos = 2,
    };
    if (weft_dataset_parse((const char *)data, size, "fuzz", tokenizer, &o, 0.25, &train,
                           &validation) != WEFT_OK)
        return 0;
    weft_dataset_free(train);
    weft_dataset_free(validation);
    return 0;
}
