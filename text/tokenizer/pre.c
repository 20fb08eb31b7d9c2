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

/* The letters with case, as DeepSeek's first tokenizers list them. */
#define LATIN                                                                                      \
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"                \
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"           \
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"               \
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"               \
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59"         \
    "\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"          \
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"                \
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"           \
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"          \
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"                \
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"                            \
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"         \
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
/* Bloom: all but white space and these. */
#define UNSTOPPED " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
/* Kimi K2: letters with case that are not Chinese characters. */
#define FOREIGN(letters) "(?:(?!\\p{Han})" letters ")"
#define HAN "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define PUNCTUATION "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
/* DeepSeek V3. */
#define SYMBOLS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define MARKED                                                                                     \
    SYMBOLS "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                              \
            "?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL

static const text_pre entries[] = {
    {.names = "default",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names =
         "gpt-2 phi-2 mpt olmo jais roberta-bpe jina-es jina-de jina-v2-es jina-v2-de jina-v1-en "
         "jina-v2-code gigachat a.x-4.0 mellum exaone4 trillion granite-docling",
     .patterns = {GPT2_WORDS "|\\s+"}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = {"\\p{N}", GPT2_WORDS "|\\s+"}},
    {.names = "falcon",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2_WORDS "|\\s+", "[0-9][0-9][0-9]"}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {WORDS("\\p{N}{1,3}")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "minicpm5", .patterns = {"\\p{N}{1,3}", WORDS("\\p{N}+")}, .ignore_merges = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {WORDS("\\p{N}{1,3}")}},
    {.names = "glm5", .patterns = {WORDS("\\p{N}{1,3}")}, .ignore_merges = true},
    {.names = "qwen2", .patterns = {WORDS("\\p{N}")}, .nfc = true},
    {.names = "deepseek-r1-qwen stablelm2 kormo megrez f2llmv2 hunyuan solar-open grok-2",
     .patterns = {WORDS("\\p{N}")}},
    {.names = "qwen35",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                               "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL},
     .nfc = true},
    {.names = "tekken", .patterns = {CASED("", "\\p{N}")}, .ignore_merges = true, .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {CASED(CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = {UNSTOPPED}},
    {.names = "viking", .patterns = {UNSTOPPED, "\\p{N}"}},
    {.names = "kimi-k2",
     .patterns = {"\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?" FOREIGN(UPPER) "*" FOREIGN(
         LOWER) "+" CONTRACTIONS
                "?|[^\\r\\n\\p{L}\\p{N}]?" FOREIGN(UPPER) "+" FOREIGN(
                    LOWER) "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL}},
    {.names = "exaone-moe",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "tiny_aya cohere2moe",
     .patterns = {"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", "\\s?[" LATIN "]+", "\\s?[" PUNCTUATION "]+", "\\s+$", HAN,
                  "\\p{N}+"}},
    {.names = "deepseek-coder",
     .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm",
     .patterns = {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", MARKED}},
    {.names = "seed-coder",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}"
                               "| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
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
