package sluice.client;

import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.function.Function;

/**
 * Limits the methods of a gRPC server by rules, without changing them. Each call is checked with the
 * attribute {@code endpoint} (the call's full method, such as "/shop.v1.Shop/Pay") and with the
 * attributes that {@code attributes} returns. A denied call ends with RESOURCE_EXHAUSTED; if a
 * retry can succeed, {@code grpc-retry-pushback-ms} says when. If no server answers and the client
 * is CLOSED, the call ends with UNAVAILABLE.
 */
public final class LimitInterceptor implements ServerInterceptor {
  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

  private final SluiceClient client;
  private final String domain;
  private final Function<Metadata, Map<String, String>> attributes;

  public LimitInterceptor(
      SluiceClient client, String domain, Function<Metadata, Map<String, String>> attributes) {
    this.client = client;
    this.domain = domain;
    this.attributes = attributes;
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    Check check =
        Check.of(domain)
            .attributes(attributes.apply(headers))
            .attribute("endpoint", "/" + call.getMethodDescriptor().getFullMethodName());
    Decision decision;
    try {
      decision = client.check(check);
    } catch (StatusRuntimeException error) { // an error of this server, not of its caller
      throw Status.INTERNAL.withDescription("no decision").withCause(error).asRuntimeException();
    }
    if (!decision.isAllowed()) {
      return refuse(call, decision);
    }
    SluiceClient.Hold hold = client.hold(decision);
    try {
      Thread.sleep(decision.waitMillis());
      return new Releasing<>(next.startCall(new Reporting<>(call, decision), headers), decision, hold);
    } catch (InterruptedException interrupted) {
      decision.reportError(interrupted);
      hold.close();
      throw Status.CANCELLED.withCause(interrupted).asRuntimeException();
    } catch (Throwable error) { // of the interceptors and the method
      decision.reportError(error);
      hold.close();
      throw error;
    }
  }

  private static <Q, A> ServerCall.Listener<Q> refuse(ServerCall<Q, A> call, Decision decision) {
    if (!decision.isAnswered()) {
      call.close(Status.UNAVAILABLE.withDescription("no decision"), new Metadata());
      return new ServerCall.Listener<Q>() {};
    }
    Metadata trailers = new Metadata();
    if (decision.retryAfterMillis() >= 0) {
      trailers.put(PUSHBACK, Long.toString(decision.retryAfterMillis()));
    }
    call.close(Status.RESOURCE_EXHAUSTED.withDescription("rate limited"), trailers);
    return new ServerCall.Listener<Q>() {};
  }

  // Notes the status of the answer.
  private static final class Reporting<Q, A> extends SimpleForwardingServerCall<Q, A> {
    private final Decision decision;

    Reporting(ServerCall<Q, A> call, Decision decision) {
      super(call);
      this.decision = decision;
    }

    @Override
    public void close(Status status, Metadata trailers) {
      if (!status.isOk()) {
        decision.reportError(status.asRuntimeException());
      }
      super.close(status, trailers);
    }
  }

  // Releases the slot when the call has completed or was canceled.
  private static final class Releasing<Q> extends SimpleForwardingServerCallListener<Q> {
    private final Decision decision;
    private final SluiceClient.Hold hold;

    Releasing(ServerCall.Listener<Q> listener, Decision decision, SluiceClient.Hold hold) {
      super(listener);
      this.decision = decision;
      this.hold = hold;
    }

    @Override
    public void onComplete() {
      try (SluiceClient.Hold held = hold) {
        super.onComplete();
      }
    }

    @Override
    public void onCancel() {
      decision.reportError(new CancellationException());
      try (SluiceClient.Hold held = hold) {
        super.onCancel();
      }
    }
  }
}
