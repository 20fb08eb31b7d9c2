/* tests/io/test_fileio.c -- files appear whole or not at all. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/io.h"

static void what_is_written_is_read(void)
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
static void a_failure_leaves_what_was_there(void)
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

CHECK_MAIN("fileio", CHECK_CASE(what_is_written_is_read),
           CHECK_CASE(a_large_file_is_read_in_pieces_and_limits_hold),
           CHECK_CASE(a_failure_leaves_what_was_there),
           CHECK_CASE(folders_are_made_as_deep_as_asked))
