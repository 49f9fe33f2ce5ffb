/*
 * A file embedded in the binary at build time (tools/embed_files.py): schema scripts, the console.
 * A NUL follows the data and is not counted, so that text files can be used as C strings.
 */
#ifndef DF_BASE_FILE_H
#define DF_BASE_FILE_H

#include <stddef.h>

struct df_file {
    const char *name; /* relative, with '/': "sqlite/010_interface.sql" */
    const unsigned char *data;
    size_t len;
};

#endif
