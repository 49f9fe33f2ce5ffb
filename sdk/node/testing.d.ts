/// <reference types="node" />
import type { IncomingHttpHeaders } from 'node:http';

export interface FakeRequest {
  method: string;
  path: string;
  /** As in the OpenAPI document, `GET /imports/{batchId}`; null if there is none. */
  operation: string | null;
  params: Record<string, string>;
  query: Record<string, string>;
  headers: IncomingHttpHeaders;
  /** Parsed JSON; of a form its fields, `file` as a Buffer; else a Buffer; undefined if it was refused before. */
  body?: any;
}
export interface FakeReply {
  /** Default 200. */
  status?: number;
  headers?: Record<string, string>;
  /** Text and Buffers as they are, anything else as JSON. */
  body?: unknown;
}

/** A server in the test's own process that answers as DataFlow would. */
export declare class FakeServer {
  static start(): Promise<FakeServer>;
  private constructor();
  readonly baseUrl: string;
  /** For `new DataFlow(…)`. */
  readonly options: { baseUrl: string; clientId: string; clientSecret: string; adminKey: string; retryBaseMs: number };
  /** Every request, oldest first. */
  readonly requests: FakeRequest[];
  /** What was uploaded, by batch id. */
  readonly imports: Map<string, Record<string, any>>;
  /** Whether imports end by themselves; default true. */
  finishes: boolean;
  /** The next requests of an operation (`POST /imports`) get this answer. */
  reply(operation: string, answer: FakeReply | ((request: FakeRequest) => FakeReply | Promise<FakeReply>), times?: number): this;
  /** Ends an import: `{status: 'Failed', lastError: '…'}`; default Completed. */
  finish(batchId: string, outcome?: Record<string, unknown>): void;
  close(): Promise<void>;
}

/** Body and headers of a webhook delivery, signed as the server signs it. */
export declare function signWebhook(payload: object, secret: string, options?: { id?: string; timestamp?: number }): { body: string; headers: Record<string, string> };
