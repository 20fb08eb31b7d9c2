/* text/tokenizer/pretokenize.h -- tokenizer.json's "pre_tokenizer": how a text is cut into words.
 */
#ifndef WEFT_TEXT_TOKENIZER_PRETOKENIZE_H
#define WEFT_TEXT_TOKENIZER_PRETOKENIZE_H

#include <stdbool.h>

#include "core/io/json.h"
#include "text/tokenizer/buffer.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/words.h"

enum { SPLITTER_MAX_STEPS = 16 };

/* What becomes of a match of the pattern. */
typedef enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} split_behavior;

/* When a text gets `prefix` in front, unless it begins with it. */
typedef enum prefix_rule { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS } prefix_rule;

/* Single characters that a step cuts at, without a pattern. */
typedef enum split_characters {
    SPLIT_AT_NONE,
    SPLIT_AT_SPACES,
    SPLIT_AT_PUNCTUATION
} split_characters;

/* A step puts a prefix in front, replaces spaces, and cuts: each part optional. */
typedef struct splitter_step {
    char prefix[8]; /* one character; also what replaces spaces, if they are replaced */
    prefix_rule prefix_rule;
    bool replace_spaces;
    text_regex *pattern; /* NULL: does not cut, or as `words` says */
    word_pattern words;
    split_characters characters;
    split_behavior behavior;
    bool invert; /* what lies between matches is the match */
} splitter_step;

/* Zeroed, every text is one word. */
typedef struct text_splitter {
    splitter_step steps[SPLITTER_MAX_STEPS];
    int count;
    bool byte_level; /* words are spelt in the byte alphabet */
} text_splitter;

/* Reads the "pre_tokenizer" of a tokenizer.json; absent and null are none. */
weft_status weft__splitter_load(const weft__json *root, text_splitter *out);

/* Adds a step that cuts out what the pattern matches; `at` names it in messages. */
weft_status weft__splitter_add_pattern(text_splitter *splitter, const char *pattern,
                                       const weft__json *at);

void weft__splitter_release(text_splitter *splitter);

/* Gets the words one after another; a status other than WEFT_OK ends the splitting. */
typedef weft_status word_function(void *context, const char *word, size_t length);

/* Cuts valid UTF-8. `first`: the piece begins where the whole text does. `scratch` is
 * SPLITTER_MAX_STEPS buffers. */
weft_status weft__split(const text_splitter *splitter, const char *text, size_t length, bool first,
                        text_buffer *scratch, word_function *word, void *context);

#endif
