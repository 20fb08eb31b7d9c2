/* cli/train_embed.c -- weft train --task embed: how texts become vectors, and their prompts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/train.h"

weft_status embed_read_dimensions(const char *list, weft_dims *out)
{
    *out = (weft_dims){.n = 0};
    for (const char *at = list && *list ? list : NULL; at;) {
        char *end;
        const long long number = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || number < 1 || number > INT32_MAX ||
            out->n == (int)(sizeof out->at / sizeof *out->at))
            return weft_fail(WEFT_INVALID,
                             "--dimensions: expected positive numbers as in 384,128, "
                             "got '%s'",
                             weft_printable(list));
        out->at[out->n++] = number;
        at = *end == ',' ? end + 1 : NULL;
    }
    return WEFT_OK;
}

/* Replaces a text by that of an option. */
static weft_status replace(char **text, const char *option)
{
    if (option == NULL)
        return WEFT_OK;
    weft_free(*text);
    *text = weft_strdup(option);
    return *text ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for a prompt");
}

weft_status embed_settings_of(const char *path, const char *adapter, const char *prompt,
                              weft_embed_settings *out)
{
    char *own = adapter ? weft_format("%s/modules.json", adapter) : NULL;
    const bool beside = own && access(own, R_OK) == 0;
    weft_free(own);
    return weft_embed_settings_load(beside ? adapter : path, prompt, out);
}

weft_status embed_check_prompts(const char *path, const weft_embed_settings *settings)
{
    const char *query = settings->query_prompt, *passage = settings->passage_prompt;
    if (!settings->excludes_prompts || ((!query || !*query) && (!passage || !*passage)))
        return WEFT_OK;
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: include_prompt: false with the prompt '%s' is unsupported", path,
                     weft_printable(query && *query ? query : passage));
}

weft_status embed_open(const char *path, const char *adapter, const embed_choice *choice,
                       weft_embed_settings *out)
{
    weft_embed_settings_free(out);
    weft_status status = embed_settings_of(path, adapter, NULL, out);
    if (status == WEFT_OK)
        status = replace(&out->query_prompt, choice->query_prompt);
    if (status == WEFT_OK)
        status = replace(&out->passage_prompt, choice->passage_prompt);
    if (choice->pooling >= 0 && !(out->found && (int)out->pooling == choice->pooling)) {
        weft_nn_free(out->dense);
        out->dense = NULL;
        out->found = out->normalize = out->excludes_prompts = false;
        out->pooling = (weft_pooling)choice->pooling;
    }
    return status == WEFT_OK ? embed_check_prompts(path, out) : status;
}

int64_t embed_length(const weft_embed_settings *settings, bool given, int64_t length)
{
    const int64_t most = settings->max_tokens;
    return !given && most > 0 && most < length ? most : length;
}

static bool length_is_given(const train_values *v)
{
    return cli_is_set(&cli_train, &v->given, cli_option_named(&cli_train, "length"));
}

weft_status train_check_texts(const train_values *v, train_run *r, bool *again)
{
    const weft_model_info *info = weft_model_info_of(r->model);
    /* a sample ends with its label, or with the mark of a text's end */
    const int64_t length = v->length - (v->task == TRAIN_CLASSIFY),
                  most = embed_length(&r->embed, length_is_given(v), length);
    if (v->task == TRAIN_GENERATE || r->data == NULL || !info->encoder ||
        most <= info->max_positions)
        return WEFT_OK;
    if (length_is_given(v))
        return weft_fail(WEFT_INVALID,
                         "--length: expected at most %lld, the positions of %s%s, got %lld",
                         (long long)(info->max_positions + v->length - length), r->path,
                         v->task == TRAIN_CLASSIFY ? " and the label" : "", (long long)v->length);
    r->embed.max_tokens = r->positions = info->max_positions;
    *again = true;
    return WEFT_OK;
}

weft_status train_open_embed(const train_values *v, train_run *r, weft_dataset_options *o)
{
    if (v->task != TRAIN_EMBED)
        return WEFT_OK;
    weft_status status = embed_open(r->path, NULL, &v->embed, &r->embed);
    int64_t most = embed_length(&r->embed, length_is_given(v), v->length);
    if (r->positions > 0 && r->positions < most)
        most = r->positions;
    if (status == WEFT_OK && v->full && r->embed.dense)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s: --full: the linears of its modules.json are not trained: "
                           "unsupported",
                           r->path);
    o->length = most + 1;
    o->query_prompt = r->embed.query_prompt;
    o->passage_prompt = r->embed.passage_prompt;
    r->embed.max_tokens = most;
    r->embed.chosen_length = length_is_given(v);
    return status;
}

weft_objective_options train_objective_options(const train_values *v, const train_run *r)
{
    weft_objective_options o = v->trainer.objective_options;
    o.teacher = r->teacher;
    o.teacher_name = r->teacher && r->teacher_path[0] ? r->teacher_path : NULL;
    if (v->task == TRAIN_EMBED) {
        o.embed = &r->embed;
        (void)embed_read_dimensions(v->dimensions, &o.dimensions); /* checked by train_read_texts */
    }
    return o;
}
