/* cli/generate_output.c -- output of weft generate: text as it is generated, or one JSON object. */
#include <stdlib.h>

#include "cli/generate.h"
#include "cli/profile.h"

/* The whole result, for --json. */
typedef struct collected {
    FILE *text, *ids, *logprobs; /* memory streams */
    char *text_data, *ids_data, *logprobs_data;
    size_t text_size, ids_size, logprobs_size;
    bool known; /* whether log-probabilities are known; otherwise they are null */
} collected;

static bool collect(void *context, const weft_generated *token)
{
    collected *c = context;
    fwrite(token->text, 1, token->length, c->text);
    if (token->id >= 0) {
        fprintf(c->ids, "%s%d", ftell(c->ids) > 0 ? ", " : "", (int)token->id);
        fputs(ftell(c->logprobs) > 0 ? ", " : "", c->logprobs);
        cli_json_number(c->logprobs, c->known ? token->logprob : NAN);
    }
    return true;
}

static bool stream(void *context, const weft_generated *token)
{
    (void)context;
    cli_write_text(token->text, token->length);
    return fflush(stdout) == 0;
}

static void print_json(const generate_values *v, const collected *c, const char *prompt,
                       size_t length, const weft_generate_stats *s)
{
    fputs("{\"prompt\": ", stdout);
    cli_json_text(stdout, prompt, length);
    fputs(", \"text\": ", stdout);
    cli_json_text(stdout, c->text_data, c->text_size);
    printf(", \"ids\": [%s], \"logprobs\": [%s]", c->ids_data, c->logprobs_data);
    printf(", \"reason\": \"%s\", \"reason_detail\": \"%s\"", weft_finish_name(s->reason),
           weft_finish_detail_name(s->detail));
    printf(", \"prompt_tokens\": %lld, \"tokens\": %lld", (long long)s->prompt_tokens,
           (long long)s->tokens);
    printf(", \"first_token_seconds\": %.6g, \"prompt_per_second\": %.6g, \"decode_per_second\": "
           "%.6g, \"peak_memory\": %lld",
           s->first_token_seconds, s->prompt_per_second, s->decode_per_second,
           (long long)s->peak_memory);
    printf(", \"shifts\": %lld", (long long)s->shifts);
    if (s->drafted > 0)
        printf(", \"drafted\": %lld, \"accepted\": %lld", (long long)s->drafted,
               (long long)s->accepted);
    cli_place_json(stdout, &v->place);
    cli_profile_json(stdout);
    puts("}");
}

static void print_stats(const weft_generate_stats *s)
{
    const char *detail = weft_finish_detail_name(s->detail);
    fprintf(stderr,
            "prompt %s tokens, %.1f tokens/s, first token after %.3f s; generated %s tokens, %.1f "
            "tokens/s; peak memory %s; finished: %s%s%s\n",
            cli_count(s->prompt_tokens), s->prompt_per_second, s->first_token_seconds,
            cli_count(s->tokens), s->decode_per_second, cli_bytes(s->peak_memory),
            weft_finish_name(s->reason), *detail ? ", " : "", detail);
    if (s->drafted > 0)
        fprintf(stderr, "%s tokens proposed, %s taken (%.1f%%)\n", cli_count(s->drafted),
                cli_count(s->accepted), 100 * (double)s->accepted / (double)s->drafted);
    if (s->shifts > 0)
        fprintf(stderr, "context shifts: %s\n", cli_count(s->shifts));
}

static weft_status compute(const generate_values *v, const generate_source *source,
                           const prompt_ids *prompt, const weft_generate_options *o,
                           weft_generate_fn *callback, void *context, weft_generate_stats *stats)
{
    if (source->engine == NULL)
        return weft_generate(source->model, source->tokenizer, prompt->ids, prompt->n, o, callback,
                             context, stats);
    const weft_engine_request request = {.prompt = prompt->text,
                                         .length = prompt->length,
                                         .no_special = v->no_special,
                                         .options = o};
    return cli_engine_generate(source->engine, &request, callback, context, stats);
}

static weft_status run_json(const generate_values *v, const generate_source *source,
                            const prompt_ids *prompt, weft_generate_options *o,
                            weft_generate_stats *stats)
{
    collected c = {.known = source->engine == NULL};
    o->logprobs = source->engine == NULL;
    c.text = open_memstream(&c.text_data, &c.text_size);
    c.ids = open_memstream(&c.ids_data, &c.ids_size);
    c.logprobs = open_memstream(&c.logprobs_data, &c.logprobs_size);
    weft_status status = WEFT_OK;
    if (c.text == NULL || c.ids == NULL || c.logprobs == NULL)
        status = weft_fail(WEFT_MEMORY, "generate: no memory");
    if (status == WEFT_OK)
        status = compute(v, source, prompt, o, collect, &c, stats);
    FILE *const streams[] = {c.text, c.ids, c.logprobs};
    for (int i = 0; i < 3; i++) {
        if (streams[i] != NULL)
            fclose(streams[i]);
    }
    if (status == WEFT_OK)
        print_json(v, &c, prompt->text, prompt->length, stats);
    free(c.text_data);
    free(c.ids_data);
    free(c.logprobs_data);
    return status;
}

static weft_status run_stream(const generate_values *v, const generate_source *source,
                              const prompt_ids *prompt, const weft_generate_options *o,
                              weft_generate_stats *stats)
{
    if (v->echo)
        cli_write_text(prompt->text, prompt->length);
    weft_status status = compute(v, source, prompt, o, stream, NULL, stats);
    if (status == WEFT_OK || v->echo || stats->tokens > 0)
        putchar('\n');
    fflush(stdout);
    if (status == WEFT_OK && v->stats)
        print_stats(stats);
    else if (status == WEFT_OK && stats->reason >= WEFT_FINISH_CANCELLED)
        fprintf(stderr, "weft: generate: %s\n", weft_finish_name(stats->reason));
    if (status == WEFT_OK)
        cli_profile_print();
    return status;
}

weft_status generate_print(const generate_values *v, const generate_source *source,
                           const prompt_ids *prompt, weft_generate_options *o,
                           weft_generate_stats *stats)
{
    return v->json ? run_json(v, source, prompt, o, stats)
                   : run_stream(v, source, prompt, o, stats);
}
