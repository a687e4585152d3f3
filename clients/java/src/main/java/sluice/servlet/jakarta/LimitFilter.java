package sluice.servlet.jakarta;

import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Map;
import java.util.function.Function;
import sluice.client.Check;
import sluice.client.Decision;
import sluice.client.SluiceClient;

/**
 * Limits requests by rules. Each is checked with the attributes {@code endpoint} (the path), {@code method},
 * {@code client_ip}, and with the attributes that {@code attributes} returns. A denied request gets
 * 429, and Retry-After if a retry can succeed. If no server answers and the client is CLOSED, a
 * request gets 503. If limits were checked, the response has RateLimit and RateLimit-Policy. The
 * application finds the decision in the request's attribute {@link #DECISION}.
 *
 * <p>There are two such classes, one for each name of the servlet API.
 */
public final class LimitFilter implements Filter {
  /** The name of the attribute of a request that holds its {@link Decision}. */
  public static final String DECISION = "sluice.decision";

  private final SluiceClient client;
  private final String domain;
  private final Function<HttpServletRequest, Map<String, String>> attributes;

  public LimitFilter(
      SluiceClient client,
      String domain,
      Function<HttpServletRequest, Map<String, String>> attributes) {
    this.client = client;
    this.domain = domain;
    this.attributes = attributes;
  }

  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    SluiceClient.Hold hold = admit((HttpServletRequest) request, (HttpServletResponse) response);
    if (hold == null) {
      return;
    }
    try {
      chain.doFilter(request, response);
    } catch (IOException | ServletException | RuntimeException | Error error) {
      reportError((HttpServletRequest) request, error);
      throw error;
    } finally {
      if (request.isAsyncStarted()) {
        request.getAsyncContext().addListener(new Releasing(hold));
      } else {
        hold.close();
      }
    }
  }

  /** The slot to close when the request has ended; null if the request was denied and answered. */
  public SluiceClient.Hold admit(HttpServletRequest request, HttpServletResponse response)
      throws IOException {
    Decision decision =
        client.check(
            Check.of(domain)
                .attribute("endpoint", request.getServletPath() + pathInfo(request))
                .attribute("method", request.getMethod())
                .attribute("client_ip", request.getRemoteAddr())
                .attributes(attributes.apply(request)));
    decision.headers().forEach(response::setHeader);
    if (!decision.isAllowed()) {
      response.setStatus(decision.httpStatus());
      response.setContentType("text/plain");
      response.getWriter().println(decision.isAnswered() ? "too many requests" : "no decision");
      return null;
    }
    request.setAttribute(DECISION, decision);
    SluiceClient.Hold hold = client.hold(decision);
    try {
      Thread.sleep(decision.waitMillis());
      return () -> {
        decision.reportHttpStatus(response.getStatus());
        hold.close();
      };
    } catch (InterruptedException interrupted) {
      hold.close();
      Thread.currentThread().interrupt();
      throw new IOException(interrupted);
    }
  }

  /** Reports why a request that was admitted failed. */
  public static void reportError(HttpServletRequest request, Throwable error) {
    ((Decision) request.getAttribute(DECISION)).reportError(error);
  }

  private static String pathInfo(HttpServletRequest request) {
    return request.getPathInfo() == null ? "" : request.getPathInfo();
  }

  private static final class Releasing implements AsyncListener {
    private final SluiceClient.Hold hold;

    Releasing(SluiceClient.Hold hold) {
      this.hold = hold;
    }

    @Override
    public void onComplete(AsyncEvent event) {
      hold.close();
    }

    @Override
    public void onTimeout(AsyncEvent event) {}

    @Override
    public void onError(AsyncEvent event) {}

    @Override
    public void onStartAsync(AsyncEvent event) {
      event.getAsyncContext().addListener(this);
    }
  }
}
