/*
 * Where uploaded files lie until their batch is over:
 * data_dir/imports/{batchId}/original/{fileName}, encrypted if there is a key. Files of scheduled
 * batches may wait in an outside storage (s3://bucket/prefix). docs/storage.md has the layout, the
 * encrypted format and the operator's tasks.
 *
 * A file is written once, from start to end, under a temporary name. It gets its own name only when
 * all of it is on the disk. df_storage_file_name makes that name from the user's; no name and no
 * link leads out of data_dir/imports.
 *
 * There is one storage in the process. Every function may be called from any thread, for different
 * batches at the same time. All of them block: on the disk, and those of scheduled files on the
 * network, which only workers may do.
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

/* Makes data_dir/imports if it is missing. Copies the options, except the secrets and the clock,
 * which must outlive the storage. DF_E_CONFIG names the wrong setting. */
enum df_code df_storage_new(const struct df_storage_options *opt, struct df_storage **ret,
                            struct df_err *err) DF_MUST_CHECK;
void df_storage_free(struct df_storage *st);
/* Checks the options without touching disk or network. */
enum df_code df_storage_check(const struct df_storage_options *opt,
                              struct df_err *err) DF_MUST_CHECK;
/* Current and later transfers of scheduled files end with DF_E_CANCELLED. */
void df_storage_cancel(struct df_storage *st);

/* --- writing: an upload --- */

struct df_storage_writer;

/* DF_E_CONFLICT: the batch has a directory already. */
enum df_code df_storage_create(struct df_storage *st, const struct df_uuid *batch,
                               struct df_storage_writer **ret, struct df_err *err) DF_MUST_CHECK;
/* After an error, only df_storage_abort may follow. DF_E_BUSY: the disk is full. */
enum df_code df_storage_write(struct df_storage_writer *w, const void *ptr, size_t len,
                              struct df_err *err) DF_MUST_CHECK;
/* Returns when file and directories are on the disk, with checksum and size of the plain bytes. The
 * name is given here because an upload may tell it after the file. Always frees the writer; after
 * an error, the file is removed. */
enum df_code df_storage_finish(struct df_storage_writer *take_w, struct df_str file_name,
                               char ret_checksum[DF_CHECKSUM_LEN + 1], uint64_t *ret_size,
                               struct df_err *err) DF_MUST_CHECK;
/* Removes the unfinished file and frees the writer. take_w may be NULL. */
void df_storage_abort(struct df_storage_writer *take_w);

/* --- reading --- */

struct df_stored;

/*
 * DF_E_NOT_FOUND: no such file. DF_E_CONFIG: it is encrypted with a key that was not given.
 * DF_E_INTERNAL, here and when reading: the file is damaged.
 */
enum df_code df_storage_open(struct df_storage *st, const struct df_uuid *batch,
                             struct df_str file_name, struct df_stored **ret,
                             struct df_err *err) DF_MUST_CHECK;
/* The plain bytes, with random access; borrowed. One thread at a time. */
const struct df_bytes *df_stored_bytes(const struct df_stored *f);
void df_stored_close(struct df_stored *f);

/* Reads the whole file for the SHA-256 and the size of its plain bytes. */
enum df_code df_storage_checksum(struct df_storage *st, const struct df_uuid *batch,
                                 struct df_str file_name, char ret_checksum[DF_CHECKSUM_LEN + 1],
                                 uint64_t *ret_size, struct df_err *err) DF_MUST_CHECK;

/* --- scheduled files ---
 *
 * When a batch is scheduled:   put; drop; commit its location as UploadPath. The drop comes before
 *                              the commit, since a worker may fetch right after it.
 * When its time has come:      fetch; commit UploadPath back to df_storage_path; go on.
 * When it is over:             remove, with its last UploadPath.
 *
 * Each step may be repeated after a crash: put writes the same object again, drop and remove accept
 * that nothing is there, and fetch accepts a file that is there already.
 */

/* The batch's local directory: the UploadPath of a file that is not in the outside storage. */
void df_storage_path(const struct df_storage *st, const struct df_uuid *batch,
                     char ret_path[DF_STORAGE_LOCATION_MAX + 1]);
/* Whether scheduled files go to an outside storage; if not, put and drop do nothing. */
bool df_storage_has_remote(const struct df_storage *st);
/* Copies the file to the outside storage, byte by byte as it is on the disk, so still encrypted. */
enum df_code df_storage_put_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                      struct df_str file_name,
                                      char ret_location[DF_STORAGE_LOCATION_MAX + 1],
                                      struct df_err *err) DF_MUST_CHECK;
/* Removes the batch's local directory if location is in the outside storage. */
enum df_code df_storage_drop_local(struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, struct df_err *err) DF_MUST_CHECK;
/* Copies the file back, and checks it against the SHA-256 that was stored with it. */
enum df_code df_storage_fetch_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                        struct df_str file_name, const char *location,
                                        struct df_err *err) DF_MUST_CHECK;

/* --- housekeeping --- */

/* Removes the batch's directory, and the object at location if that is in the outside storage
 * (NULL: none). A file that does not exist is no error. The batch must not be written or fetched at
 * the same time. */
enum df_code df_storage_remove(struct df_storage *st, const struct df_uuid *batch,
                               const char *location, struct df_err *err) DF_MUST_CHECK;

struct df_storage_entry {
    struct df_uuid batch;
    int64_t age_ms;      /* since the last write in it */
    uint64_t size_bytes; /* on the disk */
};

/* Calls `seen` for every batch directory. The callback may remove that directory. */
enum df_code df_storage_each(struct df_storage *st,
                             void (*seen)(void *arg, const struct df_storage_entry *e), void *arg,
                             struct df_err *err) DF_MUST_CHECK;

/* Bytes free on the disk for uploads; UINT64_MAX: unknown. */
uint64_t df_storage_free_bytes(const struct df_storage *st);

/*
 * The name on the disk for the user's file name. Percent escapes replace '/', '\', '%', a leading
 * dot or dash, control characters, marks that are invisible or change the direction of writing,
 * bytes that are not UTF-8, and the first letter of a name that some systems reserve for devices.
 * The name is cut to DF_STORAGE_NAME_MAX bytes before its extension. An empty name becomes
 * "upload".
 */
void df_storage_file_name(struct df_str name, char ret[DF_STORAGE_NAME_MAX + 1]);

#endif
