package sluice.client;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.MoreExecutors;
import io.grpc.Context;
import io.grpc.Status;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.logging.Logger;
import sluice.v1.CheckLimitResponse;
import sluice.v1.Lease;
import sluice.v1.Outcome;
import sluice.v1.RateLimiterGrpc;
import sluice.v1.ReleaseLeaseRequest;
import sluice.v1.ReleaseLeaseResponse;
import sluice.v1.RenewLeaseRequest;
import sluice.v1.SettleLeaseRequest;
import sluice.v1.SettleLeaseResponse;
import sluice.v1.Source;

/**
 * The leases of a client: renewed while they are open, released or settled in the background. Thread-safe.
 */
final class Leases {
  private static final long CALL_MILLIS = 5000; // a call waits that long for a connection
  // The pauses between attempts to release or settle, doubled each time.
  private static final long FIRST_PAUSE_MILLIS = 100;
  private static final long LAST_PAUSE_MILLIS = 1000;

  private final Connection connection;
  private final Options options;
  private final ScheduledThreadPoolExecutor timer;
  private int releasing; // guarded by this
  private int settling; // guarded by this
  private int lost; // guarded by this
  private boolean closed; // guarded by this

  Leases(Connection connection, Options options, ScheduledThreadPoolExecutor timer) {
    this.connection = connection;
    this.options = options;
    this.timer = timer;
  }

  /** Renews the lease each time after a third of its ttl, until the returned future is canceled. */
  ScheduledFuture<?> renew(Lease lease) {
    long third = Math.max(1, Decision.millis(lease.getTtl()) / 3);
    RenewLeaseRequest renewal = RenewLeaseRequest.newBuilder().setLeaseId(lease.getId()).build();
    return timer.scheduleAtFixedRate(
        () -> stubFor(third).renewLease(renewal), third, third, TimeUnit.MILLISECONDS);
  }

  /**
   * Sends the release until it succeeds, for 5 s. Does not wait for that. If it fails, the slot is free
   * after the ttl.
   */
  void release(String id, Work.Ended ended) {
    ReleaseLeaseRequest.Builder release =
        ReleaseLeaseRequest.newBuilder().setLeaseId(id).setHoldOutcome(ended.outcome);
    if (ended.duration != null) {
      release.setDuration(ended.duration);
    }
    synchronized (this) {
      ++releasing;
    }
    new Release(release.build()).attempt();
  }

  /** Whether the lease was granted while the store did not answer. */
  static boolean isLocal(CheckLimitResponse response) {
    return response.getSource() == Source.SOURCE_FALLBACK;
  }

  /** Sends the settlement until it is stored. Does not wait for that. */
  void settle(String id, Map<String, Long> used, boolean local, Work.Ended ended) {
    synchronized (this) {
      if (settling >= options.maxSettlements) {
        report(settling + " others are waiting");
        return;
      }
      ++settling;
    }
    SettleLeaseRequest.Builder request =
        SettleLeaseRequest.newBuilder().setLeaseId(id).setHoldOutcome(ended.outcome);
    if (ended.duration != null) {
      request.setDuration(ended.duration);
    }
    Map<String, Long> amounts = new HashMap<>(used);
    Long cost = amounts.remove("cost");
    if (cost != null) {
      request.setCost(cost);
    }
    request.putAllAmounts(amounts);
    new Settlement(request.build(), local).attempt();
  }

  /** Waits until leases are released and settlements are stored, for at most {@code millis}. */
  synchronized void close(long millis) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    while (releasing + settling > 0 && System.nanoTime() < end) {
      TimeUnit.NANOSECONDS.timedWait(this, end - System.nanoTime());
    }
    closed = true;
  }

  /** How many settlements are lost; after the client is closed, all that are not stored. */
  synchronized int lost() {
    return closed ? lost + settling : lost;
  }

  private RateLimiterGrpc.RateLimiterFutureStub stubFor(long millis) {
    return connection.background().withDeadlineAfter(millis, TimeUnit.MILLISECONDS);
  }

  private synchronized void report(String why) {
    ++lost;
    Logger.getLogger(SluiceClient.class.getName())
        .warning("a settlement is lost, its lease stays charged as taken: " + why);
  }

  /** A call that is repeated. */
  private abstract class Repeated<A> implements FutureCallback<A> {
    private final long end;
    private long pause = FIRST_PAUSE_MILLIS;

    Repeated(long nanos) {
      end = System.nanoTime() + nanos;
    }

    abstract ListenableFuture<A> send(RateLimiterGrpc.RateLimiterFutureStub stub);

    /** {@code failure}: null if the call succeeded. The caller holds the lock. */
    abstract void ended(String failure);

    // Runs outside the caller's context: when the caller's call ends, gRPC cancels that context and
    // all calls begun in it.
    final void attempt() {
      long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
      long timeout = Math.min(CALL_MILLIS, Math.max(FIRST_PAUSE_MILLIS, left));
      Context.ROOT.run(
          () ->
              Futures.addCallback(
                  send(stubFor(timeout)), this, MoreExecutors.directExecutor()));
    }

    @Override
    public void onSuccess(A response) {
      again(null, false);
    }

    @Override
    public void onFailure(Throwable error) {
      Status status = Status.fromThrowable(error);
      connection.reconnectSoon();
      again(status.toString(), !SluiceClient.MISTAKES.contains(status.getCode()));
    }

    final void again(String failure, boolean retry) {
      synchronized (Leases.this) {
        if (retry && !closed && System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause) < end) {
          long random = ThreadLocalRandom.current().nextLong(pause / 2, pause);
          timer.schedule(this::attempt, random, TimeUnit.MILLISECONDS);
          pause = Math.min(2 * pause, LAST_PAUSE_MILLIS);
          return;
        }
        ended(failure);
        Leases.this.notifyAll();
      }
    }
  }

  private final class Release extends Repeated<ReleaseLeaseResponse> {
    private final ReleaseLeaseRequest request;

    Release(ReleaseLeaseRequest request) {
      super(TimeUnit.MILLISECONDS.toNanos(CALL_MILLIS));
      this.request = request;
    }

    @Override
    ListenableFuture<ReleaseLeaseResponse> send(RateLimiterGrpc.RateLimiterFutureStub stub) {
      return stub.releaseLease(request);
    }

    @Override
    void ended(String failure) {
      --releasing;
    }
  }

  private final class Settlement extends Repeated<SettleLeaseResponse> {
    private final SettleLeaseRequest request;
    private final boolean local;

    Settlement(SettleLeaseRequest request, boolean local) {
      super(options.settleFor.toNanos());
      this.request = request;
      this.local = local;
    }

    @Override
    ListenableFuture<SettleLeaseResponse> send(RateLimiterGrpc.RateLimiterFutureStub stub) {
      return stub.settleLease(request);
    }

    // After QUEUED, the settlement is repeated, since the server that answered may die. It is also
    // repeated after NOT_FOUND if the lease was taken during an outage: such a lease is not found
    // until its server reaches the store.
    @Override
    public void onSuccess(SettleLeaseResponse response) {
      Outcome outcome = response.getOutcome();
      if (outcome == Outcome.OUTCOME_QUEUED || (local && outcome == Outcome.OUTCOME_NOT_FOUND)) {
        again("the store does not answer", true);
      } else {
        again(null, false);
      }
    }

    @Override
    void ended(String failure) {
      --settling;
      if (failure != null) {
        report(failure);
      }
    }
  }
}
