/* text/tokenizer/pre.c -- the pre-tokenizers that GGUF files know by name, with the patterns of the
 * original tokenizer.json files. */
#include "text/tokenizer/pre.h"

#include <stddef.h>
#include <string.h>

#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define WORDS(numbers)                                                                             \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(behind, numbers)                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" behind "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER  \
    "*" behind "|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL

static const text_pre entries[] = {
    {.names = "default",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "gpt-2 phi-2 mpt olmo jais roberta-bpe", .patterns = {GPT2_WORDS "|\\s+"}},
    {.names = "starcoder refact command-r smollm codeshell exaone",
     .patterns = {"\\p{N}", GPT2_WORDS "|\\s+"}},
    {.names = "falcon",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2_WORDS "|\\s+", "[0-9][0-9][0-9]"}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 pixtral",
     .patterns = {WORDS("\\p{N}{1,3}")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "minicpm5", .patterns = {"\\p{N}{1,3}", WORDS("\\p{N}+")}, .ignore_merges = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {WORDS("\\p{N}{1,3}")}},
    {.names = "qwen2", .patterns = {WORDS("\\p{N}")}, .nfc = true},
    {.names = "deepseek-r1-qwen stablelm2", .patterns = {WORDS("\\p{N}")}},
    {.names = "qwen35",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                               "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL},
     .nfc = true},
    {.names = "tekken", .patterns = {CASED("", "\\p{N}")}, .ignore_merges = true, .add_bos = true},
    {.names = "gpt-4o llama4", .patterns = {CASED(CONTRACTIONS "?", "\\p{N}{1,3}")}},
};

const text_pre *weft__pre_at(size_t i)
{
    return i < sizeof entries / sizeof *entries ? &entries[i] : NULL;
}

const text_pre *weft__pre_find(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof entries / sizeof *entries && length > 0; i++) {
        for (const char *at = entries[i].names; *at != '\0';) {
            const size_t size = strcspn(at, " ");
            if (size == length && memcmp(at, name, size) == 0)
                return &entries[i];
            at += size;
            at += *at == ' ';
        }
    }
    return NULL;
}
