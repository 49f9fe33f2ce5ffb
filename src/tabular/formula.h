/*
 * Text that a spreadsheet program would run as a formula when it stands in a CSV file. Error
 * reports put an apostrophe before it, and uploads take that off again: a report can be mended and
 * sent.
 */
#ifndef DF_IMPORTS_FORMULA_H
#define DF_IMPORTS_FORMULA_H

#include "base/str.h"

/* It begins like a formula, also in full width, and is more than a signed number or a phone; or it
 * is such a text with apostrophes before it, which would lose one when it is read back. */
bool df_formula_needs_guard(struct df_str s);

#endif
