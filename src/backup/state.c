#include "backup/state.h"

#include "base/mem.h"
#include "base/owner.h"
#include "store/pages.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The file is this struct, the two arrays and a hash of all. It is read by the program that wrote
 * it, on the machine that wrote it: its form is that of the memory. */
struct state_file {
    char magic[16];
    struct df_point_name last;
    int64_t base_ms;
    uint64_t base_bytes, more_bytes, file_count;
    uint32_t page_size, page_count, file_bytes;
    unsigned char root[DF_POINT_ROOT_BYTES];
};

#define MAGIC "DataFlow pages1"

void df_backup_state_release(struct df_backup_state *s)
{
    free(s->hashes);
    free(s->files);
    *s = (struct df_backup_state){.page_size = 0};
}

static void hash_state(const struct state_file *f, const struct df_backup_state *s,
                       unsigned char ret[32])
{
    crypto_generichash_state h;

    (void)crypto_generichash_init(&h, NULL, 0, 32);
    (void)crypto_generichash_update(&h, (const unsigned char *)f, sizeof *f);
    (void)crypto_generichash_update(&h, (const unsigned char *)s->hashes,
                                    f->page_count * sizeof *s->hashes);
    (void)crypto_generichash_update(&h, (const unsigned char *)s->files,
                                    f->file_count * sizeof *s->files);
    (void)crypto_generichash_final(&h, ret, 32);
}

/* The sizes are those of the file, before anything is allocated by them. */
static bool sizes_fit(const struct state_file *f, off_t size)
{
    return memcmp(f->magic, MAGIC, sizeof f->magic) == 0 && f->page_count <= DF_PAGES_MAX &&
           f->file_count <= DF_POINT_FILES && f->file_bytes == sizeof(struct df_backup_file) &&
           (uint64_t)size == sizeof *f + f->page_count * sizeof(struct df_page_hash) +
                                 f->file_count * sizeof(struct df_backup_file) + 32;
}

static bool read_state(int fd, off_t size, struct df_backup_state *ret)
{
    struct state_file f;
    unsigned char told[32], real[32];

    if (pread(fd, &f, sizeof f, 0) != (ssize_t)sizeof f || !sizes_fit(&f, size))
        return false;
    ssize_t hashes_len = (ssize_t)(f.page_count * sizeof *ret->hashes);
    ssize_t files_len = (ssize_t)(f.file_count * sizeof *ret->files);
    *ret = (struct df_backup_state){.last = f.last,
                                    .base_ms = f.base_ms,
                                    .base_bytes = f.base_bytes,
                                    .more_bytes = f.more_bytes,
                                    .page_size = f.page_size,
                                    .page_count = f.page_count,
                                    .file_count = (size_t)f.file_count,
                                    .hashes = df_malloc((size_t)hashes_len + 1),
                                    .files = df_malloc((size_t)files_len + 1)};
    memcpy(ret->root, f.root, sizeof f.root);
    off_t at = sizeof f;
    bool whole = pread(fd, ret->hashes, (size_t)hashes_len, at) == hashes_len &&
                 pread(fd, ret->files, (size_t)files_len, at + hashes_len) == files_len &&
                 pread(fd, told, 32, at + hashes_len + files_len) == 32;
    if (whole)
        hash_state(&f, ret, real);
    return whole && memcmp(told, real, 32) == 0;
}

void df_backup_state_load(const char *path, struct df_backup_state *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    *ret = (struct df_backup_state){.page_size = 0};
    if (fd < 0)
        return;
    if (fstat(fd, &st) != 0 || !read_state(fd, st.st_size, ret))
        df_backup_state_release(ret);
    (void)close(fd);
}

static bool write_all(int fd, const void *ptr, size_t len)
{
    for (const char *p = ptr; len > 0;) {
        ssize_t n = write(fd, p, len);
        if (n < 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

enum df_code df_backup_state_save(const char *path, const char *data_dir,
                                  const struct df_backup_state *s, struct df_err *err)
{
    char unfinished[4096];
    unsigned char hash[32];
    struct state_file f;

    memset(&f, 0, sizeof f); /* the gaps too: they are hashed */
    memcpy(f.magic, MAGIC, sizeof f.magic);
    f.last = s->last;
    f.base_ms = s->base_ms;
    f.base_bytes = s->base_bytes;
    f.more_bytes = s->more_bytes;
    f.file_count = s->file_count;
    f.page_size = s->page_size;
    f.page_count = s->page_count;
    f.file_bytes = sizeof(struct df_backup_file);
    memcpy(f.root, s->root, sizeof f.root);
    hash_state(&f, s, hash);
    (void)snprintf(unfinished, sizeof unfinished, "%s.new", path);
    int fd = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return df_err_errno(err, "cannot write %s", unfinished);
    enum df_code code = df_owner_give_in(fd, data_dir, err);
    if (code == DF_OK && (!write_all(fd, &f, sizeof f) ||
                          !write_all(fd, s->hashes, s->page_count * sizeof *s->hashes) ||
                          !write_all(fd, s->files, s->file_count * sizeof *s->files) ||
                          !write_all(fd, hash, sizeof hash) || rename(unfinished, path) != 0))
        code = df_err_errno(err, "cannot write %s", path);
    (void)close(fd);
    if (code != DF_OK)
        (void)unlink(unfinished);
    return code;
}
