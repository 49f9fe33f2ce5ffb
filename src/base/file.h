/* A file embedded in the binary at build time (tools/embed_files.py): schema scripts, the console.
 */
#ifndef DF_BASE_FILE_H
#define DF_BASE_FILE_H

#include "base/arena.h"

struct df_file {
    const char *name;          /* relative, with '/': "sqlite/010_interface.sql" */
    const unsigned char *data; /* compressed (gzip) */
    size_t len;
    size_t size; /* of the file itself */
};

/* The file as it was. Its memory is the arena's; a NUL follows. */
struct df_str df_file_text(const struct df_file *f, struct df_arena *a);

#endif
