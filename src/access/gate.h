/*
 * The gate before the check of a secret. It decides from earlier failures whether a login may be
 * tried; it never says that a secret is right, only whether it is looked at.
 *
 *   this very secret was right for this client from this network in the last day ──► KNOWN
 *   else too many failures of this client id from this network ────────────────────► SHUT (429)
 *   else ten times as many failures of any ids from this network ──────────────────► SHUT (429)
 *   else ─────────────────────────────────────────────────────────────────────────► UNKNOWN
 *
 * What this protects against:
 *
 * - An attacker behind the same address as a client (NAT, a proxy) who knows its id cannot lock it
 *   out: the client's own secret is KNOWN. That gives the attacker no more guesses: wrong secrets
 *   are refused unseen once the pair has failed too often. A KNOWN secret that turns out to be
 *   wrong (it was rotated) is forgotten at once.
 * - Many ids from one address meet the limit of the network, and its share of the hash line
 *   (access/hash_line.h), which serves KNOWN callers first.
 * - One id from many addresses: each address meets the pair's limit, and together they get no more
 *   than the hash threads compute, some dozens a second against secrets of 256 bits. There is no
 *   limit by id alone, since with it an attacker could lock out a client that comes from a new
 *   address.
 * - Floods of ids and addresses: the tables have a fixed size. In the table of failures the entry
 *   with the fewest gives way, and places are chosen by a keyed hash. An attacker who wants
 *   failures forgotten must make more of them from elsewhere, and gains one round at the same
 *   price. The table of who was right can only be filled by those who are; there the oldest gives
 *   way.
 *
 * What it cannot do: a client that was not right from its address in the last day (a new address, a
 * restart of the server, a new secret) shares the pair's limit with an attacker at the same
 * address.
 *
 * The gate knows a secret by a keyed 128-bit hash of its fingerprint; each process has a key of its
 * own. Thread-safe; short locks, no allocation.
 */
#ifndef DF_ACCESS_GATE_H
#define DF_ACCESS_GATE_H

#include "base/clock.h"

#define DF_GATE_NETWORK_FACTOR 10 /* a network may fail so many times as often as a pair */
#define DF_GATE_LATELY_MS      INT64_C(86400000)
#define DF_GATE_TAG_BYTES      16
#define DF_GATE_WHO_MAX        136

struct df_gate;

/* One login on its way. Plain data. */
struct df_attempt {
    char who[DF_GATE_WHO_MAX]; /* the network, a blank, the id */
    size_t network_len;
    size_t who_len;
    uint64_t sender; /* a keyed hash of the network; not 0 */
    unsigned char tag[DF_GATE_TAG_BYTES];
};

enum df_gate_verdict { DF_GATE_SHUT, DF_GATE_UNKNOWN, DF_GATE_KNOWN };

struct df_gate *df_gate_new(int64_t failures_per_minute, const struct df_clock *clock);
void df_gate_free(struct df_gate *g);

/* `network` as df_req_peer_network gives it; the fingerprint is a keyed hash of the secret. */
void df_gate_attempt(const struct df_gate *g, struct df_str network, struct df_str identifier,
                     struct df_str fingerprint, struct df_attempt *ret);

/* *ret_wait_ms: when SHUT, how long until the next one may be tried. Asking is not counted. */
enum df_gate_verdict df_gate_ask(struct df_gate *g, const struct df_attempt *a,
                                 int64_t *ret_wait_ms);

/* The outcome of the check. */
void df_gate_right(struct df_gate *g, const struct df_attempt *a);
void df_gate_wrong(struct df_gate *g, const struct df_attempt *a);

#endif
