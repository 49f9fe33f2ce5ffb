import testing from './testing.js';

export const { FakeServer, signWebhook } = testing;
