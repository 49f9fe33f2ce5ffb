/// <reference types="node" />
import type { Agent as HttpAgent, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import type { Readable } from 'node:stream';
import type { Batch, Calls, FieldError, OperatorBatch } from './types.js';

export * from './types.js';

export interface ClientOptions {
  /** Where the server is, without `/v1`; default `http://127.0.0.1:8080`. */
  baseUrl?: string;
  clientId?: string;
  clientSecret?: string;
  /** For `admin`. */
  adminKey?: string;
  /** Tries after the first; default 3. */
  retries?: number;
  /** The n-th wait is random, up to `retryBaseMs * 2^n` and not more than `retryCapMs`; defaults 500 and 8000. */
  retryBaseMs?: number;
  retryCapMs?: number;
  /** A `Retry-After` that is longer is not waited for: the error is thrown. Default 60000. */
  maxRetryAfterMs?: number;
  /** How long a try may stand still, also while it connects; 0: for ever; default 60000. */
  timeoutMs?: number;
  /** For proxies, private authorities or client certificates. */
  agent?: HttpAgent | HttpsAgent;
  /** For every request. */
  headers?: Record<string, string>;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Instead of the client's `timeoutMs`. */
  timeout?: number;
  /** Instead of the client's. */
  retries?: number;
  /** Of uploads, `events.publish` and `integrations.call`, which may be repeated with it. No other call takes one. */
  idempotencyKey?: string;
  /** The `ETag` of what is changed. */
  ifMatch?: string;
  correlationId?: string;
  /** Of messages: `pt-BR` or `en`. */
  language?: string;
  headers?: Record<string, string>;
}
export interface OwnCallOptions extends CallOptions {
  /** Another client's, with an admin key; default: the client's own. */
  clientId?: string;
}
export type Query = Record<string, string | number | boolean | Date | null | undefined>;
/** Of a call that the OpenAPI document says nothing more about. */
export type Answer = Record<string, any>;

export interface Page<T> {
  items: T[];
  page?: number;
  pageSize?: number;
  total?: number;
  totalIsEstimate?: boolean;
  next?: string | null;
}
/** Awaited it is the first page, iterated all items of all pages. */
export interface Pages<T> extends AsyncIterable<T>, Promise<Page<T>> {
  pages(): AsyncGenerator<Page<T>, void, undefined>;
  readonly [Symbol.toStringTag]: string;
}

/** A file from the server; read it once. */
export interface Download {
  readonly stream: IncomingMessage;
  readonly contentType: string | null;
  bytes(): Promise<Buffer>;
  text(): Promise<string>;
  json(): Promise<any>;
  /** Into a file, which is there when it is whole. */
  save(path: string): Promise<void>;
}

export interface BatchEvent<B = Batch | OperatorBatch> {
  event: 'progress' | 'completed' | (string & {});
  data: B;
}

/**
 * A path or `file:` URL, bytes, a stream, or a function that opens a stream. Whatever can be opened again is sent again
 * when the connection is lost; a stream only before it was begun.
 */
export type Source = string | URL | ArrayBuffer | ArrayBufferView | Blob | Readable | AsyncIterable<Uint8Array | string>
  | ReadableStream<Uint8Array> | (() => AsyncIterable<Uint8Array | string> | Promise<AsyncIterable<Uint8Array | string>>);
export interface UploadFields {
  originDefault?: string;
  requestedBy?: string;
  sheet?: string | number;
  /** Columns or paths of the file to canonical names. */
  mapping?: Record<string, string | null>;
  metadata?: Record<string, unknown>;
  [name: string]: unknown;
}
export interface UploadOptions extends CallOptions {
  /** Default: of the path. */
  fileName?: string;
  contentType?: string;
  /** Bytes of the file that were handed to the connection; starts over with another try. */
  onProgress?(progress: { sent: number; total: number | null }): void;
}
export type Upload<T> = (source: Source, fields?: UploadFields, options?: UploadOptions) => Promise<T>;

export interface WaitOptions<B> extends CallOptions {
  /** Milliseconds (at most 24 days) after which a TimeoutError is thrown; default: never. */
  timeout?: number;
  onProgress?(batch: B): void;
  /** false: only by asking. */
  events?: boolean;
  /** Between two questions, growing to ten seconds while nothing changes; default 1000. */
  pollMs?: number;
  /** How long the server may be away; default 300000. */
  maxOutageMs?: number;
}
export type Wait<B> = (batchId: string, options?: WaitOptions<B>) => Promise<B>;

export interface IntegrationOptions extends CallOptions {
  /** Default `GET`. */
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  query?: Query;
  /** Bytes or text as they are; anything else as JSON. */
  body?: unknown;
  /** `enqueue`: if the other side is away the server keeps the call and makes it later (status 202). */
  onUnavailable?: 'enqueue';
}
/** What the other side answered, errors too. A problem document, 408, 429 and 5xx are the server's own, and thrown. */
export interface IntegrationAnswer {
  /** Look at it: it need not be a success. */
  status: number;
  headers: IncomingHttpHeaders;
  /** Parsed if it is JSON, else a Buffer. */
  body: any;
}
export type IntegrationCall = (name: string, path?: string, options?: IntegrationOptions) => Promise<IntegrationAnswer>;

export interface DataFlow extends Calls {}
export declare class DataFlow {
  constructor(options?: ClientOptions);
  readonly clientId: string | undefined;
  /** Closes kept connections. */
  close(): void;
}

export declare class DataFlowError extends Error {}
/** No answer came. */
export declare class NetworkError extends DataFlowError {}
/** A try stood still, or a wait was over. */
export declare class TimeoutError extends NetworkError {}
/** By the caller's signal; `cause` is its reason. */
export declare class AbortError extends DataFlowError {}
/** The server answered with an error. */
export declare class ApiError extends DataFlowError {
  readonly status: number;
  /** Stable, PascalCase; null if no problem document came. */
  readonly code: string | null;
  readonly type: string | null;
  readonly title: string | null;
  readonly detail: string | null;
  /** Every bad field. */
  readonly errors: FieldError[];
  readonly correlationId: string | null;
  /** Seconds. */
  readonly retryAfter: number | null;
  /** The whole document. */
  readonly problem: Record<string, any>;
}
/** 400, 415, 422 */
export declare class ValidationError extends ApiError {}
/** 401 */
export declare class AuthenticationError extends ApiError {}
/** 403 */
export declare class PermissionError extends ApiError {}
/** 404, 410 */
export declare class NotFoundError extends ApiError {}
/** 409 */
export declare class ConflictError extends ApiError {}
/** 412, 428 */
export declare class PreconditionError extends ApiError {}
/** 413 */
export declare class TooLargeError extends ApiError {}
/** 429 */
export declare class RateLimitError extends ApiError {}
/** 5xx */
export declare class ServerError extends ApiError {}

/** Status and headers that an answer of a call came with, `etag` and `x-correlation-id` among them. */
export declare function responseOf(answer: object): { status: number; headers: IncomingHttpHeaders } | undefined;
export declare const version: string;
