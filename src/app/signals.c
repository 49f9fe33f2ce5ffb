#include "app/signals.h"

#include "base/log.h"

#include <signal.h>

/* SIGHUP comes when the terminal closes. Under nohup it is ignored and stays out of the set: once
 * blocked it would be taken all the same. */
static void stop_signals(sigset_t *set)
{
    struct sigaction hangup = {0};

    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

void df_signals_block(void)
{
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void df_signals_wait(void)
{
    sigset_t set;
    stop_signals(&set);
    int sig = 0;
    while (sigwait(&set, &sig) != 0)
        ;
    df_log_info("ServerStopping", "signal %d: finishing what is in hand", sig);
}
