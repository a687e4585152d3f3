/// <reference types="node" />
import type {IncomingMessage, ServerResponse} from 'http';
import type {Metadata, ServerInterceptor} from '@grpc/grpc-js';

/** What rules match on and count by. Undefined ones are left out. */
export type Attributes = Record<string, string | undefined>;

export interface ClientOptions {
  /** The caller's token, or a function that returns it, if it may be replaced. */
  token?: string | (() => string);
  /** true: TLS with Node's authorities. Plain text unless set. */
  tls?: boolean | {ca?: Buffer; cert?: Buffer; key?: Buffer};
  /** Milliseconds that a check may take; 100 unless set. */
  deadline?: number;
  /** If no server answers: 'open' allows, 'closed' denies. 'open' unless set. */
  withoutAnswer?: 'open' | 'closed';
  /** The longest wait in milliseconds that a check accepts, unless the check sets its own. */
  maxWait?: number;
  /** How long in milliseconds the first checks wait for a connection; 2000 unless set. */
  connectTimeout?: number;
}

export interface Timestamp {
  seconds: number;
  nanos: number;
}

/** The fields of a check beside domain and attributes. */
export interface CheckOptions {
  /** Units to take; 1 unless set. */
  cost?: number;
  /** What limits may count besides the cost: {tokens: 500}. */
  amounts?: Record<string, number>;
  /** 'consume' unless set. The API describes them. */
  mode?: 'consume' | 'peek' | 'charge' | 'refund';
  /** The longest wait in milliseconds that this check accepts. */
  maxWait?: number;
  /** Like maxWait, but only leaky_bucket limits may wait. */
  maxDelay?: number;
  /** For 'refund': `decidedAt` of the decision that charged. */
  chargedAt?: Timestamp;
  /** Returned unchanged. */
  requestId?: string;
}

export class Decision {
  readonly allowed: boolean;
  /** False if the client decided, because no server answered. */
  readonly answered: boolean;
  /** Why no server answered. */
  readonly failure?: string;
  /** Milliseconds to wait before the allowed request starts. */
  readonly wait: number;
  /** Milliseconds until a retry can succeed; undefined: never, or unknown. */
  readonly retryAfter?: number;
  readonly decidedAt?: Timestamp;
  /** 429, or 503 if no server answered. */
  readonly httpStatus: number;
  /** RateLimit, RateLimit-Policy and Retry-After. */
  readonly headers: Record<string, string>;
  /** CheckLimitResponse of the API, as @grpc/proto-loader reads it. */
  readonly response: any;
}

/** The request was denied. */
export class Limited extends Error {
  readonly decision: Decision;
  readonly retryAfter?: number;
}

/** The client, which is 'closed', denied the request because no server answered. */
export class NoAnswer extends Limited {}

export class Client {
  /** "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081" */
  constructor(address?: string, options?: ClientOptions);
  /** Rejects only if the request is invalid. */
  check(domain: string, attributes: Attributes, options?: CheckOptions): Promise<Decision>;
  /** Runs `work` if the request is allowed, else rejects with Limited. Holds a slot meanwhile. */
  limited<T>(domain: string, attributes: Attributes, work: (decision: Decision) => T | Promise<T>,
    options?: CheckOptions): Promise<T>;
  /** Renews the decision's lease, if it has one, until the returned function is called. */
  hold(decision: Decision): () => void;
  /** Waits until the server has answered pending releases, for at most 5 s. */
  close(): Promise<void>;
}

/** For Express, and other frameworks with functions of this form. */
export function limitRequests<Q extends IncomingMessage = any>(
  client: Client, domain: string, attributes?: (request: Q) => Attributes, options?: CheckOptions,
): (request: Q, response: ServerResponse, next: (error?: unknown) => void) => Promise<void>;

export function limitInterceptor(
  client: Client, domain: string, attributes?: (metadata: Metadata) => Attributes,
  options?: CheckOptions,
): ServerInterceptor;
