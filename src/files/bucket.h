/*
 * Objects of an S3 bucket below a prefix, by their names: whole files there and back. For what is
 * no upload; uploads have storage.h. An object appears whole or not at all. All functions block;
 * any thread, one call at a time.
 */
#ifndef DF_FILES_BUCKET_H
#define DF_FILES_BUCKET_H

#include "base/clock.h"
#include "base/err.h"
#include "files/settings.h"

struct df_bucket;

/* url is s3://bucket[/prefix], `setting` what names it, for messages. Both settings and clock
 * outlive the bucket. DF_E_CONFIG says what is wrong. No network. */
enum df_code df_bucket_open(const char *url, const char *setting, const struct df_s3_settings *set,
                            const struct df_clock *clock, struct df_bucket **ret,
                            struct df_err *err) DF_MUST_CHECK;
void df_bucket_free(struct df_bucket *b);
/* What is on its way and what comes later ends with DF_E_CANCELLED. Any thread. */
void df_bucket_cancel(struct df_bucket *b);

/* Puts `size` bytes of the file from its start, over an object of that name. */
enum df_code df_bucket_put(struct df_bucket *b, const char *name, int fd, uint64_t size,
                           struct df_err *err) DF_MUST_CHECK;
/* Writes the object into the file, which is empty. DF_E_NOT_FOUND. DF_E_INTERNAL: it is not what
 * was put there. DF_E_ANSWER_TOO_LARGE: it is longer than max. */
enum df_code df_bucket_get(struct df_bucket *b, const char *name, int fd, uint64_t max,
                           struct df_err *err) DF_MUST_CHECK;
/* No such object is no error. */
enum df_code df_bucket_remove(struct df_bucket *b, const char *name,
                              struct df_err *err) DF_MUST_CHECK;
/* Calls `seen` for every object, in the order of the names. Names that are not of printable ASCII
 * are passed over: nothing here makes such. */
enum df_code df_bucket_each(struct df_bucket *b,
                            void (*seen)(void *arg, const char *name, uint64_t size), void *arg,
                            struct df_err *err) DF_MUST_CHECK;

#endif
