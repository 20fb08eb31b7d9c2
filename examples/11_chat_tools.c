/* examples/11_chat_tools.c -- a conversation with tools: the model calls functions of the program
 * and continues with their results.
 *
 *     build/examples/11_chat_tools                 a script plays the model
 *     build/examples/11_chat_tools FOLDER "..."    a model that knows tools, and a question
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/weft.h"

/* ---- The tools: their arguments come as JSON that fits the schema, their results are texts. ----
 */

static weft_status weather(void *context, const char *arguments, char **result)
{
    int *calls = context;
    ++*calls;
    if (strstr(arguments, "Atlantis") != NULL) /* the model is told, and may say something else */
        return weft_fail(WEFT_INVALID, "there is no station in Atlantis");
    *result = weft_strdup("{\"sky\": \"clear\", \"celsius\": 21}");
    return *result != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "no memory");
}

static const char parameters[] =
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, "
    "\"required\": [\"city\"], \"additionalProperties\": false}";

/* ---- What happens, as it happens ---------------------------------------------------------------
 */

static bool show(void *context, const weft_session_event *event)
{
    (void)context;
    switch (event->kind) {
    case WEFT_SESSION_TEXT:
        fwrite(event->text, 1, event->length, stdout);
        break;
    case WEFT_SESSION_REASONING: /* what the model thinks before it answers */
        break;
    case WEFT_SESSION_TOOL_CALL:
        printf("-> %s %s\n", event->name, event->arguments);
        break;
    case WEFT_SESSION_TOOL_RESULT:
        printf("<- %s\n", event->text);
        break;
    case WEFT_SESSION_STRUCTURED:
    case WEFT_SESSION_NOTE:
        break;
    case WEFT_SESSION_DONE:
        printf("\n(%lld generations, %lld calls)\n", (long long)event->stats->generations,
               (long long)event->stats->tool_calls);
        break;
    }
    return fflush(stdout) == 0; /* false would stop the answer */
}

/* ---- Without a model: a script in a model's markup ----------------------------------------------
 */

#define CALL(city)                                                                                 \
    "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"" city "\"}}</tool_call>"

static weft_status script(void *context, const weft_session_request *request,
                          weft_generate_fn *callback, void *callback_context,
                          weft_generate_stats *stats)
{
    static const char *const answers[] = {
        "<think>Two cities, so two calls.</think>Let me look.\n" CALL("Rome") CALL("Atlantis"),
        "In Rome it is clear, 21 degrees; of Atlantis I know nothing."};
    int *at = context;
    const char *answer = answers[(*at)++];
    (void)request; /* request->prompt is the conversation as the template writes it */
    for (size_t i = 0; answer[i] != '\0'; i++) {
        const char text[] = {answer[i], '\0'};
        stats->tokens++;
        if (!callback(callback_context, &(weft_generated){.id = -1, .text = text, .length = 1}))
            break;
    }
    return WEFT_OK;
}

static const char template[] =
    "{%- if tools %}Tools: {{ tools | tojson }}\n{% endif -%}"
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
    "{%- if m.tool_calls and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% "
    "endif "
    "-%}{{ m.content }}"
    "{%- for c in m.tool_calls or [] -%}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{%- endfor -%}<|im_end|>\n{% endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}";

int main(int argc, char **argv)
{
    int calls = 0, at = 0;
    const weft_tool tools[] = {{.name = "weather",
                                .description = "The weather of a city.",
                                .parameters = parameters,
                                .call = weather,
                                .context = &calls}};
    weft_session_options options = {.system = "You are terse.", .tools = tools, .n_tools = 1};
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    weft_session *session = NULL;
    weft_status status;
    if (argc > 2) {
        status = weft_model_load(argv[1], NULL, &model);
        if (status == WEFT_OK)
            status = weft_tokenizer_load(argv[1], &tokenizer);
        if (status == WEFT_OK)
            status = weft_chat_load(argv[1], &chat);
    } else {
        status = weft_chat_parse(template, strlen(template), "example", NULL, &chat);
        options.source = script;
        options.source_context = &at;
    }
    if (status == WEFT_OK)
        status = weft_session_new(model, tokenizer, chat, &options, &session);
    const char *question = argc > 2 ? argv[2] : "How is the weather in Rome and in Atlantis?";
    if (status == WEFT_OK)
        status = weft_session_send(session, question, NULL, show, NULL, NULL);
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", weft_error_message());

    /* What the script called was answered, and its last words are the conversation's. */
    const char *reply = session != NULL ? weft_session_reply(session) : NULL;
    const bool fine = status == WEFT_OK && reply != NULL &&
                      (argc > 2 || (calls == 2 && strncmp(reply, "In Rome", 7) == 0));
    weft_session_free(session);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
