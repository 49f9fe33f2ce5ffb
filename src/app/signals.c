#include "app/signals.h"

#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* SIGHUP also comes when the terminal closes. Under nohup it is ignored and stays out of the set:
 * once blocked it would be taken all the same. */
static void stop_signals(sigset_t *set)
{
    struct sigaction hangup = {0};

    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

static bool had_terminal;

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void df_signals_block(void)
{
    sigset_t set;
    had_terminal = has_terminal();
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void df_signals_wait(void (*reload)(void *arg), void *arg)
{
    sigset_t set;
    int sig = 0;

    stop_signals(&set);
    for (;;) {
        if (sigwait(&set, &sig) != 0)
            continue;
        bool hung_up = had_terminal && !has_terminal();
        if (sig != SIGHUP || !reload || hung_up)
            break;
        reload(arg);
    }
    df_log_info("ServerStopping", "signal %d: finishing what is in hand", sig);
}

bool df_signals_end_is_due(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}
