package sluice.client;

/** The call was denied. */
public class LimitedException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final transient Decision decision;

  public LimitedException(Decision decision) {
    super(
        decision.isAnswered()
            ? "rate limited"
            : "no server answered: "
                + decision.failure().getCode()
                + ": "
                + decision.failure().getDescription());
    this.decision = decision;
  }

  public Decision decision() {
    return decision;
  }
}
