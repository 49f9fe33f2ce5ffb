/*
 * The last entry of the audit log's chain, as it was at many times: a file in data_dir, so that
 * somebody who can write to the database alone cannot cut the chain's end unseen. A line has
 * sequence, hash of the entry, time, and a keyed hash of the three. The file is bounded: of older
 * lines every second one is dropped when there are too many.
 *
 * Any number of processes may share a file.
 */
#ifndef DF_ACCESS_AUDIT_HEADS_H
#define DF_ACCESS_AUDIT_HEADS_H

#include "access/audit.h"
#include "base/log.h"
#include "store/store.h"

#define DF_AUDIT_MAC_BYTES 32

struct df_audit_head {
    int64_t sequence; /* 0: there is no entry */
    unsigned char mac[DF_AUDIT_MAC_BYTES];
    int64_t time_ms; /* when it was seen */
    bool genuine;    /* of a line: its hash is right */
};

struct df_audit_heads {
    struct df_audit_head *items; /* in the order of the file */
    size_t count;
    size_t damaged; /* lines that are none */
};

/* A file that is missing has no lines. Without keys (df_audit_use_keys) all of them are genuine. */
enum df_code df_audit_heads_load(const char *data_dir, struct df_audit_heads *ret,
                                 struct df_err *err) DF_MUST_CHECK;
/* The same from a text. */
void df_audit_heads_parse(struct df_str text, struct df_audit_heads *ret);
void df_audit_heads_release(struct df_audit_heads *h);
enum df_code df_audit_heads_add(const char *data_dir, const struct df_audit_head *head,
                                struct df_err *err) DF_MUST_CHECK;

/* The head of the database. */
enum df_code df_audit_head_read(struct df_db *db, int64_t now_ms, struct df_audit_head *ret,
                                struct df_err *err) DF_MUST_CHECK;
/* Adds the database's head to the file, if the log has the entry: a head that somebody made up is
 * not signed. */
enum df_code df_audit_head_keep(struct df_db *db, const char *data_dir, int64_t now_ms,
                                struct df_err *err) DF_MUST_CHECK;

/* Keeps the file up to date while a server runs, tells the head in the log at most once a minute,
 * and seals entries of older releases. One thread. */
struct df_audit_watch {
    struct df_store *store;
    const struct df_clock *clock;
    const char *data_dir;
    /* Private. */
    struct df_audit_head kept;
    int64_t logged_ms, logged_sequence, warned_ms;
    bool failing;
};

/* Waits for the store. */
void df_audit_watch_turn(struct df_audit_watch *w);

#endif
