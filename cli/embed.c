/* cli/embed.c -- weft embed: computes a vector for each of many texts. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/inputs.h"
#include "cli/profile.h"
#include "cli/shared.h"
#include "cli/train.h"

typedef struct embed_values {
    const char *model, *file, *adapter, *prompt;
    cli_words texts;
    cli_place place;
    int64_t batch_tokens;
    int pooling; /* a weft_pooling */
    bool normalize, no_special, invariant, json;
} embed_values;

#define AT(field) .offset = offsetof(embed_values, field)

static const cli_argument arguments[] = {
    {"MODEL", offsetof(embed_values, model), false},
    {"TEXT", offsetof(embed_values, texts), CLI_MANY},
};

static const cli_option options[] = {
    CLI_INPUTS_OPTION(embed_values),
    {.name = "pooling",
     .kind = CLI_CHOICE,
     .value = "mean|last|cls|max",
     AT(pooling),
     .help = "the final hidden states that make the vector: the mean of all tokens', the last "
             "token's, the first token's, or the largest in each dimension; by default as the "
             "checkpoint's modules.json says, with its normalization and linears, else mean"},
    {.name = "prompt",
     .kind = CLI_TEXT,
     .value = "NAME",
     AT(prompt),
     .help = "put the checkpoint's prompt of this name before each text, as in query; by default "
             "its default prompt, if it has one"},
    {.name = "normalize",
     .letter = 'n',
     .kind = CLI_FLAG,
     AT(normalize),
     .help = "scale each vector to Euclidean norm 1"},
    CLI_ADAPTER_OPTION(embed_values),
    CLI_NO_SPECIAL_OPTION(embed_values),
    {.name = "batch-tokens",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "2048",
     .low = 1,
     .high = CLI_ANY,
     AT(batch_tokens),
     .help = "tokens of one forward, the padding counted"},
    CLI_INVARIANT_OPTION(embed_values),
    CLI_JSON_OPTION(embed_values, "print one JSON object a text"),
    CLI_PLACE_OPTIONS(embed_values),
    CLI_ACTIVATIONS_OPTION(embed_values),
};

static void print_plain(const cli_input *t, const weft_embedded *r)
{
    for (size_t i = 0; i < r->n; i++)
        printf("%s%.9g", i > 0 ? " " : "", (double)r->values[i]);
    putchar('\n');
    if (t->message != NULL)
        fprintf(stderr, "weft: %s\n", t->message);
}

static void print_json(const cli_place *place, const cli_input *t, const weft_embedded *r)
{
    fputs("{\"text\": ", stdout);
    cli_json_text(stdout, t->text, t->length);
    if (t->message != NULL) {
        fputs(", \"error\": ", stdout);
        cli_json_text(stdout, t->message, strlen(t->message));
        puts("}");
        return;
    }
    printf(", \"tokens\": %zu, \"embedding\": [", t->n_ids);
    for (size_t i = 0; i < r->n; i++)
        printf("%s%.9g", i > 0 ? ", " : "", (double)r->values[i]);
    putchar(']');
    cli_place_json(stdout, place);
    puts("}");
}

/* Cuts texts that are longer than the checkpoint's embeddings were trained for. */
static void cut_texts(const weft_embed_settings *settings, const weft_model *model,
                      const weft_tokenizer *tokenizer, cli_inputs *texts)
{
    const int64_t positions = weft_model_info_of(model)->max_positions;
    int64_t most = settings->max_tokens;
    size_t n_cut = 0;
    if (most == 0 || (positions > 0 && positions < most))
        most = positions;
    for (size_t i = 0; settings->found && most > 0 && i < texts->n; i++) {
        cli_input *t = &texts->at[i];
        const size_t n = weft_tokenizer_truncate(tokenizer, t->ids, t->n_ids, (size_t)most);
        n_cut += n < t->n_ids;
        t->n_ids = n;
    }
    if (n_cut > 0)
        fprintf(stderr, "weft: %zu of %zu texts are cut to %lld tokens, the most for this model\n",
                n_cut, texts->n, (long long)most);
}

static weft_status embed_all(const embed_values *v, const weft_embed_settings *settings,
                             weft_model *model, cli_inputs *texts)
{
    weft_prompt *prompts = malloc((texts->n + 1) * sizeof *prompts);
    weft_embedded *results = calloc(texts->n + 1, sizeof *results);
    weft_status status = WEFT_OK;
    if (prompts == NULL || results == NULL)
        status = weft_fail(WEFT_MEMORY, "embed: no memory");
    for (size_t i = 0; status == WEFT_OK && i < texts->n; i++)
        prompts[i] = (weft_prompt){texts->at[i].ids, texts->at[i].n_ids};
    const bool own = v->pooling < 0;
    const weft_embed_options o = {.pooling = own ? settings->pooling : (weft_pooling)v->pooling,
                                  .dense = own ? settings->dense : NULL,
                                  .normalize = v->normalize || (own && settings->normalize),
                                  .batch = {v->batch_tokens, v->invariant}};
    if (status == WEFT_OK)
        status = weft_embed(model, prompts, texts->n, &o, results);
    for (size_t i = 0; status == WEFT_OK && i < texts->n; i++) {
        cli_input *t = &texts->at[i];
        if (results[i].status != WEFT_OK && t->message == NULL) {
            weft_fail(results[i].status, "%s", results[i].message);
            cli_input_fail(t);
        }
        if (v->json)
            print_json(&v->place, t, &results[i]);
        else
            print_plain(t, &results[i]);
    }
    if (results != NULL)
        weft_embedded_free(results, texts->n);
    free(results);
    free(prompts);
    return status;
}

static int run(void *values)
{
    const embed_values *v = values;
    if (cli_inputs_complaint(&v->texts, v->file) != NULL)
        return cli_usage("embed", "%s", cli_inputs_complaint(&v->texts, v->file));
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("embed", "%s", cli_place_complaint(&v->place));
    char path[4096];
    cli_inputs texts = {0};
    weft_tokenizer *tokenizer = NULL;
    weft_model *model = NULL;
    weft_embed_settings settings = {0};
    weft_status status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = cli_inputs_read("embed", &v->texts, v->file, &texts);
    if (status == WEFT_OK)
        status = embed_settings_of(path, v->adapter, v->prompt, &settings);
    if (status == WEFT_OK)
        status = weft_adapter_tokenizer(path, v->adapter, &tokenizer);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK) {
        cli_inputs_encode(&texts, tokenizer, settings.prompt, v->no_special);
        if (!v->no_special)
            cut_texts(&settings, model, tokenizer, &texts);
        status = embed_all(v, &settings, model, &texts);
    }
    if (status == WEFT_OK)
        cli_profile_print();
    int code = cli_status(status);
    if (code == CLI_OK && cli_inputs_any_failed(&texts))
        code = CLI_FAILURE;
    cli_inputs_free(&texts);
    weft_embed_settings_free(&settings);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return code;
}

const cli_command cli_embed = {
    .name = "embed",
    .summary = "a vector for each of many texts",
    .description =
        "Prints an embedding for each text, one per line, many texts computed together. It is "
        "pooled from the model's final hidden states, after the final norm, over the text's "
        "tokens including special tokens. For a checkpoint of sentence-transformers it is the "
        "vector that sentence-transformers computes, and longer texts are cut to the "
        "checkpoint's longest.\n\n"
        "A text that cannot be read, or an empty one if the tokenizer adds no special tokens, "
        "gets an empty line, or with --json an \"error\", and the exit status is 1.",
    .example = "weft embed MODEL \"A king.\" \"A queen.\" --normalize\n"
               "weft embed MODEL -f texts.jsonl --pooling last --json > vectors.jsonl",
    CLI_TABLE(embed_values, arguments, options),
    .run = run,
};
