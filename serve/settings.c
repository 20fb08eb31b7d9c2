/* serve/settings.c -- reads what a request asks for: sampling, lengths, stops, tools and the format
 * of the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "serve/server.h"
#include "weft/memory.h"

enum { TOOLS = 1024, BIASES = 1024 };

void serve_settings_free(serve_settings *s)
{
    json_object_put(s->messages);
    weft_free(s->tools);
    weft_free(s->bias_ids);
    weft_free(s->bias_values);
    serve_text_free(&s->variables);
    serve_text_free(&s->schema);
    *s = (serve_settings){0};
}

/* ---- sampling ------------------------------------------------------------------------------- */

weft_status serve_read_stops(serve_request *request, const char *key)
{
    serve_settings *s = &request->settings;
    json_object *value = json_object_object_get(request->json, key);
    const bool list = json_object_is_type(value, json_type_array);
    const size_t n = value == NULL ? 0 : list ? json_object_array_length(value) : 1;
    if (n > SERVE_STOPS)
        return weft_fail(WEFT_INVALID, "%s: expected at most %d strings, got %zu", key,
                         (int)SERVE_STOPS, n);
    for (size_t i = 0; i < n; i++) {
        const char *text = serve_plain(list ? json_object_array_get_idx(value, i) : value);
        if (text == NULL || *text == '\0')
            return weft_fail(WEFT_INVALID,
                             "%s: expected a string, or a list of strings, that are "
                             "not empty and without \\u0000",
                             key);
        s->stops[i] = text;
    }
    s->generate.stop_texts = s->stops;
    s->generate.n_stop_texts = (int)n;
    return WEFT_OK;
}

static weft_status read_seed(serve_request *request)
{
    int64_t seed = -1;
    const weft_status status = serve_read_count(request->json, "seed", INT64_MIN, INT64_MAX, &seed);
    request->settings.generate.seed = (uint64_t)seed;
    if (json_object_object_get(request->json, "seed") == NULL &&
        getrandom(&request->settings.generate.seed, sizeof(uint64_t), 0) < 0)
        request->settings.generate.seed = (uint64_t)(request->start * 1e9);
    return status;
}

static weft_status read_sampler(serve_request *request)
{
    weft_sampler_options *o = &request->settings.generate.sampler;
    const struct {
        const char *key;
        double low, high, *out;
    } numbers[] = {
        {"temperature", 0, 100, &o->temperature},
        {"top_p", 0, 1, &o->top_p},
        {"min_p", 0, 1, &o->min_p},
        {"presence_penalty", -100, 100, &o->presence_penalty},
        {"frequency_penalty", -100, 100, &o->frequency_penalty},
        {"repetition_penalty", 1e-6, 100, &o->repetition_penalty},
        {"repeat_penalty", 1e-6, 100, &o->repetition_penalty},
        {"xtc_probability", 0, 1, &o->xtc_probability},
        {"xtc_threshold", 0, 1, &o->xtc_threshold},
    };
    weft_status status = serve_read_count(request->json, "top_k", -1, INT32_MAX, &o->top_k);
    o->top_k = o->top_k > 0 ? o->top_k : 0;
    for (size_t i = 0; status == WEFT_OK && i < sizeof numbers / sizeof *numbers; i++)
        status = serve_read_number(request->json, numbers[i].key, numbers[i].low, numbers[i].high,
                                   numbers[i].out);
    if (json_object_object_get(request->json, "top_p") != NULL && o->top_p == 0)
        o->top_p = 1e-9; /* only the most probable token; the sampler takes 0 for off */
    return status;
}

/* {"token id": number, ...} */
static weft_status read_biases(serve_request *request)
{
    serve_settings *s = &request->settings;
    weft_sampler_options *o = &s->generate.sampler;
    json_object *given = json_object_object_get(request->json, "logit_bias");
    if (given == NULL)
        return WEFT_OK;
    if (!json_object_is_type(given, json_type_object) || json_object_object_length(given) > BIASES)
        return weft_fail(WEFT_INVALID, "logit_bias: expected an object of at most %d token ids",
                         (int)BIASES);
    const size_t n = (size_t)json_object_object_length(given);
    o->bias_ids = s->bias_ids = weft_malloc((n + 1) * sizeof *s->bias_ids);
    o->bias_values = s->bias_values = weft_malloc((n + 1) * sizeof *s->bias_values);
    if (s->bias_ids == NULL || s->bias_values == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for logit_bias");
    json_object_object_foreach(given, key, value)
    {
        char *end = NULL;
        double number = 0;
        const long long id = strtoll(key, &end, 10);
        if (*key < '0' || *key > '9' || *end != '\0' || id >= request->server->vocabulary)
            return weft_fail(WEFT_INVALID, "logit_bias: \"%s\": expected a token id below %lld",
                             weft_printable(key), (long long)request->server->vocabulary);
        if (value == NULL || serve_read_number(given, key, -100, 100, &number) != WEFT_OK)
            return weft_fail(WEFT_INVALID, "logit_bias: \"%s\": expected a number from -100 to 100",
                             key);
        s->bias_ids[o->n_bias] = (int32_t)id;
        s->bias_values[o->n_bias++] = (float)number;
    }
    return WEFT_OK;
}

static weft_status read_lengths(serve_request *request)
{
    const serve_server *server = request->server;
    static const char *const keys[] = {"max_tokens", "max_completion_tokens", "max_output_tokens"};
    int64_t limit = server->options.max_tokens, most = -1;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof keys / sizeof *keys; i++)
        status = serve_read_count(request->json, keys[i], 0, INT32_MAX, &most);
    if (limit == 0)
        limit = server->positions > 0 ? server->positions : 4096;
    most = most < 0 || most > limit ? limit : most;
    request->settings.generate.max_tokens = most > 0 ? most : -1;
    return status;
}

static weft_status read_stream(serve_request *request)
{
    serve_settings *s = &request->settings;
    json_object *options = json_object_object_get(request->json, "stream_options");
    weft_status status = serve_read_flag(request->json, "stream", &s->stream);
    if (status == WEFT_OK && options != NULL && !json_object_is_type(options, json_type_object))
        return weft_fail(WEFT_INVALID, "stream_options: expected an object");
    return status == WEFT_OK && options != NULL
               ? serve_read_flag(options, "include_usage", &s->usage)
               : status;
}

weft_status serve_read_generation(serve_request *request)
{
    serve_settings *s = &request->settings;
    s->generate = request->server->loaded.generate;
    s->generate.cancel = request->cancel;
    s->generate.prompt_cache = request->server->cache;
    weft_status status = read_sampler(request);
    if (status == WEFT_OK)
        status = read_biases(request);
    if (status == WEFT_OK)
        status = read_lengths(request);
    if (status == WEFT_OK)
        status = read_seed(request);
    if (status == WEFT_OK)
        status = serve_read_flag(request->json, "ignore_eos", &s->generate.ignore_eos);
    if (status == WEFT_OK)
        status = read_stream(request);
    if (request->adapter != NULL && request->adapter->eos >= 0 && !s->generate.ignore_eos) {
        s->generate.stop = &request->adapter->eos;
        s->generate.n_stop = 1;
    }
    return status;
}

/* ---- tools ---------------------------------------------------------------------------------- */

/* A tool of OpenAI's chat, {"type", "function": {...}}, or of the other APIs, {"name", ...}. */
static weft_status read_tool(json_object *value, size_t i, weft_tool *out)
{
    json_object *function = json_object_object_get(value, "function"), *parameters = NULL;
    if (!json_object_is_type(function, json_type_object))
        function = value;
    if (!json_object_is_type(function, json_type_object))
        return weft_fail(WEFT_INVALID, "tools[%zu]: expected an object", i);
    weft_status status = serve_read_text(function, "name", &out->name);
    if (status == WEFT_OK)
        status = serve_read_text(function, "description", &out->description);
    if (status == WEFT_OK && (out->name == NULL || *out->name == '\0'))
        return weft_fail(WEFT_UNSUPPORTED, "tools[%zu]: expected a function with a name", i);
    if (!json_object_object_get_ex(function, "parameters", &parameters))
        json_object_object_get_ex(function, "input_schema", &parameters);
    if (status == WEFT_OK && parameters != NULL) {
        if (!json_object_is_type(parameters, json_type_object))
            return weft_fail(WEFT_INVALID, "tools[%zu]: parameters: expected a JSON Schema", i);
        out->parameters = json_object_to_json_string(parameters);
    }
    return status;
}

json_object *serve_own_tools(json_object *tools, const char *wanted)
{
    if (!json_object_is_type(tools, json_type_array))
        return json_object_get(tools);
    json_object *own = json_object_new_array();
    for (size_t i = 0; own != NULL && i < json_object_array_length(tools); i++) {
        json_object *tool = json_object_array_get_idx(tools, i);
        json_object *type = json_object_object_get(tool, "type");
        if (type == NULL || (serve_plain(type) != NULL && strcmp(serve_plain(type), wanted) == 0))
            json_object_array_add(own, json_object_get(tool));
    }
    return own;
}

weft_status serve_read_tools(serve_request *request, json_object *tools)
{
    serve_settings *s = &request->settings;
    if (tools == NULL)
        return WEFT_OK;
    if (!json_object_is_type(tools, json_type_array))
        return weft_fail(WEFT_INVALID, "tools: expected an array");
    const size_t n = json_object_array_length(tools);
    weft_status status = WEFT_OK;
    if (n > TOOLS) /* their names are compared with each other */
        return weft_fail(WEFT_INVALID, "tools: expected at most %d, got %zu", (int)TOOLS, n);
    s->tools = weft_calloc(n + 1, sizeof *s->tools);
    if (s->tools == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the tools");
    for (size_t i = 0; status == WEFT_OK && i < n; i++)
        status = read_tool(json_object_array_get_idx(tools, i), i, &s->tools[i]);
    s->n_tools = n;
    return status;
}

/* Whether the values of a keyword are schemas by names, or no schemas at all. */
static bool is_one_of(const char *key, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(key, *names) == 0)
            return true;
    }
    return false;
}

/* Puts a prefix before the references within a schema, which becomes part of another one. */
static void move_references(json_object *at, const char *prefix, bool names)
{
    static const char *const maps[] = {"properties", "patternProperties", "dependentSchemas",
                                       "$defs",      "definitions",       NULL},
                             *const values[] = {"const", "enum", "default", "examples", NULL};
    if (json_object_is_type(at, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(at); i++)
            move_references(json_object_array_get_idx(at, i), prefix, false);
        return;
    }
    if (!json_object_is_type(at, json_type_object))
        return;
    json_object_object_foreach(at, key, value)
    {
        const char *reference = serve_plain(value);
        if (names || !is_one_of(key, values))
            move_references(value, prefix, !names && is_one_of(key, maps));
        if (names || reference == NULL || reference[0] != '#' || strcmp(key, "$ref") != 0)
            continue;
        char *moved = weft_format("%s%s", prefix, reference + 1);
        if (moved != NULL)
            json_object_set_string(value, moved);
        weft_free(moved);
    }
}

/* The schema of a tool's arguments at position n of anyOf. */
static void put_parameters(const weft_tool *tool, size_t n, serve_text *out)
{
    char prefix[64];
    json_object *schema = tool->parameters != NULL ? serve_parse(tool->parameters) : NULL;
    snprintf(prefix, sizeof prefix, "#/anyOf/%zu/properties/arguments", n);
    move_references(schema, prefix, false);
    if (schema != NULL)
        serve_put(out, "%o", schema);
    else
        serve_put(out, "{'type': 'object', 'properties': {}}");
    json_object_put(schema);
}

/* The document of a call that must come: of one tool, or of any. */
static weft_status require_call(serve_settings *s, const char *name)
{
    size_t n = 0;
    serve_put(&s->schema, "{'anyOf': [");
    for (size_t i = 0; i < s->n_tools; i++) {
        const weft_tool *tool = &s->tools[i];
        if (name != NULL && strcmp(name, tool->name) != 0)
            continue;
        serve_put(&s->schema,
                  "%r{'type': 'object', 'properties': {'name': {'const': %s}, 'arguments': ",
                  n > 0 ? ", " : "", tool->name);
        put_parameters(tool, n++, &s->schema);
        serve_put(&s->schema,
                  "}, 'required': ['name', 'arguments'], 'additionalProperties': false}");
    }
    serve_put(&s->schema, "]}");
    if (n == 0)
        return weft_fail(WEFT_INVALID, "tool_choice: there is no tool %s",
                         name != NULL ? weft_printable(name) : "");
    s->must_call = true;
    s->turn.structured = WEFT_STRUCTURED_CONSTRAINED;
    return WEFT_OK;
}

weft_status serve_read_tool_choice(serve_request *request, json_object *choice)
{
    serve_settings *s = &request->settings;
    const char *word = serve_plain(choice);
    bool parallel = true;
    weft_status status = serve_read_flag(request->json, "parallel_tool_calls", &parallel);
    s->one_call = !parallel;
    if (status != WEFT_OK || choice == NULL)
        return status;
    if (json_object_is_type(choice, json_type_object)) {
        json_object *function = json_object_object_get(choice, "function");
        word = serve_plain(json_object_object_get(choice, "type"));
        const char *name =
            serve_plain(json_object_object_get(function ? function : choice, "name"));
        if (name != NULL)
            return require_call(s, name);
    }
    if (word == NULL)
        return weft_fail(WEFT_INVALID, "tool_choice: expected auto, none, required, or a tool");
    if (strcmp(word, "required") == 0 || strcmp(word, "any") == 0)
        return require_call(s, NULL);
    s->turn.no_tools = strcmp(word, "none") == 0;
    return strcmp(word, "none") == 0 || strcmp(word, "auto") == 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "tool_choice: expected auto, none, required, or a tool, "
                           "got \"%s\"",
                           weft_printable(word));
}

/* ---- the format of the answer --------------------------------------------------------------- */

weft_status serve_read_format(serve_request *request, const char *name, json_object *format)
{
    serve_settings *s = &request->settings;
    const char *type = NULL;
    bool prompted = false;
    if (format == NULL)
        return WEFT_OK;
    if (!json_object_is_type(format, json_type_object))
        return weft_fail(WEFT_INVALID, "%s: expected an object", name);
    weft_status status = serve_read_text(format, "type", &type);
    if (status == WEFT_OK)
        status = serve_read_flag(format, "prompted", &prompted);
    if (status != WEFT_OK || (type != NULL && strcmp(type, "text") == 0))
        return status;
    json_object *schema = json_object_object_get(format, "schema");
    if (type != NULL && strcmp(type, "json_schema") == 0) {
        json_object *named = json_object_object_get(format, "json_schema");
        schema = named != NULL ? json_object_object_get(named, "schema") : schema;
        if (schema == NULL)
            return weft_fail(WEFT_INVALID, "%s: json_schema: expected a schema", name);
    } else if (type == NULL || strcmp(type, "json_object") != 0) {
        return weft_fail(WEFT_INVALID, "%s: type: expected text, json_object or json_schema", name);
    }
    if (s->must_call) /* the call comes first */
        return WEFT_OK;
    serve_put(&s->schema,
              schema != NULL ? "%o" : "{'type': 'object', 'additionalProperties': true}", schema);
    s->turn.structured = prompted || (s->n_tools > 0 && !s->turn.no_tools)
                             ? WEFT_STRUCTURED_PROMPTED
                             : WEFT_STRUCTURED_CONSTRAINED;
    return WEFT_OK;
}

/* ---- the template --------------------------------------------------------------------------- */

/* With a call that must come, the template gets the tools as a variable: the answer is a document,
 * which goes without tools. */
static void add_tools(serve_settings *s, json_object *variables)
{
    serve_text json = {0};
    serve_put(&json, "[");
    for (size_t i = 0; i < s->n_tools; i++)
        serve_put(&json,
                  "%r{'type': 'function', 'function': {'name': %s, 'description': %s, "
                  "'parameters': %r}}",
                  i > 0 ? ", " : "", s->tools[i].name,
                  s->tools[i].description != NULL ? s->tools[i].description : "",
                  s->tools[i].parameters != NULL ? s->tools[i].parameters
                                                 : "{\"type\": \"object\", \"properties\": {}}");
    serve_put(&json, "]");
    json_object_object_add(variables, "tools", json.failed ? NULL : serve_parse(json.at));
    serve_text_free(&json);
}

/* Whether the prompt ends with the beginning of an answer, or goes on with the last message. */
static weft_status read_prompt_end(serve_request *r, json_object *variables)
{
    bool *continues = &r->settings.turn.continue_final, begins = true;
    weft_status status = serve_read_flag(r->json, "continue_final_message", continues);
    if (status == WEFT_OK)
        status = serve_read_flag(r->json, "add_generation_prompt", &begins);
    if (status == WEFT_OK && !begins && !*continues)
        json_object_object_add(variables, "add_generation_prompt", json_object_new_boolean(false));
    return status;
}

weft_status serve_read_template(serve_request *request)
{
    serve_settings *s = &request->settings;
    json_object *given = json_object_object_get(request->json, "chat_template_kwargs");
    json_object *effort = json_object_object_get(request->json, "reasoning_effort");
    json_object *variables = NULL, *thinking;
    if (given != NULL && !json_object_is_type(given, json_type_object))
        return weft_fail(WEFT_INVALID, "chat_template_kwargs: expected an object");
    if (given != NULL ? json_object_deep_copy(given, &variables, NULL) != 0
                      : (variables = json_object_new_object()) == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the template's variables");
    if (json_object_object_get_ex(variables, "enable_thinking", &thinking)) {
        s->thinking = json_object_get_boolean(thinking) ? WEFT_THINKING_ON : WEFT_THINKING_OFF;
        json_object_object_del(variables, "enable_thinking");
    }
    if (effort != NULL && !json_object_object_get_ex(variables, "reasoning_effort", NULL))
        json_object_object_add(variables, "reasoning_effort", json_object_get(effort));
    const weft_status status = read_prompt_end(request, variables);
    if (s->must_call)
        add_tools(s, variables);
    if (json_object_object_length(variables) > 0)
        serve_put(&s->variables, "%o", variables);
    json_object_put(variables);
    s->turn.schema = s->schema.at;
    return s->variables.failed || s->schema.failed
               ? weft_fail(WEFT_MEMORY, "out of memory for the template's variables")
               : status;
}
