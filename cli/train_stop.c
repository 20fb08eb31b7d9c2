/* cli/train_stop.c -- signal handling of weft train: the run is saved and stops. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/train.h"

static weft_cancel *cancelled;
static volatile sig_atomic_t stopped_by;

static const char notice[] = "\nweft: train: stopping: finishes this update and saves; a second "
                             "Ctrl-C ends at once\n";

/* The signal handler. A repeated SIGHUP is ignored, since a closing terminal may send several. */
static void stop(int number)
{
    const int error = errno;
    if (stopped_by != 0 && number != SIGHUP) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (stopped_by == 0) {
        stopped_by = number;
        weft_cancel_set(cancelled);
        const size_t bar =
            isatty(STDERR_FILENO) ? 0 : 1; /* on a terminal, ends the line of the bar first */
        if (train_is_first())
            (void)!write(STDERR_FILENO, notice + bar, sizeof notice - 1 - bar);
    }
    errno = error;
}

static void catch_signal(int number)
{
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

weft_status train_catch_signals(const weft_cancel **cancel)
{
    struct sigaction hangup;
    *cancel = cancelled = weft_cancel_new();
    if (cancelled == NULL)
        return weft_error_status();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    catch_signal(SIGUSR1);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        catch_signal(SIGHUP);
    return WEFT_OK;
}

int train_stop_signal(void)
{
    return stopped_by;
}
