package sluice.client;

import com.google.protobuf.Duration;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import sluice.v1.CheckLimitRequest;
import sluice.v1.CheckLimitResponse;
import sluice.v1.Lease;
import sluice.v1.RateLimiterGrpc;
import sluice.v1.ReleaseLeaseRequest;
import sluice.v1.RenewLeaseRequest;

/**
 * Asks Sluice whether requests are allowed. It has one channel and a deadline for every check, and it
 * decides by itself if no server answers in time. Thread-safe. A process needs only one client.
 */
public final class SluiceClient implements AutoCloseable {
  /** Holds a slot of a concurrency limit until it is closed. */
  public interface Hold extends AutoCloseable {
    @Override
    void close();
  }

  // Mistakes of the caller. Other errors mean that there is no decision.
  private static final Set<Status.Code> MISTAKES =
      EnumSet.of(
          Status.Code.INVALID_ARGUMENT,
          Status.Code.PERMISSION_DENIED,
          Status.Code.UNAUTHENTICATED,
          Status.Code.UNIMPLEMENTED);

  private static final Pattern ARGUMENT = Pattern.compile("\\{(\\d+)\\}"); // {0} of @Limited

  private final ManagedChannel channel;
  private final Options options;
  private final AtomicLong reconnected = new AtomicLong(System.nanoTime());
  private final ScheduledThreadPoolExecutor renewals =
      new ScheduledThreadPoolExecutor(
          1,
          work -> {
            Thread thread = new Thread(work, "sluice-leases");
            thread.setDaemon(true);
            return thread;
          });

  /** @param target such as "127.0.0.1:8081" or "dns:///sluice:8081"; plain text */
  public SluiceClient(String target, Options options) {
    this(
        ManagedChannelBuilder.forTarget(target).usePlaintext().proxyDetector(address -> null),
        options);
  }

  /** Uses the given channel, such as one with TLS. */
  public SluiceClient(ManagedChannelBuilder<?> builder, Options options) {
    channel = builder.defaultLoadBalancingPolicy("round_robin").build();
    this.options = options;
    renewals.setRemoveOnCancelPolicy(true); // else an ended lease stays queued until its renewal
  }

  /** Asks whether a request of cost 1 is allowed. Throws only if the request is invalid. */
  public Decision check(String domain, Map<String, String> attributes) {
    CheckLimitRequest.Builder request =
        CheckLimitRequest.newBuilder().setDomain(domain).putAllAttributes(attributes);
    if (options.maxWaitMillis >= 0) {
      request.setMaxWait(
          Duration.newBuilder()
              .setSeconds(options.maxWaitMillis / 1000)
              .setNanos((int) (options.maxWaitMillis % 1000) * 1_000_000));
    }
    return ask(request.build());
  }

  /** {@link #check} with all fields of the API: cost, mode, max_wait. */
  public Decision ask(CheckLimitRequest request) {
    try {
      CheckLimitResponse response =
          RateLimiterGrpc.newBlockingStub(channel)
              .withDeadlineAfter(options.deadlineMillis, TimeUnit.MILLISECONDS)
              .checkLimit(request);
      boolean allowed = response.getDecision() == sluice.v1.Decision.DECISION_ALLOWED;
      return new Decision(allowed, true, response);
    } catch (StatusRuntimeException error) {
      if (MISTAKES.contains(error.getStatus().getCode())) {
        throw error;
      }
      reconnectSoon();
      boolean open = options.withoutAnswer == Options.WithoutAnswer.OPEN;
      return new Decision(open, false, CheckLimitResponse.getDefaultInstance());
    }
  }

  /**
   * Runs {@code work} if the request is allowed, else throws {@link LimitedException}. If the answer has a
   * wait, sleeps first. A slot of a concurrency limit is held meanwhile, and always released afterwards.
   */
  public <T> T limited(String domain, Map<String, String> attributes, Callable<T> work)
      throws Exception {
    Decision decision = check(domain, attributes);
    if (!decision.isAllowed()) {
      throw new LimitedException(decision);
    }
    try (Hold hold = hold(decision)) {
      Thread.sleep(decision.waitMillis());
      return work.call();
    }
  }

  /** {@link #limited} for a call of an annotated method. */
  public <T> T limited(Limited limit, Object[] arguments, Callable<T> work) throws Exception {
    Map<String, String> attributes = new LinkedHashMap<>();
    for (String attribute : limit.attributes()) {
      int equals = attribute.indexOf('=');
      attributes.put(
          attribute.substring(0, equals), valueOf(attribute.substring(equals + 1), arguments));
    }
    return limited(limit.domain(), attributes, work);
  }

  private static String valueOf(String pattern, Object[] arguments) {
    Matcher found = ARGUMENT.matcher(pattern);
    StringBuffer value = new StringBuffer();
    while (found.find()) {
      String argument = String.valueOf(arguments[Integer.parseInt(found.group(1))]);
      found.appendReplacement(value, Matcher.quoteReplacement(argument));
    }
    return found.appendTail(value).toString();
  }

  /** Renews the decision's lease, if it has one, until the returned object is closed. */
  public Hold hold(Decision decision) {
    Lease lease = decision.response().getLease();
    if (lease.getId().isEmpty()) {
      return () -> {};
    }
    long third = Math.max(1, Decision.millis(lease.getTtl()) / 3);
    RenewLeaseRequest renewal = RenewLeaseRequest.newBuilder().setLeaseId(lease.getId()).build();
    ScheduledFuture<?> renewing =
        renewals.scheduleAtFixedRate(
            () -> stubFor(third).renewLease(renewal), third, third, TimeUnit.MILLISECONDS);
    return () -> {
      renewing.cancel(false);
      // Does not wait: if the answer never arrives, the slot is free after the ttl. Runs outside the
      // caller's context: when the caller's call ends, gRPC cancels that and all calls begun in it.
      ReleaseLeaseRequest release =
          ReleaseLeaseRequest.newBuilder().setLeaseId(lease.getId()).build();
      Context.ROOT.run(() -> stubFor(5000).releaseLease(release));
    };
  }

  private RateLimiterGrpc.RateLimiterFutureStub stubFor(long millis) {
    return RateLimiterGrpc.newFutureStub(channel).withDeadlineAfter(millis, TimeUnit.MILLISECONDS);
  }

  // By default gRPC waits up to two minutes between attempts.
  private void reconnectSoon() {
    long now = System.nanoTime();
    long last = reconnected.get();
    if (now - last > TimeUnit.SECONDS.toNanos(1) && reconnected.compareAndSet(last, now)) {
      channel.resetConnectBackoff();
    }
  }

  /** Waits until the server has answered pending calls, such as releases; at most 5 s. */
  @Override
  public void close() {
    renewals.shutdownNow();
    channel.shutdown();
    try {
      channel.awaitTermination(5, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
