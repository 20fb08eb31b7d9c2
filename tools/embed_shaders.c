/* tools/embed_shaders.c -- turns compiled shaders into C.
 *
 *   embed_shaders header NAME...            declares weft__shader_NAME and weft__shaders_digest
 *   embed_shaders source NAME FILE...       defines them; the digest is that of all words
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *file, const char *what)
{
    fprintf(stderr, "embed_shaders: %s: %s\n", file, what);
    return 1;
}

static uint64_t digest = UINT64_C(0xcbf29ce484222325);

static int define(const char *name, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return fail(path, "cannot be opened");
    }
    uint32_t word;
    int n = 0;
    printf("static const uint32_t words_%s[] = {", name);
    while (fread(&word, sizeof word, 1, file) == 1) {
        if (n == 0 && word != 0x07230203) {
            fclose(file);
            return fail(path, "no SPIR-V");
        }
        digest = (digest ^ word) * UINT64_C(0x100000001b3);
        printf("%s0x%x,", n % 12 ? " " : "\n    ", (unsigned)word);
        n++;
    }
    fclose(file);
    printf("\n};\nconst weft__vulkan_shader weft__shader_%s = {\n", name);
    printf("    \"%s\", words_%s, %d,\n};\n\n", name, name, n);
    return n > 0 ? 0 : fail(path, "empty");
}

int main(int argc, char **argv)
{
    printf("/* Made by the build. */\n#include \"backends/vulkan/dispatch.h\"\n\n");
    if (argc >= 2 && strcmp(argv[1], "header") == 0) {
        for (int i = 2; i < argc; i++) {
            printf("extern const weft__vulkan_shader weft__shader_%s;\n", argv[i]);
        }
        printf("extern const uint64_t weft__shaders_digest;\n");
        return 0;
    }
    int failed = argc >= 2 && strcmp(argv[1], "source") == 0 ? 0 : fail("", "header or source");
    printf("#include \"shaders.h\"\n\n");
    for (int i = 2; i + 1 < argc && !failed; i += 2) {
        failed = define(argv[i], argv[i + 1]);
    }
    printf("const uint64_t weft__shaders_digest = UINT64_C(0x%llx);\n", (unsigned long long)digest);
    return failed;
}
