package sluice.client;

/** The call was denied by the client, which is CLOSED, because no server answered. */
public final class NoAnswerException extends LimitedException {
  private static final long serialVersionUID = 1;

  NoAnswerException(Decision decision) {
    super(decision);
  }
}
