/* train/parallel/mpi.c -- groups over MPI: the module weft-mpi.so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "train/parallel/mpi.h"
#include "weft/version.h"

/* Maximum number of values in one sum. */
enum { PIECE = 1 << 20 };

/* A process has one group, since MPI has one world. */
static struct {
    const weft__mpi_host *host;
    MPI_Comm all;
    int rank, size;
    bool own;      /* MPI was initialized here */
    float *buffer; /* (3, padded piece): sent, received, sums of this rank's part */
} mpi;

static weft_status mpi_failure(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return mpi.host->fail(WEFT_IO, "mpi: %s: %s", what, mpi.host->printable(text));
}

/* ---- communication -------------------------------------------------------------------------- */

/* Waits for a started operation. MPI's own calls use a core while they wait, so after a short time
 * this sleeps between the tests: a rank may wait for another one that validates or saves. */
static int wait_for(int code, MPI_Request *request)
{
    enum { EAGER_MS = 20, PAUSE_US = 500 };
    const double start = MPI_Wtime();
    int done = 0;
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done && MPI_Wtime() - start > EAGER_MS * 1e-3)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000L}, NULL);
    }
    return code;
}

static weft_status gather(void *context, const void *bytes, size_t n, void *out)
{
    (void)context;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallgather(bytes, (int)n, MPI_BYTE, out, (int)n, MPI_BYTE, mpi.all, &request);
    code = wait_for(code, &request);
    return code == MPI_SUCCESS ? WEFT_OK : mpi_failure("allgather", code);
}

/* Sends in pieces, since MPI counts are ints. */
static weft_status broadcast(void *context, void *bytes, size_t n)
{
    (void)context;
    enum { MOST = 1 << 30 };
    for (size_t at = 0; at < n; at += MOST) {
        const int now = (int)(n - at < MOST ? n - at : MOST);
        MPI_Request request = MPI_REQUEST_NULL;
        int code = MPI_Ibcast((char *)bytes + at, now, MPI_BYTE, 0, mpi.all, &request);
        code = wait_for(code, &request);
        if (code != MPI_SUCCESS)
            return mpi_failure("broadcast", code);
    }
    return WEFT_OK;
}

/* Sums in rank order; MPI_Allreduce may add in any order. Each rank sums one part of the values
 * over all ranks and sends it to all. */
static int sum_piece(float *values, int n)
{
    const int part = (n + mpi.size - 1) / mpi.size, padded = part * mpi.size;
    float *sent = mpi.buffer, *received = sent + PIECE + mpi.size,
          *sums = received + PIECE + mpi.size;
    memcpy(sent, values, (size_t)n * sizeof *sent);
    memset(sent + n, 0, (size_t)(padded - n) * sizeof *sent);
    int code = MPI_Alltoall(sent, part, MPI_FLOAT, received, part, MPI_FLOAT, mpi.all);
    if (code != MPI_SUCCESS)
        return code;
    memcpy(sums, received, (size_t)part * sizeof *sums);
    for (int r = 1; r < mpi.size; r++) {
        for (int i = 0; i < part; i++)
            sums[i] += received[r * part + i];
    }
    code = MPI_Allgather(sums, part, MPI_FLOAT, sent, part, MPI_FLOAT, mpi.all);
    memcpy(values, sent, (size_t)n * sizeof *sent);
    return code;
}

static weft_status sum(void *context, float *values, int64_t n)
{
    (void)context;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int code = sum_piece(values + at, (int)(n - at < PIECE ? n - at : PIECE));
        if (code != MPI_SUCCESS)
            return mpi_failure("sum", code);
    }
    return WEFT_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* If the connection is broken, other ranks may wait forever, so they are aborted too. */
static void close_mpi(void *context, bool broken)
{
    (void)context;
    if (broken)
        MPI_Abort(mpi.all, EXIT_FAILURE);
    /* a launcher kills the other processes if one exits with a failure */
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(mpi.all, &request);
    (void)wait_for(code, &request);
    mpi.host->release(mpi.buffer);
    mpi.buffer = NULL;
    MPI_Comm_free(&mpi.all);
    if (mpi.own)
        MPI_Finalize();
}

static const weft_group_type weft_group_mpi = {
    .name = "mpi",
    .gather = gather,
    .broadcast = broadcast,
    .sum = sum,
    .close = close_mpi,
};

static int find_place(weft_group_info *place)
{
    MPI_Comm local;
    int code = MPI_Comm_split_type(mpi.all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_rank(local, &place->local_rank);
    MPI_Comm_size(local, &place->local_size);
    MPI_Comm_rank(mpi.all, &place->rank);
    MPI_Comm_size(mpi.all, &place->size);
    mpi.rank = place->rank;
    mpi.size = place->size;
    return MPI_Comm_free(&local);
}

static weft_status connect_mpi(const weft__mpi_host *host, const char *variable, long launched,
                               const weft_group_type **type, weft_group_info *place)
{
    int running = 0, level;
    mpi.host = host;
    MPI_Initialized(&running);
    mpi.own = !running;
    int code = running ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &mpi.all);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(mpi.all, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = find_place(place);
    if (code != MPI_SUCCESS)
        return mpi_failure("start", code);
    if (mpi.size != launched) {
        close_mpi(NULL, false);
        return host->fail(WEFT_INVALID,
                          "mpi: %s is %ld, but MPI has %d processes: this launcher is of another "
                          "MPI than the one that Weft was built with",
                          variable, launched, mpi.size);
    }
    mpi.buffer = host->allocate(3, (PIECE + (size_t)mpi.size) * sizeof *mpi.buffer);
    *type = &weft_group_mpi;
    return mpi.buffer ? WEFT_OK : host->fail(WEFT_MEMORY, "mpi: out of memory for its buffers");
}

extern const weft__mpi_module weft_mpi_module;
__attribute__((visibility("default"))) const weft__mpi_module weft_mpi_module = {
    .version = WEFT_VERSION,
    .connect = connect_mpi,
};
