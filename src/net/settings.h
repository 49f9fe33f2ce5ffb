/* Checks of settings that several rooms have. Each complaint is a line: "[section] name: why". */
#ifndef DF_NET_SETTINGS_H
#define DF_NET_SETTINGS_H

#include "base/config.h"

/* A URL without credentials, which would stand in rows and answers. Absent: fine. */
void df_net_check_url(const char *section, const char *name, struct df_str url,
                      struct df_buf *complaints);
/* [section] api_key_header: one that we do not set ourselves. */
void df_net_check_header(const char *section, const char *name, struct df_buf *complaints);

#endif
