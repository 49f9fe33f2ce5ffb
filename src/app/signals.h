/* SIGTERM, SIGINT and SIGHUP, which end a program that runs until then. */
#ifndef DF_APP_SIGNALS_H
#define DF_APP_SIGNALS_H

/* Blocks them, so that only df_signals_wait takes them. Call it before anything that starts
 * threads. */
void df_signals_block(void);
/* Waits until one of them comes. */
void df_signals_wait(void);

#endif
