/*
 * Where uploaded files live until their batch is over:
 * data_dir/imports/{batchId}/original/{fileName}, encrypted when there is a key; and, for batches
 * that wait for their time, a storage outside (s3://bucket/prefix). docs/storage.md has the layout,
 * the encrypted format and what operators do.
 *
 * A file is written once, from beginning to end, under a temporary name, and has its own name only
 * when all of it is on the disk. The user's file name is data: what stands on the disk is made of
 * it by df_storage_file_name, and no name and no link leads out of data_dir/imports.
 *
 * One for the process; every function may be called from any thread, at once for different batches.
 * All of them block: reading and writing for as long as a disk takes, those of scheduled files for
 * as long as a network does, so these are for workers only.
 */
#ifndef DF_FILES_STORAGE_H
#define DF_FILES_STORAGE_H

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "files/settings.h"

#define DF_STORAGE_NAME_MAX     255 /* bytes of a name on the disk */
#define DF_STORAGE_LOCATION_MAX 400 /* bytes of a location: the width of ImportBatch.UploadPath */

struct df_storage_options {
    const char *data_dir;
    struct df_storage_settings settings;
    int64_t s3_retry_base_ms;     /* of the delays between attempts; 0: 500 */
    const struct df_clock *clock; /* NULL: the real one */
};

struct df_storage;

/* Makes data_dir/imports if it is missing. Copies what it needs but the secrets and the clock,
 * which outlive it. DF_E_CONFIG names the setting that is wrong. */
enum df_code df_storage_new(const struct df_storage_options *opt, struct df_storage **ret,
                            struct df_err *err) DF_MUST_CHECK;
void df_storage_free(struct df_storage *st);
/* Whether the options are good, as far as that can be told without touching anything. */
enum df_code df_storage_check(const struct df_storage_options *opt,
                              struct df_err *err) DF_MUST_CHECK;
/* Transfers of scheduled files, those under way and those to come, end with DF_E_CANCELLED. */
void df_storage_cancel(struct df_storage *st);

/* --- writing: an upload --- */

struct df_storage_writer;

/* DF_E_CONFLICT: the batch has a directory already. */
enum df_code df_storage_create(struct df_storage *st, const struct df_uuid *batch,
                               struct df_storage_writer **ret, struct df_err *err) DF_MUST_CHECK;
/* After an error only df_storage_abort. DF_E_BUSY: the disk is full. */
enum df_code df_storage_write(struct df_storage_writer *w, const void *ptr, size_t len,
                              struct df_err *err) DF_MUST_CHECK;
/* Returns when file and directories are on the disk, with checksum and size of the plain bytes.
 * The name is given here because an upload may tell it after the file. Frees the writer, whatever
 * happens; after an error nothing of it is left. */
enum df_code df_storage_finish(struct df_storage_writer *take_w, struct df_str file_name,
                               char ret_checksum[DF_CHECKSUM_LEN + 1], uint64_t *ret_size,
                               struct df_err *err) DF_MUST_CHECK;
/* Removes what was written, frees the writer. NULL is fine. */
void df_storage_abort(struct df_storage_writer *take_w);

/* --- reading --- */

struct df_stored;

/*
 * DF_E_NOT_FOUND: no such file. DF_E_CONFIG: it is encrypted with a key that was not given.
 * DF_E_INTERNAL, here and when reading: it is damaged.
 */
enum df_code df_storage_open(struct df_storage *st, const struct df_uuid *batch,
                             struct df_str file_name, struct df_stored **ret,
                             struct df_err *err) DF_MUST_CHECK;
/* Plain bytes, from any place; borrowed. One thread at a time. */
const struct df_bytes *df_stored_bytes(const struct df_stored *f);
void df_stored_close(struct df_stored *f);

/* SHA-256 and size of the plain bytes, all of them read. */
enum df_code df_storage_checksum(struct df_storage *st, const struct df_uuid *batch,
                                 struct df_str file_name, char ret_checksum[DF_CHECKSUM_LEN + 1],
                                 uint64_t *ret_size, struct df_err *err) DF_MUST_CHECK;

/* --- scheduled files ---
 *
 * When a batch is scheduled:   put; drop; commit its location as UploadPath. Not drop after the
 *                              commit: a worker may have fetched by then.
 * When its time has come:      fetch; commit UploadPath back to df_storage_path; go on.
 * When it is over:             remove, with its last UploadPath.
 *
 * Each may be repeated after a crash: put writes the same object again, drop and remove do nothing
 * where nothing is, and fetch is satisfied by a file that is there.
 */

/* The batch's directory here: UploadPath of what is not elsewhere. */
void df_storage_path(const struct df_storage *st, const struct df_uuid *batch,
                     char ret_path[DF_STORAGE_LOCATION_MAX + 1]);
/* Whether scheduled files go elsewhere: if not, put and drop do nothing. */
bool df_storage_has_remote(const struct df_storage *st);
/* Copies the file as it is on the disk (encrypted, if it is) to where scheduled files wait. */
enum df_code df_storage_put_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                      struct df_str file_name,
                                      char ret_location[DF_STORAGE_LOCATION_MAX + 1],
                                      struct df_err *err) DF_MUST_CHECK;
/* Removes the batch's directory here if location is elsewhere. */
enum df_code df_storage_drop_local(struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, struct df_err *err) DF_MUST_CHECK;
/* Brings the file back, checked against the SHA-256 that was stored with it. */
enum df_code df_storage_fetch_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                        struct df_str file_name, const char *location,
                                        struct df_err *err) DF_MUST_CHECK;

/* --- housekeeping --- */

/* The batch's directory, and what is at location if that is elsewhere (NULL: nothing). What is not
 * there is no error. Not while somebody writes or fetches the batch. */
enum df_code df_storage_remove(struct df_storage *st, const struct df_uuid *batch,
                               const char *location, struct df_err *err) DF_MUST_CHECK;

struct df_storage_entry {
    struct df_uuid batch;
    int64_t age_ms;      /* since anything in it was written: an upload that goes on is young */
    uint64_t size_bytes; /* on the disk */
};

/* Every batch directory here. The callback may remove the one it is shown. */
enum df_code df_storage_each(struct df_storage *st,
                             void (*seen)(void *arg, const struct df_storage_entry *e), void *arg,
                             struct df_err *err) DF_MUST_CHECK;

/* What uploads may still take of the disk. UINT64_MAX when nobody can say. */
uint64_t df_storage_free_bytes(const struct df_storage *st);

/*
 * The name on the disk: the user's, with percent escapes for '/', '\', '%', a dot or dash at the
 * beginning, control characters, marks that turn the direction of writing or are invisible, bytes
 * that are not UTF-8, and the first letter of names that some systems keep for devices; cut to
 * DF_STORAGE_NAME_MAX, but for its extension. Nothing becomes "upload".
 */
void df_storage_file_name(struct df_str name, char ret[DF_STORAGE_NAME_MAX + 1]);

#endif
