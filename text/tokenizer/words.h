/* text/tokenizer/words.h -- fast matchers for the patterns that most tokenizers use, without a
 * regex engine. */
#ifndef WEFT_TEXT_TOKENIZER_WORDS_H
#define WEFT_TEXT_TOKENIZER_WORDS_H

#include <stddef.h>

typedef enum word_pattern {
    WORDS_UNKNOWN, /* any other pattern */
    WORDS_GPT2,
    WORDS_LLAMA3, /* up to three digits form a word */
    WORDS_QWEN2   /* each digit is a word */
} word_pattern;

/* Identifies a pattern by its text. */
word_pattern weft__words_known(const char *pattern, size_t length);

/* The end of the word that starts at `start` < `length`. Words are contiguous. The text is valid
 * UTF-8; `classes` are weft__classes(). */
size_t weft__words_next(word_pattern pattern, const unsigned char *classes, const char *text,
                        size_t length, size_t start);

#endif
