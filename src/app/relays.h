/* The relays that `dataflow serve` starts: those that are configured, and one for its own events.
 */
#ifndef DF_APP_RELAYS_H
#define DF_APP_RELAYS_H

#include "app/settings.h"
#include "relay/relays.h"

/*
 * own: filled with the settings of the relay for own events, which live as long as the relays;
 * df_settings_release.
 */
enum df_code df_app_relays_start(const struct df_settings *set, const struct df_clock *clock,
                                 struct df_outbound *outbound, struct df_settings *own,
                                 struct df_relays **ret, struct df_err *err) DF_MUST_CHECK;

#endif
