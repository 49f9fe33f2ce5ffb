#include "net/gzip.h"

#include "base/mem.h"

#include <zlib.h>

#define GZIP_FORMAT (15 + 16) /* the largest window, with gzip's head and trailer */
#define MEMORY      8

bool df_gzip(struct df_str text, struct df_buf *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text.ptr, .avail_in = (uInt)text.len};

    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_FORMAT, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        df_oom();
    uLong bound = deflateBound(&z, (uLong)text.len);
    char *to = df_buf_grow(out, bound);
    bool done = false;
    if (to) {
        z.next_out = (Bytef *)to;
        z.avail_out = (uInt)bound;
        done = deflate(&z, Z_FINISH) == Z_STREAM_END;
        df_buf_grown(out, (size_t)z.total_out);
    }
    (void)deflateEnd(&z);
    return done;
}
