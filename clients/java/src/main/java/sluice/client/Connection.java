package sluice.client;

import com.google.protobuf.Empty;
import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.logging.Logger;
import sluice.v1.CheckLimitRequest;
import sluice.v1.CheckLimitResponse;
import sluice.v1.Lease;
import sluice.v1.RateLimiterGrpc;

/** The channel of a client, which connects at once and reconnects within a second. Thread-safe. */
final class Connection {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  final Channel channel; // adds the token; passes on the exception if its function throws
  private final ManagedChannel managed;
  private final CallCredentials credentials;
  private final String target;
  private final AtomicLong reconnected = new AtomicLong(System.nanoTime());

  Connection(String target, Options options) {
    this.target = target;
    managed =
        Grpc.newChannelBuilder(target, options.credentials)
            .proxyDetector(address -> null)
            .defaultLoadBalancingPolicy("round_robin")
            .defaultServiceConfig(serviceConfig())
            .enableRetry()
            // A server that hangs is noticed by PINGs, also while there are no calls.
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(2, TimeUnit.SECONDS)
            .keepAliveWithoutCalls(true)
            .build();
    channel = ClientInterceptors.intercept(managed, interceptor(options.token));
    credentials = credentials(options.token);
  }

  /** For calls in the background: if the token's function throws, the attempt has failed. */
  RateLimiterGrpc.RateLimiterFutureStub background() {
    return RateLimiterGrpc.newFutureStub(managed).withCallCredentials(credentials);
  }

  /** Waits for pending calls for at most {@code nanos}, then cancels them. */
  void close(long nanos) throws InterruptedException {
    managed.shutdown();
    managed.awaitTermination(nanos, TimeUnit.NANOSECONDS);
    cancel();
  }

  void cancel() {
    managed.shutdownNow();
  }

  // Lets gRPC connect now. By default, it waits up to two minutes between attempts.
  void reconnectSoon() {
    long now = System.nanoTime();
    long last = reconnected.get();
    if (now - last > TimeUnit.SECONDS.toNanos(1) && reconnected.compareAndSet(last, now)) {
      managed.resetConnectBackoff();
    }
  }

  // The first call of a process takes several 100 ms, since classes are loaded, so a first check
  // would miss its deadline. This call, to the health service, takes nothing and needs no token.
  void warmUp(Duration timeout) {
    MethodDescriptor<Empty, Empty> health =
        MethodDescriptor.<Empty, Empty>newBuilder()
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("grpc.health.v1.Health/Check")
            .setRequestMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
            .setResponseMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
            .build();
    CallOptions patient =
        CallOptions.DEFAULT
            .withWaitForReady()
            .withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
    try {
      loadMessages();
      ClientCalls.blockingUnaryCall(channel, health, patient, Empty.getDefaultInstance());
    } catch (RuntimeException error) {
      Logger.getLogger(SluiceClient.class.getName())
          .warning("no answer from " + target + ": " + error);
    }
  }

  private static void loadMessages() {
    MethodDescriptor<CheckLimitRequest, CheckLimitResponse> method =
        RateLimiterGrpc.getCheckLimitMethod();
    method.parseRequest(
        method.streamRequest(Check.of("").attribute("a", "").cost(1).request.build()));
    method.parseResponse(
        method.streamResponse(
            CheckLimitResponse.newBuilder()
                .setLease(Lease.getDefaultInstance())
                .addLimits(sluice.v1.LimitStatus.getDefaultInstance())
                .build()));
  }

  private static Metadata bearer(Supplier<String> token) {
    Metadata headers = new Metadata();
    String value = token.get();
    if (value != null) {
      headers.put(AUTHORIZATION, "Bearer " + value);
    }
    return headers;
  }

  private static ClientInterceptor interceptor(Supplier<String> token) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(
          MethodDescriptor<Q, A> method, CallOptions call, Channel next) {
        return MetadataUtils.newAttachHeadersInterceptor(bearer(token))
            .interceptCall(method, call, next);
      }
    };
  }

  // UNAVAILABLE is repeated by gRPC, with a new token.
  private static CallCredentials credentials(Supplier<String> token) {
    return new CallCredentials() {
      @Override
      public void applyRequestMetadata(
          RequestInfo request, Executor executor, MetadataApplier applier) {
        executor.execute(
            () -> {
              Metadata headers;
              try {
                headers = bearer(token);
              } catch (Throwable error) {
                applier.fail(
                    Status.UNAVAILABLE.withDescription("no token: " + error).withCause(error));
                return;
              }
              applier.apply(headers);
            });
      }

      @Override
      public void thisUsesUnstableApi() {}
    };
  }

  // A check is never sent twice, since it may have been counted. Calls that end or renew a lease
  // are idempotent.
  private static Map<String, ?> serviceConfig() {
    Map<String, Object> retry = new HashMap<>();
    retry.put("maxAttempts", 5.0);
    retry.put("initialBackoff", "0.1s");
    retry.put("maxBackoff", "1s");
    retry.put("backoffMultiplier", 2.0);
    retry.put("retryableStatusCodes", Collections.singletonList("UNAVAILABLE"));
    Map<String, Object> leases = new HashMap<>();
    leases.put(
        "name",
        Arrays.asList(nameOf("RenewLease"), nameOf("ReleaseLease"), nameOf("SettleLease")));
    leases.put("waitForReady", true);
    leases.put("retryPolicy", retry);
    return Collections.singletonMap("methodConfig", Collections.singletonList(leases));
  }

  private static Map<String, Object> nameOf(String method) {
    Map<String, Object> name = new HashMap<>();
    name.put("service", RateLimiterGrpc.SERVICE_NAME);
    name.put("method", method);
    return name;
  }
}
