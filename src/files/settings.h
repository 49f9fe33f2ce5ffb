/* Section [s3], and the settings of [imports] and [security] that concern stored files. */
#ifndef DF_FILES_SETTINGS_H
#define DF_FILES_SETTINGS_H

#include "base/config.h"

enum df_storage_where { DF_STORAGE_LOCAL, DF_STORAGE_S3 };

struct df_storage_settings {
    int where;          /* enum df_storage_where: uploads */
    const char *bucket; /* s3://bucket[/prefix]; NULL: that of `scheduled` */
    /* 64 hexadecimal digits, or base64 of 32 bytes. NULL: files are stored as they are. */
    const struct df_secret *key;
    const struct df_secret *old_key; /* for reading only; NULL: none */
    const char *scheduled;           /* NULL or "local", or s3://bucket[/prefix] */
    struct df_s3_settings {
        const char *endpoint; /* http:// or https:// and a host; NULL: Amazon's for the region */
        const char *region;   /* NULL: us-east-1 */
        const struct df_secret *access_key;
        const struct df_secret *secret_key;
        bool path_style; /* endpoint/bucket/key instead of bucket.endpoint/key */
    } s3;
};

extern const struct df_config_key df_storage_keys[];     /* of [imports] */
extern const struct df_config_key df_storage_key_keys[]; /* of [security] */
extern const struct df_config_key df_s3_keys[];

#endif
