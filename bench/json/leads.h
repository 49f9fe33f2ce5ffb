/* The file that all parsers read: leads as a campaign tool exports them, the same bytes every time.
 */
#ifndef BENCH_LEADS_H
#define BENCH_LEADS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes an array of records until the file has at least `bytes`. 0, or -1 and errno. */
int bench_leads_write(const char *path, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
