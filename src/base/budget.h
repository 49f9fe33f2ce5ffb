/*
 * A budget for memory that callers cause: one total for the process, of which each owner (a client,
 * or the address of an unknown caller) gets at most a quarter. A request for more is refused before
 * the memory is allocated, and answered 503. An eighth of the total is reserved for accounts of at
 * most DF_ACCOUNT_SMALL bytes, so that a few large accounts do not block the others.
 *
 * An account belongs to one request: it records the bytes taken, which are given back when it is
 * closed. The first DF_ACCOUNT_FREE bytes are not billed: they are part of the cost of a
 * connection, and most requests take no more. An account is used by one thread at a time; the
 * budget is thread-safe.
 */
#ifndef DF_BASE_BUDGET_H
#define DF_BASE_BUDGET_H

#include "base/str.h"

#define DF_ACCOUNT_FREE  4096
#define DF_ACCOUNT_SMALL 65536
#define DF_ACCOUNT_OWNER 40 /* bytes of an owner's name that count */

struct df_budget;

struct df_budget *df_budget_new(size_t total_bytes);
/* Aborts unless everything was given back. NULL is fine. */
void df_budget_free(struct df_budget *b);
size_t df_budget_used(struct df_budget *b);
size_t df_budget_share(const struct df_budget *b); /* the most that one owner may have */

enum df_refusal {
    DF_REFUSED_NOT,
    DF_REFUSED_EVER,  /* the request alone exceeds an owner's share */
    DF_REFUSED_SHARE, /* the owner has too much already */
    DF_REFUSED_TOTAL, /* all owners together have too much */
};

struct df_account {
    struct df_budget *budget; /* NULL: everything is allowed, nothing counted */
    size_t taken;
    size_t billed;          /* bytes of it billed to the budget */
    enum df_refusal reason; /* of the last refusal, if any */
    char owner[DF_ACCOUNT_OWNER];
};

/* Nothing may have been taken yet. */
void df_account_open(struct df_account *a, struct df_budget *b, struct df_str owner);
/* False: refused; only `reason` has changed. */
bool df_account_take(struct df_account *a, size_t bytes);
void df_account_give(struct df_account *a, size_t bytes);
/* Gives everything back. */
void df_account_close(struct df_account *a);

#endif
