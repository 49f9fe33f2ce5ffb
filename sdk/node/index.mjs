import sdk from './index.js';

export const {
  DataFlow, DataFlowError, NetworkError, TimeoutError, AbortError, ApiError, ValidationError, AuthenticationError, PermissionError,
  NotFoundError, ConflictError, PreconditionError, TooLargeError, RateLimitError, ServerError, responseOf, version,
} = sdk;
