/* Metrics of batches that receiving, processing and the API share. Thread-safe. */
#ifndef DF_IMPORTS_FIGURES_H
#define DF_IMPORTS_FIGURES_H

#include "imports/batch.h"

void import_figures_register(void);
/* A batch of this client has come into the state, and that is committed. */
void import_note_state(struct df_str client, enum df_batch_status status);

#endif
