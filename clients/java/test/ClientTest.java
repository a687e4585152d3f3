import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import sluice.client.Check;
import sluice.client.Options;
import sluice.client.Reservation;
import sluice.client.SluiceClient;
import sluice.v1.CheckLimitRequest;
import sluice.v1.CheckLimitResponse;
import sluice.v1.Decision;
import sluice.v1.HoldOutcome;
import sluice.v1.Lease;
import sluice.v1.Outcome;
import sluice.v1.RateLimiterGrpc;
import sluice.v1.ReleaseLeaseRequest;
import sluice.v1.ReleaseLeaseResponse;
import sluice.v1.RenewLeaseRequest;
import sluice.v1.RenewLeaseResponse;
import sluice.v1.SettleLeaseRequest;
import sluice.v1.SettleLeaseResponse;

/** Tests what clients/testing/run.py cannot: functions of the application that throw, and a server that hangs. */
public final class ClientTest {
  private static final Duration SOON = Duration.ofMinutes(1); // long: the machine may be busy
  private static final Duration SHORT = Duration.ofMillis(300); // a ttl; a renewal comes soon
  private static final Check CHECK = Check.of("shop");

  private interface Test {
    void run() throws Exception;
  }

  /** A server that grants leases and notes the calls. */
  private static final class Fake extends RateLimiterGrpc.RateLimiterImplBase
      implements ServerInterceptor, AutoCloseable {
    final BlockingQueue<String> calls = new LinkedBlockingQueue<>(); // those that succeed
    final BlockingQueue<HoldOutcome> outcomes = new LinkedBlockingQueue<>();
    final AtomicInteger failures = new AtomicInteger(); // so many further calls are UNAVAILABLE
    private final Duration ttl;
    private final Server server;

    Fake(Duration ttl) throws Exception {
      this.ttl = ttl;
      server = ServerBuilder.forPort(0).addService(this).intercept(this).build().start();
    }

    SluiceClient client(Options options) {
      return new SluiceClient("127.0.0.1:" + server.getPort(), options.deadline(SOON).drain(SOON));
    }

    /** Waits until a call with this name succeeds. */
    void await(String name) throws InterruptedException {
      String call;
      do {
        call = calls.poll(SOON.getSeconds(), TimeUnit.SECONDS);
        require(call != null, "no " + name);
      } while (!call.equals(name));
    }

    @Override
    public void close() {
      server.shutdownNow();
    }

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      String name = call.getMethodDescriptor().getBareMethodName();
      if (failures.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
        call.close(Status.UNAVAILABLE, new Metadata());
        return new ServerCall.Listener<Q>() {};
      }
      calls.add(name);
      return next.startCall(call, headers);
    }

    @Override
    public void checkLimit(CheckLimitRequest request, StreamObserver<CheckLimitResponse> answer) {
      com.google.protobuf.Duration proto =
          com.google.protobuf.Duration.newBuilder()
              .setSeconds(ttl.getSeconds())
              .setNanos(ttl.getNano())
              .build();
      answer.onNext(
          CheckLimitResponse.newBuilder()
              .setDecision(Decision.DECISION_ALLOWED)
              .setLease(Lease.newBuilder().setId("lease").setTtl(proto))
              .build());
      answer.onCompleted();
    }

    @Override
    public void renewLease(RenewLeaseRequest request, StreamObserver<RenewLeaseResponse> answer) {
      answer.onNext(RenewLeaseResponse.getDefaultInstance());
      answer.onCompleted();
    }

    @Override
    public void releaseLease(
        ReleaseLeaseRequest request, StreamObserver<ReleaseLeaseResponse> answer) {
      outcomes.add(request.getHoldOutcome());
      answer.onNext(ReleaseLeaseResponse.getDefaultInstance());
      answer.onCompleted();
    }

    @Override
    public void settleLease(
        SettleLeaseRequest request, StreamObserver<SettleLeaseResponse> answer) {
      outcomes.add(request.getHoldOutcome());
      answer.onNext(
          SettleLeaseResponse.newBuilder().setOutcome(Outcome.OUTCOME_SETTLED).build());
      answer.onCompleted();
    }
  }

  /** The function of a token that is being replaced. */
  private static final class Flaky implements Supplier<String> {
    final Semaphore failures = new Semaphore(0); // how often it throws
    final Semaphore thrown = new Semaphore(0);

    @Override
    public String get() {
      if (failures.tryAcquire()) {
        thrown.release();
        throw new IllegalStateException("the token is being replaced");
      }
      return "t";
    }
  }

  private ClientTest() {}

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }

  private static void renewsAfterTheTokenFails() throws Exception {
    Flaky token = new Flaky();
    try (Fake server = new Fake(SHORT);
        SluiceClient client = server.client(new Options().token(token));
        SluiceClient.Hold hold = client.hold(client.check(CHECK))) {
      token.failures.release();
      require(token.thrown.tryAcquire(SOON.getSeconds(), TimeUnit.SECONDS), "no renewal");
      server.calls.clear();
      server.await("RenewLease");
    }
  }

  private static void releasesAndSettlesAfterTheTokenFails() throws Exception {
    Flaky token = new Flaky();
    try (Fake server = new Fake(SOON);
        SluiceClient client = server.client(new Options().token(token))) {
      SluiceClient.Hold hold = client.hold(client.check(CHECK));
      token.failures.release();
      hold.close();
      server.await("ReleaseLease");

      Reservation reservation = client.reserve(CHECK);
      token.failures.release(10); // more than gRPC's attempts
      reservation.settle();
      server.await("SettleLease");
      client.close();
      require(client.lostSettlements() == 0, "a settlement is lost");
    }
  }

  private static void aCheckPassesTheExceptionOn() throws Exception {
    Flaky token = new Flaky();
    token.failures.release(); // during the start, it is only a warning
    try (Fake server = new Fake(SOON);
        SluiceClient client = server.client(new Options().token(token))) {
      token.failures.release();
      try {
        client.check(CHECK);
      } catch (IllegalStateException expected) {
        return;
      }
      throw new AssertionError("no exception");
    }
  }

  private static void releasesAndSettlesIfOverloadedThrows() throws Exception {
    BlockingQueue<String> log = new LinkedBlockingQueue<>();
    Logger logger = Logger.getLogger(SluiceClient.class.getName());
    logger.addHandler(
        new Handler() {
          @Override
          public void publish(LogRecord record) {
            if (record.getMessage().contains("no cgroup")) {
              log.add(record.getMessage());
            }
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        });
    Options options =
        new Options()
            .overloaded(
                () -> {
                  throw new IllegalStateException("no cgroup");
                });
    try (Fake server = new Fake(SOON);
        SluiceClient client = server.client(options)) {
      client.hold(client.check(CHECK)).close();
      server.await("ReleaseLease");
      client.reserve(CHECK).close();
      server.await("SettleLease");
      for (int i = 0; i < 2; ++i) {
        require(server.outcomes.take() == HoldOutcome.HOLD_OUTCOME_OK, "not OK");
      }
    }
    require(log.size() == 1, "not one line: " + log);
  }

  private static void repeatsRenewalsAndReleasesAfterUnavailable() throws Exception {
    try (Fake server = new Fake(SHORT);
        SluiceClient client = server.client(new Options());
        SluiceClient.Hold hold = client.hold(client.check(CHECK))) {
      server.await("CheckLimit");
      server.failures.set(2);
      server.await("RenewLease");
    }
    try (Fake server = new Fake(SOON);
        SluiceClient client = server.client(new Options())) {
      SluiceClient.Hold hold = client.hold(client.check(CHECK));
      server.failures.set(6); // more than gRPC's attempts of a call
      hold.close();
      server.await("ReleaseLease");
    }
  }

  /** The server accepts the connection, and then hangs. */
  private static void closesTheConnectionToAHungServer() throws Exception {
    try (ServerSocket listening = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      CompletableFuture<Integer> end =
          CompletableFuture.supplyAsync(
              () -> {
                try (Socket connection = listening.accept()) {
                  connection.getOutputStream().write(new byte[] {0, 0, 0, 4, 0, 0, 0, 0, 0}); // SETTINGS
                  byte[] buffer = new byte[4096];
                  int size = 0;
                  while (size >= 0) {
                    size = connection.getInputStream().read(buffer);
                  }
                  return size;
                } catch (java.io.IOException error) {
                  throw new java.io.UncheckedIOException(error);
                }
              });
      try (SluiceClient client =
          new SluiceClient(
              "127.0.0.1:" + listening.getLocalPort(),
              new Options().connectTimeout(Duration.ofMillis(1)))) {
        end.get(SOON.getSeconds(), TimeUnit.SECONDS);
      }
    }
  }

  private static void run(String name, Test test) throws Exception {
    System.out.println(name);
    test.run();
  }

  public static void main(String[] arguments) throws Exception {
    run("renewsAfterTheTokenFails", ClientTest::renewsAfterTheTokenFails);
    run("releasesAndSettlesAfterTheTokenFails", ClientTest::releasesAndSettlesAfterTheTokenFails);
    run("aCheckPassesTheExceptionOn", ClientTest::aCheckPassesTheExceptionOn);
    run("releasesAndSettlesIfOverloadedThrows", ClientTest::releasesAndSettlesIfOverloadedThrows);
    run(
        "repeatsRenewalsAndReleasesAfterUnavailable",
        ClientTest::repeatsRenewalsAndReleasesAfterUnavailable);
    run("closesTheConnectionToAHungServer", ClientTest::closesTheConnectionToAHungServer);
    System.exit(0); // gRPC's threads continue
  }
}
