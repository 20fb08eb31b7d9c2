/* train/run/build.c -- describes the program and the machine. */
#include "train/run/build.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "weft/version.h"

enum { LONGEST_ID = 64 };

typedef struct search {
    char text[2 * LONGEST_ID + 1]; /* "": not found */
} search;

/* Reads the build id among the notes of a segment. */
static void read_notes(const char *at, size_t size, search *s)
{
    const char *end = at + size;
    ElfW(Nhdr) note;
    while ((size_t)(end - at) > sizeof note) {
        memcpy(&note, at, sizeof note);
        const char *name = at + sizeof note;
        const size_t name_size = (note.n_namesz + 3u) / 4 * 4, id_size = note.n_descsz;
        if (name_size + (id_size + 3) / 4 * 4 > (size_t)(end - name))
            return;
        const unsigned char *id = (const unsigned char *)name + name_size;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
            for (size_t i = 0; i < id_size && i < LONGEST_ID; i++)
                snprintf(s->text + 2 * i, 3, "%02x", id[i]);
            return;
        }
        at = name + name_size + (id_size + 3) / 4 * 4;
    }
}

/* Finds the object (the shared library, or a program that contains it) with this code. */
static int look(struct dl_phdr_info *object, size_t size, void *context)
{
    static const char inside;
    const uintptr_t own = (uintptr_t)&inside;
    bool found = false;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const uintptr_t from = object->dlpi_addr + p->p_vaddr;
        found = found || (p->p_type == PT_LOAD && own >= from && own < from + p->p_memsz);
    }
    for (int i = 0; found && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const uintptr_t from = object->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_NOTE)
            read_notes((const char *)from, p->p_memsz, context);
    }
    return found;
}

/* The value of a line "key : value" of /proc/cpuinfo, or "". */
static void read_processor(char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    out[0] = '\0';
    while (file && out[0] == '\0' && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && value)
            snprintf(out, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    }
    if (file)
        fclose(file);
}

static void write_text(weft__text *t, const char *key, const char *value)
{
    weft__text_format(t, "\"%s\": ", key);
    weft__text_quote(t, value);
    weft__text_format(t, ", ");
}

void weft__build_write(weft__text *t, const weft_device *device)
{
    search id = {.text = ""};
    struct utsname machine = {.machine = ""};
    char processor[256];
    (void)dl_iterate_phdr(look, &id);
    (void)uname(&machine);
    read_processor(processor, sizeof processor);
    weft__text_format(t, "\"build\": {");
    write_text(t, "weft", WEFT_VERSION);
    write_text(t, "id", id.text);
    write_text(t, "compiler", __VERSION__);
    write_text(t, "architecture", machine.machine);
    write_text(t, "processor", processor);
    write_text(t, "device", weft_device_name(device));
    weft__text_format(t, "\"description\": ");
    weft__text_quote(t, weft_device_description(device));
    weft__text_format(t, "}, ");
}
