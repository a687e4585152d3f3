package sluice.client;

import com.google.protobuf.Duration;
import io.grpc.Status;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.StringJoiner;
import sluice.v1.CheckLimitResponse;
import sluice.v1.LimitStatus;

/** The result of a check. */
public final class Decision extends Work {
  private final boolean allowed;
  private final Status failure;
  private final CheckLimitResponse response;

  Decision(CheckLimitResponse response) {
    this.allowed = response.getDecision() == sluice.v1.Decision.DECISION_ALLOWED;
    this.failure = null;
    this.response = response;
  }

  Decision(boolean allowed, Status failure) {
    this.allowed = allowed;
    this.failure = failure;
    this.response = CheckLimitResponse.getDefaultInstance();
  }

  public boolean isAllowed() {
    return allowed;
  }

  /** False if the client decided because no server answered. */
  public boolean isAnswered() {
    return failure == null;
  }

  /** Why no server answered; null if one did. */
  public Status failure() {
    return failure;
  }

  /** How long to wait before the allowed request starts. */
  public long waitMillis() {
    return millis(response.getWait());
  }

  /** When a retry can succeed; negative: never, or unknown. */
  public long retryAfterMillis() {
    return response.hasRetryAfter() ? millis(response.getRetryAfter()) : -1;
  }

  /** The HTTP status of the answer to a request that was not allowed. */
  public int httpStatus() {
    return isAnswered() ? 429 : 503;
  }

  /** Retry-After of a denial, and the headers of draft-ietf-httpapi-ratelimit-headers. */
  public Map<String, String> headers() {
    StringJoiner policies = new StringJoiner(", ");
    StringJoiner states = new StringJoiner(", ");
    for (LimitStatus limit : response.getLimitsList()) {
      if (!limit.getShadow() && limit.hasLimit()) {
        policies.add(nameOf(limit) + ";q=" + limit.getLimit());
        long reset = ceil(millis(limit.getResetAfter()));
        states.add(nameOf(limit) + ";r=" + limit.getRemaining() + ";t=" + reset);
      }
    }
    Map<String, String> headers = new LinkedHashMap<>();
    if (policies.length() > 0) {
      headers.put("RateLimit-Policy", policies.toString());
      headers.put("RateLimit", states.toString());
    }
    if (retryAfterMillis() >= 0) {
      headers.put("Retry-After", Long.toString(Math.max(1, ceil(retryAfterMillis()))));
    }
    return headers;
  }

  public CheckLimitResponse response() {
    return response;
  }

  LimitedException denial() {
    return isAnswered() ? new LimitedException(this) : new NoAnswerException(this);
  }

  // Rounded up, so that waiting this long is always enough.
  static long millis(Duration duration) {
    return duration.getSeconds() * 1000 + (duration.getNanos() + 999_999) / 1_000_000;
  }

  private static long ceil(long millis) {
    return (millis + 999) / 1000;
  }

  // The rule's name as an RFC 8941 string, which is ASCII. For the rule's limits after the first,
  // "/" and the limit's index follow the name.
  private static String nameOf(LimitStatus limit) {
    String rule = limit.getRule().replaceAll("[^ -~]", "?").replaceAll("([\"\\\\])", "\\\\$1");
    return limit.getIndex() > 0 ? "\"" + rule + "/" + limit.getIndex() + "\"" : "\"" + rule + "\"";
  }
}
