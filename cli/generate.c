/* cli/generate.c -- weft generate: continues a text. */
#include "cli/generate.h"
#include "cli/commands.h"
#include "cli/profile.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(generate_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(generate_values, model), true}};

static const cli_option options[] = {
    CLI_PROMPT_OPTION(generate_values, NULL,
                      "the text to continue; - reads standard input, which is also read when it "
                      "is no terminal and neither this nor --file is given"),
    CLI_FILE_OPTION(generate_values, "read the text to continue from a file"),
    CLI_ADAPTER_OPTION(generate_values),
    CLI_BACKEND_OPTION(generate_values),
    CLI_SAMPLING_OPTIONS(generate_values),
    CLI_CACHING_OPTIONS(generate_values),
    {.name = "stop",
     .kind = CLI_TEXTS,
     .value = "TEXT",
     AT(stop),
     .help = "stop before TEXT; may be given several times"},
    {.name = "include-stop", .kind = CLI_FLAG, AT(include_stop), .help = "stop after TEXT instead"},
    CLI_TIMEOUT_OPTION(generate_values),
    CLI_SCHEMA_OPTION(generate_values,
                      "generate one JSON value that fits the schema in FILE; --max-tokens must "
                      "allow for the shortest"),
    CLI_SCHEMA_OPEN_OPTION(generate_values),
    {.name = "json-value",
     .kind = CLI_FLAG,
     AT(json_value),
     .help = "generate one JSON value of any kind"},
    {.name = "ignore-eos",
     .kind = CLI_FLAG,
     AT(ignore_eos),
     .help = "ignore end-of-sequence tokens"},
    CLI_NO_SPECIAL_OPTION(generate_values),
    {.name = "prefill",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 1,
     .high = CLI_ANY,
     AT(prefill),
     .help = "prompt tokens to compute at a time"},
    CLI_TOKENS_PER_EVAL_OPTION(generate_values),
    CLI_SHIFT_OPTION(generate_values),
    {.name = "draft",
     .kind = CLI_TEXT,
     .value = "MODEL",
     AT(draft),
     .help = "a smaller model with the same vocabulary that proposes tokens "
             "(speculative decoding): the same distribution, faster"},
    {.name = "draft-tokens",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "4",
     .low = 1,
     .high = 1024,
     AT(draft_tokens),
     .help = "tokens to propose at a time"},
    {.name = "ngram",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = 1024,
     AT(ngram),
     .help = "without a draft: propose what followed when the last N tokens occurred before; 0: "
             "off"},
    {.name = "batch",
     .letter = 'b',
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(batch),
     .help = "generate for each line of FILE (-: standard input), a JSON object with prompt or "
             "messages; optional members: id, max_tokens, seed, temperature, top_p, top_k, min_p, "
             "stop, timeout, tools. Prints a JSON object when each ends, with its id (default: "
             "its line number) and its index, from 0"},
    {.name = "batch-rows",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "16",
     .low = 1,
     .high = 4096,
     AT(batch_rows),
     .help = "with --batch: the number of sequences computed at a time"},
    CLI_INVARIANT_OPTION(generate_values),
    {.name = "no-cache",
     .kind = CLI_FLAG,
     AT(no_cache),
     .help = "compute the whole text again for every token (slow; for comparison)"},
    {.name = "echo", .kind = CLI_FLAG, AT(echo), .help = "print the prompt in front"},
    CLI_STATS_OPTION(generate_values),
    CLI_JSON_OPTION(generate_values,
                    "print one JSON object at the end: prompt, text, ids, logprobs, reason, "
                    "speed"),
    CLI_PLACE_OPTIONS(generate_values),
    CLI_ACTIVATIONS_OPTION(generate_values),
};

/* ---- Running -------------------------------------------------------------------------------- */

/* The usage error in the options; NULL: none. */
static const char *complaint(const generate_values *v)
{
    if (v->batch != NULL && (v->prompt != NULL || v->file != NULL || v->json_schema != NULL ||
                             v->json_value || v->echo))
        return "takes --batch FILE without another prompt, --json-schema, --json-value or --echo";
    if (v->draft != NULL && v->ngram > 0)
        return "takes --draft MODEL or --ngram N, not both";
    if (v->batch == NULL && cli_text_complaint(v->prompt, v->file) != NULL)
        return cli_text_complaint(v->prompt, v->file);
    if (v->json_schema != NULL && v->json_value)
        return "takes --json-schema FILE or --json-value, not both";
    if (v->schema_open && v->json_schema == NULL)
        return "--schema-open needs --json-schema FILE";
    if (cli_is_other_backend(v->backend) &&
        (v->json_schema != NULL || v->json_value || v->batch != NULL || v->draft != NULL ||
         v->sampling.order >= 0))
        return "--json-schema, --json-value, --batch, --draft and --sampler-order need the native "
               "backend";
    return cli_place_complaint(&v->place);
}

/* Creates the constraint of --json-schema or --json-value; *out is NULL without them. */
static weft_status open_constraint(const generate_values *v, const weft_tokenizer *tokenizer,
                                   weft_constraint **out)
{
    *out = NULL;
    if (v->json_value)
        return weft_constraint_new(tokenizer, NULL, 0, "any JSON", NULL, out);
    if (v->json_schema == NULL)
        return WEFT_OK;
    char *schema = NULL;
    size_t length;
    weft_status status = weft_file_read(v->json_schema, 0, &schema, &length);
    if (status == WEFT_OK)
        status = weft_constraint_new(tokenizer, schema, length, v->json_schema,
                                     &(weft_constraint_options){.open = v->schema_open}, out);
    if (status == WEFT_OK && weft_constraint_notes(*out) != NULL)
        cli_schema_notes(v->json_schema, weft_constraint_notes(*out));
    weft_free(schema);
    return status;
}

static weft_status generate(const generate_values *v, const char *path,
                            const generate_source *source, const prompt_ids *prompt,
                            weft_generate_stats *stats, bool *good)
{
    weft_model *draft = NULL;
    cli_ids keep;
    weft_generate_options o = {
        .ignore_eos = v->ignore_eos,
        .stop_texts = v->stop.at,
        .n_stop_texts = v->stop.n,
        .include_stop_text = v->include_stop,
        .timeout = isnan(v->timeout) ? 0 : v->timeout,
        .prefill = v->prefill,
        .tokens_per_eval = v->tokens_per_eval,
        .draft_tokens = v->draft_tokens,
        .ngram = v->ngram,
        .no_cache = v->no_cache,
        .shift = v->shift,
    };
    cli_sampling_apply(&v->sampling, source->model, &o);
    weft_status status = WEFT_OK;
    if (source->model != NULL)
        status = cli_sampling_protect(source->tokenizer, source->model, &keep, &o);
    if (status == WEFT_OK && !v->no_cache)
        status = cli_caching_apply("generate", &v->caching, source->model, &o.cache);
    if (status == WEFT_OK)
        status = open_constraint(v, source->tokenizer, &o.constraint);
    if (status == WEFT_OK)
        status = generate_load_draft(v, source->tokenizer, &draft);
    if (status == WEFT_OK)
        status = cli_catch_interrupt(&o.cancel);
    o.draft = draft;
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK && v->batch != NULL)
        status = generate_batch(v, path, source->model, source->tokenizer, &o, good);
    else if (status == WEFT_OK)
        status = generate_print(v, source, prompt, &o, stats);
    if (v->batch != NULL && weft_cancel_is_set(o.cancel))
        stats->reason = WEFT_FINISH_CANCELLED;
    weft_model_free(draft);
    weft_constraint_free(o.constraint);
    return status;
}

/* Opens the model and encodes the prompt, or opens the engine of another backend. */
static weft_status open_source(const generate_values *v, const char *path, prompt_ids *prompt,
                               generate_source *out)
{
    if (cli_is_other_backend(v->backend))
        return cli_load_engine(path, &v->place, v->adapter, v->backend, 0, &out->engine);
    weft_status status = weft_adapter_tokenizer(path, v->adapter, &out->tokenizer);
    if (status == WEFT_OK && v->batch == NULL)
        status = weft_tokenizer_encode(out->tokenizer, prompt->text, prompt->length,
                                       v->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, &prompt->ids,
                                       &prompt->n);
    return status == WEFT_OK ? cli_load_model(path, &v->place, v->adapter, &out->model) : status;
}

static int run(void *context)
{
    const generate_values *v = context;
    if (complaint(v) != NULL)
        return cli_usage("generate", "%s", complaint(v));
    char path[4096];
    generate_source source = {NULL, NULL, NULL};
    prompt_ids prompt = {0};
    weft_generate_stats stats = {0};
    bool good = true;
    weft_status status = WEFT_OK;
    if (v->batch == NULL)
        status = cli_read_text(v->prompt, v->file, &prompt.text, &prompt.length);
    if (status == WEFT_OK && v->batch == NULL && v->prompt == NULL && v->file == NULL &&
        prompt.length == 0) {
        weft_free(prompt.text);
        return cli_usage("generate", "the text on standard input is empty");
    }
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = open_source(v, path, &prompt, &source);
    if (status == WEFT_OK)
        status = generate(v, path, &source, &prompt, &stats, &good);
    int code = cli_status(status);
    if (code == CLI_OK && !good)
        code = CLI_FAILURE;
    weft_free(prompt.ids);
    weft_free(prompt.text);
    weft_tokenizer_free(source.tokenizer);
    weft_model_free(source.model);
    weft_engine_free(source.engine);
    return stats.reason == WEFT_FINISH_CANCELLED ? CLI_INTERRUPTED : code;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text",
    .description =
        "Continues a text and prints it as it is generated. Without MODEL it uses the "
        "storyteller, a small model included with Weft that writes fairy tales. Sampling "
        "options default to the model's generation_config.json.\n\n"
        "Ctrl-C stops generation and keeps the output so far, with exit status 130.",
    .example = "weft generate -p \"Once upon a time\"\n"
               "weft generate MODEL --adapter weft-run/last -p \"ROMEO:\" -n 100 --stats\n"
               "weft generate MODEL -f prompt.txt --temperature 0 --json\n"
               "weft generate MODEL -p \"Q: Why?\\nA:\" --stop \"Q:\" --timeout 10\n"
               "weft generate MODEL -f prompt.txt --json-schema answer.json\n"
               "weft generate MODEL --batch prompts.jsonl --stats > texts.jsonl\n"
               "weft generate MODEL --draft SMALLER -p \"Once upon a time\" --stats",
    CLI_TABLE(generate_values, arguments, options),
    .run = run,
};
