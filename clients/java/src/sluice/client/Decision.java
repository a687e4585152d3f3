package sluice.client;

import com.google.protobuf.Duration;
import sluice.v1.CheckLimitResponse;

/** The result of a check. */
public final class Decision {
  private final boolean allowed;
  private final boolean answered;
  private final CheckLimitResponse response;

  Decision(boolean allowed, boolean answered, CheckLimitResponse response) {
    this.allowed = allowed;
    this.answered = answered;
    this.response = response;
  }

  public boolean isAllowed() {
    return allowed;
  }

  /** False if the client decided because no server answered. */
  public boolean isAnswered() {
    return answered;
  }

  /** How long to wait before the allowed request starts. */
  public long waitMillis() {
    return millis(response.getWait());
  }

  /** When a retry can succeed; negative: never, or unknown. */
  public long retryAfterMillis() {
    return response.hasRetryAfter() ? millis(response.getRetryAfter()) : -1;
  }

  public CheckLimitResponse response() {
    return response;
  }

  // Rounded up, so that waiting this long is always enough.
  static long millis(Duration duration) {
    return duration.getSeconds() * 1000 + (duration.getNanos() + 999_999) / 1_000_000;
  }
}
