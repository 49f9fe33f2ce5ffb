/*
 * The payloads in an answer. Other programs write into the tables too, and a document may have any
 * number of phases, so the payloads of one answer are limited to a few MiB together. A payload that
 * does not fit is not fetched.
 */
#ifndef DF_INTERFACE_SHOWN_H
#define DF_INTERFACE_SHOWN_H

#include "interface/interface.h"
#include "store/db.h"
#include "json/write.h"

/* Bytes of payloads in one answer: twice the largest ticket and callback that requests can bring,
 * and at least 8 MiB. */
int64_t df_shown_room(const struct df_interface_options *opt);
/* The longest answer with such payloads: as JSON strings they are at most twice as long. */
size_t df_shown_answer_max(const struct df_interface_options *opt);

struct df_shown {
    struct df_str raw; /* absent: it does not fit */
    struct df_str callback;
};

/* Reads the payloads of row `id`, which may be gone. *room: the bytes left, reduced by those read.
 * The memory is the request's arena and counts on its account: DF_E_BUSY if that is refused. */
enum df_code df_shown_ticket(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                             struct df_shown *ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_shown_counterparty(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                                   struct df_shown *ret, struct df_err *err) DF_MUST_CHECK;

/* Writes a ticket's members to an open object. r stands on a row `ticket`; shown NULL: without the
 * payloads. The engine, which tells of the next probe, may be NULL. */
void df_shown_write_ticket(const struct df_result *r, const struct df_shown *shown,
                           struct df_delivery *d, struct df_json_out *out);

#endif
