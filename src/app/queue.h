/* The queue that tells workers of batches (imports.queue): the relay that sends its messages, and
 * what the parts have of it. */
#ifndef DF_APP_QUEUE_H
#define DF_APP_QUEUE_H

#include "app/settings.h"
#include "imports/imports.h"

struct df_app;

/* The settings of the relay. Texts are constants, or the settings'. False: there is no queue. */
bool df_queue_relay(const struct df_settings *s, struct df_relay_settings *ret);
/* Complains of a broker that cannot be used. */
void df_queue_check(const struct df_settings *s, struct df_buf *complaints);
/* What the imports call; empty without a queue. */
struct df_imports_queue df_queue_of(struct df_app *app);

#endif
