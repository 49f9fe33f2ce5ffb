// Written by tools/types.mjs from console/openapi.json: not to be edited.
import type { Answer, BatchEvent, CallOptions, Download, IntegrationCall, OwnCallOptions, Pages, Query, Upload, Wait } from './index.js';

export type Scope = 'interface' | 'callback' | 'imports' | 'acks' | 'events' | 'integrations' | 'interface-all';
export interface Health { status: 'ok'; version: string; uptimeSeconds: number }
export interface Readiness {
  status: 'ready'; checks: ReadinessCheck[]; channels?: Array<{ name: string; configured: boolean; missing?: string }>; maintenance?: Maintenance;
}
export interface ReadinessCheck {
  name: string; status: 'ok' | 'failed'; detail?: string; backend?: 'sqlite' | 'postgres' | 'sqlserver';
}
export interface Client {
  clientId: string; name: string; status: 'Active' | 'Suspended'; scopes: Scope[]; createdAt: string; lastSeenAt: string | null;
}
export interface ClientPage {
  items: Client[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface ClientCreate { name: string; clientId?: string; scopes?: Scope[] }
export interface ClientCreated { clientId: string; clientSecret: string }
export interface ClientSecret { clientId: string; clientSecret: string; previousSecretValidUntil?: string }
export interface ClientUpdate { status?: 'Active' | 'Suspended'; scopes?: Scope[] | string }
export interface Policy {
  clientId: string; maxFileSizeMb: number | null; maxBatchPerDay: number | null; allowedStartHour: number | null; allowedEndHour: number | null;
  requireSchedulingForLarge: boolean; largeThresholdMb: number | null; batchSize: number | null; requestsPerMinute: number | null;
  concurrentUploads: number | null; businessHoursOnly: boolean | null; businessStartHour: number | null; businessEndHour: number | null;
  maintenanceWindow: string | null; tempStorageQuotaMb: number | null; maxConcurrentBatches: number | null; maxRecords: number | null;
  createdAt: string | null; updatedAt: string | null;
}
export interface PolicyChange {
  maxFileSizeMb?: number | null; maxBatchPerDay?: number | null; allowedStartHour?: number | null; allowedEndHour?: number | null;
  requireSchedulingForLarge?: boolean | null; largeThresholdMb?: number | null; batchSize?: number | null; requestsPerMinute?: number | null;
  concurrentUploads?: number | null; businessHoursOnly?: boolean | null; businessStartHour?: number | null; businessEndHour?: number | null;
  maintenanceWindow?: string | null; tempStorageQuotaMb?: number | null; maxConcurrentBatches?: number | null; maxRecords?: number | null;
}
export interface WhoAmI { clientId: string; name: string; scopes: Scope[]; status: 'Active' | 'Suspended' }
export interface AuditEntry {
  id: number; sequence: number | null; occurredAt: string; actor: string; action: string; target: string | null; outcome: 'ok' | 'failed' | 'denied';
  ip: string | null; correlationId: string | null; details?: Record<string, unknown>;
}
export interface AuditPage {
  items: AuditEntry[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export type OutboxStatus = 'Pending' | 'Sending' | 'Sent' | 'Error' | 'PENDING' | 'PROCESSED' | 'FAILED';
export interface OutboxOverview { channels: OutboxChannel[]; targets: OutboxTarget[] }
export interface OutboxChannel {
  channel: string; configured: boolean; missing?: string;
  counts: {
    Pending?: number; Sending?: number; Sent?: number; Error?: number; PENDING?: number; PROCESSED?: number; FAILED?: number;
  };
  oldestPendingAt: string | null; waiting: number; oldestWaitingAt: string | null; held: number; givenUp: number; givenUpSince: string | null;
  givenUpByTarget: OutboxGivenUp[]; paused: boolean; pausedAt?: string | null; pausedBy?: string | null; targets: OutboxTarget[];
}
export interface OutboxRow {
  id: string; reference: string; targetUrl: string | null; status: string; attempts: number; createdAt: string; lastAttemptAt: string | null;
  sentAt: string | null; nextAttemptAt: string | null; lastError: string | null; tries: number; firstFailedAt: string | null; heldFor: string | null;
  givenUp: boolean; dismissedAt: string | null; willRetry?: boolean;
}
export interface OutboxPage {
  items: OutboxRow[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface OutboxRowWhole {
  id: string; reference: string; targetUrl: string | null; status: string; attempts: number; createdAt: string; lastAttemptAt: string | null;
  sentAt: string | null; nextAttemptAt: string | null; lastError: string | null; tries: number; firstFailedAt: string | null; heldFor: string | null;
  givenUp: boolean; correlationId?: string; payload: string; attemptsHistory: OutboxAttempt[]; dismissedAt: string | null; willRetry?: boolean;
  payloadMasked?: boolean; waitingFor?: WaitingFor | null;
}
export interface OutboxAttempt {
  attempt: number; attemptedAt: string; outcome: 'Sent' | 'Retry' | 'Error'; httpStatus: number | null; durationMs: number; answer: string | null;
  error: string | null;
}
export interface OutboxRetried { id: string; status: 'Pending' | 'PENDING' }
export interface OutboxRetryFilter {
  status?: 'Error' | 'FAILED' | null; target?: string | null; error?: string | null; givenUp?: boolean | null; since?: string | null;
  until?: string | null; all?: boolean | null; dryRun?: boolean | null;
}
export interface OutboxRetriedAll { matched: number; retried: number; byChannel: { [name: string]: number }; left?: number }
export interface OutboxDismissed { id: string; status: 'Error' | 'FAILED'; dismissed: boolean }
export interface OutboxDismissedAll { matched: number; dismissed: number; byChannel: { [name: string]: number }; left?: number }
export interface Dismissed { id: number; dismissed: boolean }
export interface CircuitBreakerList { items: CircuitBreaker[] }
export interface CircuitBreaker {
  name: string; state: 'CLOSED' | 'OPEN' | 'HALF_OPEN'; since: string; failureRate: number | null; slowRate: number | null; window: number;
  calls: number; failed: number; slow: number; notPermitted: number; lastFailureAt: string | null; retryMs: number;
}
export interface WorkOwnerList { items: WorkOwner[]; unowned: OwnedWork[] }
export interface WorkOwner {
  id: string; name: string; version: string; startedAt: string; renewedAt: string; leaseUntil: string; isLate: boolean; work: OwnedWork[];
}
export interface OwnedWork { channel: string; shards: number[] }
export interface Alert {
  id: string; rule: string; subject: string; severity: 'critical' | 'error' | 'warning' | 'info'; summary: string; details: Record<string, unknown>;
  status: 'firing' | 'resolved'; firedAt: string; resolvedAt: string | null; acknowledgedBy?: string | null; acknowledgedAt?: string | null;
  acknowledgedNote?: string | null; silenced?: boolean; link?: string;
}
export interface AlertPage {
  items: Alert[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string; sinks: Array<'pagerduty' | 'teams'>;
}
export interface PurgeRequest {
  batchId?: string; clientId?: string; olderThanDays?: number; subject?: string | { phone?: string; document?: string; email?: string };
  dryRun?: boolean;
}
export interface PurgeResult {
  dryRun: boolean; jobId?: string; state?: 'Running' | 'Done'; counts: { [name: string]: number }; skipped: { [name: string]: number };
}
export interface PurgeJob {
  jobId: string; kind: 'batch' | 'client' | 'older' | 'subject'; target: string; before: string | null;
  state: 'Running' | 'Cancelling' | 'Cancelled' | 'Done'; counts: { [name: string]: number }; skipped: { [name: string]: number }; createdBy: string;
  createdAt: string; updatedAt: string; endedAt: string | null; lastError: string | null;
}
export interface PurgeJobPage { items: PurgeJob[]; page: number; pageSize: number; total: number }
export interface Retention {
  kinds: Array<{ kind: string; setting: string; days: number; over?: number; overIsAtLeast?: boolean }>; countedAt: string | null;
  nextRunAt: string | null;
}
export interface AlertTest { id: string; sinks: Array<'pagerduty' | 'teams'> }
export interface TicketFlat {
  businessEntity: string; businessDocId: string; companyCode: string; branchCode: string; destinationCode: string; phaseCode: number | string;
  shipmentEvent: string; functionalAckIsRequired?: boolean | string; targetApplicationCode: string; weights?: TicketWeights;
}
export interface TicketWeights { gross?: number | string; tare?: number | string; net?: number | string; unit?: string }
export interface TicketEnvelope {
  shipmentTicket: {
    functionalDocID: {
      businessAppID?: string; businessEntity: string; businessDocID: string; originalBusinessDocID?: string; userID?: string;
    };
    functionalAckIsRequired?: boolean | string;
    header: {
      companyCode: string; branchCode: string; destinationCode: string; phaseCode: number | string; shipmentEvent: string;
      targetApplications: { targetApplication?: Array<{ applicationCode?: string }> };
    };
    data?: { weights?: TicketWeights };
  };
}
export interface TicketReceived {
  id: number; businessEntity: string; businessDocId: string; phaseCode: number; status: 'Awaiting' | 'Processing' | 'Processed' | 'Error';
  created: boolean;
}
export interface TicketReprocessed {
  id: number; businessEntity: string; businessDocId: string; phaseCode: number; status: 'Awaiting'; payloadVersion: number;
}
export interface TicketFilter {
  businessEntity?: string; status?: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; phaseCode?: number; clientId?: string; error?: string;
  from?: string; to?: string; all?: boolean; dryRun?: boolean;
}
export interface TicketsReprocessed { matched: number; reprocessed: number; left: number }
export interface Ticket {
  id: number; businessEntity: string; businessDocId: string; phaseCode: number; companyCode: string; branchCode: string; destinationCode: string;
  shipmentEvent: string; functionalAckIsRequired: boolean; targetApplicationCode: string; createdAt: string; updatedAt: string;
  payloadVersion: number; status: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; attemptCount: number; lastError: string | null;
  nextAttemptAt: string | null; returnStatus: 'Pending' | 'Sending' | 'Sent' | 'Error'; returnAttemptCount: number; returnLastError: string | null;
  returnLastAttemptAt: string | null; returnSentAt: string | null; returnNextAttemptAt: string | null;
  gatewaySendStatus: 'Pending' | 'Sending' | 'Sent' | 'Error'; gatewaySendAttemptCount: number; gatewaySendLastError: string | null;
  gatewaySendLastAttemptAt: string | null; gatewaySendSentAt: string | null; gatewaySendNextAttemptAt: string | null;
  callbackStatus: 'Pending' | 'Received' | 'Success' | 'Error'; callbackReceivedAt: string | null; callbackCode: string | null;
  callbackMessage: string | null; rawPayloadJson?: string | null; callbackPayloadJson?: string | null;
}
export interface TicketList { items: Ticket[] }
export interface TicketPage {
  items: Ticket[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface TicketCallback {
  businessEntity: string; businessDocId: string; phaseCode: number | string; status: 'Success' | 'Error' | 'Warning'; code?: string | null;
  message?: string | null; processedAt?: string | null; details?: unknown;
}
export interface TicketCallbackTaken {
  businessEntity: string; businessDocId: string; phaseCode: number; callbackStatus: 'Pending' | 'Received' | 'Success' | 'Error';
}
export interface CounterpartyAddress {
  addressTypeCode?: string | null; addressTypeName?: string | null; phone?: string | null; fax?: string | null; addrLine1?: string | null;
  addrLine2?: string | null; cityCode?: string | null; zipCode?: string | null; state?: string | null; district?: string | null;
  isMainAddress?: boolean; isDeleted?: boolean;
}
export interface FiscalReference {
  fiscalReferenceTypeCode?: string | null; fiscalReferenceTypeName?: string | null; fiscalNumber?: string | null;
}
export interface CounterpartyPost {
  businessDocId: string; businessAppId?: string | null; businessEntity?: string | null; originalBusinessDocId?: string | null;
  counterpartyId?: string | null; entityType?: string | null; name?: string | null; localName?: string | null; searchName?: string | null;
  referenceCode?: string | null; isDeleted?: boolean; source?: string | null; functionalAckIsRequired?: boolean; addresses?: CounterpartyAddress[];
  fiscalReferences?: FiscalReference[];
}
export interface CounterpartyStored { id: number; businessDocId: string; status: 'Received'; created: boolean }
export interface CounterpartySettlement { status: 'Processed' | 'Error'; message?: string | null }
export interface CounterpartyItem {
  id: number; businessDocId: string; businessAppId: string | null; businessEntity: string | null; originalBusinessDocId: string | null;
  counterpartyId: string | null; entityType: string | null; name: string | null; localName: string | null; searchName: string | null;
  referenceCode: string | null; isDeleted: boolean; source: string | null; status: string; statusMessage: string | null; createdAt: string;
  updatedAt: string | null;
}
export interface Counterparty {
  id: number; businessDocId: string; businessAppId: string | null; businessEntity: string | null; originalBusinessDocId: string | null;
  counterpartyId: string | null; entityType: string | null; name: string | null; localName: string | null; searchName: string | null;
  referenceCode: string | null; isDeleted: boolean; source: string | null; status: string; statusMessage: string | null; createdAt: string;
  updatedAt: string | null; rawPayload: string | null; addresses: CounterpartyAddress[]; fiscalReferences: FiscalReference[];
}
export interface CounterpartyPage {
  items: CounterpartyItem[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface FunctionalAckPost {
  businessEntity: string; businessDocId: string; operation: 'CREATE' | 'UPDATE' | 'PROCESS'; status: '200' | '201' | '400' | '500'; message?: string;
  businessAppId?: string; originalBusinessDocId?: string; userId?: string; originalBusinessObject?: 'AS400_TICKET' | 'AS400_COUNTERPARTY';
}
export interface FunctionalAckQueued { id: number; businessDocId: string; status: 'Pending' }
export interface FunctionalAck {
  id: number; businessDocId: string; targetUrl: string; status: 'Pending' | 'Sending' | 'Sent' | 'Error'; attemptCount: number; createdAt: string;
  lastAttemptAt: string | null; sentAt: string | null; nextAttemptAt: string | null; lastError: string | null;
}
export interface FunctionalAckPage { items: FunctionalAck[]; page: number; pageSize: number; total: number }
export interface OwnerChange { clientId: string | null }
export interface Owner { id: number; businessEntity: string | null; businessDocId: string; clientId: string | null }
export interface FieldError { field: string; message: string }
export type BatchStatus = 'Pending' | 'Processing' | 'Scheduled' | 'Completed' | 'CompletedWithErrors' | 'Failed' | 'Cancelled';
export interface Batch {
  batchId: string; status: BatchStatus; fileName: string; createdAt: string; startedAt: string | null; completedAt: string | null;
  totalRecords: number | null; processedRecords: number; lastError: string | null; webhookNotified: boolean; fileType: 'Json' | 'Excel' | 'Csv';
  fileSizeBytes: number; checksum: string | null; policyDecision: string | null; scheduledFor: string | null; originDefault: string | null;
  requestedBy: string | null; metadata: Record<string, unknown> | null; errorCount: number; skippedCount: number; importedCount: number;
  errorSummary: Record<string, unknown> | unknown[] | null; attempt: number; correlationId: string | null; gaveWayAt: string | null;
  metadataCorrelationId: string | null; refusedRule: string | null; refusalCount: number | null;
  waitingFor: 'OmniFlow' | 'Worker' | 'Schedule' | 'Turn' | null; waitingSince: string | null;
  waiting: {
    code?: 'InLine' | 'OmniFlowAway' | 'Schedule' | 'Ack' | 'Lock'; detail?: string; since?: string | null; next?: string | null;
    place?: number | null; behind?: string | null;
  } | null;
  rowsPerSecond: number | null; remainingSeconds: number | null; canRetry: boolean; canMend: boolean; canCancel: boolean;
}
export interface BatchPage {
  items: Batch[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string; maintenance: Maintenance;
}
export type Maintenance = { from: string; to: string; active: boolean } | null;
export interface Usage {
  clientId: string; requests: { lastMinute: number; limit: number | null }; uploads: { inProgress: number; limit: number | null };
  batches: { today: number; limit: number | null; resetsAt: string }; storage: { usedBytes: number; quotaBytes: number | null };
  maintenance: Maintenance;
}
export interface BatchItem {
  sequence: number; row: number | null; status: 'Imported' | 'Error' | 'Skipped'; reason: string | null; field: string | null; column: string | null;
  errorMessage: string | null; payload: Record<string, unknown> | null; values: Record<string, unknown> | null; chunkId: number | null;
  createdAt: string; recordCount: number;
}
export interface BatchItemPage {
  items: BatchItem[]; page: number; pageSize: number; total: number; totalIsEstimate?: true; next: string | null;
}
export interface BatchError { 'DataFlow Sequence': number; 'DataFlow Error': string | null; [name: string]: unknown }
export interface ImportForm {
  file: string; originDefault?: string; requestedBy?: string; sheet?: string; mapping?: string; fileName?: string; contentType?: string;
  metadata?: string;
}
export interface ImportPost {
  file: string; originDefault?: string; requestedBy?: string; sheet?: string; mapping?: Record<string, unknown> | string; fileName?: string;
  contentType?: string; metadata?: Record<string, unknown> | string;
}
export interface ImportAccepted {
  batchId: string; status: 'Pending' | 'Scheduled'; policyDecision: 'Immediate' | 'Scheduled'; scheduledFor?: string; message: string;
}
export interface ImportRetry {
  batchId: string; status: 'Pending'; attempt: number; items: number; mended?: number; message: string;
}
export interface ImportRetryPost { items?: Array<{ sequence: number; values: Record<string, unknown> }> }
export interface ImportMapping { [name: string]: string | null }
export interface KeptMapping { mapping: ImportMapping; updatedAt: string }
export interface ImportPreviewForm {
  file: string; originDefault?: string; requestedBy?: string; sheet?: string; mapping?: string; fileName?: string; contentType?: string;
  metadata?: string; checksum?: string; complete?: 'true' | 'false';
}
export interface ImportPreview {
  format: 'Json' | 'Excel' | 'Csv'; sheets: string[]; sheet: string | null; headerRow: number | null; records: number; complete: boolean;
  columns: Array<{
    name: string; canonical: string | null; by: 'name' | 'mapping' | 'client' | null; samples: string[];
  }>;
  sample: Array<{ row: number; values: Record<string, unknown> }>;
  problems: Array<{ reason: string; message: string; status: 'Error' | 'Skipped'; count: number; firstRow: number }>; checksum: string | null;
  duplicateOf: { batchId?: string; fileName?: string; createdAt?: string; status?: BatchStatus } | null;
}
export interface BatchReasons {
  items: Array<{
    reason: string | null; message: string | null; count: number; firstRow: number | null; retryable: boolean;
  }>;
  total: number;
}
export interface ImportAck {
  ackId: string; chunkId: number; status: 'Imported' | 'Error'; message?: string | null;
  items?: Array<{ sequence: number; status: 'Imported' | 'Error' | 'Skipped'; errorMessage?: string | null }> | null;
}
export interface ImportAckStored { batchId: string; chunkId: number; status: 'Imported' | 'Error' }
export interface OperatorBatch {
  clientId: string; batchId: string; status: BatchStatus; fileName: string; createdAt: string; startedAt: string | null; completedAt: string | null;
  totalRecords: number | null; processedRecords: number; lastError: string | null; webhookNotified: boolean; fileType: 'Json' | 'Excel' | 'Csv';
  fileSizeBytes: number; checksum: string | null; policyDecision: string | null; scheduledFor: string | null; originDefault: string | null;
  requestedBy: string | null; metadata: Record<string, unknown> | null; errorCount: number; skippedCount: number; importedCount: number;
  errorSummary: Record<string, unknown> | unknown[] | null; attempt: number; correlationId: string | null; gaveWayAt: string | null;
  metadataCorrelationId: string | null; refusedRule: string | null; refusalCount: number | null;
  waitingFor: 'OmniFlow' | 'Worker' | 'Schedule' | 'Turn' | 'Acks' | null; waitingSince: string | null;
  waiting: {
    code?: 'InLine' | 'OmniFlowAway' | 'Schedule' | 'Ack' | 'Lock'; detail?: string; since?: string | null; next?: string | null;
    place?: number | null; behind?: string | null;
  } | null;
  rowsPerSecond: number | null; remainingSeconds: number | null; canRetry: boolean; canMend: boolean; canCancel: boolean; lockedBy: string | null;
  lockedAt: string | null;
}
export interface OperatorBatchPage {
  items: OperatorBatch[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface ImportReleased { batchId: string; status: string; releasedFrom: string }
export interface Event {
  eventType: string; payload: unknown; aggregateType?: string | null; aggregateId?: string | null; correlationId?: string | null;
  eventId?: string | null;
}
export interface EventAccepted { eventId: string; status: 'PENDING'; correlationId: string }
export interface EventsAccepted { items: Array<{ eventId: string; status: 'PENDING' }>; accepted: number }
export interface IntegrationCallKept { id: string; status: 'Pending'; integration: string; correlationId: string }
export interface Relay {
  name: string; dispatcher: 'log' | 'http' | 'rabbitmq' | 'kafka'; source: string; table: string; target: string | null; order: 'none' | 'aggregate';
  state: 'running' | 'down' | 'paused' | 'standingBy' | 'stopped'; running: boolean; standingBy: boolean; notified: boolean; waiting: number | null;
  oldestAt: string | null; dispatched: number; retried: number; givenUp: number; lastDispatchAt: string | null; downSince: string | null;
  pausedAt: string | null; lastError: string | null; problem: string | null;
}
export interface RelayList { items: Relay[] }
export type WebhookEvent = 'BatchCompleted' | 'BatchFailed' | 'BatchScheduled' | 'BatchStarted' | 'TicketProcessed' | 'TicketFailed';
export type WebhookDeliveryStatus = 'Pending' | 'Sending' | 'Sent' | 'Error';
export interface Webhook {
  id: string; clientId: string; url: string; events: WebhookEvent[]; isActive: boolean; createdAt: string; updatedAt: string;
  disabledAt: string | null; disabledReason: string | null; failureSince: string | null; previousSecretValidUntil: string | null; autoRotate: boolean;
  secretChangedAt: string; nextSecretAt: string | null;
}
export interface WebhookWithSecret {
  id: string; clientId: string; url: string; events: WebhookEvent[]; isActive: boolean; createdAt: string; updatedAt: string;
  disabledAt: string | null; disabledReason: string | null; failureSince: string | null; previousSecretValidUntil: string | null; autoRotate: boolean;
  secretChangedAt: string; nextSecretAt: string | null; secret: string;
}
export interface WebhookPage { items: Webhook[]; page: number; pageSize: number; total: number }
export interface WebhookCreate { url: string; events?: WebhookEvent[]; secret?: string; isActive?: boolean; autoRotate?: boolean }
export interface WebhookChange { url?: string; events?: WebhookEvent[]; isActive?: boolean; autoRotate?: boolean }
export interface WebhookSecret { secret?: string }
export interface WebhookFetchedSecret { id: string; secret: string; previousSecretValidUntil: string | null }
export interface WebhookTest { id: string; event: 'Test'; status: 'Pending' }
export interface WebhookAttempt {
  attempt: number; attemptedAt: string; outcome: 'Sent' | 'Retry' | 'Error' | 'Stale'; httpStatus: number | null; durationMs: number;
  answerLength: number; answer?: string | null; error: string | null;
}
export interface WebhookDelivery {
  id: string; eventId: string; event: string; reference: string | null; status: WebhookDeliveryStatus; attempts: number; lastStatus: number | null;
  lastError: string | null; createdAt: string; lastAttemptAt: string | null; sentAt: string | null; nextAttemptAt: string | null;
  attemptsHistory: WebhookAttempt[];
}
export interface WebhookDeliveryPage {
  items: WebhookDelivery[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface WebhookFailure {
  id: number; subscriptionId: string; clientId: string; url: string; deliveryId: string | null; eventId: string; event: string; payload: string;
  attempts: number; lastStatus: number | null; lastError: string | null; firstAttemptAt: string | null; lastAttemptAt: string | null;
  createdAt: string; replayedAt: string | null; dismissedAt: string | null;
}
export interface WebhookFailurePage {
  items: WebhookFailure[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface WebhookReplay { id: number; subscriptionId: string; deliveryId: string; status: 'Pending' }
export interface WebhookReplayAll { replayed: number; remaining: number; skipped: number }
export interface OutboxGivenUp { target: string | null; count: number; since: string | null; last: string | null }
export interface OutboxTarget {
  channel?: string; target: string; state: 'up' | 'down' | 'paused'; downSince?: string | null; paused: boolean; pausedAt?: string | null;
  pausedBy?: string | null; lastError?: string | null; lastFailedAt?: string | null; arrived?: number; lastArrivedAt?: string | null;
}
export interface OutboxRetryAny {
  channel?: string | null; status?: 'Error' | 'FAILED' | null; target?: string | null; error?: string | null; givenUp?: boolean | null;
  since?: string | null; until?: string | null; all?: boolean | null; dryRun?: boolean | null;
}
export interface OutboxPause { target?: string | null }
export interface AdminTicket {
  id: number; businessEntity: string; businessDocId: string; phaseCode: number; companyCode: string; branchCode: string; destinationCode: string;
  shipmentEvent: string; functionalAckIsRequired: boolean; targetApplicationCode: string; createdAt: string; updatedAt: string;
  payloadVersion: number; status: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; attemptCount: number; lastError: string | null;
  nextAttemptAt: string | null; returnStatus: 'Pending' | 'Sending' | 'Sent' | 'Error'; returnAttemptCount: number; returnLastError: string | null;
  returnLastAttemptAt: string | null; returnSentAt: string | null; returnNextAttemptAt: string | null;
  gatewaySendStatus: 'Pending' | 'Sending' | 'Sent' | 'Error'; gatewaySendAttemptCount: number; gatewaySendLastError: string | null;
  gatewaySendLastAttemptAt: string | null; gatewaySendSentAt: string | null; gatewaySendNextAttemptAt: string | null;
  callbackStatus: 'Pending' | 'Received' | 'Success' | 'Error'; callbackReceivedAt: string | null; callbackCode: string | null;
  callbackMessage: string | null; rawPayloadJson?: string | null; callbackPayloadJson?: string | null; clientId?: string | null; tryCount?: number;
  firstFailedAt?: string | null; gatewaySendTryCount?: number; gatewaySendFirstFailedAt?: string | null; givenUp?: boolean; willRetry?: boolean;
}
export interface AdminTicketPage {
  items: AdminTicket[]; page: number; pageSize: number; total: number; totalIsEstimate?: boolean; next?: string;
}
export interface TicketSending {
  id?: number; targetUrl?: string | null; status?: string; attemptCount?: number; tryCount?: number; createdAt?: string;
  lastAttemptAt?: string | null; sentAt?: string | null; nextAttemptAt?: string | null; firstFailedAt?: string | null; lastError?: string | null;
}
export interface TicketAttempt {
  channel?: 'ticket-gateway' | 'ticket-return' | 'functional-ack'; id?: number; attempt: number; attemptedAt: string;
  outcome: 'Sent' | 'Retry' | 'Error'; httpStatus: number | null; durationMs: number; answer: string | null; error: string | null;
}
export interface AdminTicketWhole {
  id: number; businessEntity: string; businessDocId: string; phaseCode: number; companyCode: string; branchCode: string; destinationCode: string;
  shipmentEvent: string; functionalAckIsRequired: boolean; targetApplicationCode: string; createdAt: string; updatedAt: string;
  payloadVersion: number; status: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; attemptCount: number; lastError: string | null;
  nextAttemptAt: string | null; returnStatus: 'Pending' | 'Sending' | 'Sent' | 'Error'; returnAttemptCount: number; returnLastError: string | null;
  returnLastAttemptAt: string | null; returnSentAt: string | null; returnNextAttemptAt: string | null;
  gatewaySendStatus: 'Pending' | 'Sending' | 'Sent' | 'Error'; gatewaySendAttemptCount: number; gatewaySendLastError: string | null;
  gatewaySendLastAttemptAt: string | null; gatewaySendSentAt: string | null; gatewaySendNextAttemptAt: string | null;
  callbackStatus: 'Pending' | 'Received' | 'Success' | 'Error'; callbackReceivedAt: string | null; callbackCode: string | null;
  callbackMessage: string | null; rawPayloadJson?: string | null; callbackPayloadJson?: string | null; clientId?: string | null; tryCount?: number;
  firstFailedAt?: string | null; gatewaySendTryCount?: number; gatewaySendFirstFailedAt?: string | null; givenUp?: boolean; acks?: TicketSending[];
  returns?: TicketSending[]; attempts?: TicketAttempt[]; willRetry?: boolean; payload?: string | null; payloadMasked?: boolean;
  waitingFor?: WaitingFor | null;
}
export interface SearchResult { items: SearchItem[]; complete: boolean }
export interface SearchItem {
  kind: 'ticket' | 'counterparty' | 'ack' | 'return' | 'import' | 'event' | 'webhookDelivery' | 'integrationCall' | 'client'; id: string;
  title: string; status: string | null; clientId: string | null; createdAt: string | null; link: string | null;
}
export interface SubjectQuestion {
  phone?: string | null; document?: string | null; email?: string | null; subject?: string | null; export?: 'full' | null; after?: string | null;
  pageSize?: number;
}
export interface Subject {
  subject: { kind: 'phone' | 'document' | 'email'; hash: string };
  counts: {
    ack: number; batch: number; 'batch-item': number; call: number; counterparty: number; event: number; ticket: number; total: number;
    waiting: number;
  };
  places: SubjectPlace[]; next: string | null; unread: string[]; unreadMore: boolean;
}
export interface SubjectPlace {
  place: 'ack' | 'batch' | 'batch-item' | 'call' | 'counterparty' | 'event' | 'ticket'; id?: number | string; batchId?: string; sequence?: number;
  waits: boolean; clientId?: string | null; status?: string; createdAt?: string; fileName?: string | null; requestedBy?: string | null;
  businessEntity?: string | null; businessDocId?: string | null; phaseCode?: number; eventType?: string; aggregateId?: string | null;
  integration?: string; correlationId?: string | null; payload?: unknown; callback?: unknown; item?: unknown; record?: unknown; metadata?: unknown;
  body?: unknown; headers?: unknown;
}
export interface AdminWhoAmI { admin: string; role: 'read' | 'operate' | 'admin' }
export interface Key {
  id: number; purpose: 'data' | 'index' | 'audit'; current: boolean; createdAt: string; activeAt: string; retiredAt: string | null; masterId: string;
  secrets: number; payloads: number;
}
export interface KeyList {
  items: Key[]; lost: Array<{ id: number; secrets: number; payloads: number }>; others: { secrets: number; payloads: number };
}
export interface KeyRotation { id: number; activeAt: string }
export interface SeriesPoint {
  time: string; value?: number | null; accepted?: number | null; processed?: number | null; delivered?: number | null; failed?: number | null;
  waiting?: number | null; oldestSeconds?: number | null; acks?: number | null; ackSeconds?: number | null; ackP95Seconds?: number | null;
  ackMaxSeconds?: number | null;
}
export interface SeriesAnnotation {
  time: string; kind: 'BreakerOpened' | 'BreakerClosed' | 'AlertFired' | 'AlertResolved' | 'ReplicaStarted' | 'ReplicaStopped'; subject: string;
  instance: string;
}
export interface OwnSeries {
  metric: string; clientId: string | null; channel: string | null; step: number; from: string; to: string; points: SeriesPoint[];
}
export interface Series {
  metric: string; clientId: string | null; channel: string | null; step: number; from: string; to: string; points: SeriesPoint[];
  annotations: SeriesAnnotation[]; annotationsTruncated: boolean;
}
export interface TimelineEntry {
  time: string; event: string; subject: string; id: string; attempt: number | null; outcome: string | null; httpStatus: number | null;
  durationMs: number | null; count: number | null; by: string | null; error: string | null;
}
export interface TimelineWait {
  subject: string; id: string; reason: 'target' | 'due' | 'person' | 'schedule' | 'turn' | 'worker' | 'ack'; target: string | null;
  nextAttemptAt: string | null;
}
export interface Timeline {
  kind: 'ticket' | 'counterparty' | 'ack' | 'return' | 'batch' | 'event' | 'webhook' | 'integration'; id: string; title: string | null;
  status: string | null; clientId: string | null; correlationId: string | null; traceId: string | null; waits: TimelineWait[];
  entries: TimelineEntry[]; truncated: boolean;
}
export interface WaitingFor {
  code: 'TargetAway' | 'Paused' | 'Backoff' | 'NotConfigured' | 'Behind'; detail: string; since: string | null; next: string | null;
}
export interface AlertAcknowledgement { note?: string | null }
export interface AlertSilence {
  id: string; rule: string | null; clientId: string | null; target: string | null; reason: string; until: string; createdBy: string;
  createdAt: string;
}
export interface AlertSilenceNew {
  rule?: string | null; clientId?: string | null; target?: string | null; until: string; reason: string;
}
export interface AlertSilenceList { items: AlertSilence[]; total: number }
export interface AttentionItem {
  kind: 'Alert' | 'Breaker' | 'GivenUp' | 'Oldest' | 'StuckBatch' | 'Webhook' | 'Disk' | 'Tickets'; severity: 'critical' | 'warning'; title: string;
  cause: string | null; clientId?: string; channel?: string; target?: string; id?: string; count?: number; since: string | null; next?: string;
  actions: Array<'retry' | 'dismiss' | 'reset' | 'resume' | 'release' | 'acknowledge'>; link: string;
}
export interface Attention { items: AttentionItem[]; status: 'ok' | 'degraded' | 'critical'; checkedAt: string }
export interface Cause { cause: string; count: number; first: string; last: string; retried: boolean; exampleId: string }
export interface CauseList { items: Cause[]; total: number; causes: number }
export interface FlowStep {
  name: 'accepted' | 'processed' | 'delivered'; perMinute: number; waiting: number; failed: number; points: Array<{ at: string; count: number }>;
}
export interface Flow { window: 'hour' | 'day' | 'week'; step: number; steps: FlowStep[] }
export interface MaintenanceWindows {
  items: Array<{
    clientId: string | null; windows: string; active: boolean; since: string | null; until: string | null; next: string | null;
  }>;
  total: number;
}
export interface WebhookDeliveryWhole {
  id: string; eventId: string; event: string; reference: string | null; status: WebhookDeliveryStatus; attempts: number; lastStatus: number | null;
  lastError: string | null; createdAt: string; lastAttemptAt: string | null; sentAt: string | null; nextAttemptAt: string | null;
  attemptsHistory: WebhookAttempt[]; payload?: string | null;
}
export interface WebhookResent { deliveryId: string; resentFrom: string; status: 'Pending' }

/** Every call of the server, by groups. */
export interface Calls {
  readonly integrations: {
    /** `/integrations/{name}/{path}`: a call through the server, with its retries and circuit breaker. */
    call: IntegrationCall;
  };
  readonly server: {
    /** `GET /healthz`: Is the process alive? */
    health(options?: CallOptions): Promise<Health>;
    /** `GET /readyz`: Can it serve requests: is the database reachable and its schema current? */
    ready(options?: CallOptions): Promise<Readiness>;
    /** `GET /metrics`: Metrics, in the text format of Prometheus or in OpenMetrics. */
    metrics(options?: CallOptions): Promise<string>;
    /** `GET /openapi.json`: This document. */
    openapi(options?: CallOptions): Promise<Record<string, unknown>>;
    /** `GET /whoami`: Who calls. */
    whoami(options?: CallOptions): Promise<WhoAmI | AdminWhoAmI>;
  };
  readonly imports: {
    /** `POST /imports`: upload a file, streamed. */
    upload: Upload<ImportAccepted>;
    /** `POST /imports/preview`: what an upload would come to; nothing is stored. */
    preview: Upload<ImportPreview>;
    /** The batch when it is over: by events, else by asking. */
    wait: Wait<Batch>;
    /** `GET /imports`: Own batches, newest first. */
    list(query?: { status?: BatchStatus; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<Batch>;
    /** `GET /imports/{batchId}`: A batch and its progress. */
    get(batchId: string | number, options?: CallOptions): Promise<Batch>;
    /** `DELETE /imports/{batchId}`: Cancel a batch that has not been started. */
    cancel(batchId: string | number, options?: CallOptions): Promise<void>;
    /** `POST /imports/{batchId}/retry`: Try the failed items of a batch again. */
    retry(batchId: string | number, body?: ImportRetryPost, options?: CallOptions): Promise<ImportRetry>;
    /** `POST /imports/{batchId}/acks`: Acknowledge a chunk. */
    ack(batchId: string | number, body: ImportAck, options?: CallOptions): Promise<ImportAckStored>;
    /** `GET /imports/{batchId}/items`: The records of a batch and their outcome. */
    items(batchId: string | number, query?: { status?: 'Imported' | 'Error' | 'Skipped'; reason?: string; after?: string; page?: number; pageSize?: number }, options?: CallOptions): Pages<BatchItem>;
    /** `GET /imports/{batchId}/reasons`: Why records of a batch failed, and how many. */
    reasons(batchId: string | number, options?: CallOptions): Promise<BatchReasons>;
    /** `GET /imports/{batchId}/errors.xlsx`: The failed rows as a workbook. */
    errorsXlsx(batchId: string | number, options?: CallOptions): Promise<Download>;
    /** `GET /imports/{batchId}/errors.csv`: The failed rows as CSV. */
    errorsCsv(batchId: string | number, options?: CallOptions): Promise<Download>;
    /** `GET /imports/{batchId}/errors.json`: The failed rows as JSON. */
    errorsJson(batchId: string | number, options?: CallOptions): Promise<Download>;
    /** `GET /imports/{batchId}/events`: A batch's progress as server-sent events. */
    watch(batchId: string | number, options?: CallOptions): AsyncGenerator<BatchEvent, void, undefined>;
  };
  readonly mapping: {
    /** `GET /clients/{clientId}/mapping`: The mapping of columns that a client keeps. */
    get(options?: OwnCallOptions): Promise<KeptMapping>;
    /** `PUT /clients/{clientId}/mapping`: Keep a mapping of columns. */
    put(body: { mapping: ImportMapping }, options?: OwnCallOptions): Promise<KeptMapping>;
    /** `DELETE /clients/{clientId}/mapping`: Keep no mapping any more. */
    delete(options?: OwnCallOptions): Promise<void>;
  };
  readonly webhooks: {
    /** `GET /clients/{clientId}/webhooks`: A client's webhooks, newest first. */
    list(query?: { page?: number; pageSize?: number; after?: string }, options?: OwnCallOptions): Pages<Webhook>;
    /** `POST /clients/{clientId}/webhooks`: Subscribe a URL to events. */
    create(body: WebhookCreate, options?: OwnCallOptions): Promise<WebhookWithSecret>;
    /** `GET /clients/{clientId}/webhooks/{id}`: One webhook. */
    get(id: string | number, options?: OwnCallOptions): Promise<Webhook>;
    /** `PATCH /clients/{clientId}/webhooks/{id}`: Change URL or events, switch off or on. */
    update(id: string | number, body: WebhookChange, options?: OwnCallOptions): Promise<Webhook>;
    /** `DELETE /clients/{clientId}/webhooks/{id}`: Delete a webhook, its deliveries and failures. */
    delete(id: string | number, options?: OwnCallOptions): Promise<void>;
    /** `POST /clients/{clientId}/webhooks/{id}/rotate-secret`: Replace the secret. */
    rotateSecret(id: string | number, query?: { overlapHours?: number }, body?: WebhookSecret, options?: OwnCallOptions): Promise<WebhookWithSecret>;
    /** `GET /clients/{clientId}/webhooks/{id}/secret`: The secret of a webhook with autoRotate. */
    secret(id: string | number, options?: OwnCallOptions): Promise<WebhookFetchedSecret>;
    /** `POST /clients/{clientId}/webhooks/{id}/test`: Send a Test event. */
    test(id: string | number, options?: OwnCallOptions): Promise<WebhookTest>;
    /** `GET /clients/{clientId}/webhooks/{id}/deliveries`: What was sent to a webhook, with every attempt, newest first. */
    deliveries(id: string | number, query?: { status?: WebhookDeliveryStatus; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: OwnCallOptions): Pages<WebhookDelivery>;
    /** `GET /clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}`: One delivery, with its payload and every attempt. */
    delivery(id: string | number, deliveryId: string | number, options?: OwnCallOptions): Promise<WebhookDeliveryWhole>;
    /** `POST /clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}/resend`: Send a delivery again. */
    resend(id: string | number, deliveryId: string | number, options?: OwnCallOptions): Promise<WebhookResent>;
    /** `POST /clients/{clientId}/webhooks/{id}/replay`: Send all deliveries of a webhook again that were given up since a time. */
    replay(id: string | number, query: { since: string | Date }, options?: OwnCallOptions): Promise<WebhookReplayAll>;
  };
  readonly tickets: {
    /** `POST /api/tickets`: Receive a ticket. */
    submit(body: TicketFlat | TicketEnvelope, options?: CallOptions): Promise<TicketReceived>;
    /** `GET /api/tickets`: The phases of a ticket, or tickets by status. */
    find(query?: { businessEntity?: string; businessDocId?: string; phaseCode?: number; status?: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Promise<TicketList>;
    /** `GET /api/tickets`: The phases of a ticket, or tickets by status. */
    list(query?: { businessEntity?: string; businessDocId?: string; phaseCode?: number; status?: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<Ticket>;
    /** `POST /api/tickets/{id}/reprocess`: Process a ticket again. */
    reprocess(id: string | number, options?: CallOptions): Promise<TicketReprocessed>;
    /** `POST /api/tickets/callback`: Report the gateway's verdict on a ticket. */
    callback(body: TicketCallback, options?: CallOptions): Promise<TicketCallbackTaken>;
  };
  readonly counterparties: {
    /** `POST /api/counterparties`: Store a counterparty. */
    submit(body: CounterpartyPost, options?: CallOptions): Promise<CounterpartyStored>;
    /** `GET /api/counterparties`: One counterparty, or a page of them. */
    get(query?: { businessEntity?: string; businessDocId?: string; entityType?: string; counterpartyId?: string; fiscalNumber?: string; status?: 'Received' | 'Processed' | 'Error'; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Promise<Counterparty>;
    /** `GET /api/counterparties`: One counterparty, or a page of them. */
    list(query?: { businessEntity?: string; businessDocId?: string; entityType?: string; counterpartyId?: string; fiscalNumber?: string; status?: 'Received' | 'Processed' | 'Error'; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<CounterpartyItem>;
    /** `PATCH /api/counterparties`: Say that a counterparty was taken. */
    settle(query: { businessDocId: string; businessEntity?: string }, body: CounterpartySettlement, options?: CallOptions): Promise<CounterpartyItem>;
  };
  readonly acks: {
    /** `POST /api/functional-ack`: Send a functional ack. */
    send(body: FunctionalAckPost, options?: CallOptions): Promise<FunctionalAckQueued>;
    /** `GET /api/functional-ack`: The functional acks of a document. */
    list(query: { businessDocId: string; page?: number; pageSize?: number; after?: string }, options?: CallOptions): Pages<FunctionalAck>;
  };
  readonly events: {
    /** `POST /events`: Write events to the server's own outbox. */
    publish(body: Event | Event[], options?: CallOptions): Promise<EventAccepted | EventsAccepted>;
  };
  readonly usage: {
    /** `GET /clients/{clientId}/usage`: What the caller uses of its limits. */
    get(options?: OwnCallOptions): Promise<Usage>;
  };
  readonly series: {
    /** `GET /clients/{clientId}/series`: A client's own figures. */
    get(query?: { metric?: string; channel?: string; from?: string; to?: string; step?: string }, options?: OwnCallOptions): Promise<OwnSeries>;
  };
  readonly search: {
    /** `GET /search`: Find an own document of any kind by any of its ids. */
    find(query: { q: string }, options?: CallOptions): Promise<SearchResult>;
  };
  /** With an admin key. */
  readonly admin: {
    readonly clients: {
      /** `GET /admin/clients`: List the clients. */
      list(query?: { after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<Client>;
      /** `POST /admin/clients`: Create a client. */
      create(body: ClientCreate, options?: CallOptions): Promise<ClientCreated>;
      /** `GET /admin/clients/{clientId}`: One client. */
      get(clientId: string | number, options?: CallOptions): Promise<Client>;
      /** `PATCH /admin/clients/{clientId}`: Suspend or activate a client, change its scopes. */
      update(clientId: string | number, body: ClientUpdate, options?: CallOptions): Promise<Client>;
      /** `POST /admin/clients/{clientId}/rotate-secret`: Give a client a new secret. */
      rotateSecret(clientId: string | number, query?: { graceSeconds?: number }, options?: CallOptions): Promise<ClientSecret>;
      /** `GET /admin/clients/{clientId}/policy`: What a client may import, how much and when. */
      getPolicy(clientId: string | number, options?: CallOptions): Promise<Policy>;
      /** `PUT /admin/clients/{clientId}/policy`: Change a client's policy. */
      putPolicy(clientId: string | number, body: PolicyChange, options?: CallOptions): Promise<Policy>;
      /** `PATCH /admin/clients/{clientId}/policy`: Change some members of a client's policy. */
      updatePolicy(clientId: string | number, body: PolicyChange, options?: CallOptions): Promise<Policy>;
      /** `DELETE /admin/clients/{clientId}/policy`: Reset a client's policy to the defaults. */
      resetPolicy(clientId: string | number, options?: CallOptions): Promise<void>;
      /** `GET /admin/clients/{clientId}/usage`: What a client uses of its limits. */
      usage(clientId: string | number, options?: CallOptions): Promise<Usage>;
    };
    readonly imports: {
      /** The batch when it is over: by events, else by asking. */
      wait: Wait<OperatorBatch>;
      /** `GET /admin/imports`: Batches of all clients, newest first. */
      list(query?: { clientId?: string; status?: BatchStatus; from?: string | Date; to?: string | Date; fileName?: string; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<OperatorBatch>;
      /** `GET /admin/imports.csv`: Batches of all clients as CSV. */
      export(query?: { clientId?: string; status?: BatchStatus; from?: string | Date; to?: string | Date; fileName?: string; after?: string; order?: 'newest' | 'oldest'; limit?: number }, options?: CallOptions): Promise<Download>;
      /** `GET /admin/imports/{batchId}`: One batch of any client. */
      get(batchId: string | number, options?: CallOptions): Promise<OperatorBatch>;
      /** `DELETE /admin/imports/{batchId}`: Cancel a batch that has not been started. */
      cancel(batchId: string | number, options?: CallOptions): Promise<void>;
      /** `POST /admin/imports/{batchId}/retry`: Try the failed items of a batch again. */
      retry(batchId: string | number, body?: ImportRetryPost, options?: CallOptions): Promise<ImportRetry>;
      /** `POST /admin/imports/{batchId}/release`: Release the lock of a batch. */
      release(batchId: string | number, options?: CallOptions): Promise<ImportReleased>;
      /** `GET /admin/imports/{batchId}/items`: The records of a batch and their outcome. */
      items(batchId: string | number, query?: { status?: 'Imported' | 'Error' | 'Skipped'; reason?: string; after?: string; page?: number; pageSize?: number }, options?: CallOptions): Pages<BatchItem>;
      /** `GET /admin/imports/{batchId}/reasons`: Why records of a batch failed, and how many. */
      reasons(batchId: string | number, options?: CallOptions): Promise<BatchReasons>;
      /** `GET /admin/imports/{batchId}/errors.xlsx`: The failed rows as a workbook. */
      errorsXlsx(batchId: string | number, options?: CallOptions): Promise<Download>;
      /** `GET /admin/imports/{batchId}/errors.csv`: The failed rows as CSV. */
      errorsCsv(batchId: string | number, options?: CallOptions): Promise<Download>;
      /** `GET /admin/imports/{batchId}/errors.json`: The failed rows as JSON. */
      errorsJson(batchId: string | number, options?: CallOptions): Promise<Download>;
      /** `GET /admin/imports/{batchId}/events`: A batch's progress as server-sent events. */
      watch(batchId: string | number, options?: CallOptions): AsyncGenerator<BatchEvent, void, undefined>;
    };
    readonly tickets: {
      /** `GET /admin/tickets`: Tickets of all clients, newest first. */
      list(query?: { clientId?: string; businessEntity?: string; businessDocId?: string; phaseCode?: number; status?: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; returnStatus?: 'Pending' | 'Sending' | 'Sent' | 'Error'; gatewayStatus?: 'Pending' | 'Sending' | 'Sent' | 'Error'; error?: string; from?: string | Date; to?: string | Date; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<AdminTicket>;
      /** `GET /admin/tickets.csv`: Tickets of all clients as CSV. */
      export(query?: { clientId?: string; businessEntity?: string; businessDocId?: string; phaseCode?: number; status?: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; returnStatus?: 'Pending' | 'Sending' | 'Sent' | 'Error'; gatewayStatus?: 'Pending' | 'Sending' | 'Sent' | 'Error'; error?: string; from?: string | Date; to?: string | Date; after?: string; order?: 'newest' | 'oldest'; limit?: number }, options?: CallOptions): Promise<Download>;
      /** `GET /admin/tickets/causes`: Tickets that failed, by cause. */
      causes(query?: { clientId?: string; businessEntity?: string; businessDocId?: string; phaseCode?: number; status?: 'Awaiting' | 'Processing' | 'Processed' | 'Error'; returnStatus?: 'Pending' | 'Sending' | 'Sent' | 'Error'; gatewayStatus?: 'Pending' | 'Sending' | 'Sent' | 'Error'; error?: string; from?: string | Date; to?: string | Date }, options?: CallOptions): Promise<CauseList>;
      /** `GET /admin/tickets/{id}`: A ticket of any client, with all that was sent for it. */
      get(id: string | number, query?: { reveal?: boolean }, options?: CallOptions): Promise<AdminTicketWhole>;
      /** `PATCH /admin/tickets/{id}`: Give a ticket to another client. */
      reassign(id: string | number, body: OwnerChange, options?: CallOptions): Promise<Owner>;
      /** `POST /admin/tickets/{id}/reprocess`: Process a ticket again. */
      reprocess(id: string | number, options?: CallOptions): Promise<TicketReprocessed>;
      /** `POST /admin/tickets/reprocess`: Process tickets again by a filter. */
      reprocessMany(body: TicketFilter, options?: CallOptions): Promise<TicketsReprocessed>;
      /** `POST /admin/tickets/{id}/dismiss`: Dismiss a ticket whose processing was given up. */
      dismiss(id: string | number, options?: CallOptions): Promise<Dismissed>;
    };
    readonly counterparties: {
      /** `PATCH /admin/counterparties/{id}`: Give a counterparty to another client. */
      reassign(id: string | number, body: OwnerChange, options?: CallOptions): Promise<Owner>;
    };
    readonly outbox: {
      /** `GET /admin/outbox`: Every channel: rows in each state, what waits, what was given up, and how its targets are. */
      summary(options?: CallOptions): Promise<OutboxOverview>;
      /** `POST /admin/outbox/retry`: Try failed rows of any channel again, by a filter. */
      retryAll(body: OutboxRetryAny, options?: CallOptions): Promise<OutboxRetriedAll>;
      /** `POST /admin/outbox/dismiss`: Dismiss rows of any channel that were given up, by a filter. */
      dismissAll(body: OutboxRetryAny, options?: CallOptions): Promise<OutboxDismissedAll>;
      /** `GET /admin/outbox/{channel}`: Rows of a channel, newest first. */
      list(channel: string | number, query?: { status?: OutboxStatus | 'GivenUp'; target?: string; error?: string; since?: string | Date; until?: string | Date; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<OutboxRow>;
      /** `GET /admin/outbox/{channel}.csv`: Rows of a channel as CSV. */
      export(channel: string | number, query?: { status?: OutboxStatus | 'GivenUp'; target?: string; error?: string; since?: string | Date; until?: string | Date; after?: string; order?: 'newest' | 'oldest'; limit?: number }, options?: CallOptions): Promise<Download>;
      /** `GET /admin/outbox/{channel}/causes`: Failures of a channel by cause. */
      causes(channel: string | number, query?: { status?: OutboxStatus | 'GivenUp'; target?: string; error?: string; since?: string | Date; until?: string | Date }, options?: CallOptions): Promise<CauseList>;
      /** `GET /admin/outbox/{channel}/{id}`: One complete row, with its last 50 attempts, newest first. */
      get(channel: string | number, id: string | number, query?: { reveal?: boolean }, options?: CallOptions): Promise<OutboxRowWhole>;
      /** `POST /admin/outbox/{channel}/{id}/retry`: Try a failed row again. */
      retry(channel: string | number, id: string | number, options?: CallOptions): Promise<OutboxRetried>;
      /** `POST /admin/outbox/{channel}/{id}/dismiss`: Dismiss a row that was given up. */
      dismiss(channel: string | number, id: string | number, options?: CallOptions): Promise<OutboxDismissed>;
      /** `POST /admin/outbox/{channel}/retry`: Try failed rows of a channel again: all, or those that a filter names. */
      retryMany(channel: string | number, body?: OutboxRetryFilter, options?: CallOptions): Promise<OutboxRetriedAll>;
      /** `POST /admin/outbox/{channel}/dismiss`: Dismiss rows of a channel that were given up: all, or those that a filter names. */
      dismissMany(channel: string | number, body?: OutboxRetryFilter, options?: CallOptions): Promise<OutboxDismissedAll>;
      /** `POST /admin/outbox/{channel}/pause`: Pause a channel or one of its targets. */
      pause(channel: string | number, body?: OutboxPause, options?: CallOptions): Promise<OutboxTarget>;
      /** `POST /admin/outbox/{channel}/resume`: Resume a channel or one of its targets. */
      resume(channel: string | number, body?: OutboxPause, options?: CallOptions): Promise<OutboxTarget>;
    };
    readonly webhookFailures: {
      /** `GET /admin/webhook-failures`: Deliveries that were given up, newest first. */
      list(query?: { clientId?: string; subscriptionId?: string; replayed?: boolean; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<WebhookFailure>;
      /** `POST /admin/webhook-failures/{id}/replay`: Send a delivery again that was given up. */
      replay(id: string | number, options?: CallOptions): Promise<WebhookReplay>;
      /** `POST /admin/webhook-failures/replay`: Send all deliveries again that were given up since a time. */
      replayMany(query: { since: string | Date; subscriptionId?: string }, options?: CallOptions): Promise<WebhookReplayAll>;
      /** `POST /admin/webhook-failures/{id}/dismiss`: Dismiss a delivery that was given up. */
      dismiss(id: string | number, options?: CallOptions): Promise<Dismissed>;
    };
    readonly alerts: {
      /** `GET /admin/alerts`: Alerts, newest first. */
      list(query?: { status?: 'firing' | 'resolved'; rule?: string; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<Alert>;
      /** `POST /admin/alerts/test`: Send a test alert to PagerDuty and Teams. */
      test(options?: CallOptions): Promise<AlertTest>;
      /** `POST /admin/alerts/{id}/acknowledge`: Say that somebody looks after an alert. */
      acknowledge(id: string | number, body?: AlertAcknowledgement, options?: CallOptions): Promise<Alert>;
      /** `DELETE /admin/alerts/{id}/acknowledge`: Take that back. */
      unacknowledge(id: string | number, options?: CallOptions): Promise<Alert>;
    };
    readonly silences: {
      /** `GET /admin/alert-silences`: Silences in force. */
      list(query?: Query, options?: CallOptions): Pages<AlertSilence>;
      /** `POST /admin/alert-silences`: Keep messages of alerts back for a while. */
      create(body: AlertSilenceNew, options?: CallOptions): Promise<AlertSilence>;
      /** `DELETE /admin/alert-silences/{id}`: End a silence. */
      delete(id: string | number, options?: CallOptions): Promise<void>;
    };
    readonly audit: {
      /** `GET /admin/audit`: Sensitive operations, newest first. */
      list(query?: { actor?: string; action?: string; target?: string; clientId?: string; outcome?: 'ok' | 'failed' | 'denied'; from?: string | Date; to?: string | Date; after?: string; order?: 'newest' | 'oldest'; page?: number; pageSize?: number }, options?: CallOptions): Pages<AuditEntry>;
      /** `GET /admin/audit.csv`: The same as CSV. */
      export(query?: { actor?: string; action?: string; target?: string; clientId?: string; outcome?: 'ok' | 'failed' | 'denied'; from?: string | Date; to?: string | Date; after?: string; order?: 'newest' | 'oldest'; limit?: number }, options?: CallOptions): Promise<Download>;
    };
    readonly keys: {
      /** `GET /admin/keys`: The keys of what is stored, and how much is under each. */
      list(options?: CallOptions): Promise<KeyList>;
      /** `POST /admin/keys/rotate`: Make a new data key. */
      rotate(options?: CallOptions): Promise<KeyRotation>;
    };
    readonly purges: {
      /** `GET /admin/purge`: Purges, newest first. */
      list(query?: { page?: number; pageSize?: number; after?: string }, options?: CallOptions): Pages<PurgeJob>;
      /** `POST /admin/purge`: Remove documents for good, or erase a person. */
      start(body: PurgeRequest, options?: CallOptions): Promise<PurgeResult>;
      /** `GET /admin/purge/{id}`: A purge, and how far it is. */
      get(id: string | number, options?: CallOptions): Promise<PurgeJob>;
      /** `DELETE /admin/purge/{id}`: Stop a purge before its next step. */
      cancel(id: string | number, options?: CallOptions): Promise<PurgeJob>;
    };
    readonly retention: {
      /** `GET /admin/retention`: How long what is over is kept, and what a run would remove. */
      get(query?: { count?: boolean }, options?: CallOptions): Promise<Retention>;
    };
    readonly subjects: {
      /** `GET /admin/subjects`: Find what is stored about a person. */
      find(query?: { phone?: string; document?: string; email?: string; subject?: string; export?: 'full'; after?: string; pageSize?: number }, options?: CallOptions): Promise<Subject>;
      /** `POST /admin/subjects/find`: Find what is stored about a person, asked in a body. */
      lookUp(body: SubjectQuestion, options?: CallOptions): Promise<Subject>;
    };
    readonly breakers: {
      /** `GET /admin/circuit-breakers`: The circuit breaker of every destination called by this process. */
      list(options?: CallOptions): Promise<CircuitBreakerList>;
      /** `POST /admin/circuit-breakers/{name}/reset`: Close a circuit breaker of this process. */
      reset(name: string | number, options?: CallOptions): Promise<CircuitBreaker>;
    };
    readonly relays: {
      /** `GET /admin/relays`: The relays of this process. */
      list(options?: CallOptions): Promise<RelayList>;
    };
    readonly owners: {
      /** `GET /admin/owners`: The processes that share the work, their leases, and the shards that each owns. */
      get(options?: CallOptions): Promise<WorkOwnerList>;
    };
    readonly attention: {
      /** `GET /admin/attention`: What needs a person, the worst first. */
      get(options?: CallOptions): Promise<Attention>;
    };
    readonly flow: {
      /** `GET /admin/flow`: Accepted, processed, delivered: what passes, waits and fails. */
      get(query?: { window?: 'hour' | 'day' | 'week' }, options?: CallOptions): Promise<Flow>;
    };
    readonly maintenanceWindows: {
      /** `GET /admin/maintenance-windows`: When no uploads are taken. */
      list(options?: CallOptions): Promise<MaintenanceWindows>;
    };
    readonly search: {
      /** `GET /admin/search`: Find a document of any kind by any of its ids. */
      find(query: { q: string }, options?: CallOptions): Promise<SearchResult>;
    };
    readonly series: {
      /** `GET /admin/series`: Figures that the server keeps itself. */
      get(query?: { metric?: string; clientId?: string; channel?: string; from?: string; to?: string; step?: string }, options?: CallOptions): Promise<Series>;
    };
    readonly timeline: {
      /** `GET /admin/timeline/{kind}/{id}`: A document's whole life. */
      get(kind: string | number, id: string | number, options?: CallOptions): Promise<Timeline>;
    };
  };
}
