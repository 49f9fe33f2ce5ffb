#include "base/owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum df_code df_owner_give(int fd, int like_fd, struct df_err *err)
{
    struct stat file, like;

    if (geteuid() != 0)
        return DF_OK;
    if (fstat(fd, &file) != 0 || fstat(like_fd, &like) != 0)
        return df_err_errno(err, "cannot see whose a file is");
    if (file.st_uid != 0 || like.st_uid == 0)
        return DF_OK;
    return fchown(fd, like.st_uid, like.st_gid) == 0
               ? DF_OK
               : df_err_errno(err, "cannot give a file to the user that runs the server");
}

enum df_code df_owner_give_in(int fd, const char *dir, struct df_err *err)
{
    int dir_fd = geteuid() == 0 ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (dir_fd < 0)
        return DF_OK; /* not root, or the file is not there either */
    enum df_code code = df_owner_give(fd, dir_fd, err);
    (void)close(dir_fd);
    return code;
}
