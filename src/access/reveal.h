/*
 * ?reveal=true: an operator wants to see a payload as it is. Payloads are shown masked; the real
 * one takes the role `operate`, and every look leaves an entry in the audit log.
 */
#ifndef DF_ACCESS_REVEAL_H
#define DF_ACCESS_REVEAL_H

#include "access/handler.h"

/* Reads ?reveal=. If it is true, `revealing` becomes the handler of the work: one that writes.
 * False: the answer is set. */
bool df_reveal_read(struct df_work *w, struct df_input *in, const struct df_handler *revealing,
                    bool *ret);
/* Writes the entry PayloadRevealed, in the caller's transaction. */
enum df_code df_reveal_audit(struct df_db *db, const struct df_work *w, struct df_str target,
                             struct df_err *err) DF_MUST_CHECK;

#endif
