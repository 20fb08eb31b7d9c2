/* tests/cli/command.c -- runs build/cli/weft and checks its output. */
#include "tests/cli/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/check.h"
#include "weft/io.h"
#include "weft/memory.h"

const char *text_file(const char *name, const char *text)
{
    const char *path = check_temporary(name);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    return path;
}

static void read_into(char **text, const char *path)
{
    weft_free(*text);
    *text = NULL;
    if (!CHECK_OK(weft_file_read(path, 0, text, NULL)))
        *text = weft_strdup("");
}

static output run(const char *input, const char *command)
{
    static output o;
    static char line[8192], in[1024], out[1024], err[1024];
    snprintf(in, sizeof in, "%s", input != NULL ? text_file("stdin", input) : "/dev/null");
    snprintf(out, sizeof out, "%s", check_temporary("stdout"));
    snprintf(err, sizeof err, "%s", check_temporary("stderr"));
    snprintf(line, sizeof line, "{ %s; } <%s >%s 2>%s", command, in, out, err);
    int status = system(line);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_into(&o.out, out);
    read_into(&o.err, err);
    return o;
}

output shell_command(const char *input, const char *format, ...)
{
    static char command[6000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return run(input, command);
}

output weft_command(const char *input, const char *format, ...)
{
    static char command[6000];
    va_list arguments;
    va_start(arguments, format);
    int n = snprintf(command, sizeof command, "%s ", check_built("cli/weft"));
    vsnprintf(command + n, sizeof command - (size_t)n, format, arguments);
    va_end(arguments);
    return run(input, command);
}

void check_one_line(const output *o, int code)
{
    CHECK_EQ_INT(o->code, code);
    CHECK(strncmp(o->err, "weft: ", 6) == 0);
    const char *end = strchr(o->err, '\n');
    if (!CHECK(end != NULL && end[1] == '\0'))
        CHECK_FAIL("%s", o->err);
}

const char *model(void)
{
    return check_source("examples/storyteller");
}

const char *story_file(void)
{
    static char text[9000];
    text[0] = '\0';
    for (int i = 0; strlen(text) < 8000; i++)
        snprintf(text + strlen(text), 60, "Line %d of a long story. ", i);
    return text_file("story.txt", text);
}

const char *storyteller_adapter(const char *options)
{
    static char path[600];
    if (*path == '\0') {
        const char *data =
            text_file("rows.txt", "The old machine said hello to the new machine.\n");
        snprintf(path, sizeof path, "%s/last", check_temporary("run"));
        CHECK_EQ_INT(weft_command(NULL, "train %s --data %s --length 32 %s --out %s",
                                  check_source("examples/storyteller"), data, options,
                                  check_temporary("run"))
                         .code,
                     0);
    }
    return path;
}
