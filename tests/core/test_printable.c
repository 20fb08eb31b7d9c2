/* tests/core/test_printable.c -- messages never send a control character to a terminal, whatever
 * names, keys, templates and paths contain. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/weft.h"

/* ---- texts for messages --------------------------------------------------------------------- */

/* The index of the first byte that a terminal might interpret as a control or that is not UTF-8;
 * -1: none. Written independently of the library, from the table of well-formed sequences in the
 * Unicode standard (3.9, table 3-7). */
static long first_bad(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    for (long i = 0; s[i]; i++) {
        const unsigned char a = s[i], b = a >= 0xc2 ? s[i + 1] : 0;
        int more = 0;
        if (a < 0x20 || a == 0x7f)
            return i;
        if (a < 0x80)
            continue;
        if (a >= 0xc2 && a <= 0xdf)
            more = 1;
        else if (a >= 0xe0 && a <= 0xef)
            more = 2;
        else if (a >= 0xf0 && a <= 0xf4)
            more = 3;
        else
            return i;
        if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) || (a == 0xf0 && b < 0x90) ||
            (a == 0xf4 && b > 0x8f) || (a == 0xc2 && b < 0xa0))
            return i; /* overlong, surrogate, too large, or a C1 control */
        if (a == 0xe2 && b == 0x80 && s[i + 2] >= 0xa8 && s[i + 2] <= 0xae)
            return i; /* line separators and overrides of direction */
        for (int k = 1; k <= more; k++)
            if (s[i + k] < 0x80 || s[i + k] > 0xbf)
                return i;
        i += more;
    }
    return -1;
}

static void check_clean(const char *message, const char *about)
{
    const long at = first_bad(message);
    if (at >= 0)
        CHECK_FAIL("%s: byte %ld of the message is 0x%02x", about, at, (unsigned char)message[at]);
    else
        CHECK(message[0] != '\0');
}

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* Text of up to `most` bytes: controls, escapes, UTF-8 good and bad, and harmless letters. */
static size_t hostile(char *out, size_t most)
{
    static const char *const parts[] = {"\033[31m",
                                        "\033]0;title\007",
                                        "\n",
                                        "\r",
                                        "\b\b\b",
                                        "\t",
                                        "\x7f",
                                        ("\xc2\x9b"
                                         "2J"),
                                        "\xe2\x80\xae",
                                        "\xe2\x81\xa6",
                                        "\xff",
                                        "\xc3",
                                        "\xe2\x82",
                                        "\xed\xa0\x80",
                                        "\xc0\xaf",
                                        "\xf0\x9f\x98\x80",
                                        "name",
                                        "weight.0",
                                        "\xc3\xa9",
                                        "%s%n",
                                        "'",
                                        "\"",
                                        "\\",
                                        "\xe2\x80\xa8"};
    size_t n = 0;
    const size_t wanted = draw(most) + 1;
    while (n < wanted) {
        const char *part = parts[draw(sizeof parts / sizeof *parts)];
        char one[2] = {(char)(1 + draw(255)), '\0'};
        if (draw(4) == 0)
            part = one;
        const size_t length = strlen(part);
        if (n + length > most)
            break;
        memcpy(out + n, part, length);
        n += length;
    }
    out[n] = '\0';
    return n;
}

/* ---- the function --------------------------------------------------------------------------- */

static void ordinary_text_is_unchanged(void)
{
    CHECK_STR(weft_printable("model.layers.3.self_attn.q_proj.weight"),
              "model.layers.3.self_attn.q_proj.weight");
    CHECK_STR(weft_printable("caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 \\ ' \""),
              "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 \\ ' \"");
    CHECK_STR(weft_printable(""), "");
    CHECK_STR(weft_printable(NULL), "(null)");
    CHECK_STR(weft_printable_n("abcdef", 3), "abc");
    CHECK_STR(weft_printable_n("a\0b", 3), "a\\x00b");
}

static void controls_become_escapes(void)
{
    CHECK_STR(weft_printable("a\033[2Jb\nc\td\re"), "a\\x1b[2Jb\\nc\\td\\re");
    CHECK_STR(weft_printable("\001\x1f\x7f"), "\\x01\\x1f\\x7f");
    CHECK_STR(weft_printable("\xc2\x9b"
                             "2J"),
              "\\u009b2J");
    CHECK_STR(weft_printable("a\xe2\x80\xae"
                             "b\xe2\x81\xa9\xe2\x80\xa8"),
              "a\\u202eb\\u2069\\u2028");
    CHECK_STR(weft_printable("\xc3(\xff\xed\xa0\x80"), "\\xc3(\\xff\\xed\\xa0\\x80");
}

static void long_text_is_cut_with_its_length(void)
{
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = '\0';
    const char *shown = weft_printable(text);
    CHECK_CONTAINS(shown, "xxx... (1000 bytes)");
    CHECK_EQ_INT(strlen(shown), 120 + strlen("... (1000 bytes)"));
    text[120] = '\0';
    CHECK_STR(weft_printable(text), text);
    text[120] = 'x';
    text[121] = '\0';
    CHECK_CONTAINS(weft_printable(text), "... (121 bytes)");
    /* Never within a character or an escape. */
    memset(text, 'x', 119);
    memcpy(text + 119, "\xe6\xbc\xa2\xe6\xbc\xa2", 7);
    CHECK_CONTAINS(weft_printable(text), "xx... (125 bytes)");
    memcpy(text + 119, "\033\033", 3);
    CHECK_CONTAINS(weft_printable(text), "xx... (121 bytes)");
}

static void sixteen_texts_fit_into_one_message(void)
{
    const char *shown[16];
    char text[16][24];
    for (int i = 0; i < 16; i++) {
        snprintf(text[i], sizeof text[i], "tensor.%d", i);
        shown[i] = weft_printable(text[i]);
    }
    for (int i = 0; i < 16; i++)
        CHECK_STR(shown[i], text[i]);
}

/* ---- every path of a message ---------------------------------------------------------------- */

static char logged[8192];

static void keep_log(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

static void hostile_text_is_escaped_in_every_message(void)
{
    static char text[6001];
    weft_set_log(keep_log, NULL);
    for (int i = 0; i < 4000; i++) {
        hostile(text, i % 10 ? 200 : 6000);
        const char *shown = weft_printable(text);
        check_clean(shown, "weft_printable");
        CHECK(strlen(shown) <= 120 + 24);
        weft_fail(WEFT_INVALID, "%s: tensor '%s'", text, text);
        check_clean(weft_error_message(), "weft_fail");
        weft_log_message(WEFT_LOG_WARNING, "about %s", text);
        check_clean(logged, "weft_log_message");
        weft_scope_open();
        check_clean(weft_error(weft_error_array("about %s", text)), "weft_error_array");
        weft_scope_close(NULL);
    }
    weft_set_log(NULL, NULL);
}

/* A message may be made of the one before it, again and again. */
static void a_message_in_a_message_keeps_its_escapes(void)
{
    weft_fail(WEFT_INVALID, "a\033b");
    for (int i = 0; i < 3; i++)
        weft_fail(WEFT_IO, "in: %s", weft_error_message());
    CHECK_STR(weft_error_message(), "in: in: in: a\\x1bb");
}

/* ---- files, keys, templates, paths ---------------------------------------------------------- */

/* As a JSON string: with \u escapes, so that the parser makes the controls itself. */
static void put_json_string(FILE *file, const char *text, size_t n)
{
    fputc('"', file);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static char *json_of(const char *format_before, const char *name, size_t n, const char *after)
{
    static char *json;
    static size_t size;
    free(json);
    FILE *file = open_memstream(&json, &size);
    fputs(format_before, file);
    put_json_string(file, name, n);
    fputs(after, file);
    fclose(file);
    return json;
}

static void write_safetensors(const char *path, const char *json)
{
    const uint64_t n = strlen(json);
    char *bytes = malloc(8 + n + 16);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, json, n);
    memset(bytes + 8 + n, 0, 16);
    CHECK_OK(weft_file_write(path, bytes, 8 + n + 16));
    free(bytes);
}

static void hostile_tensor_names(void)
{
    static const char *const specs[] = {
        ":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,8]}}",
        ":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}",
        ":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,1600]}}",
        ":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}",
        ":{\"dtype\":\"X\\u001b[2J\",\"shape\":[4],\"data_offsets\":[0,16]}}",
        ":5}",
    };
    const char *path = check_temporary("hostile.safetensors");
    char name[300];
    for (int i = 0; i < 120; i++) {
        const size_t n = hostile(name, sizeof name - 1);
        write_safetensors(path, json_of("{", name, n, specs[i % 6]));
        weft_safetensors *file = NULL;
        const weft_status status = weft_safetensors_open(path, &file);
        if (CHECK(status != WEFT_OK))
            check_clean(weft_error_message(), "safetensors");
        weft_safetensors_close(file);
    }
    weft_safetensors *file = NULL;
    write_safetensors(path, "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}");
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    hostile(name, sizeof name - 1);
    check_clean(weft_error(weft_safetensors_get(file, name)), "a tensor that is not there");
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

static void hostile_json_keys(void)
{
    char name[300];
    for (int i = 0; i < 120; i++) {
        const size_t n = hostile(name, sizeof name - 1);
        weft_tokenizer *t = NULL;
        const char *json =
            i % 3 == 0 ? json_of("{\"model\":{\"type\":", name, n, "}}")
            : i % 3 == 1
                ? json_of("{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{", name, n,
                          ":\"x\"}}}")
                : json_of("{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0}},"
                          "\"normalizer\":{\"type\":",
                          name, n, "}}");
        CHECK(weft_tokenizer_parse(json, strlen(json), NULL, 0, name, &t) != WEFT_OK);
        check_clean(weft_error_message(), "tokenizer.json");
        weft_tokenizer_free(t);
    }
    /* Parse errors quote the text at the error. */
    weft_config *config = NULL;
    CHECK(weft_config_parse("{\"a\": \033[31m}", "config.json", &config) != WEFT_OK);
    check_clean(weft_error_message(), "config.json");
}

static void hostile_templates(void)
{
    static const char *const forms[] = {
        "{%% macro f() %%}{%% endmacro %%}{{ raise_exception(\"%s\") }}",
        "{{ x | %s }}",
        "{{ \"%s\" + 1 }}",
        "{%% %s %%}",
        "{{ x is %s }}",
        "%s{{",
        "{{ messages[\"%s\"].y.z }}",
    };
    char text[300], source[1000];
    for (int i = 0; i < 210; i++) {
        hostile(text, sizeof text - 1);
        for (char *c = text; *c; c++) /* must not end the string around it */
            *c = *c == '"' || *c == '\\' ? '_' : *c;
        const int n = snprintf(source, sizeof source, forms[i % 7], text);
        weft_chat *chat = NULL;
        weft_status status = weft_chat_parse(source, (size_t)n, "template\033[7m", NULL, &chat);
        char *out = NULL;
        if (status == WEFT_OK)
            status =
                weft_chat_render(chat, "[{\"role\":\"user\",\"content\":\"x\"}]", NULL, &out, NULL);
        if (status != WEFT_OK)
            check_clean(weft_error_message(), source);
        weft_free(out);
        weft_chat_free(chat);
    }
}

static void hostile_paths(void)
{
    char path[300];
    for (int i = 0; i < 60; i++) {
        memcpy(path, "/no/such/", 9);
        hostile(path + 9, sizeof path - 10);
        weft_safetensors *file = NULL;
        weft_model *model = NULL;
        weft_chat *chat = NULL;
        weft_array *array = NULL;
        CHECK(weft_safetensors_open(path, &file) != WEFT_OK);
        check_clean(weft_error_message(), "weft_safetensors_open");
        CHECK(weft_model_load(path, NULL, &model) != WEFT_OK);
        check_clean(weft_error_message(), "weft_model_load");
        CHECK(weft_chat_load(path, &chat) != WEFT_OK);
        check_clean(weft_error_message(), "weft_chat_load");
        CHECK(weft_npy_load(path, &array) != WEFT_OK);
        check_clean(weft_error_message(), "weft_npy_load");
        CHECK(weft_device_get(path + 9) == NULL);
        check_clean(weft_error_message(), "weft_device_get");
    }
}

/* Every character with Bidi_Control, every control and both separators of lines and paragraphs are
 * escaped; their neighbors are not. */
static void characters_that_change_the_display_are_escaped(void)
{
    static const struct {
        uint32_t first, last;
        bool hidden;
    } ranges[] = {{0x00a0, 0x00a0, false}, {0x0080, 0x009f, true},   {0x061b, 0x061b, false},
                  {0x061c, 0x061c, true},  {0x0627, 0x0627, false},  {0x05d0, 0x05d0, false},
                  {0x200c, 0x200d, false}, {0x200e, 0x200f, true},   {0x2010, 0x2027, false},
                  {0x2028, 0x202e, true},  {0x202f, 0x202f, false},  {0x2066, 0x2069, true},
                  {0x2070, 0x2070, false}, {0x1f600, 0x1f600, false}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (uint32_t c = ranges[i].first; c <= ranges[i].last; c++) {
            char text[8] = {0}, escaped[16];
            if (c < 0x800)
                snprintf(text, sizeof text, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
            else if (c < 0x10000)
                snprintf(text, sizeof text, "%c%c%c", (int)(0xe0 | c >> 12),
                         (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
            else
                snprintf(text, sizeof text, "%c%c%c%c", (int)(0xf0 | c >> 18),
                         (int)(0x80 | (c >> 12 & 63)), (int)(0x80 | (c >> 6 & 63)),
                         (int)(0x80 | (c & 63)));
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
            CHECK_STR(weft_printable(text), ranges[i].hidden ? escaped : text);
        }
    }
}

CHECK_MAIN("printable", CHECK_CASE(characters_that_change_the_display_are_escaped),
           CHECK_CASE(ordinary_text_is_unchanged), CHECK_CASE(controls_become_escapes),
           CHECK_CASE(long_text_is_cut_with_its_length),
           CHECK_CASE(sixteen_texts_fit_into_one_message),
           CHECK_CASE(hostile_text_is_escaped_in_every_message),
           CHECK_CASE(a_message_in_a_message_keeps_its_escapes), CHECK_CASE(hostile_tensor_names),
           CHECK_CASE(hostile_json_keys), CHECK_CASE(hostile_templates), CHECK_CASE(hostile_paths))
