/* The answer of the lists of failures by cause. */
#ifndef DF_ACCESS_CAUSES_H
#define DF_ACCESS_CAUSES_H

#include "base/cause.h"
#include "json/write.h"

#define DF_CAUSES_SHOWN  50
#define DF_CAUSES_LOOKED INT64_C(10000) /* failures, the newest */
#define DF_CAUSES_PAGE   INT64_C(1000)  /* that are read at once */

/* {"items": [ … ], "total": failures that were counted, "causes": how many there are}. */
void df_causes_write(struct df_causes *c, struct df_json_out *out);

#endif
