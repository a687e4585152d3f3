package sluice.client;

/** The options of a {@link SluiceClient}. */
public final class Options {
  /** The decision of the client if no server answers in time. */
  public enum WithoutAnswer {
    OPEN,
    CLOSED
  }

  long deadlineMillis = 100;
  long maxWaitMillis = -1;
  WithoutAnswer withoutAnswer = WithoutAnswer.OPEN;

  /** How long a check may take; 100 ms unless set. */
  public Options deadlineMillis(long value) {
    deadlineMillis = value;
    return this;
  }

  /** OPEN: requests are allowed. CLOSED: they are denied. OPEN unless set. */
  public Options withoutAnswer(WithoutAnswer value) {
    withoutAnswer = value;
    return this;
  }

  /** The longest wait that a check accepts. None unless set, except where a leaky_bucket delays. */
  public Options maxWaitMillis(long value) {
    maxWaitMillis = value;
    return this;
  }
}
