#include "files/settings.h"

static const char *const where_names[] = {
    [DF_STORAGE_LOCAL] = "local", [DF_STORAGE_S3] = "s3", NULL};

#define S struct df_storage_settings

/* clang-format off */
const struct df_config_key df_storage_keys[] = {
    DF_KEY_ENUM("storage", S, where, "local", where_names, "Where uploads go: to the disk, or straight to the bucket, so that any worker on any host can take any batch."),
    DF_KEY_OPTIONAL("bucket", S, bucket, "The bucket of uploads, s3://bucket/prefix; default: that of scheduled_storage."),
    DF_KEY_STRING("scheduled_storage", S, scheduled, "local", "With storage = local, where files of scheduled batches wait: local, or s3://bucket/prefix."),
    {.key = NULL},
};

const struct df_config_key df_storage_key_keys[] = {
    DF_KEY_SECRET("storage_key", S, key, "Key of stored files, 32 bytes as 64 hexadecimal digits or in base64; without it files are under data keys."),
    DF_KEY_SECRET("storage_old_key", S, old_key, "The previous key: files are still read with it."),
    {.key = NULL},
};

const struct df_config_key df_s3_keys[] = {
    DF_KEY_OPTIONAL("endpoint", S, s3.endpoint, "URL of an S3 storage; default: Amazon's, of the region."),
    DF_KEY_STRING("region", S, s3.region, "us-east-1", "Region that requests are signed for."),
    DF_KEY_SECRET("access_key", S, s3.access_key, "Access key; needed with a bucket."),
    DF_KEY_SECRET("secret_key", S, s3.secret_key, "Secret of the access key."),
    DF_KEY_BOOL("path_style", S, s3.path_style, "off", "endpoint/bucket/key instead of bucket.endpoint/key."),
    {.key = NULL},
};
/* clang-format on */
