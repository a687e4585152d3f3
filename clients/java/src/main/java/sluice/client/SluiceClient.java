package sluice.client;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.MoreExecutors;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.logging.Logger;
import sluice.v1.CheckLimitRequest;
import sluice.v1.CheckLimitResponse;
import sluice.v1.Lease;
import sluice.v1.RateLimiterGrpc;

/**
 * Asks Sluice whether requests are allowed. It has one channel and a deadline for every check, and it
 * decides by itself if no server answers in time. Thread-safe. A process needs only one client.
 */
public final class SluiceClient implements AutoCloseable {
  /** Holds a slot of a concurrency limit until it is closed; closing it again does nothing. */
  public interface Hold extends AutoCloseable {
    @Override
    void close();
  }

  /** Work that a limited request allows. */
  public interface LimitedWork<T> {
    /** {@code decision}: to report how the work went, see {@link Work#report}. */
    T run(Decision decision) throws Exception;
  }

  // The caller's errors. All other errors mean that there is no decision.
  static final Set<Status.Code> MISTAKES =
      EnumSet.of(
          Status.Code.INVALID_ARGUMENT,
          Status.Code.PERMISSION_DENIED,
          Status.Code.UNAUTHENTICATED,
          Status.Code.UNIMPLEMENTED);

  private final Connection connection;
  private final Options options;
  private final Leases leases;
  private final AtomicBoolean warned = new AtomicBoolean(); // that `overloaded` throws
  private final ScheduledThreadPoolExecutor timer =
      new ScheduledThreadPoolExecutor(
          1,
          work -> {
            Thread thread = new Thread(work, "sluice-leases");
            thread.setDaemon(true);
            return thread;
          });

  /**
   * Waits for a connection, for at most {@code options.connectTimeout}. After that, continues to
   * connect in the background.
   *
   * @param target such as "127.0.0.1:8081" or "dns:///sluice:8081"
   */
  public SluiceClient(String target, Options options) {
    this.options = options;
    connection = new Connection(target, options);
    leases = new Leases(connection, options, timer);
    timer.setRemoveOnCancelPolicy(true); // otherwise an ended lease stays queued until its renewal
    connection.warmUp(options.connectTimeout);
  }

  /**
   * Asks whether a request is allowed. Throws only if the request is invalid, or if the token's function
   * throws.
   */
  public Decision check(Check check) {
    return decide(requestFor(check));
  }

  /** The same without blocking. Fails only if the request is invalid. */
  public CompletableFuture<Decision> checkAsync(Check check) {
    return decideAsync(requestFor(check));
  }

  /**
   * Runs {@code work} if the request is allowed, else throws {@link LimitedException}. If the answer has a
   * wait, sleeps first. A slot of a concurrency limit is held meanwhile, and always released afterward.
   */
  public <T> T limited(Check check, Callable<T> work) throws Exception {
    return limited(check, decision -> work.call());
  }

  /** The same for work that reports how it went. */
  public <T> T limited(Check check, LimitedWork<T> work) throws Exception {
    Decision decision = check(check);
    if (!decision.isAllowed()) {
      throw decision.denial();
    }
    try (Hold hold = hold(decision)) {
      try {
        Thread.sleep(decision.waitMillis());
        return work.run(decision);
      } catch (Throwable error) {
        decision.reportError(error);
        throw error;
      }
    }
  }

  /** The same without blocking: a slot is held until what {@code work} returns is complete. */
  public <T> CompletableFuture<T> limitedAsync(Check check, Supplier<CompletionStage<T>> work) {
    return checkAsync(check)
        .thenCompose(
            decision -> {
              if (!decision.isAllowed()) {
                throw decision.denial();
              }
              Hold hold = hold(decision);
              return after(decision.waitMillis())
                  .thenCompose(done -> work.get())
                  .whenComplete(
                      (result, error) -> {
                        decision.reportError(error);
                        hold.close();
                      });
            });
  }

  /**
   * Takes units of all limits under a lease; throws {@link LimitedException} if the request is denied. If the
   * answer has a wait, sleeps first. Closing the reservation settles it with what was used.
   */
  public Reservation reserve(Check check) throws InterruptedException {
    Reservation reservation = reservationFor(check);
    try {
      Thread.sleep(reservation.begin());
      return reservation;
    } catch (InterruptedException interrupted) {
      reservation.abandon();
      throw interrupted;
    }
  }

  /** The same without blocking: settles when what {@code work} returns is complete. */
  public <T> CompletableFuture<T> reserveAsync(
      Check check, Function<Reservation, CompletionStage<T>> work) {
    Reservation reservation = reservationFor(check);
    return reservation
        .beginAsync()
        .thenCompose(done -> work.apply(reservation))
        .whenComplete(
            (result, error) -> {
              reservation.reportError(error);
              reservation.settle();
            });
  }

  /**
   * Renews the decision's lease, if it has one, until the returned object is closed. If the work fails,
   * call {@code decision.reportError} before you close it.
   */
  public Hold hold(Decision decision) {
    Lease lease = decision.response().getLease();
    if (lease.getId().isEmpty()) {
      return () -> {};
    }
    ScheduledFuture<?> renewing = leases.renew(lease);
    AtomicBoolean held = new AtomicBoolean(true);
    return () -> {
      if (held.getAndSet(false)) {
        renewing.cancel(false);
        leases.release(lease.getId(), decision.ended(this::overloaded));
      }
    };
  }

  /** Waits until settlements are stored and other calls are answered, at most {@code drain}. */
  @Override
  public void close() {
    long end = System.nanoTime() + options.drain.toNanos();
    try {
      leases.close(options.drain.toMillis());
      timer.shutdownNow();
      connection.close(end - System.nanoTime());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      connection.cancel();
    }
  }

  /** How many settlements were not stored. Their leases stay charged as taken. */
  public int lostSettlements() {
    return leases.lost();
  }

  Decision decide(CheckLimitRequest request) {
    try {
      return new Decision(
          RateLimiterGrpc.newBlockingStub(connection.channel)
              .withDeadlineAfter(options.deadline.toNanos(), TimeUnit.NANOSECONDS)
              .checkLimit(request));
    } catch (StatusRuntimeException error) {
      return withoutAnswer(error);
    }
  }

  CompletableFuture<Decision> decideAsync(CheckLimitRequest request) {
    CompletableFuture<Decision> decided = new CompletableFuture<>();
    Futures.addCallback(
        RateLimiterGrpc.newFutureStub(connection.channel)
            .withDeadlineAfter(options.deadline.toNanos(), TimeUnit.NANOSECONDS)
            .checkLimit(request),
        new FutureCallback<CheckLimitResponse>() {
          @Override
          public void onSuccess(CheckLimitResponse response) {
            if (!decided.complete(new Decision(response))) { // it was canceled
              endUnused(request, response);
            }
          }

          @Override
          public void onFailure(Throwable error) {
            try {
              decided.complete(withoutAnswer((StatusRuntimeException) error));
            } catch (StatusRuntimeException mistake) {
              decided.completeExceptionally(mistake);
            }
          }
        },
        MoreExecutors.directExecutor());
    return decided;
  }

  // Ends a lease that nobody uses. Units are settled: if the lease were released, they would stay
  // charged.
  private void endUnused(CheckLimitRequest request, CheckLimitResponse response) {
    String id = response.getLease().getId();
    if (!id.isEmpty() && request.hasLeaseTtl()) {
      leases.settle(id, Reservation.nothingOf(request), Leases.isLocal(response), Work.Ended.IGNORED);
    } else if (!id.isEmpty()) {
      leases.release(id, Work.Ended.IGNORED);
    }
  }

  private Reservation reservationFor(Check check) {
    CheckLimitRequest.Builder first = requestFor(check).toBuilder();
    if (!first.hasLeaseTtl()) {
      first.setLeaseTtl(Check.proto(options.leaseTtl));
    }
    return new Reservation(this, leases, first.build());
  }

  // Leaves `check` unchanged: its owner may use it again, also with another client.
  private CheckLimitRequest requestFor(Check check) {
    CheckLimitRequest.Builder request = check.request.clone();
    if (options.maxWait != null && !request.hasMaxWait() && !request.hasMaxDelay()) {
      request.setMaxWait(Check.proto(options.maxWait));
    }
    return request.build();
  }

  private Decision withoutAnswer(StatusRuntimeException error) {
    if (MISTAKES.contains(error.getStatus().getCode())) {
      throw error;
    }
    connection.reconnectSoon();
    return new Decision(
        options.withoutAnswer == Options.WithoutAnswer.OPEN, error.getStatus());
  }

  /** Whether this process is overloaded; false if the function throws. */
  boolean overloaded() {
    try {
      return options.overloaded.getAsBoolean();
    } catch (Throwable error) {
      if (!warned.getAndSet(true)) {
        Logger.getLogger(SluiceClient.class.getName())
            .warning("taken as false: overloaded throws " + error);
      }
      return false;
    }
  }

  CompletableFuture<Void> after(long millis) {
    CompletableFuture<Void> passed = new CompletableFuture<>();
    if (millis == 0) {
      passed.complete(null);
    } else {
      timer.schedule(() -> passed.complete(null), millis, TimeUnit.MILLISECONDS);
    }
    return passed;
  }
}
