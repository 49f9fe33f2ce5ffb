/*
 * The payloads that an answer shows. Other programs write into the tables too, and a document may
 * have any number of phases: so an answer has payloads of a few MiB together, and what does not fit
 * is not fetched.
 */
#ifndef DF_INTERFACE_SHOWN_H
#define DF_INTERFACE_SHOWN_H

#include "interface/interface.h"
#include "store/db.h"

/* For an answer: twice a ticket and its callback, as requests may bring them, and 8 MiB at least.
 */
int64_t df_shown_room(const struct df_interface_options *opt);
/* The longest answer with that much in it: in quotes it is at most twice as long. */
size_t df_shown_answer_max(const struct df_interface_options *opt);

struct df_shown {
    struct df_str raw; /* absent: it does not fit */
    struct df_str callback;
};

/* Of the row `id`, which may be gone by now; *room is what is left for the next. In the request's
 * arena, and on its account: DF_E_BUSY when that is refused. */
enum df_code df_shown_ticket(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                             struct df_shown *ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_shown_counterparty(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                                   struct df_shown *ret, struct df_err *err) DF_MUST_CHECK;

#endif
