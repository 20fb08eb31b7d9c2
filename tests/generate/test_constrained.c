/* tests/generate/test_constrained.c -- documents that models with random weights generate under
 * schemas, those of tests/support/schemas.h and random ones: an independent validator parses each
 * and checks it against its schema. WEFT_TEST_DOCUMENTS says how many; 60 otherwise. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/json_schema.h"
#include "tests/support/schemas.h"
#include "weft/generate.h"
#include "weft/random.h"

static weft_tokenizer *tokenizer;
static uint64_t seed = 88172645463325252u;

static uint64_t below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

/* A model of one small layer and the storyteller's vocabulary. */
static weft_model *random_model(uint64_t key)
{
    static const char text[] =
        "{\"model_type\":\"llama\",\"vocab_size\":4096,\"hidden_size\":32,\"intermediate_size\":48,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
        "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5,\"eos_token_id\":4093}";
    weft_config *config = NULL;
    weft_model *model = NULL;
    weft_random_seed(key);
    CHECK_OK(weft_config_parse(text, "random model", &config));
    CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    return model;
}

/* ---- random schemas ------------------------------------------------------------------------- */

static void put_schema(FILE *out, int depth);

static void put_number(FILE *out)
{
    const int low = (int)below(400) - 200;
    fprintf(out, "{\"type\":\"%s\",\"%s\":%d,\"%s\":%d}", below(2) ? "integer" : "number",
            below(2) ? "minimum" : "exclusiveMinimum", low,
            below(2) ? "maximum" : "exclusiveMaximum", low + 2 + (int)below(300));
}

static void put_string(FILE *out)
{
    static const char *const patterns[] = {"^[a-z]{2,5}$", "[0-9]", "^(on|off|auto)$", "^x.*y$"};
    const int low = (int)below(4);
    if (below(3) == 0)
        fprintf(out, "{\"type\":\"string\",\"pattern\":\"%s\",\"maxLength\":9}",
                patterns[below(4)]);
    else
        fprintf(out, "{\"type\":\"string\",\"minLength\":%d,\"maxLength\":%d}", low,
                low + (int)below(9));
}

static void put_array(FILE *out, int depth)
{
    const int low = (int)below(3);
    fputs("{\"type\":\"array\",\"items\":", out);
    put_schema(out, depth - 1);
    fprintf(out, ",\"minItems\":%d,\"maxItems\":%d}", low, low + (int)below(3));
}

static void put_object(FILE *out, int depth)
{
    const int n = 1 + (int)below(3);
    fputs("{\"type\":\"object\",\"properties\":{", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s\"%c%d\":", i ? "," : "", "abc"[below(3)], i);
        put_schema(out, depth - 1);
    }
    fputs("}", out);
    if (below(2))
        fputs(",\"additionalProperties\":false", out);
    fputs("}", out);
}

static void put_any_of(FILE *out, int depth)
{
    fputs("{\"anyOf\":[", out);
    put_schema(out, depth - 1);
    fputs(",", out);
    put_schema(out, depth - 1);
    fputs("]}", out);
}

static void put_schema(FILE *out, int depth)
{
    static const char *const leaves[] = {"{\"type\":\"boolean\"}", "{\"type\":\"null\"}",
                                         "{\"enum\":[1,\"two\",[3],null]}", "{\"const\":-7.5}"};
    const uint64_t kind = below(depth > 0 ? 7 : 4);
    if (kind == 0)
        put_number(out);
    else if (kind == 1 || kind == 2)
        put_string(out);
    else if (kind == 3)
        fputs(leaves[below(4)], out);
    else if (kind == 4)
        put_array(out, depth);
    else if (kind == 5)
        put_object(out, depth);
    else
        put_any_of(out, depth);
}

/* ---- documents ------------------------------------------------------------------------------ */

typedef struct tally {
    long documents, by_eos, whole, tokens;
} tally;

static bool collect(void *context, const weft_generated *token)
{
    fwrite(token->text, 1, token->length, context);
    return true;
}

/* Generates one document; returns whether it is valid. */
static bool one(weft_model *model, weft_constraint *constraint, const char *text,
                json_object *schema, tally *t)
{
    static const int32_t words[] = {2010, 370, 627, 258, 550, 451, 309}; /* of whole characters */
    const int32_t prompt[] = {words[below(7)], words[below(7)]};
    const weft_generate_options o = {
        .max_tokens = 60 + (int64_t)below(100),
        .seed = below(1u << 30),
        .sampler = {.temperature = below(8) == 0 ? 0 : 0.5 + (double)below(100) / 50,
                    .top_k = below(3) == 0 ? 40 : 0,
                    .presence_penalty = below(3) == 0 ? 0.5 : 0},
        .constraint = constraint,
        .no_compile = below(16) != 0,
    };
    char *document = NULL;
    size_t length = 0;
    weft_generate_stats stats;
    FILE *out = open_memstream(&document, &length);
    bool good = weft_constraint_reset(constraint) == WEFT_OK &&
                weft_generate(model, tokenizer, prompt, 2, &o, collect, out, &stats) == WEFT_OK;
    fclose(out);
    enum json_tokener_error error = json_tokener_continue;
    json_object *value = good ? json_tokener_parse_verbose(document, &error) : NULL;
    good = good && error == json_tokener_success && json_schema_fits(schema, schema, value) &&
           stats.reason == WEFT_FINISH_STOP;
    if (!good)
        CHECK_FAIL("'%s' does not fit %s (%s)", document, text, weft_error_message());
    t->documents++;
    t->by_eos += good && stats.detail == WEFT_FINISH_EOS;
    t->whole += good && stats.detail == WEFT_FINISH_DOCUMENT;
    t->tokens += good ? stats.tokens : 0;
    json_object_put(value);
    free(document);
    return good;
}

/* `n` documents of one schema; false when it is one that nothing satisfies. */
static bool some(const char *text, int n, tally *t)
{
    weft_constraint *constraint = NULL;
    if (weft_constraint_new(tokenizer, text, strlen(text), "schema", NULL, &constraint) != WEFT_OK)
        return false;
    json_object *schema = json_tokener_parse(text);
    weft_model *model = random_model(below(1u << 30));
    for (int i = 0; model && i < n && one(model, constraint, text, schema, t); i++) {
    }
    weft_model_free(model);
    json_object_put(schema);
    weft_constraint_free(constraint);
    return true;
}

static void every_document_fits_its_schema(void)
{
    const char *wanted = getenv("WEFT_TEST_DOCUMENTS");
    const long n = wanted ? atol(wanted) : 60;
    const int listed = (int)(sizeof schemas / sizeof *schemas);
    tally t = {0};
    long different = 0, empty = 0, passed = 0;
    if (!CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        return;
    for (long round = 0; t.documents < n && passed == t.documents; round++) {
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        if (round < listed)
            fputs(schemas[round], out);
        else
            put_schema(out, 3);
        fclose(out);
        const int each = round < listed ? (int)(n / 40 + 1) : 5;
        if (some(text, each, &t))
            different++;
        else
            empty++;
        passed = t.by_eos + t.whole;
        free(text);
    }
    printf(
        "  %ld documents of %ld schemas (%ld more that nothing satisfies), %ld tokens; %ld ended "
        "by the end of the text, %ld where nothing could follow\n",
        t.documents, different, empty, t.tokens, t.by_eos, t.whole);
    CHECK_EQ_INT(passed, t.documents);
    CHECK(t.by_eos > 0 && t.whole > 0 && empty * 10 < different);
    weft_tokenizer_free(tokenizer);
}

/* The status of one document under a schema with at most `max_tokens` tokens. */
static weft_status with_limit(const char *schema, int64_t max_tokens, weft_generate_stats *stats)
{
    static const int32_t prompt[] = {2010, 370};
    weft_constraint *constraint = NULL;
    weft_model *model = random_model(1);
    weft_status status =
        weft_constraint_new(tokenizer, schema, strlen(schema), "schema", NULL, &constraint);
    const weft_generate_options o = {
        .max_tokens = max_tokens, .constraint = constraint, .no_compile = true};
    *stats = (weft_generate_stats){0};
    if (CHECK_OK(status))
        status = weft_generate(model, tokenizer, prompt, 2, &o, NULL, NULL, stats);
    weft_constraint_free(constraint);
    weft_model_free(model);
    return status;
}

static void incomplete_documents_fail(void)
{
    weft_generate_stats stats;
    if (!CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        return;
    CHECK_STATUS(with_limit("{\"const\":\"0123456789\"}", 5, &stats), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "incomplete after 5 tokens, the limit of max_tokens: at "
                                         "least ");
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_ERROR);
    CHECK_STATUS(with_limit("{\"type\":\"string\",\"minLength\":400}", 3, &stats), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the shortest document of the constraint has 402 bytes");
    CHECK_CONTAINS(weft_error_message(), "the limit of max_tokens is 3");
    CHECK_EQ_INT(stats.tokens, 0);
    CHECK_STATUS(with_limit("{\"type\":\"string\",\"minLength\":4000}", 3000, &stats),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the limit of the model's positions");
    CHECK_OK(with_limit("{\"const\":\"0123456789\"}", 12, &stats));
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_STOP);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("constrained", CHECK_CASE(every_document_fits_its_schema),
           CHECK_CASE(incomplete_documents_fail))
