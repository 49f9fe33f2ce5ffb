/* SIGTERM and SIGINT, which end a program that runs until then, and SIGHUP. */
#ifndef DF_APP_SIGNALS_H
#define DF_APP_SIGNALS_H

#include <stdbool.h>

/* Blocks them, so that only df_signals_wait takes them. Call it before anything that starts
 * threads. */
void df_signals_block(void);
/*
 * Waits until the program is to end. SIGHUP ends it too when its terminal has closed; otherwise
 * `reload` is called, and the wait goes on. NULL: SIGHUP always ends it.
 */
void df_signals_wait(void (*reload)(void *arg), void *arg);
/* Whether SIGTERM or SIGINT is there for df_signals_wait to take. Any thread. */
bool df_signals_end_is_due(void);

#endif
