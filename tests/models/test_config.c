/* tests/models/test_config.c -- config.json: lookup, structs, both styles of rope, and errors that
 * name the key. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/model.h"

static weft_config *parse(const char *text)
{
    weft_config *config;
    CHECK_OK(weft_config_parse(text, "config.json", &config));
    return config;
}

static void refused(const char *text, const char *part)
{
    weft_config *config;
    CHECK(weft_config_parse(text, "config.json", &config) != WEFT_OK);
    CHECK(config == NULL);
    CHECK_CONTAINS(weft_error_message(), part);
}

static void the_text_config_comes_first(void)
{
    weft_config *c = parse("{\"a\":1,\"b\":2.5,\"d\":null,\"text_config\":{\"a\":7,\"c\":\"x\","
                           "\"b\":null,\"e\":true}}");
    CHECK_EQ_INT(weft_config_int(c, "a", 0), 7);
    CHECK_CLOSE(weft_config_double(c, "b", 0), 2.5, 0);
    CHECK_STR(weft_config_string(c, "c", "y"), "x");
    CHECK(weft_config_bool(c, "e", false));
    CHECK(!weft_config_has(c, "d"));
    CHECK_EQ_INT(weft_config_int(c, "d", 3), 3);
    CHECK_EQ_INT(weft_config_int(c, "c", 4), 4);
    CHECK_STR(weft_config_where(c), "config.json");
    CHECK_CONTAINS(weft_config_text(c), "text_config");
    weft_config_free(c);
    weft_config_free(NULL);
}

static void malformed_files(void)
{
    refused("", "config.json");
    refused("[1]", "expected object");
    refused("{\"a\":1", "config.json");
    refused("{\"text_config\":7}", "text_config: expected object");
    refused("{\"rope_parameters\":7}", "rope_parameters: expected object");
    refused("{\"rope_scaling\":{\"short_factor\":[1,\"x\"]}}", "short_factor[1]");
    refused("{\"rope_scaling\":{\"long_factor\":[0]}}", "expected a positive number");
    weft_config *config;
    CHECK_STATUS(weft_config_load(check_temporary("none.json"), &config), WEFT_IO);
    const char *path = check_temporary("zero.json");
    CHECK_OK(weft_file_write(path, "{}\0", 3));
    CHECK_STATUS(weft_config_load(path, &config), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "zero.json: a 0 byte at 2");
}

typedef struct sizes {
    int64_t width, depth;
    double eps;
    bool flag;
    const char *kind;
} sizes;

static const weft_config_field fields[] = {
    WEFT_CONFIG_REQUIRED(INT, sizes, width),  WEFT_CONFIG_OPTIONAL(INT, sizes, depth, 12),
    WEFT_CONFIG_REQUIRED(DOUBLE, sizes, eps), WEFT_CONFIG_OPTIONAL(BOOL, sizes, flag, true),
    WEFT_CONFIG_TEXT(sizes, kind, "plain"),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static void structs_are_filled_by_name(void)
{
    sizes s;
    weft_config *c = parse("{\"width\":64,\"eps\":1}");
    CHECK_OK(weft_config_read(c, fields, N_FIELDS, &s));
    CHECK_EQ_INT(s.width, 64);
    CHECK_EQ_INT(s.depth, 12);
    CHECK_CLOSE(s.eps, 1, 0);
    CHECK(s.flag && weft_config_bool(c, "flag", true));
    CHECK_STR(s.kind, "plain");
    weft_config_free(c);
    c = parse("{\"width\":64,\"eps\":1,\"depth\":null,\"flag\":null}");
    CHECK_OK(weft_config_read(c, fields, N_FIELDS, &s));
    CHECK_EQ_INT(s.depth, 12);
    CHECK(!s.flag && !weft_config_bool(c, "flag", true)); /* as in Python */
    weft_config_free(c);
    c = parse("{\"width\":\"64\",\"depth\":1.5,\"flag\":1,\"kind\":[]}");
    CHECK_STATUS(weft_config_read(c, fields, N_FIELDS, &s), WEFT_INVALID);
    CHECK_STR(weft_error_message(),
              "config.json: width: expected an integer, got string; depth: expected an integer, "
              "got number; eps is missing; flag: expected true or false, got integer; kind: "
              "expected a string, got array");
    weft_config_free(c);
}

static void rope_of(const char *text, weft_rope_options *o)
{
    weft_config *c = parse(text);
    CHECK_OK(weft_config_rope(c, 64, 10000, o));
    weft_config_free(c);
}

static void rope_in_both_styles(void)
{
    weft_rope_options o;
    rope_of("{}", &o);
    CHECK_EQ_INT(o.kind, WEFT_ROPE_DEFAULT);
    CHECK_CLOSE(o.theta, 10000, 0);
    rope_of("{\"rope_theta\":5e5,\"rope_scaling\":null}", &o);
    CHECK_EQ_INT(o.kind, WEFT_ROPE_DEFAULT);
    CHECK_CLOSE(o.theta, 5e5, 0);
    rope_of("{\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}", &o);
    CHECK_EQ_INT(o.kind, WEFT_ROPE_LINEAR);
    CHECK_CLOSE(o.factor, 4, 0);
    rope_of("{\"rope_theta\":1,\"rope_scaling\":{\"type\":\"linear\"},\"rope_parameters\":{"
            "\"rope_type\":\"llama3\",\"rope_theta\":7,\"factor\":8,\"low_freq_factor\":1,"
            "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}",
            &o);
    CHECK_EQ_INT(o.kind, WEFT_ROPE_LLAMA3);
    CHECK_CLOSE(o.theta, 7, 0);
    CHECK_CLOSE(o.high_freq_factor, 4, 0);
    CHECK_EQ_INT(o.original_max_position, 64);
    rope_of("{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\",\"rope_theta\":9,"
            "\"factor\":2,\"truncate\":false,\"beta_fast\":30},\"sliding_attention\":{\"rope_"
            "theta\":5}},"
            "\"original_max_position_embeddings\":128,\"max_position_embeddings\":256}",
            &o);
    CHECK_EQ_INT(o.kind, WEFT_ROPE_YARN);
    CHECK_CLOSE(o.theta, 9, 0);
    CHECK(o.no_truncate);
    CHECK_EQ_INT(o.original_max_position,
                 0); /* the length next to rope_parameters counts without kinds */
    CHECK_EQ_INT(o.max_position, 256);
    rope_of("{\"partial_rotary_factor\":0.5,\"rope_parameters\":{\"rope_type\":\"default\"}}", &o);
    CHECK_CLOSE(o.partial, 0.5, 0);
}

static void rope_refused(const char *text, weft_status status, const char *part)
{
    weft_rope_options o;
    weft_config *c = parse(text);
    CHECK_STATUS(weft_config_rope(c, 8, 10000, &o), status);
    CHECK_CONTAINS(weft_error_message(), part);
    weft_config_free(c);
}

static void malformed_rope_is_refused(void)
{
    rope_refused("{\"rope_scaling\":{\"type\":\"spiral\"}}", WEFT_UNSUPPORTED,
                 "rope_type 'spiral' is unknown (known: default, linear, llama3, yarn");
    rope_refused("{\"rope_scaling\":{\"type\":7}}", WEFT_INVALID, "rope_scaling.type");
    rope_refused("{\"rope_theta\":-1}", WEFT_INVALID,
                 "rope_theta: expected a positive number, got -1");
    rope_refused("{\"original_max_position_embeddings\":0}", WEFT_INVALID,
                 "original_max_position_embeddings: expected a positive number, got 0");
    rope_refused("{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
                 "\"partial_rotary_factor\":0}",
                 WEFT_INVALID, "partial_rotary_factor: expected a positive number, got 0");
    rope_refused("{\"rope_theta\":\"x\"}", WEFT_INVALID, "rope_theta: expected a number");
    rope_refused("{\"rope_parameters\":{\"partial_rotary_factor\":2}}", WEFT_INVALID, "partial 2");
    rope_refused("{\"rope_parameters\":{\"rope_type\":\"longrope\",\"short_factor\":[1,1],"
                 "\"long_factor\":[1,1,1,1]}}",
                 WEFT_INVALID, "short_factor and long_factor of 4 numbers, got 2 and 4");
}

/* Zero, negative, infinite and null numbers of each key, and required numbers that are absent. */
static void rope_numbers_are_positive(void)
{
    static const char *const keys[] = {"factor", "low_freq_factor", "high_freq_factor",
                                       "original_max_position_embeddings"};
    static const char *const optional[] = {"rope_theta", "partial_rotary_factor", "beta_fast",
                                           "beta_slow",  "attention_factor",      "alpha"};
    static const char *const bad[] = {"0", "-1", "null", "\"1\"", "[]"};
    static const char *const types[] = {"default", "linear", "llama3", "yarn", "dynamic"};
    char text[256];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const bool scaled = t > 0;
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
                snprintf(text, sizeof text,
                         "{\"rope_parameters\":{\"rope_type\":\"%s\",%s\"%s\":%s}}", types[t],
                         k > 0 && scaled ? "\"factor\":2," : "", keys[k], bad[b]);
                rope_refused(text, WEFT_INVALID, keys[k]);
            }
            for (size_t k = 0; k < sizeof optional / sizeof *optional; k++) {
                snprintf(text, sizeof text,
                         "{\"rope_parameters\":{\"rope_type\":\"%s\",\"factor\":2,\"%s\":%s}}",
                         types[t], optional[k], bad[b]);
                if (strcmp(bad[b], "null") == 0) {
                    weft_rope_options o;
                    rope_of(text, &o);
                } else {
                    rope_refused(text, WEFT_INVALID, optional[k]);
                }
            }
        }
        snprintf(text, sizeof text, "{\"rope_parameters\":{\"rope_type\":\"%s\"}}", types[t]);
        if (scaled)
            rope_refused(text, WEFT_INVALID, "factor is missing");
    }
    rope_refused("{\"rope_parameters\":{}}", WEFT_INVALID, "rope_parameters: expected rope_theta");
    rope_refused("{\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,"
                 "\"low_freq_factor\":4,\"high_freq_factor\":1}}",
                 WEFT_INVALID, "high_freq_factor: expected more than low_freq_factor 4, got 1");
}

static void longrope_keeps_its_lists(void)
{
    weft_rope_options o;
    weft_config *c = parse("{\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[1,2],"
                           "\"long_factor\":[3,4.5]}}");
    CHECK_OK(weft_config_rope(c, 4, 10000, &o));
    CHECK_EQ_INT(o.kind, WEFT_ROPE_LONGROPE);
    CHECK_CLOSE(o.short_factor[1], 2, 0);
    CHECK_CLOSE(o.long_factor[1], 4.5, 0);
    weft_config_free(c);
}

CHECK_MAIN("config", CHECK_CASE(the_text_config_comes_first), CHECK_CASE(malformed_files),
           CHECK_CASE(structs_are_filled_by_name), CHECK_CASE(rope_in_both_styles),
           CHECK_CASE(malformed_rope_is_refused), CHECK_CASE(longrope_keeps_its_lists),
           CHECK_CASE(rope_numbers_are_positive))
