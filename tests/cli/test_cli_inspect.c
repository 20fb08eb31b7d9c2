/* tests/cli/test_cli_inspect.c -- weft inspect --show and --svg: numbers as the library computes
 * them, pictures that are well-formed XML whatever the text, and limits. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/support/models.h"
#include "weft/adapter.h"
#include "weft/batch.h"
#include "weft/inspect.h"
#include "weft/io.h"

/* ---- XML ------------------------------------------------------------------------------------ */

enum { DEPTH = 16, NAME = 16 };

typedef struct xml {
    const char *at, *why; /* why NULL: well-formed so far */
    char open[DEPTH][NAME];
    int depth, elements;
} xml;

static void fail(xml *x, const char *why)
{
    x->why = x->why != NULL ? x->why : why;
}

/* Text or an attribute's value, up to one of the characters of `end`. */
static void read_text(xml *x, const char *end)
{
    for (; *x->at != '\0' && strchr(end, *x->at) == NULL; x->at++) {
        if ((unsigned char)*x->at < 0x20 && *x->at != '\n' && *x->at != '\t')
            fail(x, "a control character");
        if (strncmp(x->at, "\xEF\xBF\xBE", 3) == 0 || strncmp(x->at, "\xEF\xBF\xBF", 3) == 0)
            fail(x, "a character that XML does not allow");
        if (*x->at == '<')
            fail(x, "< in a value");
        if (*x->at != '&')
            continue;
        const size_t digits = strspn(x->at + 2, "0123456789");
        if (x->at[1] != '#' || digits == 0 || x->at[2 + digits] != ';')
            fail(x, "an entity that is not &#N;");
    }
}

static void read_attributes(xml *x)
{
    while (isspace((unsigned char)*x->at)) {
        x->at += strspn(x->at, " \n");
        x->at += strcspn(x->at, "= >");
        if (strncmp(x->at, "=\"", 2) != 0) {
            fail(x, "an attribute without a value");
            return;
        }
        x->at += 2;
        read_text(x, "\"");
        x->at += *x->at == '"';
    }
}

static void read_tag(xml *x)
{
    const bool closes = x->at[1] == '/';
    char name[NAME];
    x->at += closes ? 2 : 1;
    const size_t n = strcspn(x->at, " />\n");
    snprintf(name, sizeof name, "%.*s", (int)n, x->at);
    x->at += n;
    if (closes) {
        if (x->depth == 0 || strcmp(x->open[--x->depth], name) != 0)
            fail(x, "an end tag without its start tag");
    } else {
        x->elements++;
        read_attributes(x);
        if (*x->at == '/')
            x->at++;
        else if (x->depth < DEPTH)
            snprintf(x->open[x->depth++], NAME, "%s", name);
        else
            fail(x, "too deep");
    }
    if (*x->at != '>')
        fail(x, "a tag without its end");
    x->at += *x->at != '\0';
}

/* Checks that the text is one well-formed svg element, as far as pictures use XML; returns the
 * number of elements. */
static int check_xml(const char *text)
{
    xml x = {.at = text};
    if (weft_printable(text) == NULL || strncmp(text, "<svg ", 5) != 0)
        fail(&x, "no <svg> at the start");
    while (*x.at != '\0' && x.why == NULL) {
        if (strncmp(x.at, "<!--", 4) == 0)
            x.at = strstr(x.at, "-->") != NULL ? strstr(x.at, "-->") + 3 : "";
        else if (*x.at == '<')
            read_tag(&x);
        else
            read_text(&x, "<");
        if (x.depth == 0 && *x.at != '\0' && strcmp(x.at, "\n") != 0)
            fail(&x, "text after the root");
    }
    if (x.depth != 0)
        fail(&x, "an element without its end");
    if (x.why != NULL)
        CHECK_FAIL("%s, before: %.60s", x.why, x.at);
    return x.elements;
}

/* The picture, freed with weft_free; also read by xmllint where it is installed. */
static char *read_picture(const char *path)
{
    char *text = NULL;
    CHECK_OK(weft_file_read(path, 0, &text, NULL));
    if (text != NULL)
        CHECK(check_xml(text) > 10);
    CHECK_EQ_INT(
        shell_command(NULL, "! command -v xmllint >/dev/null || xmllint --noout '%s'", path).code,
        0);
    return text;
}

static void malformed_xml_is_noticed(void)
{
    static const char *const bad[] = {
        "<svg a=\"1\"><g></svg>", "<svg a=\"&lt;\"/>", "<svg a=1/>",
        "<svg >a & b</svg>",      "<svg >\x01</svg>",  "<svg >\xEF\xBF\xBE</svg>",
        "<svg ></svg><g/>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xml x = {.at = bad[i]};
        while (*x.at != '\0' && x.why == NULL) {
            if (*x.at == '<')
                read_tag(&x);
            else
                read_text(&x, "<");
            if (x.depth == 0 && *x.at != '\0')
                fail(&x, "text after the root");
        }
        CHECK(x.why != NULL || x.depth != 0);
    }
    CHECK_EQ_INT(check_xml("<svg a=\"1&#60;\"><g b=\"\">x&#38;</g><path/></svg>\n"), 3);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static json_object *parse(const output *o)
{
    json_object *found = o->code == 0 ? json_tokener_parse(o->out) : NULL;
    if (found == NULL)
        CHECK_FAIL("no JSON: %s%s", o->out, o->err);
    return found;
}

static json_object *member(json_object *of, const char *key)
{
    json_object *found = NULL;
    CHECK(json_object_object_get_ex(of, key, &found));
    return found;
}

static double number(json_object *of, const char *key)
{
    return json_object_get_double(member(of, key));
}

static json_object *item(json_object *list, int64_t i)
{
    return json_object_array_get_idx(list, (size_t)i);
}

enum { MOST = 64 };

/* The ids of the tokens; returns their number. */
static int64_t ids_of(json_object *root, int32_t *ids)
{
    json_object *tokens = member(root, "tokens");
    const int64_t n = (int64_t)json_object_array_length(tokens);
    CHECK(n > 2 && n <= MOST);
    for (int64_t i = 0; i < n && i < MOST; i++)
        ids[i] = json_object_get_int(member(item(tokens, i), "id"));
    return n;
}

#define TEXT "Once upon a time there was a king"

static void attention_is_what_the_library_computes(void)
{
    int32_t ids[MOST];
    weft_model *m = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_inspection *x = NULL;
    const output o = weft_command(
        NULL, "inspect %s -p '" TEXT "' --show attention --layers 1-2 --json", model());
    json_object *root = parse(&o);
    if (root == NULL || !storyteller(&m, &tokenizer))
        return;
    const int64_t n = ids_of(root, ids);
    json_object *layers = member(root, "layers");
    CHECK_EQ_INT(json_object_array_length(layers), 2);
    CHECK_OK(weft_inspect_weights(m, ids, (size_t)n, 1, 2, &x));
    for (int64_t l = 0; x != NULL && l < 2; l++) {
        json_object *heads = member(item(layers, l), "heads");
        const float *w = weft_data(x->layers[l + 1].weights);
        CHECK_EQ_INT(number(item(layers, l), "layer"), l + 1);
        CHECK_EQ_INT(json_object_array_length(heads), x->layers[l + 1].n_heads);
        for (int64_t k = 0; k < x->layers[l + 1].n_heads * n * n; k++) {
            json_object *rows = member(item(heads, k / (n * n)), "weights");
            const double got = json_object_get_double(item(item(rows, k / n % n), k % n));
            if (!CHECK_CLOSE(got, (double)w[k], 1e-6))
                break;
        }
        double self = 0;
        for (int64_t i = 2; i < n; i++)
            self += (double)w[i * n + i] / (double)(n - 2);
        CHECK_CLOSE(number(item(heads, 0), "self"), self, 1e-5);
    }
    weft_inspection_free(x);
    json_object_put(root);
}

static const char *adapter(void)
{
    return storyteller_adapter("--steps 6 --rank 3 --lr 0.01");
}

static double mean_of(json_object *tokens, const char *key, const double *expected)
{
    const int64_t n = (int64_t)json_object_array_length(tokens);
    double sum = 0;
    CHECK(member(item(tokens, 0), key) == NULL); /* nothing predicts the first token */
    for (int64_t i = 1; i < n; i++) {
        const double loss = number(item(tokens, i), key);
        CHECK_CLOSE(loss, -expected[i - 1], 1e-5);
        sum += loss;
    }
    return sum / (double)(n - 1);
}

/* The library's log-probabilities with the adapter, NULL: without one. */
static void score(const char *with, const int32_t *ids, int64_t n, double *out)
{
    weft_model *m = NULL;
    weft_scored scored = {0};
    const weft_model_options o = {.dtype = WEFT_FLOAT32};
    const weft_score_request request = {
        .text = {.ids = ids, .n = (size_t)n}, .from = 1, .logprobs = out};
    CHECK_OK(weft_model_load(model(), &o, &m));
    if (with != NULL)
        CHECK_OK(weft_adapter_load(m, with, NULL));
    CHECK_OK(weft_score(m, &request, 1, NULL, &scored));
    CHECK_OK(scored.status);
    weft_scored_free(&scored, 1);
    weft_model_free(m);
}

static void losses_are_what_the_library_computes(void)
{
    int32_t ids[MOST];
    double base[MOST], adapted[MOST];
    const output o = weft_command(NULL,
                                  "inspect %s -p '" TEXT "' --show loss --json -a %s --dtype "
                                  "float32",
                                  model(), adapter());
    json_object *root = parse(&o);
    if (root == NULL)
        return;
    const int64_t n = ids_of(root, ids);
    score(NULL, ids, n, base);
    score(adapter(), ids, n, adapted);
    json_object *tokens = member(root, "tokens");
    CHECK_CLOSE(number(root, "loss"), mean_of(tokens, "loss", base), 1e-6);
    CHECK_CLOSE(number(root, "adapter_loss"), mean_of(tokens, "adapter_loss", adapted), 1e-6);
    CHECK(fabs(number(root, "loss") - number(root, "adapter_loss")) > 1e-3);
    json_object_put(root);
}

static void changes_are_what_the_library_computes(void)
{
    weft_nn_lora_change *changes = NULL;
    weft_model *m = NULL;
    size_t n = 0;
    const output o = weft_command(NULL, "inspect %s --show adapter --json -a %s --dtype float32",
                                  model(), adapter());
    json_object *root = parse(&o);
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    if (root == NULL || !CHECK_OK(weft_model_load(model(), &options, &m)))
        return;
    CHECK_OK(weft_adapter_load(m, adapter(), NULL));
    CHECK_OK(weft_nn_lora_changes(weft_model_module(m), &changes, &n));
    json_object *list = member(root, "changes");
    CHECK_EQ_INT(json_object_array_length(list), n);
    for (size_t i = 0; i < n; i++) {
        json_object *at = item(list, (int64_t)i);
        CHECK_STR(json_object_get_string(member(at, "path")), changes[i].path);
        CHECK_CLOSE(number(at, "norm"), changes[i].norm, 1e-6);
        CHECK_CLOSE(number(at, "relative"), changes[i].norm / changes[i].weight_norm, 1e-6);
        CHECK_CLOSE(number(at, "effective_rank"), changes[i].effective_rank, 1e-5);
        CHECK_CLOSE(json_object_get_double(item(member(at, "singular_values"), 2)),
                    changes[i].singular[2], 1e-6);
        CHECK(changes[i].effective_rank > 1 && changes[i].effective_rank <= 3 + 1e-9);
    }
    CHECK_EQ_INT(json_object_array_length(member(root, "trained_whole")), 0);
    weft_nn_lora_changes_free(changes, n);
    weft_model_free(m);
    json_object_put(root);
}

/* ---- pictures ------------------------------------------------------------------------------- */

static void attention_is_drawn(void)
{
    const char *path = check_temporary("attention.svg");
    output o = weft_command(NULL, "inspect %s -p '" TEXT "' --svg %s", model(), path);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "layer 5 head 2: first 0.");
    char *text = read_picture(path);
    if (text != NULL) {
        CHECK_EQ_INT(count(text, "<title>layer "), 18); /* 6 layers of 3 heads */
        CHECK_CONTAINS(text, "prefers-color-scheme:dark");
        /* The first token of each map reads only itself. */
        CHECK_EQ_INT(count(text, "<path class=\"s8\" d=\"M0 0h1"), 18);
    }
    weft_free(text);
    /* One layer is drawn with the tokens that each token reads. */
    o = weft_command(NULL, "inspect %s -p '" TEXT "' --svg %s --layers 2", model(), path);
    CHECK_EQ_INT(o.code, 0);
    text = read_picture(path);
    if (text != NULL) {
        CHECK_CONTAINS(text, ", layer 2</text>");
        CHECK_EQ_INT(count(text, "<title>token 0 "), 3);
        CHECK_EQ_INT(count(text, " king\u201D reads\n"), 3);
    }
    weft_free(text);
}

static void adapters_are_drawn(void)
{
    const char *path = check_temporary("adapter.svg");
    const output o =
        weft_command(NULL, "inspect %s --show adapter -a %s --svg %s", model(), adapter(), path);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, " of 3  model.layers.5.mlp.down_proj\n");
    char *text = read_picture(path);
    if (text != NULL) /* 7 matrices of 6 layers in both panels */
        CHECK_EQ_INT(count(text, "<title>model.layers."), 84);
    weft_free(text);
}

/* Markup, control characters, a change of direction, malformed UTF-8, and a long token. */
static void texts_are_escaped(void)
{
    static const char hostile[] = "a <script>alert(1)</script> & \"b\" ]]> &lt; \x01\x7f\x1b[31m "
                                  "\xE2\x80\xAE\xEF\xBF\xBE \xC3\xA9\xE6\x97\xA5 \xF0\x9F\x98\x80"
                                  " end\r\n\tnew -->\n";
    const char *file = text_file("hostile.txt", hostile), *path = check_temporary("hostile.svg");
    static const char *const ways[] = {"--show loss", "--show attention --layers 0-1",
                                       "--show attention --layers 3", "--show loss --json"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const output o =
            weft_command(NULL, "inspect %s -f %s %s --svg %s", model(), file, ways[i], path);
        CHECK_EQ_INT(o.code, 0);
        CHECK(strchr(o.out, '\x1b') == NULL);
        char *text = read_picture(path);
        if (text != NULL) {
            CHECK(strstr(text, "<script") == NULL);
            CHECK(strstr(text, "\xE2\x80\xAE") == NULL);
        }
        weft_free(text);
    }
}

/* The color of a token is that of its probability, in both rows. */
static void tokens_have_the_colors_of_their_losses(void)
{
    const char *path = check_temporary("loss.svg");
    const output o =
        weft_command(NULL, "inspect %s -p '" TEXT "' --show loss --json -a %s --svg %s", model(),
                     adapter(), path);
    json_object *root = parse(&o);
    char *text = read_picture(path);
    if (root == NULL || text == NULL)
        return;
    json_object *tokens = member(root, "tokens");
    const char *at = strstr(text, "<title>token 1:");
    for (int64_t i = 1; at != NULL && i < (int64_t)json_object_array_length(tokens); i++) {
        static const char *const keys[] = {"loss", "adapter_loss"};
        char title[32];
        snprintf(title, sizeof title, "<title>token %d:", (int)i);
        at = strstr(at, title);
        for (int k = 0; at != NULL && k < 2; k++) {
            const double bits = number(item(tokens, i), keys[k]) / log(2);
            at = strstr(at, "<rect class=\"v");
            if (CHECK(at != NULL)) {
                at += strlen("<rect class=\"v");
                CHECK_EQ_INT(*at - '0', bits >= 8 ? 8 : (int)bits);
            }
        }
    }
    CHECK(at != NULL);
    weft_free(text);
    json_object_put(root);
}

/* ---- limits --------------------------------------------------------------------------------- */

static const char *words(const char *name, int n)
{
    char *text = malloc((size_t)n * 4 + 1), *end = text;
    for (int i = 0; text != NULL && i < n; i++)
        end = stpcpy(end, " the");
    const char *path = text_file(name, text != NULL ? text : "");
    free(text);
    return path;
}

static void large_texts_are_refused(void)
{
    const char *path = check_temporary("large.svg"), *file = words("large.txt", 400);
    output o = weft_command(NULL, "inspect %s -f %s --svg %s", model(), file, path);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "shorten the text to 332 tokens, or choose --layers");
    CHECK_EQ_INT(
        weft_command(NULL, "inspect %s -f %s --svg %s --layers 0-3", model(), file, path).code, 0);
    o = weft_command(NULL, "inspect %s -f %s --svg %s", model(), words("332.txt", 332), path);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "inspect %s -f %s --show loss --svg %s", model(),
                     words("huge.txt", 10001), path);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "a picture at most 10000");
    o = weft_command(NULL, "inspect %s -f %s --show loss", model(), words("huge.txt", 10001));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "positions");
    /* A model that reads long texts: the weights would not fit into memory. */
    const char *folder = check_temporary("long");
    o = shell_command(NULL,
                      "cp -rL %s %s && sed -i 's/\"max_position_embeddings\": *[0-9]*/"
                      "\"max_position_embeddings\": 100000/' %s/config.json",
                      model(), folder, folder);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "inspect %s -f %s --show attention --json", folder,
                     words("long.txt", 20000));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "need more than 4.3 GB: shorten the text to 7723 tokens, or choose "
                          "fewer --layers\n");
    o = weft_command(NULL, "inspect %s -f %s --show attention --json --layers 0", folder,
                     words("long.txt", 20000));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "need more than 4.3 GB: shorten the text to 18918 tokens, ");
}

/* An encoder, whose tokens read later ones, and a hybrid: layer 2 of 5 has attention. */
static void encoders_and_hybrids_are_shown(void)
{
    char bert[1024], hybrid[1024];
    snprintf(bert, sizeof bert, "%s", check_source("tests/golden/models/bert"));
    snprintf(hybrid, sizeof hybrid, "%s", check_temporary("hybrid"));
    output o = shell_command(NULL,
                             "cp -r %s %s && echo '{\"model\": {\"type\": \"WordPiece\", "
                             "\"unk_token\": \"[UNK]\", \"vocab\": {\"[UNK]\": 0, \"A\": 1, "
                             "\"king\": 2}}, \"pre_tokenizer\": {\"type\": "
                             "\"BertPreTokenizer\"}}' > %s/tokenizer.json",
                             check_source("tests/golden/models/nemotron-h"), hybrid, hybrid);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "inspect %s -p 'A king' --show attention --json", bert);
    CHECK_EQ_INT(o.code, 0);
    json_object *root = parse(&o), *layers = member(root, "layers");
    CHECK_EQ_INT(json_object_array_length(layers), 2);
    for (size_t l = 0; root && l < 2; l++) {
        json_object *rows = member(item(member(item(layers, (int64_t)l), "heads"), 0), "weights");
        double sum = 0;
        for (size_t j = 0; j < json_object_array_length(rows); j++)
            sum += json_object_get_double(item(item(rows, 0), (int64_t)j));
        CHECK_CLOSE(sum, 1, 1e-5);
        CHECK(json_object_get_double(item(item(rows, 0), 2)) > 0);
    }
    json_object_put(root);
    o = weft_command(NULL, "inspect %s -p 'A king'", bert);
    CHECK_CONTAINS(o.out, "layer 1: 4 heads on 4 of 8\n");
    o = weft_command(NULL, "inspect %s -p 'A king'", hybrid);
    CHECK_CONTAINS(o.out, "layer 0: no attention\nlayer 1: no attention\nlayer 2: 4 heads");
    o = weft_command(NULL, "inspect %s -p 'A king' --show attention --svg %s", hybrid,
                     check_temporary("hybrid.svg"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "layer 2 head 3: first ");
    CHECK(strstr(o.out, "layer 0") == NULL);
    o = weft_command(NULL, "inspect %s -p 'A king' --show attention --layers 0-1", hybrid);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "inspect: --layers: these layers have no attention\n");
}

static void malformed_options_are_refused(void)
{
    static const struct {
        const char *options, *message;
        int code;
    } all[] = {
        {"-p '" TEXT "' --show attention --layers 6", "layers 0 to 5, got '6'", 1},
        {"-p '" TEXT "' --show attention --layers 3-1", "got '3-1'", 1},
        {"-p '" TEXT "' --show attention --layers 1-x", "got '1-x'", 1},
        {"-p '" TEXT "' --show attention --layers ' 1'", "got ' 1'", 1},
        {"-p '" TEXT "' --show attention --layers 1--2", "got '1--2'", 1},
        {"-p '" TEXT "' --layers 1", "--layers needs --show attention", 2},
        {"-p '" TEXT "' --show shapes --svg x.svg", "--svg draws attention, adapter or loss", 2},
        {"-p '" TEXT "' --show loss --out x", "--out writes keys and queries", 2},
        {"-p '" TEXT "' --show loss --backend transformers", "need the native backend", 2},
        {"--show adapter", "--show adapter needs --adapter", 2},
        {"--show adapter -a x -p y", "--show adapter reads no text", 2},
        {"-p a --show loss", "a loss needs at least 2", 1},
        {"-p '" TEXT "' --svg /no/such/folder/x.svg", "/no/such/folder/x.svg", 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const output o = weft_command(NULL, "inspect %s %s", model(), all[i].options);
        check_one_line(&o, all[i].code);
        CHECK_CONTAINS(o.err, all[i].message);
    }
}

CHECK_MAIN("cli_inspect", CHECK_CASE(malformed_xml_is_noticed),
           CHECK_CASE(attention_is_what_the_library_computes),
           CHECK_CASE(losses_are_what_the_library_computes),
           CHECK_CASE(changes_are_what_the_library_computes), CHECK_CASE(attention_is_drawn),
           CHECK_CASE(adapters_are_drawn), CHECK_CASE(texts_are_escaped),
           CHECK_CASE(tokens_have_the_colors_of_their_losses), CHECK_CASE(large_texts_are_refused),
           CHECK_CASE(encoders_and_hybrids_are_shown), CHECK_CASE(malformed_options_are_refused))
