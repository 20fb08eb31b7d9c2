/* cli/generate.c -- weft generate: continues a text. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "cli/sampling.h"

typedef struct generate_values {
    const char *model, *prompt, *file, *adapter;
    cli_place place;
    cli_sampling sampling;
    int64_t prefill;
    bool ignore_eos, no_special, no_cache, echo, stats, json;
} generate_values;

#define AT(field) .offset = offsetof(generate_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(generate_values, model), true}};

static const cli_option options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = CLI_TEXT,
     .value = "TEXT",
     AT(prompt),
     .help = "the text to continue; - reads standard input"},
    {.name = "file",
     .letter = 'f',
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(file),
     .help = "read the text to continue from a file"},
    {.name = "adapter",
     .letter = 'a',
     .kind = CLI_TEXT,
     .value = "DIR",
     AT(adapter),
     .help = "a LoRA adapter in PEFT format"},
    CLI_SAMPLING_OPTIONS(generate_values),
    {.name = "ignore-eos",
     .kind = CLI_FLAG,
     AT(ignore_eos),
     .help = "go on where the model ends its text"},
    {.name = "no-special",
     .kind = CLI_FLAG,
     AT(no_special),
     .help = "do not put the tokenizer's special tokens around the prompt"},
    {.name = "prefill",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 1,
     .high = CLI_ANY,
     AT(prefill),
     .help = "prompt tokens to compute at a time"},
    {.name = "no-cache",
     .kind = CLI_FLAG,
     AT(no_cache),
     .help = "compute the whole text again for every token (slow; for comparison)"},
    {.name = "echo", .kind = CLI_FLAG, AT(echo), .help = "print the prompt in front"},
    {.name = "stats",
     .kind = CLI_FLAG,
     AT(stats),
     .help = "print speed and memory on standard error at the end"},
    {.name = "json",
     .kind = CLI_FLAG,
     AT(json),
     .help = "print one JSON object at the end: prompt, text, ids, logprobs, reason, speed"},
    CLI_PLACE_OPTIONS(generate_values),
};

/* ---- The prompt ----------------------------------------------------------------------------- */

/* The prompt in new memory (weft_free). */
static weft_status read_prompt(const generate_values *v, char **text, size_t *length)
{
    if (v->file != NULL)
        return weft_file_read(v->file, 0, text, length);
    char *from_stdin = NULL;
    const char *prompt = v->prompt;
    *length = strlen(prompt);
    if (strcmp(prompt, "-") == 0)
        prompt = from_stdin = cli_read_all(stdin, length);
    *text = prompt != NULL ? weft_malloc(*length + 1) : NULL;
    if (*text != NULL)
        memcpy(*text, prompt, *length + 1);
    free(from_stdin);
    return *text != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "generate: no memory");
}

/* ---- Output --------------------------------------------------------------------------------- */

/* The whole result, for --json. */
typedef struct collected {
    FILE *text, *ids, *logprobs; /* memory streams */
    char *text_data, *ids_data, *logprobs_data;
    size_t text_size, ids_size, logprobs_size;
} collected;

static bool collect(void *context, const weft_generated *token)
{
    collected *c = context;
    fwrite(token->text, 1, token->length, c->text);
    if (token->id >= 0) {
        fprintf(c->ids, "%s%d", ftell(c->ids) > 0 ? ", " : "", (int)token->id);
        fputs(ftell(c->logprobs) > 0 ? ", " : "", c->logprobs);
        cli_json_number(c->logprobs, token->logprob);
    }
    return true;
}

static bool stream(void *context, const weft_generated *token)
{
    (void)context;
    fwrite(token->text, 1, token->length, stdout);
    return fflush(stdout) == 0;
}

static void print_json(const collected *c, const char *prompt, size_t length,
                       const weft_generate_stats *s)
{
    fputs("{\"prompt\": ", stdout);
    cli_json_text(stdout, prompt, length);
    fputs(", \"text\": ", stdout);
    cli_json_text(stdout, c->text_data, c->text_size);
    printf(", \"ids\": [%s], \"logprobs\": [%s], \"reason\": \"%s\"", c->ids_data, c->logprobs_data,
           weft_finish_name(s->reason));
    printf(", \"prompt_tokens\": %lld, \"tokens\": %lld", (long long)s->prompt_tokens,
           (long long)s->tokens);
    printf(", \"first_token_seconds\": %.6g, \"prompt_per_second\": %.6g, \"decode_per_second\": "
           "%.6g, \"peak_memory\": %lld",
           s->first_token_seconds, s->prompt_per_second, s->decode_per_second,
           (long long)s->peak_memory);
    cli_profile_json(stdout);
    puts("}");
}

static void print_stats(const weft_generate_stats *s)
{
    fprintf(stderr,
            "prompt %s tokens, %.1f tokens/s, first token after %.3f s; generated %s tokens, %.1f "
            "tokens/s; peak memory %s; stopped: %s\n",
            cli_count(s->prompt_tokens), s->prompt_per_second, s->first_token_seconds,
            cli_count(s->tokens), s->decode_per_second, cli_bytes(s->peak_memory),
            weft_finish_name(s->reason));
}

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct prompt_ids {
    char *text;
    size_t length;
    int32_t *ids;
    size_t n;
} prompt_ids;

static weft_status run_json(weft_model *model, const weft_tokenizer *tokenizer,
                            const prompt_ids *prompt, weft_generate_options *o,
                            weft_generate_stats *stats)
{
    collected c = {0};
    o->logprobs = true;
    c.text = open_memstream(&c.text_data, &c.text_size);
    c.ids = open_memstream(&c.ids_data, &c.ids_size);
    c.logprobs = open_memstream(&c.logprobs_data, &c.logprobs_size);
    weft_status status = WEFT_OK;
    if (c.text == NULL || c.ids == NULL || c.logprobs == NULL)
        status = weft_fail(WEFT_MEMORY, "generate: no memory");
    if (status == WEFT_OK)
        status = weft_generate(model, tokenizer, prompt->ids, prompt->n, o, collect, &c, stats);
    FILE *const streams[] = {c.text, c.ids, c.logprobs};
    for (int i = 0; i < 3; i++) {
        if (streams[i] != NULL)
            fclose(streams[i]);
    }
    if (status == WEFT_OK)
        print_json(&c, prompt->text, prompt->length, stats);
    free(c.text_data);
    free(c.ids_data);
    free(c.logprobs_data);
    return status;
}

static weft_status run_stream(const generate_values *v, weft_model *model,
                              const weft_tokenizer *tokenizer, const prompt_ids *prompt,
                              const weft_generate_options *o, weft_generate_stats *stats)
{
    if (v->echo)
        fwrite(prompt->text, 1, prompt->length, stdout);
    weft_status status =
        weft_generate(model, tokenizer, prompt->ids, prompt->n, o, stream, NULL, stats);
    putchar('\n');
    fflush(stdout);
    if (status == WEFT_OK && v->stats)
        print_stats(stats);
    if (status == WEFT_OK)
        cli_profile_print();
    return status;
}

static weft_status generate(const generate_values *v, weft_model *model,
                            const weft_tokenizer *tokenizer, const prompt_ids *prompt)
{
    weft_generate_options o = {
        .ignore_eos = v->ignore_eos,
        .prefill = v->prefill,
        .no_cache = v->no_cache,
    };
    cli_sampling_apply(&v->sampling, model, &o);
    weft_generate_stats stats;
    weft_status status = cli_profile_start(&v->place);
    if (status != WEFT_OK)
        return status;
    return v->json ? run_json(model, tokenizer, prompt, &o, &stats)
                   : run_stream(v, model, tokenizer, prompt, &o, &stats);
}

static int run(void *context)
{
    const generate_values *v = context;
    if ((v->prompt == NULL) == (v->file == NULL))
        return cli_usage("generate", "needs --prompt TEXT or --file FILE");
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("generate", "%s", cli_place_complaint(&v->place));
    char path[4096];
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    prompt_ids prompt = {0};
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = read_prompt(v, &prompt.text, &prompt.length);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &tokenizer);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, prompt.text, prompt.length,
                                       v->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, &prompt.ids,
                                       &prompt.n);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = generate(v, model, tokenizer, &prompt);
    int code = cli_status(status);
    weft_free(prompt.ids);
    weft_free(prompt.text);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return code;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text",
    .description = "Continues a text and prints it as it is generated. Without MODEL the "
                   "storyteller, a small model that comes with Weft, tells fairy tales.",
    .example = "weft generate -p \"Once upon a time\"\n"
               "weft generate MODEL --adapter weft-run/last -p \"ROMEO:\" -n 100 --stats\n"
               "weft generate MODEL -f prompt.txt --temperature 0 --json",
    CLI_TABLE(generate_values, arguments, options),
    .run = run,
};
