package sluice.client;

import java.time.Duration;
import java.util.Map;
import sluice.v1.CheckLimitRequest;
import sluice.v1.Mode;

/** What a request asks for: {@code Check.of("shop").attribute("user", user).cost(5)}. */
public final class Check {
  final CheckLimitRequest.Builder request = CheckLimitRequest.newBuilder();

  private Check() {}

  public static Check of(String domain) {
    Check check = new Check();
    check.request.setDomain(domain);
    return check;
  }

  /** Leaves the attribute out if the value is null. */
  public Check attribute(String name, String value) {
    if (value != null) {
      request.putAttributes(name, value);
    }
    return this;
  }

  public Check attributes(Map<String, String> values) {
    values.forEach(this::attribute);
    return this;
  }

  /** Units to take; 1 unless set. */
  public Check cost(long units) {
    request.setCost(units);
    return this;
  }

  /** Sets an amount that limits may count besides the cost, such as tokens. */
  public Check amount(String name, long value) {
    request.putAmounts(name, value);
    return this;
  }

  /** CONSUME unless set. */
  public Check mode(Mode mode) {
    request.setMode(mode);
    return this;
  }

  /** Gives back the cost, or a part of it, of an earlier decision. */
  public Check refundOf(Decision charged) {
    request.setMode(Mode.MODE_REFUND).setChargedAt(charged.response().getDecidedAt());
    return this;
  }

  /** The longest wait that this check accepts. */
  public Check maxWait(Duration value) {
    request.setMaxWait(proto(value));
    return this;
  }

  /** Like maxWait, but only leaky_bucket limits may wait. */
  public Check maxDelay(Duration value) {
    request.setMaxDelay(proto(value));
    return this;
  }

  /** Returned unchanged. */
  public Check requestId(String value) {
    request.setRequestId(value);
    return this;
  }

  /** Takes the units under a lease of this ttl; {@code reserve} sets it. */
  public Check leaseTtl(Duration value) {
    request.setLeaseTtl(proto(value));
    return this;
  }

  static com.google.protobuf.Duration proto(Duration value) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(value.getSeconds())
        .setNanos(value.getNano())
        .build();
  }
}
