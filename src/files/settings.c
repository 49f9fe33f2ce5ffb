#include "files/settings.h"

#define S struct df_storage_settings

/* clang-format off */
const struct df_config_key df_scheduled_keys[] = {
    DF_KEY_STRING("scheduled_storage", S, scheduled, "local", "Where files of scheduled batches wait: local, or s3://bucket/prefix."),
    {.key = NULL},
};

const struct df_config_key df_storage_key_keys[] = {
    DF_KEY_SECRET("storage_key", S, key, "Key of stored files, 32 bytes as 64 hexadecimal digits or in base64; without it files are not encrypted."),
    DF_KEY_SECRET("storage_old_key", S, old_key, "The previous key: files are still read with it."),
    {.key = NULL},
};

const struct df_config_key df_s3_keys[] = {
    DF_KEY_OPTIONAL("endpoint", S, s3.endpoint, "URL of an S3 storage; default: Amazon's, of the region."),
    DF_KEY_STRING("region", S, s3.region, "us-east-1", "Region that requests are signed for."),
    DF_KEY_SECRET("access_key", S, s3.access_key, "Access key; needed when scheduled_storage is s3://."),
    DF_KEY_SECRET("secret_key", S, s3.secret_key, "Secret of the access key."),
    DF_KEY_BOOL("path_style", S, s3.path_style, "off", "endpoint/bucket/key instead of bucket.endpoint/key."),
    {.key = NULL},
};
/* clang-format on */
