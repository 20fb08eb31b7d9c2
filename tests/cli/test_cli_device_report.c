/* tests/cli/test_cli_device_report.c -- weft info --devices --report: the file matches the schema
 * in docs/device-report.md, its values are right, and a part that fails does not end the others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/device.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/version.h"

static json_object *member(json_object *object, const char *key)
{
    json_object *value = NULL;
    json_object_object_get_ex(object, key, &value);
    return value;
}

static double number(json_object *object, const char *key)
{
    return json_object_get_double(member(object, key));
}

static const char *text(json_object *object, const char *key)
{
    const char *value = json_object_get_string(member(object, key));
    return value != NULL ? value : "";
}

/* ---- The schema ------------------------------------------------------------------------------ */

/* The first code block of JSON in the document. */
static json_object *read_schema(void)
{
    char *document = NULL;
    if (!CHECK_OK(weft_file_read(check_source("docs/device-report.md"), 0, &document, NULL)))
        return NULL;
    char *begin = strstr(document, "```json\n"), *end = begin ? strstr(begin + 8, "\n```") : NULL;
    json_object *schema = NULL;
    if (CHECK(end != NULL)) {
        *end = '\0';
        schema = json_tokener_parse(begin + 8);
        CHECK(schema != NULL);
    }
    weft_free(document);
    return schema;
}

static bool has_type(json_object *value, const char *name)
{
    static const struct {
        const char *name;
        json_type type;
    } types[] = {{"object", json_type_object}, {"array", json_type_array},
                 {"string", json_type_string}, {"integer", json_type_int},
                 {"number", json_type_double}, {"boolean", json_type_boolean},
                 {"null", json_type_null}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return json_object_is_type(value, types[i].type) ||
                   (types[i].type == json_type_double && json_object_is_type(value, json_type_int));
    CHECK_FAIL("the schema has a type %s", name);
    return false;
}

static void check_type(json_object *value, json_object *type, const char *path)
{
    bool any = json_object_is_type(type, json_type_string) &&
               has_type(value, json_object_get_string(type));
    for (size_t i = 0;
         json_object_is_type(type, json_type_array) && i < json_object_array_length(type) && !any;
         i++)
        any = has_type(value, json_object_get_string(json_object_array_get_idx(type, i)));
    check_that(any, __FILE__, __LINE__, "%s is %s, expected %s", path,
               json_object_to_json_string(value), json_object_to_json_string(type));
}

/* The keywords that the document uses: type, required, properties, items. */
static void check_schema(json_object *value, json_object *schema, const char *path)
{
    char inner[256];
    json_object *required = member(schema, "required"), *properties = member(schema, "properties"),
                *items = member(schema, "items");
    check_type(value, member(schema, "type"), path);
    for (size_t i = 0; required != NULL && i < json_object_array_length(required); i++) {
        const char *key = json_object_get_string(json_object_array_get_idx(required, i));
        check_that(json_object_object_get_ex(value, key, NULL), __FILE__, __LINE__, "%s has no %s",
                   path, key);
    }
    if (properties != NULL && json_object_is_type(value, json_type_object)) {
        json_object_object_foreach(value, key, child)
        {
            snprintf(inner, sizeof inner, "%s.%s", path, key);
            if (member(properties, key) != NULL)
                check_schema(child, member(properties, key), inner);
        }
    }
    for (size_t i = 0; items != NULL && json_object_is_type(value, json_type_array) &&
                       i < json_object_array_length(value);
         i++) {
        snprintf(inner, sizeof inner, "%s[%zu]", path, i);
        check_schema(json_object_array_get_idx(value, i), items, inner);
    }
}

/* Runs the command with these variables and parses the file. */
static json_object *report(const char *variables, const char *path)
{
    unlink(path);
    const output o = shell_command(NULL, "%s %s info --devices --report %s", variables,
                                   check_built("cli/weft"), path);
    if (!check_that(o.code == 0, __FILE__, __LINE__, "status %d: %s", o.code, o.err))
        return NULL;
    CHECK_CONTAINS(o.out, "cpu ");
    json_object *root = json_object_from_file(path), *schema = read_schema();
    CHECK(root != NULL);
    if (root != NULL && schema != NULL)
        check_schema(root, schema, "report");
    json_object_put(schema);
    return root;
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void check_cpu(json_object *cpu)
{
    CHECK_STR(text(cpu, "name"), "cpu");
    CHECK(json_object_get_boolean(member(cpu, "usable")));
    CHECK_STR(text(member(cpu, "details"), "error"), "");
    CHECK(number(member(member(cpu, "ceilings"), "read"), "rate") > 0 ||
          json_object_object_length(member(cpu, "ceilings")) > 1);
    CHECK_EQ_INT((int)number(member(cpu, "training_float32"), "steps"), 4);
    CHECK(number(member(cpu, "training_float32"), "loss") > 1);
    CHECK(number(member(cpu, "decoding_float32"), "decode_tokens_per_sec") > 0);
    CHECK(strlen(text(member(cpu, "decoding_float32"), "text")) > 20);
}

static void check_products(json_object *products)
{
    if (!CHECK(json_object_array_length(products) >= 2))
        return;
    for (size_t i = 0; i < json_object_array_length(products); i++) {
        json_object *one = json_object_array_get_idx(products, i);
        CHECK_STR(text(one, "error"), "");
        CHECK(json_object_get_boolean(member(one, "correct")));
        CHECK(number(one, "gflops") > 0);
    }
}

/* The devices agree as the document says. */
static void check_device(json_object *device, json_object *cpu)
{
    json_object *details = member(device, "details");
    const char *description = text(device, "description");
    CHECK_CONTAINS(description, text(details, "device"));
    CHECK_CONTAINS(description, text(member(details, "driver"), "name"));
    CHECK_CONTAINS(description, "self-test passed");
    CHECK_EQ_INT(json_object_get_boolean(member(member(details, "matrix_cores"), "used")),
                 strcmp(text(member(details, "features"), "matrix"), "used") == 0);
    check_products(member(details, "products"));
    CHECK_RELATIVE(number(member(device, "training_float32"), "first_loss"),
                   number(member(cpu, "training_float32"), "first_loss"), 1e-5);
    CHECK_RELATIVE(number(member(device, "training_bfloat16"), "first_loss"),
                   number(member(cpu, "training_float32"), "first_loss"), 2e-3);
    CHECK_STR(text(member(device, "decoding_float32"), "text"),
              text(member(cpu, "decoding_float32"), "text"));
}

/* Software drivers take minutes, so without WEFT_TEST_ALL there is no Vulkan driver. */
static const char *drivers(void)
{
    weft_device_traits traits;
    const bool card = weft_device_traits_of("vulkan", &traits) == WEFT_OK && traits.discrete;
    return card || check_exhaustive() ? "" : "VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null";
}

static void the_report_is_complete(void)
{
    json_object *root = report(drivers(), check_temporary("report.json"));
    if (root == NULL)
        return;
    json_object *devices = member(root, "devices"), *cpu = json_object_array_get_idx(devices, 0);
    CHECK_EQ_INT((int)number(root, "weft_device_report"), 1);
    CHECK_STR(text(root, "version"), weft_version());
    CHECK_EQ_INT(strlen(text(root, "time")), 20);
    CHECK(json_object_get_boolean(member(root, "complete")));
    CHECK(member(root, "running") == NULL);
    CHECK(number(member(root, "machine"), "memory_bytes") > 1e8);
    check_cpu(cpu);
    for (size_t i = 1; i < json_object_array_length(devices); i++) {
        json_object *device = json_object_array_get_idx(devices, i);
        if (json_object_get_boolean(member(device, "usable")))
            check_device(device, cpu);
        else
            CHECK(text(device, "reason")[0] != '\0');
    }
    json_object_put(root);
}

/* Without the included model, and with a device that cannot be opened. */
static void a_part_that_fails_is_recorded(void)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", check_temporary("weft"));
    output o = shell_command(NULL, "mkdir -p %s/bin && cp %s %s/bin/", copy,
                             check_built("cli/weft"), copy);
    CHECK_EQ_INT(o.code, 0);
    const char *path = check_temporary("failed.json");
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", check_built("cli/.."));
    o = shell_command(NULL,
                      "LD_LIBRARY_PATH=%s WEFT_VULKAN_SELF_TEST=never %s/bin/weft info --devices "
                      "--report %s",
                      folder, copy, path);
    if (!check_that(o.code == 0, __FILE__, __LINE__, "status %d: %s", o.code, o.err))
        return;
    json_object *root = json_object_from_file(path), *schema = read_schema();
    check_schema(root, schema, "report");
    json_object *devices = member(root, "devices"), *cpu = json_object_array_get_idx(devices, 0);
    CHECK(json_object_get_boolean(member(root, "complete")));
    CHECK_CONTAINS(text(member(cpu, "training_float32"), "error"), "storyteller: ");
    CHECK_CONTAINS(text(member(cpu, "decoding_bfloat16"), "error"), "storyteller: ");
    CHECK(number(member(member(cpu, "ceilings"), "read"), "rate") > 0 ||
          json_object_object_length(member(cpu, "ceilings")) > 1);
    for (size_t i = 1; i < json_object_array_length(devices); i++) {
        json_object *device = json_object_array_get_idx(devices, i);
        CHECK(!json_object_get_boolean(member(device, "usable")));
        CHECK(text(device, "reason")[0] != '\0');
    }
    json_object_put(schema);
    json_object_put(root);
}

static void other_files_stay(void)
{
    const char *path = text_file("notes.json", "{}");
    output o = weft_command(NULL, "info --devices --report %s", path);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "notes.json: --report replaces only such reports");
    o = weft_command(NULL, "info --devices --report %s/report.json", check_temporary("nowhere"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "nowhere/report.json: ");
    o = weft_command(NULL, "info --report %s", check_temporary("r.json"));
    check_one_line(&o, 2);
    CHECK_CONTAINS(o.err, "--report needs --devices");
}

CHECK_MAIN("cli_device_report", CHECK_CASE(the_report_is_complete),
           CHECK_CASE(a_part_that_fails_is_recorded), CHECK_CASE(other_files_stay))
