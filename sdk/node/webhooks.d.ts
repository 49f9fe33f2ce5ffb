/// <reference types="node" />
import type { IncomingHttpHeaders } from 'node:http';

export interface WebhookEvent {
  event: string;
  clientId: string;
  status: string;
  batchId?: string;
  businessDocId?: string;
  [member: string]: unknown;
}
export interface VerifyOptions {
  /** How far the timestamp may be from now; default 300. */
  toleranceSeconds?: number;
  /** Unix seconds; for tests. */
  now?: number;
}
export type WebhookHeaders = IncomingHttpHeaders | Record<string, string | string[] | undefined> | { get(name: string): string | null };

/** The event of a delivery that was signed with one of the secrets, not long ago; else throws a WebhookError. */
export declare function verifyWebhook(body: string | Uint8Array, headers: WebhookHeaders, secrets: string | readonly string[], options?: VerifyOptions): WebhookEvent;
/** The same of a body that was kept without its headers. It tells nothing about when it was sent. */
export declare function verifyStoredWebhook(body: string | Uint8Array, secrets: string | readonly string[]): WebhookEvent;
export declare class WebhookError extends Error {}
