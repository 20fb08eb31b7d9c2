/* tests/fuzz/fuzz_settings.c -- a file of settings: YAML when the first byte is odd, else JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cli_settings settings;
    const bool yaml = size > 0 && (data[0] & 1) != 0;
    const size_t from = size > 0;
    const weft_status status = cli_settings_parse((const char *)data + from, size - from,
                                                  yaml ? "a.yaml" : "a.json", &settings);
    for (size_t i = 0; status == WEFT_OK && i < settings.n; i++) {
        const cli_setting *s = &settings.at[i];
        const cli_setting_kind kind = s->value.kind;
        const bool scalar =
            kind == CLI_SETTING_BOOL || kind == CLI_SETTING_NUMBER || kind == CLI_SETTING_TEXT;
        if (s->line < 1 || s->name == NULL || (scalar && s->value.text == NULL) ||
            (s->n_items > 0 && kind != CLI_SETTING_LIST))
            abort();
        for (size_t k = 0; k < i; k++) {
            if (strcmp(settings.at[k].name, s->name) == 0)
                abort();
        }
    }
    cli_settings_free(&settings);
    return 0;
}
