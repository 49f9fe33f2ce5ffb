/* File descriptors: connections must leave enough of them for everything else. */
#ifndef DF_APP_FILES_H
#define DF_APP_FILES_H

#include <stdint.h>

/*
 * Raises the limit of open files as far as allowed, so that `wanted` connections and the server's
 * own files fit. Returns how many connections fit, and logs if they are fewer.
 */
int64_t df_files_for_connections(int64_t wanted);

#endif
