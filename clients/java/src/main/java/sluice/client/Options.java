package sluice.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import java.time.Duration;
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

  /** The caller's token. */
  public Options token(String value) {
    return token(() -> value);
  }

  /** The caller's token, if it may be replaced: asked for each call. */
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

  /** The longest wait that a check accepts. None unless set, except where a leaky_bucket delays. */
  public Options maxWait(Duration value) {
    maxWait = value;
    return this;
  }

  /** How long the constructor waits for a connection and a first answer; 2 s unless set. */
  public Options connectTimeout(Duration value) {
    connectTimeout = value;
    return this;
  }
}
