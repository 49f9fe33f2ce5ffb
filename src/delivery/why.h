/* Why a row of an outbox, or a ticket, waits: in words, for the pages of operators. */
#ifndef DF_DELIVERY_WHY_H
#define DF_DELIVERY_WHY_H

#include "delivery/delivery.h"
#include "json/write.h"

/* A time that is not there is -1. All texts are borrowed. */
struct df_why_row {
    struct df_str channel;
    struct df_str target; /* as health knows it; absent: none */
    const char *missing;  /* the setting that the channel lacks; NULL: none */
    bool failed;          /* it was tried before */
    bool held;            /* it waits for the target, and its due time is only the backstop */
    int64_t created_ms, last_attempt_ms;
    int64_t due_ms; /* -1: it waits for nothing, or for a person */
};

struct df_why {
    const char *code;     /* NULL: it does not wait */
    struct df_str detail; /* English (base/lang.h) */
    int64_t since_ms, next_ms;
};

/* The engine, which may be NULL, tells of the next probe. Memory: the arena. */
enum df_code df_why_find(struct df_db *db, const struct df_why_row *row,
                         struct df_delivery *delivery, int64_t now_ms, struct df_arena *a,
                         struct df_why *ret, struct df_err *err) DF_MUST_CHECK;
/* The member "waitingFor": an object, or null. Its handler tells (access/handler.h). */
void df_why_write(const struct df_why *why, struct df_json_out *out);

#endif
