/*
 * Text in a CSV file that a spreadsheet program would run as a formula. Error reports put an
 * apostrophe before it, and uploads take the apostrophe off again, so that a report can be
 * corrected and sent back.
 */
#ifndef DF_TABULAR_FORMULA_H
#define DF_TABULAR_FORMULA_H

#include "base/str.h"

/* True when s begins like a formula (full-width signs count too) and is not just a signed number or
 * a phone. Apostrophes in front are passed over: a guarded text needs another guard, because it
 * loses one apostrophe when it is read back. */
bool df_formula_needs_guard(struct df_str s);

#endif
