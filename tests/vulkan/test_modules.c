/* tests/vulkan/test_modules.c -- declarations about floats in shader modules: arithmetic that must
 * not be contracted, and float modes. */
#include <stdio.h>
#include <stdlib.h>

#include "backends/vulkan/shaders.h"
#include "backends/vulkan/spirv/float_modes.h"
#include "backends/vulkan/spirv/opcodes.h"
#include "tests/check.h"

enum { F_ADD = 129, F_SUB = 131, F_MUL = 133, F_DIV = 136, NO_CONTRACTION = 42 };

typedef bool is_of_interest(uint32_t opcode);

static bool any_arithmetic(uint32_t opcode)
{
    return opcode == F_ADD || opcode == F_SUB || opcode == F_MUL || opcode == F_DIV;
}

static bool differences(uint32_t opcode)
{
    return opcode == F_SUB;
}

/* Instructions of interest, and how many of them may be contracted or reordered. */
static void count(const weft__vulkan_shader *s, is_of_interest *wanted, int *all, int *loose)
{
    bool *exact = calloc(s->words[SPIRV_BOUND], sizeof *exact);
    *all = *loose = 0;
    for (size_t at = SPIRV_HEADER_WORDS; at < s->n_words; at += s->words[at] >> 16) {
        uint32_t opcode = s->words[at] & 0xffffu;
        if (opcode == SPIRV_OP_DECORATE && s->words[at + 2] == NO_CONTRACTION) {
            exact[s->words[at + 1]] = true;
        } else if (wanted(opcode)) {
            *all += 1;
            *loose += !exact[s->words[at + 2]];
        }
    }
    free(exact);
}

static void the_library_is_exact_throughout(void)
{
    int all, loose;
    count(&weft__shader_library, any_arithmetic, &all, &loose);
    CHECK(all > 700);
    CHECK_EQ_INT(loose, 0);
}

/* The differences are those of error terms and of range reduction. */
static void error_terms_stay_exact(void)
{
    static const weft__vulkan_shader *const shaders[] = {
        &weft__shader_cumsum,      &weft__shader_reduce_sum,        &weft__shader_scan_product,
        &weft__shader_scatter_sum, &weft__shader_scatter_sum_bytes, &weft__shader_rope};
    for (size_t i = 0; i < sizeof shaders / sizeof *shaders; i++) {
        int all, loose;
        count(shaders[i], differences, &all, &loose);
        const int own = shaders[i] == &weft__shader_rope; /* of the rotation */
        check_that(all > 3 && loose <= own, __FILE__, __LINE__, "%s: %d of %d may be contracted",
                   shaders[i]->name, loose, all);
    }
}

/* Execution modes of the module by width, as bits of SPIRV_DENORMS32 and so on. */
static uint32_t declared(const spirv_words *w, uint32_t width)
{
    uint32_t modes = 0;
    for (size_t at = SPIRV_HEADER_WORDS; at < w->n; at += w->at[at] >> 16) {
        if ((w->at[at] & 0xffffu) == SPIRV_OP_EXECUTION_MODE && w->at[at] >> 16 == 4 &&
            w->at[at + 3] == width) {
            uint32_t mode = w->at[at + 2];
            modes |= mode == SPIRV_MODE_DENORM_PRESERVE ? SPIRV_DENORMS32 : 0;
            modes |= mode == SPIRV_MODE_NAN_PRESERVE ? SPIRV_SPECIALS32 : 0;
            modes |= mode == SPIRV_MODE_ROUND_TO_EVEN ? SPIRV_EVEN32 : 0;
        }
    }
    return modes;
}

static void validate(const spirv_words *w, const char *label)
{
    const char *path = check_temporary("module.spv");
    FILE *file = fopen(path, "wb");
    if (CHECK(file != NULL)) {
        CHECK_EQ_INT(fwrite(w->at, 4, w->n, file), w->n);
        fclose(file);
        char command[1024];
        snprintf(command, sizeof command, "spirv-val --target-env vulkan1.2 %s", path);
        bool has_validator = system("spirv-val --version >/dev/null 2>&1") == 0;
        check_that(!has_validator || system(command) == 0, __FILE__, __LINE__, "%s: not valid",
                   label);
    }
}

static void modes_are_declared_once(void)
{
    static const weft__vulkan_shader *const shaders[] = {&weft__shader_matmul,
                                                         &weft__shader_softmax_f64};
    for (int i = 0; i < 2; i++) {
        spirv_words once = {0}, twice = {0}, old = {0};
        weft__spirv_set_float_modes(shaders[i]->words, shaders[i]->n_words, 0x1ff, &once);
        /* products have no precise arithmetic: they do not declare round to nearest */
        CHECK_EQ_INT(declared(&once, 32), i == 1 ? 7 : 3);
        CHECK_EQ_INT(declared(&once, 64), i == 1 ? 7 : 0);
        CHECK_EQ_INT(declared(&once, 16), i == 1 ? 7 : 0);
        validate(&once, shaders[i]->name);
        weft__spirv_set_float_modes(once.at, once.n, 0x1ff, &twice);
        CHECK_EQ_INT(twice.n, once.n);
        spirv_add(&old, shaders[i]->words, shaders[i]->n_words);
        old.at[1] = 0x10300;
        size_t n = old.n;
        spirv_words same = {0};
        weft__spirv_set_float_modes(old.at, n, 0x1ff, &same);
        CHECK_EQ_INT(same.n, n);
        weft_free(once.at);
        weft_free(twice.at);
        weft_free(old.at);
        weft_free(same.at);
    }
}

static void modes_are_limited_to_those_of_the_device(void)
{
    VkPhysicalDeviceFloatControlsProperties p = {
        .denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL,
        .roundingModeIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE,
        .shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE,
        .shaderDenormPreserveFloat32 = VK_TRUE,
        .shaderDenormPreserveFloat64 = VK_TRUE,
        .shaderRoundingModeRTEFloat32 = VK_TRUE,
        .shaderRoundingModeRTEFloat64 = VK_TRUE,
    };
    CHECK_EQ_INT(weft__spirv_float_modes(&p, true), 013);
    CHECK_EQ_INT(weft__spirv_float_modes(&p, false), 012);
    /* Double must then have the mode of half: both or neither. */
    p.roundingModeIndependence = p.denormBehaviorIndependence =
        VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
    CHECK_EQ_INT(weft__spirv_float_modes(&p, true), 007);
    p.shaderDenormPreserveFloat16 = VK_TRUE;
    CHECK_EQ_INT(weft__spirv_float_modes(&p, true), 0117);
    p.shaderRoundingModeRTEFloat16 = VK_TRUE;
    CHECK_EQ_INT(weft__spirv_float_modes(&p, true), 0557);
}

CHECK_MAIN("vulkan_modules", CHECK_CASE(the_library_is_exact_throughout),
           CHECK_CASE(error_terms_stay_exact), CHECK_CASE(modes_are_declared_once),
           CHECK_CASE(modes_are_limited_to_those_of_the_device))
