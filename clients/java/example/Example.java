import grpc.health.v1.HealthGrpc;
import grpc.health.v1.HealthOuterClass.HealthCheckRequest;
import grpc.health.v1.HealthOuterClass.HealthCheckResponse;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.ConnectException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import org.springframework.aop.framework.autoproxy.DefaultAdvisorAutoProxyCreator;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.beans.factory.support.RootBeanDefinition;
import sluice.client.Check;
import sluice.client.Decision;
import sluice.client.LimitInterceptor;
import sluice.client.Limited;
import sluice.client.LimitedException;
import sluice.client.LimitedProxy;
import sluice.client.Load;
import sluice.client.Options;
import sluice.client.Options.WithoutAnswer;
import sluice.client.Reservation;
import sluice.client.SluiceClient;
import sluice.spring.LimitedAdvisor;
import sluice.v1.HoldOutcome;
import sluice.v1.Mode;

/**
 * A shop whose methods and gRPC calls are limited. See clients/java/README.md.
 *
 * <pre>
 * pay ADDRESS USER...            pays once for each user, by a plain proxy
 * spring ADDRESS USER...         the same, by Spring's proxy
 * async ADDRESS USER...          the same, without blocking
 * first ADDRESS                  checks once, with the default options
 * crowd ADDRESS THREADS CALLS    pays CALLS times per thread; prints how many are allowed
 * queue ADDRESS CALLS            makes CALLS calls in sequence; prints the time in ms
 * modes ADDRESS                  charges 5 units, gives 2 back; prints what is left
 * ask ADDRESS open|closed        checks once for each line of standard input
 * export ADDRESS                 holds a slot until standard input ends
 * reserve ADDRESS USER           works three times: takes estimated tokens, settles with those used
 * reserve_async ADDRESS USER     the same, without blocking
 * settle ADDRESS USER DRAIN SETTLE_FOR MAX
 *                                takes tokens, and settles them after a line of standard input;
 *                                DRAIN and SETTLE_FOR are in ms
 * outcomes ADDRESS               works eight times, and reports how the work went
 * serve ADDRESS                  serves gRPC and HTTP until standard input ends
 * </pre>
 */
public final class Example {
  // Long, because an example must work on a busy machine.
  private static final Duration DEADLINE = Duration.ofMinutes(1);
  private static final BufferedReader INPUT =
      new BufferedReader(new InputStreamReader(System.in));

  /** The limited interface, which has no annotations. */
  interface Till {
    String charge(String user);
  }

  /** The annotated method. */
  public static class ShopTill implements Till {
    @Override
    @Limited(domain = "shop", attributes = {"endpoint=/pay", "user={user}"})
    public String charge(String user) {
      return user + " has paid";
    }
  }

  /** A service without limits. */
  private static final class Health extends HealthGrpc.HealthImplBase {
    @Override
    public void check(HealthCheckRequest request, StreamObserver<HealthCheckResponse> answer) {
      answer.onNext(
          HealthCheckResponse.newBuilder()
              .setStatus(HealthCheckResponse.ServingStatus.SERVING)
              .build());
      answer.onCompleted();
    }

    @Override
    public void watch(HealthCheckRequest request, StreamObserver<HealthCheckResponse> answer) {
      check(request, answer);
    }
  }

  private Example() {}

  private static void pay(Till till, List<String> users) {
    for (String user : users) {
      try {
        System.out.println(till.charge(user));
      } catch (LimitedException limited) {
        System.out.println(denied(user, limited));
      }
    }
  }

  private static void payAsync(SluiceClient client, List<String> users) {
    for (String user : users) {
      CompletableFuture<String> paid =
          client.limitedAsync(
              Check.of("shop").attribute("endpoint", "/pay").attribute("user", user),
              () -> CompletableFuture.completedFuture(user + " has paid"));
      System.out.println(
          paid.exceptionally(
                  error -> denied(user, (LimitedException) ((CompletionException) error).getCause()))
              .join());
    }
  }

  private static String denied(String user, LimitedException limited) {
    long seconds = limited.decision().retryAfterMillis() / 1000;
    return user + " is denied, retry in " + seconds + " s";
  }

  private static Till springTill(SluiceClient client) {
    DefaultListableBeanFactory beans = new DefaultListableBeanFactory();
    beans.registerBeanDefinition("till", new RootBeanDefinition(ShopTill.class));
    beans.registerSingleton("limits", new LimitedAdvisor(client));
    DefaultAdvisorAutoProxyCreator creator = new DefaultAdvisorAutoProxyCreator();
    creator.setBeanFactory(beans);
    beans.addBeanPostProcessor(creator);
    return beans.getBean(Till.class);
  }

  private static void crowd(SluiceClient client, int threads, int calls) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    List<Future<Integer>> parts = new ArrayList<>();
    for (int i = 0; i < threads; ++i) {
      parts.add(pool.submit(() -> payFor(client, calls)));
    }
    int allowed = 0;
    for (Future<Integer> part : parts) {
      allowed += part.get();
    }
    pool.shutdown();
    System.out.println(allowed);
  }

  private static int payFor(SluiceClient client, int calls) {
    int allowed = 0;
    for (int i = 0; i < calls; ++i) {
      Check check = Check.of("shop").attribute("endpoint", "/pay").attribute("user", "crowd");
      allowed += client.check(check).isAllowed() ? 1 : 0;
    }
    return allowed;
  }

  private static void queue(SluiceClient client, int calls) throws Exception {
    long start = System.nanoTime();
    for (int i = 0; i < calls; ++i) {
      client.limited(
          Check.of("shop").attribute("endpoint", "/queue").maxWait(Duration.ofMinutes(1)), () -> null);
    }
    System.out.println((System.nanoTime() - start) / 1_000_000);
  }

  private static Check browse() {
    return Check.of("shop").attribute("endpoint", "/browse");
  }

  private static String describe(Decision decision) {
    return (decision.isAllowed() ? "allowed" : "denied")
        + (decision.isAnswered() ? " by Sluice" : " without an answer");
  }

  private static void modes(SluiceClient client) {
    Decision charged = client.check(tokens().mode(Mode.MODE_CHARGE).cost(3).amount("tokens", 2));
    client.check(tokens().refundOf(charged).cost(2));
    Decision peeked = client.check(tokens().mode(Mode.MODE_PEEK));
    System.out.println(peeked.response().getLimits(0).getRemaining());
  }

  private static Check tokens() {
    return Check.of("shop").attribute("endpoint", "/tokens");
  }

  private static void ask(SluiceClient client) throws Exception {
    while (INPUT.readLine() != null) {
      System.out.println(describe(client.check(browse())));
    }
  }

  private static void export(SluiceClient client) throws Exception {
    try {
      client.limited(
          Check.of("shop").attribute("endpoint", "/export"),
          () -> {
            System.out.println("held");
            untilInputEnds();
            throw new IllegalStateException("the work fails");
          });
    } catch (LimitedException limited) {
      System.out.println("denied");
    } catch (IllegalStateException failure) {
      System.out.println("released");
    }
  }

  private static Check model(String user, long tokens) {
    return Check.of("shop")
        .attribute("endpoint", "/model")
        .attribute("user", user)
        .amount("tokens", tokens);
  }

  private static Map<String, Long> tokens(long value) {
    return Collections.singletonMap("tokens", value);
  }

  private interface Prompt {
    void answer(SluiceClient client, String user) throws Exception;
  }

  /** The model's answer needs more tokens than were taken. */
  private static void longer(SluiceClient client, String user) throws Exception {
    try (Reservation reservation = client.reserve(model(user, 400))) {
      reservation.use("tokens", 400);
      reservation.extend(tokens(300));
      reservation.use("tokens", 450);
    }
  }

  private static void aborted(SluiceClient client, String user) throws Exception {
    try (Reservation reservation = client.reserve(model(user, 100))) {
      reservation.use("tokens", 50);
      throw new IllegalStateException("the work fails");
    } catch (IllegalStateException failure) {
      return;
    }
  }

  /**
   * The rest of the tokens is taken, so a further part is denied. A settled reservation cannot be
   * extended.
   */
  private static void stopped(SluiceClient client, String user) throws Exception {
    Reservation reservation = client.reserve(model(user, 500)).use("tokens", 20);
    try {
      reservation.extend(tokens(1));
    } catch (LimitedException limited) {
      System.out.println("denied");
    } finally {
      reservation.settle();
    }
    try {
      reservation.extend(tokens(1));
    } catch (IllegalStateException settled) {
      return;
    }
    throw new AssertionError("extended after settle");
  }

  private static void longerAsync(SluiceClient client, String user) {
    client
        .reserveAsync(
            model(user, 400),
            reservation ->
                reservation
                    .use("tokens", 400)
                    .extendAsync(tokens(300))
                    .thenRun(() -> reservation.use("tokens", 450)))
        .join();
  }

  private static void stoppedAsync(SluiceClient client, String user) {
    CompletableFuture<Reservation> stopped = new CompletableFuture<>();
    client
        .reserveAsync(
            model(user, 500),
            reservation -> {
              stopped.complete(reservation);
              return reservation.use("tokens", 20).extendAsync(tokens(1));
            })
        .exceptionally(
            error -> {
              System.out.println(
                  error.getCause() instanceof LimitedException ? "denied" : error.toString());
              return null;
            })
        .join();
    try {
      stopped.join().extendAsync(tokens(1)).join();
    } catch (CompletionException failed) {
      if (failed.getCause() instanceof IllegalStateException) {
        return;
      }
      throw failed;
    }
    throw new AssertionError("extended after the settlement");
  }

  private static void reserve(String address, String user, Prompt... prompts) throws Exception {
    for (Prompt prompt : prompts) {
      Options options = new Options().deadline(DEADLINE).drain(DEADLINE);
      try (SluiceClient client = new SluiceClient(address, options)) {
        prompt.answer(client, user);
      }
    }
  }

  private static void outcomes(String address) throws Exception {
    Check database = Check.of("shop").attribute("endpoint", "/database");
    Options options = new Options().deadline(DEADLINE).drain(DEADLINE);
    Exception[] failures = {
      new TimeoutException(),
      new IllegalStateException(new ConnectException("refused")),
      new IllegalStateException("the work fails")
    };
    try (SluiceClient client = new SluiceClient(address, options)) {
      client.limited(database, () -> null);
      for (Exception failure : failures) {
        try {
          client.limited(
              database,
              () -> {
                throw failure;
              });
        } catch (TimeoutException | IllegalStateException expected) {
          continue;
        }
      }
      client.limited(
          database,
          decision -> {
            decision.report(HoldOutcome.HOLD_OUTCOME_OVERLOAD);
            return null;
          });
      client.limited(
          database,
          decision -> {
            decision.reportDuration(Duration.ofMinutes(1));
            return null;
          });
      try (Reservation reservation = client.reserve(database)) {
        reservation.report(HoldOutcome.HOLD_OUTCOME_IGNORE);
      }
    }
    try (SluiceClient busy = new SluiceClient(address, options.overloaded(Load.above(1, 0)))) {
      busy.limited(database, () -> null);
    }
    System.out.println("done");
  }

  private static void settle(String address, List<String> words) throws Exception {
    SluiceClient client =
        new SluiceClient(
            address,
            new Options()
                .deadline(DEADLINE)
                .leaseTtl(Duration.ofSeconds(6))
                .drain(Duration.ofMillis(Long.parseLong(words.get(1))))
                .settleFor(Duration.ofMillis(Long.parseLong(words.get(2))))
                .maxSettlements(Integer.parseInt(words.get(3))));
    try (Reservation reservation = client.reserve(model(words.get(0), 300))) {
      reservation.extend(tokens(100));
      System.out.println("held");
      INPUT.readLine();
      reservation.use("tokens", 100);
    }
    System.out.println("settled");
    client.close();
    System.out.println(client.lostSettlements() + " lost");
  }

  private static void serve(SluiceClient client) throws Exception {
    Metadata.Key<String> user = Metadata.Key.of("user", Metadata.ASCII_STRING_MARSHALLER);
    LimitInterceptor byUser =
        new LimitInterceptor(
            client, "shop", headers -> Collections.singletonMap("user", "" + headers.get(user)));
    Server server =
        ServerBuilder.forPort(0).addService(new Health()).intercept(byUser).build().start();
    try {
      System.out.println("grpc=" + server.getPort() + Web.serve(client));
      untilInputEnds();
    } finally {
      server.shutdownNow();
    }
  }

  private static void untilInputEnds() throws java.io.IOException {
    while (INPUT.readLine() != null) {}
  }

  public static void main(String[] arguments) {
    try {
      run(arguments);
      System.exit(0); // threads of HTTP servers continue
    } catch (Exception error) {
      error.printStackTrace();
      System.exit(1);
    }
  }

  private static void run(String[] arguments) throws Exception {
    if (arguments.length < 2) {
      System.err.println(
          "usage: pay|spring|async|first|crowd|queue|modes|ask|export|reserve|reserve_async|settle"
              + "|outcomes|serve ADDRESS [ARGUMENT...]");
      System.exit(2);
    }
    List<String> more = Arrays.asList(arguments).subList(2, arguments.length);
    Options options = new Options();
    if (!arguments[0].equals("first")) {
      options.deadline(arguments[0].equals("ask") ? Duration.ofSeconds(1) : DEADLINE);
    }
    if (more.contains("closed") || arguments[0].equals("serve")) {
      options.withoutAnswer(WithoutAnswer.CLOSED);
    }
    try (SluiceClient client = new SluiceClient(arguments[1], options)) {
      switch (arguments[0]) {
        case "pay":
          pay(LimitedProxy.of(client, Till.class, new ShopTill()), more);
          break;
        case "spring":
          pay(springTill(client), more);
          break;
        case "async":
          payAsync(client, more);
          break;
        case "first":
          System.out.println(describe(client.check(browse())));
          break;
        case "crowd":
          crowd(client, Integer.parseInt(more.get(0)), Integer.parseInt(more.get(1)));
          break;
        case "queue":
          queue(client, Integer.parseInt(more.get(0)));
          break;
        case "modes":
          modes(client);
          break;
        case "ask":
          ask(client);
          break;
        case "reserve":
          reserve(arguments[1], more.get(0), Example::longer, Example::aborted, Example::stopped);
          break;
        case "reserve_async":
          reserve(
              arguments[1], more.get(0), Example::longerAsync, Example::aborted, Example::stoppedAsync);
          break;
        case "settle":
          settle(arguments[1], more);
          break;
        case "outcomes":
          outcomes(arguments[1]);
          break;
        case "export":
          export(client);
          break;
        case "serve":
          serve(client);
          break;
        default:
          throw new IllegalArgumentException(arguments[0]);
      }
    }
  }
}
