/* tests/fuzz/driver.c -- runs a fuzz target without libFuzzer: the files of a corpus, then seeded
 * mutations of them, up to a number of inputs or seconds, whichever comes first.
 *
 *     fuzz_NAME CORPUS [INPUTS [SECONDS [SEED]]]
 *
 * The inputs are the same in every run. Sanitizers report errors of an input; standard error then
 * has the number of the input, and `fuzz_NAME CORPUS =NUMBER` writes it to fuzz-NUMBER.bin. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weft/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
WEFT_API const char *__asan_default_options(void);
WEFT_API const char *__ubsan_default_options(void);

enum { LARGEST = 1 << 16, MOST_FILES = 512, MOST_MUTATIONS = 8 };

typedef struct input {
    size_t size;
    uint8_t *data;
} input;

static input corpus[MOST_FILES];
static size_t corpus_count;
static uint64_t random_state;
static volatile sig_atomic_t current = -1; /* the mutation's number; -n: file n of the corpus */

/* xorshift64*; Vigna 2016. */
static uint64_t random_word(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

static size_t random_below(size_t bound)
{
    return bound ? (size_t)(random_word() % bound) : 0;
}

/* An unusual value in any number of bytes, little-endian. */
static uint64_t random_extreme(void)
{
    static const uint64_t extremes[] = {
        0,          1,          0x7f,       0x80,        0xff,
        0x7fff,     0xffff,     0x7fffffff, 0x80000000u, 0xffffffffu,
        UINT64_MAX, INT64_MAX,  1ull << 32, 1ull << 63,  UINT64_MAX - 7,
        100,        1ull << 40, 0x22,       0x7b,        0x5d,
    };
    return extremes[random_below(sizeof extremes / sizeof *extremes)];
}

static void erase(uint8_t *data, size_t *size)
{
    size_t start = random_below(*size), count = 1 + random_below(*size - start);
    memmove(data + start, data + start + count, *size - start - count);
    *size -= count;
}

/* Opens a gap and fills it from any corpus file. */
static void splice(uint8_t *data, size_t *size)
{
    const input *from = &corpus[random_below(corpus_count)];
    size_t start = random_below(from->size), count = random_below(from->size - start + 1);
    size_t to = random_below(*size + 1);
    if (count > LARGEST - *size) {
        count = LARGEST - *size;
    }
    memmove(data + to + count, data + to, *size - to);
    memcpy(data + to, from->data + start, count);
    *size += count;
}

static void mutate(uint8_t *data, size_t *size)
{
    if (*size == 0) {
        splice(data, size);
        return;
    }
    size_t at = random_below(*size);
    uint64_t extreme = random_extreme();
    size_t width = (size_t)1 << random_below(4);
    switch (random_below(6)) {
    case 0:
        data[at] ^= (uint8_t)(1u << random_below(8));
        break;
    case 1:
        data[at] = (uint8_t)random_word();
        break;
    case 2:
        memcpy(data + at, &extreme, width < *size - at ? width : *size - at);
        break;
    case 3:
        erase(data, size);
        break;
    case 4:
        *size = at;
        break;
    default:
        splice(data, size);
    }
}

/* The bytes go to the target in a block of exactly their size, so that reading past it is seen. */
static void try_input(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) {
        perror("fuzz");
        exit(EXIT_FAILURE);
    }
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static bool read_file(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(LARGEST);
    bool read = false;
    if (file && data) {
        size_t size = fread(data, 1, LARGEST, file);
        if (!ferror(file)) {
            corpus[corpus_count++] = (input){size, data};
            data = NULL;
            read = true;
        }
    }
    if (!read) {
        perror(path);
    }
    if (file) {
        fclose(file);
    }
    free(data);
    return read;
}

/* In the order of their names: the folder's own order differs between machines. */
static bool read_corpus(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0) {
        perror(folder);
        return false;
    }
    bool read = true;
    for (int i = 0; i < count; i++) {
        if (read && entries[i]->d_name[0] != '.' && corpus_count < MOST_FILES) {
            read = read_file(folder, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    if (read && corpus_count == 0) {
        fprintf(stderr, "%s: no files\n", folder);
    }
    return read && corpus_count > 0;
}

/* Each input has a seed of its own, so that any one can be made again alone. */
static size_t make_input(uint8_t *data, size_t number, uint64_t seed)
{
    random_state = (seed + number) * 0x9e3779b97f4a7c15ull | 1u;
    const input *from = &corpus[random_below(corpus_count)];
    size_t size = from->size;
    memcpy(data, from->data, size);
    for (size_t left = 1 + random_below(MOST_MUTATIONS); left > 0; left--) {
        mutate(data, &size);
    }
    return size;
}

static void name_input(int signal_number)
{
    char text[64], digits[16];
    bool mutated = current >= 0;
    strcpy(text, mutated ? "fuzz: input =" : "fuzz: file number ");
    size_t length = strlen(text), count = 0;
    for (long value = mutated ? current : -current; value > 0 || count == 0; value /= 10) {
        digits[count++] = (char)('0' + value % 10);
    }
    while (count > 0) {
        text[length++] = digits[--count];
    }
    text[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* The options of the sanitizers: a finding ends in SIGABRT, so that name_input names the input. */
const char *__asan_default_options(void)
{
    return "abort_on_error=1";
}

const char *__ubsan_default_options(void)
{
    return "abort_on_error=1";
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int save_input(const uint8_t *data, size_t size, size_t number)
{
    char path[64];
    snprintf(path, sizeof path, "fuzz-%zu.bin", number);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(data, 1, size, file) == size;
    if (!file || fclose(file) != 0 || !written) {
        perror(path);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static size_t run_all(uint8_t *data, size_t inputs, double seconds, uint64_t seed)
{
    for (size_t i = 0; i < corpus_count; i++) {
        current = -(sig_atomic_t)i - 1;
        try_input(corpus[i].data, corpus[i].size);
    }
    double end = now() + seconds;
    size_t number = 0;
    while (number < inputs && now() < end) {
        current = (sig_atomic_t)number;
        try_input(data, make_input(data, number, seed));
        number++;
    }
    return number;
}

int main(int argc, char **argv)
{
    static uint8_t data[LARGEST];
    if (argc < 2 || !read_corpus(argv[1])) {
        fprintf(stderr, "usage: %s CORPUS [INPUTS [SECONDS [SEED]]] | CORPUS =NUMBER\n", argv[0]);
        return EXIT_FAILURE;
    }
    uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    int status = EXIT_SUCCESS;
    if (argc > 2 && argv[2][0] == '=') {
        size_t number = strtoul(argv[2] + 1, NULL, 10);
        status = save_input(data, make_input(data, number, seed), number);
    } else {
        signal(SIGABRT, name_input);
        size_t inputs = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
        double seconds = argc > 3 ? strtod(argv[3], NULL) : 5;
        printf("%zu files, %zu mutations\n", corpus_count, run_all(data, inputs, seconds, seed));
    }
    for (size_t i = 0; i < corpus_count; i++) {
        free(corpus[i].data);
    }
    return status;
}
