/* cli/train_general.c -- the general text of weft train, whose loss before and after a run shows
 * what the model forgets. */
#include <string.h>

#include "cli/train.h"

/* A window is one forward pass, before and after the run: short ones take little memory. */
enum { WINDOW = 64 };

extern const char train_general_text[]; /* cli/general.txt */

static weft_status open_text(const train_values *v, train_run *r, const weft_dataset_options *o)
{
    if (v->general == NULL)
        return weft_dataset_parse(train_general_text, strlen(train_general_text), "general.txt",
                                  r->tokenizer, o, 0, &r->general, NULL);
    char *text = NULL;
    size_t size = 0;
    weft_status status = weft_file_read(v->general, 0, &text, &size);
    if (status == WEFT_OK)
        status = weft_dataset_parse(text, size, v->general, r->tokenizer, o, 0, &r->general, NULL);
    weft_free(text);
    return status;
}

weft_status train_open_general(const train_values *v, train_run *r)
{
    const weft_dataset_options o = {
        .format = WEFT_DATA_TEXT, .length = WINDOW, .vocabulary = r->vocabulary};
    const bool asked = v->general != NULL;
    if (v->task != TRAIN_GENERATE || r->tokenizer == NULL || v->verify ||
        (asked && strcmp(v->general, "none") == 0))
        return WEFT_OK;
    const weft_status status = open_text(v, r, &o);
    if (status == WEFT_OK || asked || status == WEFT_MEMORY)
        return status;
    weft_log_message(WEFT_LOG_WARNING, "the loss of a general text is not measured: %s",
                     weft_error_message());
    return WEFT_OK;
}
