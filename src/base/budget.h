/*
 * A budget for memory that callers cause: one total for the process, of which each owner (a client,
 * or an address nobody is known at) has at most a quarter. Whoever wants more is refused before it
 * is allocated, and says 503. An eighth of the total is left to accounts of at most
 * DF_ACCOUNT_SMALL bytes, so that a few large ones do not keep everybody out.
 *
 * An account is one request's: what it has taken stands there and is given back when it is closed.
 * The first DF_ACCOUNT_FREE bytes are not asked for: they are part of what a connection may cost,
 * and most requests take no more. An account belongs to one thread at a time, the budget to all.
 */
#ifndef DF_BASE_BUDGET_H
#define DF_BASE_BUDGET_H

#include "base/str.h"

#define DF_ACCOUNT_FREE  4096
#define DF_ACCOUNT_SMALL 65536
#define DF_ACCOUNT_OWNER 40 /* bytes of an owner's name that count */

struct df_budget;

struct df_budget *df_budget_new(size_t total_bytes);
/* Everything has been given back: aborts if not. NULL is fine. */
void df_budget_free(struct df_budget *b);
size_t df_budget_used(struct df_budget *b);
size_t df_budget_share(const struct df_budget *b); /* the most that one owner may have */

enum df_refusal {
    DF_REFUSED_NOT,
    DF_REFUSED_EVER,  /* it alone is more than an owner may have */
    DF_REFUSED_SHARE, /* its owner has too much already */
    DF_REFUSED_TOTAL, /* all together have */
};

struct df_account {
    struct df_budget *budget; /* NULL: everything is allowed, nothing counted */
    size_t taken;
    size_t billed;          /* of it by the budget */
    enum df_refusal reason; /* of the last refusal; NOT: there was none */
    char owner[DF_ACCOUNT_OWNER];
};

/* Nothing may have been taken yet. */
void df_account_open(struct df_account *a, struct df_budget *b, struct df_str owner);
/* False: refused, and nothing has changed but `reason`. */
bool df_account_take(struct df_account *a, size_t bytes);
void df_account_give(struct df_account *a, size_t bytes);
/* Gives everything back. */
void df_account_close(struct df_account *a);

#endif
