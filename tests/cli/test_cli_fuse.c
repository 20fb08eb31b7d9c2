/* tests/cli/test_cli_fuse.c -- weft fuse and weft convert --adapter: complete models that compute
 * what base and adapter compute. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"

static const char *model(void)
{
    return check_source("examples/storyteller");
}

/* The loss of a model, with an adapter unless that is NULL. */
static double loss_of(const char *folder, const char *adapter, const char *data)
{
    const output o = weft_command(NULL, "eval %s %s %s --data %s --json", folder,
                                  adapter ? "--adapter" : "", adapter ? adapter : "", data);
    if (!CHECK_EQ_INT(o.code, 0))
        return (double)NAN;
    json_object *root = json_tokener_parse(o.out), *value = NULL;
    double loss = (double)NAN;
    if (CHECK(json_object_object_get_ex(root, "loss", &value)))
        loss = json_object_get_double(value);
    json_object_put(root);
    return loss;
}

/* Trains an adapter for a conversation at a rate that changes the loss. The path lives until the
 * next call. */
static const char *trained(void)
{
    static char path[1024];
    const char *rows = text_file("chat.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": "
                                               "\"Who?\"}, {\"role\": \"assistant\", "
                                               "\"content\": \"A fox, a fox.\"}]}\n");
    snprintf(path, sizeof path, "%s", check_temporary("run"));
    const output o = weft_command(
        NULL, "train %s --data %s --steps 6 --lr 1e-2 --overwrite --out %s", model(), rows, path);
    CHECK_EQ_INT(o.code, 0);
    snprintf(path, sizeof path, "%s/last", check_temporary("run"));
    return path;
}

static void expect_files(const char *folder)
{
    static const char *const names[] = {
        "config.json",           "model.safetensors",      "tokenizer.json",
        "tokenizer_config.json", "generation_config.json", "README.md"};
    char path[2048];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, R_OK) != 0)
            CHECK_FAIL("%s is missing", path);
    }
}

static const char text[] = "Once upon a time there was a fox who lived in the wood, and the fox "
                           "said to the wolf: what are you doing here?\n";

/* Merged weights are rounded to bfloat16, the dtype of the base: 0.005 is twice the largest
 * difference seen. The adapter changes the loss by far more. */
static void fused_folders_compute_what_base_and_adapter_do(void)
{
    char data[1024], out[1024];
    snprintf(data, sizeof data, "%s", text_file("text.txt", text));
    const char *adapter = trained();
    const double base = loss_of(model(), NULL, data), with = loss_of(model(), adapter, data);
    CHECK(fabs(with - base) > 0.02);
    snprintf(out, sizeof out, "%s", check_temporary("fused"));
    CHECK_EQ_INT(weft_command(NULL, "fuse %s %s %s", model(), adapter, out).code, 0);
    expect_files(out);
    CHECK_CLOSE(loss_of(out, NULL, data), with, 0.005);
    snprintf(out, sizeof out, "%s", check_temporary("converted"));
    CHECK_EQ_INT(weft_command(NULL, "convert %s %s --adapter %s", model(), out, adapter).code, 0);
    expect_files(out);
    CHECK_CLOSE(loss_of(out, NULL, data), with, 0.005);
}

static double member(const output *o, const char *name)
{
    json_object *root = json_tokener_parse(o->out), *value = NULL;
    double number = (double)NAN;
    if (CHECK(root && json_object_object_get_ex(root, name, &value)) &&
        CHECK(!json_object_is_type(value, json_type_null)))
        number = json_object_get_double(value);
    json_object_put(root);
    return number;
}

/* A 4-bit base keeps its encoding, and what the adapter changed gets 6 bits: the whole at most
 * 6.6, with nearly all of the gain. */
static void encoded_bases_stay_encoded(void)
{
    char data[1024], coded[1024], out[1024];
    const char *adapter = trained();
    snprintf(data, sizeof data, "%s", check_temporary("chat.jsonl"));
    snprintf(coded, sizeof coded, "%s", check_temporary("coded"));
    CHECK_EQ_INT(weft_command(NULL, "convert %s %s --bits 4", model(), coded).code, 0);
    const double with = loss_of(coded, adapter, data);
    snprintf(out, sizeof out, "%s", check_temporary("fused4"));
    output o = weft_command(NULL, "fuse %s %s %s --data %s --json", coded, adapter, out, data);
    if (CHECK_EQ_INT(o.code, 0)) {
        CHECK(member(&o, "bits_per_parameter") <= 6.6);
        CHECK_CLOSE(member(&o, "adapted_loss"), with, 0.01);
        CHECK(member(&o, "base_loss") > with + 0.1);
        CHECK(member(&o, "gain_kept") > 0.9);
        expect_files(out);
        CHECK_CLOSE(loss_of(out, NULL, data), member(&o, "fused_loss"), 0.01);
    }
    o = weft_command(NULL, "fuse %s %s %s --force --adapted-bits 8 --json", coded, adapter, out);
    if (CHECK_EQ_INT(o.code, 0))
        CHECK(member(&o, "bits_per_parameter") > 7 && member(&o, "bits_per_parameter") < 8.6);
    o = weft_command(NULL, "fuse %s %s %s --force --adapted-bits 0 --json", coded, adapter, out);
    if (CHECK_EQ_INT(o.code, 0))
        CHECK(member(&o, "bits_per_parameter") > 12);
}

static void what_cannot_be_fused_is_refused(void)
{
    output o = weft_command(NULL, "fuse %s /nowhere %s", model(), check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "/nowhere");
    CHECK(access(check_temporary("none"), F_OK) != 0);
    o = weft_command(NULL, "fuse %s /nowhere %s --adapted-bits 7", model(),
                     check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "expected 2, 3, 4, 5, 6 or 8, got 7");
    o = weft_command(NULL, "fuse %s", model());
    CHECK_EQ_INT(o.code, 2);
    const char *const commands[] = {"fuse %s /nowhere %s", "convert %s %s"};
    for (int i = 0; i < 2; i++) { /* the model itself is at OUT */
        o = weft_command(NULL, commands[i], model(), model());
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "storyteller: is there already; --force replaces it");
    }
}

CHECK_MAIN("cli_fuse", CHECK_CASE(fused_folders_compute_what_base_and_adapter_do),
           CHECK_CASE(encoded_bases_stay_encoded), CHECK_CASE(what_cannot_be_fused_is_refused))
