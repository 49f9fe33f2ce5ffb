/*
 * Entries of the audit log for operators whose role does not allow what they asked for: at most one
 * a minute for each key and route. They are written after the answer, and their loss delays nobody.
 *
 * Threads: any.
 */
#ifndef DF_ACCESS_DENIALS_H
#define DF_ACCESS_DENIALS_H

#include "net/http.h"
#include "store/store.h"

struct df_denials;

struct df_denials *df_denials_new(struct df_store *store, const struct df_clock *clock);
/* The store has stopped. */
void df_denials_free(struct df_denials *d);

/* The operator of the request is known. needed: the role that the route needs. */
void df_denials_note(struct df_denials *d, struct df_req *req, const char *needed);

#endif
