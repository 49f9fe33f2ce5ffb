#include "access/services.h"

static void submit(struct df_req *req, struct df_job *job,
                   bool (*push)(struct df_store *s, struct df_job *job))
{
    job->log = df_req_log(req);
    df_req_suspend(req);
    if (push(df_access_of(req)->store, job))
        return;
    df_req_fail(req, DF_E_BUSY, "Too many requests are waiting for the database.");
    df_req_resume(req);
}

void df_req_write(struct df_req *req, struct df_job *job)
{
    submit(req, job, df_store_write);
}

void df_req_read(struct df_req *req, struct df_job *job)
{
    submit(req, job, df_store_read);
}
