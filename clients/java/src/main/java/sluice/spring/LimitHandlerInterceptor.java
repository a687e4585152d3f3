package sluice.spring;

import java.util.Map;
import java.util.function.Function;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.springframework.web.servlet.HandlerInterceptor;
import org.springframework.web.servlet.ModelAndView;
import sluice.client.SluiceClient;
import sluice.servlet.javax.LimitFilter;

/**
 * Does in Spring MVC what {@link LimitFilter} does in a servlet container, for the paths that it is
 * registered for: {@code registry.addInterceptor(…).addPathPatterns("/pay/**")}.
 *
 * <p>For Spring 4 and 5, which use javax. In Spring 6, use {@code sluice.servlet.jakarta.LimitFilter}.
 */
public final class LimitHandlerInterceptor implements HandlerInterceptor {
  private static final String HOLD = LimitHandlerInterceptor.class.getName() + ".hold";
  private final LimitFilter limits;

  public LimitHandlerInterceptor(
      SluiceClient client,
      String domain,
      Function<HttpServletRequest, Map<String, String>> attributes) {
    limits = new LimitFilter(client, domain, attributes);
  }

  @Override
  public boolean preHandle(
      HttpServletRequest request, HttpServletResponse response, Object handler) throws Exception {
    if (request.getAttribute(HOLD) != null) { // the second dispatch of an asynchronous request
      return true;
    }
    SluiceClient.Hold hold = limits.admit(request, response);
    request.setAttribute(HOLD, hold);
    return hold != null;
  }

  @Override
  public void postHandle(
      HttpServletRequest request, HttpServletResponse response, Object handler, ModelAndView view) {}

  /** For an asynchronous request, this is called after its second dispatch. */
  @Override
  public void afterCompletion(
      HttpServletRequest request, HttpServletResponse response, Object handler, Exception error) {
    if (error != null) {
      LimitFilter.reportError(request, error);
    }
    ((SluiceClient.Hold) request.getAttribute(HOLD)).close();
  }
}
