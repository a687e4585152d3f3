package sluice.client;

import io.grpc.Status;
import java.io.InterruptedIOException;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.sql.SQLTimeoutException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import sluice.v1.HoldOutcome;

/**
 * The work for which slots are held. {@code concurrency} limits with {@code adapt} learn from its
 * outcome. This is OVERLOAD for a timeout, a broken or refused connection, lack of memory or
 * threads, or a status that means overload; IGNORE for any other error; OK if there is no error.
 * Thread-safe.
 */
public abstract class Work {
  private static final int TOO_MANY_REQUESTS = 429;
  private static final int DEEPEST_CAUSE = 10;

  private HoldOutcome reported;
  private HoldOutcome byError = HoldOutcome.HOLD_OUTCOME_OK;
  private com.google.protobuf.Duration duration;

  Work() {}

  /** Sets how the work went. Its error is then ignored. */
  public synchronized void report(HoldOutcome outcome) {
    reported = outcome;
  }

  /** Reports why the work failed; null: it did not fail. */
  public synchronized void reportError(Throwable error) {
    byError = outcomeOf(error);
  }

  /** Reports the HTTP status of the work's response. */
  public synchronized void reportHttpStatus(int status) {
    if (status == TOO_MANY_REQUESTS || status >= 500) {
      byError = HoldOutcome.HOLD_OUTCOME_OVERLOAD;
    }
  }

  /** Sets how long the work took. If this is not called, it is the time from take to release. */
  public synchronized void reportDuration(Duration value) {
    duration = Check.proto(value);
  }

  /** How the work went, as fields of the API. */
  static final class Ended {
    static final Ended IGNORED = new Ended(HoldOutcome.HOLD_OUTCOME_IGNORE, null);

    final HoldOutcome outcome;
    final com.google.protobuf.Duration duration; // null: from take to release

    Ended(HoldOutcome outcome, com.google.protobuf.Duration duration) {
      this.outcome = outcome;
      this.duration = duration;
    }
  }

  /** {@code overloaded}: whether this process is overloaded. */
  synchronized Ended ended(BooleanSupplier overloaded) {
    HoldOutcome outcome = reported != null ? reported : byError;
    boolean over =
        reported == null && outcome == HoldOutcome.HOLD_OUTCOME_OK && overloaded.getAsBoolean();
    return new Ended(over ? HoldOutcome.HOLD_OUTCOME_OVERLOAD : outcome, duration);
  }

  private static HoldOutcome outcomeOf(Throwable error) {
    Throwable cause = error;
    for (int depth = 0; cause != null && depth < DEEPEST_CAUSE; ++depth) {
      if (isOverload(cause)) {
        return HoldOutcome.HOLD_OUTCOME_OVERLOAD;
      }
      cause = cause.getCause();
    }
    return error == null ? HoldOutcome.HOLD_OUTCOME_OK : HoldOutcome.HOLD_OUTCOME_IGNORE;
  }

  private static boolean isOverload(Throwable error) {
    switch (Status.fromThrowable(error).getCode()) {
      case DEADLINE_EXCEEDED:
      case RESOURCE_EXHAUSTED:
      case UNAVAILABLE:
        return true;
      default:
        return error instanceof TimeoutException
            || error instanceof InterruptedIOException // a timeout of a socket
            || error instanceof SocketException
            || error instanceof UnknownHostException
            || error instanceof SQLTimeoutException
            || error instanceof SQLTransientConnectionException // a full pool
            || error instanceof RejectedExecutionException
            || error instanceof OutOfMemoryError
            || error.getClass().getName().equals("java.net.http.HttpTimeoutException");
    }
  }
}
