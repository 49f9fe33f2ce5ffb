/* Shared by shards.c, which has the state and decides, and exchange.c, which reads and writes the
 * tables. */
#ifndef DF_SHARDS_PRIVATE_H
#define DF_SHARDS_PRIVATE_H

#include "base/loop.h"
#include "base/uuid.h"
#include "shards/shards.h"

#define CHANNEL_NAME_MAX 50
#define GROUPS_MAX       32

struct df_shard_group {
    struct df_shards *shards;
    char channel[CHANNEL_NAME_MAX + 1];
    void (*changed)(void *arg, uint32_t taken, uint32_t unclean);
    void *arg;
    /* Guarded by the shards' lock; written by the thread of the shards only. */
    uint32_t owned;
    uint32_t leaving; /* among `owned`: no more rows are taken */
    uint32_t untold;  /* among `owned`: unclean, and the channel does not know yet */
    int64_t epochs[DF_SHARDS];
    /* Guarded by the lock. */
    uint32_t in_flight[DF_SHARDS];
    int64_t yields_until_ms; /* df_boot_ms */
    uint32_t doubted;        /* among `owned`: the tables say otherwise */
};

/* --- what the tables say --- */

struct shard_owner {
    struct df_uuid id;
    char *channels;
    int64_t renewed_ms, lease_until_ms, now_ms; /* by the database's clock */
    bool lost;
};

struct shard_row {
    size_t group;
    unsigned shard;
    struct df_uuid owner; /* empty: nobody */
    int64_t epoch;
};

struct shard_view {
    struct shard_owner *owners;
    size_t owner_count, owner_room;
    struct shard_row *rows; /* of the groups of this process */
    size_t row_count, row_room;
};

/* Shards before owners: so the owner of a shard that has no row has lost it, and is not one that
 * has just come. */
enum df_code shard_view_read(struct df_shards *s, struct shard_view *v, struct df_err *err);
void shard_view_free(struct shard_view *v);

/* --- what a turn writes --- */

struct shard_change {
    size_t group;
    unsigned shard;
    int64_t epoch; /* before the change */
    bool take;     /* or release */
    bool missing;  /* the shard has no row yet */
    bool unclean;  /* the last owner did not end as it should */
    bool done;
};

struct shard_decision {
    struct shard_view view;   /* that it was made on */
    struct shard_owner *lost; /* their rows go */
    size_t lost_count;
    struct shard_change *changes;
    size_t change_count;
};

/* Decides on the view. */
void shard_decide(struct df_shards *s, struct shard_decision *d);
void shard_decision_release(struct shard_decision *d);

struct shard_turn {
    struct df_job job;
    struct df_shards *shards;
    const char *channels; /* that the process serves */
    bool registered;      /* it has a row, as far as it knows */
    bool ends;            /* its row goes, with what it owns */
    bool looks; /* the first turn: look and decide in the same transaction, on one connection */
    struct shard_decision *decision;
    /* What came of it. */
    bool was_lost; /* the row was gone: it is written anew, and nothing is owned */
};

enum df_code shard_turn_write(struct shard_turn *t, struct df_err *err);

/* --- the process --- */

/* Another process, since when its row has been as it is now. */
struct shard_seen {
    struct df_uuid id;
    int64_t renewed_ms;
    int64_t since_ms; /* df_boot_ms */
};

struct df_shards {
    struct df_shards_options opt;
    struct df_uuid id;
    char name[201];
    char *channels; /* comma separated */
    struct df_shard_group *groups[GROUPS_MAX];
    size_t group_count;
    struct df_loop loop;

    /* Of the thread. */
    bool registered;
    bool late; /* the last renewal failed, which was logged */
    struct shard_seen *seen;
    size_t seen_count;

    struct df_mutex lock;
    int64_t lease_end_ms DF_GUARDED_BY(lock); /* df_boot_ms; 0: there was none yet */
    bool stopping DF_GUARDED_BY(lock);
};

#endif
