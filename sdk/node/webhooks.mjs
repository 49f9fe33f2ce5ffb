import webhooks from './webhooks.js';

export const { verifyWebhook, verifyStoredWebhook, WebhookError } = webhooks;
