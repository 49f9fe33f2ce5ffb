/*
 * Where backups lie: a directory, or a bucket below a prefix. It holds objects by name, of the form
 * NAME or GROUP/NAME. An object appears whole or not at all. All functions block; one thread at a
 * time, but for cancel.
 */
#ifndef DF_BACKUP_PLACE_H
#define DF_BACKUP_PLACE_H

#include "files/bucket.h"

#define DF_PLACE_NAME_MAX 120

struct df_depot;

/* where is a path or s3://…; `setting` names it for messages. make: a directory that is missing is
 * made. The settings and the clock outlive the place. */
enum df_code df_depot_open(const char *where, const char *setting, const struct df_s3_settings *s3,
                           const struct df_clock *clock, bool make, struct df_depot **ret,
                           struct df_err *err) DF_MUST_CHECK;
void df_depot_close(struct df_depot *p);
/* Transfers end with DF_E_CANCELLED. Any thread. */
void df_depot_cancel(struct df_depot *p);
/* DF_E_CANCELLED: df_depot_cancel was called. For loops that read and write what is put. */
enum df_code df_depot_go_on(const struct df_depot *p, struct df_err *err) DF_MUST_CHECK;

/* All of the file, over an object of that name; on the disk, or acknowledged, when it returns. */
enum df_code df_depot_put(struct df_depot *p, const char *name, int fd,
                          struct df_err *err) DF_MUST_CHECK;
/* The object as a file to read; the caller closes it. temp_dir is where one from a bucket lies,
 * without a name. DF_E_NOT_FOUND. */
enum df_code df_depot_get(struct df_depot *p, const char *name, const char *temp_dir, int *ret_fd,
                          struct df_err *err) DF_MUST_CHECK;
/* No such object is no error. */
enum df_code df_depot_remove(struct df_depot *p, const char *name,
                             struct df_err *err) DF_MUST_CHECK;
/* Every object, in no order. */
enum df_code df_depot_each(struct df_depot *p,
                           void (*seen)(void *arg, const char *name, uint64_t size), void *arg,
                           struct df_err *err) DF_MUST_CHECK;

#endif
