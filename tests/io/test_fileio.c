/* tests/io/test_fileio.c -- atomic file writes: a file appears complete or not at all. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/io/kind.h"
#include "tests/check.h"
#include "tests/support/changing.h"
#include "weft/tool/run.h"
#include "weft/weft.h"

static void written_data_is_read_back(void)
{
    const char *path = check_temporary("file");
    char *text;
    size_t size;
    CHECK_OK(weft_file_write(path, "one\0two", 7));
    if (CHECK_OK(weft_file_read(path, 0, &text, &size))) {
        CHECK_EQ_INT(size, 7);
        CHECK_BYTES(text, "one\0two", 8);
        weft_free(text);
    }
    CHECK_OK(weft_file_write(path, "", 0));
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
        CHECK_STR(text, "");
        weft_free(text);
    }
    CHECK_STATUS(weft_file_read(check_temporary("absent"), 0, &text, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "absent: open: ");
    CHECK(text == NULL);
}

static void a_large_file_is_read_in_pieces_and_limits_hold(void)
{
    const size_t size = 300001;
    const char *path = check_temporary("large");
    char *data = malloc(size), *back;
    if (!CHECK(data != NULL))
        return;
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7);
    CHECK_OK(weft_file_write(path, data, size));
    size_t found;
    if (CHECK_OK(weft_file_read(path, size, &back, &found))) {
        CHECK_EQ_INT(found, size);
        CHECK_BYTES(back, data, size);
        weft_free(back);
    }
    CHECK_STATUS(weft_file_read(path, size - 1, &back, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "large: more than 300000 bytes");
    free(data);
}

/* A file that is read while another process truncates it is whole, or an error names it. */
static void truncation_while_reading_is_an_error(void)
{
    const size_t size = 1 << 20; /* so small that it is rarely written to the disk */
    const char *path = check_temporary("changing");
    char *data = calloc(1, size);
    if (!CHECK(data != NULL) || !CHECK_OK(weft_file_write(path, data, size)))
        return;
    const pid_t child = changing_start(path, data, size);
    const time_t end = time(NULL) + 60; /* reads of an empty file are fast while the child waits */
    int errors = 0;
    while (errors < 3 && time(NULL) < end) {
        char *found;
        const weft_status status = weft_file_read(path, 0, &found, NULL);
        weft_free(found);
        if (status == WEFT_OK)
            continue;
        errors++;
        CHECK(status == WEFT_IO);
        CHECK_CONTAINS(weft_error_message(), "changing: truncated while it was read: expected ");
    }
    CHECK(errors > 0);
    changing_end(child);
    free(data);
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        n += *e->d_name != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* A limit on the size of files refuses a write halfway, as a full disk does. */
static void a_failed_write_keeps_the_old_file(void)
{
    static const char zeros[100000];
    const char *folder = check_temporary("limited");
    const char *path = check_temporary("limited/file");
    struct rlimit before, limit;
    char *text;
    CHECK_OK(weft_folder_make(folder));
    CHECK_OK(weft_file_write(path, "old", 3));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_STATUS(weft_file_write(path, zeros, sizeof zeros), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "limited/file: write: File too large");
    weft_scope_open();
    const char *name = "a";
    weft_array *a = weft_from_data(zeros, WEFT_UINT8, WEFT_DIMS(sizeof zeros));
    CHECK_STATUS(weft_safetensors_save(path, &name, &a, 1, NULL, 0), WEFT_IO);
    weft_scope_close(NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_EQ_INT(entries(folder), 1);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
        CHECK_STR(text, "old");
        weft_free(text);
    }
}

static void folders_are_made_as_deep_as_asked(void)
{
    struct stat info;
    const char *path = check_temporary("deep/er/and/deeper");
    CHECK_OK(weft_folder_make(path));
    CHECK_OK(weft_folder_make(path));
    CHECK(stat(path, &info) == 0 && S_ISDIR(info.st_mode));
    CHECK_OK(weft_file_write(check_temporary("deep/file"), "x", 1));
    CHECK_STATUS(weft_folder_make(check_temporary("deep/file/below")), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "deep/file: make folder: Not a directory");
}

/* ---- FIFOs, devices and pipes --------------------------------------------------------------- */

static weft_status read_text(const char *path)
{
    char *text;
    const weft_status status = weft_file_read(path, 0, &text, NULL);
    weft_free(text);
    return status;
}

static weft_status write_text(const char *path)
{
    return weft_file_write(path, "x", 1);
}

static weft_status open_safetensors(const char *path)
{
    weft_safetensors *file;
    const weft_status status = weft_safetensors_open(path, &file);
    weft_safetensors_close(file);
    return status;
}

static weft_status open_gguf(const char *path)
{
    weft_gguf *file;
    const weft_status status = weft_gguf_open(path, &file);
    weft_gguf_close(file);
    return status;
}

static weft_status load_npy(const char *path)
{
    weft_array *a;
    const weft_status status = weft_npy_load(path, &a);
    if (status == WEFT_OK)
        weft_drop(a);
    return status;
}

static weft_status load_npz(const char *path)
{
    weft_named_arrays all;
    const weft_status status = weft_npz_load(path, &all);
    weft_named_arrays_free(&all);
    return status;
}

static weft_status load_hdf5(const char *path)
{
    weft_named_arrays all;
    const weft_status status = weft_hdf5_load(path, &all);
    weft_named_arrays_free(&all);
    return status;
}

static weft_status load_config(const char *path)
{
    weft_config *config;
    const weft_status status = weft_config_load(path, &config);
    weft_config_free(config);
    return status;
}

static weft_status load_config_of(const char *folder)
{
    char path[700];
    snprintf(path, sizeof path, "%s/config.json", folder);
    return load_config(path);
}

static weft_status load_tokenizer(const char *path)
{
    weft_tokenizer *tokenizer;
    const weft_status status = weft_tokenizer_load(path, &tokenizer);
    weft_tokenizer_free(tokenizer);
    return status;
}

static weft_status load_chat(const char *folder)
{
    weft_chat *chat;
    const weft_status status = weft_chat_load(folder, &chat);
    weft_chat_free(chat);
    return status;
}

/* Everything that writes to a path given by the user. */
static weft_status save(const char *path, int how)
{
    static const char *const name = "x";
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32);
    const weft_curve curve = {.name = name, .x = (double[]){0, 1}, .y = (double[]){0, 1}, .n = 2};
    weft_exporter *exporter = NULL;
    weft_status status = WEFT_OK;
    switch (how) {
    case 0:
        status = weft_safetensors_save(path, &name, &x, 1, NULL, 0);
        break;
    case 1:
        status = weft_npy_save(path, x);
        break;
    case 2:
        status = weft_npz_save(path, &name, &x, 1, false);
        break;
    case 3:
        status = weft_hdf5_save(path, &name, &x, 1);
        break;
    case 4:
        status = weft_gguf_save(path, &name, &x, 1, NULL, 0);
        break;
    case 5:
        status = weft_graph_dot(&x, 1, path, NULL);
        break;
    case 6:
        status = weft_curves_save(path, name, name, &curve, 1);
        break;
    case 7:
        CHECK_OK(weft_exporter_new(&exporter));
        status = weft_exporter_save(exporter, path);
        weft_exporter_free(exporter);
        break;
    default:
        status = weft_file_write(path, "x", 1);
        break;
    }
    weft_scope_close(NULL);
    return status;
}

enum { WAYS = 9 };

/* The FIFO has no reader, and data written into a device is lost. */
static void nothing_is_written_into_fifos_and_devices(void)
{
    char fifo[600];
    snprintf(fifo, sizeof fifo, "%s", check_temporary("sink"));
    if (!CHECK(mkfifo(fifo, 0600) == 0))
        return;
    const char *const paths[] = {fifo, "/dev/null", "/dev/full"};
    alarm(60);
    for (int how = 0; how < WAYS; how++) {
        for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
            const weft_status status = save(paths[k], how);
            if (status == WEFT_UNSUPPORTED && (how == 2 || how == 3))
                continue; /* a build without libzip or HDF5 */
            CHECK_EQ_INT(status, WEFT_IO);
            CHECK_CONTAINS(weft_error_message(), paths[k]);
            CHECK_CONTAINS(weft_error_message(), ": not a regular file");
        }
        const weft_status status = save(check_temporary("regular"), how);
        if (status != WEFT_UNSUPPORTED || (how != 2 && how != 3))
            CHECK_OK(status);
    }
    struct stat info;
    CHECK(stat(fifo, &info) == 0 && S_ISFIFO(info.st_mode));
    alarm(0);
}

/* A FIFO without a writer, an endless device and an empty one. An alarm ends a reader that
 * waits. */
static void fifos_and_devices_are_refused(void)
{
    static weft_status (*const all[])(const char *) = {read_text, write_text,  open_safetensors,
                                                       open_gguf, load_npy,    load_npz,
                                                       load_hdf5, load_config, load_tokenizer};
    char fifo[600];
    snprintf(fifo, sizeof fifo, "%s", check_temporary("fifo"));
    if (!CHECK(mkfifo(fifo, 0600) == 0))
        return;
    const char *const paths[] = {fifo, "/dev/zero", "/dev/null"};
    alarm(60);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
            const weft_status status = all[i](paths[k]);
            if (status == WEFT_UNSUPPORTED && (all[i] == load_npz || all[i] == load_hdf5))
                continue; /* a build without libzip or HDF5 */
            CHECK_EQ_INT(status, WEFT_IO);
            CHECK_CONTAINS(weft_error_message(), paths[k]);
            CHECK_CONTAINS(weft_error_message(), ": not a regular file");
        }
    }
    struct stat info;
    CHECK(stat(fifo, &info) == 0 && S_ISFIFO(info.st_mode));
    alarm(0);
}

/* Folders whose files are FIFOs. */
static void fifos_in_folders_are_refused(void)
{
    static const struct {
        const char *file;
        weft_status (*load)(const char *);
    } all[] = {{"config.json", load_config_of},
               {"tokenizer.json", load_tokenizer},
               {"chat_template.jinja", load_chat},
               {"tokenizer_config.json", load_chat}};
    alarm(60);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char folder[600], path[700];
        snprintf(folder, sizeof folder, "%s-%zu", check_temporary("model"), i);
        snprintf(path, sizeof path, "%s/%s", folder, all[i].file);
        CHECK_OK(weft_folder_make(folder));
        if (!CHECK(mkfifo(path, 0600) == 0))
            return;
        CHECK_STATUS(all[i].load(folder), WEFT_IO);
        CHECK_CONTAINS(weft_error_message(), path);
        CHECK_CONTAINS(weft_error_message(), ": not a regular file");
    }
    alarm(0);
}

/* A pipe of the process is read to its end, however late that comes. */
static void pipes_of_the_process_are_read(void)
{
    int ends[2];
    char name[64], *text;
    if (!CHECK(pipe(ends) == 0))
        return;
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        usleep(50000);
        _exit(write(ends[1], "late", 4) != 4);
    }
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    if (CHECK_OK(weft_file_read(name, 0, &text, NULL))) {
        CHECK_STR(text, "late");
        weft_free(text);
    }
    CHECK_STATUS(open_safetensors(name), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), ": not a regular file");
    close(ends[0]);
    waitpid(child, NULL, 0);
}

/* Leftovers of killed writers do not block a write and are deleted, also those with this process's
 * id; files that a process has open, and other files, stay. */
static void leftovers_do_not_block(void)
{
    char path[600], name[700], folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("left"));
    snprintf(path, sizeof path, "%s/x", folder);
    CHECK_OK(weft_folder_make(folder));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "%s.part-%ld-%d", path, (long)getpid(), i);
        FILE *file = fopen(name, "w");
        if (CHECK(file != NULL))
            fclose(file);
    }
    static const char *const others[] = {"x.part-7", "x.part-7-of-9", "xy.part-7-1", "x.party-1-1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, others[i]);
        CHECK_OK(weft_file_write(name, "other", 5));
    }
    snprintf(name, sizeof name, "%s.part-7-1", path);
    const int held = open(name, O_WRONLY | O_CREAT, 0666);
    CHECK(held >= 0 && flock(held, LOCK_EX) == 0);
    CHECK_OK(weft_file_write(path, "new", 3));
    CHECK(access(name, F_OK) == 0);
    close(held);
    DIR *dir = opendir(folder);
    int n = 0;
    while (dir && readdir(dir) != NULL)
        n++;
    CHECK_EQ_INT(n, 2 + 1 + 1 + 4); /* ".", "..", x, the one that was held, the others */
    CHECK_OK(weft_file_write(path, "newer", 5));
    CHECK(access(name, F_OK) != 0);
    if (dir)
        closedir(dir);
}

/* A user's file that mentions a marker is not a file of that kind. */
static void files_are_recognized_by_their_beginning(void)
{
    static const struct {
        const char *marker, *text;
        bool expected;
    } cases[] = {
        {"[{\"role\":", "[\n  {\n    \"role\": \"user\"}]", true},
        {"[{\"role\":", "{\"messages\": [{\"role\": \"user\"}]}", false},
        {"[{\"role\":", "# Rows such as [{\"role\": \"user\"}]", false},
        {"[{\"role\":", "[]\n", true},
        {"[{\"role\":", "[{\"role", false},
        {"[{\"role\":", "{}\n", false},
        {"{\"model\":", "[]\n", false},
        {"{\"model\":", "", true},
        {"\"weft.kind\"", "\x30.......{\"__metadata__\":{\"weft.kind\":\"keys\"}}", true},
        {"\"weft.kind\"", "{\"text\": \"about \\\"weft.kind\\\" and \"weft.kind\"}", false},
        {"<title>A", "<!doctype html><title>A</title>", true},
        {"<title>A", "<!doctype html><title>B</title>", false},
    };
    const char *path = check_temporary("kind");
    CHECK(weft__file_is_kind(path, "[{"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(weft_file_write(path, cases[i].text, strlen(cases[i].text)));
        if (weft__file_is_kind(path, cases[i].marker) != cases[i].expected)
            CHECK_FAIL("%s in %s", cases[i].marker, cases[i].text);
    }
    CHECK(weft__file_is_kind("/dev/null", "[{"));
}

CHECK_MAIN("fileio", CHECK_CASE(files_are_recognized_by_their_beginning),
           CHECK_CASE(leftovers_do_not_block), CHECK_CASE(written_data_is_read_back),
           CHECK_CASE(a_large_file_is_read_in_pieces_and_limits_hold),
           CHECK_CASE(truncation_while_reading_is_an_error),
           CHECK_CASE(a_failed_write_keeps_the_old_file),
           CHECK_CASE(folders_are_made_as_deep_as_asked), CHECK_CASE(fifos_and_devices_are_refused),
           CHECK_CASE(nothing_is_written_into_fifos_and_devices),
           CHECK_CASE(fifos_in_folders_are_refused), CHECK_CASE(pipes_of_the_process_are_read))
