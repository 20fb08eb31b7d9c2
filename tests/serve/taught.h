/* tests/serve/taught.h -- a server whose jobs train nothing, and a simulated disk. */
#ifndef TESTS_SERVE_TAUGHT_H
#define TESTS_SERVE_TAUGHT_H

#include "tests/serve/jobs.h"

enum { PATIENCE = 60 }; /* seconds, for actions that need far less */

/* Whether files are written only once the disk is open again, and whether they cannot be written:
 * those of the server, by weft_file_write. */
void disk_set(bool shut, bool broken);
/* Whether files are written, but writing is reported as failed. */
void disk_set_doubtful(bool doubtful);
/* Waits until a file is to be written. */
void disk_await_writer(void);
/* Opens the disk, and checks that nothing has waited for it too long. */
void disk_open(void);

/* The behavior of the next jobs. */
extern struct asked {
    int64_t bytes; /* of memory */
    int updates;   /* that are reported, each after an evaluation and a new checkpoint */
    bool saves;    /* an adapter */
    bool late;     /* it ends well after it was cancelled */
    bool busy;     /* it evaluates until it is cancelled */
    bool shuts;    /* it shuts the disk before the first update */
    int64_t array; /* bytes that it holds then */
} asked;

/* serve_options.teach */
weft_status teach(void *context, const serve_task *task, weft_train_result *result);
/* A server with a state folder, in which clients may also load adapters. */
serve_server *open_server(const char *state, const char *identity);
/* Creates a job and waits until it trains; the caller frees the id. */
char *start_job(int port, const char *more);
/* Trains a job that succeeds; the caller frees the id and the job. */
char *train_model(int port, const char *more, json_object **job);
/* Writes the record of a job, which was created at a time. */
void write_job(const char *state, const char *id, int created, const char *more);
/* Waits until the server has received n more requests since `before`, not counting those of this
 * function. */
void await_requests(int port, double before, int n);

#endif
