/* cli/chat_body.c -- requests of weft chat to a server, by the fields of OpenAI's API and those
 * that weft serve, vLLM and llama-server have besides. */
#include "cli/chat_body.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lines.h"

static void put(json_object *to, const char *key, json_object *value)
{
    json_object_object_add(to, key, value);
}

static void put_number(json_object *to, const char *key, double value)
{
    if (!isnan(value))
        put(to, key, json_object_new_double(value));
}

static void put_count(json_object *to, const char *key, int64_t value)
{
    if (value != CLI_ABSENT)
        put(to, key, json_object_new_int64(value));
}

static void put_sampling(json_object *to, const cli_sampling *s)
{
    put_number(to, "temperature", s->temperature);
    put_number(to, "top_p", s->top_p);
    put_number(to, "min_p", s->min_p);
    put_number(to, "repetition_penalty", s->repetition_penalty);
    put_number(to, "presence_penalty", s->presence_penalty);
    put_number(to, "frequency_penalty", s->frequency_penalty);
    put_number(to, "xtc_probability", s->xtc_probability);
    if (!isnan(s->xtc_probability))
        put_number(to, "xtc_threshold", s->xtc_threshold);
    put_count(to, "top_k", s->top_k);
    put_count(to, "max_tokens", s->max_tokens);
    put_count(to, "seed", s->seed);
    if (s->logit_bias.n > 0) {
        json_object *biases = json_object_new_object();
        for (int i = 0; i < s->logit_bias.n; i++) {
            char id[16];
            snprintf(id, sizeof id, "%d", (int)s->logit_bias.ids[i]);
            put_number(biases, id, fmax(-100, (double)s->logit_bias.values[i]));
        }
        put(to, "logit_bias", biases);
    }
}

/* Whether the conversation ends with a message of the assistant. */
static bool continues(json_object *messages)
{
    const size_t n = json_object_array_length(messages);
    json_object *last = n > 0 ? json_object_array_get_idx(messages, n - 1) : NULL;
    const char *role = cli_plain_text(json_object_object_get(last, "role"));
    return role != NULL && strcmp(role, "assistant") == 0;
}

weft_status chat_body(const chat_values *v, const char *model, const char *messages,
                      weft_thinking thinking, char **out)
{
    json_object *list = messages != NULL ? cli_parse_json(messages, strlen(messages)) : NULL,
                *body = json_object_new_object(), *usage = json_object_new_object();
    *out = NULL;
    if (!json_object_is_type(list, json_type_array) || body == NULL || usage == NULL) {
        json_object_put(list);
        json_object_put(body);
        json_object_put(usage);
        return weft_fail(WEFT_MEMORY, "chat: no memory for the messages");
    }
    put(body, "model", json_object_new_string(model));
    put(body, "messages", list);
    put(body, "stream", json_object_new_boolean(true));
    put(usage, "include_usage", json_object_new_boolean(true));
    put(body, "stream_options", usage);
    put_sampling(body, &v->sampling);
    if (continues(list)) {
        put(body, "continue_final_message", json_object_new_boolean(true));
        put(body, "add_generation_prompt", json_object_new_boolean(false));
    }
    if (thinking != WEFT_THINKING_DEFAULT) {
        json_object *variables = json_object_new_object();
        put(variables, "enable_thinking", json_object_new_boolean(thinking == WEFT_THINKING_ON));
        put(body, "chat_template_kwargs", variables);
    }
    const char *text = json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN |
                                                                JSON_C_TO_STRING_NOSLASHESCAPE);
    *out = text != NULL ? weft_strdup(text) : NULL;
    json_object_put(body);
    return *out != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "chat: no memory for a request");
}
