package sluice.client;

/** The call was denied. */
public final class LimitedException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final transient Decision decision;

  public LimitedException(Decision decision) {
    super("rate limited");
    this.decision = decision;
  }

  public Decision decision() {
    return decision;
  }
}
