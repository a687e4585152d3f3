package sluice.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import sluice.v1.CheckLimitRequest;
import sluice.v1.HoldOutcome;
import sluice.v1.Lease;

/**
 * Units under a lease, which is renewed until the reservation is settled. Amounts are named; {@code cost} is
 * a name, too. Thread-safe.
 */
public final class Reservation extends Work implements AutoCloseable {
  private static final class Part {
    final String id;
    final Map<String, Long> held;
    final boolean local;
    final ScheduledFuture<?> renewing;

    Part(String id, Map<String, Long> held, boolean local, ScheduledFuture<?> renewing) {
      this.id = id;
      this.held = held;
      this.local = local;
      this.renewing = renewing;
    }
  }

  private final SluiceClient client;
  private final Leases leases;
  private final CheckLimitRequest first;
  private final List<Part> parts = new ArrayList<>(); // in the order of taking
  private final Map<String, Long> used = new HashMap<>();
  private Decision decision;
  private boolean open = true;

  Reservation(SluiceClient client, Leases leases, CheckLimitRequest first) {
    this.client = client;
    this.leases = leases;
    this.first = first;
  }

  /** The last decision that allowed units: of {@code reserve}, or of an {@code extend}. */
  public synchronized Decision decision() {
    return decision;
  }

  /**
   * Sets what has been used until now, in total. Amounts that are never named are settled as taken.
   */
  public synchronized Reservation use(String name, long value) {
    used.put(name, value);
    return this;
  }

  /**
   * Takes more units for the next part of the work, under a further lease. Does not count as a
   * request, and takes no slot unless "cost" is named. Throws {@link LimitedException} if the units
   * are denied, and {@link IllegalStateException} if the reservation is settled. If the answer has
   * a wait, sleeps.
   */
  public void extend(Map<String, Long> amounts) throws InterruptedException {
    mustBeOpen();
    CheckLimitRequest next = further(amounts);
    Thread.sleep(admit(client.decide(next), next).waitMillis());
  }

  /** The same without blocking: the future fails with the exception. */
  public CompletableFuture<Void> extendAsync(Map<String, Long> amounts) {
    CheckLimitRequest next = further(amounts);
    return CompletableFuture.completedFuture(next)
        .thenCompose(
            request -> {
              mustBeOpen();
              return client.decideAsync(request);
            })
        .thenCompose(decision -> client.after(admit(decision, next).waitMillis()));
  }

  /**
   * Ends the reservation with what was used. The client repeats the settlement in the background until it is
   * stored. Settling again does nothing.
   */
  public synchronized void settle() {
    if (!open) {
      return;
    }
    open = false;
    List<Map<String, Long>> shares = split();
    Ended ended = ended(client::overloaded);
    for (int i = 0; i < parts.size(); ++i) {
      parts.get(i).renewing.cancel(false);
      leases.settle(parts.get(i).id, shares.get(i), parts.get(i).local, ended);
    }
  }

  /** Settles. */
  @Override
  public void close() {
    settle();
  }

  /** Takes the first part; returns how long to wait. */
  long begin() {
    return admit(client.decide(first), first).waitMillis();
  }

  CompletableFuture<Void> beginAsync() {
    return client
        .decideAsync(first)
        .thenCompose(decision -> client.after(admit(decision, first).waitMillis()));
  }

  /** Ends the reservation as if nothing had been used. */
  synchronized void abandon() {
    report(HoldOutcome.HOLD_OUTCOME_IGNORE);
    used.putAll(nothingOf(first));
    settle();
  }

  static Map<String, Long> nothingOf(CheckLimitRequest request) {
    Map<String, Long> nothing = heldBy(request);
    nothing.replaceAll((name, value) -> 0L);
    return nothing;
  }

  // The amounts that a request takes, by name, with the defaults of the API.
  private static Map<String, Long> heldBy(CheckLimitRequest request) {
    Map<String, Long> held = new HashMap<>();
    held.put("cost", request.hasCost() ? request.getCost() : 1);
    held.put("requests", held.get("cost") == 0 ? 0L : 1L);
    held.putAll(request.getAmountsMap());
    return held;
  }

  private CheckLimitRequest further(Map<String, Long> amounts) {
    Map<String, Long> others = new HashMap<>(amounts);
    Long cost = others.remove("cost");
    if (cost != null && cost > 0) {
      others.putIfAbsent("requests", 0L);
    }
    return first.toBuilder()
        .setCost(cost == null ? 0 : cost)
        .clearAmounts()
        .putAllAmounts(others)
        .build();
  }

  // Without a lease there is nothing to settle: no rule counts the request, or no server answered.
  private synchronized Decision admit(Decision decided, CheckLimitRequest request) {
    if (!decided.isAllowed()) {
      throw decided.denial();
    }
    decision = decided;
    Lease lease = decided.response().getLease();
    boolean local = Leases.isLocal(decided.response());
    if (!lease.getId().isEmpty() && open) {
      parts.add(new Part(lease.getId(), heldBy(request), local, leases.renew(lease)));
    } else if (!lease.getId().isEmpty()) {
      leases.settle(lease.getId(), nothingOf(request), local, Ended.IGNORED);
    }
    mustBeOpen(); // it may have been settled during the check
    return decided;
  }

  private synchronized void mustBeOpen() {
    if (!open) {
      throw new IllegalStateException("the reservation is settled");
    }
  }

  // Distributes what was used over the parts: each gets at most what it held; the last one gets the
  // rest.
  private List<Map<String, Long>> split() {
    List<Map<String, Long>> shares = new ArrayList<>();
    Map<String, Long> left = new HashMap<>(used);
    for (Part part : parts) {
      boolean last = shares.size() == parts.size() - 1;
      Map<String, Long> share = new HashMap<>(left);
      if (!last) {
        share.replaceAll((name, value) -> Math.min(value, part.held.getOrDefault(name, 0L)));
      }
      left.replaceAll((name, value) -> value - share.get(name));
      shares.add(share);
    }
    return shares;
  }
}
