/* The rights on tables that the server needs, made from its queries by tools/rights.py. */
#ifndef DF_APP_DOCTOR_RIGHTS_H
#define DF_APP_DOCTOR_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

struct df_table_rights {
    const char *table; /* NULL after the last */
    bool select, insert, update, delete;
};

extern const struct df_table_rights df_table_rights[];

#endif
