/* SIGTERM, SIGINT and SIGHUP, which end a program that runs until it is told to. */
#ifndef DF_APP_SIGNALS_H
#define DF_APP_SIGNALS_H

/* From now on they are taken by df_signals_wait alone. Before anything that starts threads. */
void df_signals_block(void);
/* Until one of them comes. */
void df_signals_wait(void);

#endif
