#include "base/budget.h"

#include "base/lock.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define SHARES  4
#define RESERVE 8 /* one in so many bytes is for small accounts */
#define BUCKETS 256

/* There while it has something. */
struct owner {
    struct owner *next;
    char name[DF_ACCOUNT_OWNER];
    size_t bytes;
};

struct df_budget {
    size_t total;
    struct df_mutex lock; /* guards what follows */
    size_t used;
    struct owner *owners[BUCKETS];
};

struct df_budget *df_budget_new(size_t total_bytes)
{
    struct df_budget *b = df_calloc(1, sizeof(*b));
    b->total = total_bytes;
    df_mutex_init(&b->lock);
    return b;
}

void df_budget_free(struct df_budget *b)
{
    if (!b)
        return;
    assert(b->used == 0);
    df_mutex_destroy(&b->lock);
    free(b);
}

size_t df_budget_used(struct df_budget *b)
{
    df_lock(&b->lock);
    size_t used = b->used;
    df_unlock(&b->lock);
    return used;
}

size_t df_budget_share(const struct df_budget *b)
{
    return b->total / SHARES;
}

/* With the lock held. */
static struct owner **find_owner(struct df_budget *b, const char name[DF_ACCOUNT_OWNER])
{
    struct owner **at = &b->owners[df_str_hash(df_str_n(name, DF_ACCOUNT_OWNER)) % BUCKETS];

    while (*at && memcmp((*at)->name, name, DF_ACCOUNT_OWNER) != 0)
        at = &(*at)->next;
    return at;
}

/* bytes: how many more; bill: of the account, with them. */
static enum df_refusal raise_bill(struct df_budget *b, const char name[DF_ACCOUNT_OWNER],
                                  size_t bytes, size_t bill)
{
    enum df_refusal reason = DF_REFUSED_NOT;
    size_t limit = bill <= DF_ACCOUNT_SMALL ? b->total : b->total - b->total / RESERVE;

    df_lock(&b->lock);
    struct owner **at = find_owner(b, name);
    size_t has = *at ? (*at)->bytes : 0;
    if (bytes > df_budget_share(b) - has)
        reason = DF_REFUSED_SHARE;
    else if (b->used + bytes > limit)
        reason = DF_REFUSED_TOTAL;
    if (reason == DF_REFUSED_NOT) {
        if (!*at) {
            *at = df_calloc(1, sizeof(**at));
            memcpy((*at)->name, name, DF_ACCOUNT_OWNER);
        }
        (*at)->bytes += bytes;
        b->used += bytes;
    }
    df_unlock(&b->lock);
    return reason;
}

static void give_back(struct df_budget *b, const char name[DF_ACCOUNT_OWNER], size_t bytes)
{
    df_lock(&b->lock);
    struct owner **at = find_owner(b, name);
    struct owner *o = *at;
    assert(o && o->bytes >= bytes && b->used >= bytes);
    o->bytes -= bytes;
    b->used -= bytes;
    if (o->bytes == 0) {
        *at = o->next;
        free(o);
    }
    df_unlock(&b->lock);
}

void df_account_open(struct df_account *a, struct df_budget *b, struct df_str owner)
{
    assert(a->taken == 0);
    *a = (struct df_account){.budget = b};
    memcpy(a->owner, owner.ptr, owner.len < DF_ACCOUNT_OWNER ? owner.len : DF_ACCOUNT_OWNER);
}

static size_t bill_for(size_t taken)
{
    return taken > DF_ACCOUNT_FREE ? taken : 0;
}

bool df_account_take(struct df_account *a, size_t bytes)
{
    size_t taken;

    if (!a->budget)
        return true;
    if (__builtin_add_overflow(a->taken, bytes, &taken) ||
        bill_for(taken) > df_budget_share(a->budget)) {
        a->reason = DF_REFUSED_EVER;
        return false;
    }
    size_t more = bill_for(taken) - a->billed;
    enum df_refusal reason = DF_REFUSED_NOT;
    if (more > 0)
        reason = raise_bill(a->budget, a->owner, more, bill_for(taken));
    if (reason != DF_REFUSED_NOT) {
        a->reason = reason;
        return false;
    }
    a->taken = taken;
    a->billed += more;
    return true;
}

void df_account_give(struct df_account *a, size_t bytes)
{
    if (!a->budget)
        return;
    assert(a->taken >= bytes);
    a->taken -= bytes;
    size_t less = a->billed - bill_for(a->taken);
    if (less > 0)
        give_back(a->budget, a->owner, less);
    a->billed -= less;
}

void df_account_close(struct df_account *a)
{
    df_account_give(a, a->taken);
}
