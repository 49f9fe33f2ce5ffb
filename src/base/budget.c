#include "base/budget.h"

#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define SHARES  4
#define RESERVE 8 /* one part in eight is reserved for small accounts */

/* Exists while the owner has taken something. */
struct owner {
    char name[DF_ACCOUNT_OWNER];
    size_t bytes;
};

struct df_budget {
    size_t total;
    struct df_mutex lock;
    size_t used DF_GUARDED_BY(lock);
    struct df_map owners DF_GUARDED_BY(lock);
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
    assert(b->used == 0 && b->owners.count == 0);
    df_map_release(&b->owners);
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

static struct owner *add_owner(struct df_budget *b, struct df_str name) DF_REQUIRES(b->lock)
{
    struct owner *o = df_calloc(1, sizeof(*o));

    memcpy(o->name, name.ptr, sizeof(o->name));
    df_map_add(&b->owners, df_str_n(o->name, sizeof(o->name)), o);
    return o;
}

/* bytes: how many more; bill: the account's bill including them. */
static enum df_refusal raise_bill(struct df_budget *b, struct df_str name, size_t bytes,
                                  size_t bill)
{
    enum df_refusal reason = DF_REFUSED_NOT;
    size_t limit = bill <= DF_ACCOUNT_SMALL ? b->total : b->total - b->total / RESERVE;

    df_lock(&b->lock);
    struct owner *o = df_map_get(&b->owners, name);
    size_t has = o ? o->bytes : 0;
    if (bytes > df_budget_share(b) - has)
        reason = DF_REFUSED_SHARE;
    else if (b->used + bytes > limit)
        reason = DF_REFUSED_TOTAL;
    if (reason == DF_REFUSED_NOT) {
        o = o ? o : add_owner(b, name);
        o->bytes += bytes;
        b->used += bytes;
    }
    df_unlock(&b->lock);
    return reason;
}

static void give_back(struct df_budget *b, struct df_str name, size_t bytes)
{
    df_lock(&b->lock);
    struct owner *o = df_map_get(&b->owners, name);
    assert(o && o->bytes >= bytes && b->used >= bytes);
    o->bytes -= bytes;
    b->used -= bytes;
    if (o->bytes == 0) {
        (void)df_map_remove(&b->owners, name);
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

static struct df_str owner_of(const struct df_account *a)
{
    return df_str_n(a->owner, sizeof(a->owner));
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
        reason = raise_bill(a->budget, owner_of(a), more, bill_for(taken));
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
        give_back(a->budget, owner_of(a), less);
    a->billed -= less;
}

void df_account_close(struct df_account *a)
{
    df_account_give(a, a->taken);
}
