/* text/tokenizer/words.h -- the patterns that most tokenizers cut words with, without a regex
 * engine.
 */
#ifndef WEFT_TEXT_TOKENIZER_WORDS_H
#define WEFT_TEXT_TOKENIZER_WORDS_H

#include <stddef.h>

typedef enum word_pattern {
    WORDS_UNKNOWN, /* a pattern that only the regex engine knows */
    WORDS_GPT2,
    WORDS_LLAMA3, /* up to three digits are a word */
    WORDS_QWEN2   /* each digit is one */
} word_pattern;

/* Which of them a pattern of that spelling is. */
word_pattern weft__words_known(const char *pattern, size_t length);

/* The end of the word that starts at `start`, before `length`. Words have no gaps between them. The
 * text is valid UTF-8. `classes` are weft__classes(). */
size_t weft__words_next(word_pattern pattern, const unsigned char *classes, const char *text,
                        size_t length, size_t start);

#endif
