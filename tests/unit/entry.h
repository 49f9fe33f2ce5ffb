/*
 * Where tests/unit/runner.c finds the tests of one file. The Makefile includes this before every
 * file and gives its main() another name, so that all can be linked into one program.
 */
#ifndef DF_TESTS_ENTRY_H
#define DF_TESTS_ENTRY_H

struct unit_entry {
    const char *name; /* room and file: base/str */
    int (*run)(void);
};

#ifdef UNIT_NAME
int main(void);

/* Retained because the runner asks for the bounds of the section. */
static const struct unit_entry *const unit_entry __attribute__((section("unit_entries"), used)) =
    &(const struct unit_entry){UNIT_NAME, main};
#endif

#endif
