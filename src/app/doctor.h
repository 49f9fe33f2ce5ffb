/*
 * dataflow doctor: tries everything that the configuration names. cmd_doctor.c has the table of
 * checks, runs them side by side and prints what they found; doctor_*.c have the checks, by
 * subject.
 *
 * A check runs on a thread of its own and may block. When DF_DOCTOR_LIMIT_MS are over it is left
 * behind: what it says later is dropped. No text that it says may hold a secret.
 */
#ifndef DF_APP_DOCTOR_H
#define DF_APP_DOCTOR_H

#include "app/settings.h"

#define DF_DOCTOR_LIMIT_MS 5000

enum df_health { DF_HEALTH_OK, DF_HEALTH_WARNING, DF_HEALTH_PROBLEM };

/* One check on its way. */
struct df_check;

const struct df_settings *df_check_settings(const struct df_check *c);
/* Which of several: of its row's count. */
size_t df_check_index(const struct df_check *c);

/* Whether df_check_restored runs too, which looks at the whole audit log. */
bool df_check_is_after_restore(const struct df_check *c);

/* One finding. `what` is the thing itself (server.data_dir, relay orders); `advice` is what to do
 * about it, NULL when all is well; the format and what follows is what was seen. */
void df_check_say(struct df_check *c, enum df_health health, const char *what, const char *advice,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The checks that look for what a restore leaves missing, and no others; for `restore`. Prints them
 * and returns the exit status. */
int df_doctor_after_restore(const struct df_settings *s, bool json);

/* The checks. */
void df_check_database(struct df_check *c);
void df_check_data_dir(struct df_check *c);
void df_check_certificate(struct df_check *c);
void df_check_keys(struct df_check *c);
void df_check_master(struct df_check *c);
void df_check_storage(struct df_check *c);
void df_check_redis(struct df_check *c);
void df_check_backup(struct df_check *c);
void df_check_restored(struct df_check *c); /* may take long: not under DF_DOCTOR_LIMIT_MS */
void df_check_destination(struct df_check *c);
void df_check_relay_source(struct df_check *c);
void df_check_relay_broker(struct df_check *c);
void df_check_queue(struct df_check *c);
void df_check_ship(struct df_check *c);
/* How many of each the settings have. */
size_t df_count_certificates(const struct df_settings *s);
size_t df_count_storages(const struct df_settings *s);
size_t df_count_redis(const struct df_settings *s);
size_t df_count_destinations(const struct df_settings *s);
size_t df_count_relays(const struct df_settings *s);
size_t df_count_queues(const struct df_settings *s);
size_t df_count_ship(const struct df_settings *s);

#endif
