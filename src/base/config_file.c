#include "base/config_private.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void why_errno(struct df_buf *why, const char *what)
{
    char reason[128];
    int saved = errno;
    df_buf_addf(why, "%s: %s", what, strerror_r(saved, reason, sizeof(reason)));
}

unsigned df_config_shared_mode(unsigned mode, bool is_our_own)
{
    unsigned open_to = S_IRWXO | S_IWGRP | (is_our_own ? S_IRGRP : 0);
    return mode & open_to ? mode & 07777 : 0;
}

/* O_NONBLOCK keeps a named pipe without a writer from hanging the start. */
char *df_config_read(const char *path, bool regular_only, size_t max_bytes, size_t *ret_len,
                     unsigned *ret_shared, struct df_buf *why)
{
    char *text = NULL;
    struct stat st;
    size_t len = 0;
    *ret_shared = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular_only ? O_NONBLOCK : 0));

    if (fd < 0 || fstat(fd, &st) < 0) {
        why_errno(why, "cannot be read");
        goto out;
    }
    if (S_ISDIR(st.st_mode) || (regular_only && !S_ISREG(st.st_mode))) {
        df_buf_addz(why, "is not a regular file");
        goto out;
    }
    *ret_shared =
        S_ISREG(st.st_mode) ? df_config_shared_mode(st.st_mode, st.st_uid == geteuid()) : 0;
    text = df_malloc(max_bytes + 1);
    for (ssize_t n = 1; n > 0 && len <= max_bytes; len += (size_t)n) {
        n = read(fd, text + len, max_bytes + 1 - len);
        if (n < 0) {
            why_errno(why, "cannot be read");
            break;
        }
    }
    if (len > max_bytes && why->len == 0)
        df_buf_addf(why, "is larger than %zu bytes", max_bytes);
out:
    if (fd >= 0)
        close(fd);
    if (text && why->len > 0) {
        df_wipe(text, len);
        free(text);
        text = NULL;
    }
    *ret_len = len;
    return text;
}
