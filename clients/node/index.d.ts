/// <reference types="node" />
import type {IncomingMessage, ServerResponse} from 'http';
import type {Metadata, ServerInterceptor} from '@grpc/grpc-js';

/** What rules match on and count by. Attributes that are undefined or null are left out. */
export type Attributes = Record<string, string | null | undefined>;

export interface ClientOptions {
  /** The caller's token; if it can change while the client runs, a function that returns it. */
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
  /** The ttl in milliseconds of a reservation's leases, which are renewed; 60,000 unless set. */
  leaseTtl?: number;
  /** For how many milliseconds the client tries to store a settlement; 600,000 unless set. */
  settleFor?: number;
  /** How many settlements may wait to be stored; others are lost. 10,000 unless set. */
  maxSettlements?: number;
  /** How long in milliseconds `close` waits for settlements and releases; 5000 unless set. */
  drain?: number;
  /** Whether this process is overloaded. If so, limits with `adapt` learn 'overload' even from work that
   * went well. Usually `above({cpu: 0.9})`. */
  overloaded?: () => boolean;
}

export interface Timestamp {
  seconds: number;
  nanos: number;
}

/** The fields of a check besides domain and attributes. */
export interface CheckOptions {
  /** Units to take; 1 unless set. */
  cost?: number;
  /** Amounts that limits may count besides the cost: {tokens: 500}. */
  amounts?: Record<string, number>;
  /** 'consume' unless set. The API describes the modes. */
  mode?: 'consume' | 'peek' | 'charge' | 'refund';
  /** The longest wait in milliseconds that this check accepts. */
  maxWait?: number;
  /** Like maxWait, but only leaky_bucket limits may wait. */
  maxDelay?: number;
  /** For 'refund': `decidedAt` of the decision that charged. */
  chargedAt?: Timestamp;
  /** Returned unchanged. */
  requestId?: string;
  /** Takes the units under a lease of this ttl in milliseconds; `reserve` sets it. */
  leaseTtl?: number;
}

/** The work for which slots are held. */
declare class Work {
  /** Sets how the work went: 'ok', 'overload', or 'ignore' if the work shows nothing about the
   * load. Its error is then ignored. duration: how many milliseconds the work took; unless set, the
   * time from take to release. */
  report(outcome?: 'ok' | 'overload' | 'ignore', options?: {duration?: number}): void;
}

export class Decision extends Work {
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

/** Units under a lease, which is renewed until the reservation is settled. */
export class Reservation extends Work {
  private constructor();
  /** The last decision that allowed units: that of `reserve`, or of an `extend`. */
  readonly decision: Decision;
  /** Sets what has been used until now, in total: {tokens: 212}. Amounts that are never named are settled as
   * taken. `cost` is a name, too. */
  use(amounts: Record<string, number>): void;
  /** Takes more units for the next part of the work, under a further lease. Does not count as a request,
   * and takes no slot unless `cost` is named. Rejects with Limited if the units are denied,
   * and with Error if the reservation is settled. */
  extend(amounts: Record<string, number>): Promise<void>;
  /** Ends the reservation with what was used. The client repeats the settlement in the background until it
   * is stored. error: the error of the work, if it failed. Settling again does nothing. */
  settle(amounts?: Record<string, number>, error?: unknown): void;
  /** For `using` and `await using`: settles. */
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

export class Client {
  /** "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081" */
  constructor(address?: string, options?: ClientOptions);
  /** Rejects if the request is invalid or the caller may not make it. */
  check(domain: string, attributes: Attributes, options?: CheckOptions): Promise<Decision>;
  /** If the request is allowed, runs `work`, and holds a slot meanwhile. Otherwise rejects with
   * Limited. */
  limited<T>(domain: string, attributes: Attributes, work: (decision: Decision) => T | Promise<T>,
    options?: CheckOptions): Promise<T>;
  /** If the request is allowed, takes units of all limits under a lease, and runs `work`. Otherwise
   * rejects with Limited. When `work` ends, settles with what `reservation.use` reported. */
  reserve<T>(domain: string, attributes: Attributes,
    work: (reservation: Reservation) => T | Promise<T>, options?: CheckOptions): Promise<T>;
  /** The same without `work`: the caller settles the reservation, in `finally`. */
  reserve(domain: string, attributes: Attributes, options?: CheckOptions): Promise<Reservation>;
  /** Renews the decision's lease, if it has one, until the returned function is called, which releases it. If
   * the work failed, pass its error to that function. */
  hold(decision: Decision): (error?: unknown) => void;
  /** Waits until settlements are stored and releases are answered, for at most `drain`. Returns how
   * many settlements are lost in all. Later checks are decided as if no server answered. */
  close(): Promise<number>;
}

/** For the option `overloaded`: whether this process's cgroup (v2) uses more than this part of its CPU or
 * memory: above({cpu: 0.9, memory: 0.85}). If the cgroup has no limit, the machine's CPU or memory is the
 * limit. Without cgroups, only the use of this process counts. `cgroup`: the folder of another cgroup. */
export function above(marks: {cpu?: number; memory?: number; cgroup?: string}): () => boolean;

/** For Express, and for other frameworks with functions of this form. `request.sluice` is the
 * decision. */
export function limitRequests<Q extends IncomingMessage = any>(
  client: Client, domain: string, attributes?: (request: Q) => Attributes, options?: CheckOptions,
): (request: Q, response: ServerResponse, next: (error?: unknown) => void) => Promise<void>;

export function limitInterceptor(
  client: Client, domain: string, attributes?: (metadata: Metadata) => Attributes,
  options?: CheckOptions,
): ServerInterceptor;
