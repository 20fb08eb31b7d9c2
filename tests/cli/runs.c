/* tests/cli/runs.c -- reads the results of `weft train` runs: curves, files, and the same run on
 * two devices. */
#include "tests/cli/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"

static double number_in(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtod(at + strlen(key), NULL) : NAN;
}

curve read_curve(const char *folder)
{
    char path[600], *text = NULL;
    curve c = {0};
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    if (!CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        return c;
    for (char *line = strtok(text, "\n"); line && c.n < 32; line = strtok(NULL, "\n")) {
        if (strstr(line, "\"loss\": ") == NULL && strstr(line, "\"validation_") == NULL)
            continue; /* the loss of the general text at the start */
        c.loss[c.n] = number_in(line, "\"loss\": ");
        c.norm[c.n] = number_in(line, "\"grad_norm\": ");
        c.validation[c.n++] = number_in(line, "\"validation_loss\": ");
    }
    weft_free(text);
    return c;
}

double off(double a, double b)
{
    return isnan(a) && isnan(b) ? 0 : isnan(a) || isnan(b) ? INFINITY : fabs(a - b) / fabs(b);
}

void check_in_file(const char *folder, const char *name, const char *part)
{
    char path[700], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        CHECK_CONTAINS(text, part);
    weft_free(text);
}

void check_devices_agree(const char *options)
{
    static const char *const devices[] = {"cpu", "vulkan"};
    curve curves[2];
    if (weft_command(NULL, "info --device vulkan").code != 0) {
        check_skip("there is no Vulkan device");
        return;
    }
    for (int i = 0; i < 2; i++) {
        const char *out = check_temporary(devices[i]);
        const output o =
            weft_command(NULL,
                         "train %s %s --steps 5 --dtype float32 --device %s "
                         "--overwrite --out %s",
                         check_source("examples/storyteller"), options, devices[i], out);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        curves[i] = read_curve(out);
    }
    const curve *a = &curves[0], *b = &curves[1];
    CHECK_EQ_INT(b->n, a->n);
    CHECK(a->n >= 5);
    double loss = 0, norm = 0;
    for (int s = 0; s < a->n && s < b->n; s++) {
        loss = fmax(loss, off(b->loss[s], a->loss[s]));
        norm = fmax(norm, off(b->norm[s], a->norm[s]));
    }
    printf("  vulkan: worst loss %.2g, norm %.2g (relative)\n", loss, norm);
    CHECK(loss <= 5e-6); /* sums in another order */
    CHECK(norm <= 5e-5);
}
