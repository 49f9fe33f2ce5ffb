/* The limit: every entry of an archive inflated and its checksum checked, by libzip. */
#include <stdio.h>
#include <time.h>
#include <zip.h>

int main(int argc, char **argv)
{
    static char buffer[1 << 17];
    struct timespec begun, ended;
    int error = 0;
    unsigned long long bytes = 0;
    if (argc != 2)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    zip_t *zip = zip_open(argv[1], ZIP_RDONLY, &error);
    if (!zip)
        return 1;
    for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); i++) {
        zip_file_t *file = zip_fopen_index(zip, (zip_uint64_t)i, 0);
        zip_int64_t n;
        while ((n = zip_fread(file, buffer, sizeof buffer)) > 0)
            bytes += (unsigned long long)n;
        if (n < 0 || zip_fclose(file) != 0)
            return 1;
    }
    zip_discard(zip);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("{\"seconds\":%.4f,\"bytes\":%llu}\n",
           (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9,
           bytes);
    return 0;
}
