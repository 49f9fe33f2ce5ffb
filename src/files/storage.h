/*
 * Where uploaded files lie until their batch is over:
 * data_dir/imports/{batchId}/original/{fileName}, or the outside storage (s3://bucket/prefix),
 * encrypted. An outside storage has all uploads, or those of scheduled batches. docs/storage.md has
 * the layout, the encrypted format and the operator's tasks.
 *
 * A file is written once, from start to end. On the disk it has a temporary name until all of it is
 * there, and df_storage_file_name makes its own name from the user's; no name and no link leads out
 * of data_dir/imports. In the outside storage nothing is to be seen of it until it is complete.
 *
 * There is one storage in the process. Every function may be called from any thread, for different
 * batches at the same time. All of them block: on the disk, and those that reach the outside
 * storage on the network, which only workers may do.
 */
#ifndef DF_FILES_STORAGE_H
#define DF_FILES_STORAGE_H

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "files/settings.h"

#define DF_STORAGE_NAME_MAX     255 /* bytes of a name on the disk */
#define DF_STORAGE_PAGE         50  /* entries of a page of a listing */
#define DF_STORAGE_LOCATION_MAX 400 /* bytes of a location: the width of ImportBatch.UploadPath */

struct df_storage_options {
    const char *data_dir;
    struct df_storage_settings settings;
    struct df_keys *keys;         /* data keys, used without settings.key; NULL: none */
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
/* Current and later transfers to and from the outside storage end with DF_E_CANCELLED. */
void df_storage_cancel(struct df_storage *st);

/* --- writing: an upload --- */

struct df_storage_writer;

/* Whether uploads go to the outside storage. */
bool df_storage_is_remote(const struct df_storage *st);
/* Memory of a writer for a file of this size (-1: unknown), beyond some 200 KiB. */
size_t df_storage_writer_bytes(const struct df_storage *st, int64_t size);

/* size: how long the file is expected to be; -1: unknown. DF_E_CONFLICT: the batch has a directory
 * already. */
enum df_code df_storage_create(struct df_storage *st, const struct df_uuid *batch, int64_t size,
                               struct df_storage_writer **ret, struct df_err *err) DF_MUST_CHECK;
/* Does not reach the network. After an error, only df_storage_abort may follow. DF_E_BUSY: the disk
 * is full. */
enum df_code df_storage_write(struct df_storage_writer *w, const void *ptr, size_t len,
                              struct df_err *err) DF_MUST_CHECK;
/* Returns when file and directories are on the disk, or the object is stored, with checksum and
 * size of the plain bytes. The name is given here because an upload may tell it after the file.
 * Always frees the writer; after an error, the file is removed. */
enum df_code df_storage_finish(struct df_storage_writer *take_w, struct df_str file_name,
                               char ret_checksum[DF_CHECKSUM_LEN + 1], uint64_t *ret_size,
                               struct df_err *err) DF_MUST_CHECK;
/* Removes the unfinished file and frees the writer. take_w may be NULL. */
void df_storage_abort(struct df_storage_writer *take_w);
/* Frees the writer of an upload to the outside storage without telling it: the sweep removes what
 * is there. */
void df_storage_leave(struct df_storage_writer *take_w);

/*
 * Parts, of uploads to the outside storage. The writer has two buffers. When the first is full it
 * is taken, and sent by a thread that may block, while another thread goes on writing to the
 * second. A part is taken when the one before it was sent; until then, whoever has a full part to
 * take may write little more. df_storage_finish sends what is left.
 */
bool df_storage_part_is_full(const struct df_storage_writer *w);
void df_storage_part_take(struct df_storage_writer *w);
enum df_code df_storage_part_send(struct df_storage_writer *w, struct df_err *err) DF_MUST_CHECK;

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

/* The same for a new upload, wherever it is. An object is read over the network, which is for a few
 * looks only. */
enum df_code df_storage_look(struct df_storage *st, const struct df_uuid *batch,
                             struct df_str file_name, const char *location, struct df_stored **ret,
                             struct df_err *err) DF_MUST_CHECK;

/* Reads the whole file for the SHA-256 and the size of its plain bytes. */
enum df_code df_storage_checksum(struct df_storage *st, const struct df_uuid *batch,
                                 struct df_str file_name, char ret_checksum[DF_CHECKSUM_LEN + 1],
                                 uint64_t *ret_size, struct df_err *err) DF_MUST_CHECK;

/* --- the outside storage ---
 *
 * An upload that goes there:   finish; commit its location as UploadPath.
 * When a batch is scheduled    put; drop; commit its location as UploadPath. The drop comes before
 * (and its file is here):      the commit, since a worker may fetch right after it.
 * When it is worked on:        fetch; the object stays, so that another machine may fetch it too.
 * When it is over:             remove, with its UploadPath.
 *
 * Each step may be repeated after a crash: put writes the same object again, drop and remove accept
 * that nothing is there, and fetch accepts a file that is there already.
 */

/* The batch's local directory. */
void df_storage_path(const struct df_storage *st, const struct df_uuid *batch,
                     char ret_path[DF_STORAGE_LOCATION_MAX + 1]);
/* Where a new upload is when it is finished: the UploadPath of its batch. */
void df_storage_location(const struct df_storage *st, const struct df_uuid *batch,
                         char ret_location[DF_STORAGE_LOCATION_MAX + 1]);
/* Whether a location is in an outside storage. NULL is not. */
bool df_storage_is_outside(const char *location);
/* Whether there is an outside storage. */
bool df_storage_has_remote(const struct df_storage *st);
/* Whether files of scheduled batches go there from the disk; if not, put and drop do nothing. */
bool df_storage_moves_scheduled(const struct df_storage *st);
/* Copies the file to the outside storage, byte by byte as it is on the disk, so still encrypted. */
enum df_code df_storage_put_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                      struct df_str file_name,
                                      char ret_location[DF_STORAGE_LOCATION_MAX + 1],
                                      struct df_err *err) DF_MUST_CHECK;
/* Removes the batch's local directory if location is in the outside storage. */
enum df_code df_storage_drop_local(struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, struct df_err *err) DF_MUST_CHECK;

/* Asked every second or more often while a file is fetched: false gives it up (DF_E_CANCELLED). */
struct df_storage_watch {
    bool (*go_on)(void *arg);
    void *arg;
};

/* Copies the file to the disk, and checks it against the SHA-256 if one was stored with it. An
 * object that came in parts has none: its encryption tells a change, and so does the file's
 * checksum. watch may be NULL. */
enum df_code df_storage_fetch(struct df_storage *st, const struct df_uuid *batch,
                              struct df_str file_name, const char *location,
                              const struct df_storage_watch *watch,
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

/* What lies in the outside storage. */
struct df_storage_found {
    struct df_uuid batch;
    char location[DF_STORAGE_LOCATION_MAX + 1];
    char upload_id[1024]; /* of an upload in parts that is not over; "": an object */
    int64_t age_ms;       /* of an object from parts: since the upload began, or ended */
    uint64_t size_bytes;  /* of an object */
};

enum df_storage_stage { DF_STORAGE_OBJECTS, DF_STORAGE_UPLOADS, DF_STORAGE_LISTED };

/* A place in the listing; starts zeroed. */
struct df_storage_cursor {
    enum df_storage_stage stage;
    char marker[4096];
    char id_marker[1024];
};

/* Whether the outside storage is to be swept: its bucket is named by imports.bucket, or it takes
 * uploads. The keys of a bucket that has only scheduled files may not list it. */
bool df_storage_is_swept(const struct df_storage *st);
/* Calls `seen` for each entry of the next page, at most DF_STORAGE_PAGE, and advances the cursor.
 * One request, not repeated. Entries that are not named as this program names them are passed over.
 */
enum df_code df_storage_list(struct df_storage *st, struct df_storage_cursor *at,
                             void (*seen)(void *arg, const struct df_storage_found *f), void *arg,
                             struct df_err *err) DF_MUST_CHECK;
/* Removes an object that has no batch, if one of this storage's keys opens it: another installation
 * may use the same prefix. *ret_ours: it did. Aborts an upload that is not over in any case:
 * *ret_ours is true. */
enum df_code df_storage_remove_found(struct df_storage *st, const struct df_storage_found *f,
                                     bool *ret_ours, struct df_err *err) DF_MUST_CHECK;

/* --- keys --- */

/* What was found, and done, about a file's key. */
struct df_rekeyed {
    uint32_t data_key; /* the file's, before; 0: it was under no data key */
    bool current;      /* it was as a new file would be */
    bool changed;      /* it is now */
};

/*
 * Encrypts the batch's file anew if it is not under the key that new files get. The successor takes
 * the file's place when all of it is on the disk; whoever reads the old one goes on. Pauses as long
 * as it works. With `look_only` nothing is changed. DF_E_NOT_FOUND: the batch has no file here.
 * DF_E_BUSY: another process is at it. DF_E_CONFIG: the file's key is not known.
 */
enum df_code df_storage_rekey(struct df_storage *st, const struct df_uuid *batch, bool look_only,
                              struct df_rekeyed *ret, struct df_err *err) DF_MUST_CHECK;
/* The same for a file in the outside storage, at this location. If the batch is gone from there
 * afterwards, the caller removes the object (df_storage_remove_object). */
enum df_code df_storage_rekey_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                        const char *location, bool look_only,
                                        struct df_rekeyed *ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_storage_remove_object(struct df_storage *st, const struct df_uuid *batch,
                                      const char *location, struct df_err *err) DF_MUST_CHECK;

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
