/* tests/cli/test_cli_eval.c -- weft eval --context: perplexity by chunks of a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/support/models.h"
#include "weft/batch.h"

enum { CONTEXT = 48 };

static double number(const output *o, const char *key)
{
    json_object *root = json_tokener_parse(o->out), *value = NULL;
    double found = (double)NAN;
    if (CHECK(root != NULL) && CHECK(json_object_object_get_ex(root, key, &value)))
        found = json_object_get_double(value);
    json_object_put(root);
    return found;
}

/* The command prints the library's result for the same ids. */
static void check_result(const output *o, const int32_t *ids, size_t n, const int32_t *bos,
                         int64_t chunks)
{
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_perplexity p = {0};
    const weft_perplexity_options options = {.context = CONTEXT, .chunks = chunks, .bos = bos};
    if (!CHECK_EQ_INT(o->code, 0) || !storyteller(&model, &tokenizer) ||
        !CHECK_OK(weft_perplexity_chunks(model, ids, n, &options, &p)))
        return;
    CHECK_RELATIVE(number(o, "loss"), p.loss, 1e-6);
    CHECK_RELATIVE(number(o, "perplexity"), p.perplexity, 1e-6);
    CHECK_RELATIVE(number(o, "uncertainty"), p.uncertainty, 1e-5);
    CHECK_EQ_INT(number(o, "chunks"), p.chunks);
    CHECK_EQ_INT(number(o, "targets"), p.targets);
    CHECK_EQ_INT(number(o, "context"), CONTEXT);
}

/* The file is one text, blank lines and JSON in it included. */
static void chunks_are_the_library_s(void)
{
    static char text[4096];
    for (int i = 0; strlen(text) < 2500; i++)
        snprintf(text + strlen(text), 120, "{\"text\": \"The %d ships\"}\n\nsailed in a row, ", i);
    const char *data = text_file("ships.txt", text);
    weft_model *model;
    weft_tokenizer *tokenizer;
    int32_t *ids = NULL;
    size_t n = 0;
    if (!storyteller(&model, &tokenizer) ||
        !CHECK_OK(weft_tokenizer_encode(tokenizer, text, strlen(text), 0, &ids, &n)))
        return;
    const char *folder = check_source("examples/storyteller");
    output o = weft_command(NULL, "eval %s --data %s --context %d --json", folder, data, CONTEXT);
    check_result(&o, ids, n, NULL, 0);
    CHECK(number(&o, "chunks") > 4);
    o = weft_command(NULL, "eval %s --data %s --context %d --chunks 3 -b 2 --json", folder, data,
                     CONTEXT);
    check_result(&o, ids, n, NULL, 3);
    o = weft_command(NULL, "eval %s --data %s --context %d --chunks 3", folder, data, CONTEXT);
    CHECK_CONTAINS(o.out, " +/- ");
    CHECK_CONTAINS(o.out, "in 3 chunks of 48");
    weft_free(ids);
}

/* A tokenizer that puts a begin token in front: it begins the text, and each chunk. */
static void chunks_begin_with_the_begin_token(void)
{
    static char text[2048];
    for (int i = 0; strlen(text) < 1500; i++)
        snprintf(text + strlen(text), 100, "The %d ships sailed in a row, ", i);
    const char *data = text_file("more.txt", text), *folder = check_temporary("begins");
    const output made = shell_command(
        NULL,
        "mkdir -p %s && cp %s/* %s/ && sed -i 's/\"post_processor\": null/\"post_processor\": "
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<|endoftext|>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
        "\"pair\": [], \"special_tokens\": {\"<|endoftext|>\": {\"id\": \"<|endoftext|>\", "
        "\"ids\": [4093], \"tokens\": [\"<|endoftext|>\"]}}}/' %s/tokenizer.json",
        folder, check_source("examples/storyteller"), folder, folder);
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (!CHECK_EQ_INT(made.code, 0) || !CHECK_OK(weft_tokenizer_load(folder, &tokenizer)))
        return;
    const int32_t bos = weft_tokenizer_bos(tokenizer);
    CHECK_OK(
        weft_tokenizer_encode(tokenizer, text, strlen(text), WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n));
    if (CHECK(n > 3 * CONTEXT) && CHECK_EQ_INT(ids[0], bos)) {
        const output o =
            weft_command(NULL, "eval %s --data %s --context %d --json", folder, data, CONTEXT);
        check_result(&o, ids, n, &bos, 0);
    }
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
}

static void bad_chunks_are_refused(void)
{
    const char *data = text_file("short.txt", "Once upon a time.");
    const char *folder = check_source("examples/storyteller");
    static const char *const usage[] = {"--chunks 2", "--context 3", "--context 16 --last 0.5",
                                        "--context 16 --chunks 0"};
    for (size_t i = 0; i < sizeof usage / sizeof *usage; i++) {
        const output o = weft_command(NULL, "eval %s --data %s %s", folder, data, usage[i]);
        check_one_line(&o, 2);
    }
    output o = weft_command(NULL, "eval %s --data %s --context 16", folder, data);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "at least one chunk of 16");
    o = weft_command(NULL, "eval %s --data %s --context 4096", folder, data);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "positions");
    o = weft_command(NULL, "eval %s --data /no/such/file --context 16", folder);
    check_one_line(&o, 1);
}

CHECK_MAIN("cli_eval", CHECK_CASE(chunks_are_the_library_s),
           CHECK_CASE(chunks_begin_with_the_begin_token), CHECK_CASE(bad_chunks_are_refused))
