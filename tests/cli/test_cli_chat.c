/* tests/cli/test_cli_chat.c -- weft chat: messages from a pipe, commands, JSON lines, documents of
 * a schema, and refused input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* Lines of the output that hold `part`. */
static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static void a_line_is_a_message(void)
{
    char first[512];
    output o = weft_command(NULL, "chat %s -p \"Once upon a time\" -n 12 -t 0", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK(strlen(o.out) > 12);
    CHECK_CONTAINS(o.err, "cut off at 12 tokens: --max-tokens N allows more");
    snprintf(first, sizeof first, "%s", o.out);
    /* From a pipe: the same answer, then another answer to the longer conversation. */
    o = weft_command("Once upon a time\n\nAnd then?\n", "chat %s -n 12 -t 0 --stats", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK(strncmp(o.out, first, strlen(first)) == 0);
    CHECK(strlen(o.out) > strlen(first) + 5);
    CHECK_EQ_INT(count(o.err, "tokens/s; peak memory"), 2);
    o = weft_command("Once upon a time", "chat %s -p - -n 12 -t 0", model());
    CHECK_STR(o.out, first);
}

/* More than the model's positions: the conversation continues without its first messages. */
static void long_conversations_continue(void)
{
    static char input[16384];
    const int turns = 24;
    input[0] = '\0';
    for (int i = 0; i < turns; i++)
        snprintf(input + strlen(input), 400,
                 "Message %d: once upon a time there was a king who had three sons, and the three "
                 "sons had one horse, and the horse was old, and so were the king and his crown.\n",
                 i);
    const output o = weft_command(input, "chat %s -n 8 -t 0 --stats --tokens-per-eval 3", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(count(o.err, "finished: length"), turns);
    CHECK_CONTAINS(o.err, "exceeds the model's positions: its first");
    CHECK(count(o.err, "exceeds the model's positions") < turns / 2);
}

/* Without MODEL: $WEFT_MODEL, or what is in the cache. */
static void the_model_may_be_left_out(void)
{
    const char *weft = check_built("cli/weft");
    output o = shell_command(NULL, "WEFT_MODEL=%s %s chat -p Hi -n 3 -t 0", model(), weft);
    CHECK_EQ_INT(o.code, 0);
    o = shell_command(NULL, "WEFT_MODEL= HF_HUB_CACHE=%s HF_HOME=%s HOME=%s %s chat -p Hi -n 3",
                      check_temporary("no"), check_temporary("no"), check_temporary("no"), weft);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "weft pull Qwen/Qwen3-0.6B");
}

/* An answer ends within its time limit. */
static void a_timeout_ends_the_answer(void)
{
    const output o =
        weft_command(NULL, "chat %s -p Hi -n 900 -t 0 --timeout 1e-9 --stats", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "finished: deadline");
}

static void commands_change_the_conversation(void)
{
    char input[1024];
    const char *file = check_temporary("talk.json");
    snprintf(input, sizeof input,
             "/system Be brief.\nHi\nMore\n/undo\n/save %s\n/clear\n/history\n/load %s\n/history\n"
             "/think maybe\n/nothing\n/quit\nnot read\n",
             file, file);
    const output o = weft_command(input, "chat %s -n 4 -t 0", model());
    CHECK_EQ_INT(o.code, 0);
    /* The first history has the system text alone. */
    CHECK_CONTAINS(o.out, "[{\"role\": \"system\", \"content\": \"Be brief.\"}]\n[{\"role\": "
                          "\"system\", \"content\": \"Be brief.\"},\n { \"role\": \"user\", "
                          "\"content\": \"Hi\" },\n { \"role\": \"assistant\", \"content\": ");
    CHECK(strstr(o.out, "More") == NULL);
    CHECK_CONTAINS(o.err, "/think takes on, off or auto");
    CHECK_CONTAINS(o.err, "there is no command /nothing (/help lists them)");
    CHECK_EQ_INT(count(o.err, "cut off at 4 tokens"), 2);
}

static void answers_are_repeated_and_continued(void)
{
    const output o = weft_command("Hi\n/retry\n/continue\n/stats\n/history\n//slash\n",
                                  "chat %s -n 4 -t 0", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(count(o.err, "cut off at 4 tokens"), 4);
    CHECK_EQ_INT(count(o.out, "\"role\": \"assistant\""), 1);
    CHECK_CONTAINS(o.out, "the conversation has ");
}

/* The member of a line of JSON; NULL: absent. */
static const char *member(const char *line, const char *key, char *text, size_t size)
{
    json_object *event = json_tokener_parse(line);
    const char *value = event ? json_object_get_string(json_object_object_get(event, key)) : NULL;
    snprintf(text, size, "%s", value ? value : "");
    json_object_put(event);
    return text;
}

static void events_are_lines_of_json(void)
{
    char text[4096], *save = NULL;
    int done = 0, pieces = 0, errors = 0;
    const output o = weft_command(
        "\"Hi\"\n{\"role\": \"assistant\", \"content\": \"x\"}\n{\"role\": \"user\", \"content\": "
        "\"y\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"z\"}]}\nbad\n{\"role\": 1}\n",
        "chat %s --json -n 4 -t 0", model());
    CHECK_EQ_INT(o.code, 1);
    for (char *line = strtok_r(o.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        member(line, "event", text, sizeof text);
        pieces += strcmp(text, "text") == 0;
        errors += strcmp(text, "error") == 0;
        if (strcmp(text, "done") == 0) {
            done++;
            CHECK_STR(member(line, "reason", text, sizeof text), "length");
            CHECK_STR(member(line, "tokens", text, sizeof text), "4");
        } else {
            CHECK(*text != '\0');
        }
    }
    CHECK_EQ_INT(done, 3);
    CHECK_EQ_INT(errors, 2);
    CHECK(pieces >= 3);
    CHECK_CONTAINS(o.err, "the line is not JSON");
}

static void answers_keep_to_a_schema(void)
{
    const char *schema = text_file(
        "person.json", "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", "
                       "\"maxLength\": 8}, \"age\": {\"type\": \"integer\", \"minimum\": 0, "
                       "\"maximum\": 99}}, \"required\": [\"name\", \"age\"], "
                       "\"additionalProperties\": false}");
    output o = weft_command(NULL, "chat %s --json-schema %s -p Who? -t 0", model(), schema);
    CHECK_EQ_INT(o.code, 0);
    json_object *person = json_tokener_parse(o.out);
    CHECK(json_object_is_type(json_object_object_get(person, "name"), json_type_string));
    CHECK(json_object_is_type(json_object_object_get(person, "age"), json_type_int));
    json_object_put(person);
    /* The storyteller does not write such documents by itself. */
    o = weft_command(NULL, "chat %s --json-schema %s --prompted --retries 1 -p Who? -t 0 -n 8",
                     model(), schema);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "no answer of 2 is the document asked for");
    CHECK_STR(o.out, "");
    schema = text_file("openai.json",
                       "{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"answer\", "
                       "\"schema\": {\"type\": \"string\", \"maxLength\": 3, \"format\": \"odd\", "
                       "\"nullable\": true}}}");
    static const char *const ways[] = {"", "--prompted --retries 9 -n 4"};
    for (size_t i = 0; i < 2; i++) {
        o = weft_command(NULL, "chat %s --json-schema %s -p Who? -t 0 %s", model(), schema,
                         ways[i]);
        CHECK_EQ_INT(o.code, (int)i);
        CHECK_CONTAINS(o.err, "openai.json: the format \"odd\" is not checked\n");
    }
    schema = text_file("odd.json", "{\"unevaluatedItems\": false}");
    o = weft_command(NULL, "chat %s --json-schema %s -p Who?", model(), schema);
    check_one_line(&o, 1);
}

static void templates_can_be_given(void)
{
    const char *template = text_file("short.jinja", "{{ messages[-1].content }}");
    output o = weft_command(NULL, "chat %s --template %s -p \"Once upon a time\" -n 4 -t 0",
                            model(), template);
    CHECK_EQ_INT(o.code, 0);
    char first[512];
    snprintf(first, sizeof first, "%s", o.out);
    o = weft_command(NULL, "generate %s -p \"Once upon a time\" -n 4 -t 0", model());
    CHECK_STR(o.out, first);
    o = weft_command(NULL, "chat %s --format gemma3 -p Hi -n 2", model());
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "chat %s --format nosuch -p Hi -n 2", model());
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "there is no built-in chat format of \"nosuch\"");
}

/* A base model: no template, and a vocabulary without the marks of its family's format. */
static void models_without_a_template_are_refused(void)
{
    const char *folder = check_temporary("base");
    output o = shell_command(NULL,
                             "mkdir -p %s && cp %s/*.json %s/model.safetensors %s && rm "
                             "%s/tokenizer_config.json && sed -i 's/<|im_start|>/<|other|>/' "
                             "%s/tokenizer.json",
                             folder, model(), model(), folder, folder, folder);
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "chat %s -p Hi", folder);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "the model has no chat template: use weft generate");
    o = weft_command(NULL, "chat %s -p Hi --format chatml -n 2", folder);
    CHECK_EQ_INT(o.code, 0);
}

/* An engine that calls a tool, and answers when it is asked again. */
static const char engine[] =
    "#!/bin/sh\nn=0\nwhile read -r line; do\ncase \"$line\" in\n"
    "*'\"cmd\": \"load\"'*) printf '%s\\n' '{\"ok\": true}';;\n"
    "*'\"cmd\": \"info\"'*) printf '%s\\n' '{\"architecture\": \"fake\"}';;\n"
    "*'\"cmd\": \"quit\"'*) exit 0;;\n"
    "*'\"cmd\": \"generate\"'*) n=$((n + 1)); if [ $n = 2 ]; then t='It is hot.'; else\n"
    "t='<tool_call>{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {\\\"city\\\": "
    "\\\"Rome\\\"}}</tool_call>'; fi\n"
    "printf '%s\\n' \"{\\\"token\\\": \\\"$t\\\", \\\"token_id\\\": 1}\" '{\"done\": true}';;\n"
    "esac\ndone\n";

static const char toolbox[] =
    "[{\"name\": \"weather\", \"description\": \"tells the weather\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}]";

/* The user of a terminal is asked for the result of a call, and sees the answer. */
static void a_person_answers_calls(void)
{
    char program[1000], tools[1000], template[1000];
    if (shell_command(NULL, "script -qec true /dev/null").code != 0) {
        check_skip("script(1) is missing, or there are no pseudo-terminals (/dev/pts) for it");
        return;
    }
    snprintf(program, sizeof program, "%s", text_file("engine.sh", engine));
    snprintf(tools, sizeof tools, "%s", text_file("tools.json", toolbox));
    snprintf(template, sizeof template, "%s",
             text_file("tools.jinja",
                       "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% if "
                       "m.tool_calls %}<tool_call>{{ m.tool_calls | tojson }}</tool_call>{% endif "
                       "%}{% endfor %}"));
    CHECK_EQ_INT(chmod(program, 0700), 0);
    output o = shell_command(
        "How is it in Rome?\n31 degrees\n/history\n/quit\n",
        "WEFT_PYTHON=%s script -qec '%s chat %s --backend transformers --template %s --tools %s' "
        "%s",
        program, check_built("cli/weft"), model(), template, tools, check_temporary("typed"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "weather {\"city\":\"Rome\"}");
    CHECK_CONTAINS(o.out, "enter its result");
    CHECK_CONTAINS(o.out, "It is hot.");
    CHECK_CONTAINS(o.out, "\"role\": \"tool\", \"content\": \"31 degrees\"");
}

/* The options of the KV cache, and XTC. */
static void the_kv_cache_can_be_limited(void)
{
    output o = weft_command("Once upon a time\nAnd then?\n",
                            "chat %s -n 40 -t 0 --max-context 32 --sink-tokens 2 --kv-bits 8 "
                            "--stats",
                            model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(count(o.err, "tokens/s; peak memory"), 2);
    o = weft_command(NULL, "chat %s -p x -n 4 --kv-bits 5", model());
    check_one_line(&o, 1);
    o = weft_command(NULL, "chat %s -p x -n 4 -t 0 --xtc-probability 1 --xtc-threshold 0", model());
    CHECK_EQ_INT(o.code, 0);
}

/* Another program truncates the weights, which are mapped, between two messages: the process names
 * the file and exits by itself. */
static void truncated_weights_end_the_process(void)
{
    static const char *const kinds[][3] = {{"truncated.gguf", "q8_0", ""},
                                           {"truncated-f32", "f32", "/model.safetensors"}};
    for (int i = 0; i < 2; i++) {
        char folder[512], weights[600];
        snprintf(folder, sizeof folder, "%s", check_temporary(kinds[i][0]));
        snprintf(weights, sizeof weights, "%s%s", folder, kinds[i][2]);
        output o =
            weft_command(NULL, "convert %s %s --type %s --force", model(), folder, kinds[i][1]);
        CHECK_EQ_INT(o.code, 0);
        o = shell_command(NULL,
                          "trap '' PIPE; cd $(dirname %s) && rm -f turns said && mkfifo turns && "
                          "{ %s chat %s -n 4 -t 0 < turns > said & } && exec 3> turns && "
                          "echo Once >&3 && for i in $(seq 1200); do [ -s said ] && break; "
                          "sleep 0.1; done; : > %s; echo More >&3; exec 3>&-; wait $!",
                          folder, check_built("cli/weft"), folder, weights);
        CHECK_EQ_INT(o.code, 1);
        CHECK_CONTAINS(o.err, weights);
        CHECK_CONTAINS(o.err, ": it was truncated while it was in use\n");
    }
}

static void misuse_is_reported(void)
{
    static const struct {
        const char *options, *says;
    } cases[] = {
        {"x --format chatml --template y", "choose one"},
        {"x --tools y", "--tools needs a terminal"},
        {"x --tool-pattern '<a>...</a>'", "--tool-pattern needs --tools"},
        {"x --json --tools f --tool-pattern '<a>'", "expected OPEN...CLOSE"},
        {"x --json --tools f --tool-pattern '...</a>'", "expected OPEN...CLOSE"},
        {"x --json --tools f --tool-pattern '<a>...'", "expected OPEN...CLOSE"},
        {"x --prompted", "--prompted needs --json-schema"},
        {"x --schema-open", "--schema-open needs --json-schema"},
        {"x --think perhaps", "perhaps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o = weft_command(NULL, "chat %s", cases[i].options);
        check_one_line(&o, 2);
        CHECK_CONTAINS(o.err, cases[i].says);
    }
}

CHECK_MAIN("cli_chat", CHECK_CASE(a_line_is_a_message), CHECK_CASE(long_conversations_continue),
           CHECK_CASE(the_model_may_be_left_out), CHECK_CASE(a_timeout_ends_the_answer),
           CHECK_CASE(commands_change_the_conversation),
           CHECK_CASE(answers_are_repeated_and_continued), CHECK_CASE(events_are_lines_of_json),
           CHECK_CASE(answers_keep_to_a_schema), CHECK_CASE(templates_can_be_given),
           CHECK_CASE(models_without_a_template_are_refused),
           CHECK_CASE(truncated_weights_end_the_process), CHECK_CASE(misuse_is_reported),
           CHECK_CASE(a_person_answers_calls), CHECK_CASE(the_kv_cache_can_be_limited))
