#include "base/file.h"

#include <assert.h>
#include <zlib.h>

struct df_str df_file_text(const struct df_file *f, struct df_arena *a)
{
    char *text = df_arena_alloc(a, f->size + 1);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)f->data, /* only read */
                  .avail_in = (uInt)f->len,
                  .next_out = (Bytef *)text,
                  .avail_out =
                      (uInt)f->size + 1}; /* one to spare, so that an empty file ends too */

    int code = inflateInit2(&z, 16 + MAX_WBITS);
    assert(code == Z_OK);
    code = inflate(&z, Z_FINISH);
    /* What the build has written is whole. */
    assert(code == Z_STREAM_END && z.total_out == f->size);
    (void)code;
    (void)inflateEnd(&z);
    text[f->size] = '\0';
    return df_str_n(text, f->size);
}
