/* examples/13_train_engine.c -- an engine generates, trains on a file of rows, and generates again.
 *
 *     build/examples/13_train_engine FOLDER      examples/storyteller, or another model
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/weft.h"

static const char rows[] =
    "{\"prompt\": \"The fox said:\", \"completion\": \" I will wait until the moon is high.\"}\n"
    "{\"prompt\": \"The crow said:\", \"completion\": \" I will wait until the bread is mine.\"}\n";

static bool show_text(void *context, const weft_generated *token)
{
    (void)context;
    fwrite(token->text, 1, token->length, stdout);
    return true;
}

/* False would stop the run. */
static bool show_update(void *context, const weft_train_report *report)
{
    double *loss = context;
    printf("update %lld of %lld: loss %.3f\n", (long long)report->step, (long long)report->steps,
           report->loss);
    *loss = report->loss;
    return true;
}

static void clean_up(const char *folder)
{
    static const char *const names[] = {"adapter/adapter_model.safetensors",
                                        "adapter/adapter_config.json", "adapter", "rows.jsonl"};
    char path[100];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    remove(folder);
}

int main(int argc, char **argv)
{
    weft_engine *engine = NULL;
    double last = 1e9;
    if (argc < 2) {
        fprintf(stderr, "usage: 13_train_engine FOLDER\n");
        return EXIT_FAILURE;
    }
    char folder[] = "/tmp/weft-13-XXXXXX", data[64], adapter[64];
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    snprintf(data, sizeof data, "%s/rows.jsonl", folder);
    snprintf(adapter, sizeof adapter, "%s/adapter", folder);
    const weft_generate_options greedy = {.max_tokens = 12};
    const weft_engine_request request = {.prompt = "The fox said:", .options = &greedy};

    weft_status status = weft_file_write(data, rows, strlen(rows));
    if (status == WEFT_OK)
        status = weft_engine_load(argv[1], NULL, &engine);
    if (status == WEFT_OK)
        status = weft_engine_generate(engine, &request, show_text, NULL);

    /* A LoRA adapter around every linear, which the engine has from here on. */
    const weft_engine_train_options training = {
        .data = data,
        .out = adapter,
        .lora = {.rank = 8},
        .trainer = {.steps = 8, .lr = 5e-3, .callback = show_update, .context = &last}};
    puts("");
    if (status == WEFT_OK)
        status = weft_engine_train(engine, &training, NULL);
    if (status == WEFT_OK)
        status = weft_engine_generate(engine, &request, show_text, NULL);
    puts("");
    weft_engine_free(engine);

    /* In another program, or another day: the adapter that was written. */
    const weft_engine_options with_adapter = {.adapter = adapter};
    if (status == WEFT_OK)
        status = weft_engine_load(argv[1], &with_adapter, &engine);
    if (status == WEFT_OK)
        status = weft_engine_generate(engine, &request, show_text, NULL);
    puts("");
    if (status == WEFT_OK)
        weft_engine_free(engine);
    else
        fprintf(stderr, "%s\n", weft_error_message());
    clean_up(folder);
    return status == WEFT_OK && last < 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
