'use strict';

/** Whatever a call throws, but for wrong arguments (TypeError). */
class DataFlowError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer came. */
class NetworkError extends DataFlowError {}
/** Nothing moved for `timeout` milliseconds. */
class TimeoutError extends NetworkError {}
/** The caller's signal. */
class AbortError extends DataFlowError {}

/** The server answered with an error; of a problem document (RFC 9457) its members are here. */
class ApiError extends DataFlowError {
  constructor(status, headers, problem) {
    const [code, title, detail, type, correlationId] = ['code', 'title', 'detail', 'type', 'correlationId'].map((name) => textOf(problem[name]));
    // It may be anybody's JSON: a proxy's, another server's.
    const errors = Array.isArray(problem.errors) ? problem.errors.filter((e) => e && typeof e === 'object') : [];
    const fields = errors.map((e) => `${textOf(e.field)}: ${textOf(e.message)}`).join('; ');
    super([`${status} ${code ?? title ?? 'error'}`, detail, fields].filter(Boolean).join(': '));
    Object.assign(this, { status, code, title, detail, errors, type, problem });
    this.correlationId = correlationId ?? headers['x-correlation-id'] ?? null;
    this.retryAfter = retryAfter(headers['retry-after']);
  }

  static from(status, headers, text) {
    let problem = {};
    try {
      if (/json/.test(headers['content-type'])) problem = JSON.parse(text);
    } catch {
      // A proxy's answer, perhaps: the status has to do.
    }
    if (!problem || typeof problem !== 'object') problem = {};
    return new (BY_STATUS[status] ?? (status >= 500 ? ServerError : ApiError))(status, headers, problem);
  }
}
class ValidationError extends ApiError {} // 400, 415, 422: errors[] names every bad field
class AuthenticationError extends ApiError {} // 401
class PermissionError extends ApiError {} // 403
class NotFoundError extends ApiError {} // 404, 410
class ConflictError extends ApiError {} // 409
class PreconditionError extends ApiError {} // 412, 428
class TooLargeError extends ApiError {} // 413
class RateLimitError extends ApiError {} // 429
class ServerError extends ApiError {} // 5xx

const BY_STATUS = {
  400: ValidationError, 401: AuthenticationError, 403: PermissionError, 404: NotFoundError, 409: ConflictError,
  410: NotFoundError, 412: PreconditionError, 413: TooLargeError, 415: ValidationError, 422: ValidationError,
  428: PreconditionError, 429: RateLimitError,
};

const textOf = (value) => (typeof value === 'string' ? value : null);

/** Seconds of Retry-After, which has a number or a date; null without one. */
function retryAfter(value) {
  if (!value) return null;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value);
  const at = /GMT$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}

module.exports = {
  DataFlowError, NetworkError, TimeoutError, AbortError, ApiError, ValidationError, AuthenticationError, PermissionError,
  NotFoundError, ConflictError, PreconditionError, TooLargeError, RateLimitError, ServerError,
};
