/* tests/cli/runs.h -- reads the results of `weft train` runs. */
#ifndef TESTS_CLI_RUNS_H
#define TESTS_CLI_RUNS_H

/* The lines of metrics.jsonl; NaN: a line lacks the number. */
typedef struct curve {
    int n;
    double loss[32], norm[32], validation[32];
} curve;

curve read_curve(const char *folder);

/* The relative difference of two numbers; 0 if both are NaN. */
double off(double a, double b);

/* Checks that a file of the folder contains a text. */
void check_in_file(const char *folder, const char *name, const char *part);

/* Trains the storyteller with these options on the CPU and on the first Vulkan device, and checks
 * that losses and norms agree. Skips the case where there is no such device. */
void check_devices_agree(const char *options);

#endif
