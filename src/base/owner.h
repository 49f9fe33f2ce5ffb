/* Whose a file is. A command that root runs must not take files from the user that runs the
 * server. */
#ifndef DF_BASE_OWNER_H
#define DF_BASE_OWNER_H

#include "base/err.h"

/* Gives a file of root's to the owner of another file, or of a directory. Does nothing unless this
 * process is root's and the other owner is somebody else. */
enum df_code df_owner_give(int fd, int like_fd, struct df_err *err) DF_MUST_CHECK;
/* The same, to the owner of a directory by its path. */
enum df_code df_owner_give_in(int fd, const char *dir, struct df_err *err) DF_MUST_CHECK;

#endif
