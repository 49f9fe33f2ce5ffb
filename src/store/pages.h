/* The pages of the embedded database at one moment. */
#ifndef DF_STORE_PAGES_H
#define DF_STORE_PAGES_H

#include "store/db.h"

#define DF_PAGE_SIZE_MIN 512
#define DF_PAGE_SIZE_MAX 65536

/* Whether SQLite never uses this page: that with the byte it locks. No reader gives it. */
static inline bool df_page_is_locks(uint64_t number, uint32_t page_size)
{
    return number == UINT64_C(0x40000000) / page_size + 1;
}

/*
 * Calls `page` for every page, as the transaction sees it that the caller has begun on db: not to
 * write, and something was read in it. Numbers begin with 1 and come in no order; a page may come
 * twice, and then the last counts. Writers go on meanwhile. An error of `page` ends it and is
 * returned. DF_E_USAGE: not SQLite.
 */
enum df_code df_pages_read(struct df_db *db,
                           enum df_code (*page)(void *arg, uint32_t number, const void *bytes,
                                                size_t len, struct df_err *err),
                           void *arg, struct df_err *err) DF_MUST_CHECK;

#endif
