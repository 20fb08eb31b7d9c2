/* cli/serve_teach.c -- fine-tuning jobs of weft serve: runs of weft train on the served model. */
#include <string.h>

#include "cli/commands.h"
#include "cli/serve.h"
#include "cli/train.h"

/* The words of the job's run: those of the task, the model, and what the server's options say. On a
 * device an update is cut into micro-batches, between which answers are computed; on the CPU they
 * are computed also within one. */
static void add_words(const serve_run *run, const serve_task *task, cli_word_list *words)
{
    bool micro = false;
    cli_words_add(words, run->path);
    for (size_t i = 0; i < task->n_words; i++) {
        micro = micro || strcmp(task->words[i], "--micro-batch") == 0;
        cli_words_add(words, task->words[i]);
    }
    if (!micro && strcmp(cli_device(&run->values->place), "cpu") != 0)
        cli_words_add_option(words, "micro-batch", "1");
    if (run->values->template_file != NULL)
        cli_words_add_option(words, "template", run->values->template_file);
}

/* Reads the data, which needs only facts of the model. */
static weft_status open_run(const serve_run *run, const serve_task *task, train_values *v,
                            train_run *r, train_epoch *epoch)
{
    v->place = run->values->place;
    snprintf(r->path, sizeof r->path, "%s", run->path);
    weft_status status = train_share_machine(v, cli_set_place(&v->place)); /* of this thread */
    if (status == WEFT_OK)
        status = train_read_texts(v, r);
    if (status == WEFT_OK)
        status = train_check_out(v);
    if (status != WEFT_OK)
        return status;
    r->words = train_words(v);
    r->model = task->model;
    status = train_open_data(v, r);
    if (status == WEFT_OK)
        status = train_check_ids(v, r);
    return status == WEFT_OK ? train_read_epoch(v, r, task->cancel, epoch) : status;
}

/* Makes the trainer, and keeps memory free for it. */
static weft_status open_trainer(const serve_task *task, const train_values *v,
                                const train_epoch *epoch, train_run *r)
{
    int64_t bytes = 0;
    weft_status status = train_add_adapter(v, r);
    if (status == WEFT_OK)
        status = task->adapt(task->context);
    if (status == WEFT_OK)
        status = train_add_reference(v, r);
    if (status != WEFT_OK)
        return status;
    weft_trainer_options o = train_trainer_options(v, r);
    o.cancel = task->cancel;
    o.callback = task->callback;
    o.validating = NULL;
    o.sampler = NULL;
    o.context = task->context;
    status = train_measure(v, r, epoch, &o, &bytes);
    if (status == WEFT_OK)
        status = task->reserve(task->context, bytes);
    return status == WEFT_OK ? weft_trainer_new(r->model, &o, &r->trainer) : status;
}

weft_status serve_teach(void *context, const serve_task *task, weft_train_result *result)
{
    static train_values v; /* jobs run one after another */
    train_run r = {.values = &v, .cancel = task->cancel};
    train_epoch epoch;
    cli_word_list words = {.n = 0};
    add_words(context, task, &words);
    weft_status status = words.failed ? weft_fail(WEFT_MEMORY, "out of memory for a job") : WEFT_OK;
    if (status == WEFT_OK && cli_parse(&cli_train, words.n, words.at, &v) != CLI_PARSED_RUN)
        status = weft_fail(WEFT_INVALID, "the job's options cannot be read");
    if (status == WEFT_OK && train_complaint(&v) != NULL)
        status = weft_fail(WEFT_INVALID, "%s", train_complaint(&v));
    if (status == WEFT_OK)
        status = open_run(context, task, &v, &r, &epoch);
    if (status == WEFT_OK) {
        task->enter(task->context);
        status = open_trainer(task, &v, &epoch, &r);
    }
    if (status == WEFT_OK)
        status = weft_trainer_run(r.trainer, r.batches, r.validation, result);
    r.model = NULL; /* the server's */
    train_free(&r);
    cli_words_free(&words);
    return status;
}
