/* tests/serve/jobs.h -- files and fine-tuning jobs of a server: requests of the tests. */
#ifndef TESTS_SERVE_JOBS_H
#define TESTS_SERVE_JOBS_H

#include "tests/serve/client.h"

#define JOBS "/v1/fine_tuning/jobs"

void client_pause(int ms);
/* n rows of training data; the caller frees them. */
char *jobs_rows(int n);
/* The body of an upload, with the boundary B; the caller frees it. */
char *jobs_form(const char *name, const char *purpose, const char *data);
/* Uploads a body; the caller frees the answer with json_object_put. */
json_object *jobs_post_form(int port, const char *body, int status);
/* Uploads data; the caller frees the id. */
char *jobs_upload(int port, const char *name, const char *data);
/* Creates a job with further members; the caller frees the id. */
char *jobs_create(int port, const char *file, const char *more);
/* A job, or with rest = "/events" its events. */
json_object *jobs_get(int port, const char *id, const char *rest);
bool jobs_is(json_object *job, const char *status);
/* The job once it has ended. */
json_object *jobs_await(int port, const char *id);
/* Whether it has ended as expected; else prints it. */
bool jobs_ended(json_object *job, const char *status);
/* The number of metrics among the latest events; -1: no answer. */
int jobs_count_metrics(int port, const char *id);
/* Waits until a job has made so many updates, or has ended. */
void jobs_await_steps(int port, const char *id, int steps);
/* The text of a greedy answer with all log-probabilities, which have 9 digits. */
char *client_answer(int port, const char *model);
void client_expect(int port, const char *method, const char *path, const char *body, int status,
                   const char *part);

#endif
