/* cli/eval_rows.c -- the data of weft eval's tasks: rows with prompts, and texts. */
#include <string.h>

#include "cli/eval.h"

#include "weft/tool/data.h"

/* Opens the sources of --data, and makes the options for reading them. `piped` is the format of
 * standard input without --format. */
static weft_status open_sources(const eval_values *v, weft_data_format piped,
                                weft_data_source *sources, weft_task_options *o)
{
    weft_dataset_options reading = {0};
    cli_data_options(&v->source, &reading);
    if (reading.format == WEFT_DATA_AUTO && strcmp(cli_data_first(&v->source), "-") == 0)
        reading.format = piped;
    *o = (weft_task_options){.format = reading.format,
                             .max_bad_rows = reading.max_bad_rows,
                             .most_rows = v->rows != CLI_ABSENT ? v->rows : 0,
                             .choices = v->task == EVAL_CHOICES};
    return cli_data_open(&v->source, sources);
}

weft_status eval_rows_read(const eval_values *v, weft_task_rows *out)
{
    weft_data_source sources[CLI_MOST];
    weft_task_options o;
    weft_status status = open_sources(v, WEFT_DATA_JSONL, sources, &o);
    if (status == WEFT_OK)
        status = weft_task_rows_load(sources, v->source.paths.n, &o, out);
    cli_data_release(sources, v->source.paths.n);
    return status;
}

weft_status eval_text_read(const eval_values *v, char **text, size_t *length)
{
    weft_data_source sources[CLI_MOST];
    weft_task_options o;
    weft_status status = open_sources(v, WEFT_DATA_TEXT, sources, &o);
    if (status == WEFT_OK)
        status = weft_data_text(sources, v->source.paths.n, &o, text, length);
    cli_data_release(sources, v->source.paths.n);
    return status;
}

bool eval_is_spoken(const eval_run *run, const weft_task_row *row)
{
    return run->values->chat || row->prompt == NULL || (row->spoken && run->chat != NULL);
}

weft_status eval_prompt(const eval_run *run, const weft_task_row *row, char **text)
{
    const weft_chat_options o = {
        .generation_prompt = true, .tools = row->tools, .variables = row->variables};
    *text = NULL;
    if (!eval_is_spoken(run, row)) {
        *text = weft_strdup(row->prompt);
        return *text ? WEFT_OK : weft_fail(WEFT_MEMORY, "eval: out of memory for a prompt");
    }
    if (run->chat == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s needs a chat template, and %s has none",
                         row->where, row->prompt ? "--chat" : "a row with messages",
                         run->subject->path);
    const weft_status status = weft_chat_render(run->chat, row->messages, &o, text, NULL);
    if (status != WEFT_OK) {
        char *why = weft_strdup(weft_error_message());
        weft_fail(status, "%s: %s", row->where, why ? why : "");
        weft_free(why);
    }
    return status;
}
