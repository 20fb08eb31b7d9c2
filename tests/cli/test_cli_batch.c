/* tests/cli/test_cli_batch.c -- weft classify, weft embed, weft inspect, weft generate with --batch
 * and
 * --draft. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/ops.h"

/* Member `key` of line `line` (from 0) of JSON objects; the caller puts the root. */
static json_object *member(const char *lines, int line, const char *key, json_object **root)
{
    json_object *value = NULL;
    for (int i = 0; lines != NULL && i < line; i++) {
        lines = strchr(lines, '\n');
        lines = lines != NULL ? lines + 1 : NULL;
    }
    *root = NULL;
    if (!CHECK(lines != NULL))
        return NULL;
    char one[65536];
    snprintf(one, sizeof one, "%.*s", (int)strcspn(lines, "\n"), lines);
    *root = json_tokener_parse(one);
    if (CHECK(*root != NULL))
        json_object_object_get_ex(*root, key, &value);
    return value;
}

static void check_text(const output *o, int line, const char *key, const char *expected)
{
    json_object *root, *value = member(o->out, line, key, &root);
    if (CHECK(value != NULL))
        CHECK_CONTAINS(json_object_get_string(value), expected);
    json_object_put(root);
}

/* The probability of the most probable token is that of a greedy generation. */
static void classify_prints_the_next_token(void)
{
    json_object *root, *value;
    output o = weft_command(NULL, "generate %s -p 'Once upon a' -t 0 -n 1 --json", model());
    value = member(o.out, 0, "logprobs", &root);
    double expected = json_object_get_double(json_object_array_get_idx(value, 0));
    json_object_put(root);
    o = weft_command(NULL, "classify %s 'Once upon a' 'The old' --json --top 4", model());
    CHECK_EQ_INT(o.code, 0);
    check_text(&o, 0, "text", " time");
    check_text(&o, 1, "prompt", "The old");
    value = member(o.out, 0, "tokens", &root);
    if (CHECK_EQ_INT(json_object_array_length(value), 4)) {
        double before = 1;
        for (size_t i = 0; i < 4; i++) {
            json_object *one = json_object_array_get_idx(value, i), *number;
            json_object_object_get_ex(one, "probability", &number);
            CHECK(json_object_get_double(number) <= before);
            before = json_object_get_double(number);
            json_object_object_get_ex(one, "logprob", &number);
            CHECK_CLOSE(exp(json_object_get_double(number)), before, 1e-9);
            if (i == 0)
                CHECK_CLOSE(json_object_get_double(number), expected, 1e-4);
        }
    }
    json_object_put(root);
}

static void classify_chooses_among_labels(void)
{
    output o = weft_command("The wolf ate the\n{\"prompt\": \"The king and the\"}\n",
                            "classify %s --labels ' queen, lamb' --json", model());
    CHECK_EQ_INT(o.code, 0);
    check_text(&o, 0, "label", " lamb");
    check_text(&o, 1, "label", " queen");
    json_object *root, *value = member(o.out, 1, "labels", &root);
    double sum = 0;
    for (size_t i = 0; CHECK(value != NULL) && i < 2; i++) {
        json_object *number;
        json_object_object_get_ex(json_object_array_get_idx(value, i), "probability", &number);
        sum += json_object_get_double(number);
    }
    CHECK_CLOSE(sum, 1, 1e-9);
    json_object_put(root);
    o = weft_command("The wolf ate the\n", "classify %s -f - --labels ' queen, lamb'", model());
    CHECK(strncmp(o.out, " lamb\t0.", 8) == 0);
}

/* A drawn token is the first token that `weft generate` draws with the seed of its position. */
static void classify_draws_tokens(void)
{
    char first[2][64];
    int different = 0;
    for (int seed = 3; seed < 11; seed++) {
        output o = weft_command("Once upon a\nOnce upon a\n",
                                "classify %s -t 1.5 --top-p 0.5 --seed %d --json", model(), seed);
        CHECK_EQ_INT(o.code, 2); /* temperature is the only sampling option */
        o = weft_command("Once upon a\nOnce upon a\n", "classify %s -t 1.5 --seed %d --json",
                         model(), seed);
        CHECK_EQ_INT(o.code, 0);
        for (int i = 0; i < 2; i++) {
            json_object *root, *value = member(o.out, i, "text", &root);
            snprintf(first[i], sizeof first[i], "%s", json_object_get_string(value));
            json_object_put(root);
        }
        different += strcmp(first[0], first[1]) != 0;
        o = weft_command(NULL,
                         "generate %s -p 'Once upon a' -n 1 -t 1.5 --seed %d --json --ignore-eos",
                         model(), seed + 1);
        check_text(&o, 0, "text", first[1]);
    }
    CHECK(different > 3);
}

/* How many of the texts with other seeds begin with another token than ",". */
static int other_tokens(const char *folder, const char *options)
{
    int n = 0;
    for (int seed = 0; seed < 12; seed++) {
        const output o =
            weft_command(NULL, "generate %s -p 'The king' -n 1 --seed %d --json --ignore-eos %s",
                         folder, seed, options);
        json_object *root, *value = member(o.out, 0, "text", &root);
        n += CHECK(value != NULL) && strcmp(json_object_get_string(value), ",") != 0;
        json_object_put(root);
    }
    return n;
}

/* "," has 0.62 of the three most probable tokens, and 0.19 of all: with top_p 0.6 it is the only
 * one that is left when top_k goes first, else one of three. A generation_config.json that sets one
 * of them decides, also where flags change the values. */
static void the_order_of_the_sampler(void)
{
    static const char config[] = "{\"do_sample\": true, \"top_k\": 3}";
    char folder[600], path[700];
    snprintf(folder, sizeof folder, "%s", check_temporary("configured"));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    CHECK_EQ_INT(shell_command(NULL, "mkdir %s && ln -s %s/* %s", folder, model(), folder).code, 0);
    CHECK_OK(weft_file_write(path, config, strlen(config)));
    const char *const all = "-t 1 --top-k 3 --top-p 0.6";
    CHECK(other_tokens(model(), all) > 2);
    CHECK_EQ_INT(other_tokens(model(), "-t 1 --top-k 3 --top-p 0.6 --sampler-order top-k-first"),
                 0);
    CHECK_EQ_INT(other_tokens(folder, all), 0);
    CHECK_EQ_INT(other_tokens(folder, "--top-p 0.6"), 0);
    CHECK(other_tokens(folder, "--top-p 0.6 --sampler-order top-p-first") > 2);
    const output o = weft_command(NULL, "generate %s -p x --sampler-order k", model());
    check_one_line(&o, 2);
}

static void classify_writes_logits(void)
{
    const char *path = check_temporary("logits.safetensors");
    output o =
        weft_command("Once upon a\n{\nThe king\n", "classify %s --logits %s --json", model(), path);
    weft_safetensors *file = NULL;
    CHECK_EQ_INT(o.code, 1);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    weft_array *logits = weft_safetensors_get(file, "logits");
    if (CHECK(weft_ndim(logits) == 2) && CHECK_EQ_INT(weft_dim(logits, 0), 3)) {
        weft_array *p = weft_softmax(weft_slice_axis(logits, 0, 0, 1), -1);
        json_object *root, *value = member(o.out, 0, "tokens", &root), *number = NULL;
        json_object_object_get_ex(json_object_array_get_idx(value, 0), "probability", &number);
        CHECK_CLOSE(weft_item(weft_max(p, WEFT_ALL_AXES, false)), json_object_get_double(number),
                    1e-6);
        json_object_put(root);
        weft_array *bad = weft_slice_axis(logits, 0, 1, 2),
                   *good = weft_slice_axis(logits, 0, 2, 3);
        CHECK_EQ_INT(weft_item_int(weft_sum(weft_isnan(bad), WEFT_ALL_AXES, false)),
                     weft_dim(logits, 1));
        CHECK_EQ_INT(weft_item_int(weft_sum(weft_isnan(good), WEFT_ALL_AXES, false)), 0);
    }
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    static const char *const usage[] = {"-t 1 --top 3",
                                        "-t 1 --labels a,b",
                                        "--logits f --labels a,b",
                                        "--backend transformers --labels a,b",
                                        "--backend transformers --top 2",
                                        "--backend transformers --logits f"};
    for (size_t i = 0; i < sizeof usage / sizeof *usage; i++) {
        o = weft_command(NULL, "classify %s text %s", model(), usage[i]);
        check_one_line(&o, 2);
    }
    o = weft_command(NULL, "classify %s text --logits /no/such/folder/f", model());
    check_one_line(&o, 1);
}

static void classify_continues_after_a_bad_line(void)
{
    output o = weft_command("{\"prompt\": 3}\n{\"p\": \"x\"}\n{\nOnce upon a\n\xff\n",
                            "classify %s --json", model());
    CHECK_EQ_INT(o.code, 1);
    check_text(&o, 0, "error", "line 1");
    check_text(&o, 1, "error", "line 2");
    check_text(&o, 2, "error", "line 3");
    check_text(&o, 3, "text", " time");
    check_text(&o, 4, "error", "UTF-8");
    o = weft_command(NULL, "classify %s text -f file", model());
    check_one_line(&o, 2);
    o = weft_command("a\n", "classify %s --labels a,,b", model());
    check_one_line(&o, 1);
    o = weft_command(NULL, "classify %s -f no/such/file", model());
    check_one_line(&o, 1);
}

/* The vector of a line of `weft embed --json`, to be freed by the caller; NULL after a failed
 * check. */
static double *vector_of(const output *o, int line, size_t *n)
{
    json_object *root, *value = member(o->out, line, "embedding", &root);
    double *out = NULL;
    if (CHECK(json_object_is_type(value, json_type_array))) {
        *n = json_object_array_length(value);
        out = malloc((*n + 1) * sizeof *out);
        for (size_t i = 0; out != NULL && i < *n; i++)
            out[i] = json_object_get_double(json_object_array_get_idx(value, i));
    }
    json_object_put(root);
    return out;
}

static double norm_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void embed_prints_vectors(void)
{
    size_t n = 0, m = 0;
    output o = weft_command("Once upon a time\n{\"text\": \"Once more\"}\n",
                            "embed %s --pooling cls --normalize --json", model());
    CHECK_EQ_INT(o.code, 0);
    check_text(&o, 1, "text", "Once more");
    double *a = vector_of(&o, 0, &n), *b = vector_of(&o, 1, &m);
    if (a != NULL && b != NULL && CHECK_EQ_INT(n, m) && CHECK(n > 8)) {
        CHECK_CLOSE(norm_of(a, n), 1, 1e-6);
        for (size_t i = 0; i < n; i++)
            CHECK_CLOSE(a[i], b[i], 1e-6); /* both begin with one token, which sees only itself */
    }
    free(b);
    /* The mean of one token's states is that token's, with norm 1 the same vector again. */
    o = weft_command(NULL, "embed %s On", model());
    CHECK_EQ_INT(o.code, 0);
    double *c = malloc((n + 1) * sizeof *c);
    char *at = o.out;
    for (size_t i = 0; i < n; i++)
        c[i] = strtod(at, &at);
    CHECK_STR(at, "\n");
    const double norm = norm_of(c, n);
    CHECK(norm > 1.5);
    for (size_t i = 0; a != NULL && i < n; i++)
        CHECK_CLOSE(c[i] / norm, a[i], 1e-6);
    free(a);
    free(c);
}

static void embed_continues_after_a_bad_line(void)
{
    output o = weft_command("{\nOnce\n", "embed %s --json", model());
    CHECK_EQ_INT(o.code, 1);
    check_text(&o, 0, "error", "line 1");
    check_text(&o, 1, "text", "Once");
    o = weft_command(NULL, "embed %s text -f file", model());
    check_one_line(&o, 2);
    o = weft_command(NULL, "embed %s text --pooling sum", model());
    check_one_line(&o, 2);
    o = weft_command("", "embed %s", model());
    check_one_line(&o, 1);
}

/* A checkpoint of sentence-transformers: pooling, normalization, longest text, prompts. */
static void embed_follows_the_checkpoint(void)
{
    static const char *const words[] = {"embed %s --json", "embed %s --json --prompt query"};
    const char *model = check_fixture("models/bert");
    double *vectors[2];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        output o = weft_command("a king\nquery: a king\n", words[i], model);
        CHECK_EQ_INT(o.code, 0);
        vectors[i] = vector_of(&o, i == 0, &n); /* the prompt, as text and by its name */
        check_text(&o, 0, "text", "a king");
    }
    if (vectors[0] != NULL && vectors[1] != NULL) {
        CHECK_CLOSE(norm_of(vectors[0], n), 1, 1e-6);
        for (size_t i = 0; i < n; i++)
            CHECK_CLOSE(vectors[1][i], vectors[0][i], 1e-6);
    }
    free(vectors[0]);
    free(vectors[1]);
    char text[200] = "";
    for (int i = 0; i < 40; i++)
        strcat(text, "a b ");
    output o = weft_command(text, "embed %s --json", model);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"tokens\": 32,");
    CHECK_CONTAINS(o.err, "1 of 1 texts are cut to 32 tokens");
    o = weft_command("a", "embed %s --prompt passage", model);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "prompts: 'passage' is missing (known: query)");
    /* A converted model keeps its modules, among them linears. */
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("converted"));
    model = check_fixture("models/embedder-gemma3");
    o = weft_command(NULL, "convert %s %s --type bf16", model, folder);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command("a king\n", "embed %s --json --dtype float32", model);
    vectors[0] = vector_of(&o, 0, &n);
    o = weft_command("a king\n", "embed %s --json --dtype float32", folder);
    vectors[1] = vector_of(&o, 0, &n);
    double product = 0;
    for (size_t i = 0; vectors[0] != NULL && vectors[1] != NULL && i < n; i++)
        product += vectors[0][i] * vectors[1][i];
    CHECK_CLOSE(product, 1, 1e-3); /* both have norm 1; weights are rounded to bfloat16 */
    free(vectors[0]);
    free(vectors[1]);
    model = check_fixture("models/bert");
    o = weft_command(NULL, "generate %s -p a", model);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "bert models are encoders");
}

static int lines_of(const char *text)
{
    int n = 0;
    for (const char *c = text; *c != '\0'; c++)
        n += *c == '\n';
    return n;
}

/* Line i of the output belongs to line i of the input, even if that is blank. */
static void blank_lines_count_as_lines(void)
{
    static const char input[] = "Once\n\n \r\nking\n";
    const char *file = text_file("blank.txt", input);
    output o = weft_command(NULL, "embed %s -f %s --json", model(), file);
    CHECK_EQ_INT(o.code, 1);
    CHECK_EQ_INT(lines_of(o.out), 4);
    check_text(&o, 1, "error", "blank.txt: line 2: embed: the prompt has no tokens");
    check_text(&o, 2, "text", " ");
    check_text(&o, 3, "text", "king");
    o = weft_command(NULL, "embed %s -f %s", model(), file);
    CHECK_EQ_INT(o.code, 1);
    CHECK_EQ_INT(lines_of(o.out), 4);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "blank.txt: line 2: embed: the prompt has no tokens\n");
    o = weft_command(input, "embed %s", model());
    CHECK_EQ_INT(lines_of(o.out), 4);
    CHECK_CONTAINS(o.err, "weft: standard input: line 2: embed: the prompt has no tokens\n");
    o = weft_command(input, "classify %s", model());
    CHECK_EQ_INT(lines_of(o.out), 4);
    CHECK_CONTAINS(o.err, "weft: standard input: line 2: classify: the prompt has no tokens\n");
    o = weft_command(NULL, "embed %s Once ''", model());
    CHECK_EQ_INT(lines_of(o.out), 2);
    CHECK_CONTAINS(o.err, "weft: text 2: embed: the prompt has no tokens\n");
}

/* Beyond the model's 1,024 positions. */
static void generate_continues_with_shift(void)
{
    output o = weft_command(NULL,
                            "generate %s -p 'Once upon a time' -n 1100 -t 0 --ignore-eos --json "
                            "--tokens-per-eval 8",
                            model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"reason_detail\": \"positions\"");
    CHECK_CONTAINS(o.out, "\"shifts\": 0");
    o = weft_command(NULL,
                     "generate %s -p 'Once upon a time' -n 1100 -t 0 --ignore-eos --json "
                     "--tokens-per-eval 8 --shift",
                     model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"reason_detail\": \"max_tokens\"");
    CHECK_CONTAINS(o.out, "\"tokens\": 1100");
    CHECK_CONTAINS(o.out, "\"shifts\": 1");
    o = weft_command(NULL,
                     "generate %s -p 'Once upon a time' -n 1100 -t 0 --ignore-eos --stats "
                     "--tokens-per-eval 8 --shift",
                     model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "context shifts: 1\n");
}

static void inspect_writes_keys_and_queries(void)
{
    const char *path = check_temporary("inspect.safetensors");
    weft_safetensors *file = NULL;
    output o = weft_command(NULL, "inspect %s -p 'Once upon a time' -o %s --json", model(), path);
    CHECK_EQ_INT(o.code, 0);
    check_text(&o, 0, "architecture", "qwen3");
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    weft_array *keys = weft_safetensors_get(file, "layers.5.keys");
    weft_array *queries = weft_safetensors_get(file, "layers.5.queries");
    CHECK_EQ_INT(weft_dim(keys, 0), 1);
    CHECK_EQ_INT(weft_dim(queries, 0), 3);
    CHECK_EQ_INT(weft_dim(keys, 1), weft_dim(queries, 1));
    CHECK_EQ_INT(weft_dim(keys, 2), 64);
    CHECK_CONTAINS(weft_safetensors_metadata(file, "tokens"), "[2010, 370, 627");
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    o = weft_command(NULL, "inspect %s", model());
    check_one_line(&o, 2);
    o = weft_command(NULL, "inspect %s -p ''", model());
    check_one_line(&o, 1);
}

/* The line of the output with this index; -1: not found. */
static int line_of(const output *o, int index)
{
    char part[32];
    snprintf(part, sizeof part, "\"index\": %d,", index);
    const char *at = strstr(o->out, part);
    int line = 0;
    for (const char *c = o->out; at != NULL && c < at; c++)
        line += *c == '\n';
    return CHECK(at != NULL) ? line : -1;
}

static void strings_that_end_texts_have_no_nul(void)
{
    output o = weft_command("{\"prompt\": \"x\", \"stop\": [\"a\\u0000\"]}\n",
                            "generate %s --batch - -n 2", model());
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "line 1: stop: expected a string without \\\\u0000");
}

/* Each line has the result of a single run, a bad one is reported, and the shortest text ends
 * first. */
static void a_batch_prints_a_line_for_each_line(void)
{
    static const char lines[] =
        "{\"prompt\": \"Once upon a time\", \"max_tokens\": 8, \"id\": \"a\"}\n"
        "{\"prompt\": \"The wolf\", \"id\": [1], \"stop\": \" and\"}\n"
        "\n"
        "{\"text\": \"no prompt\"}\n"
        "nonsense\n"
        "{\"prompt\": \"x\", \"temperature\": -1}\n"
        "{\"prompt\": \"A king\", \"temperature\": 1, \"seed\": 7}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"The fox\"}]}\n";
    output o = weft_command(lines, "generate %s --batch - -t 0 -n 12 --stats", model());
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "4 texts");
    char all[8192], expected[1024];
    snprintf(all, sizeof all, "%s", o.out);
    const output batch = {0, all, NULL};
    check_text(&batch, line_of(&batch, 0), "id", "a");
    check_text(&batch, line_of(&batch, 0), "reason", "length");
    check_text(&batch, line_of(&batch, 1), "id", "[ 1 ]");
    check_text(&batch, line_of(&batch, 2), "error", "line 4");
    check_text(&batch, line_of(&batch, 3), "error", "line 5");
    check_text(&batch, line_of(&batch, 4), "error", "temperature");
    check_text(&batch, line_of(&batch, 5), "id", "7");
    CHECK(line_of(&batch, 0) < line_of(&batch, 5));
    static const struct {
        int index;
        const char *alone;
    } texts[] = {{0, "generate %s -p 'Once upon a time' -t 0 -n 8"},
                 {5, "generate %s -p 'A king' -t 1 -s 7 -n 12"},
                 {6, "chat %s -p 'The fox' -t 0 -n 12"}};
    for (int i = 0; i < 3; i++) {
        char command[200];
        snprintf(command, sizeof command, texts[i].alone, model());
        o = weft_command(NULL, "%s", command);
        snprintf(expected, sizeof expected, "%.*s", (int)strcspn(o.out, "\n"), o.out);
        CHECK(strlen(expected) > 10);
        check_text(&batch, line_of(&batch, texts[i].index), "text", expected);
    }
    o = weft_command(lines, "generate %s --batch - -p text", model());
    check_one_line(&o, 2);
    o = weft_command(NULL, "generate %s --batch no/such/file", model());
    check_one_line(&o, 1);
    o = weft_command("\n", "generate %s --batch -", model());
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "there are no lines");
}

/* Results that are complete when Ctrl-C comes are printed line by line; the exit status is that of
 * SIGINT. */
static void an_interrupted_batch_keeps_finished_results(void)
{
    static char lines[40000];
    for (size_t n = 0; n + 100 < sizeof lines;)
        n += (size_t)snprintf(lines + n, 100, "{\"prompt\": \"The king\"}\n");
    const char *file = text_file("many.jsonl", lines);
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("ended.jsonl"));
    output o = shell_command(NULL,
                             "%s generate %s --batch %s --batch-rows 2 --ignore-eos -n 60 > %s & "
                             "p=$!; i=0; until [ -s %s ] || [ $i = 600 ]; do sleep 0.1; "
                             "i=$((i + 1)); done; kill -INT $p; wait $p",
                             check_built("cli/weft"), model(), file, out, out);
    CHECK_EQ_INT(o.code, 130);
    CHECK_CONTAINS(o.err, "weft: generate: interrupted: of ");
    char *text = NULL;
    size_t size, whole = 0;
    if (!CHECK_OK(weft_file_read(out, 0, &text, &size)))
        return;
    const output got = {0, text, NULL};
    for (const char *c = text; (c = strchr(c, '\n')) != NULL; c++)
        whole++;
    CHECK(whole > 0 && size > 0 && text[size - 1] == '\n');
    check_text(&got, 0, "reason", "length");
    check_text(&got, (int)whole - 1, "prompt_tokens", "");
    weft_free(text);
}

static void a_draft_gives_the_same_text(void)
{
    output o = weft_command(NULL, "generate %s -p 'The wolf' -t 0 -n 24", model());
    char plain[2048];
    snprintf(plain, sizeof plain, "%s", o.out);
    o = weft_command(NULL, "generate %s -p 'The wolf' -t 0 -n 24 --draft storyteller --stats",
                     model());
    CHECK_STR(o.out, plain);
    CHECK_CONTAINS(o.err, "100.0%");
    o = weft_command(NULL, "generate %s -p 'The wolf' -t 0 -n 24 --ngram 1", model());
    CHECK_STR(o.out, plain);
    o = weft_command(NULL, "generate %s -p x --ngram 1 --draft storyteller", model());
    check_one_line(&o, 2);
}

static void malformed_batch_lines_are_refused(void)
{
    static const char *const lines[][2] = {
        {"{\"prompt\": \"x\", \"sed\": 1}", "line 1: unknown key 'sed'; did you mean seed?"},
        {"{\"prompt\": \"x\", \"zzzzzzzz\": 1}", "line 1: unknown key 'zzzzzzzz' (known: id, "},
        {"{\"prompt\": \"x\", \"seed\": 1.5}", "line 1: seed: expected a whole number, got 1.5"},
        {"{\"prompt\": \"x\", \"max_tokens\": 2.5}", "line 1: max_tokens: expected a whole number"},
        {"{\"prompt\": \"x\", \"top_k\": 0.5}", "line 1: top_k: expected a whole number"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        output o = weft_command(lines[i][0], "generate %s --batch - -n 2", model());
        CHECK_EQ_INT(o.code, 1);
        check_text(&o, 0, "error", lines[i][1]);
    }
}

CHECK_MAIN("cli_batch", CHECK_CASE(classify_prints_the_next_token),
           CHECK_CASE(malformed_batch_lines_are_refused), CHECK_CASE(classify_chooses_among_labels),
           CHECK_CASE(classify_draws_tokens), CHECK_CASE(classify_writes_logits),
           CHECK_CASE(the_order_of_the_sampler), CHECK_CASE(classify_continues_after_a_bad_line),
           CHECK_CASE(embed_prints_vectors), CHECK_CASE(embed_continues_after_a_bad_line),
           CHECK_CASE(embed_follows_the_checkpoint), CHECK_CASE(blank_lines_count_as_lines),
           CHECK_CASE(generate_continues_with_shift), CHECK_CASE(inspect_writes_keys_and_queries),
           CHECK_CASE(strings_that_end_texts_have_no_nul),
           CHECK_CASE(a_batch_prints_a_line_for_each_line),
           CHECK_CASE(an_interrupted_batch_keeps_finished_results),
           CHECK_CASE(a_draft_gives_the_same_text))
