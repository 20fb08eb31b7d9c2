/* text/tokenizer/pretokenize.h -- tokenizer.json's "pre_tokenizer", which splits a text into words.
 */
#ifndef WEFT_TEXT_TOKENIZER_PRETOKENIZE_H
#define WEFT_TEXT_TOKENIZER_PRETOKENIZE_H

#include <stdbool.h>

#include "core/io/json.h"
#include "text/tokenizer/buffer.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/words.h"

enum { SPLITTER_MAX_STEPS = 16 };

/* How matches of the pattern are handled. */
typedef enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} split_behavior;

/* When `prefix` is prepended to a text that does not begin with it. */
typedef enum prefix_rule { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS } prefix_rule;

/* Single characters at which a step splits, without a pattern. */
typedef enum split_characters {
    SPLIT_AT_NONE,
    SPLIT_AT_SPACES,
    SPLIT_AT_PUNCTUATION
} split_characters;

/* A step prepends a prefix, replaces spaces, and splits; each part is optional. */
typedef struct splitter_step {
    char prefix[8]; /* one character; also the replacement of spaces, if they are replaced */
    prefix_rule prefix_rule;
    bool replace_spaces;
    text_regex *pattern; /* NULL: splits by `words`, or not at all */
    word_pattern words;
    split_characters characters;
    split_behavior behavior;
    bool invert; /* the ranges between matches are treated as matches */
    bool spells; /* the step comes after ByteLevel: first spells the text in the byte alphabet */
} splitter_step;

/* Zeroed, every text is one word. */
typedef struct text_splitter {
    splitter_step steps[SPLITTER_MAX_STEPS];
    int count;
    bool byte_level; /* words are spelled in the byte alphabet */
    bool spelled;    /* and further steps split them as spelled, as in Falcon */
} text_splitter;

/* Reads the "pre_tokenizer" of a tokenizer.json; absent or null means none. */
weft_status weft__splitter_load(const weft__json *root, text_splitter *out);

/* Adds a step that isolates the matches of a pattern; `at` names it in messages. */
weft_status weft__splitter_add_pattern(text_splitter *splitter, const char *pattern,
                                       const weft__json *at);

void weft__splitter_release(text_splitter *splitter);

/* Receives the words in order; a status other than WEFT_OK stops. */
typedef weft_status word_function(void *context, const char *word, size_t length);

/* Splits valid UTF-8. `first`: the piece is at the start of the whole text. `scratch` is
 * SPLITTER_MAX_STEPS buffers. */
weft_status weft__split(const text_splitter *splitter, const char *text, size_t length, bool first,
                        text_buffer *scratch, word_function *word, void *context);

#endif
