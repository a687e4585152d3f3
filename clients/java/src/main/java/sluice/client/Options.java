package sluice.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** The options of a {@link SluiceClient}. */
public final class Options {
  /** The decision of the client if no server answers in time. */
  public enum WithoutAnswer {
    OPEN,
    CLOSED
  }

  Supplier<String> token = () -> null;
  ChannelCredentials credentials = InsecureChannelCredentials.create();
  Duration deadline = Duration.ofMillis(100);
  WithoutAnswer withoutAnswer = WithoutAnswer.OPEN;
  Duration maxWait;
  Duration connectTimeout = Duration.ofSeconds(2);
  Duration leaseTtl = Duration.ofMinutes(1);
  Duration settleFor = Duration.ofMinutes(10);
  int maxSettlements = 10_000;
  Duration drain = Duration.ofSeconds(5);
  BooleanSupplier overloaded = () -> false;

  /** The caller's token. */
  public Options token(String value) {
    return token(() -> value);
  }

  /**
   * The caller's token, if it may be replaced: {@code value} is called for each call, on any thread. If it
   * throws, a check throws, too; calls in the background are repeated.
   */
  public Options token(Supplier<String> value) {
    token = value;
    return this;
  }

  /** TLS, with {@code TlsChannelCredentials}. Plain text unless set. */
  public Options credentials(ChannelCredentials value) {
    credentials = value;
    return this;
  }

  /** How long a check may take; 100 ms unless set. */
  public Options deadline(Duration value) {
    deadline = value;
    return this;
  }

  /** OPEN: requests are allowed. CLOSED: they are denied. OPEN unless set. */
  public Options withoutAnswer(WithoutAnswer value) {
    withoutAnswer = value;
    return this;
  }

  /** The longest wait that a check accepts. Without it, only a leaky_bucket makes a check wait. */
  public Options maxWait(Duration value) {
    maxWait = value;
    return this;
  }

  /** How long the constructor waits for a connection and a first answer; 2 s unless set. */
  public Options connectTimeout(Duration value) {
    connectTimeout = value;
    return this;
  }

  /** The ttl of a reservation's leases, which are renewed; 1 min unless set. */
  public Options leaseTtl(Duration value) {
    leaseTtl = value;
    return this;
  }

  /** How long the client tries to store a settlement; 10 min unless set. */
  public Options settleFor(Duration value) {
    settleFor = value;
    return this;
  }

  /** How many settlements may wait to be stored; others are lost. 10,000 unless set. */
  public Options maxSettlements(int value) {
    maxSettlements = value;
    return this;
  }

  /** How long {@code close} waits for settlements and releases; 5 s unless set. */
  public Options drain(Duration value) {
    drain = value;
    return this;
  }

  /**
   * Whether this process is overloaded. If so, limits with {@code adapt} learn OVERLOAD even from work that
   * went well. Usually {@code Load.above(0.9, 0.9)}; never unless set. An exception counts as false.
   */
  public Options overloaded(BooleanSupplier value) {
    overloaded = value;
    return this;
  }
}
