/*
 * What is known of the last point: the hashes of its pages, and its files. Kept in a file in
 * data_dir, so that the next process goes on with an increment. Whatever is wrong with the file,
 * there is then no state, and the next point is a base.
 */
#ifndef DF_BACKUP_STATE_H
#define DF_BACKUP_STATE_H

#include "backup/point.h"

#include <sys/stat.h>

/* A file that was put, and how it looked on the disk. */
struct df_backup_file {
    struct df_point_file file;
    uint64_t inode;
    int64_t changed_ns;
};

struct df_backup_state {
    struct df_point_name last; /* generation "": there is no state */
    int64_t base_ms;
    uint64_t base_bytes, more_bytes; /* of the base, and of the points since */
    uint32_t page_size, page_count;
    unsigned char root[DF_POINT_ROOT_BYTES];
    struct df_page_hash *hashes; /* of page_count pages */
    struct df_backup_file *files;
    size_t file_count;
};

void df_backup_state_release(struct df_backup_state *s); /* leaves no state */
void df_backup_state_load(const char *path, struct df_backup_state *ret);
enum df_code df_backup_state_save(const char *path, const char *data_dir,
                                  const struct df_backup_state *s,
                                  struct df_err *err) DF_MUST_CHECK;

#endif
