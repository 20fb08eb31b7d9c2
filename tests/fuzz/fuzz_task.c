/* tests/fuzz/fuzz_task.c -- data of weft eval's tasks. The first byte selects the format, the
 * second one what is read: rows with answers or choices, texts, or rows with texts. */
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/input.h"
#include "weft/memory.h"
#include "weft/task.h"
#include "weft/tool/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 2 };

/* Reads everything; aborts at what the command does not check again. */
static void use(const weft_task_rows *rows, const weft_task_options *o)
{
    volatile size_t sum = 0;
    for (size_t i = 0; i < rows->n; i++) {
        const weft_task_row *row = &rows->at[i];
        const bool texts = o->kind != WEFT_TASK_ANSWERS;
        const int least = o->choices || o->kind == WEFT_TASK_COMPARED ? 2 : 1;
        if ((row->messages == NULL) != texts || row->n_texts < least || row->answer < 0 ||
            row->answer >= row->n_texts)
            abort();
        sum = sum + strlen(row->where) + (row->messages ? strlen(row->messages) : 0) +
              (row->prompt ? strlen(row->prompt) : 0) + (row->tools ? strlen(row->tools) : 0) +
              (row->variables ? strlen(row->variables) : 0);
        for (int k = 0; k < row->n_texts; k++)
            sum = sum + strlen(row->texts[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = size < HEAD ? NULL : input_file(data + HEAD, size - HEAD);
    if (path == NULL)
        return 0;
    weft_set_log(input_drop_log, NULL);
    const weft_data_source source = {.path = path};
    weft_task_options o = {.format = (weft_data_format)(data[0] % WEFT_DATA_FORMATS),
                           .max_bad_rows = 1,
                           .choices = data[1] % 5 == 1,
                           .kind = (weft_task_kind)(data[1] % 5 > 2 ? data[1] % 5 - 2 : 0)};
    if (data[1] % 5 == 2) {
        char *text;
        size_t n;
        if (weft_data_text(&source, 1, &o, &text, &n) == WEFT_OK)
            weft_free(text);
        return 0;
    }
    weft_task_rows rows;
    if (weft_task_rows_load(&source, 1, &o, &rows) == WEFT_OK)
        use(&rows, &o);
    weft_task_rows_free(&rows);
    return 0;
}
