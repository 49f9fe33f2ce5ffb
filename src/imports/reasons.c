#include "imports/reasons.h"

static const struct import_reason reasons[] = {
    {"PhoneMissing", "There is no phone number.", false, "PhoneNumber"},
    {"PhoneWithoutDigits", "The phone number has no digits.", false, "PhoneNumber"},
    {"PhoneTooShort", "The phone number has too few digits.", false, "PhoneNumber"},
    {"PhoneTooLong", "The phone number has too many digits for Brazil.", false, "PhoneNumber"},
    {"PhoneAreaCodeMissing", "The phone number has no area code.", false, "PhoneNumber"},
    {"PhoneAreaCodeUnknown", "The phone number's area code does not exist in Brazil.", false,
     "PhoneNumber"},
    {"PhoneNinthDigitInvalid", "The phone number has nine digits, but the first is not 9.", false,
     "PhoneNumber"},
    {"PhoneFirstDigitInvalid", "No number in Brazil begins with 0 or 1 after the area code.", false,
     "PhoneNumber"},
    {"PhoneLengthInvalid", "The phone number has neither eight nor nine digits.", false,
     "PhoneNumber"},
    {"PhoneServiceNumber", "The phone number is a service number, not a person's.", false,
     "PhoneNumber"},
    {"PhoneDigitsAllSame", "All digits of the phone number are the same.", false, "PhoneNumber"},
    {"PhoneHasLetters", "The phone number has letters in the middle of it.", false, "PhoneNumber"},
    {"PhoneDigitsLost", "The phone number lost digits to scientific notation.", false,
     "PhoneNumber"},
    {"PhoneCountryUnknown", "The phone number's country code does not exist.", false,
     "PhoneNumber"},
    {"PhoneNorthAmericaInvalid", "The phone number does not exist in North America.", false,
     "PhoneNumber"},
    {"PhoneForeignLengthInvalid", "The foreign phone number has too few or too many digits.", false,
     "PhoneNumber"},
    {"OriginTooLong", "The origin has more than 200 characters.", false, "Origin"},
    {"RecordTooLarge", "The record is larger than 1 MiB.", false, NULL},
    {"RecordTooDeep", "A value is nested more than 60 deep.", false, NULL},
    {"EmptyRow", "The row is empty.", false, NULL},
    {"RepeatedRecord", "The record repeats an earlier one of the file.", false, NULL},
    {IMPORT_REASON_REFUSED, "OmniFlow refused the record.", true, NULL},
    {IMPORT_REASON_SKIPPED, "OmniFlow skipped the record.", false, NULL},
    {IMPORT_REASON_UNAVAILABLE, "OmniFlow could not take the record.", true, NULL},
    {IMPORT_REASON_NO_ACK, "OmniFlow never confirmed the record.", true, NULL},
    {IMPORT_REASON_NOT_KEPT, "The record is no longer kept and was not sent again.", false, NULL},
};

const struct import_reason *import_reason_find(struct df_str code)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (df_str_ieq(code, df_str_c(reasons[i].code)))
            return &reasons[i];
    return NULL;
}
