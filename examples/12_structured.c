/* examples/12_structured.c -- answers as JSON by a schema: requested and validated, and generated
 * under the schema as a constraint.
 *
 *     build/examples/12_structured FOLDER      examples/storyteller, or a model that talks
 */
#include <stdio.h>
#include <stdlib.h>

#include "weft/weft.h"

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "  \"name\": {\"type\": \"string\", \"pattern\": \"^[A-Z][a-z]{2,9}$\"},"
    "  \"age\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 120},"
    "  \"trade\": {\"enum\": [\"baker\", \"miller\", \"king\"]}},"
    " \"required\": [\"name\", \"age\", \"trade\"], \"additionalProperties\": false}";

/* The text comes live, the document at the end, when it is known to fit. */
static bool show(void *context, const weft_session_event *event)
{
    int *documents = context;
    if (event->kind == WEFT_SESSION_TEXT)
        fwrite(event->text, 1, event->length, stdout);
    if (event->kind == WEFT_SESSION_STRUCTURED) {
        printf("\n=> %s\n", event->text);
        ++*documents;
    }
    return true;
}

int main(int argc, char **argv)
{
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    weft_session *session = NULL;
    int documents = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: 12_structured FOLDER\n");
        return EXIT_FAILURE;
    }
    weft_status status = weft_model_load(argv[1], NULL, &model);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(argv[1], &tokenizer);
    if (status == WEFT_OK)
        status = weft_chat_load(argv[1], &chat);
    const weft_session_options options = {.generate = {.max_tokens = 60}};
    if (status == WEFT_OK)
        status = weft_session_new(model, tokenizer, chat, &options, &session);

    /* Asked for: the schema goes into the system text, the answer is searched for a document, and
     * one that does not fit is told why and tried again. Models that talk well manage that; the
     * storyteller does not, which is an error that leaves the conversation as it was. */
    const weft_session_turn asked = {
        .structured = WEFT_STRUCTURED_PROMPTED, .schema = schema, .retries = 1};
    if (status == WEFT_OK &&
        weft_session_send(session, "Invent a person.", &asked, show, &documents, NULL) != WEFT_OK)
        printf("\nasked: %s\n", weft_error_message());

    /* Constrained: of each step's tokens only those are left that keep to the schema. Any model
     * gives a document, the storyteller too. */
    const int before = documents;
    const weft_session_turn held = {.structured = WEFT_STRUCTURED_CONSTRAINED, .schema = schema};
    if (status == WEFT_OK)
        status = weft_session_send(session, "Invent a person.", &held, show, &documents, NULL);
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", weft_error_message());
    const bool fine = status == WEFT_OK && documents == before + 1;
    weft_session_free(session);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
